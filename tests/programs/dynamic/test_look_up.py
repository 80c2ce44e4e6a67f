"""Entries that differ by sizes, or by what a program made of sizes: the right one is found, in any order."""

from __future__ import annotations

import random

import pytest
import torch

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
