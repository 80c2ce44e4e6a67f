"""Attributes that a program sets on tensors which it has computed."""

from __future__ import annotations

import copy

import pytest
import torch

from tests.support.harness import T, same


def sets_and_reads(x):
    y = x + 10
    y.scale = 3
    y.other = x * 2
    return y, y.scale * y.other, y.other


def deletes(x):
    y = x + 10
    y.scale = 3
    was = y.scale
    del y.scale
    return y, was, hasattr(y, "scale")


def other_tensors_do_not_have_it(x):
    y = x + 10
    y.scale = 3
    return [hasattr(t, "scale") for t in (y.detach(), y.view(-1), y * 1, y.add_(1), y.contiguous())]


def an_object_of_the_program(x):
    y = x.sin()
    y.history = [x, "sin"]
    y.history.append(y + 1)
    return y


def missing(x):
    y = x + 10
    y.scale = 3
    try:
        return y.size_of_scale
    except AttributeError as error:
        return str(error)


@pytest.mark.parametrize(
    "program", [sets_and_reads, deletes, other_tensors_do_not_have_it, an_object_of_the_program, missing]
)
def test_in_one_graph(program):
    same(program, T(3, 4), compare_dynamo=False)


@pytest.mark.parametrize("grad", [False, True])
def test_the_result_has_the_attributes(grad):
    def program(x):
        y = x + 10
        y.scale = 3
        return y, vars(y)["scale"]

    same(program, T(3, grad=grad), fullgraph=False, compare_dynamo=False)


def test_across_a_graph_break():
    def program(x):
        y = x + 10
        y.scale = 3
        print("seen", y.scale)
        y.scale += 1
        return y * y.scale, y.scale

    same(program, T(3), fullgraph=False)


def test_a_deep_copy_has_them():
    def program(x):
        y = x + 10
        y.scale = [3]
        copied = copy.deepcopy(y)
        return copied.scale, copied.scale is y.scale

    same(program, T(3), fullgraph=False)


def test_rows_and_transforms():
    def rows(x):
        for row in x:
            row.scale = 2
        return row, row.scale

    def transformed(x):
        def inner(row):
            y = row * 2
            y.scale = 3
            return y * y.scale

        return torch.vmap(inner)(x)

    same(rows, T(3, 4, grad=True), fullgraph=False)
    same(transformed, T(3, 4), fullgraph=False)
