"""`torch._dynamo.mark_dynamic` and its relatives."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import stator
from tests.support import engine


def captures_of(program, sizes, mark=None, **options):
    engine.reset()
    compiled = stator.compile(program, fullgraph=True)
    before = engine.captures()
    for size in sizes:
        x = torch.randn(size, 3)
        if mark is not None:
            mark(x, 0, **options)
        assert torch.equal(compiled(x), program(x))
    return engine.captures() - before


def test_marked_sizes_are_dynamic_in_the_first_call():
    sizes = [4, 7, 9, 5]
    assert captures_of(lambda x: x * 2, sizes) == 2
    assert captures_of(lambda x: x * 2, sizes, torch._dynamo.mark_dynamic) == 1
    assert captures_of(lambda x: x * 2, sizes, torch._dynamo.maybe_mark_dynamic) == 1
    assert captures_of(lambda x: x * 2, sizes, torch._dynamo.mark_static) == 4


def test_specializing_a_marked_size_is_an_error_that_names_the_line():
    def program(x):
        return x.view(4, 3) + 1

    compiled = stator.compile(program)
    x = torch.randn(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(
        RuntimeError, match=r"L\['x'\]\.size\(\)\[0\] is marked .* specialized to 4.*test_marks\.py:\d+"
    ):
        compiled(x)
    y = torch.randn(4, 3)
    torch._dynamo.maybe_mark_dynamic(y, 0)
    assert torch.equal(compiled(y), program(y))


def without_symbols(graph_module, example_inputs):
    tensors = [one for one in example_inputs if isinstance(one, torch.Tensor)]
    if len(tensors) < len(example_inputs) or any(isinstance(size, torch.SymInt) for size in tensors[0].shape):
        raise RuntimeError("this backend takes no symbols")
    return graph_module.forward


def test_a_backend_that_fails_on_marked_sizes():
    def program(x):
        return x * 2

    engine.reset()
    compiled = stator.compile(program, backend=without_symbols)
    for size in (4, 5, 4):
        x = torch.randn(size, 3)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        assert torch.equal(compiled(x), program(x))
    x = torch.randn(6, 3)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(RuntimeError, match="this backend takes no symbols"):
        compiled(x)


def test_a_range():
    assert captures_of(lambda x: x * 2, [4, 7, 9, 5], torch._dynamo.mark_dynamic, min=2, max=100) == 1
    report = stator.explain(lambda x: x + 1 if x.shape[0] < 200 else x)
    x = torch.randn(5, 3)
    torch._dynamo.mark_dynamic(x, 0, min=3, max=100)
    symbols = [line for capture in report(x).captures for line in capture.symbols]
    assert symbols == ["s0 is L['x'].size()[0]: 5 in this call, at least 3, at most 100; marked with mark_dynamic"]
