"""Captured backward passes of `torch.autograd.Function`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable

_ONCE = next(code for code in once_differentiable.__code__.co_consts if hasattr(code, "co_code"))


def is_once_differentiable(function: Callable[..., Any]) -> bool:
    """Whether a `backward` is marked with `once_differentiable`."""
    return getattr(function, "__code__", None) is _ONCE


class _Identity(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x


@functools.cache
def takes_keyword_arguments() -> bool:
    """Whether `apply` takes keyword arguments: PyTorch raises for them up to 2.12."""
    try:
        _Identity.apply(x=torch.empty(0))
    except TypeError:
        return False
    return True


class AttachBackward:
    """The target of a node that attaches a custom backward pass to results of the graph.

    The operations of the Function's `forward` come before it in the graph, without gradients. The node takes the
    tensors that get a gradient, the results, and, in a tuple that autograd does not look into, the other tensors that
    `backward` reads. `backward` is a captured graph that takes the gradients of the results and then the tensors at the
    positions `reads`. `error` is what PyTorch raises in place of it, about what the program's `backward` returns.
    """

    def __init__(
        self,
        name: str,
        backward: Callable[..., tuple[torch.Tensor | None, ...]],
        inputs: int,
        fresh: Sequence[bool],
        reads: Sequence[int],
        saved: Sequence[bool],
        once: bool,
        error: str,
    ) -> None:
        self.__name__ = self.__qualname__ = name
        results = len(fresh)
        checked = [place for place, is_saved in zip(reads, saved, strict=True) if is_saved]
        unchecked = [place for place, is_saved in zip(reads, saved, strict=True) if not is_saved]

        def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
            *tensors, others = arguments
            results_ = tuple(tensors[inputs:])
            # Marked as written to, fresh results get this node as their history; otherwise autograd would return views.
            ctx.mark_dirty(*(result for result, is_fresh in zip(results_, fresh, strict=True) if is_fresh))
            tensors.extend(others)
            ctx.save_for_backward(*(tensors[place] for place in checked))
            ctx.unchecked = [tensors[place] for place in unchecked]
            return results_

        def run_backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            if error:
                raise RuntimeError(error)
            of_checked, of_unchecked = iter(ctx.saved_tensors), iter(ctx.unchecked)
            read = [next(of_checked if is_saved else of_unchecked) for is_saved in saved]
            return (*backward(*gradients, *read), *[None] * (results + 1))

        body = {
            "forward": staticmethod(forward),
            "backward": staticmethod(once_differentiable(run_backward) if once else run_backward),
        }
        self._function: Any = type(name, (torch.autograd.Function,), body)

    def __call__(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        return self._function.apply(*arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> AttachBackward:
        return self

    def __repr__(self) -> str:
        return f"backward of {self.__name__}"
