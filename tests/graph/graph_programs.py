"""Programs that `torch.fx.symbolic_trace` can trace. Each takes two float tensors of 4 x 4."""

from __future__ import annotations

import collections
import operator
from typing import Any

import torch
import torch.nn.functional as F

Pair = collections.namedtuple("Pair", ["first", "second"])


def arithmetic(x: Any, y: Any) -> Any:
    z = x + y * 2 - 1
    return (z / (y.abs() + 1), -z, z @ x, x + x)


def methods(x: Any, y: Any) -> Any:
    return (x.sum(), x.sum(dim=-1, keepdim=True), y.view(2, 8).t(), y.max().item())


def functions(x: Any, y: Any) -> Any:
    return (torch.relu(x), F.gelu(y, approximate="tanh"), F.linear(x, y), torch.add(x, y, alpha=2))


def containers(x: Any, y: Any) -> Any:
    stacked = torch.stack([x, y, x], dim=0)
    return (torch.cat((x, y), 1), stacked, torch.einsum("ij,jk->ik", x, y), {"x": x, "more": [y, (x,)]})


def indexing(x: Any, y: Any) -> Any:
    return (x[0], x[1:, None], y[..., ::2], x[[0, 2]], x[torch.tensor([1, 1])], y[(0, slice(1, 3))])


def several_results(x: Any, y: Any) -> Any:
    values, indices = torch.topk(x, 2)[0], torch.topk(x, 2)[1]
    return (values, indices, torch.split(y, 2)[1], torch.max(x, 0).values)


def reserved_names(x: Any, y: Any) -> Any:
    return (torch.sum(x), torch.max(x), torch.min(y), torch.abs(x), torch.all(y > 0), x.pow(2), operator.pow(y, 2))


def nested_slices(x: Any, y: Any) -> Any:
    size = y.size(0)
    return (x[: size - 1], x.expand(size, size), x.reshape(size * 2, -1))


def named_tuples(x: Any, y: Any) -> Any:
    return (swap(Pair(x, y)), torch.zeros(x.shape))


@torch.fx.wrap
def swap(pair: Pair) -> Pair:
    return Pair(pair.second, pair.first)


PROGRAMS = [
    arithmetic,
    methods,
    functions,
    containers,
    indexing,
    several_results,
    reserved_names,
    nested_slices,
    named_tuples,
]
