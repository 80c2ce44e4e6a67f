"""The current state is part of a question: after a change of it, the same call has another answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from stator import _testing
from tests.shape import against_fake
from tests.support.torch_settings import default_device, default_dtype

X = torch.randn(8, 4)
G = torch.randn(8, 4, requires_grad=True)
WEIGHT = torch.randn(3, 4)
HALF = torch.ones(8, 4, dtype=torch.float16)


@contextlib.contextmanager
def autocast_dtype(dtype: torch.dtype) -> Iterator[None]:
    """The same region of autocast, with another dtype set in it."""
    before = torch.get_autocast_dtype("cpu")
    with torch.autocast("cpu"):
        torch.set_autocast_dtype("cpu", dtype)
        try:
            yield
        finally:
            torch.set_autocast_dtype("cpu", before)


# A state, a question whose answer it changes, and words of that answer.
CHANGES: list[tuple[Callable[[], Any], Any, tuple, str]] = [
    (torch.no_grad, torch.mul, (G, 2), "f32[8, 4]"),
    (lambda: torch.set_grad_enabled(False), "sin", (G,), "f32[8, 4]"),
    (torch.inference_mode, torch.mul, (X, 2), "f32[8, 4] inference"),
    (lambda: torch.autocast("cpu", torch.bfloat16), F.linear, (X, WEIGHT), "bf16[8, 3]"),
    (lambda: torch.autocast("cpu", torch.float16), F.linear, (X, WEIGHT), "f16[8, 3]"),
    (lambda: autocast_dtype(torch.float16), torch.mm, (X, X.t()), "f16[8, 8]"),
    (lambda: torch.autocast("cpu", torch.bfloat16), F.mse_loss, (HALF, HALF), "f32[]"),
    (lambda: default_dtype(torch.float64), torch.zeros, (2,), "f64[2]"),
    (lambda: default_dtype(torch.float64), torch.exp, (torch.arange(3),), "f64[3]"),
    (lambda: default_dtype(torch.float16), torch.true_divide, (torch.arange(3), 2), "f16[3]"),
    (lambda: default_dtype(torch.bfloat16), torch.add, (torch.arange(3), 1.5), "bf16[3]"),
    (lambda: default_device("meta"), torch.zeros, (2,), "f32[2] meta"),
    (lambda: torch.device("meta"), torch.arange, (3,), "i64[3] meta"),
    (lambda: default_device("meta"), torch.full, ((2,), 0.5), "f32[2] meta"),
]


@pytest.mark.parametrize("entered, target, args, changed", CHANGES)
def test_each_part_of_the_state_matters(entered: Callable[[], Any], target: Any, args: tuple, changed: str) -> None:
    _testing.shape_forget()
    plain = _testing.shape_infer(target, args, {})["text"]
    assert plain != changed
    for _ in range(2):
        before = _testing.shape_counts()["hits"]
        with entered():
            inside = _testing.shape_infer(target, args, {})
            assert inside["text"] == changed
            real = against_fake.run_real(target, args, {})
        assert inside["result"][1] == real[1]
        assert _testing.shape_infer(target, args, {})["text"] == plain
        hits = _testing.shape_counts()["hits"] - before
    # The second time both are known.
    assert hits == 2


def test_states_do_not_mix() -> None:
    """Each of several states has its own answer, in any order of questions."""
    states: dict[str, Callable[[], Any]] = {
        "f32[8, 4] grad_fn": contextlib.nullcontext,
        "f32[8, 4]": torch.no_grad,
        "f32[8, 4] inference": torch.inference_mode,
        "bf16[8, 4] grad_fn": lambda: torch.autocast("cpu", torch.bfloat16),
        "f16[8, 4] grad_fn": lambda: torch.autocast("cpu", torch.float16),
    }
    square = torch.randn(4, 4)
    _testing.shape_forget()
    for _ in range(3):
        for text, entered in states.items():
            with entered():
                assert _testing.shape_infer(torch.matmul, (G, square), {})["text"] == text
    assert _testing.shape_counts()["hits"] >= 10


def test_modes_that_nobody_foresees_break() -> None:
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
            return func(*args, **(kwargs or {}))

    _testing.shape_infer(torch.add, (X, X), {})
    for mode in (Functions(), Dispatched()):
        with mode:
            answer = _testing.shape_infer(torch.add, (X, X), {})
        assert answer["status"] == "unsupported" and "mode" in answer["reason"]

    def inside(x: torch.Tensor) -> torch.Tensor:
        answer = _testing.shape_infer(torch.add, (X, X), {})
        assert answer["status"] == "unsupported"
        return x

    torch.vmap(inside)(X)
