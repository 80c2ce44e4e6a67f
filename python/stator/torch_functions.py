"""Finds out what PyTorch passes to a `__torch_function__`, by a call on stand-ins that record it.

PyTorch decides which function it passes: for `x + 1` it is `torch.Tensor.add`, for `1 - x` a Python function, for
`x.shape` the getter of that attribute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

# Fills the cache of a function that `Tensor.__torch_function__` calls each time.
torch.overrides.get_default_nowrap_functions()


class Handed:
    """A call as a `__torch_function__` received it."""

    def __init__(
        self,
        function: Any,
        types: Any,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any] | None,
        owner: torch.Tensor | None = None,  # whose plain method it is
    ) -> None:
        self.function = function
        self.types = tuple(types)
        self.arguments = arguments
        self.keywords = keywords
        self.owner = owner


class _Mode(torch.overrides.TorchFunctionMode):
    """Records the call, and does not make it."""

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        _kept.calls.append(Handed(function, types, arguments, keywords))
        return None


class _Kept(threading.local):
    """The calls that stand-ins received. They can't be returned: an assignment to items has no result."""

    calls: list[Handed]


_kept = _Kept()


class StandIn(torch.Tensor):
    """A stand-in for a tensor of a class with a `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        _kept.calls.append(Handed(function, types, arguments, keywords))
        return None


class MethodStandIn(torch.Tensor):
    """The same for a class whose `__torch_function__` is a plain method, which PyTorch warns of."""

    def __torch_function__(  # type: ignore[override]
        self, function: Any, types: Any, arguments: Any = (), keywords: Any = None
    ) -> Any:
        _kept.calls.append(Handed(function, types, arguments, keywords, self))
        return None


def plain_stand_in() -> torch.Tensor:
    """A stand-in for a tensor whose class has no `__torch_function__`."""
    return torch.empty(0, device="meta")


def parameter_stand_in() -> torch.Tensor:
    """A stand-in for a parameter."""
    return torch.nn.Parameter(plain_stand_in())


def stand_in() -> torch.Tensor:
    return plain_stand_in().as_subclass(StandIn)


def method_stand_in() -> torch.Tensor:
    return plain_stand_in().as_subclass(MethodStandIn)


def seen_by_mode(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Handed | None:
    """The call that a mode with `__torch_function__` receives; None if it receives none."""
    calls = _kept.calls = []
    try:
        with _Mode():
            # PyTorch hands None to the mode where there are no keywords at all.
            function(*arguments, **keywords) if keywords else function(*arguments)
    except TypeError:
        # `bool(tensor)` has to be a bool, which the result of the mode is not.
        if not calls:
            raise
    return calls[0] if calls else None


def handed(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Handed | None:
    """The call that the stand-ins among the arguments receive; None if no `__torch_function__` is called."""
    calls = _kept.calls = []
    function(*arguments, **keywords)
    return calls[0] if calls else None
