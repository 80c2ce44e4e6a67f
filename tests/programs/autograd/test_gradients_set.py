"""Programs that set the gradient of a tensor, and operators of `torch.ops`."""

import pytest
import torch

from tests.support.harness import T, same


def with_gradient():
    x = torch.randn(3, requires_grad=True)
    x.grad = torch.ones(3)
    return x


def test_set_to_none():
    def program(x):
        y = x * 2
        x.grad = None
        return y, x.grad is None

    same(program, with_gradient, compare_dynamo=False, grads=False)


def test_set_to_a_result():
    def program(x):
        with torch.no_grad():
            x.grad = x * 3
            return x.grad + 1

    same(program, T(3, grad=True), compare_dynamo=False, grads=False)


def test_scaled():
    def program(x):
        with torch.no_grad():
            x.grad = x.grad * 0.5
            x.grad.add_(1)
        return x * 2

    same(program, with_gradient, compare_dynamo=False, grads=False)


def test_refused_as_uncompiled():
    def program(x, y):
        try:
            x.grad = y
        except RuntimeError as error:
            return str(error)[:40], x + 1

    same(program, T(3, grad=True), T(4), fullgraph=False, compare_dynamo=False, grads=False)


def test_operators():
    def program(x):
        return torch.ops.aten.add.Tensor(torch.ops.aten.relu(x), x, alpha=2)

    same(program, T(3))
