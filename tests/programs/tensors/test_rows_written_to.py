"""Writing to the rows that iterating over a tensor gives."""

from __future__ import annotations

import pytest
import torch

from tests.support.harness import T, same


def test_rows_are_views():
    def program(x):
        for row in x:
            row.add_(1.0)
        for index, row in enumerate(x.__iter__()):
            row.mul_(index)
        return row, x

    same(program, T(3, 4), compare_dynamo=False)


@pytest.mark.parametrize("grad", [False, True])
def test_rows_of_a_result(grad):
    def program(x, w):
        y = x.detach() * 2
        rows = list(y)
        rows[0].copy_(rows[1])
        with torch.no_grad():
            rows[2].add_(w)
        return y, rows[0] + rows[2]

    same(program, T(3, 4), T(4, grad=grad), compare_dynamo=False)


def test_rows_that_record_gradients_are_refused_by_autograd():
    def program(x):
        y = x * 2
        for row in y:
            row.add_(1.0)
        return y

    same(program, T(3, 4, grad=True), fullgraph=False, compare_dynamo=False)


def test_classes_as_dtypes():
    def program(x):
        return (x * 5).to(bool).to(float).to(int) + 8, torch.zeros(2, dtype=float)

    same(program, T(3), compare_dynamo=False, backend="aot_eager")


def test_factors_of_foreach_operations():
    def program(x, y, factor):
        return torch._foreach_add([x, y], 1 - factor), torch._foreach_mul([x, y], factor)

    same(program, T(3), T(2, 2), lambda: torch.tensor(0.5, dtype=torch.float64), compare_dynamo=False)
