"""Time for one answer about an operation: rule, cache, FakeTensor and meta tensors, side by side.

python bench/shapes.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

from stator import _testing


def randn(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes)


X = randn(8, 128, 64)
IMAGE = randn(2, 16, 32, 32)
MASK = X > 0
HEADS = randn(8, 16, 4, 32).transpose(1, 2)

# What models call most, in the forms in which they call it.
CALLS: dict[str, tuple[Any, tuple, dict]] = {
    "x + y": (operator.add, (X, X), {}),
    "x * 2": (operator.mul, (X, 2), {}),
    "x / y (broadcast)": (operator.truediv, (X, randn(64)), {}),
    "x > 0": (operator.gt, (X, 0), {}),
    "torch.exp": (torch.exp, (X,), {}),
    "torch.where": (torch.where, (MASK, X, X), {}),
    "masked_fill": ("masked_fill", (X, MASK, -1e9), {}),
    "clamp": ("clamp", (X,), {"min": 0}),
    "F.relu": (F.relu, (X,), {}),
    "F.gelu": (F.gelu, (X,), {}),
    "F.silu": (F.silu, (X,), {}),
    "F.softmax": (F.softmax, (X,), {"dim": -1}),
    "F.linear": (F.linear, (X, randn(32, 64), randn(32)), {}),
    "x @ y": (operator.matmul, (X, randn(8, 64, 16)), {}),
    "torch.bmm": (torch.bmm, (X, randn(8, 64, 16)), {}),
    "F.layer_norm": (F.layer_norm, (X, (64,), randn(64), randn(64)), {}),
    "F.batch_norm": (F.batch_norm, (IMAGE, randn(16), randn(16).abs(), randn(16), randn(16)), {}),
    "F.group_norm": (F.group_norm, (IMAGE, 4), {}),
    "F.conv2d": (F.conv2d, (IMAGE, randn(8, 16, 3, 3), None, 1, 1), {}),
    "F.max_pool2d": (F.max_pool2d, (IMAGE, 2), {}),
    "F.adaptive_avg_pool2d": (F.adaptive_avg_pool2d, (IMAGE, 1), {}),
    "F.dropout": (F.dropout, (X, 0.1), {}),
    "F.embedding": (F.embedding, (torch.ones(8, 16, dtype=torch.long), randn(100, 64)), {}),
    "view": ("view", (X, 8, 128, 4, 16), {}),
    "transpose": ("transpose", (X, 1, 2), {}),
    "permute": ("permute", (X, 0, 2, 1), {}),
    "unsqueeze": ("unsqueeze", (X, 1), {}),
    "expand": ("expand", (X, 2, 8, 128, 64), {}),
    "x[:, 0]": (operator.getitem, (X, (slice(None), 0)), {}),
    "x[..., None]": (operator.getitem, (X, (..., None)), {}),
    "chunk": ("chunk", (X, 2, -1), {}),
    "contiguous": ("contiguous", (X.transpose(1, 2),), {}),
    "cat": (torch.cat, ([X, X],), {"dim": -1}),
    "sum": ("sum", (X, -1), {}),
    "mean": ("mean", (X,), {"dim": -1, "keepdim": True}),
    "max": (torch.max, (X, 1), {}),
    "zeros": (torch.zeros, (8, 64), {}),
    "arange": (torch.arange, (128,), {}),
    "to": ("to", (X, torch.bfloat16), {}),
    "float": ("float", (X,), {}),
    "gather": (torch.gather, (X, 1, torch.zeros(8, 1, 64, dtype=torch.long)), {}),
    "scatter_add": (torch.scatter_add, (X, 1, torch.zeros(8, 1, 64, dtype=torch.long), X), {}),
    "index_add": (torch.index_add, (X, 1, torch.tensor([0, 5]), randn(8, 2, 64)), {}),
    "x[index]": (operator.getitem, (X, torch.tensor([0, 3, 1])), {}),
    "x[index] = y": (operator.setitem, (X.clone(), torch.tensor([0, 3, 1]), 0.0), {}),
    "attention": (F.scaled_dot_product_attention, (HEADS, HEADS, HEADS), {"is_causal": True}),
    "einsum": (torch.einsum, ("bhid,bhjd->bhij", HEADS, HEADS), {}),
    "einsum with ...": (torch.einsum, ("...id,...jd->...ij", HEADS, HEADS), {}),
    "einsum of three": (torch.einsum, ("ij,jk,kl->il", X[0], randn(64, 8), randn(8, 16)), {}),
    "torch.meshgrid": (torch.meshgrid, (randn(16), randn(32)), {"indexing": "ij"}),
    "torch.cdist": (torch.cdist, (X, X.clone()), {}),
    "searchsorted": (torch.searchsorted, (randn(32).sort().values, X), {}),
    "as_strided": ("as_strided", (X, (4, 64), (128, 1)), {}),
    "F.unfold": (F.unfold, (IMAGE, 3), {}),
    "view_as_complex": (torch.view_as_complex, (randn(8, 16, 2),), {}),
    "multi-head attention": (
        F.multi_head_attention_forward,
        (X, X, X, 64, 4, randn(192, 64), randn(192), None, None, False, 0.0, randn(64, 64), randn(64)),
        {"need_weights": False},
    ),
    "F.interpolate": (F.interpolate, (IMAGE,), {"scale_factor": 2, "mode": "bilinear"}),
    "F.pad": (F.pad, (IMAGE, (1, 1, 1, 1)), {}),
    "F.avg_pool2d": (F.avg_pool2d, (IMAGE, 2), {}),
    "F.conv_transpose2d": (F.conv_transpose2d, (IMAGE, randn(16, 8, 3, 3), None, 2), {}),
    "F.instance_norm": (F.instance_norm, (IMAGE,), {}),
    "F.rms_norm": (F.rms_norm, (X, (64,), randn(64)), {}),
    "torch.norm": (torch.norm, (X,), {"dim": -1}),
    "F.normalize": (F.normalize, (X,), {"dim": -1}),
    "F.cross_entropy": (F.cross_entropy, (randn(8, 10), torch.zeros(8, dtype=torch.long)), {}),
    "F.mse_loss": (F.mse_loss, (X, X.clone()), {}),
    "F.binary_cross_entropy": (F.binary_cross_entropy_with_logits, (X, X.clone()), {}),
    "torch.add(out=)": (torch.add, (X, X), {"out": torch.empty_like(X)}),
    "add_": ("add_", (X.clone(), X), {}),
    "pow": (torch.pow, (X, 2), {}),
    "logical_and": (torch.logical_and, (MASK, MASK), {}),
    "var": ("var", (X, -1), {}),
    "cumsum": (torch.cumsum, (X, -1), {}),
    "topk": (torch.topk, (X, 5), {}),
    "sort": (torch.sort, (X,), {}),
    "argmax": (torch.argmax, (X, -1), {}),
    "stack": (torch.stack, ([X, X],), {}),
    "split": (torch.split, (X, 32, 1), {}),
    "repeat": ("repeat", (X, 1, 2, 1), {}),
    "roll": (torch.roll, (X, 1, 1), {}),
    "flip": (torch.flip, (X, (1,)), {}),
    "tril": (torch.tril, (X,), {}),
    "index_select": (torch.index_select, (X, 1, torch.tensor([0, 5])), {}),
    "full": (torch.full, ((8, 64), 0.5), {}),
    "zeros_like": (torch.zeros_like, (X,), {}),
    "new_zeros": ("new_zeros", (X, (8, 64)), {}),
    "clone": ("clone", (X,), {}),
    "flatten": ("flatten", (X, 1), {}),
    "squeeze": (torch.squeeze, (X, 0), {}),
    "setitem": (operator.setitem, (X.clone(), (slice(None), 0), 0.0), {}),
}


def best_of(work: Callable[[], Any], rounds: int = 7, repeats: int = 20) -> float:
    """Nanoseconds."""
    work()
    best = math.inf
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(repeats):
            work()
        best = min(best, (time.perf_counter_ns() - start) / repeats)
    return best


def converted(value: Any, convert: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return convert(value)
    if isinstance(value, (tuple, list)):
        return type(value)(converted(item, convert) for item in value)
    return value


def caller(target: Any, args: tuple, kwargs: dict) -> Callable[[], Any]:
    if isinstance(target, str):
        method = getattr(args[0], target)
        return lambda: method(*args[1:], **kwargs)
    return lambda: target(*args, **kwargs)


def measure() -> list[dict[str, Any]]:
    rows = []
    mode = FakeTensorMode()
    for name, (target, args, kwargs) in CALLS.items():
        rule = _testing.shape_time(target, args, kwargs, "rule", 2000, 7)
        hit = _testing.shape_time(target, args, kwargs, "any", 2000, 7)
        fake_keywords = {key: converted(value, mode.from_tensor) for key, value in kwargs.items()}
        fake_call = caller(target, converted(args, mode.from_tensor), fake_keywords)
        with mode:
            fake = best_of(fake_call)
        on_meta = dict(kwargs, device="meta") if target in (torch.zeros, torch.arange, torch.full) else kwargs
        on_meta = {key: converted(value, lambda t: t.to("meta")) for key, value in on_meta.items()}
        meta = best_of(caller(target, converted(args, lambda t: t.to("meta")), on_meta))
        rows.append({"operation": name, "rule": rule, "hit": hit, "fake": fake, "meta": meta})
    return rows


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="also write the figures there")
    arguments = parser.parse_args()
    rows = measure()
    print(f"{'operation':24}{'rule':>10}{'hit':>10}{'fake':>12}{'meta':>12}{'fake/rule':>11}{'fake/hit':>10}")
    for row in rows:
        rule = row["rule"]
        shown = f"{rule:8.0f}ns" if rule is not None else "      none"
        ratio = f"{row['fake'] / rule:10.0f}x" if rule is not None else " " * 11
        print(
            f"{row['operation']:24}{shown}{row['hit']:8.0f}ns{row['fake'] / 1000:10.1f}us{row['meta'] / 1000:10.1f}us"
            f"{ratio}{row['fake'] / row['hit']:9.0f}x"
        )
    with_rule = [row for row in rows if row["rule"] is not None]
    ratios = [row["fake"] / row["rule"] for row in with_rule]
    print(f"\n{len(with_rule)} of {len(rows)} have a rule")
    print(f"FakeTensor / rule: {geometric_mean(ratios):.0f} in the geometric mean, {min(ratios):.0f} at least")
    print(f"FakeTensor / hit: {geometric_mean([row['fake'] / row['hit'] for row in rows]):.0f} in the geometric mean")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
