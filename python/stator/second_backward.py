"""Gradients of a compiled graph with `create_graph=True`, computed from the graph as it was captured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def gradients(
    run: Callable[..., Sequence[Any]], inputs: tuple[Any, ...], results: list[int], given: list[torch.Tensor]
) -> tuple[torch.Tensor | None, ...]:
    """The gradient of each input that requires one, for the gradients `given` of some results of `run(*inputs)`."""
    wanted = [number for number, value in enumerate(inputs) if isinstance(value, torch.Tensor) and value.requires_grad]
    with torch.enable_grad():
        outputs = run(*inputs)
        found = torch.autograd.grad(
            [outputs[number] for number in results],
            [inputs[number] for number in wanted],
            given,
            create_graph=True,
            allow_unused=True,
        )
    by_place: list[torch.Tensor | None] = [None] * len(inputs)
    for number, gradient in zip(wanted, found, strict=True):
        by_place[number] = gradient
    return tuple(by_place)
