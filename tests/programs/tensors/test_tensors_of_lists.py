"""Tensors that are made of lists of numbers, some of which only the graph knows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import stator
from tests.support.counting import counted_calls
from tests.support.harness import T, same

PROGRAMS = [
    lambda x: torch.tensor([x.sum(), x.mean()]),
    lambda x: torch.tensor((x.sum(), x.mean()), dtype=torch.float64) * 2,
    lambda x: torch.tensor([x.argmax(), x.argmin()], dtype=torch.int64),
    lambda x: torch.tensor([x.sum() > 1, x.sum() > 100]),
    lambda x: x + torch.tensor([x.sum()])[0],
    lambda x: torch.tensor([x.sum().item(), 1.0]),
    lambda x: torch._foreach_pow(x.sum().sigmoid(), [x.abs(), x.abs() + 1]),
    lambda x: torch._foreach_lerp([x, x + 1], [x * 2, x], x.mean()),
    lambda x: torch._foreach_pow([x.abs() + 1], 1 - x.mean().item()),
    lambda x: torch.LongTensor([1, 2, 3]) + 1,
    lambda x: torch.FloatTensor([[1, 2], [3, 4]]) * x.sum(),
    lambda x: torch.Tensor([[1, 2.5], [3, True]]) * x.sum(),
    lambda x: (torch.Tensor([]), torch.Tensor((1, 2)), torch.Tensor([x.shape[0]]) + x.sum()),
    lambda x: torch.BoolTensor([True, False]),
    lambda x: torch._shape_as_tensor(x) * 2,
    lambda x: torch.onnx.operators.shape_as_tensor(x)[0] + x,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_captured_as_a_whole(program):
    same(program, T(3, 4), compare_dynamo=False)


def test_the_default_dtype_decides():
    def program(x):
        return torch.Tensor([1, 2]).dtype, torch.Tensor([0.1]) + x

    changes = [lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)]
    same(program, T(1), compare_dynamo=False, mutate=[lambda world, change=change: change() for change in changes])


def test_parameters_and_tensors_are_like_tensors():
    def program(x, parameter):
        like = [torch.overrides.is_tensor_like(one) for one in (x, parameter, 3, torch.Tensor)]
        return x * parameter, like, hasattr(parameter, "__torch_function__")

    same(program, T(3), lambda: torch.nn.Parameter(torch.ones(3)), compare_dynamo=False)


BREAKING = [
    lambda x: torch.tensor([x.sum(), 1.0]),
    lambda x: torch.tensor([x.sum(), x.argmax()]),
    lambda x: torch.tensor([x.sum()], dtype=torch.int32),
    lambda x: torch.tensor([(x * 1000).sum().long()], dtype=torch.int16),
    lambda x: torch.tensor([x[0]] * 2).shape,
    lambda x: torch.LongTensor(x.shape[0]).shape,
    lambda x: torch.tensor([x.sum()], requires_grad=True),
]


@pytest.mark.parametrize("program", BREAKING)
def test_left_to_pytorch(program):
    same(lambda x: (x + 1, program(x)), T(3, 4), fullgraph=False, compare_dynamo=False)


def test_numbers_of_a_numpy_array():
    def program(x):
        array = np.array([1, 2, 3, 4], dtype=np.int64)
        return torch.LongTensor([array[0], array[2]]) + x

    same(program, T(2), compare_dynamo=False)


def test_the_result_shares_no_memory_and_has_no_history():
    def program(x):
        first = x.detach().sum()
        made = torch.tensor([first])
        made.add_(1)
        return made, first, made.requires_grad

    same(program, T(3, grad=True), compare_dynamo=False)


def test_a_tensor_with_a_history_is_read():
    counts = counted_calls(lambda x: torch.tensor([x.sum()]) + 1, lambda: (torch.ones(2, requires_grad=True),), calls=1)
    assert counts[0].operations >= 1


def test_the_default_device():
    with torch.device("meta"):
        made = stator.compile(lambda x: torch.tensor([x, x]), backend="eager")(torch.ones((), device="cpu"))
    assert made.device.type == "meta"


def test_inside_of_a_transform_and_with_tangents():
    def batched(x):
        try:
            return torch.vmap(lambda row: torch.tensor([row.sum()]))(x)
        except RuntimeError as error:
            return type(error).__name__, x + 1

    same(batched, T(2, 3), fullgraph=False, compare_dynamo=False)

    def tangent(x):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x.sum(), torch.ones(()))
            made = stator.compile(lambda y: torch.tensor([y]) * 2, backend="eager")(dual)
            return torch.autograd.forward_ad.unpack_dual(made).tangent

    assert tangent(torch.ones(2)) is None
