"""Calls of functions that a program has marked with `allow_in_graph`, `nonstrict_trace` or `leaf_function`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

_NUMBERS = (int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
_LEAVES = (torch.Tensor, str, type(None), *_NUMBERS)


class MarkedCall:
    """The target of a node that calls the function. The node passes tensors and numbers; recipes say how the arguments
    are made of these."""

    def __init__(self, function: Callable[..., Any], positional: Any, keywords: Any, is_nonstrict: bool) -> None:
        self.function = function
        self.positional = positional
        self.keywords = keywords
        self.is_nonstrict = is_nonstrict
        self.is_leaf = hasattr(function, "_torchdynamo_leaf_real_fn")
        self.is_known = False  # the result, since the call on FakeTensors
        self.structure: pytree.TreeSpec | None = None
        """Of the result, if it is not made of tensors, numbers, tuples and lists: then the node returns its leaves."""
        self.__name__ = self.__qualname__ = getattr(function, "__name__", "marked_function")

    def __call__(self, *leaves: Any) -> Any:
        swaps: list[tuple[nn.Module, dict[str, torch.Tensor]]] = []
        arguments = _made(self.positional, leaves, swaps)
        keywords = _made(self.keywords, leaves, swaps)
        # (A compiler calls the fake implementation of a leaf function, which gets all tensors as arguments.)
        with _constant_tensors() if self.is_nonstrict and not self.is_leaf else nullcontext():
            result = _call(self.function, arguments, keywords, swaps)
        if not self.is_nonstrict:
            return result
        is_plain = _is_plain(result)
        if self.is_known and is_plain != (self.structure is None):
            raise self._mismatch(pytree.tree_structure(result))
        self.is_known = True
        return result if is_plain else self._leaves_of(result)

    def _mismatch(self, structure: pytree.TreeSpec) -> Exception:
        before = self.structure or "tensors and numbers alone"
        if self.is_leaf:  # in torch's words
            return AssertionError(f"leaf_function output structure mismatch: expected {before}, got {structure}")
        return RuntimeError(f"{self.__name__} returns {structure}, and returned {before} when it was traced")

    def _leaves_of(self, result: Any) -> tuple[Any, ...]:
        leaves, structure = pytree.tree_flatten(result)
        for leaf in leaves:
            if not isinstance(leaf, _LEAVES):
                raise TypeError(
                    f"Unsupported output type for nonstrict_trace-ed function: {self.__name__} returns an object of "
                    f"{type(leaf)}, which is not registered with torch.utils._pytree"
                )
        if self.structure is None:
            self.structure = structure
        if structure != self.structure:
            raise self._mismatch(structure)
        return tuple(leaves)

    def __deepcopy__(self, memo: dict[int, Any]) -> MarkedCall:
        return self

    def __repr__(self) -> str:
        return self.__name__


def _made(recipe: tuple[str, Any, tuple[Any, ...]], leaves: Sequence[Any], swaps: list[Any]) -> Any:
    kind, what, recipes = recipe
    if kind == "leaf":
        return leaves[what]
    parts = [_made(one, leaves, swaps) for one in recipes]
    if kind == "sequence":
        return what(*parts) if hasattr(what, "_fields") else what(parts)
    if kind == "dict":
        made, keys = what
        return made(zip(keys, parts, strict=True))
    if kind == "registered":
        unflatten, context = what
        return unflatten(parts, context)
    if kind == "module":
        module, names = what
        swaps.append((module, dict(zip(names, parts, strict=True))))
        return module
    if kind == "object":
        return what
    made, names = what
    instance = object.__new__(made)
    for name, part in zip(names, parts, strict=True):
        object.__setattr__(instance, name, part)
    return instance


def _call(function: Callable[..., Any], arguments: Any, keywords: Any, swaps: list[Any]) -> Any:
    """With the tensors of the graph in the modules, unless they are there already."""
    if not swaps:
        return function(*arguments, **keywords)
    module, tensors = swaps[0]
    with _holding(module, tensors):
        return _call(function, arguments, keywords, swaps[1:])


def _holding(module: nn.Module, tensors: dict[str, torch.Tensor]) -> Any:
    own = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    if all(own.get(name) is tensor for name, tensor in tensors.items()):
        return nullcontext()
    from torch.nn.utils.stateless import _reparametrize_module

    return _reparametrize_module(module, tensors)


@contextmanager
def _constant_tensors() -> Iterator[None]:
    """A compiler that traces the function takes the tensors that it reads from outside as constants."""
    from torch._subclasses.fake_tensor import fake_tensor_tls

    before = fake_tensor_tls.allow_non_fake_inputs_override
    fake_tensor_tls.allow_non_fake_inputs_override = True
    try:
        yield
    finally:
        fake_tensor_tls.allow_non_fake_inputs_override = before


def _is_plain(result: Any) -> bool:
    if type(result) in (tuple, list):
        return all(map(_is_plain, result))
    return isinstance(result, _LEAVES)
