"""Strides and storage offsets that change between calls although the sizes do not explain it."""

from __future__ import annotations

import pytest
import torch
import torch._dynamo

import stator
from tests.support import engine
from tests.support.compare import Comparison

T = torch.randn
ROWS = (9, 11, 12, 20, 33)


def columns(*rows, start=0):
    """Four columns of a larger tensor, with another row length in each call."""
    return [T(8, row)[:, start : start + 4] for row in rows]


def outcome(program, x):
    """Of a call with a copy of the tensor, with the same layout."""
    memory = x.as_strided((x.untyped_storage().nbytes() // x.itemsize,), (1,), 0).clone()
    x = memory.as_strided(x.size(), x.stride(), x.storage_offset())
    try:
        return program(x), x
    except Exception as error:
        return type(error), str(error).splitlines()[0]


def captures_of(program, tensors, **options):
    engine.reset()
    compiled = stator.compile(program, **options)
    before = engine.captures()
    for x in tensors:
        Comparison().same(outcome(program, x), outcome(compiled, x), "results")
    return engine.captures() - before


def captures_of_dynamo(program, tensors):
    captured = []

    def backend(graph_module, _):
        captured.append(graph_module)
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(program, backend=backend)
    for x in tensors:
        outcome(compiled, x)
    torch._dynamo.reset()
    return len(captured)


PROGRAMS = {
    "elementwise": lambda x: torch.relu(x) * 2,
    "matmul": lambda x: x @ x.T,
    "reduction": lambda x: x.sum(0) + x.mean(),
    "softmax": lambda x: x.softmax(-1),
    "transposed": lambda x: x.t() + 1,
    "transposed view": lambda x: x.t(),
    "reshape": lambda x: x.reshape(-1) + 1,
    "view of a row": lambda x: x[2].view(2, 2) * 2,
    "slices": lambda x: x[1:5, ::2] + 1,
    "strides": lambda x: (x.stride(), x[::2].stride(0), x.t().stride(1)),
    "is_contiguous": lambda x: (x + 1, x.is_contiguous(), x.contiguous().stride()),
    "contiguous": lambda x: x.contiguous().view(-1),
    "clone": lambda x: x.clone().stride(),
    "empty_like": lambda x: torch.zeros_like(x).stride(),
    "in place": lambda x: x.add_(1).mul_(2),
    "part in place": lambda x: x[1:3].zero_(),
    "unfold": lambda x: x.unfold(1, 2, 1).sum(-1),
    "expand": lambda x: x.unsqueeze(0).expand(3, -1, -1),
    "cat": lambda x: torch.cat([x, x], 1),
    "stack of views": lambda x: torch.stack([x[0], x[1]]),
    "unsqueeze": lambda x: x.unsqueeze(1).squeeze(1),
    "permute": lambda x: x.view(2, 4, 4).permute(2, 0, 1),
    "a view that fails": lambda x: x.view(-1),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 1)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_captures_serve_all_row_lengths(name):
    program = PROGRAMS[name]
    count = captures_of(program, columns(*ROWS))
    if name != "a view that fails":
        assert count == 2
        assert count <= captures_of_dynamo(program, columns(*ROWS))


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_layouts_among_them(name):
    program = PROGRAMS[name]
    tensors = [
        *columns(9, 11),
        T(8, 4),
        T(4, 8).t(),
        *columns(12),
        T(1, 4).expand(8, 4),
        T(8, 1).expand(8, 4),
        T(8, 12)[:, ::3],
        *columns(14),
        T(16, 9)[::2, :4],
    ]
    captures_of(program, tensors)


def test_contiguous_ones_among_them():
    tensors = [T(8, 4), *columns(9, 11), T(8, 4), *columns(12)]
    assert captures_of(PROGRAMS["elementwise"], tensors) <= 3
    assert captures_of(PROGRAMS["reshape"], tensors) <= 3


def test_a_relation_on_a_stride_is_guarded():
    program = lambda x: x + 1 if x.stride(0) > 15 else x - 1  # noqa: E731
    assert captures_of(program, columns(*ROWS)) == 3


def test_sizes_and_strides_that_change_together():
    tensors = [T(n, row)[:, :4] for n, row in zip((8, 5, 6, 7), ROWS, strict=False)]
    assert captures_of(PROGRAMS["matmul"], tensors) == 2
    batches = [T(2, n, row)[:, :, :4] for n, row in zip((8, 5, 6, 7), ROWS, strict=False)]
    assert captures_of(lambda x: x.transpose(1, 2) * 2, batches) == 2


@pytest.mark.parametrize("name", ["elementwise", "matmul", "transposed view", "slices", "in place"])
def test_with_compilers(name):
    assert captures_of(PROGRAMS[name], columns(*ROWS), backend="aot_eager") == 2


def test_strides_are_named_in_reports():
    engine.reset()
    compiled = stator.compile(lambda x: x * 2)
    with stator.watch() as report:
        for x in columns(9, 11):
            compiled(x)
    assert report.captures[1].symbols == [
        "s0 is L['x'].stride()[0]: 11 in this call, at least 2; changed between calls"
    ]
    assert "L['x'] is torch.Tensor f32[8, 4] strides [?, 1] cpu" in report.captures[1].guards


def test_strides_of_zero_and_one_are_constants():
    tensors = [*columns(9, 11), T(1, 4).expand(8, 4), T(8, 4).t().contiguous().t()]
    assert captures_of(PROGRAMS["strides"], tensors) <= 4


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_offsets_that_change(dynamic):
    tensors = [T(20)[k : k + 4] for k in (0, 1, 5, 9, 12)]
    assert captures_of(lambda x: x * 2, tensors, dynamic=dynamic) == 1
    count = captures_of(lambda x: x * x.storage_offset(), tensors, dynamic=dynamic)
    assert count == (5 if dynamic is False else 2)
    captures_of(lambda x: (x[1:].storage_offset(), x.as_strided((2,), (1,), 0) + 1), tensors, dynamic=dynamic)
    captures_of(lambda x: x + 1 if x.storage_offset() % 2 else x - 1, tensors, dynamic=dynamic)


def test_gradients():
    def program(x):
        return (x * x).softmax(-1)

    engine.reset()
    compiled = stator.compile(program)
    for x in columns(*ROWS):
        x.requires_grad_()
        outcomes = []
        for function in (compiled, program):
            x.grad = None
            function(x).sum().backward()
            outcomes.append(x.grad)
        assert torch.equal(*outcomes)
