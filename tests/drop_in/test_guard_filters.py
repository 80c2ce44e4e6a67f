"""`options={"guard_filter_fn": ...}`: the program decides which guards are checked."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

import stator

pytestmark = pytest.mark.usefixtures("installed")

NUMBER = 1


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.scale = 2

    def forward(self, x):
        return self.norm(x) * self.scale + NUMBER


def set_scale(net):
    net.scale = 3


def set_eps(net):
    net.norm.eps = 0.1


def set_global(net):
    global NUMBER
    NUMBER = 2


CHANGES = {"scale": set_scale, "eps": set_eps, "global": set_global, "size": None}

# What each helper of torch does not check.
HELPERS = {
    "skip_guard_on_inbuilt_nn_modules_unsafe": {"eps"},
    "skip_guard_on_all_nn_modules_unsafe": {"eps", "scale"},
    "skip_guard_on_globals_unsafe": {"global"},
    "keep_tensor_guards_unsafe": {"eps", "scale", "global"},
    "keep_portable_guards_unsafe": {"eps", "scale", "global"},
    "skip_all_guards_unsafe": {"eps", "scale", "global", "size"},
}


@pytest.fixture(autouse=True)
def number():
    global NUMBER
    NUMBER = 1
    yield
    NUMBER = 1


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("helper", HELPERS)
@pytest.mark.parametrize("compile", [torch.compile, stator.compile])
def test_the_helpers_of_torch(helper, change, compile):
    if not hasattr(torch.compiler, helper):
        pytest.skip(f"torch {torch.__version__} has no {helper}")
    counter = CompileCounter()
    net = Net()
    options = {"guard_filter_fn": getattr(torch.compiler, helper)}
    compiled = compile(net, backend=counter, options=options, dynamic=False)
    x = torch.randn(3, 4)
    assert torch.equal(compiled(x), net(x))
    if CHANGES[change] is None:
        x = torch.randn(5, 4)
    else:
        CHANGES[change](net)
    compiled(x)
    assert counter.frame_count == (1 if change in HELPERS[helper] else 2)


def test_what_a_filter_sees():
    seen = []

    def keep_all(entries):
        seen.extend(entries)
        return [True for _ in entries]

    net = Net()
    torch.compile(net, backend="eager", options={"guard_filter_fn": keep_all})(torch.randn(3, 4))
    by_name = {(entry.name, entry.guard_type): entry for entry in seen}
    scale = by_name["self.scale", "CONSTANT_MATCH"]
    assert (scale.has_value, scale.value, scale.derived_guard_types) == (True, 2, ("EQUALS_MATCH",))
    assert scale.orig_guard.source.is_unspecialized_nn_module()
    assert not scale.orig_guard.source.is_unspecialized_builtin_nn_module()
    assert scale.orig_guard.name == "L['self'].scale"
    assert by_name["G['NUMBER']", "CONSTANT_MATCH"].is_global
    assert {("", "SHAPE_ENV"), ("", "GLOBAL_STATE")} <= by_name.keys()
    weight = next(entry for entry in seen if entry.guard_type == "TENSOR_MATCH" and entry.value is net.norm.weight)
    assert weight.orig_guard.source.is_unspecialized_builtin_nn_module()


def test_modes_are_a_guard():
    counter = CompileCounter()
    compiled = torch.compile(
        lambda x: x + 1,
        backend=counter,
        options={"guard_filter_fn": lambda entries: [entry.guard_type != "GLOBAL_STATE" for entry in entries]},
    )
    x = torch.ones(2)
    compiled(x)
    with torch.no_grad():
        compiled(x)
    assert counter.frame_count == 1


def test_relations_between_sizes_are_a_guard():
    def program(x):
        return x + 1 if x.shape[0] > 5 else x - 1

    def without_relations(entries):
        return [entry.guard_type != "SHAPE_ENV" for entry in entries]

    counter = CompileCounter()
    compiled = torch.compile(program, backend=counter, dynamic=True, options={"guard_filter_fn": without_relations})
    assert compiled(torch.zeros(9)).sum() == 9
    assert compiled(torch.zeros(3)).sum() == 3
    assert counter.frame_count == 1


def test_what_could_be_read_wrongly_stays_guarded():
    """The class of what a graph or a side effect receives."""
    counter = CompileCounter()

    def program(x, items):
        items.append(x + 1)
        return x * 2

    options = {"guard_filter_fn": torch.compiler.skip_all_guards_unsafe}
    compiled = torch.compile(program, backend=counter, options=options)
    items: list = []
    compiled(torch.ones(2), items)
    compiled(torch.ones(3), items)
    assert counter.frame_count == 1 and len(items) == 2

    class Other:
        def append(self, item):
            self.item = item

    other = Other()
    compiled(torch.ones(2), other)
    assert other.item.tolist() == [2.0, 2.0]
    assert compiled(3, items) == 6


@pytest.mark.parametrize("answer", [lambda entries: [True], lambda entries: [1 for _ in entries]])
def test_answers_that_are_none(answer):
    with pytest.raises(AssertionError, match="guard_filter_fn"):
        torch.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": answer})(torch.ones(2))


def test_errors_of_a_filter_reach_the_caller():
    def failing(entries):
        raise KeyError("for a test")

    with pytest.raises(KeyError, match="for a test"):
        torch.compile(lambda x: x + 1, backend="eager", options={"guard_filter_fn": failing})(torch.ones(2))
