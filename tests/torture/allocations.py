"""Memory that can't be allocated: one allocation of Python after the other fails, in captures, calls and exits."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

import stator
from tests.torture.programs import expect_right, expected, not_captured, program


@contextlib.contextmanager
def failing(first: int, count: int) -> Iterator[None]:
    """The allocations from number `first` on fail, `count` of them: of objects, of their memory, and of raw memory."""
    from _testcapi import remove_mem_hooks, set_nomemory

    set_nomemory(first, first + count)
    try:
        yield
    finally:
        remove_mem_hooks()


def _called(call: Callable[[], Any], first: int, count: int) -> Any:
    """What the call returns, or the name of its exception."""
    try:
        with failing(first, count):
            return call()
    except Exception as error:
        return type(error).__name__  # where it has no room for its own exception, torch raises another one


GRAPHS = 2  # that the program is captured in


class Counting:
    """A backend that counts the runs of its graphs. (A capture that has no memory leaves the program uncompiled.)"""

    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, graph_module: Any, example_inputs: Any) -> Callable[..., Any]:
        run = graph_module.forward

        def counted(*inputs: Any) -> Any:
            self.runs += 1
            return run(*inputs)

        return counted


def _allocations_of(call: Callable[[], bool]) -> int:
    """How many allocations it makes, about: the first power of two from which on it does not notice that many in a row
    fail. (If all of them did, CPython would not come out of its handling of exceptions.)"""
    first = 64
    while not all(_called(call, first * factor, 200) is True for factor in (1, 2, 4)):
        first *= 2
    return first


def _is_captured() -> bool:
    """Whether a new capture succeeds."""
    backend = Counting()
    stator.reset()
    stator.compile(program, backend=backend, isolate_recompiles=True)(torch.ones(3), [0, 1])
    return backend.runs == GRAPHS


def allocations(rounds: int) -> str:
    """The rounds go from the first allocation of a capture to its last; one fails, or ten in a row. Every fourth round is
    a cached call."""
    outcomes: collections.Counter[str] = collections.Counter()
    kept = stator.compile(program)
    expect_right(kept)
    spans = [_allocations_of(_is_captured), _allocations_of(lambda: kept(torch.ones(3), [0, 1]) is not None)]
    assert spans[0] > spans[1], spans
    for number in range(rounds):
        is_cached = number % 4 == 3
        first, count = spans[is_cached] * number // rounds, 10 if number % 4 == 2 else 1
        compiled = kept if is_cached else not_captured()
        x, items = torch.ones(3), [0, 1]
        result = _called(lambda compiled=compiled, x=x, items=items: compiled(x, items), first, count)
        if isinstance(result, torch.Tensor):
            assert result.tolist() == expected(2) and items == [0, 1, 2], number
            outcomes["returned"] += 1
        else:
            outcomes[str(result)] += 1
        expect_right(compiled)
        expect_right(compiled)
    return f"{outcomes}, of {spans[0]} allocations of a capture and {spans[1]} of a cached call"
