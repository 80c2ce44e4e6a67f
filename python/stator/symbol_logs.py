"""`TORCH_LOGS="dynamic"`: the numbers and sizes that change between calls, in the words of torch's ShapeEnv.

The ShapeEnv itself logs the symbols that Stator makes for a backend (symbols.py), and writes which line of the program
it was for: that is looked up here. Stator's own conditions follow as guards that were added. Only imported once
torch._dynamo is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from stator.torch_words import Stack, line_that_reads, tensor_of

if TYPE_CHECKING:
    from torch.fx import GraphModule
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

_dynamic = logging.getLogger("torch.fx.experimental.symbolic_shapes")

# Why a number is a symbol: Stator's words (src/source/dynamic_policy.cpp), and torch's.
_REASONS = {
    "changed between calls": "automatic dynamic/PGO",
    "dynamic=True": "assume_static_by_default = False",
    "marked with mark_dynamic": "mark_dynamic",
}


def is_on() -> bool:
    return _dynamic.isEnabledFor(logging.INFO)


def tell_of_marks(symbols: Iterable[str]) -> None:
    """Which inputs are dynamic, and why."""
    for line in symbols:
        found = re.match(r"\w+ is (.+?): ", line)
        reason = _REASONS.get(line.rpartition("; ")[2])
        if found is not None and reason is not None:
            _dynamic.info("marking %s as dynamic (from %s)", tensor_of(found[1]), reason)


def make_symbols(graph_module: GraphModule) -> ShapeEnv | None:
    """The ShapeEnv that has symbols for all inputs of a graph; it tells of them when it makes them."""
    from torch._dynamo.utils import detect_fake_mode

    values = [node.meta.get("example_value") for node in graph_module.graph.find_nodes(op="placeholder")]
    for value in values:
        if isinstance(value, torch.Tensor):
            value.size()
    mode = detect_fake_mode(values)
    return None if mode is None else mode.shape_env


@contextmanager
def at_the_line(place: str, needed: Mapping[str, Stack]) -> Iterator[None]:
    """Where the program first reads what is at a place: torch's logs inside of the context name that line."""
    from torch._guards import TracingContext, tracing

    stack = line_that_reads(place, needed)
    if stack is None:
        yield
        return
    context: Any = TracingContext.try_get() or TracingContext(None)
    with tracing(context):
        before = context.loc_in_frame, context.frame_summary_stack
        context.loc_in_frame, context.frame_summary_stack = None, list(stack)
        try:
            yield
        finally:
            context.loc_in_frame, context.frame_summary_stack = before


def tell_of_conditions(entry: Mapping[str, Any], needed: Mapping[str, Stack], shape_env: ShapeEnv | None) -> None:
    """What the trace has assumed about the symbols; and the symbols, where no backend needed them."""
    from torch.utils._traceback import format_frame

    names = _names(shape_env)
    for line in entry["symbols"]:
        _tell_of_symbol(line, names, needed)
    for relation in entry["relations"]:
        if relation["text"].endswith(" fits into 64 bits"):
            continue  # Stator's own
        stack = needed.get(relation["text"])
        line = f" {format_frame(stack[-1], line=True)}" if stack else f" {relation.get('where', '')}".rstrip()
        _dynamic.info("eval %s [guard added]%s", _by_symbols(relation["text"], names), line)


def _tell_of_symbol(text: str, names: Mapping[str, str], needed: Mapping[str, Stack]) -> None:
    """A symbol (src/capture/symbol_report.cpp) that the ShapeEnv has not told of."""
    name, _, rest = text.partition(" is ")
    place, _, words = rest.partition(": ")
    if place in names or " is " not in text:
        return
    if (equal := re.match(r"equal to (.+); .*", words)) is not None:
        _dynamic.debug("create_symbol %s duck sized %s", equal[1], place)
        return
    from torch.utils._traceback import format_frame

    stack = line_that_reads(place, needed)
    line = f" {format_frame(stack[-1], line=True)}" if stack else ""
    found = re.match(r"(-?[\d.]+) in this call(?:, at least (-?\d+))?(?:, at most (-?\d+))?;", words)
    if found is None:
        _dynamic.info("create_symbol %s%s", text, line)
        return
    range_of_values = f"[{found[2] or '-int_oo'}, {found[3] or 'int_oo'}]"
    _dynamic.info("create_symbol %s = %s for %s %s%s", name, found[1], place, range_of_values, line)


def _names(shape_env: ShapeEnv | None) -> dict[str, str]:
    """The symbol for each place."""
    if shape_env is None:
        return {}
    return {
        source if isinstance(source, str) else source.name: str(symbol)
        for symbol, sources in shape_env.var_to_sources.items()
        for source in sources
    }


def _by_symbols(text: str, names: Mapping[str, str]) -> str:
    """`s77 > 5` for `L['x'].size()[0] > 5`."""
    for place in sorted(names, key=len, reverse=True):
        text = text.replace(place, names[place])
    return text
