"""One run of a call in a `World`, what it left behind, and the comparison of two such runs."""

from __future__ import annotations

import inspect
import random
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any

import torch

from stator.isolation import Namespace, World, is_of_program
from stator.printed_text import printed_text
from stator.same import Comparison


@dataclass
class State:
    """What PyTorch and Python keep for the whole thread, and a program may change."""

    torch_random: torch.Tensor
    cuda_random: list[torch.Tensor]
    python_random: Any
    grad_enabled: bool
    dtype: torch.dtype

    @classmethod
    def now(cls) -> State:
        cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
        enabled, dtype = torch.is_grad_enabled(), torch.get_default_dtype()
        return cls(torch.get_rng_state(), cuda, random.getstate(), enabled, dtype)

    def restore(self) -> None:
        torch.set_rng_state(self.torch_random)
        random.setstate(self.python_random)
        if self.cuda_random:
            torch.cuda.set_rng_state_all(self.cuda_random)
        torch.set_grad_enabled(self.grad_enabled)
        torch.set_default_dtype(self.dtype)


@dataclass
class Run:
    """What a call in a world returned, raised and printed, and the state that it left."""

    world: World
    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    state: State | None = None

    def call(self, fn: Callable[..., Any]) -> None:
        self.result = self.error = None
        try:
            self.result = fn(*self.world.arguments, **self.world.keywords)
        except Exception as error:
            self.error = error
        self.state = State.now()

    def call_hidden(self, fn: Callable[..., Any]) -> None:
        """With the global variables of the world; nothing is printed."""
        # Warnings of a second run would be shown again.
        with self.world.bound(), printed_text(is_hidden=True) as printed, warnings.catch_warnings(record=True):
            self.call(fn)
        self.printed = printed.getvalue()

    def outputs(self) -> list[torch.Tensor]:
        """The results that have a history."""
        leaves = torch.utils._pytree.tree_leaves(self.result)
        return [one for one in leaves if isinstance(one, torch.Tensor) and one.grad_fn is not None]


def compare(plain: Run, tested: Run, exact: bool) -> Comparison:
    """Raises `Different` at the first thing that differs; the results come last, because the rest says more."""
    comparison = Comparison(exact)
    comparison.same(_error(plain), _error(tested), "exception")
    comparison.same(plain.printed, tested.printed, "printed text")
    for (name, one), (_, other) in zip(_arguments(plain.world), _arguments(tested.world), strict=True):
        comparison.same(one, other, name)
    _compare_functions(comparison, plain.world.fn, tested.world.fn)
    _compare_globals(comparison, plain.world, tested.world)
    comparison.same(plain.result, tested.result, "result")
    one, other = plain.state, tested.state
    if one is not None and other is not None:
        drawn = [(run.torch_random, run.python_random, run.cuda_random) for run in (one, other)]
        comparison.same(drawn[0], drawn[1], "random state")
        comparison.same(one.grad_enabled, other.grad_enabled, "torch.is_grad_enabled()")
        comparison.same(one.dtype, other.dtype, "torch.get_default_dtype()")
    return comparison


def compare_gradients(plain: Run, tested: Run, comparison: Comparison) -> None:
    """Gradients of the sum of the results with respect to what the call was given. Changes no `grad`."""
    outputs = plain.outputs(), tested.outputs()
    if not outputs[0] or len(outputs[0]) != len(outputs[1]) or _has_hooks(tested.world):
        return
    inputs = [
        (one, other)
        for one, other in zip(plain.world.tensors, tested.world.tensors, strict=True)
        if one.requires_grad and other.requires_grad and one is not other
    ]
    if not inputs:
        return
    state = State.now()
    computed = []
    for results, given in zip(outputs, zip(*inputs, strict=True), strict=True):
        state.restore()
        try:
            computed.append(_gradients(results, given))
        except RuntimeError as error:
            computed.append([f"{type(error).__name__}: {error}"])
    state.restore()
    names = names_of_tensors(tested.world)
    if isinstance(computed[0][0], str):
        return  # the program can't be differentiated
    comparison.same(type(computed[0][0]) is str, type(computed[1][0]) is str, "backward pass")
    for (_, other), one_gradient, other_gradient in zip(inputs, *computed, strict=True):
        place = names.get(id(other), "an input") + ".grad"
        Comparison(comparison.exact).same(one_gradient, other_gradient, place)


def _gradients(results: Any, given: Any) -> list[Any]:
    ones = [torch.ones_like(one) for one in results]
    return list(torch.autograd.grad(results, given, ones, retain_graph=True, allow_unused=True))


def _has_hooks(world: World) -> bool:
    """Whether a backward pass runs hooks of the program, which it may count."""
    owner = getattr(world.fn, "__self__", None)
    modules = owner.modules() if isinstance(owner, torch.nn.Module) else ()
    hooked = any(one._backward_hooks or one._backward_pre_hooks for one in modules)
    return hooked or any(one._backward_hooks for one in world.tensors)


def names_of_tensors(world: World) -> dict[int, str]:
    """By the id of a tensor: its source, as guards have it."""
    return {id(value): place for place, value in walk(world) if isinstance(value, torch.Tensor)}


def walk(world: World) -> Iterator[tuple[str, Any]]:
    """Every value that the call can reach, with its source."""
    from stator.isolation import referents

    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [
        *((space.place(name), value) for space, name, value in world.variables),
        *_closure(world.fn),
        *_arguments(world),
    ]
    while waiting:
        place, value = waiting.pop()
        yield place, value
        if id(value) in seen or isinstance(value, (str, bytes, type, types.ModuleType, types.FunctionType)):
            continue
        seen.add(id(value))
        inner = [] if isinstance(value, torch.Tensor) else list(referents(value).items())
        waiting += [(_readable(place, step), one) for step, one in reversed(inner)]


def _readable(place: str, step: str) -> str:
    """`self._parameters['weight']` as `self.weight`."""
    for hidden in ("._parameters", "._buffers", "._modules"):
        if place.endswith(hidden) and step.startswith("['"):
            return place.removesuffix(hidden) + "." + step[2:-2]
    return place + step


def _arguments(world: World) -> list[tuple[str, Any]]:
    """The arguments by the names of their parameters, as guards have them."""
    fn, given = world.fn, world.arguments
    owner = [("L['self']", fn.__self__)] if isinstance(fn, types.MethodType) else []
    try:
        bound = inspect.signature(fn).bind(*given, **world.keywords).arguments
    except (TypeError, ValueError):
        positional = [(f"arguments[{number}]", value) for number, value in enumerate(given)]
        return [*owner, *positional, ("keyword arguments", world.keywords)]
    return owner + [(f"L[{name!r}]", value) for name, value in bound.items()]


def _closure(fn: Any) -> list[tuple[str, Any]]:
    function = getattr(fn, "__func__", fn)
    if type(function) is not FunctionType:
        return []
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return [(f"L[{name!r}]", contents[0]) for name, cell in cells if (contents := _contents(cell))]


def _compare_functions(comparison: Comparison, plain: Any, tested: Any) -> None:
    if type(plain) is not FunctionType:
        if not isinstance(plain, types.MethodType):
            comparison.same(plain, tested, "self")
        return
    for name, one, other in zip(plain.__code__.co_freevars, plain.__closure__ or (), tested.__closure__ or ()):
        if (contents := _contents(one)) or _contents(other):
            comparison.same(len(contents), len(_contents(other)), f"L[{name!r}]")
            comparison.same(contents[0], _contents(other)[0], f"L[{name!r}]")
    comparison.same(plain.__defaults__, tested.__defaults__, "defaults")
    comparison.same(plain.__kwdefaults__, tested.__kwdefaults__, "defaults of keywords")


def _compare_globals(comparison: Comparison, plain: World, tested: World) -> None:
    values: list[dict[tuple[Namespace, str], Any]] = [
        {(space, name): value for space, name, value in world.variables} | world.assigned for world in (plain, tested)
    ]
    for key in dict.fromkeys([*values[0], *values[1]]):
        space, name = key
        one, other = (every.get(key, _UNCHANGED) for every in values)
        if one is not other:
            comparison.same(one, other, space.place(name))


class _Unchanged:
    def __repr__(self) -> str:
        return "(as before the call)"


_UNCHANGED = _Unchanged()


def _contents(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _error(run: Run) -> str:
    """Type, text and the line of the program that raised it."""
    error = run.error
    if error is None:
        return "none"
    lines = [at for at in traceback.extract_tb(error.__traceback__) if is_of_program(at.filename)]
    at = f" at {lines[-1].filename}:{lines[-1].lineno}" if lines else ""
    return f"{type(error).__qualname__}: {error}{at}"
