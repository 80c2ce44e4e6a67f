"""Graphs for the tests: copied from a `torch.fx` graph, node by node, through the builder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stator import _C, _testing


def write_copy(graph: torch.fx.Graph, example_maker: Callable[..., Any] | None = None) -> _C.Graph:
    """The captured graph with the nodes of `graph`. What its output node returns must be a tuple."""
    builder = _testing.GraphBuilder()
    copies: dict[torch.fx.Node, Any] = {}
    for node in graph.nodes:
        args = torch.fx.node.map_arg(node.args, copies.__getitem__)
        kwargs = torch.fx.node.map_arg(node.kwargs, copies.__getitem__)
        copies[node] = builder.add(node.op, node.target, thaw(args), thaw(kwargs), extra_meta=dict(node.meta))
    return builder.finish(example_maker)


def thaw(argument: Any) -> Any:
    """With ordinary lists and dicts, as a program has them."""
    if isinstance(argument, list):
        return [thaw(item) for item in argument]
    if isinstance(argument, dict):
        return {key: thaw(value) for key, value in argument.items()}
    if type(argument) is tuple:
        return tuple(thaw(item) for item in argument)
    if isinstance(argument, slice):
        return slice(thaw(argument.start), thaw(argument.stop), thaw(argument.step))
    return argument


def chain(length: int) -> _C.Graph:
    """`length` additions, one after the other."""
    builder = _testing.GraphBuilder()
    x, y = builder.add("placeholder", "L_x_"), builder.add("placeholder", "L_y_")
    for _ in range(length):
        x = builder.add("call_function", torch.add, (x, y))
    builder.add("output", "output", ((x,),))
    return builder.finish()
