"""Everything that a program can see of tensors, bit for bit, as values that can be compared."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def described(value: Any, arguments: tuple[Any, ...] = ()) -> Any:
    """Also which of the arguments a tensor is."""
    if isinstance(value, Tensor):
        return (
            value.dtype,
            value.shape,
            value.stride(),
            value.storage_offset(),
            value.untyped_storage().nbytes(),
            value.is_inference() or value._version,
            value._is_view(),
            [value is each for each in arguments],
            value.detach().cpu().clone().reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
    if isinstance(value, (tuple, list)):
        return [described(each, arguments) for each in value]
    return value
