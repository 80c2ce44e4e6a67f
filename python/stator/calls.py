"""Calls of compiled callables while `stator.watch` is on: how many used an entry, and how long they took.

The engine calls `before` and `after` around each call in this thread. With `compare=True` some calls that would have
used an entry run uncompiled instead: their results are the same, and their times show what the others have saved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from stator import naming
from stator._engine import engine

# The kinds of calls: an entry was used; something was captured; an entry was used and instructions ran at graph breaks;
# no entry was used; it ran uncompiled for comparison.
KINDS = ("hit", "capture", "break", "fallback", "sample")

# Longer time lines are cut.
MOST_CALLS = 5000
MOST_SAMPLES = 50


@dataclass
class Calls:
    """The calls of one compiled callable.

    Attributes:
        name: the function, with file and line.
        counts: how many calls of each kind there were: "hit", "capture", "break", "fallback", "sample".
        seconds: how long those of each kind took together.
    """

    name: str
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def hits(self) -> int:
        """Calls that used entries alone, also those with graph breaks."""
        return self.counts["hit"] + self.counts["break"]

    @property
    def saved(self) -> float | None:
        """Seconds saved against uncompiled calls, negative if lost; None if no call ran uncompiled to compare with."""
        if not self.counts["sample"]:
            return None
        uncompiled = self.seconds["sample"] / self.counts["sample"]
        compiled = [kind for kind in KINDS if kind != "sample"]
        return sum(self.counts[kind] * uncompiled - self.seconds[kind] for kind in compiled)

    def numbers(self) -> tuple[int, int, int, int, int]:
        return self.total, self.hits, self.counts["capture"], self.counts["break"], self.counts["fallback"]


class Listener:
    """Fills `calls`, by the identity of the callable, and `timeline` with kind, function, start and seconds."""

    def __init__(self, calls: dict[int, Calls], timeline: list[dict[str, Any]], began: float, compare: bool) -> None:
        self.calls, self.timeline, self.began, self.compare = calls, timeline, began, compare
        self._alive: list[Any] = []

    def before(self, compiled: Any) -> bool:
        """Whether the call is to run uncompiled: every fourth one that would hit."""
        if not self.compare:
            return False
        seen = self.calls.get(id(compiled))
        return seen is not None and seen.hits % 4 == 3 and seen.counts["sample"] < min(MOST_SAMPLES, seen.hits // 3)

    def after(
        self, compiled: Any, was_sample: bool, began: float, seconds: float, captures: int, steps: int, left: int
    ) -> None:
        kind = (
            "sample" if was_sample else "capture" if captures else "break" if steps else "fallback" if left else "hit"
        )
        calls = self._calls_of(compiled)
        calls.counts[kind] += 1
        calls.seconds[kind] += seconds
        if len(self.timeline) < MOST_CALLS:
            self.timeline.append({"kind": kind, "code": calls.name, "at": began - self.began, "seconds": seconds})

    def _calls_of(self, compiled: Any) -> Calls:
        if id(compiled) not in self.calls:
            owner = getattr(compiled, "__self__", None)
            name, file, line = naming.callee(getattr(compiled, "__func__", compiled._stator_callable), owner)
            self._alive.append(compiled)
            self.calls[id(compiled)] = Calls(f"{name} ({file}:{line})")
        return self.calls[id(compiled)]


@contextmanager
def followed(listener: Listener) -> Iterator[None]:
    before = engine().watch_calls(listener)
    try:
        yield
    finally:
        engine().watch_calls(before)
