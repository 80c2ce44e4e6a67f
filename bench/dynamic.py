"""What sizes that change cost: capture and cached call with all sizes symbols (`dynamic=True`), beside Stator with
fixed sizes and beside torch._dynamo with symbols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import exp, log
from typing import Any

from bench.measure import Answering, Recording, Repeats, best_seconds, quiet, seconds_of
from bench.programs import Program, made
from bench.systems import System
from bench.tables import aligned, seconds

# A capture with symbols at most so many times one with fixed sizes, and at least so many times faster than
# torch._dynamo's; a relation at most so many seconds of a cached call.
MOST_OF_STATIC = 1.5
TIMES_LESS = 50
SECONDS_FOR_RELATION = 50e-9


@dataclass
class Timed:
    """One system with or without symbols, in seconds: the best of several runs."""

    capture: float = float("inf")
    cached: float = float("inf")
    captures: int = 0


@dataclass
class Figures:
    static: Timed
    symbolic: Timed
    theirs: Timed
    relations: int
    ranges: int
    their_relations: int
    their_guards: int

    @property
    def of_static(self) -> float:
        return self.symbolic.capture / self.static.capture

    @property
    def times_less(self) -> float:
        return self.theirs.capture / self.symbolic.capture

    @property
    def for_relation(self) -> float:
        """What a relation or a range adds to a cached call: that a symbol is at least 2 is checked as well."""
        return max(0.0, self.symbolic.cached - self.static.cached) / max(1, self.relations + self.ranges)


def measure(program: Program, systems: tuple[System, System], repeats: Repeats) -> Figures:
    """Stator and torch._dynamo take turns, so that what happens to the machine happens to both."""
    ours, theirs = systems
    runs = [(ours, False, Timed()), (ours, True, Timed()), (theirs, True, Timed())]
    outputs = [recorded(program, system, dynamic) for system, dynamic, _ in runs]
    for _ in repeats:
        for (system, dynamic, timed), known in zip(runs, outputs, strict=True):
            measure_once(program, system, dynamic, known, timed)
    for system in systems:
        system.reset()
    static, symbolic, of_dynamo = (timed for _, _, timed in runs)
    return Figures(static, symbolic, of_dynamo, *conditions_of(program), *guards_of_dynamo(program, theirs))


def recorded(program: Program, system: System, dynamic: bool) -> list[Any]:
    backend = Recording()
    system.reset()
    function, arguments = made(program)
    system.compile(function, backend=backend, dynamic=dynamic)(*arguments)
    return backend.outputs


def measure_once(program: Program, system: System, dynamic: bool, outputs: list[Any], timed: Timed) -> None:
    function, arguments = made(program)
    system.reset()
    backend = Answering(outputs)
    compiled = system.compile(function, backend=backend, dynamic=dynamic)
    with quiet():
        timed.capture = min(timed.capture, seconds_of(lambda: compiled(*arguments)))
        timed.cached = min(timed.cached, best_seconds(lambda: compiled(*arguments)))
    timed.captures = len(backend.nodes)


def conditions_of(program: Program) -> tuple[int, int]:
    """What each call checks: relations between sizes, and the least value of each symbol of its own."""
    import stator

    function, arguments = made(program)
    stator.reset()
    with stator.watch() as report:
        stator.compile(function, dynamic=True)(*arguments)
    symbols = [symbol for capture in report.captures for symbol in capture.symbols]
    ranges = sum("at least" in symbol and "equal to" not in symbol for symbol in symbols)
    return sum(len(capture.relations) for capture in report.captures), ranges


def guards_of_dynamo(program: Program, system: System) -> tuple[int, int]:
    """The conditions on sizes that torch._dynamo leaves, and all its guards."""
    from torch._dynamo import utils

    function, arguments = made(program)
    system.reset()
    utils.clear_compilation_metrics()
    system.compile(function, backend="eager", dynamic=True)(*arguments)
    found = utils.get_compilation_metrics()
    return sum(one.shape_env_guard_count or 0 for one in found), sum(one.guard_count or 0 for one in found)


def table(measured: Sequence[tuple[Program, Figures]]) -> str:
    rows = [
        ["program", "fixed sizes", "symbols", "of fixed", "torch._dynamo", "times less", "cached, fixed",
         "cached, symbols", "torch._dynamo", "relations", "ranges", "each", "its guards on sizes", "all its guards", ""]
    ]  # fmt: skip
    for program, each in measured:
        verdicts = {
            "capture": each.of_static <= MOST_OF_STATIC and each.times_less >= TIMES_LESS,
            "cached": each.for_relation <= SECONDS_FOR_RELATION,
        }
        rows.append(
            [
                program.name,
                seconds(each.static.capture),
                seconds(each.symbolic.capture),
                f"{each.of_static:.2f}",
                seconds(each.theirs.capture),
                f"{each.times_less:.0f}",
                seconds(each.static.cached),
                seconds(each.symbolic.cached),
                seconds(each.theirs.cached),
                str(each.relations),
                str(each.ranges),
                f"{each.for_relation * 1e9:.0f} ns",
                str(each.their_relations),
                str(each.their_guards),
                ", ".join(f"{what} BELOW" for what, met in verdicts.items() if not met),
            ]
        )
    if len(measured) > 1:
        mean = exp(sum(log(each.times_less) for _, each in measured) / len(measured))
        rows.append(["geometric mean", "", "", "", "", f"{mean:.0f}", *[""] * 9])
    return f"Sizes that change: the first call and every later one with all sizes symbols\n{aligned(rows)}"


def as_record(measured: Sequence[tuple[Program, Figures]]) -> dict[str, Any]:
    return {program.name: asdict(each) for program, each in measured}
