"""Functions with `functools.lru_cache` that are called with tensors."""

from __future__ import annotations

import functools
import types

import pytest
import torch

import stator


@functools.lru_cache
def doubled(x, times=2):
    return x * times


def program(x):
    return doubled(x) + 1


@pytest.fixture(autouse=True)
def empty_cache():
    doubled.cache_clear()
    stator.reset()


def test_a_result_that_is_cached_is_used():
    x = torch.ones(3)
    held = doubled(x)
    compiled = stator.compile(lambda x: (doubled(x), doubled(x) + 1), fullgraph=True, backend="eager")
    for _ in range(2):
        result, more = compiled(x)
        assert result is held and torch.equal(more, x * 2 + 1)


def change_cached_data(x):
    with torch.no_grad():
        doubled(x).fill_(7.0)


def change_argument(x):
    x.fill_(5.0)


def require_gradient(x):
    doubled(x).requires_grad_()


def forget(x):
    doubled.cache_clear()


def replace(x):
    doubled.cache_clear()
    x.fill_(9.0)
    doubled(x)


@pytest.mark.parametrize("change", [change_cached_data, change_argument, require_gradient, forget, replace])
def test_the_cache_changes(change):
    x = torch.ones(3)
    doubled(x)
    compiled = stator.compile(program, backend="eager")
    assert torch.equal(compiled(x), program(x))
    change(x)
    for _ in range(2):
        result, expected = compiled(x), program(x)
        assert torch.equal(result, expected) and result.requires_grad == expected.requires_grad


def test_tensors_that_are_not_cached_share_a_capture():
    compiled = stator.compile(program, backend="eager")
    for number in range(20):
        x = torch.full((3,), float(number))
        assert torch.equal(compiled(x), x * 2 + 1)
        assert torch.equal(compiled(x), x * 2 + 1)
    info = doubled.cache_info()
    assert (info.misses, info.hits) == (20, 20)


def test_keywords():
    x = torch.ones(3)
    held = doubled(x, times=4)
    compiled = stator.compile(lambda x: doubled(x, times=4), fullgraph=True, backend="eager")
    assert compiled(x) is held
    other = torch.zeros(3)
    doubled(other, times=4)
    assert compiled(other) is doubled(other, times=4)


def test_a_full_graph_needs_the_cached_result():
    with pytest.raises(stator.Unsupported, match="lru_cache is called with tensors that its cache does not hold"):
        stator.compile(program, fullgraph=True, backend="eager")(torch.ones(3))


def test_a_table_that_can_not_change():
    """The result of the first call is a read-only dict, which every later call returns too."""

    @functools.lru_cache
    def table():
        return types.MappingProxyType({"scale": 3})

    compiled = stator.compile(lambda x: x * table()["scale"] + table().get("shift", 1), fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]
    assert table() is table()
    held = stator.compile(lambda x: (x, table()), fullgraph=True)(torch.ones(2))[1]
    assert held is table()
    table.cache_clear()
    assert compiled(torch.ones(2)).tolist() == [4.0, 4.0]
