"""A rehearsal of a capture when the first function of a process is compiled.

The first capture of a process looks up functions and settings of PyTorch and builds tables of them, which takes several
times as long as to capture a small program. So `stator.compile` captures one, up to what the backend `stator` would
run, which it does not do. Another one that makes nothing but views runs, so that preparing calls is rehearsed too. No
one is told of either.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from stator import _C, backends


def _program(module: nn.Module, x: torch.Tensor, weight: torch.Tensor, parts: list[Any]) -> Any:
    batch, *rest = x.shape
    for number in range(2):
        parts.append(F.linear(x, weight) + number)
    first = torch.cat([part[:, 1:] for part in parts], 1).view(batch, -1).transpose(0, 1)
    return {"first": module(first).softmax(-1), "rest": rest, "size": x.size(0)}


def _views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first = x.view(-1)[1:]
    return first.reshape(1, -1).transpose(0, 1), first


def trace_once() -> None:
    """Does nothing where a mode of the program would see that tensors are made. Never raises an `Exception`: without
    the trace, the first call of a compiled function takes longer."""
    if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
        return
    with contextlib.suppress(Exception):
        _trace()


def _trace() -> bool:
    x, weight = (torch.empty(3, 4, device="cpu", dtype=torch.float32) for _ in range(2))
    is_captured = _runner(_program, nn.ReLU(), x, weight, []) is not None
    views = _runner(_views, x)
    for _ in range(2):
        views(x)
    return is_captured


def _runner(function: Any, *arguments: Any) -> Any:
    code = function.__code__
    slots: list[tuple[Any, ...]] = [(argument,) for argument in arguments]
    count = code.co_nlocals + len(code.co_cellvars) + len(code.co_freevars)
    backend = backends.resolve("stator", dynamic=None, options=None, mode=None)
    return _C.rehearse_capture(function, slots + [()] * (count - len(slots)), backend)
