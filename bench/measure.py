"""Times a program under a system.

The backend gets the torch.fx graph with its example inputs, reads how many nodes it has, and answers each call with
the outputs that the same graph gave in a run before. So neither running the graph nor generating its Python counts: the
first call is the capture, and the later ones are what a cached call costs on top of its operations.
"""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.programs import Program, made
from bench.systems import System


@dataclass(frozen=True)
class Repeats:
    """How often a measurement is repeated: once at least, and not again after some seconds."""

    most: int
    seconds: float = math.inf

    def __iter__(self) -> Iterator[int]:
        start = time.perf_counter()
        for number in range(self.most):
            yield number
            if time.perf_counter() - start > self.seconds:
                return


@dataclass
class Figures:
    """One system on one program, in seconds: the best of several runs."""

    capture: float = float("inf")
    cached: float = float("inf")
    first_result: float = float("inf")
    nodes: list[int] = field(default_factory=list)

    @property
    def node_count(self) -> int:
        return sum(self.nodes)


class Recording:
    """A backend that runs the graphs it gets, and keeps their results."""

    def __init__(self) -> None:
        self.outputs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        number = len(self.outputs)
        self.outputs.append(None)

        def run(*inputs: Any) -> Any:
            outputs = self.outputs[number] = graph_module(*inputs)
            return outputs

        return run


class Answering:
    """A backend that counts nodes and answers with outputs recorded before."""

    def __init__(self, outputs: list[Any]) -> None:
        self.outputs = outputs
        self.nodes: list[int] = []

    def __call__(self, graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        outputs = self.outputs[len(self.nodes)]
        self.nodes.append(len(graph_module.graph.nodes))
        return lambda *inputs: outputs


def measure(program: Program, systems: Sequence[System], repeats: Repeats) -> dict[str, Figures]:
    """The systems take turns, so that other work on the machine slows both alike."""
    figures = {system.name: Figures() for system in systems}
    outputs = {system.name: recorded(program, system) for system in systems}
    for _ in repeats:
        for system in systems:
            _measure_once(program, system, outputs[system.name], figures[system.name])
    for system in systems:
        system.reset()
    return figures


def recorded(program: Program, system: System) -> list[Any]:
    backend = Recording()
    system.reset()
    function, arguments = made(program)
    system.compile(function, backend=backend)(*arguments)
    return backend.outputs


def _measure_once(program: Program, system: System, outputs: list[Any], figures: Figures) -> None:
    function, arguments = made(program)
    system.reset()
    backend = Answering(outputs)
    compiled = system.compile(function, backend=backend)
    with quiet():
        figures.capture = min(figures.capture, seconds_of(lambda: compiled(*arguments)))
        figures.cached = min(figures.cached, best_seconds(lambda: compiled(*arguments)))
    figures.nodes = backend.nodes

    function, arguments = made(program)
    system.reset()
    compiled = system.compile(function, backend="eager")
    with quiet():
        figures.first_result = min(figures.first_result, seconds_of(lambda: compiled(*arguments)))


def seconds_of(job: Callable[[], Any]) -> float:
    start = time.perf_counter()
    job()
    return time.perf_counter() - start


def best_seconds(job: Callable[[], Any], batches: int = 20, calls: int = 50) -> float:
    """Of one call among many: the best batch, so that an interruption costs one batch and not the figure."""

    def batch() -> None:
        for _ in range(calls):
            job()

    batch()
    return min(seconds_of(batch) for _ in range(batches)) / calls


@contextmanager
def quiet() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
