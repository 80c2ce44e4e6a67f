"""The cost of a module tracker: a training step on a chain of 60 small layers, one context for each step."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from bench.tables import aligned, seconds

DEPTH, SIZE, BATCH = 60, 16, 4
GOAL = 1.3  # at most so many times the plain step


class Nested(nn.Module):
    """A layer, and the rest of the chain inside of this module."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layer = nn.Linear(SIZE, SIZE)
        self.rest = Nested(depth - 1) if depth > 1 else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layer(x)
        return x if self.rest is None else self.rest(x)


SHAPES: dict[str, Callable[[], nn.Module]] = {
    "in a row": lambda: nn.Sequential(*(nn.Linear(SIZE, SIZE) for _ in range(DEPTH))),
    "in each other": lambda: Nested(DEPTH),
}


@dataclass
class TrackerFigures:
    """Seconds for a step: the best of several runs."""

    plain: float = float("inf")
    stator: float = float("inf")
    torch: float = float("inf")

    @property
    def ratio(self) -> float:
        return self.stator / self.plain


def measure(shape: str, rounds: int = 40) -> TrackerFigures:
    """They take turns, so that other work on the machine slows all alike."""
    from torch.utils.module_tracker import ModuleTracker

    import stator

    model, x = SHAPES[shape](), torch.randn(BATCH, SIZE)

    def plain() -> None:
        model(x).sum().backward()

    def tracked(tracker: Callable[[], AbstractContextManager[object]]) -> Callable[[], None]:
        def step() -> None:
            with tracker():
                plain()

        return step

    steps = {"plain": plain, "stator": tracked(stator.ModuleTracker), "torch": tracked(ModuleTracker)}
    figures = TrackerFigures()
    for _ in range(rounds):
        for name, step in steps.items():
            setattr(figures, name, min(getattr(figures, name), _of_each(step)))
    return figures


def _of_each(step: Callable[[], None], calls: int = 5) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        step()
    return (time.perf_counter() - start) / calls


def as_record(figures: dict[str, TrackerFigures]) -> dict[str, Any]:
    return {shape: asdict(each) for shape, each in figures.items()}


def table(figures: dict[str, TrackerFigures]) -> str:
    rows = [["layers", "plain step", "stator", "times", "torch", "times", "at most", ""]]
    for shape, each in figures.items():
        rows.append(
            [
                shape,
                seconds(each.plain),
                seconds(each.stator),
                f"{each.ratio:.2f}",
                seconds(each.torch),
                f"{each.torch / each.plain:.2f}",
                f"{GOAL:g}",
                "met" if each.ratio <= GOAL else "ABOVE",
            ]
        )
    title = f"ModuleTracker: a step on {DEPTH} layers, forward and backward, one context for each step"
    return f"{title}\n{aligned(rows)}"
