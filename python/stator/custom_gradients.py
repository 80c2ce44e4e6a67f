"""Captured backward passes of `torch.autograd.Function`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
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


# An operation of the backward pass that raises when it runs, and not when a compiler traces the backward pass.
_LIBRARY = torch.library.Library("stator", "FRAGMENT")
_LIBRARY.define("refuse_gradient(Tensor given, str message) -> Tensor")


def _refuse_gradient(given: torch.Tensor, message: str) -> torch.Tensor:
    raise RuntimeError(message)


_LIBRARY.impl("refuse_gradient", _refuse_gradient, "CompositeExplicitAutograd")
_LIBRARY.impl("refuse_gradient", lambda given, message: torch.empty_like(given), "Meta")


def _is_traced(gradient: torch.Tensor) -> bool:
    """Whether a compiler runs the backward pass, to compile it."""
    return torch._is_functional_tensor(gradient) or isinstance(gradient, (FakeTensor, FunctionalTensor))


class _Case(NamedTuple):
    """A backward pass, captured for gradients of which some may be None."""

    is_given: tuple[bool, ...]
    """For each result, whether its gradient is a tensor."""
    backward: Callable[..., tuple[torch.Tensor | None, ...]]
    """A captured graph that takes those gradients and then the tensors at the positions `reads`."""
    reads: list[int]
    saved: list[bool]
    """For each of `reads`, whether the program saved it with `save_for_backward`."""
    raises: type[BaseException] | None
    """What the backward pass raises in place of that, if anything."""
    raises_with: tuple[Any, ...]

    @property
    def refuses(self) -> str | None:
        """The error about what `backward` has returned, which autograd itself raises."""
        return str(self.raises_with[0]) if self.raises is RuntimeError and all(self.is_given) else None


class AttachBackward:
    """The target of a node that attaches a custom backward pass to results of the graph.

    The operations of the Function's `forward` come before it in the graph, without gradients. The node takes the
    tensors that get a gradient, the results, and, in a tuple that autograd does not look into, the other tensors that
    `backward` reads. There are several cases if the program has called `set_materialize_grads(False)`.
    """

    def __init__(self, name: str, cases: Sequence[Any], inputs: int, fresh: Sequence[bool], once: bool) -> None:
        self.__name__ = self.__qualname__ = name
        results = len(fresh)
        by_gradients = {case.is_given: case for case in map(_Case._make, cases)}
        is_saved = {
            place: saved for case in by_gradients.values() for place, saved in zip(case.reads, case.saved, strict=True)
        }
        checked = [place for place, saved in is_saved.items() if saved]
        unchecked = [place for place, saved in is_saved.items() if not saved]

        self._restores_versions = all(place < inputs for place in checked)
        self._results = slice(inputs, inputs + results)

        refuses = any(case.refuses is not None for case in by_gradients.values())

        def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
            *tensors, others = arguments
            results_ = tuple(tensors[inputs:])
            # Marked as written to, fresh results get this node as their history; otherwise autograd would return views.
            ctx.mark_dirty(*(result for result, is_fresh in zip(results_, fresh, strict=True) if is_fresh))
            ctx.set_materialize_grads(len(by_gradients) == 1)
            if refuses:
                ctx.inputs = [(tensor.shape, tensor.dtype) for tensor in tensors[:inputs]]
            tensors.extend(others)
            ctx.save_for_backward(*(tensors[place] for place in checked))
            ctx.unchecked = [tensors[place] for place in unchecked]
            return results_

        def run_backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
            case = by_gradients[tuple(gradient is not None for gradient in gradients)]
            given = [gradient for gradient in gradients if gradient is not None]
            if case.refuses is not None and _is_traced(given[0]):
                refused = torch.ops.stator.refuse_gradient(given[0], case.refuses).sum()
                return (*(refused.to(dtype).expand(size) for size, dtype in ctx.inputs), *[None] * (results + 1))
            if case.raises is not None:
                raise case.raises(*case.raises_with)
            held = dict(zip((*checked, *unchecked), (*ctx.saved_tensors, *ctx.unchecked), strict=True))
            return (*case.backward(*given, *(held[place] for place in case.reads)), *[None] * (results + 1))

        body = {
            "forward": staticmethod(forward),
            "backward": staticmethod(once_differentiable(run_backward) if once else run_backward),
        }
        self._function: Any = type(name, (torch.autograd.Function,), body)

    def __call__(self, *arguments: Any) -> tuple[torch.Tensor, ...]:
        given = arguments[self._results]
        versions = tuple(result._version for result in given) if self._restores_versions else ()
        results = self._function.apply(*arguments)
        # To the program nothing has written to the results. (Where the backward pass reads them, autograd has noted the
        # versions that they have now.)
        if versions and not _is_traced(given[0]):
            torch._C._autograd._unsafe_set_version_counter(given, versions)
        return results

    def __deepcopy__(self, memo: dict[int, Any]) -> AttachBackward:
        return self

    def __repr__(self) -> str:
        return f"backward of {self.__name__}"
