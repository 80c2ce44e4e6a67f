"""Captured calls of `torch.utils.checkpoint.checkpoint`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

_COMPILERS = (
    torch._C._TorchDispatchModeKey.FAKE,
    torch._C._TorchDispatchModeKey.PROXY,
    torch._C._TorchDispatchModeKey.FUNCTIONAL,
)


class Checkpointed:
    """The target of a node that runs a subgraph under activation checkpointing.

    It takes all tensors that the subgraph reads and returns its results in a tuple. `arguments` are the positions of
    those that were arguments of the program's function: the checkpoint saves these, the others are captured by the
    function.
    """

    __name__ = __qualname__ = "checkpoint"
    undoes_itself = True  # if it raises, see _run_or_undo

    def __init__(
        self,
        part: Callable[..., tuple[torch.Tensor, ...]],
        arguments: list[int],
        is_random: bool,
        preserve_rng_state: bool,
        determinism_check: str,
        early_stop: bool,
        is_reentrant: bool,
        context_fn: Callable[[], tuple[Any, Any]] | None,
    ) -> None:
        self._part = part
        self._arguments = arguments
        self._is_random = is_random
        self._context_fn = context_fn
        self._options: dict[str, Any] = {"preserve_rng_state": preserve_rng_state, "use_reentrant": is_reentrant}
        if not is_reentrant:
            self._options |= {"determinism_check": determinism_check, "early_stop": early_stop}
        if context_fn is not None:
            self._options["context_fn"] = context_fn

    def __call__(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        options = self._options
        if any(torch._C._get_dispatch_mode(key) is not None for key in _COMPILERS):
            # As under torch.compile: the operations are marked for the compiler to recompute, random numbers included.
            options = {
                "preserve_rng_state": False,
                "early_stop": False,
                "use_reentrant": False,
                "context_fn": functools.partial(_marking_contexts, self._context_fn),
            }
        elif self._is_random:
            return self._run_or_undo(tensors)
        return self._checkpoint(tensors, options)

    def _checkpoint(self, tensors: tuple[torch.Tensor, ...], options: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        from torch.utils.checkpoint import checkpoint

        def run(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
            read = list(tensors)
            for place, tensor in zip(self._arguments, given, strict=True):
                read[place] = tensor
            return self._part(*read)

        return checkpoint(run, *(tensors[place] for place in self._arguments), **options)

    def _run_or_undo(self, tensors: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
        """Restores the random state if it raises: the program then runs from before this node, and draws them again."""
        from torch.utils.checkpoint import get_device_states, set_device_states

        state, device_states = torch.get_rng_state(), get_device_states(*tensors)
        try:
            return self._checkpoint(tensors, self._options)
        except Exception:
            torch.set_rng_state(state)
            set_device_states(*device_states)
            raise

    def __deepcopy__(self, memo: dict[int, Any]) -> Checkpointed:
        return self

    def __repr__(self) -> str:
        return "checkpoint of a subgraph"


def _marking_contexts(context_fn: Callable[[], tuple[Any, Any]] | None) -> tuple[Any, Any]:
    """The contexts of the program, by default those that mark all operations for recomputation."""
    from torch._higher_order_ops.wrap import uid
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    forward, recomputation = context_fn() if context_fn else create_selective_checkpoint_contexts(_prefer_recomputing)
    forward.ac_graph_id = next(uid)
    return forward, recomputation


def _prefer_recomputing(context: Any, operation: Any, *args: Any, **kwargs: Any) -> Any:
    from torch.utils.checkpoint import CheckpointPolicy

    return CheckpointPolicy.PREFER_RECOMPUTE
