"""The time of each step of a capture, and whether cache, rules or FakeTensor computed the shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.measure import Repeats
from bench.programs import Program, made
from bench.tables import aligned, seconds


@dataclass
class Steps:
    """One program: seconds for each step, and how many operations were answered from the cache, by rules, by fakes."""

    times: dict[str, float]
    hits: int
    rules: int
    fallbacks: int

    @property
    def together(self) -> float:
        return sum(self.times.values())

    @property
    def operations(self) -> int:
        return self.hits + self.rules + self.fallbacks

    @property
    def shape_share(self) -> float:
        return self.times.get("shapes", 0.0) / self.together if self.together else 0.0

    @property
    def fallback_share(self) -> float:
        return self.fallbacks / self.operations if self.operations else 0.0


def measure(program: Program, repeats: Repeats) -> Steps | None:
    """The best of several captures, each with an empty cache of shapes. Code is decoded once, so
    the time of that step is that of the first capture."""
    first = capture_once(program)
    if first is None:
        return None
    later = [steps for _ in repeats if (steps := capture_once(program)) is not None]
    best = min(later, key=lambda steps: steps.together)
    best.times["decode"] = first.times["decode"]
    return best


def capture_once(program: Program) -> Steps | None:
    import stator
    from stator import _testing

    function, arguments = made(program)
    _testing.shape_forget()
    before = _testing.shape_counts()
    report = stator.explain(function)(*arguments)
    counts = {name: count - before[name] for name, count in _testing.shape_counts().items()}
    return Steps(report.times, counts["hits"], counts["rules"], counts["fallbacks"]) if report.times else None


def table(measured: Sequence[tuple[Program, Steps]]) -> str:
    """Steps side by side, and what shapes take of them."""
    names = list(dict.fromkeys(step for _, steps in measured for step in steps.times))
    rows = [["program", *names, "together", "shapes/all", "asked", "by rule", "cached", "by fakes", "share"]]
    for program, steps in measured:
        rows.append(
            [
                program.name,
                *(seconds(steps.times[name]) if name in steps.times else "" for name in names),
                seconds(steps.together),
                f"{steps.shape_share:.0%}",
                *map(str, (steps.operations, steps.rules, steps.hits, steps.fallbacks)),
                f"{steps.fallback_share:.1%}",
            ]
        )
    return f"Where the time of Stator's capture goes, and who knew what comes out of operations\n{aligned(rows)}"


def as_record(measured: Sequence[tuple[Program, Steps]]) -> dict[str, Any]:
    return {program.name: asdict(steps) for program, steps in measured}
