"""A scenario is a small program that uses a library as its users do. It runs once in each of the `MODES`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

MODES = ("uncompiled", "torch.compile", "stator")


@dataclass
class Call:
    """One step of a scenario: how long it took, and what was captured in it."""

    seconds: float
    graphs: int
    breaks: int


@dataclass
class Run:
    """What a scenario is given: `call` times a step and keeps its result, which is compared between the modes."""

    backend: str
    calls: list[Call] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)

    def call(self, step: Callable[[], Any]) -> Any:
        graphs, breaks = captured()
        began = time.perf_counter()
        result = step()
        seconds = time.perf_counter() - began
        graphs_after, breaks_after = captured()
        self.calls.append(Call(seconds, graphs_after - graphs, breaks_after - breaks))
        self.keep(result)
        return result

    def keep(self, result: Any) -> None:
        """Keeps what is to be the same as uncompiled: the numbers and tensors in `result`, as they are now."""
        self.results.append([_kept(leaf) for leaf in pytree.tree_leaves(result)])


@dataclass(frozen=True)
class Scenario:
    library: str
    name: str
    backend: str
    program: Callable[[Run], None]


SCENARIOS: list[Scenario] = []


def scenario(name: str, backend: str = "aot_eager") -> Callable[[Callable[[Run], None]], Callable[[Run], None]]:
    """Registers a program for the library after which its file is named."""

    def register(program: Callable[[Run], None]) -> Callable[[Run], None]:
        library = program.__module__.rpartition(".")[2]
        SCENARIOS.append(Scenario(library, name, backend, program))
        return program

    return register


def captured() -> tuple[int, int]:
    """How many graphs and graph breaks there were so far; both compilers count in torch's counters."""
    from torch._dynamo.utils import counters

    return counters["stats"]["unique_graphs"], sum(counters["graph_break"].values())


def _kept(leaf: Any) -> Any:
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().clone()
    return leaf if isinstance(leaf, (bool, int, float, str, type(None))) else type(leaf).__name__
