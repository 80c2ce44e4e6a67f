"""Hooks on saved tensors that the program enters inside of a captured region.

The graph enters and leaves them, so PyTorch calls the program's own functions where operations save tensors. That
happens while the graph runs, and the side effects of the program come after the graph. So the hook that packs must be a
function of its tensor alone: it must not change anything, and not read what the program changes (computing.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_push = torch._C._autograd._push_saved_tensors_default_hooks
_pop = torch._C._autograd._pop_saved_tensors_default_hooks


class EnterHooks:
    """The target of a node that enters a pair of hooks: generated code can't refer to a hook."""

    def __init__(self, pack: Callable[[torch.Tensor], Any], unpack: Callable[[Any], torch.Tensor]) -> None:
        self.pack = pack
        self.unpack = unpack
        self.__name__ = self.__qualname__ = "enter_saved_tensors_hooks"

    def __call__(self) -> None:
        _push(self.pack, self.unpack)

    def __reduce__(self) -> tuple[Any, ...]:
        return EnterHooks, (self.pack, self.unpack)

    def __repr__(self) -> str:
        names = (getattr(hook, "__qualname__", hook) for hook in (self.pack, self.unpack))
        return f"saved_tensors_hooks({', '.join(map(str, names))})"


def leave(_entered: object) -> None:
    _pop()


def enter_pair(hooks: tuple[Callable[[torch.Tensor], Any], Callable[[Any], torch.Tensor]]) -> None:
    """For a plan that leaves the captured region inside of the hooks."""
    _push(*hooks)
