"""Agreement of ranks: the ranks of a process group compare what they captured before they compile it.

With `stator.config.enable_compiler_collectives` the engine calls `run_compiler_collective` for every graph, right
before the backend. Numbers that differ between ranks become variables on all ranks, which then trace again. Any other
difference, or a missing rank, raises `RanksDiverged` on all ranks, which names the rank and the difference.

The exchange goes through the store of the process group, not through a collective of its backend: a store has
timeouts, needs no device, and tells which rank is missing.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch

from stator.settings import config

if torch.distributed.is_available():
    from torch import distributed
    from torch.distributed import PrefixStore


class RanksDiverged(RuntimeError):
    """The ranks of a process group captured different things."""


@dataclass(frozen=True)
class Captured:
    """What one rank captured."""

    function: str  # with file and line
    end: str  # how the captured region ends: it returns, or there is a graph break somewhere
    inputs: tuple[str, ...]
    numbers: tuple[tuple[str, Any], ...]  # sources of numbers that the graph is specialized on, and their values
    graph: str


# The verb of a message, for one rank and for several.
_VERBS = {
    "function": ("compiles", "compile"),
    "end": ("captured a part that", "captured a part that"),
    "inputs": ("has the inputs", "have the inputs"),
    "graph": ("captured", "captured"),
}


def run_compiler_collective(
    graph_module: torch.fx.GraphModule, inputs: Sequence[Any], numbers: dict[str, Any], function: str, end: str
) -> list[str]:
    """The sources of numbers that have to become variables; none if all ranks agree. Raises RanksDiverged."""
    if not torch.distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return []
    mine = Captured(
        function, end, tuple(map(_described, inputs)), tuple(sorted(numbers.items())), str(graph_module.graph).strip()
    )
    all_ranks = all_gather_object(mine)
    for part in ("function", "end"):
        _expect_same(all_ranks, part)
    numbers_of_ranks = [dict(each.numbers) for each in all_ranks]
    places = set.intersection(*(set(each) for each in numbers_of_ranks))
    changing = sorted(place for place in places if len({repr(each[place]) for each in numbers_of_ranks}) > 1)
    for place in changing:
        if (function, place) in _made_variables:
            values = ", ".join(f"{each[place]!r} on rank {rank}" for rank, each in enumerate(numbers_of_ranks))
            raise RanksDiverged(f"the graph of {function} is specialized on {place}, which is {values}")
        _made_variables.add((function, place))
    if not changing:
        for part in ("inputs", "graph"):
            _expect_same(all_ranks, part)
    return changing


_made_variables: set[tuple[str, str]] = set()
_rounds = 0


def all_gather_object(mine: Captured) -> list[Captured]:
    """What each rank captured in this round, by rank."""
    global _rounds
    store = PrefixStore("stator.collectives", distributed.distributed_c10d._get_default_store())
    rank, count = distributed.get_rank(), distributed.get_world_size()
    _rounds += 1
    store.set(f"{_rounds}/{rank}", pickle.dumps(mine))  # type: ignore[arg-type]  # it stores bytes
    answers = {rank: mine}
    limit = timedelta(seconds=config.collective_seconds)
    for other in range(count):
        if other == rank:
            continue
        try:
            store.wait([f"{_rounds}/{other}"], limit)
        except RuntimeError:
            raise RanksDiverged(
                f"rank {other} did not compile {mine.function} together with rank {rank} within "
                f"{config.collective_seconds} s: it took another path through the program, or it has compiled this for "
                "its own inputs before"
            ) from None
        answers[other] = pickle.loads(store.get(f"{_rounds}/{other}"))
    if _rounds > 1:
        # All ranks have reached this round, so none reads the last one any more.
        store.delete_key(f"{_rounds - 1}/{rank}")
    return [answers[other] for other in range(count)]


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}{list(value.shape)} on {value.device.type}"
    return type(value).__name__


def _expect_same(all_ranks: Sequence[Captured], part: str) -> None:
    values = [getattr(each, part) for each in all_ranks]
    usual, _ = Counter(values).most_common(1)[0]
    if values.count(usual) == len(values):
        return
    others = [rank for rank, each in enumerate(values) if each == usual]
    lines = [
        f"rank {rank} {_VERBS[part][0]} {_first_difference(each, usual)}"
        for rank, each in enumerate(values)
        if each != usual
    ]
    different = next(each for each in values if each != usual)
    several = len(others) > 1
    ranks = f"rank{'s' * several} {', '.join(map(str, others))}"
    lines.append(f"where {ranks} {_VERBS[part][several]} {_first_difference(usual, different)}")
    raise RanksDiverged(f"the ranks captured different things in {all_ranks[0].function}: " + "; ".join(lines))


def _first_difference(value: Any, other: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value)
    lines, other_lines = value.splitlines(), other.splitlines()
    for line, other_line in zip(lines, other_lines, strict=False):
        if line != other_line:
            return line.strip()
    return lines[len(other_lines)].strip() if len(lines) > len(other_lines) else "no more than that"
