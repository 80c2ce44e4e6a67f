"""Reading and guarding real tensors, PyTorch's global state, and FakeTensors created directly."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from stator import _testing


def why_not(tensor: torch.Tensor, other: Any) -> str:
    matches, why, _, _ = _testing.tensor_matches(_testing.tensor_check(tensor), other)
    assert matches == (why == "")
    return why


X = torch.randn(8, 4)

MISMATCHES: list[tuple[Any, str]] = [
    (torch.randn(9, 4), "size of dimension 0 is 9, was 8"),
    (torch.randn(4, 8).t(), "stride of dimension 0 is 1, was 4"),
    (torch.randn(8, 4, 1), "number of dimensions is 3, was 2"),
    (torch.randn(8, 4).double(), "dtype is torch.float64, was torch.float32"),
    (torch.randn(8, 4, requires_grad=True), "requires_grad is True, was False"),
    (torch.randn(8, 4, device="meta"), "device is meta, was cpu"),
    (torch.nn.Parameter(torch.randn(8, 4)), "type is torch.nn.parameter.Parameter, was torch.Tensor"),
    (3, "type is int, was torch.Tensor"),
    (None, "type is NoneType, was torch.Tensor"),
    (X.to_sparse(), "dispatch keys"),
]


@pytest.mark.parametrize("other, words", MISMATCHES, ids=[words for _, words in MISMATCHES])
def test_a_check_says_what_differs(other: Any, words: str) -> None:
    assert why_not(X, other).startswith(words)


def test_a_check_holds_for_tensors_alike() -> None:
    assert why_not(X, torch.zeros(8, 4)) == ""
    # The storage offset is not compared.
    assert why_not(X, torch.zeros(10, 4)[2:]) == ""
    for make in (
        lambda: torch.randn(3).requires_grad_(),
        lambda: torch.randn(()),
        lambda: torch.randn(0, 3),
        lambda: X.to_sparse(),
    ):
        assert why_not(make(), make()) == ""


def test_a_check_sees_conjugate_negative_and_inference() -> None:
    z = torch.randn(3, dtype=torch.complex64)
    assert "dispatch keys" in why_not(z, z.conj())
    assert "dispatch keys" in why_not(z.imag, z.conj().imag)
    with torch.inference_mode():
        inside = torch.randn(8, 4)
    assert "dispatch keys" in why_not(X, inside)
    assert why_not(X, torch.vmap(lambda x: x)(X)) == ""


def test_metadata_is_what_the_tensor_says() -> None:
    for tensor in (
        X,
        X.t(),
        X[2:, 1:],
        torch.nn.Parameter(X),
        (X.clone().requires_grad_() * 2),
        torch.zeros((), dtype=torch.bool),
    ):
        meta = _testing.tensor_meta(tensor)
        assert meta["size"] == tuple(tensor.shape)
        assert meta["stride"] == tensor.stride()
        assert meta["storage_offset"] == tensor.storage_offset()
        assert (meta["dtype"], meta["device"], meta["layout"]) == (tensor.dtype, tensor.device, tensor.layout)
        assert (meta["requires_grad"], meta["is_leaf"], meta["class"]) == (
            tensor.requires_grad,
            tensor.is_leaf,
            type(tensor),
        )


class Loud(torch.overrides.TorchFunctionMode):
    pass


class Quiet(torch.utils._python_dispatch.TorchDispatchMode):
    pass


@contextlib.contextmanager
def changed(set_it: Callable[[Any], None], now: Any, before: Any):
    set_it(now)
    try:
        yield
    finally:
        set_it(before)


STATES = [
    (torch.no_grad, "grad mode is off, was on"),
    (torch.inference_mode, "grad mode is off, was on"),
    (lambda: torch.autocast("cpu", torch.bfloat16), "autocast of cpu is on, was off"),
    (
        lambda: changed(torch.set_default_dtype, torch.float64, torch.float32),
        "default dtype is torch.float64, was torch.float32",
    ),
    (lambda: torch.device("meta"), "stack of torch function modes is [device meta], was []"),
    (Loud, "stack of torch function modes is"),
    (Quiet, "number of torch dispatch modes is 1, was 0"),
    (torch._C.DisableTorchFunctionSubclass, "__torch_function__ is off, was on"),
    (lambda: changed(torch.use_deterministic_algorithms, True, False), "deterministic algorithms is on, was off"),
    (lambda: changed(torch.set_num_threads, 3, torch.get_num_threads()), "number of threads is 3"),
    (lambda: torch.autograd.forward_ad._set_fwd_grad_enabled(False), "forward-mode grad is off, was on"),
]


@pytest.mark.parametrize("enter, words", STATES, ids=[words for _, words in STATES])
def test_a_change_of_state_is_seen_and_named(enter: Any, words: str) -> None:
    state = _testing.global_state()
    assert _testing.global_state_matches(state)[:2] == (True, "")
    with enter():
        matches, why, _ = _testing.global_state_matches(state)
        assert not matches and why.startswith(words), why
        inside = _testing.global_state()
        assert _testing.global_state_matches(inside)[0]
    assert _testing.global_state_matches(state)[:2] == (True, "")
    assert not _testing.global_state_matches(inside)[0]


def test_autocast_dtype_counts_only_while_it_is_on() -> None:
    state = _testing.global_state()
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        assert _testing.global_state_matches(state)[0]
        with torch.autocast("cpu", torch.float16):
            half = _testing.global_state()
        with torch.autocast("cpu", torch.bfloat16):
            assert _testing.global_state_matches(half)[1] == "autocast of cpu is torch.bfloat16, was torch.float16"
    finally:
        torch.set_autocast_dtype("cpu", torch.bfloat16)


def test_a_default_device_is_compared_by_its_device() -> None:
    with torch.device("meta"):
        state = _testing.global_state()
    with torch.device("meta"):
        assert _testing.global_state_matches(state)[0]
    with torch.device("cpu"):
        assert not _testing.global_state_matches(state)[0]


FAKED = {
    "plain": lambda: torch.randn(3, 4),
    "transposed": lambda: torch.randn(3, 4).t(),
    "offset": lambda: torch.randn(5, 4)[2:],
    "grad": lambda: torch.randn(3, requires_grad=True),
    "history": lambda: torch.randn(3, requires_grad=True) * 2,
    "parameter": lambda: torch.nn.Parameter(torch.randn(3, 4)),
    "frozen parameter": lambda: torch.nn.Parameter(torch.randn(3), requires_grad=False),
    "integers": lambda: torch.arange(3),
    "scalar": lambda: torch.tensor(2.0),
    "conjugate": lambda: torch.randn(3, dtype=torch.complex64).conj(),
}


@pytest.mark.parametrize("name", FAKED)
def test_a_fake_is_as_pytorch_makes_it(name: str) -> None:
    mode = FakeTensorMode()
    real = FAKED[name]()
    mine, theirs = _testing.make_fake(mode, real), mode.from_tensor(real)
    assert type(mine) is FakeTensor and mine.fake_mode is mode
    assert _testing.tensor_meta(mine) == _testing.tensor_meta(theirs) == _testing.tensor_meta(real)
    assert torch._C._dispatch_keys(mine) == torch._C._dispatch_keys(theirs)
    assert isinstance(mine, torch.nn.Parameter) == isinstance(real, torch.nn.Parameter)
    assert mine.__dict__.keys() == theirs.__dict__.keys()
    assert {k: v for k, v in mine.__dict__.items() if v is not theirs.__dict__[k]}.keys() <= {
        "_fake_device",
        "fake_device",  # its name in 2.11
    }
    assert mine.fake_device == theirs.fake_device
    assert (mine.untyped_storage().nbytes() > 0) == (theirs.untyped_storage().nbytes() > 0)
    with mode:
        result = mine * 2
    assert type(result) is FakeTensor and result.shape == real.shape


def test_an_inference_tensor_is_faked_as_one() -> None:
    with torch.inference_mode():
        real = torch.randn(3)
    assert _testing.make_fake(FakeTensorMode(), real).is_inference()


def test_there_is_no_fake_for_the_odd() -> None:
    with pytest.raises(NotImplementedError, match="strided"):
        _testing.make_fake(FakeTensorMode(), X.to_sparse())


def test_fakes_serve_as_example_inputs() -> None:
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._guards import TracingContext, tracing

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor]:
            return (torch.relu(x @ w),)

    mode = FakeTensorMode()
    x, w = torch.randn(3, 4), torch.nn.Parameter(torch.randn(4, 5))
    graph = torch.fx.symbolic_trace(Model())
    with tracing(TracingContext(mode)):
        compiled = aot_module_simplified(
            graph, [_testing.make_fake(mode, x), _testing.make_fake(mode, w)], fw_compiler=lambda gm, _: gm
        )
    (result,) = compiled(x, w)
    assert torch.equal(result, torch.relu(x @ w))
    result.sum().backward()
    assert w.grad is not None
