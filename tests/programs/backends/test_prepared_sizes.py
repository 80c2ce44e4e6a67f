"""`backend="stator"` where sizes change between calls: which operations are prepared, and that they do the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.programs.backends.test_prepared_calls import bits, compiled, x

Tensor = torch.Tensor

# (program of a tensor of several rows of four, how many of its steps are prepared)
INDEXING: dict[str, tuple[Callable[[Tensor], Any], int]] = {
    "a number": (lambda x: x[1], 1),
    "from the end": (lambda x: x[-1], 1),
    "a slice alone": (lambda x: x[0:5], 1),
    "all": (lambda x: (x[:], x[...], x[:, :]), 3),
    "from the second": (lambda x: x[1:, 1:], 1),
    "without the last": (lambda x: x[:-1, 0], 1),
    "every other": (lambda x: x[::2, ::3], 1),
    "new dimensions": (lambda x: x[None, :, None, 2:], 1),
    "an ellipsis": (lambda x: x[..., -2:], 1),
    "the last rows": (lambda x: x[-3:, 1], 1),
    # As many rows as this in one call, and more in others: PyTorch leaves the slice out, or does not.
    "the first rows and": (lambda x: x[:5, 1:], 0),
    "the first rows in steps": (lambda x: x[0:6:1, 0], 0),
    "a list": (lambda x: x[[0, 1]], 0),
    "a mask": (lambda x: x[x > 0].sum(), 2),
    "a tensor": (lambda x: x[torch.arange(2)], 1),
    "a number that changes": (lambda x: x[x.shape[0] // 2], 1),
    "up to a number that changes": (lambda x: x[: x.shape[0] - 2, 1:], 0),
}
LISTS: dict[str, tuple[Callable[[Tensor], Any], int]] = {
    "chunks": (lambda x: torch.cat(x.chunk(2, 1)[::-1], 1), 4),
    "chunks of what changes": (lambda x: [part.sum() for part in x.chunk(3)], 7),
    "as a whole": (lambda x: x.chunk(2, 1), 3),
    "parts": (lambda x: [part * 2 for part in x.split(2, 1)], 5),
    "parts of sizes": (lambda x: torch.cat([x.split([1, 3], 1)[1], x.split([3, 1], 1)[0]], 0), 5),
    "a function": (lambda x: torch.split(x, 3, dim=1)[1], 2),
    "rows": (lambda x: x.unbind(1)[0] + x.t().unbind(0)[2], 6),
    "places": (lambda x: torch.where(x > 0)[0].sum(), 4),
    "by tensors": (lambda x: torch.broadcast_tensors(x, x[:1])[1] + x, 2),
}
FUNCTIONS: dict[str, tuple[Callable[[Tensor], Any], int]] = {
    "cross entropy": (lambda x: F.cross_entropy(x, x.argmax(1)), 2),
    "smoothed": (lambda x: F.cross_entropy(x, x.argmax(1), reduction="sum", label_smoothing=0.1), 2),
    "likelihood": (lambda x: F.nll_loss(x.log_softmax(1), x.argmin(1)), 3),
    "normalized": (lambda x: F.normalize(x, dim=1) + F.normalize(x, 1.0, 0), 3),
    "norms": (lambda x: x.norm(dim=1) + torch.norm(x, 1.0, 1) + x.norm(), 5),
    "padded": (lambda x: F.pad(x, (1, 2, 0, 1)) + F.pad(x[None], (1, 2, 0, 1), mode="constant", value=1.0), 4),
    "reflected": (lambda x: F.pad(x[None], (1, 1), mode="reflect"), 2),
    "pooled": (lambda x: F.max_pool1d(x[None], 2) + F.max_pool2d(x[None, None], (1, 2), ceil_mode=True)[0], 6),
    "pooled with places": (lambda x: F.max_pool1d(x[None], 2, return_indices=True)[0], 3),
    "several calls": (lambda x: F.softmin(x, 1) + F.softsign(x) + F.tanhshrink(x) + F.threshold(x, 0.1, -1.0), 7),
    "unflattened": (lambda x: x.unflatten(1, (2, -1)) + 1, 2),
    "rows of a table": (lambda x: F.embedding(x.argmax(1), torch.ones(4, 3)), 3),
    "padding": (lambda x: F.embedding(x.argmax(1), torch.ones(4, 3), padding_idx=-1), 2),
    "padding by place": (lambda x: F.embedding(x.argmax(1), x, 0), 1),
    "on the left": (lambda x: 2.0 / x, 0),
}
PROGRAMS = {
    f"{kind}: {name}": each
    for kind, programs in (("indexing", INDEXING), ("lists", LISTS), ("functions", FUNCTIONS))
    for name, each in programs.items()
}


def operations(result: Any) -> list[Any]:
    """What autograd has recorded, and what the results share."""
    results = [one for one in (result if isinstance(result, (tuple, list)) else [result]) if one.requires_grad]
    return [
        (one.grad_fn.name(), [str(next_[0]).split()[0] for next_ in one.grad_fn.next_functions], one._is_view())
        for one in results
    ]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_that_change(name: str, grad: bool) -> None:
    program, prepared = PROGRAMS[name]
    runners: list[Any] = []
    entry = compiled(program, runners, dynamic=True)
    for rows in (5, 5, 6, 9, 12, 5):
        seen = []
        for function in (program, entry):
            given = x(rows, 4, grad=grad)
            result = function(given)
            recorded = operations(result)
            results = list(result) if isinstance(result, (tuple, list)) else [result]
            for one in results:
                if one.requires_grad:
                    one.sum().backward(retain_graph=True)
            base = given.untyped_storage().data_ptr()
            shared = [one.untyped_storage().data_ptr() == base for one in results]
            seen.append((bits(results), [one.stride() for one in results], bits(given.grad), recorded, shared))
        assert seen[0] == seen[1]
    assert {runner.prepared[0] for runner in runners} == {prepared}


def test_writes_through_prepared_views() -> None:
    def program(x: Tensor) -> Tensor:
        first, second = x.chunk(2, 1)
        first.mul_(2)
        x[1:, 0].add_(second.clone()[1:, 0])
        x[-1].zero_()
        return x[:-1].sum()

    entry = compiled(program, dynamic=True)
    for rows in (4, 4, 7, 5):
        seen = []
        for function in (program, entry):
            given = torch.arange(rows * 4.0).reshape(rows, 4)
            seen.append((bits(function(given)), bits(given), given._version))
        assert seen[0] == seen[1]


def test_an_index_out_of_range_raises_as_uncompiled() -> None:
    def program(x: Tensor) -> Tensor:
        return x[4, 1:] * 2

    entry = stator.compile(program, backend="stator", dynamic=True)
    for rows in (5, 6, 4, 7):
        seen = []
        for function in (program, entry):
            try:
                seen.append(bits(function(torch.ones(rows, 3))))
            except IndexError as error:
                seen.append(str(error))
        assert seen[0] == seen[1]


COMPOSITES: dict[str, tuple[Callable[[Tensor, Tensor], Any], list[str]]] = {
    "linear": (lambda x, w: F.linear(x, w, w[0]), ["select.int", "t", "addmm"]),
    "linear without a bias": (lambda x, w: F.linear(x, w), ["t", "mm"]),
    "linear of three dimensions": (lambda x, w: F.linear(x[None], w, w[0]), ["unsqueeze", "select.int", "linear"]),
    "product": (lambda x, w: x @ w, ["mm"]),
    "product of three dimensions": (lambda x, w: x[None] @ w, ["unsqueeze", "matmul"]),
    "softmax": (lambda x, w: F.softmax(x, -1) + F.log_softmax(x, 0), ["_softmax", "_log_softmax", "add.Tensor"]),
    "layer_norm": (lambda x, w: F.layer_norm(x, (4,), w[0]), ["select.int", "native_layer_norm"]),
    "dtypes": (lambda x, w: x.double().to(w.dtype).type_as(w), ["_to_copy", "_to_copy"]),
    "memory format": (lambda x, w: x.to(memory_format=torch.contiguous_format), ["to.dtype_layout"]),
    "convolution": (lambda x, w: F.conv1d(x.t()[None], w[:, :, None]), ["t", "unsqueeze", "unsqueeze", "convolution"]),
    "pooling": (lambda x, w: F.max_pool2d(x[None], (1, 2)), ["unsqueeze", "max_pool2d_with_indices"]),
    "reshape": (lambda x, w: x.reshape(-1), ["reshape"]),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_composite_operators_that_do_not_choose_by_sizes(name: str) -> None:
    program, operators = COMPOSITES[name]
    runners: list[Any] = []
    entry = compiled(program, runners, dynamic=True)
    weight = torch.randn(4, 4)
    for rows in (5, 5, 6, 9, 12):
        seen = []
        for function in (program, entry):
            given = x(rows, 4)
            result = function(given, weight)
            seen.append((bits(result), result.stride(), result._version, result.data_ptr() == given.data_ptr()))
        assert seen[0] == seen[1]
    assert len(runners) == 1
    if torch.torch_version.TorchVersion(torch.__version__) >= (2, 12):  # torch 2.11 takes fewer of them apart
        assert [one.removeprefix("aten::") for one in runners[-1].operators[1]] == operators
