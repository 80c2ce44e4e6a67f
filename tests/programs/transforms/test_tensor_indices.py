"""torch.vmap where tensors as indices are not numbers: inside of `TransformGetItemToIndex`, which transformers enters around the functions of its masks."""

import pytest
import torch
from torch.overrides import _get_current_function_mode_stack

from tests.support.harness import Source, T, same, unrelated

HEAD = """
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
from torch.overrides import _get_current_function_mode_stack
class Doubling(TransformGetItemToIndex):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs)
        return result * 2 if function is torch.Tensor.__getitem__ else result
def places(count): return torch.arange(count)
OFFSET = 1
"""
CAPTURED = {
    "one index": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: y[i] * OFFSET)(places(3))\n return z",
    "several": "with TransformGetItemToIndex():\n  z = torch.vmap(torch.vmap(lambda i, j: y[i, j] > 0, in_dims=(None, 0)), in_dims=(0, None))(places(3), places(3))\n return z",
    "one after the other": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: y[i][0] + y[2 - i][i])(places(3))\n return z",
    "other keys": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda row: (row[1:], row[None], row[...], row[0]))(y)\n return z",
    "two transforms": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: y[i])(places(2)), torch.vmap(lambda i: y[-i])(places(2))\n return z",
    "a transform behind it": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: y[i])(places(2))\n return z, torch.vmap(lambda row: row[0])(y), y[places(1)[0]]",
}
BROKEN = {
    "numbers beside tensors": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: (y[1, i], y[i, -1], y[True, i]))(places(3))\n return z",
    "an exception": "try:\n  with TransformGetItemToIndex():\n   torch.vmap(lambda i: y[i, i, i])(places(2))\n except IndexError:\n  return y[0] + len(_get_current_function_mode_stack())",
    "between two transforms": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: y[i])(places(2))\n  print(end='')\n  z = z + torch.vmap(lambda i: y[-i])(places(2))\n return z, len(_get_current_function_mode_stack())",
    "inside of a transform": "def one(i):\n  print(end='')\n  return y[i]\n with TransformGetItemToIndex():\n  z = torch.vmap(one)(places(2))\n return z, y[0] + len(_get_current_function_mode_stack())",
    "a class derived from it": "with Doubling():\n  z = torch.vmap(lambda i: y[i])(places(2))\n return z",
    "two of them": "with TransformGetItemToIndex(), Doubling():\n  z = torch.vmap(lambda i: y[i])(places(2))\n return z",
    "gradients": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: y[i, i] + y[i, 0])(places(3))\n return z",
    "gradients that PyTorch refuses": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: y[i])(places(3))\n return z",
    "the modes are asked for": "with TransformGetItemToIndex():\n  z = torch.vmap(lambda i: y[i] + len(_get_current_function_mode_stack()))(places(2))\n return z",
}


@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name):
    source = Source(HEAD + f"def f(x):\n y = x + 1\n {CAPTURED[name]}")
    same(source, T(3, 3), compare_dynamo=False)
    assert not _get_current_function_mode_stack()


@pytest.mark.parametrize("name", BROKEN)
def test_graph_breaks(name):
    source = Source(HEAD + f"def f(x):\n y = x + 1\n {BROKEN[name]}")
    same(source, T(3, 3, grad=True), fullgraph=False, compare_dynamo=False)
    assert not _get_current_function_mode_stack()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_it_reads_is_guarded(backend):
    source = Source(HEAD + f"def f(x):\n y = x + 1\n {CAPTURED['one index']}")
    mutate = ["OFFSET = 2", unrelated("OTHER = 3"), "def places(count): return torch.arange(count - 1)"]
    same(source, T(3, 3), mutate=mutate, backend=backend, compare_dynamo=False)


def test_a_mode_that_is_active_already():
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    import stator

    def program(table):
        return torch.vmap(lambda i: table[i] * 2)(torch.arange(3))

    table = torch.randn(3, 2)
    with TransformGetItemToIndex():
        assert torch.equal(stator.compile(program, backend="eager")(table), program(table))
