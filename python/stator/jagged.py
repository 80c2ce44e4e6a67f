"""Nested tensors of `torch.jagged` layout: their ragged size is a nested int, an object in place of a number.

The engine has a nested int as a number from a range that no size reaches (src/number/nested_int.h), by the number that
PyTorch gives it. Those of tensors that a captured program makes have numbers of their own, which PyTorch never gives.
"""

from __future__ import annotations

from typing import Any

import torch

FIRST = 3 << 60


def number_of(size: Any) -> int:
    """A size as the engine has it."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    node: Any = size.node
    if not node.is_nested_int() or node.nested_int() is None or node.nested_int_coeff() != 1:
        raise TypeError("a size of a nested tensor is neither a number nor its ragged size")
    return FIRST + int(node.nested_int())


def sizes_of(tensor: Any) -> tuple[int, ...]:
    """The sizes of a jagged tensor, without calls of its `__torch_dispatch__`."""
    return tuple(number_of(size) for size in tensor._size)


def nested_int(number: int) -> torch.SymInt:
    """The nested int that the engine has as this number."""
    from torch.nested._internal.nested_int import NestedIntNode

    return torch.SymInt(NestedIntNode(number - FIRST, 1))


def registered(tensor: torch.Tensor) -> int:
    """The ragged size of the jagged tensors that were made of these offsets or lengths; 0 if there are none."""
    from torch.nested._internal import nested_tensor

    found = nested_tensor._tensor_symint_registry.get(tensor)
    return 0 if found is None else number_of(found)


def ragged_source(tensor: Any) -> torch.Tensor:
    """The tensor whose identity the ragged size stands for."""
    return tensor._offsets if tensor._lengths is None else tensor._lengths


def has_known_ragged_size(tensor: Any) -> bool:
    """Whether the ragged size is that of the tensor's own offsets or lengths, as PyTorch has made it."""
    return number_of(tensor._size[tensor._ragged_idx]) == registered(ragged_source(tensor))


def remember_ragged_size(source: Any, size: torch.SymInt) -> None:
    """Jagged tensors that are made of a FakeTensor get this ragged size."""
    source.nested_int_memo = size


def source_of(number: int) -> torch.Tensor | None:
    """The tensor whose identity a ragged size stands for."""
    from torch.nested._internal import nested_tensor

    for tensor, size in nested_tensor._tensor_symint_registry.items():
        if number_of(size) == number:
            return tensor
    return None
