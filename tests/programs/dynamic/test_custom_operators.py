"""Custom operators on sizes that depend on data, and with results of such sizes."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import stator
from tests.support import engine
from tests.support.compare import Comparison

torch.library.define("stator_sizes::positive", "(Tensor x) -> Tensor")
torch.library.define("stator_sizes::split", "(Tensor x) -> (Tensor, Tensor)")
torch.library.define("stator_sizes::twice", "(Tensor x) -> Tensor")
torch.library.define("stator_sizes::first", "(Tensor x, SymInt n) -> Tensor")
torch.library.define("stator_sizes::pairs", "(Tensor x, Tensor y) -> Tensor")

torch.library.define("stator_sizes::add_", "(Tensor(a!) x, Tensor y) -> ()")

OPERATORS = torch.ops.stator_sizes


def new_size(**bounds):
    return torch.library.get_ctx().new_dynamic_size(**bounds)


def fake_split(x):
    # An untrue bound: it must not decide anything.
    return x.new_empty(new_size(min=1)), x.new_empty(new_size())


def add_in_place(x, y):
    x.add_(y)


def fake_pairs(x, y):
    torch._check(x.shape[0] == y.shape[0])
    return x.new_empty(2, x.shape[0])


IMPLEMENTATIONS = {
    "positive": (lambda x: x[x > 0], lambda x: x.new_empty(new_size())),
    "split": (lambda x: (x[x > 0], x[x <= 0]), fake_split),
    "twice": (lambda x: x * 2, torch.empty_like),
    "first": (lambda x, n: x[:n].clone(), lambda x, n: x.new_empty(n)),
    "pairs": (lambda x, y: torch.stack([x[: len(y)], y[: len(x)]]), fake_pairs),
    "add_": (add_in_place, lambda x, y: None),
}
for name, (real, fake) in IMPLEMENTATIONS.items():
    torch.library.impl(f"stator_sizes::{name}", "CPU")(real)
    torch.library.register_fake(f"stator_sizes::{name}")(fake)


def writes_to_a_result(x):
    y = x[x > 0]
    z = y.exp()
    OPERATORS.add_(z, y)
    return z * 2, y


def writes_to_an_input(x):
    OPERATORS.add_(x, x[x > 0].sum())
    return x * 2


def writes_through_a_view(x):
    y = x[x > 0]
    OPERATORS.add_(y[:], torch.ones(()))
    return y


PROGRAMS = {
    "a write to a result": writes_to_a_result,
    "a write to an input": writes_to_an_input,
    "a write through a view": writes_through_a_view,
    "an operator of ATen": lambda x: torch.ops.aten.mul.Tensor(x[x > 0], 2),
    "another": lambda x: torch.ops.aten.exp(torch.ops.aten.cumsum(x[x > 0], 0)) + 1,
    "with two results": lambda x: torch.ops.aten.sort(x[x > 0], 0),
    "that draws": lambda x: torch.ops.aten.rand_like(x[x > 0]).shape,
    "a new size": lambda x: OPERATORS.positive(x),
    "and operations on it": lambda x: OPERATORS.positive(x).exp().sum() + 1,
    "as a number": lambda x: OPERATORS.positive(x).shape[0] * 2,
    "for another tensor": lambda x: torch.zeros(OPERATORS.positive(x).shape[0], 3),
    "two of them": lambda x: [part * 2 for part in OPERATORS.split(x)],
    "on such a size": lambda x: OPERATORS.twice(x[x > 0]) + 1,
    "one after the other": lambda x: OPERATORS.twice(OPERATORS.positive(x)),
    "a number as argument": lambda x: OPERATORS.first(x, int((x > 0).sum().item())),
    "with equal sizes": lambda x: OPERATORS.pairs(x[x > 0], torch.zeros(int((x > 0).sum()))),
}
INPUTS = [[1.0, -1.0, 0.0, 2.0], [0.0, -1.0, 0.0, -2.0], [1.0, 1.0, 3.0, 2.0], [0.0, 5.0, -1.0, -1.0]]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_graph(name, backend):
    if name in ("another", "with two results", "that draws") and torch.torch_version.TorchVersion(torch.__version__) < (
        2,
        13,
    ):
        pytest.skip("operators of ATen have no rules for such sizes in this version of PyTorch")
    program = PROGRAMS[name]
    engine.reset()
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    before = engine.captures()
    for numbers in INPUTS:
        x = torch.tensor(numbers)
        y = x.clone()
        Comparison().same(program(y), compiled(x), "results")
        assert torch.equal(x, y)
    assert engine.captures() - before == 1


def test_changing_sizes_of_the_argument():
    engine.reset()
    compiled = stator.compile(PROGRAMS["one after the other"], dynamic=True, fullgraph=True)
    before = engine.captures()
    for size in (4, 7, 9):
        x = torch.randn(size)
        assert torch.equal(compiled(x), x[x > 0] * 2)
    assert engine.captures() - before == 1


def test_bounds_that_are_not_true_decide_nothing():
    def program(x):
        positive, _ = OPERATORS.split(x)
        return x + 1 if positive.shape[0] >= 1 else x - 1

    compiled = stator.compile(program)
    for numbers in INPUTS:
        x = torch.tensor(numbers)
        assert torch.equal(compiled(x), program(x))


def test_it_breaks_the_graph_without_the_settings():
    x = torch.tensor(INPUTS[0])
    report = stator.explain(PROGRAMS["a new size"])(x)
    assert [one.kind for one in report.breaks] == ["data-dependent"]


def test_a_condition_of_the_fake_implementation_is_checked():
    def program(x, y):
        return OPERATORS.pairs(x[x > 0], y[y > 0])

    engine.reset()
    compiled = stator.compile(program, fullgraph=True)
    for first, second in ((0, 0), (0, 2), (2, 0), (1, 1), (3, 0)):
        x, y = torch.tensor(INPUTS[first]), torch.tensor(INPUTS[second])
        # If it does not hold, the call runs uncompiled.
        assert torch.equal(compiled(x, y), program(x, y))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_whole_parts_of_numbers_from_tensors(backend):
    compiled = stator.compile(lambda t: torch.zeros(int(t.item())), backend=backend, fullgraph=True)
    for size in (3, 0, 1, 5):
        assert compiled(torch.tensor(size)).shape == (size,)


def test_operators_that_may_return_an_argument_break_the_graph():
    def program(x):
        y = x[x > 0]
        z = torch.ops.aten.reshape.default(y, [-1])
        z.add_(1)
        return y, z

    compiled = stator.compile(program)
    for numbers in INPUTS:
        x = torch.tensor(numbers)
        Comparison().same(program(x), compiled(x), "results")
    report = stator.explain(program)(torch.tensor(INPUTS[0]))
    assert [one.kind for one in report.breaks] == ["data-dependent"]
