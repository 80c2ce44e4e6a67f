"""`x.data = y`: the plan assigns it after the graph, in order."""

from __future__ import annotations

import pytest
import torch

import stator
from tests.support.harness import same


def of(*values, requires_grad=False):
    return lambda: torch.tensor(values, requires_grad=requires_grad)


def swapped(x, y):
    old = x.data
    x.data = y
    return x, old + 1, y * 2


def memory_is_shared(x, y):
    x.data = y
    y.add_(1)
    return x, y


def sizes_of_the_source_change_later(x, y):
    x.data = y
    y.unsqueeze_(0)
    return x, y + 1


def chained(x, y):
    z = x
    x.data = y
    y.data = torch.zeros([0])
    return x is z, x, y


def of_a_result(x, y):
    made = y * 3
    x.data = made
    made.add_(1)
    return x, made


def old_views_stay(x, y):
    view = x[:1]
    old = x.data
    x.data = y
    view.add_(5)
    return view, old, x


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program", [swapped, memory_is_shared, sizes_of_the_source_change_later, chained, of_a_result, old_views_stay]
)
def test_data_is_assigned(program, backend):
    same(program, of(1.0, 2.0), of(3.0, 4.0, 5.0), backend=backend, compare_dynamo=False, fresh=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_data_of_leaves(backend):
    leaf = of(1.0, 2.0, requires_grad=True)
    same(chained, leaf, leaf, backend=backend, compare_dynamo=False, fresh=True)


def used_afterwards(x, y):
    x.data = y
    x.add_(1)
    return x.sum() + len(x), x.shape


def test_a_use_afterwards_breaks_the_graph():
    same(used_afterwards, of(1.0, 2.0), of(3.0, 4.0, 5.0), fullgraph=False, fresh=True)
    with pytest.raises(stator.Unsupported, match="after its `data` was assigned"):
        stator.compile(used_afterwards, backend="eager", fullgraph=True)(torch.ones(2), torch.ones(3))


def other_dtype(x, y):
    x.data = y.long()
    return x


def fails(x, y):
    try:
        x.data = y.to_sparse()
    except RuntimeError as error:
        return str(error)[:20], x + 1


@pytest.mark.parametrize("program", [other_dtype, fails])
def test_what_does_not_fit_is_left_to_pytorch(program):
    same(program, of(1.0, 2.0), of(3.0, 4.0), fullgraph=False, fresh=True)


def test_one_tensor_in_both_places():
    def program(x, y):
        x.data = y
        return y + 1

    compiled = stator.compile(program, backend="eager")
    x, y = torch.ones(2), torch.zeros(3)
    compiled(x, y)
    assert x.data_ptr() == y.data_ptr() and x.shape == (3,)
    assert compiled(x, x).tolist() == [1, 1, 1] and x.data_ptr() == y.data_ptr()
