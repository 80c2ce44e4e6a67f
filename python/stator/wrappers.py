"""Wrapper subclasses, tensors that consist of other tensors, that a captured program creates."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch


def maker(*arguments: Any, **keywords: Any) -> Callable[[], torch.Tensor]:
    """Makes the tensor that `torch.Tensor._make_wrapper_subclass` makes of these arguments: without attributes."""
    return functools.partial(torch.Tensor._make_wrapper_subclass, *arguments, **keywords)


class Unflatten:
    """The target of a node that makes such a tensor of its inner tensors."""

    def __init__(self, like: torch.Tensor, names: tuple[str, ...], context: Any) -> None:
        self._class: Any = type(like)
        self._names, self._context = names, context
        self._size, self._stride = like.size(), like.stride()
        self.__name__ = self.__qualname__ = self._class.__name__

    def __call__(self, *inner: torch.Tensor) -> torch.Tensor:
        parts = dict(zip(self._names, inner, strict=True))
        return self._class.__tensor_unflatten__(parts, self._context, self._size, self._stride)
