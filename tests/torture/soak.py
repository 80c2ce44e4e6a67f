"""A server that runs for long: sizes change, weights are loaded again, modules are replaced. Memory has to stay flat.

The overhead of a call is that of the same model with a backend that does no work: by the clock, and in processor time of
the thread. A thread that was set aside for another process comes back to caches with that one's memory, so processor time
is counted where that did not happen during the request. Linux counts the time of interrupts as that of the thread which
they interrupt: so a loop without Stator is measured beside each call, and what its slowest cost is the machine's.

    chrt -f 50 taskset -c 1 python -m tests.torture soak --seconds 3600 --pause 1

serves on a machine that has other work, with a pause of a millisecond after each request: every call begins with caches
that others have used.
"""

from __future__ import annotations

import collections
import gc
import math
import random
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

import stator
from stator import _testing
from tests.torture.threads import Model, resident

# Growth that is more than the noise of allocators, and more objects than a program keeps by chance.
MOST_GROWTH_MB = 16.0
MOST_OBJECTS = 500
SETTLED = 300.0  # seconds after which memory is flat, in a run that is long enough
CAPTURED = 600.0  # seconds after which nothing is captured
SAMPLES = 720  # of memory, in a run of any length: what measures must not grow itself


class Histogram:
    """Counts of durations, in steps of one percent."""

    def __init__(self) -> None:
        self.counts: collections.Counter[int] = collections.Counter()

    def add(self, nanoseconds: int) -> None:
        self.counts[round(100 * math.log(max(1, nanoseconds)))] += 1

    def microseconds(self, share: float) -> float:
        """What so many of all durations are at most."""
        wanted = share * self.total()
        seen = 0
        for step in sorted(self.counts):
            seen += self.counts[step]
            if seen >= wanted:
                return math.exp(step / 100) / 1000
        return 0.0

    def total(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        shares = (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
        return ", ".join(f"{name} {self.microseconds(share):.1f}" for name, share in shares)


@dataclass
class Sample:
    seconds: float  # since the start
    memory: float  # in MB
    objects: int
    captures: int


@dataclass
class Soak:
    requests: int = 0
    samples: list[Sample] = field(default_factory=list)
    clock: Histogram = field(default_factory=Histogram)
    processor: Histogram = field(default_factory=Histogram)
    machine: Histogram = field(default_factory=Histogram)

    def since(self, seconds: float) -> list[Sample]:
        """The samples since then; of a shorter run those of its last two thirds."""
        end = self.samples[-1].seconds
        start = seconds if end >= 2 * seconds else end / 3
        return [one for one in self.samples if one.seconds >= start]

    def growth(self) -> tuple[float, int]:
        """Of memory in MB, and of the number of objects, from the first third of the time after it settled to the last."""
        settled = self.since(SETTLED)
        third = max(1, len(settled) // 3)
        first, last = settled[:third], settled[-third:]
        memory = [statistics.median(one.memory for one in part) for part in (first, last)]
        objects = [max(one.objects for one in part) for part in (first, last)]
        return memory[1] - memory[0], objects[1] - objects[0]

    def late_captures(self) -> int:
        late = self.since(CAPTURED)
        return late[-1].captures - late[0].captures

    def ratio(self) -> float:
        """Of the slowest calls but one in a thousand to the typical call, in processor time."""
        return self.processor.microseconds(0.999) / max(1e-3, self.processor.microseconds(0.5))

    def __str__(self) -> str:
        memory, objects = self.growth()
        settled = [one.memory for one in self.since(SETTLED)]
        return (
            f"{self.requests} requests in {self.samples[-1].seconds:.0f} s; {self.samples[-1].captures} captures, "
            f"{self.late_captures()} of them late; memory between {min(settled):.1f} and {max(settled):.1f} MB once it had "
            f"settled, growth {memory:.1f} MB and {objects} objects; overhead of a call in us of processor time: "
            f"{self.processor}, that is {self.ratio():.1f} times the median, in the {self.processor.total()} requests "
            f"that no other process interrupted; of a loop without Stator: {self.machine}; of all by the clock: {self.clock}"
        )


class Idle:
    """A backend whose graphs answer with what they returned in their first run."""

    def __call__(self, graph: Any, examples: Any) -> Callable[..., Any]:
        kept: list[Any] = []

        def run(*inputs: Any) -> Any:
            if not kept:
                kept.append(graph(*inputs))
            return kept[0]

        return run


def loop() -> int:
    """Takes about as long as a call, and no memory."""
    total = 0
    for number in range(28):
        total += number
    return total


def switches() -> int:
    """How often this thread was set aside."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    return usage.ru_nivcsw + usage.ru_nvcsw


class Server:
    def __init__(self, pause: float = 0.0) -> None:
        self.soak, self.chosen, self.pause = Soak(), random.Random(0), pause
        self.model = Model(4)
        self.compiled = stator.compile(self.model)
        self.idle = stator.compile(self.model, backend=Idle())
        state = self.model.state_dict()
        self.switches = switches()
        self.states = [{name: torch.randn_like(one) for name, one in state.items()} for _ in range(3)]

    def serve(self, requests: int) -> None:
        for _ in range(requests):
            self.soak.requests += 1
            what = self.chosen.random()
            if what < 0.02:
                self.model.load_state_dict(self.chosen.choice(self.states))
            elif what < 0.03:
                self.model.layers[self.chosen.randrange(4)] = nn.Linear(3, 3)
            x = torch.randn(self.chosen.randint(1, 40), 3)
            assert torch.equal(self.compiled(x), self.model(x))
            begun = time.thread_time_ns()
            loop()
            of_machine = time.thread_time_ns() - begun
            clock, processor = time.perf_counter_ns(), time.thread_time_ns()
            self.idle(x)
            taken = time.thread_time_ns() - processor
            self.soak.clock.add(time.perf_counter_ns() - clock)
            before, self.switches = self.switches, switches()
            if self.switches == before:
                self.soak.processor.add(taken)
                self.soak.machine.add(of_machine)
            if self.pause:
                time.sleep(self.pause)
                self.switches = switches()

    def sample(self, seconds: float) -> None:
        gc.collect()
        self.soak.samples.append(
            Sample(seconds, resident(), len(gc.get_objects()) - len(self.soak.samples), _testing.captures())
        )


def run(
    seconds: float,
    say: Callable[[str], object] | None = None,
    server: Server | None = None,
    pause: float = 0.0,
) -> Soak:
    """Raises AssertionError if a result is wrong, memory grows, or something is captured late. Says each minute how it
    stands. With `pause` seconds after each request."""
    server = server or Server(pause)
    soak, start = server.soak, time.monotonic()
    server.serve(200)  # what stays is there now
    soak.clock, soak.processor, soak.machine = Histogram(), Histogram(), Histogram()
    minutes = 0
    while (passed := time.monotonic() - start) < seconds or len(soak.samples) < 9:
        server.serve(200)
        if passed >= len(soak.samples) * seconds / SAMPLES:
            server.sample(passed)
        if say is not None and passed >= 60 * (minutes + 1):
            minutes = int(passed / 60)
            say(f"minute {minutes}: {soak}")
    memory, objects = soak.growth()
    assert memory < MOST_GROWTH_MB and objects < MOST_OBJECTS and soak.late_captures() == 0, str(soak)
    return soak
