"""The cost of larger models: of a capture as the nesting gets deeper, of a cached call as the layers get more."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from bench.measure import Answering, Figures, best_seconds, quiet, recorded, seconds_of
from bench.programs import Nested, Program, made
from bench.systems import System
from bench.tables import aligned, seconds

ROUNDS = 12


@dataclass(frozen=True)
class Growth:
    """A small and a large program, and how much more the large one may cost; None if there is no target."""

    name: str
    what: str  # capture or cached
    small: Program
    large: Program
    at_most: float | None = None


@dataclass
class GrowthFigures:
    small: float
    large: float

    @property
    def times(self) -> float:
        return self.large / self.small


def nested(depth: int) -> Program:
    return Program(f"{depth} nested modules", lambda: (Nested(depth), (torch.randn(4, 8),)))


def layers(count: int) -> Program:
    def make() -> tuple[Any, tuple[Any, ...]]:
        layer = lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)  # noqa: E731
        return nn.Sequential(*(layer() for _ in range(count))), (torch.randn(1, 4, 16),)

    return Program(f"{count} transformer layers", make)


GROWTHS = (
    Growth("capture, 300 nested modules to 75", "capture", nested(75), nested(300), at_most=4.5),
    Growth("cached call, 80 layers to 8", "cached", layers(8), layers(80)),
)


def measure(growth: Growth, systems: Sequence[System]) -> dict[str, GrowthFigures]:
    """Small and large take turns: on a machine that is busy with something else too the ratio is what counts."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10_000)
    try:
        return {system.name: measure_system(growth, system) for system in systems}
    finally:
        sys.setrecursionlimit(before)


def measure_system(growth: Growth, system: System) -> GrowthFigures:
    programs = (growth.small, growth.large)
    outputs = [recorded(program, system) for program in programs]
    best = [Figures(), Figures()]
    rounds = ROUNDS if system.name == "stator" else 2
    for _ in range(rounds):
        for program, output, figures in zip(programs, outputs, best, strict=True):
            function, arguments = made(program)
            system.reset()
            compiled = system.compile(function, backend=Answering(output))
            with quiet():
                figures.capture = min(figures.capture, seconds_of(lambda: compiled(*arguments)))  # noqa: B023
                if growth.what == "cached":
                    figures.cached = min(figures.cached, best_seconds(lambda: compiled(*arguments)))  # noqa: B023
    system.reset()
    small, large = (getattr(figures, growth.what) for figures in best)
    return GrowthFigures(small, large)


def table(figures: dict[str, dict[str, GrowthFigures]]) -> str:
    rows = [["", "torch._dynamo", "times", "stator", "times", "at most", ""]]
    limits = {growth.name: growth.at_most for growth in GROWTHS}
    for name, each in figures.items():
        limit, cells = limits[name], [name]
        for system in ("torch._dynamo", "stator"):
            found = each.get(system)
            cells += [f"{seconds(found.small)}, {seconds(found.large)}", f"{found.times:.2f}"] if found else ["", ""]
        mine = each.get("stator")
        verdict = "" if limit is None or mine is None else "met" if mine.times <= limit else "ABOVE"
        rows.append([*cells, "" if limit is None else f"{limit:g}", verdict])
    return f"What a larger model costs: how many times the small one\n{aligned(rows)}"


def as_record(figures: dict[str, dict[str, GrowthFigures]]) -> dict[str, Any]:
    return {name: {system: asdict(found) for system, found in each.items()} for name, each in figures.items()}
