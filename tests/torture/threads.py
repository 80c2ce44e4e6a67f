"""Threads that compile, call, mutate, reset and drop models, all at once, on functions and models that they share."""

from __future__ import annotations

import collections
import gc
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

import stator


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

    def reset(self) -> None:
        stator.reset()

    def collect(self) -> None:
        gc.collect()

    def run(self, until: float) -> None:
        often: list[Callable[[], Any]] = [self.call, self.call_shared] * 6
        rarely = [self.compile_again, self.mutate, self.train, self.make, self.reset, self.collect]
        while time.monotonic() < until and not self.shared.errors:
            act = self.random.choice(often + rarely)
            try:
                act()
                self.shared.counts[act.__name__] += 1
            except BaseException as error:
                self.shared.errors.append(error)


def run(seconds: float, threads: int = 8, seed: int = 0) -> str:
    """Raises the first exception of a thread; says how often each act was done."""
    shared = Shared()
    until = time.monotonic() + seconds
    workers = [threading.Thread(target=Worker(shared, seed + number).run, args=(until,)) for number in range(threads)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    if shared.errors:
        raise shared.errors[0]
    return ", ".join(f"{count} {name}" for name, count in shared.counts.most_common())
