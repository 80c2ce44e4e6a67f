"""`options={"guard_filter_fn": ...}`: the user decides which guards are not checked."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import stator

SCALE = 2


def captures(program, *calls):
    with stator.watch() as report:
        results = [program(*call) for call in calls]
    return len(report.captures), results


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.factor = 2
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return self.norm(x) * self.factor * SCALE


def all_but(**wanted):
    def keep(entries):
        return [any(getattr(entry, name) != value for name, value in wanted.items()) for entry in entries]

    return keep


def test_an_argument_by_its_name_and_value():
    def program(x, y):
        return x if y is None else x + y

    options = {"guard_filter_fn": all_but(name="y", value=None)}
    compiled = stator.compile(program, fullgraph=True, options=options)
    x = torch.ones(2)
    count, results = captures(compiled, (x, None), (x, torch.ones(2)))
    assert count == 1
    assert torch.equal(results[1], x)


def test_a_global(monkeypatch):
    compiled = stator.compile(
        lambda x: x * SCALE, options={"guard_filter_fn": torch.compiler.skip_guard_on_globals_unsafe}
    )
    compiled(torch.ones(2))
    monkeypatch.setattr(f"{__name__}.SCALE", 5)
    count, (result,) = captures(compiled, (torch.ones(2),))
    assert count == 0
    assert torch.equal(result, torch.full((2,), 2.0))


@pytest.mark.parametrize(
    ("filter_name", "factor_is_checked", "eps_is_checked"),
    [
        ("skip_guard_on_inbuilt_nn_modules_unsafe", True, False),
        ("skip_guard_on_all_nn_modules_unsafe", False, False),
        ("keep_tensor_guards_unsafe", False, False),
        ("skip_all_guards_unsafe", False, False),
    ],
)
def test_the_filters_of_torch(filter_name, factor_is_checked, eps_is_checked):
    model = Model()
    compiled = stator.compile(model, options={"guard_filter_fn": getattr(torch.compiler, filter_name)})
    x = torch.ones(3, 4)
    compiled(x)
    model.factor = 3
    assert captures(compiled, (x,))[0] == int(factor_is_checked)
    model.norm.eps = 0.1
    assert captures(compiled, (x,))[0] == int(eps_is_checked)


def test_what_the_graph_reads_is_safe():
    """Without the guards on containers, reading the tensors in them would crash."""

    def program(things):
        return things[0]["x"] + things[1]

    compiled = stator.compile(program, options={"guard_filter_fn": torch.compiler.skip_all_guards_unsafe})
    one, two = torch.ones(2), torch.full((2,), 2.0)
    assert torch.equal(compiled([{"x": one}, two]), one + two)
    assert torch.equal(compiled(({"x": two}, two)), two + two)
    with pytest.raises(IndexError):
        compiled([])
    with pytest.raises(TypeError):
        compiled([None, one])


def test_under_install():
    with stator.installed():
        compiled = torch.compile(
            lambda x, y: x + y, backend="eager", options={"guard_filter_fn": all_but(guard_type="EQUALS_MATCH")}
        )
        assert torch.equal(compiled(torch.ones(2), 1), torch.full((2,), 2.0))
        assert torch.equal(compiled(torch.ones(2), 5), torch.full((2,), 2.0))


def test_a_filter_with_too_few_answers():
    with pytest.raises(ValueError, match="0 answers"):
        stator.compile(lambda x: x + 1, options={"guard_filter_fn": lambda entries: []})(torch.ones(2))
