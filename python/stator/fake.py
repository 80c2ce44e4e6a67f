"""The fake mode of a graph module, created when it is first read.

Creating the first FakeTensorMode of a process imports torch._dynamo (a second), and most backends written by users
never use it. So neither the tracing context nor a node's `example_value` creates one before it is read.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from torch._guards import TracingContext, tracing

if TYPE_CHECKING:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx import GraphModule, Node
    from torch.fx.experimental.symbolic_shapes import ShapeEnv


class ModeCell:
    """Creates the fake mode of one capture on demand.

    The nodes of a graph (for their `example_value`) and its graph module (as `_stator_fake_mode` in its `__dict__`)
    share one cell, so that the tracing context of the backend has the same mode as the nodes.
    """

    __slots__ = ("_mode",)

    def __init__(self) -> None:
        self._mode: FakeTensorMode | None = None

    def get(self) -> FakeTensorMode:
        if self._mode is None:
            self._mode = new_mode()
        return self._mode

    # A copy of a graph module shares the mode; an unpickled one gets a new mode.
    def __deepcopy__(self, memo: dict[int, Any]) -> ModeCell:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ModeCell, ()


def mode_of(graph_module: GraphModule) -> FakeTensorMode:
    """The fake mode that every fake tensor of this graph belongs to."""
    cell = graph_module.__dict__.setdefault("_stator_fake_mode", ModeCell())
    return cell.get()


def new_mode() -> FakeTensorMode:
    """A fake mode with a shape environment, as aot_autograd and inductor expect, with static sizes by default."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    # Not a subclass: PyTorch finds the rules of higher-order operations by the exact class of the mode.
    mode = FakeTensorMode(shape_env=ShapeEnv())
    mode.from_tensor = partial(_with_fixed_sizes, weakref.ref(mode))  # type: ignore[method-assign]
    return mode


def _with_fixed_sizes(
    mode: weakref.ref[FakeTensorMode], tensor: Any, *, symbolic_context: Any = None, **kwargs: Any
) -> Any:
    """`from_tensor` of a mode. By default aot_autograd makes the sizes of a real input symbolic if the mode has a shape
    environment. But a graph that was captured with static sizes is valid for those only."""
    if symbolic_context is None:
        kwargs["static_shapes"] = True
    held = mode()
    assert held is not None
    return type(held).from_tensor(held, tensor, symbolic_context=symbolic_context, **kwargs)


class _Context(TracingContext):
    """A tracing context whose fake mode is created when it is read."""

    def __init__(self, make_mode: Callable[[], FakeTensorMode]) -> None:
        self._make_mode: Callable[[], FakeTensorMode] | None = make_mode
        self._mode: FakeTensorMode | None = None
        super().__init__(None)

    @property
    def fake_mode(self) -> FakeTensorMode | None:  # type: ignore[override]
        if self._mode is None and self._make_mode is not None:
            self._mode = self._make_mode()
        return self._mode

    @fake_mode.setter
    def fake_mode(self, mode: FakeTensorMode | None) -> None:
        if mode is not None:
            self._mode = mode

    def settle(self) -> None:
        """Creates no mode from now on: `tracing` reads it when it exits."""
        self._make_mode = None


@contextmanager
def tracing_context(graph_module: GraphModule) -> Iterator[TracingContext]:
    """The tracing context that torch.compile's backends expect."""
    context = _Context(lambda: mode_of(graph_module))
    with tracing(context):
        try:
            yield context
        finally:
            context.settle()


@contextmanager
def numbers_as_symbols(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """The example inputs for a backend, with symbols for numbers that change between calls.

    The engine leaves the bounds of such ints in the module, and None for floats. `_stator_burned_in` then tells the
    engine which of them the backend specialized on, beyond those bounds. If the backend fails these are all of them,
    because the symbols may be the cause.
    """
    ranges: dict[int, tuple[int, int] | None] = graph_module.__dict__.pop("_stator_ranges", {})
    if not ranges:
        yield example_inputs
        return
    shape_env = mode_of(graph_module).shape_env
    assert shape_env is not None
    examples = list(example_inputs)
    for number, bounds in ranges.items():
        examples[number] = _symbol(shape_env, examples[number], f"input_{number}", bounds)
    symbols = {examples[number].node.expr: number for number in ranges}
    try:
        yield examples
    except Exception:
        graph_module.__dict__["_stator_burned_in"] = list(ranges)
        return
    assumed = {symbol for guard in shape_env.guards for symbol in guard.expr.free_symbols} | set(shape_env.replacements)
    if burned_in := sorted(number for symbol, number in symbols.items() if symbol in assumed):
        graph_module.__dict__["_stator_burned_in"] = burned_in


def becoming_floats(graph_module: GraphModule) -> list[int]:
    """The positions of numeric inputs that are floats, or from which the graph computes floats."""
    ranges = graph_module.__dict__.get("_stator_ranges")
    if not ranges:
        return []
    inputs = [node for node in graph_module.graph.nodes if node.op == "placeholder"]
    return [number for number in ranges if _becomes_float(inputs[number])]


def _becomes_float(node: Node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, float) or (isinstance(value, int) and any(map(_becomes_float, node.users)))


def _symbol(shape_env: ShapeEnv, value: float, name: str, bounds: tuple[int, int] | None) -> Any:
    from torch._dynamo.source import ConstantSource
    from torch.fx.experimental.symbolic_shapes import DimDynamic
    from torch.utils._sympy.value_ranges import ValueRanges

    source = ConstantSource(name)
    if bounds is None:
        # Sympy does not support infinity and NaN. Any other hint will do, because uses of it are guarded.
        example = value if math.isfinite(value) else 0.5
        symbol = shape_env.create_unspecified_symbol(example, source, DimDynamic.DYNAMIC)
        return shape_env.create_symfloatnode(symbol, hint=example, source=source)
    symbol = shape_env.create_unspecified_symbol(value, source, DimDynamic.DYNAMIC)
    shape_env.var_to_range[symbol] = ValueRanges(*bounds)
    return shape_env.create_symintnode(symbol, hint=value, source=source)
