"""Sizes at the ends of their range: beyond 32 bits, near 64, and none. Tensors on the device `meta` and expanded ones have
no memory of that size."""

from __future__ import annotations

import pytest
import torch

from tests.support.changing_sizes import captures_of

LARGE = [4, 5, 2**31 - 1, 2**31, 2**31 + 1, 2**32, 7, 2**33 + 5, 2**40, 2**53 - 1, 2**53 + 1]
HUGE = [*LARGE, 2**60, 2**61 + 1, 2**62 - 1, 2**62, 2**62 + 3, 2**63 - 1, 6]

COMPUTED = {
    "products": lambda x: (x.shape[0] * 2, x.shape[0] * x.shape[0], x.shape[0] ** 3),
    "sums": lambda x: (x.shape[0] + 2**62, x.shape[0] - 2**62, -x.shape[0]),
    "quotients": lambda x: (x.shape[0] // 3, x.shape[0] % 7, divmod(x.shape[0], 2**31), x.shape[0] // 2 * 2),
    "floats": lambda x: (x.shape[0] / 3, x.shape[0] * 0.5, float(x.shape[0]), x.shape[0] ** 0.5),
    "whole parts": lambda x: (int(x.shape[0] / 3), int(x.shape[0] * 0.5), round(x.shape[0] / 2)),
    "extremes": lambda x: (min(x.shape[0], 2**62), max(x.shape[0], 2**31), abs(3 - x.shape[0])),
    "bits": lambda x: (x.shape[0] << 1, x.shape[0] >> 31, x.shape[0] & 255, ~x.shape[0]),
    "comparisons": lambda x: (x.shape[0] > 2**31, x.shape[0] == 2**62, x.shape[0] * 2 < 2**62, x.shape[0] < 2**63),
    "numel": lambda x: (x.numel(), x.numel() + x.shape[0], x.stride()),
}

VIEWS = {
    "slices": lambda x: (x[: x.shape[0] - 1].shape, x[x.shape[0] // 2 :].shape, x[-3:].shape, x[:: 2**20].shape),
    "views": lambda x: (x.unsqueeze(0).shape, x.view(-1).shape, x.expand(2, -1).shape, x[None, :, None].stride()),
}

ON_META = {
    "elementwise": lambda x: x * 2 + 1,
    "reductions": lambda x: (x.sum(0), x.mean(), x.amax(0)),
    "flatten": lambda x: x.flatten(),
    "reshape": lambda x: x.reshape(-1, 2),
    "cat": lambda x: torch.cat([x, x]),
    "stack": lambda x: torch.stack([x, x]),
    "repeat": lambda x: x.repeat(2, 1),
    "outer": lambda x: x[:, :1] * x[:, 0],
    "pad": lambda x: torch.nn.functional.pad(x, (0, 0, 0, x.shape[0])),
    "arange": lambda x: torch.arange(x.shape[0], device="meta"),
    "zeros": lambda x: x.new_zeros(x.shape[0], x.shape[0]),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "transposed": lambda x: x.t().contiguous(),
}

EMPTY = {
    "sum": lambda x: (x.sum(), x.sum(0), x.mean(0)),
    "largest": lambda x: x.max(),
    "largest of a dimension": lambda x: x.amax(0),
    "softmax": lambda x: x.softmax(0),
    "cat": lambda x: torch.cat([x, x[:1], x[1:]]),
    "flat": lambda x: x.reshape(-1),
    "view": lambda x: x.view(x.shape[0], -1),
    "matmul": lambda x: x.t() @ x,
    "chunks": lambda x: x.chunk(2),
    "splits": lambda x: x.split(2),
    "first": lambda x: x[0],
    "last": lambda x: x[-1:],
    "arange": lambda x: torch.arange(x.shape[0]) + 1,
    "division by a size": lambda x: (x / max(x.shape[0], 1), 12 // (x.shape[0] + 1)),
    "a quotient that raises": lambda x: x * (12 // x.shape[0]),
    "truth": lambda x: x + 1 if x.numel() else x - 1,
    "stack": lambda x: torch.stack([x, x]).flatten(),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "strides": lambda x: (x.t().contiguous().stride(), x.is_contiguous(), x.new_empty(x.shape).stride()),
    "rows": lambda x: [row * 2 for row in x],
    "expand": lambda x: x[:, :, None].expand(-1, -1, 2).reshape(-1),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", COMPUTED)
def test_numbers_beyond_64_bits_are_pythons(name, dynamic):
    calls = [(torch.empty(1, device="meta").expand(size),) for size in HUGE]
    captures_of(COMPUTED[name], calls, dynamic=dynamic, fullgraph=False)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", VIEWS)
def test_views_of_many_elements(name, dynamic):
    calls = [(torch.empty(1, device="meta").expand(size),) for size in HUGE if size < 2**62]
    captures_of(VIEWS[name], calls, dynamic=dynamic, fullgraph=False)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ON_META)
def test_tensors_of_many_elements(name, dynamic):
    calls = [(torch.empty(size, 2, device="meta"),) for size in [*LARGE, 2**59, 2**60 - 1, 3]]
    captures_of(ON_META[name], calls, dynamic=dynamic, fullgraph=False)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", EMPTY)
def test_empty_tensors(name, dynamic):
    calls = [(torch.randn(size, 3),) for size in (4, 0, 5, 0, 1, 6, 2, 3)]
    captures_of(EMPTY[name], calls, dynamic=dynamic, fullgraph=False)
    captures_of(EMPTY[name], calls[1:], dynamic=dynamic, fullgraph=False)
