"""Entries that differ by sizes, or by what a program made of sizes: the right one is found, in any order."""

from __future__ import annotations

import random

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import stator
from tests.support import engine
from tests.support.compare import assert_same


def by_number(x):
    return x.sum(0) * len([None for _ in range(x.shape[1])])


def by_text(x):
    return x * 2, f"{x.shape[1]}"


def by_branch(x):
    return x * 2 if x.shape[1] % 3 == 0 else x + x.shape[1] if x.shape[1] > 11 else x - 1


def by_stride(x):
    return x * len([None for _ in range(x.stride(0))])


@pytest.mark.parametrize("program", [by_number, by_text, by_branch, by_stride])
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_the_right_entry_is_found_among_many(program, dynamic):
    engine.reset()
    numbers = random.Random(3)
    with stator.config.patch(recompile_limit=1000):
        compiled = stator.compile(program, fullgraph=True, dynamic=dynamic)
        tensors = [torch.randn(2 + i % 5, 2 + i % 20) for i in range(60)]
        for x in tensors:
            assert_same(program(x), compiled(x))
        before = engine.captures()
        numbers.shuffle(tensors)
        for x in tensors:
            assert_same(program(x), compiled(x))
        assert engine.captures() == before


def test_a_specialized_size_is_part_of_the_guard_on_the_tensor():
    engine.reset()
    compiled = stator.compile(by_text)
    with stator.watch() as report:
        for x in (torch.ones(3, 4), torch.ones(5, 6), torch.ones(7, 8)):
            compiled(x)
    last = report.captures[-1]
    assert "L['x'] is torch.Tensor f32[?, 8] strides [8, 1] cpu" in last.guards
    assert not any(".size()" in guard for guard in last.guards)


def parts_of(value):
    """The elements of a result of any kind, as plain values."""
    if isinstance(value, TwoTensor):
        return [parts_of(value.a), parts_of(value.b)]
    if isinstance(value, torch.Tensor) and value.is_nested:
        return [parts_of(part) for part in value.unbind()]
    if isinstance(value, torch.Tensor):
        return value.layout, value.to_dense().tolist()
    return value


UNUSUAL = {
    "an int": lambda: 7,
    "a list": lambda: [1, 2],
    "text": lambda: "ab",
    "a nested tensor": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "a sparse tensor": lambda: torch.eye(3).to_sparse(),
    "a tensor subclass": lambda: TwoTensor(torch.ones(2, 3), torch.full((2, 3), 2.0)),
    "a parameter": lambda: torch.nn.Parameter(torch.ones(2, 3)),
    "a tensor without dimensions": lambda: torch.tensor(3.0),
}


@pytest.mark.parametrize("dynamic", [None, False])
@pytest.mark.parametrize("name", UNUSUAL)
def test_arguments_of_other_kinds_among_many_entries(name, dynamic):
    def program(x):
        return x + x

    engine.reset()
    with stator.config.patch(recompile_limit=1000):
        compiled = stator.compile(program, dynamic=dynamic)
        tensors = [torch.randn(2 + i, 3) for i in range(20)]
        for x in [*tensors, *tensors]:
            assert_same(program(x), compiled(x))
        for _ in range(2):
            x = UNUSUAL[name]()
            expected, actual = program(x), compiled(x)
            assert type(expected) is type(actual)
            assert parts_of(expected) == parts_of(actual)
        before = engine.captures()
        for x in tensors:
            assert_same(program(x), compiled(x))
        assert engine.captures() == before
