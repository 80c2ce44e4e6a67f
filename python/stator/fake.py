"""The fake mode of a graph module, created when it is first read.

Creating the first FakeTensorMode of a process imports torch._dynamo (a second), and most backends written by users
never use it. So neither the tracing context nor a node's `example_value` creates one before it is read.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import CompileContext, TracingContext, tracing

from .symbols import LazyNumber, Symbols

if TYPE_CHECKING:
    from types import CodeType

    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx import GraphModule


class ModeCell:
    """Creates the fake mode of one capture on demand.

    The nodes of a graph (for their `example_value`) and its graph module (as `_stator_fake_mode` in its `__dict__`)
    share one cell, so that the tracing context of the backend has the same mode as the nodes.
    """

    __slots__ = ("__weakref__", "_examples", "_mode", "_module", "symbols", "traced_code")

    def __init__(self) -> None:
        self._mode: FakeTensorMode | None = None
        # Numbers and sizes that change between calls.
        self.symbols: Symbols | None = None
        self._module: weakref.ref[GraphModule] | None = None
        self._examples: list[Any] = []
        # Of the frame and of all calls that were inlined, in order; set by the engine for compilers.
        self.traced_code: list[CodeType] = []

    def describe(self, symbols: list[tuple[Any, ...]], relations: list[str], unbacked: list[tuple[Any, ...]]) -> None:
        """Called by the engine if there are symbols."""
        self.symbols = Symbols(symbols, relations, unbacked)

    @property
    def has_mode(self) -> bool:
        return self._mode is not None

    def get(self) -> FakeTensorMode:
        if self._mode is None:
            self._mode = new_mode(self)
            if self.symbols is not None:
                assert self._mode.shape_env is not None
                self.symbols.fill(self._mode.shape_env)
        return self._mode

    def number(self, text: str) -> Any:
        """A number or size that changes between calls, as a SymInt or SymFloat: `2 * s0`."""
        return self._filled().number(text)

    def _filled(self) -> Symbols:
        shape_env = self.get().shape_env
        assert shape_env is not None
        if self.symbols is None:
            # The only such numbers are those that the graph computes.
            self.symbols = Symbols([], [])
            self.symbols.fill(shape_env)
        return self.symbols

    def lazy_number(self, text: str) -> Any:
        """The same as an example input: created when the backend first uses it."""
        return LazyNumber(self, text)

    def layout_of(self, tensor: torch.Tensor) -> list[int | list[float | str]]:
        """The sizes, strides and storage offset of a FakeTensor of this mode, as the engine reads them."""
        symbols = self._filled()
        sizes = [symbols.terms_of(size) for size in tensor.size()]
        if tensor.layout is torch.jagged:
            return sizes  # its strides are those of its values
        strides = [symbols.terms_of(symbols.typical(stride)) for stride in tensor.stride()]
        return [*sizes, *strides, symbols.terms_of(tensor.storage_offset())]

    def nested_int(self, number: int) -> torch.SymInt:
        """The ragged size of a jagged tensor, by the engine's number for it."""
        return self._filled().nested_int(number)

    def terms_of(self, number: torch.SymInt) -> int | list[float | str]:
        """A size of this mode, as the engine reads it."""
        return self._filled().terms_of(number)

    def static_copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """A FakeTensor with constant sizes, for readers of everything else."""
        with self.get():
            return torch.empty([2] * tensor.dim(), dtype=tensor.dtype, device=tensor.device, layout=tensor.layout)

    def begin_unbacked_at(self, number: int) -> None:
        """What operations make from now on are new numbers of the engine, from this one on."""
        self._filled().next_unbacked = number

    def assertions(self) -> list[list[float | str]] | None:
        """What operations have assumed about unbacked numbers; None if the engine can't check it."""
        return self._filled().assertions()

    def conditions(self) -> list[list[float | str]]:
        """What operations have assumed about the symbols so far."""
        symbols = self._filled()
        conditions: list[list[float | str]] = []
        for _, terms, function in symbols.assumptions().conditions:
            # What the engine can't check is valid for the numbers of this call alone.
            conditions += [[name, symbols.hint(name), "is"] for name in terms] if function else [terms]
        return conditions

    def remember_examples(self, module: GraphModule, examples: Sequence[Any]) -> None:
        """From now on these tensors have their symbolic sizes in the fake mode."""
        self._module = weakref.ref(module)
        self._examples = [weakref.ref(one) if isinstance(one, torch.Tensor) else None for one in examples]

    def forget_examples(self) -> None:
        """After the backend: the program can see weak references to its tensors, as in `torch.utils.swap_tensors`."""
        self._examples = []

    def fake_of_example(self, tensor: torch.Tensor) -> Any:
        """The FakeTensor of an input of the graph; None for any other tensor."""
        module = self._module() if self._module is not None else None
        if module is None:
            return None
        for position, example in enumerate(self._examples):
            if example is not None and example() is tensor:
                inputs = (node for node in module.graph.nodes if node.op == "placeholder")
                return list(inputs)[position].meta["example_value"]
        return None

    # A copy of a graph module shares the mode; an unpickled one gets a new mode.
    def __deepcopy__(self, memo: dict[int, Any]) -> ModeCell:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return ModeCell, ()


def cell_of(graph_module: GraphModule) -> ModeCell:
    return graph_module.__dict__.setdefault("_stator_fake_mode", ModeCell())


def mode_of(graph_module: GraphModule) -> FakeTensorMode:
    """The fake mode that every fake tensor of this graph belongs to."""
    return cell_of(graph_module).get()


def new_mode(cell: ModeCell) -> FakeTensorMode:
    """A fake mode with a shape environment, as aot_autograd and inductor expect."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    # Not a subclass: PyTorch finds the rules of higher-order operations by the exact class of the mode.
    mode = FakeTensorMode(shape_env=ShapeEnv())
    describer = mode.fake_tensor_converter.meta_converter.describer
    for memo in (describer.lookup_tensor, describer.lookup_storage):
        memo._stator_bookkeeping = True  # type: ignore[attr-defined] # read by the engine: see src/cpython/finalizers.cpp
    mode.from_tensor = partial(_from_tensor, weakref.ref(mode), weakref.ref(cell))  # type: ignore[method-assign]
    return mode


def _from_tensor(
    mode: weakref.ref[FakeTensorMode],
    cell: weakref.ref[ModeCell],
    tensor: Any,
    *,
    symbolic_context: Any = None,
    **kwargs: Any,
) -> Any:
    """`from_tensor` of a mode. By default aot_autograd makes the sizes of a real input symbolic if the mode has a shape
    environment. But only those sizes may be symbols that are symbols of the capture."""
    held, symbols = mode(), cell()
    assert held is not None
    if symbolic_context is None:
        kwargs["static_shapes"] = True
        if symbols is not None and (fake := symbols.fake_of_example(tensor)) is not None:
            return fake
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
    # `TracingContext.get_traced_code()`: by the files in it caches tell whether what they hold is outdated.
    context.traced_code = list(dict.fromkeys(cell_of(graph_module).traced_code))
    # By this key compilers know a module of torch.compile, and look which of its inputs stay where they are.
    graph_module.meta.setdefault("dynamo_compile_id", CompileContext.current_compile_id())
    with tracing(context):
        try:
            yield context
        finally:
            context.settle()


def has_deferred_assertions(graph_module: GraphModule) -> bool:
    """Whether the backend has assumed something about numbers that depend on data, to be checked in each run."""
    cell = cell_of(graph_module)
    shape_env = cell.get().shape_env if cell.has_mode else None
    return shape_env is not None and bool(shape_env.deferred_runtime_asserts)


@contextmanager
def watching_symbols(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Iterator[None]:
    """Leaves what the backend assumed about symbols in the module, for the engine.

    If the backend fails, the capture starts again without symbols, because they may be the cause.
    """
    cell = cell_of(graph_module)
    if cell.symbols is None:
        yield
        return
    cell.remember_examples(graph_module, example_inputs)
    try:
        yield
        assumptions = cell.symbols.assumptions()
    except Exception as error:
        if cell.symbols.are_required or cell.symbols.have_nested_ints:
            raise
        assumptions = cell.symbols.rejected_by(error)
        if not assumptions.rejected:
            raise
    finally:
        cell.forget_examples()
    graph_module.__dict__["_stator_conditions"] = assumptions.conditions
    graph_module.__dict__["_stator_fixed"] = assumptions.fixed
    graph_module.__dict__["_stator_rejected"] = assumptions.rejected
    graph_module.__dict__["_stator_failure"] = assumptions.failure
