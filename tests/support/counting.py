"""Counts the operations that graphs execute during a call, for programs that break the graph."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.support import engine

OPERATIONS = ("call_function", "call_method", "call_module")


def is_of_ints(node: torch.fx.Node) -> bool:
    """Arithmetic on numbers that change from call to call."""
    numbers = (int, float, torch.SymInt, torch.SymFloat, torch.SymBool)
    return isinstance(node.meta.get("example_value"), numbers)


class Counting:
    """A backend that runs the graphs as they are and counts the operations that they execute."""

    def __init__(self) -> None:
        self.compiled = 0
        self.graphs_run = 0
        self.executed = 0

    def __call__(self, module: torch.fx.GraphModule, example_inputs: list) -> Callable:
        self.compiled += 1
        operations = sum(node.op in OPERATIONS and not is_of_ints(node) for node in module.graph.nodes)
        forward = module.forward

        def run(*inputs: Any) -> Any:
            self.graphs_run += 1
            self.executed += operations
            return forward(*inputs)

        return run


@dataclass
class Counted:
    """What one call did."""

    operations: int
    graphs_run: int
    compiled: int
    captures: int


def counted_calls(program: Callable, make_arguments: Callable[[], tuple], calls: int) -> list[Counted]:
    """Calls the compiled program with fresh arguments each time; exceptions count as an end like any other."""
    engine.reset()
    backend = Counting()
    compiled = engine.compile(program, backend=backend, fullgraph=False)
    counted = []
    for _ in range(calls):
        before = backend.executed, backend.graphs_run, backend.compiled, engine.captures()
        with contextlib.suppress(Exception):
            compiled(*make_arguments())
        after = backend.executed, backend.graphs_run, backend.compiled, engine.captures()
        counted.append(Counted(*(new - old for new, old in zip(after, before))))
    engine.reset()
    return counted
