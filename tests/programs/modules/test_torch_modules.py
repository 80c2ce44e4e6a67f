"""Every module of torch.nn that PyTorch has test inputs for, compared with itself uncompiled: bit for bit, including
strides."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves, tree_map

import stator
from tests.support.long import LONG

INPUTS = None if LONG else 2
PARTS = 16


def described(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return type(value)
    return (
        tuple(value.shape),
        value.stride(),
        value.dtype,
        value.storage_offset(),
        value.requires_grad,
        value.is_leaf,
        value._is_view(),
        torch.nan_to_num(value.detach()).tolist() if value.dtype.is_floating_point else value.tolist(),
    )


def run(module: torch.nn.Module, args: tuple, kwargs: dict) -> Any:
    """The results, the gradients and the buffers of a call; or what it raises."""
    torch.manual_seed(3)
    module.zero_grad()
    try:
        results = tree_leaves(module(*args, **kwargs))
    except Exception as error:  # noqa: BLE001
        return type(error), str(error)
    inputs = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    for one in inputs:
        one.grad = None
    losses = [one.abs().sum() for one in results if isinstance(one, torch.Tensor) and one.requires_grad]
    try:
        if losses:
            sum(losses).backward()
    except RuntimeError as error:
        return str(error)
    gradients = [one.grad for one in [*module.parameters(), *inputs] if one.is_leaf]
    return [described(one) for one in [*results, *gradients, *module.buffers()]]


def fresh(inputs: Any, transposed: bool) -> Any:
    def one(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.is_nested:
            return tensor
        with torch.no_grad():
            made = tensor.detach().clone(memory_format=torch.preserve_format)
            if transposed and made.dim() in (4, 5):
                made = made.contiguous(memory_format={4: torch.channels_last, 5: torch.channels_last_3d}[made.dim()])
            elif transposed and made.dim() > 1:
                made = made.transpose(0, -1).contiguous().transpose(0, -1)
        return made.detach().requires_grad_(tensor.requires_grad)

    return tree_map(one, inputs)


@pytest.mark.parametrize("part", range(PARTS))
def test_modules(part: int) -> None:
    calls = 0
    for info in module_db[part::PARTS]:
        for training, grad in ((False, False), (False, True), (True, True)):
            inputs = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=grad, training=training
            )
            for given in [one for one in inputs if one.forward_input is not None][:INPUTS]:
                torch.manual_seed(0)
                made = given.constructor_input
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    module = info.module_cls(*made.args, **made.kwargs).train(training)
                    compiled = stator.compile(copy.deepcopy(module), backend="eager")
                    for transposed in (False, True):
                        pairs = [
                            fresh((given.forward_input.args, given.forward_input.kwargs), transposed) for _ in "ab"
                        ]
                        for call in range(2):
                            with torch.set_grad_enabled(grad):
                                expected, actual = run(module, *pairs[0]), run(compiled, *pairs[1])
                            what = f"{info.name}({made.args}, {made.kwargs}) {training=} {grad=} {transposed=} {call=}"
                            assert actual == expected, what
                            calls += 1
        stator.reset()
    assert calls > 50
