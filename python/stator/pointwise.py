"""Operations that compute each element of the result from the elements at the same place."""

from __future__ import annotations

import operator

import torch

_NAMES = {"truediv": "div", "and_": "bitwise_and", "or_": "bitwise_or", "xor": "bitwise_xor", "inv": "bitwise_not"}
_NAMESPACES = (torch, torch.Tensor, torch.nn.functional, torch._C._nn, torch.special, operator)


def is_pointwise(target: object) -> bool:
    """Whether all overloads of a function of PyTorch, or of a method of tensors with this name, are pointwise.

    False for functions whose overloads are not known by their name.
    """
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if not isinstance(target, str) and not any(getattr(space, name, None) is target for space in _NAMESPACES):
        return False
    packet = getattr(torch.ops.aten, _NAMES.get(name, name), None)
    if packet is None:
        return False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]
    of_tensors = [one for one in overloads if one._schema.arguments and str(one._schema.arguments[0].type) == "Tensor"]
    return bool(of_tensors) and all(torch.Tag.pointwise in one.tags for one in of_tensors if not one._schema.is_mutable)
