"""Wrapper subclasses, tensors that consist of other tensors, that a captured program creates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch


def _code_inside(function: Any, name: str) -> CodeType | None:
    inside = (one for one in function.__code__.co_consts if isinstance(one, CodeType) and one.co_name == name)
    return next(inside, None)


CODE_OF_DISABLED = _code_inside(torch._disable_dynamo, "inner")
"""Of what `torch._disable_dynamo` makes of a function."""


def exported_constructor(function: FunctionType) -> Any:
    """The `__init__` that is marked with `mark_subclass_constructor_exportable_experimental`, if it is that which was
    disabled."""
    from torch._export.wrappers import mark_subclass_constructor_exportable_experimental as mark

    held = getattr(function, "__wrapped__", None)
    code = getattr(held, "__code__", None)
    return held if code is not None and code is _code_inside(mark, "wrapper") else None


def maker(*arguments: Any, **keywords: Any) -> Callable[[], torch.Tensor]:
    """Makes the tensor that `torch.Tensor._make_wrapper_subclass` makes of these arguments: without attributes."""
    return functools.partial(torch.Tensor._make_wrapper_subclass, *arguments, **keywords)


def maker_of_layout(of: type, *others: Any, **keywords: Any) -> Callable[[Any, Any], torch.Tensor]:
    """The same for any size and strides, which the maker takes."""
    return functools.partial(_make, of, others, keywords)


def _make(of: type, others: tuple[Any, ...], keywords: dict[str, Any], size: Any, strides: Any) -> torch.Tensor:
    return torch.Tensor._make_wrapper_subclass(of, size, strides, *others, **keywords)


def numbers_in_context(context: Any) -> tuple[Callable[[Any], Any], list[torch.SymInt]]:
    """A function that makes this context of the numbers that are symbols in it, and these."""
    numbers: list[torch.SymInt] = []
    return _maker_of_context(context, numbers), numbers


def _maker_of_context(context: Any, numbers: list[torch.SymInt]) -> Callable[[Any], Any]:
    if isinstance(context, torch.SymInt):
        place = len(numbers)
        numbers.append(context)
        return lambda given: given[place]
    kind: Any = type(context)
    if kind is dict:
        items = {key: _maker_of_context(value, numbers) for key, value in context.items()}
        return lambda given: {key: make(given) for key, make in items.items()}
    is_named = issubclass(kind, tuple) and hasattr(kind, "_fields")
    if kind not in (tuple, list, torch.Size) and not is_named:
        return lambda given: context
    parts = [_maker_of_context(part, numbers) for part in context]
    if is_named:
        return lambda given: kind(*(make(given) for make in parts))
    return lambda given: kind(make(given) for make in parts)


class Unflatten:
    """The target of a node that makes such a tensor of its inner tensors."""

    def __init__(self, like: torch.Tensor, names: tuple[str, ...], context: Any) -> None:
        self._class: Any = type(like)
        self._names, self._context = names, context
        self._size, self._stride = like.size(), like.stride()
        self.__name__ = self.__qualname__ = self._class.__name__

    def __call__(self, *inner: torch.Tensor, size: Any = None, stride: Any = None) -> torch.Tensor:
        """`size` and `stride` where they change between calls."""
        parts = dict(zip(self._names, inner, strict=True))
        size = self._size if size is None else torch.Size(size)
        return self._class.__tensor_unflatten__(parts, self._context, size, stride or self._stride)


class TensorCall:
    """The target of a node that calls a function with a tensor, and with objects that are no arguments of nodes."""

    def __init__(self, function: Callable[..., Any], arguments: list[Any], keywords: dict[str, Any]) -> None:
        self._function, self._arguments, self._keywords = function, arguments, keywords
        self.__name__ = self.__qualname__ = function.__name__

    def __call__(self, tensor: torch.Tensor) -> Any:
        return self._function(tensor, *self._arguments, **self._keywords)
