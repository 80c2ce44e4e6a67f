"""A server that runs for long: sizes change, weights are loaded again, modules are replaced. Memory has to stay flat."""

from __future__ import annotations

import gc
import random
import statistics
import time
from dataclasses import dataclass, field

import torch
from torch import nn

import stator
from stator import _testing
from tests.torture.threads import Model

# Growth between the first and the last third that is more than the noise of allocators.
MOST_GROWTH_MB = 16.0


@dataclass
class Soak:
    """What was measured: memory in MB and microseconds of overhead of a call."""

    requests: int = 0
    memory: list[float] = field(default_factory=list)
    objects: list[int] = field(default_factory=list)
    overheads: list[float] = field(default_factory=list)
    captures: list[int] = field(default_factory=list)  # until the memory was measured

    def growth(self) -> tuple[float, float]:
        """Of memory in MB, and of the number of objects, from the first third of the run to the last."""
        third = max(1, len(self.memory) // 3)
        first, last = self.memory[:third], self.memory[-third:]
        objects = self.objects[:third], self.objects[-third:]
        return statistics.median(last) - statistics.median(first), max(objects[1]) - max(objects[0])

    def late_captures(self) -> int:
        return self.captures[-1] - self.captures[len(self.captures) // 2] if self.captures else 0

    def __str__(self) -> str:
        memory, objects = self.growth()
        cuts = statistics.quantiles(self.overheads, n=1000) if len(self.overheads) > 1 else [0.0] * 999
        return (
            f"{self.requests} requests; {self.late_captures()} captures in the second half; memory grew by {memory:.1f} MB and {objects:.0f} objects; overhead of a call "
            f"in us: p50 {cuts[499]:.1f}, p90 {cuts[899]:.1f}, p99 {cuts[989]:.1f}, p99.9 {cuts[998]:.1f}"
        )


def resident() -> float:
    """Resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


def run(seconds: float) -> Soak:
    """Raises AssertionError if a result is wrong or memory grows."""
    chosen = random.Random(0)
    model = Model(4)
    compiled = stator.compile(model)
    states = [{name: torch.randn_like(one) for name, one in model.state_dict().items()} for _ in range(3)]
    soak, end = Soak(), time.monotonic() + seconds
    _serve(soak, model, compiled, states, chosen, 200)  # what stays is there now
    soak.overheads.clear()
    while time.monotonic() < end or len(soak.memory) < 6:
        _serve(soak, model, compiled, states, chosen, 200)
        gc.collect()
        soak.memory.append(resident())
        soak.objects.append(len(gc.get_objects()))
        soak.captures.append(_testing.captures())
    memory, objects = soak.growth()
    assert memory < MOST_GROWTH_MB and objects < 500 and soak.late_captures() == 0, str(soak)
    return soak


def _serve(soak: Soak, model: Model, compiled: Model, states: list, chosen: random.Random, requests: int) -> None:
    for _ in range(requests):
        soak.requests += 1
        what = chosen.random()
        if what < 0.02:
            model.load_state_dict(chosen.choice(states))
        elif what < 0.03:
            model.layers[chosen.randrange(4)] = nn.Linear(3, 3)
        x = torch.randn(chosen.randint(1, 40), 3)
        began = time.perf_counter()
        result = compiled(x)
        between = time.perf_counter()
        expected = model(x)
        soak.overheads.append(1e6 * (between - began - (time.perf_counter() - between)))
        assert torch.equal(result, expected)
