"""Functions with `functools.lru_cache` that are called with tensors."""

from __future__ import annotations

import functools
import types

import pytest
import torch

import stator
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario


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


# --- results that a captured call adds ------------------------------------------------------------------------------

CACHES = """
import functools

calls = []

@functools.lru_cache(maxsize=None)
def mask(n, dtype=torch.float32):
    return torch.ones(n, n, dtype=dtype).tril()

@functools.lru_cache
def doubled(x, times=2):
    calls.append(times)
    return x * times

@functools.lru_cache(maxsize=2)
def listed(n):
    return [n, n + 1]

@functools.lru_cache(typed=True)
def by_type(value):
    return [type(value).__name__]

@functools.lru_cache(maxsize=0)
def never_kept(n):
    return [n]

@functools.cache
def outer(n):
    return mask(n) + mask(n + 1).sum()

class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    @functools.lru_cache
    def row(self, n):
        return self.weight * n

class Key:
    pass

@functools.lru_cache
def of_key(key, x):
    return [key, x + 1]

TABLE = Table()
ALL = [mask, doubled, listed, by_type, never_kept, outer, Table.row, of_key]
"""

# What is called, and what changes between calls.
ADDED = {
    "of a number": ("x + mask(3), mask(3), mask(3) is mask(3)", ["mask.cache_clear()", "mask(3).zero_()"]),
    "of keywords": ("mask(n=2, dtype=torch.int64), mask(2), mask(n=2)", ["mask.cache_clear()"]),
    "of a tensor": ("doubled(x) + 1, doubled(x), doubled(x, times=3)", ["doubled.cache_clear()", "doubled(torch.ones(2))"]),
    "of a result": ("doubled(x + 1), doubled(x + 1)", ["doubled.cache_clear()"]),
    "few results": ("listed(1), listed(2), listed(1), listed(1) is listed(1)", ["listed(7)", "listed(8), listed(9)"]),
    "by type": ("by_type(1), by_type(1.0), by_type(True), by_type(1)", ["by_type.cache_clear()"]),
    "never kept": ("never_kept(1), never_kept(1) is never_kept(1)", []),
    "nested": ("outer(2), outer(2) is outer(2), mask(2)", ["outer.cache_clear()", "mask.cache_clear()"]),
    "of a module": ("TABLE.row(2) + x, TABLE.row(2)", ["Table.row.cache_clear()", "TABLE = Table()"]),
    "of a new object": ("of_key(Key(), x)[1]", ["of_key.cache_clear()"]),
    "unhashable": ("mask([2])", []),
}  # fmt: skip


@pytest.mark.parametrize("name", ADDED)
def test_a_result_is_added(name: str) -> None:
    called, changes = ADDED[name]
    text = CACHES + f"def f(x):\n    return {called}, calls"
    # In a full cache a new result pushes another one out, perhaps one that is looked up next.
    whole = name != "few results"
    same(Source(text), T(3), compare_dynamo=False, stateful=True, mutate=changes, fullgraph=whole)


@pytest.mark.parametrize("name", ADDED)
def test_calls_are_counted(name: str) -> None:
    """The counters are those of the uncompiled program, and one entry serves calls with other tensors."""
    called, _ = ADDED[name]
    if name == "unhashable":
        return
    text = "import torch\n" + CACHES + f"def f(x):\n    return {called}\n"

    def counts(compile) -> list:
        namespace: dict = {}
        exec(text, namespace)
        function, seen = compile(namespace["f"]), []
        for number in range(6):
            function(torch.full((3,), float(number // 2)))
            seen.append([tuple(each.cache_info()) for each in namespace["ALL"]])
        return seen

    assert counts(lambda f: stator.compile(f, fullgraph=True, backend="eager")) == counts(lambda f: f)


def test_gradients_flow_through_the_cache():
    def scenario(compile, note):
        @functools.lru_cache
        def scaled(w, by):
            return w * by

        weight = torch.nn.Parameter(torch.ones(3))
        step = compile(lambda x: (x * scaled(weight, 3)).sum())
        for number in range(2):
            scaled.cache_clear()
            loss = note(step, torch.full((3,), number + 1.0))
            loss.backward()
            note.gradients(loss.detach(), weight)
            assert scaled(weight, 3).grad_fn is not None

    same_scenario(scenario, "eager")


def test_two_tensors_break_the_graph():
    @functools.lru_cache
    def added(x, y):
        return x + y

    compiled = stator.compile(lambda x, y: added(x, y), fullgraph=True, backend="eager")
    with pytest.raises(stator.Unsupported, match="with several tensors for which its cache holds no result"):
        compiled(torch.ones(3), torch.zeros(3))
    x, y = torch.ones(3), torch.zeros(3)
    held = added(x, y)
    assert compiled(x, y) is held


def test_a_full_cache_drops_the_oldest_result():
    @functools.lru_cache(maxsize=2)
    def listed(n):
        return [n]

    def program(x, n):
        return x + 1, listed(n)

    def results(call):
        listed.cache_clear()
        return [(call(torch.ones(2), n)[1], tuple(listed.cache_info())) for n in (1, 2, 1, 3, 1, 2)]

    assert results(stator.compile(program, fullgraph=True, backend="eager", dynamic=False)) == results(program)


def test_a_hit_after_results_that_may_push_it_out():
    @functools.lru_cache(maxsize=1)
    def listed(n):
        return [n]

    def program(x):
        return x + 1, listed(1), listed(2), listed(1)

    def results(call):
        listed.cache_clear()
        return [(call(torch.ones(2))[1:], tuple(listed.cache_info())) for _ in range(3)]

    assert results(stator.compile(program, backend="eager")) == results(program)
