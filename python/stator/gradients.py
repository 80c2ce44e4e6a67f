"""`backward()` inside of a captured program."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def gradients_of(
    result: torch.Tensor, gradient: torch.Tensor | None, retain_graph: bool | None, leaves: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """The gradients that `result.backward(gradient)` adds to those of the leaves, laid out as autograd does it."""
    found = torch.autograd.grad(result, leaves, gradient, retain_graph=retain_graph, allow_unused=True)
    laid_out = []
    for leaf, one in zip(leaves, found, strict=True):
        if one is None:
            raise RuntimeError("a leaf that the captured graph takes for a part of the result has no gradient")
        if one.stride() != leaf.stride():
            one = torch.empty_like(leaf, requires_grad=False).copy_(one)
        laid_out.append(one.detach())
    return tuple(laid_out)
