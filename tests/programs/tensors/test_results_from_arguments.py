"""Operations whose results are their arguments, or views of several of them."""

from __future__ import annotations

import pytest
import torch

from tests.support.harness import same


def grids(x, y):
    rows, columns = torch.meshgrid(x, y, indexing="ij")
    x.add_(1)
    return rows, columns, rows + columns


def written_through_one_view(x, y):
    a, b = torch.broadcast_tensors(x, y)
    b.mul_(2)
    return a + b, x, y, a is x, b is y


def at_least(x, y):
    a, b = torch.atleast_2d(x, y)
    b.add_(1)
    return a is x, b is y, a, b, y


def given_for_results(x, values, places):
    result = torch.max(x, 0, out=(values, places))
    return result.values is values, result.indices is places, result, values + 1


def summed_into_a_view(x, y):
    a, b = torch.broadcast_tensors(x * 1, y)
    a.add_(b)
    return a, y


MATRIX = lambda: torch.arange(6.0).reshape(2, 3)  # noqa: E731
VECTOR = lambda: torch.arange(3.0)  # noqa: E731


@pytest.mark.parametrize(
    "program, arguments",
    [
        (grids, (VECTOR, lambda: torch.arange(4.0))),
        (written_through_one_view, (MATRIX, MATRIX)),
        (at_least, (MATRIX, VECTOR)),
        (given_for_results, (MATRIX, lambda: torch.empty(3), lambda: torch.empty(3, dtype=torch.int64))),
        (summed_into_a_view, (MATRIX, lambda: torch.ones(1, 3, requires_grad=True))),
    ],
)
def test_as_uncompiled(program, arguments):
    same(program, *arguments, fullgraph=False, compare_dynamo=False, graphs=None)
