"""The cost of single parts of the engine, independent of programs; each is the best of several runs."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch

import stator
from bench.tables import aligned, seconds
from stator import _C, _testing
from stator.graph_module import GraphModule

ROUNDS = 10


def best_of(action: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Seconds that one run of `action` takes."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def chain(length: int, function: Callable[..., Any]) -> _C.Graph:
    """A graph of `length` calls, one after the other."""
    builder = _testing.GraphBuilder()
    x, y = builder.add("placeholder", "x"), builder.add("placeholder", "y")
    for _ in range(length):
        x = builder.add("call_function", function, (x, y))
    builder.add("output", "output", ((x,),))
    return builder.finish()


def graph_modules() -> dict[str, float]:
    """Making a graph module, a node of `torch.fx`, and calling a C function from a graph."""
    captured = chain(1000, max)
    module = GraphModule.from_captured(captured)
    native = best_of(lambda: module.forward(1, 2)) / 1000
    module.recompile()
    generated = best_of(lambda: module.forward(1, 2)) / 1000
    added = chain(1000, torch.add)
    return {
        "a graph module": best_of(lambda: GraphModule.from_captured(captured), rounds=200),
        "a node of torch.fx": best_of(lambda: _C.fx_graph(added, None, False)) / 1003,
        "a node of torch.fx, by create_node": best_of(lambda: _C.fx_graph(added, None, True)) / 1003,
        "a call in a graph": native,
        "a call in a graph, by generated Python": generated,
    }


def decoding() -> dict[str, float]:
    """An instruction of a long function of the standard library."""
    code = argparse.ArgumentParser._parse_known_args.__code__
    runs = 200
    counted = _testing._frames_decode_again(code, 1)
    return {"decoding an instruction": best_of(lambda: _testing._frames_decode_again(code, runs)) / (runs * counted)}


def leaving_frames() -> dict[str, float]:
    """A frame that is left at once, beside a plain call."""

    def plain() -> object:
        return None if plain is None else plain

    def raising() -> None:
        raise ValueError

    count = 100_000
    calls = {
        "a plain call": lambda: _testing._frames_call_repeatedly(plain, count),
        "a call whose frame is left at once": lambda: _testing._frames_return_repeatedly(plain, None, count),
        "the same without a RETURN_VALUE in it": lambda: _testing._frames_return_repeatedly(raising, None, count),
    }
    return {name: best_of(call, rounds=7) / count for name, call in calls.items()}


def by_size(x: torch.Tensor) -> torch.Tensor:
    return x[0, 0] * hash(f"{x.shape[0]}")  # needs the number: each size is an entry of its own


def looking_up() -> dict[str, float]:
    """A cached call among few and among many entries that differ by the sizes of a tensor; each call takes another."""

    def call_among(count: int, rows: int, dynamic: bool | None) -> float:
        compiled = stator.compile(by_size, dynamic=dynamic)
        # With `dynamic=None`, the other dimension stays a symbol.
        tensors = [torch.ones(size + 2, 2 + size % rows) for size in range(count)]
        for tensor in tensors:
            compiled(tensor)
        some = tensors[:: count // 4]
        return best_of(lambda: [compiled(tensor) for tensor in some], rounds=500) / len(some)

    figures = {}
    with stator.config.patch(recompile_limit=2000):
        for count in (4, 1000):
            figures[f"a cached call among {count} sizes"] = call_among(count, 1, False)
        for count in (4, 200):
            figures[f"a cached call among {count} sizes that the program specializes"] = call_among(count, 9, None)
    return figures


def measure() -> dict[str, float]:
    return {**graph_modules(), **decoding(), **leaving_frames(), **looking_up()}


def table(figures: dict[str, float]) -> str:
    rows = [["part", "time"], *([name, seconds(value)] for name, value in figures.items())]
    return f"Parts of the engine\n{aligned(rows)}"
