"""What PyTorch hands to a `__torch_function__`, learnt from PyTorch: a call is made on stand-ins, which keep it.

Which function is handed on is PyTorch's affair: for `x + 1` it is `torch.Tensor.add`, for `1 - x` a Python function,
for `x.shape` the getter of that attribute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

# `Tensor.__torch_function__` asks for them, each time for the same set.
torch.overrides.get_default_nowrap_functions()


class Handed:
    """A call as it came to a `__torch_function__`."""

    def __init__(self, function: Any, arguments: tuple[Any, ...], keywords: dict[str, Any] | None) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords


class _Kept(threading.local):
    """What came to the stand-ins. (Not all that ask for an answer give it back: an assignment to items has none.)"""

    calls: list[Handed]


_kept = _Kept()


class StandIn(torch.Tensor):
    """Stands for a tensor of a class with a `__torch_function__`."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        _kept.calls.append(Handed(function, arguments, keywords))
        return None


def plain_stand_in() -> torch.Tensor:
    """Stands for a tensor whose class has none."""
    return torch.empty(0, device="meta")


def stand_in() -> torch.Tensor:
    return plain_stand_in().as_subclass(StandIn)


def handed(function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Handed | None:
    """What comes to the stand-ins among the arguments; None if the function asks nobody."""
    calls = _kept.calls = []
    function(*arguments, **keywords)
    return calls[0] if calls else None
