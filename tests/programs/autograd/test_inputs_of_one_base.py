"""A write gives a history to an input, and with it to the inputs that are views of the same base."""

import pytest
import torch

import stator


def write_base(x, y, w):
    before = y * 1
    x.mul_(w)
    return before, y.requires_grad, y.is_leaf, y.grad_fn is None, (y + 1).requires_grad


def write_base_first(x, y, w):
    x.mul_(w)
    return y.requires_grad, y.is_leaf, y.grad_fn is None, (y + 1).requires_grad


def write_view(x, y, w):
    before = x * 1
    y.mul_(w)
    return before, x.requires_grad, x.is_leaf, x.grad_fn is None, (x + 1).requires_grad


def write_part_of_view(x, y, w):
    y[1:].mul_(w[0])
    return x.requires_grad, (x[:1] + 1).requires_grad


def inputs(kind):
    base, other = torch.ones(3, 4), torch.ones(3, 4)
    first, second = {
        "base and view": (base, base[0]),
        "two views": (base[1], base[0]),
        "view of another": (base, other[0]),
        "views of two": (base[1], other[0]),
        "no views": (base, torch.ones(4)),
        "detached": (base, base.detach()[0]),
    }[kind]
    return first, second, torch.full((4,), 2.0, requires_grad=True)


KINDS = ["base and view", "two views", "view of another", "views of two", "no views", "detached"]


def plain(results):
    return [one.tolist() if isinstance(one, torch.Tensor) else one for one in results]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("order", [KINDS, KINDS[::-1]], ids=["shared first", "separate first"])
@pytest.mark.parametrize("program", [write_base, write_base_first, write_view, write_part_of_view])
def test_views_of_one_base(program, order, backend):
    compiled = stator.compile(program, backend=backend)
    for kind in [*order, *order]:
        expected, seen = inputs(kind), inputs(kind)
        assert plain(compiled(*seen)) == plain(program(*expected)), kind
        for one, other in zip(seen, expected, strict=True):
            assert torch.equal(one, other)
            assert (one.requires_grad, one.is_leaf) == (other.requires_grad, other.is_leaf), kind
