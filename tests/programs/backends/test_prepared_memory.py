"""`backend="stator"`: what it needs of memory while a graph runs, and what is left when graphs are dropped."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from stator import _testing
from tests.programs.backends.test_prepared_calls import PROGRAMS, compiled, x

Tensor = torch.Tensor


def wide(x: Tensor) -> Tensor:
    """Results that are used late, views of them, and writes."""
    y, z = x * 2, x.view(-1).relu()
    z.add_(1)
    parts = [y[:8].sin(), (y @ y).cos(), z.view_as(x).t().contiguous()]
    del y
    return torch.cat([part.exp() for part in parts]).softmax(-1) + x.sum()


LARGE: dict[str, Callable[[Tensor], Any]] = {
    **{name: program for name, program in PROGRAMS.items() if name in ("arithmetic", "einsum", "dtypes", "reductions")},
    "wide": wide,
    "mlp": nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64), nn.Softmax(-1)),
    "convolutions": lambda x: nn.functional.conv2d(x[None, None], torch.ones(4, 1, 3, 3)).relu().flatten(1),
    "sizes": lambda x: (x.reshape(-1, x.shape[0] * 2) * x.shape[1]).sum(0, keepdim=True) + x.narrow(0, 1, 1)[0, 0],
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", LARGE)
def test_the_peak_is_not_above_uncompiled(name: str, grad: bool) -> None:
    program = LARGE[name]
    entry = compiled(program, dynamic=name == "sizes")

    def peak(function: Callable, rows: int) -> int:
        given = torch.ones(rows, rows).requires_grad_(grad)
        return _testing.peak_memory(lambda: function(given))

    for _ in range(2):
        entry(torch.ones(64, 64).requires_grad_(grad))
    for _ in range(2):
        assert 0 < peak(entry, 64) <= peak(program, 64)


def test_nothing_is_left_of_a_thousand_different_graphs() -> None:
    alive: weakref.WeakSet[Any] = weakref.WeakSet()

    def made_and_dropped(number: int) -> None:
        names: dict[str, Any] = {}
        calls = ["x * 2.5", "x.sin()", "x @ x", "x.t()", "x.relu()", "x.softmax(-1)", "x.sum(0) + x"]
        lines = [f"    x = {calls[number // len(calls) ** place % len(calls)]}\n" for place in range(4)]
        exec(f"def program(x):\n{''.join(lines)}    return x + {number}", names)
        runners: list[Any] = []
        entry = compiled(names["program"], runners)
        given = x(4, 4, grad=number % 2 == 0)
        with torch.set_grad_enabled(number % 3 != 0):
            assert torch.equal(entry(given), entry(given))
        assert runners[0].prepared[0] > 0
        alive.update(runners)

    def left_of(first: int, count: int) -> int:
        gc.collect()
        before = sys.getallocatedblocks()
        for number in range(first, first + count):
            made_and_dropped(number)
        gc.collect()
        assert not alive
        return sys.getallocatedblocks() - before

    # Free lists and caches fill up at first; a leak grows with the number of graphs.
    left = [left_of(0, 200), left_of(200, 200), left_of(400, 600)]
    assert left[-1] < 300, left
