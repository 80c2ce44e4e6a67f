"""Threads that compile, call, mutate, reset and drop models, all at once, on functions and models that they share."""

from __future__ import annotations

import collections
import gc
import random
import statistics
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo
from torch import nn

import stator

# Growth of a run that is more than the noise of allocators, which have memory for each thread; of shorter ones nothing is
# said.
MOST_GROWTH_MB = 32.0
LONG = 120.0  # seconds


def resident() -> float:
    """Resident memory of this process in MB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20


class Model(nn.Module):
    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x)) + 1
        return x


def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    y = torch.cos(x) * by
    print(end="")
    return y + 1


class Shared:
    """What all threads use. A model is changed only by its own thread, so that what it returns is known."""

    def __init__(self) -> None:
        self.compiled = stator.compile(scaled)
        self.counts: collections.Counter[str] = collections.Counter()
        self.errors: list[BaseException] = []


class Worker:
    def __init__(self, shared: Shared, seed: int) -> None:
        self.shared, self.random = shared, random.Random(seed)
        self.make()

    def make(self) -> None:
        self.model = Model(self.random.randint(1, 3))
        self.compiled = stator.compile(self.model)

    def call(self) -> None:
        x = torch.ones(self.random.randint(1, 6), 3)
        assert torch.equal(self.compiled(x), self.model(x))

    def call_shared(self) -> None:
        x, by = torch.ones(self.random.randint(1, 6)), self.random.choice((1.0, 2.0, 3))
        assert torch.equal(self.shared.compiled(x, by), scaled(x, by))

    def compile_again(self) -> None:
        self.compiled = stator.compile(self.model, dynamic=self.random.choice((None, True, False)))
        self.call()

    def mutate(self) -> None:
        layer = self.random.choice(list(self.model.layers))
        with torch.no_grad():
            layer.weight = nn.Parameter(torch.randn(3, 3))
        self.call()

    def train(self) -> None:
        self.compiled(torch.ones(2, 3)).sum().backward()
        self.model.zero_grad()

    def check(self) -> None:
        """A new capture that is compared with an uncompiled call."""
        number = self.random.random()
        weight = torch.full((2,), number, requires_grad=True)

        def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            print(end="")
            return x * weight + number, torch.nn.functional.dropout(x)

        checked = stator.compile(program, check=self.random.choice(("first", "always")))
        for size in (1, 2):
            assert checked(torch.ones(size))[0].tolist() == [2 * weight[0].item()] * 2

    def set_stance(self) -> None:
        """It may not reach other threads: they would stop to capture, or raise."""
        with torch.compiler.set_stance(self.random.choice(("force_eager", "eager_on_recompile"))):
            captured = []
            stator.compile(lambda x: x + 1, backend=lambda graph, _: (captured.append(1), graph)[1])(torch.ones(2))
            assert not captured
        stator.compile(lambda x: x + 1, backend=lambda graph, _: (captured.append(1), graph)[1])(torch.ones(2))
        assert captured

    def set_mode(self) -> None:
        with self.random.choice((torch.no_grad, torch.inference_mode))():
            assert not self.compiled(torch.ones(2, 3)).requires_grad
        assert self.compiled(torch.ones(2, 3)).requires_grad

    def drop(self) -> None:
        """A model dies with its last reference, without `reset`."""
        references = [weakref.ref(one) for one in (self.model, *self.model.parameters())]
        del self.model, self.compiled
        gc.collect()
        assert [one() for one in references] == [None] * len(references)
        self.make()

    def reset(self) -> None:
        stator.reset()

    def collect(self) -> None:
        gc.collect()

    def run(self, until: float) -> None:
        often: list[Callable[[], Any]] = [self.call, self.call_shared] * 6
        rarely = [self.compile_again, self.mutate, self.train, self.make, self.reset, self.collect, self.check,
                  self.set_stance, self.set_mode, self.drop]  # fmt: skip
        everything = len({*often, *rarely})  # also on a busy machine
        while (time.monotonic() < until or len(self.shared.counts) < everything) and not self.shared.errors:
            act = self.random.choice(often + rarely)
            try:
                act()
                self.shared.counts[act.__name__] += 1
            except BaseException as error:
                self.shared.errors.append(error)


def run(seconds: float, threads: int = 8, seed: int = 0) -> str:
    """Raises the first exception of a thread; says how often each act was done."""
    shared, stdout = Shared(), sys.stdout
    # Threads that draw while another one's call is checked.
    warnings.filterwarnings("ignore", "check: ")
    # Of a stance that was set before the first compiled call, or before torch._dynamo was imported, nobody could say which
    # thread set it.
    shared.compiled(torch.ones(1), 1.0)
    until = time.monotonic() + seconds
    workers = [threading.Thread(target=Worker(shared, seed + number).run, args=(until,)) for number in range(threads)]
    for one in workers:
        one.start()
    memory = []
    for one in workers:
        while one.is_alive():
            one.join(max(0.5, seconds / 120))
            memory.append(resident())
    if shared.errors:
        raise shared.errors[0]
    assert sys.stdout is stdout
    done = ", ".join(f"{count} {name}" for name, count in shared.counts.most_common())
    if seconds < LONG:
        return done
    third = len(memory) // 3
    growth = statistics.median(memory[-third:]) - statistics.median(memory[third : 2 * third])
    assert growth < MOST_GROWTH_MB, f"memory grew by {growth:.1f} MB: {done}"
    models = sum(type(one) is Model for one in gc.get_objects())
    del workers, one
    gc.collect()
    left = sum(type(one) is Model for one in gc.get_objects())
    assert left == 0, f"{left} models are left, {models} before"
    return f"{done}; memory {memory[-1]:.1f} MB, growth {growth:.1f} MB from the second third to the last"
