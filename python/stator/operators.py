"""What the schemas of PyTorch's operators say."""

from __future__ import annotations

import functools
from typing import Any

import torch


@functools.cache
def makes_new_tensors(target: Any) -> bool:
    """Whether all results of an operator of ATen (`torch.ops.aten.mul`) are new tensors for all of its arguments."""
    if isinstance(target, torch._ops.OpOverload):
        return target.namespace == "aten" and _is_functional(target)
    if isinstance(target, torch._ops.OpOverloadPacket):
        overloads = [getattr(target, name) for name in target.overloads()]
        return all(makes_new_tensors(one) for one in overloads if _takes_unnamed_tensors(one))
    return False


def _takes_unnamed_tensors(operator: torch._ops.OpOverload) -> bool:
    """Not one for numbers of TorchScript, for dimensions with names, or one that is called with `out=`."""
    arguments = operator._schema.arguments
    is_named = any("Dimname" in str(one.type) for one in arguments)
    return torch._C._dispatch_has_kernel(operator.name()) and not is_named and not any(one.is_out for one in arguments)


def _is_functional(operator: torch._ops.OpOverload) -> bool:
    schema = operator._schema
    if schema.is_mutable or any(one.alias_info is not None for one in (*schema.arguments, *schema.returns)):
        return False
    # (What is composed of other operators may return an argument of it.)
    return not torch._C._dispatch_has_kernel_for_dispatch_key(operator.name(), "CompositeImplicitAutograd")
