"""Tensors that rules don't cover: other layouts, subclasses, lazy conjugates. FakeTensor answers, or the capture breaks
with a reason."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db

import stator
from stator import _testing
from tests.shape import against_fake


class Plain(torch.Tensor):
    """A subclass that customizes nothing."""


class Counting(torch.Tensor):
    """A subclass that sees every call."""

    calls = 0

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        cls.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class OwnParameter(torch.nn.Parameter):
    pass


ODD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sparse": lambda x: x.to_sparse(),
    "sparse rows": lambda x: x.to_sparse_csr(),
    "sparse columns": lambda x: x.to_sparse_csc(),
    "sparse blocks": lambda x: x.to_sparse_bsr((1, 1)),
    "mkldnn": lambda x: x.to_mkldnn(),
    "quantized": lambda x: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
    "conjugate": lambda x: x.to(torch.complex64).conj(),
    "negative": lambda x: torch._neg_view(x),
    "float8": lambda x: x.to(torch.float8_e4m3fn),
    "wide unsigned": lambda x: x.to(torch.int64).to(torch.uint32),
    "subclass": lambda x: x.as_subclass(Plain),
    "subclass with a torch function": lambda x: x.as_subclass(Counting),
    "subclass of Parameter": lambda x: OwnParameter(x),
    "batched": lambda x: torch._C._functorch._add_batch_dim(x, 0, 1),
    "zero": lambda x: torch._efficientzerotensor(x.shape),
}

# They have no sizes.
NESTED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "nested": lambda x: torch.nested.nested_tensor([x, x]),
    "jagged": lambda x: torch.nested.nested_tensor([x, x], layout=torch.jagged),
}

FORMS: list[tuple[Any, Callable[[torch.Tensor], tuple]]] = [
    (torch.add, lambda x: (x, 1)),
    (torch.add, lambda x: (torch.ones(3, 3), x)),
    ("mul", lambda x: (x, 2)),
    ("t", lambda x: (x,)),
    ("sum", lambda x: (x,)),
    ("view", lambda x: (x, -1)),
    ("relu_", lambda x: (x,)),
    ("detach", lambda x: (x,)),
    ("size", lambda x: (x,)),
    ("contiguous", lambda x: (x,)),
    ("to", lambda x: (x, torch.float64)),
    (F.linear, lambda x: (torch.ones(2, 3), x)),
    (F.relu, lambda x: (x,)),
    (torch.cat, lambda x: ([torch.ones(3, 3), x],)),
    (torch.zeros_like, lambda x: (x,)),
    (torch.mm, lambda x: (x, torch.ones(3, 3))),
]


def made(kind: str) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return (ODD | NESTED)[kind](torch.eye(3))
        except (RuntimeError, NotImplementedError) as error:
            pytest.skip(f"this PyTorch has none: {error}")


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("form", range(len(FORMS)))
def test_no_rule_answers(kind: str, form: int) -> None:
    target, arguments = FORMS[form]
    args = arguments(made(kind))
    assert _testing.shape_infer(target, args, {}, "rule") is None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = _testing.shape_infer(target, args, {})
        except Exception:  # noqa: BLE001  rejected, or not known: both break
            return
        if answer["status"] != "ok":
            assert answer["reason"]
            return
        # On the tensor itself: a copy of a lazy conjugate is no conjugate.
        try:
            result = against_fake.call(target, args, {})
        except (RuntimeError, NotImplementedError):  # FakeTensor accepts some operations without a kernel
            return
        real = against_fake.describe_real(result, against_fake.flatten_tensors(args))
    assert answer["result"] == real


@functools.cache
def first_samples() -> list[tuple[Any, Any]]:
    """The first sample of each operation that has a rule. Some operations take long to make all of theirs."""
    samples = []
    for op in op_db:
        if not _testing.shape_has_rule(op.op) or not op.supports_dtype(torch.float32, "cpu"):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sample = next(iter(op.sample_inputs("cpu", torch.float32)), None)
        if sample is not None and isinstance(sample.input, torch.Tensor):
            samples.append((op, sample))
    return samples


@pytest.mark.parametrize("kind", [*ODD][:-2])
def test_no_rule_of_the_operator_database_answers(kind: str) -> None:
    odd = made(kind)
    for op, sample in first_samples():
        assert _testing.shape_infer(op.op, (odd, *sample.args), sample.kwargs, "rule") is None, op.name
    assert len(first_samples()) > 250


@pytest.mark.parametrize(
    "kind",
    ["sparse", "sparse rows", "conjugate", "negative", "subclass with a torch function", "mkldnn", *NESTED],
)
def test_programs_with_such_tensors_do_as_without_a_compiler(kind: str) -> None:
    def program(x: torch.Tensor) -> Any:
        y = x + x
        return y, y.layout, y.dtype, type(y)

    x = made(kind)
    expected = program(x)
    seen = stator.compile(program)(x)
    assert seen[1:] == expected[1:]
    parts = zip(seen[0].unbind(), expected[0].unbind()) if kind in NESTED else [(seen[0], expected[0])]
    for ours, theirs in parts:
        plain = [value.to_dense() if value.layout != torch.strided else value for value in (ours, theirs)]
        assert torch.equal(*(value.resolve_conj().resolve_neg() for value in plain))
