"""Agreement of ranks: the ranks of a process group compare what they captured before they compile it.

With `stator.config.enable_compiler_collectives` the engine calls `run_compiler_collective` for every graph, right
before the backend. Numbers and sizes that differ between ranks become variables on all ranks, which then trace again.
Any other difference, or a missing rank, raises `RanksDiverged` on all ranks, which names the rank and the difference.

A rank that captures alone what all ranks have agreed on before, for another size, goes on alone after a short wait: the
others have their graphs, and its graph has the same operations in the same order.

Ranks exchange JSON: what a rank reads of another is data and can't run code. The exchange goes through the store of the
process group, not through a collective of its backend: a store has timeouts, needs no device, and tells which rank is
missing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from stator import ranks
from stator.ranks import RanksDiverged

if torch.distributed.is_available():
    from torch import distributed


@dataclass(frozen=True)
class Captured:
    """What one rank captured."""

    function: str  # with file and line
    end: str  # how the captured region ends: it returns, or there is a graph break somewhere
    inputs: tuple[str, ...]
    numbers: dict[str, int | float]  # sources of numbers that the graph is specialized on, and their values
    sizes: dict[str, int]  # the same for sizes of tensors
    made_variables: tuple[str, ...]  # those of them that should be variables by now, and can't be
    graph: str

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Captured:
        fields = json.loads(data)
        tuples = {name: tuple(fields[name]) for name in ("inputs", "made_variables")}
        return cls(**{**fields, **tuples})


# The verb of a message, for one rank and for several.
_VERBS = {
    "function": ("compiles", "compile"),
    "end": ("captured a part that", "captured a part that"),
    "inputs": ("has the inputs", "have the inputs"),
    "graph": ("captured", "captured"),
}


def run_compiler_collective(
    graph_module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    numbers: dict[str, Any],
    sizes: dict[str, int],
    made_variables: Sequence[str],
    function: str,
    end: str,
) -> list[str]:
    """The sources of numbers and sizes that have to become variables; none if all ranks agree. Raises RanksDiverged.

    `made_variables` are the sources that became variables before, in this or an earlier capture of the callable.
    """
    if not torch.distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() == 1:
        return []
    constants = {**numbers, **sizes}
    mine = Captured(
        function,
        end,
        inputs=tuple(map(_described, inputs)),
        numbers=numbers,
        sizes=sizes,
        made_variables=tuple(sorted(set(made_variables).intersection(constants))),
        graph=str(graph_module.graph).strip(),
    )
    outline = (function, end, *_outline_of(graph_module, inputs))
    all_ranks = _gather(mine, "\n".join(outline), outline in _agreed)
    if all_ranks is None:
        return []
    for part in ("function", "end"):
        _expect_same(all_ranks, part)
    changing = _differing([{**each.numbers, **each.sizes} for each in all_ranks])
    # Each rank decides by what all of them sent, so all raise or all trace again.
    _expect_variables(all_ranks, changing)
    if not changing:
        _expect_symbols(all_ranks)
        for part in ("inputs", "graph"):
            _expect_same(all_ranks, part)
        _agreed.add(outline)
    return list(changing)


def _gather(mine: Captured, outline: str, may_go_alone: bool) -> list[Captured] | None:
    """What each rank captured; None if this rank goes on alone. Texts are only exchanged if digests differ."""
    text = mine.to_bytes()
    digest = hashlib.sha256(text).hexdigest().encode()
    digests = ranks.gather(ranks.Offer(mine.function, digest, outline, may_go_alone))
    if digests is None:
        return None
    if len(set(digests)) == 1:
        return [mine] * len(digests)
    # All ranks have read the same digests, so all of them come.
    texts = ranks.gather(ranks.Offer(mine.function, text, outline, may_go_alone=False))
    return None if texts is None else list(map(Captured.from_bytes, texts))


# What all ranks have captured alike, in outline: one of them may capture it again alone, for another size.
_agreed: set[tuple[str, ...]] = set()


def _differing(constants: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    """What is a constant on all ranks, but not the same one: its value on each rank."""
    places = set.intersection(*(set(each) for each in constants))
    values = {place: [each[place] for each in constants] for place in sorted(places)}
    return {place: each for place, each in values.items() if len({repr(value) for value in each}) > 1}


def _expect_variables(all_ranks: Sequence[Captured], values: dict[str, list[Any]]) -> None:
    """What differs between ranks is not a number or size that some rank failed to make a variable."""
    failed = {place for each in all_ranks for place in each.made_variables}
    for place in sorted(failed.intersection(values)):
        function = all_ranks[0].function
        raise RanksDiverged(f"the graph of {function} is specialized on {place}, which is {_on_ranks(values[place])}")


def _expect_symbols(all_ranks: Sequence[Captured]) -> None:
    """A size that the ranks made a symbol is one on all of them: 0 and 1 can't be."""
    places = {place for each in all_ranks for place in each.sizes}
    values = {place: [each.sizes.get(place, "a symbol") for each in all_ranks] for place in places}
    _expect_variables(all_ranks, {place: each for place, each in values.items() if len(set(each)) > 1})


def _on_ranks(values: Sequence[Any]) -> str:
    return ", ".join(f"{value} on rank {rank}" for rank, value in enumerate(values))


def _outline_of(graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[str]:
    """The tensors and the operations on them, without sizes and numbers. Ranks with the same outline run the same
    operations, and with them the same collectives, in the same order."""
    outline = [_described(value) for value in inputs if isinstance(value, torch.Tensor)]
    numbers: set[torch.fx.Node] = set()
    values = iter(inputs)
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            if not isinstance(next(values, None), torch.Tensor):
                numbers.add(node)
        elif node.op.startswith("call_"):
            computes_number = getattr(node.target, "__module__", None) == "_operator" and node.all_input_nodes
            if computes_number and numbers.issuperset(node.all_input_nodes):
                numbers.add(node)
            else:
                outline.append(_name_of(node.target))
    return outline


def _name_of(target: Any) -> str:
    """Without the address, which is another one in each process."""
    return f"{getattr(target, '__module__', None)} {re.sub(' at 0x[0-9a-f]+', '', str(target))}"


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        # Sizes are compared by themselves: some of them are symbols.
        return f"{value.dtype} with {value.dim()} dimensions on {value.device.type}"
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
