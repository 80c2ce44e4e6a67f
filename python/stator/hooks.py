"""Hooks on tensors inside a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class RegisterHook:
    """The target of a node that registers a hook on a result of the graph.

    An object, not a function with two arguments: generated code can refer to a call target, but not to a hook.
    """

    def __init__(self, hook: Callable[[torch.Tensor], torch.Tensor | None]) -> None:
        self.hook = hook
        self.__name__ = self.__qualname__ = "register_hook"

    def __call__(self, tensor: torch.Tensor) -> None:
        tensor.register_hook(self.hook)

    def __reduce__(self) -> tuple[Any, ...]:
        return RegisterHook, (self.hook,)

    def __repr__(self) -> str:
        return f"register_hook({getattr(self.hook, '__qualname__', self.hook)!s})"


class RegisterTracedHook:
    """The same for a traced hook: a graph that takes the gradient and the tensors that the hook reads."""

    def __init__(self, traced: Callable[..., tuple[torch.Tensor | None]]) -> None:
        self.traced = traced
        self.__name__ = self.__qualname__ = "register_hook"

    def __call__(self, tensor: torch.Tensor, *read: torch.Tensor) -> None:
        tensor.register_hook(lambda gradient: self.traced(gradient, *read)[0])

    def __deepcopy__(self, memo: dict[int, Any]) -> RegisterTracedHook:
        return self

    def __repr__(self) -> str:
        return "register_hook(a traced hook)"
