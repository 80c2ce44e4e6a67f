"""Sizes of wrapper subclasses that change between calls: two graphs for any number of sizes, and one with `dynamic=True`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor

import stator
from tests.programs.tensors.wrappers import BACKENDS, outcome, parts, quantize, scaled, two
from tests.support.long import LONG


class Doubled(TwoTensor):
    """Has twice as many rows as the tensor in it, and branches on the rows of that."""

    @staticmethod
    def __new__(cls, inner):
        size = (inner.shape[0] * 2, *inner.shape[1:])
        return torch.Tensor._make_wrapper_subclass(cls, size, inner.stride(), dtype=inner.dtype, device=inner.device)

    def __init__(self, inner):
        self.inner, self.rows = inner, inner.shape[0]

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Doubled(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        inner = [one.inner if isinstance(one, cls) else one for one in args]
        result = func(*inner, **(kwargs or {}))
        return cls(result + 2 if inner[0].shape[0] > 5 else result)


class Counted(Doubled):
    """Its context has a size in it."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)

    def __tensor_flatten__(self):
        return ["inner"], self.rows

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Counted(inner["inner"])


def counts(
    program: Callable[..., Any], make: Callable[[int], tuple[Any, ...]], sizes: Any, **options: Any
) -> list[int]:
    """How many graphs there are after each call."""
    compiled = stator.compile(program, fullgraph=True, isolate_recompiles=True, **options)
    captured = []
    with stator.watch() as report:
        for size in sizes:
            assert outcome(compiled, make(size)) == outcome(program, make(size))
            captured.append(len(report.graphs))
    return captured


def made_of_rows(x):
    y = quantize(x)
    return y, y.data8 + 1, y.t(), y.shape, y * x.shape[0]


PROGRAMS: list[tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]]]] = [
    (lambda x: x * x.shape[0], lambda n: (two(n, 4, grad=True),)),
    (lambda x: x.view(-1)[1:] + x.size(0), lambda n: (two(n, 4),)),
    (lambda x: ((x + 1).a * 2, x.b, x.t() @ x), lambda n: (two(n, 4),)),
    (lambda x, w: nn.functional.linear(x, w).relu(), lambda n: (torch.ones(n, 3, requires_grad=True), scaled(4, 3))),
    (lambda x, w: nn.functional.linear(x, w).relu(), lambda n: (torch.ones(2, 3, requires_grad=True), scaled(n, 3))),
    (lambda x: x * 2 + x.shape[0], lambda n: (TwoTensor(two(n), two(n, seed=1)),)),
    (made_of_rows, lambda n: (torch.arange(2.0 * n).view(n, 2),)),
    (lambda x: x.mul_(2) + x, lambda n: (two(n),)),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs(number):
    program, make = PROGRAMS[number]
    for backend in BACKENDS if LONG else {"eager", BACKENDS[1 + number % 2]}:
        assert counts(program, make, (5, 6, 7, 9), backend=backend) == [1, 2, 2, 2]


@pytest.mark.parametrize("number", range(0, len(PROGRAMS), 1 if LONG else 3))
def test_dynamic_from_the_start(number):
    program, make = PROGRAMS[number]
    assert counts(program, make, (5, 6, 7, 9), backend="aot_eager", dynamic=True) == [1, 1, 1, 1]
    assert counts(program, make, (5, 6, 7), backend="eager", dynamic=False) == [1, 2, 3]


def test_what_dispatch_compares_is_guarded():
    """One graph for at most five rows in the tensor inside, and one for more."""

    def make(rows: int) -> tuple[Any, ...]:
        return (Doubled(torch.arange(3.0 * rows).view(rows, 3)),)

    compiled = stator.compile(lambda x: x * 2, backend="eager", fullgraph=True, dynamic=True)
    with stator.watch() as report:
        for rows, graphs in ((4, 1), (5, 1), (2, 1), (6, 2), (9, 2), (3, 2)):
            assert parts(compiled(*make(rows))) == parts(make(rows)[0] * 2)
            assert len(report.graphs) == graphs


def test_numbers_that_a_wrapper_keeps():
    """An attribute of a result that is a size, and a context with a size in it, which is a constant of the graph."""
    program = lambda x: (x * 2).rows + x.shape[0]  # noqa: E731
    for kind, captured in ((Doubled, [1, 2, 2, 2]), (Counted, [1, 2, 3, 4])):
        make = lambda n, kind=kind: (kind(torch.ones(n, 3)),)  # noqa: E731
        compiled = stator.compile(program, backend="eager", fullgraph=True, isolate_recompiles=True)
        with stator.watch() as report:
            seen = []
            for rows in (2, 3, 4, 5):
                assert compiled(*make(rows)) == program(*make(rows))
                seen.append(len(report.graphs))
        assert seen == captured


def test_marks():
    """`mark_dynamic` marks the tensors inside too; parameters keep their sizes."""
    program = lambda x: x.view(-1) * 2  # noqa: E731
    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    with stator.watch() as report:
        for rows in (3, 5, 8):
            x = two(rows, 4)
            torch._dynamo.mark_dynamic(x, 0)
            assert parts(compiled(x)) == parts(program(x))
    assert len(report.graphs) == 1
    layer = nn.Linear(4, 4)
    layer.weight = nn.Parameter(two(4, 4))
    graphs: list[str] = []
    backend = lambda graph, inputs: graphs.append(graph.print_readable(print_output=False)) or graph  # noqa: E731
    stator.compile(layer, backend=backend, fullgraph=True, dynamic=True)(torch.ones(3, 4))
    assert "TwoTensor(f32[4, 4])" in graphs[0]


def test_a_second_backward_pass():
    compiled = stator.compile(lambda x: x * x * x.shape[0], backend="aot_eager", fullgraph=True, dynamic=True)
    x = two(3, 4, grad=True)
    y = compiled(x)
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    assert parts(x.grad) == parts(x.detach() * 12)


class Multiplied(TwoTensor):
    """Its context is computed from a size when it is asked for, and is a factor of results."""

    @staticmethod
    def __new__(cls, inner, factor=None):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner, factor=None):
        self.inner, self.factor = inner, factor

    def __tensor_flatten__(self):
        return ["inner"], (self.inner.shape[0] if self.factor is None else self.factor,)

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Multiplied(inner["inner"], *context)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        factor = args[0].__tensor_flatten__()[1][0]
        return cls(func(*[one.inner if isinstance(one, cls) else one for one in args]) * factor)


@pytest.mark.parametrize("dynamic", [None, True])
def test_contexts_that_are_computed_from_sizes(dynamic):
    def program(x):
        return torch.add(Multiplied(x), 1).inner

    compiled = stator.compile(program, backend="eager", dynamic=dynamic)
    for size in (3, 5, 4, 5, 7):
        assert torch.equal(compiled(torch.ones(size)), program(torch.ones(size)))
