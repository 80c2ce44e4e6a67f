"""Loops over `itertools.chain` with a graph break in them: what follows each break is captured once."""

from __future__ import annotations

import itertools

import pytest
import torch

from tests.support.counting import counted_calls
from tests.support.harness import Source, T, same


@pytest.mark.parametrize(
    "parts",
    [
        "[x, x + 1], (x * 2, x * 3)",
        "[], [x], (), [x * 2, x * 3]",
        "{'a': x, 'b': x + 1}.values(), [x * 5]",
        "(one for one in [x, x + 1]), [x * 2]",
        "enumerated(x), [x]",
    ],
)
def test_loops_behind_breaks(parts):
    text = f"""
import itertools, torch
def enumerated(x): return [x * i for i in range(3)]
def f(x):
    total = x * 0
    for one in itertools.chain({parts}):
        total = total + one
        torch._dynamo.graph_break()
        total = total * 2
    return total
"""
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False)


@pytest.mark.parametrize(
    "change",
    [
        "FIRST.append(x)",
        "FIRST.pop()",
        "SECOND['c'] = x * 7",
        "LAST.append(x * 9)",
        "LAST.clear()",
        "SECOND.pop('a', None)",
    ],
)
def test_containers_that_change_in_the_loop(change):
    text = f"""
import itertools, torch
def f(x):
    FIRST, SECOND, LAST = [x, x + 1], {{"a": x * 2, "b": x * 3}}, [x * 4]
    total, turns = x * 0, 0
    for one in itertools.chain(FIRST, SECOND.values(), LAST):
        total = total + one * 2
        turns += 1
        torch._dynamo.graph_break()
        if turns == 2:
            {change}
    return total, turns, len(FIRST), list(SECOND), len(LAST)
"""
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False)


@pytest.mark.parametrize(
    "made", ["[T1, T2], (T3,)", "{'a': T1, 'b': T2}.items(), [('c', T3)]", "{'a': T1}, ['b', 'c']", "[], range(2)"]
)
def test_chains_from_outside(made):
    text = f"""
import itertools, torch
T1, T2, T3 = torch.ones(3), torch.ones(3) * 2, torch.ones(3) * 3
CHAIN = itertools.chain({made})
def f(x):
    one = next(CHAIN, None)
    if isinstance(one, tuple):
        one = one[1]
    return x * 2 if one is None or isinstance(one, str) else x + one
"""
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False, stateful=True, calls=5)


def test_turns_share_a_capture():
    def program(x, items, others):
        total = x
        for one in itertools.chain(items, others):
            total = total + one
            torch._dynamo.graph_break()
            total = total * 2
        return total

    def make():
        return torch.randn(3), [torch.randn(3) for _ in range(6)], (torch.randn(3), torch.randn(3))

    calls = counted_calls(program, make, 3)
    assert calls[1].captures == calls[2].captures == 0
    assert calls[2].operations == 16
