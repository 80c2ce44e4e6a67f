"""The program that faults happen to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import stator


def helper(x: torch.Tensor, items: list[int]) -> torch.Tensor:
    try:
        for item in items:
            x = torch.relu(x) + item
    finally:
        items.append(len(items))
    return x


def program(x: torch.Tensor, items: list[int]) -> torch.Tensor:
    """Has an inlined call, a loop, a handler, an effect and a graph break."""
    y = helper(x, items) * 2
    print(end="")
    with torch.no_grad():
        z = y.sum()
    return y + z


def expected(count: int) -> list[float]:
    return program(torch.ones(3), list(range(count))).tolist()


def expect_right(compiled: Callable[..., Any], count: int = 2) -> None:
    items = list(range(count))
    assert compiled(torch.ones(3), items).tolist() == expected(count)
    assert items == list(range(count + 1))


def not_captured() -> Callable[..., Any]:
    """What was captured for a callable that has died would serve the next one."""
    stator.reset()
    return stator.compile(program, isolate_recompiles=True)
