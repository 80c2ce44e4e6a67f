"""The cache, the fallback, and the parts of an answer other than metadata."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from stator import _testing
from tests.support.processes import fresh
from tests.support.torch_settings import default_dtype

X = torch.randn(8, 4)


@pytest.fixture(autouse=True)
def empty_cache() -> None:
    _testing.shape_forget()


def counted(target: Any, args: tuple, kwargs: dict | None = None) -> dict[str, int]:
    """How the question was answered."""
    before = _testing.shape_counts()
    _testing.shape_infer(target, args, kwargs or {})
    after = _testing.shape_counts()
    return {key: after[key] - before[key] for key in after if after[key] != before[key]}


def text(target: Any, args: tuple, kwargs: dict | None = None, way: str = "any") -> str:
    return _testing.shape_infer(target, args, kwargs or {}, way)["text"]


def test_a_question_is_answered_once() -> None:
    assert counted(torch.add, (X, X)) == {"rules": 1}
    assert counted(torch.add, (X, X)) == {"hits": 1}
    # The same metadata, not the same tensor.
    assert counted(torch.erfinv, (X,)) == {"rules": 1}
    assert counted(torch.erfinv, (torch.randn(8, 4),)) == {"hits": 1}
    assert counted(torch.linalg.svdvals, (X,)) == {"fallbacks": 1}
    assert counted(torch.linalg.svdvals, (torch.randn(8, 4),)) == {"hits": 1}


@pytest.mark.parametrize(
    "other",
    [
        ((X, 1.0), {}),
        ((X, True), {}),
        ((X, 2), {}),
        ((X, 1), {"alpha": 1}),
        ((X.double(), 1), {}),
        ((torch.randn(4, 8).t(), 1), {}),
        ((torch.randn(8, 4, requires_grad=True), 1), {}),
        ((torch.nn.Parameter(X.clone()), 1), {}),
        ((torch.randn(10, 4)[2:], 1), {}),
    ],
)
def test_what_differs_is_another_question(other: tuple) -> None:
    counted(torch.add, (X, 1))
    assert "hits" not in counted(torch.add, *other)
    assert counted(torch.add, (X, 1)) == {"hits": 1}


def test_constants_differ_by_type_and_value() -> None:
    assert "hits" not in counted("view", (X, (4, 8)))
    assert "hits" not in counted("view", (X, [4, 8]))
    assert "hits" not in counted("view", (X, torch.Size((4, 8))))
    assert counted("view", (X, (4, 8))) == {"hits": 1}


def test_one_tensor_twice_is_not_two_tensors() -> None:
    y = torch.randn(8, 4)
    assert "hits" not in counted("add_", (y, y))
    assert "hits" not in counted("add_", (y, X))
    assert counted("add_", (X, X)) == {"hits": 1}


def test_state_is_part_of_the_question() -> None:
    grad = torch.randn(8, 4, requires_grad=True)
    assert text(torch.mul, (grad, grad)) == "f32[8, 4] grad_fn"
    with torch.no_grad():
        assert text(torch.mul, (grad, grad)) == "f32[8, 4]"
    with torch.inference_mode():
        assert text(torch.mul, (grad, grad)) == "f32[8, 4] inference"
    with torch.autocast("cpu", torch.bfloat16):
        assert text(F.linear, (X, torch.randn(3, 4))) == "bf16[8, 3]"
    assert text(F.linear, (X, torch.randn(3, 4))) == "f32[8, 3]"
    assert text(torch.zeros, (2,)) == "f32[2]"
    with default_dtype(torch.float64):
        assert text(torch.zeros, (2,)) == "f64[2]"


def test_how_attention_may_be_computed_is_part_of_the_question() -> None:
    heads = torch.randn(2, 5, 3, 4).transpose(1, 2)
    attention = F.scaled_dot_product_attention
    assert text(attention, (heads, heads, heads)) == "f32[2, 3, 5, 4] strides [60, 4, 12, 1], random"
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for way in ("any", "rule", "fallback"):
            assert text(attention, (heads, heads, heads), {}, way) == "f32[2, 3, 5, 4]"


def test_simulated_modes() -> None:
    grad = torch.randn(8, 4, requires_grad=True)
    assert _testing.with_modes(lambda: text(torch.mul, (grad, grad)), False, False) == "f32[8, 4]"
    assert _testing.with_modes(lambda: text(torch.mul, (grad, grad)), False, True) == "f32[8, 4] inference"
    with torch.no_grad():
        assert _testing.with_modes(lambda: text(torch.mul, (grad, grad)), True, False) == "f32[8, 4] grad_fn"
        assert not torch.is_grad_enabled()
    cast = _testing.with_modes(lambda: text(F.linear, (X, torch.randn(3, 4))), True, False, torch.bfloat16)
    assert cast == "bf16[8, 3]"
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()


def test_what_an_answer_says() -> None:
    y = torch.randn(4)
    grad = torch.randn(4, requires_grad=True)
    assert text("add_", (y, grad)) == "argument 0: f32[4] grad_fn, writes 0, 0 becomes f32[4] grad_fn"
    assert text("requires_grad_", (y,)) == "argument 0: f32[4] requires_grad, 0 becomes f32[4] requires_grad"
    assert text("t", (X,)) == "view of 0: f32[4, 8] strides [1, 4]"
    assert text(torch.split, (X, 4)) == "view of 0: (f32[4, 4], f32[4, 4] offset 16)"
    assert text("resize_", (y, (8,))) == "argument 0: f32[8], writes 0, 0 becomes f32[8]"
    assert text("t_", (X.clone(),)).startswith("argument 0: f32[4, 8]")
    assert text(torch.rand, (3,)) == "f32[3], random"
    assert text(torch.bernoulli, (X,)) == "f32[8, 4], random"
    assert text(torch.nn.init.normal_, (X.clone(),)).endswith("writes 0, random")
    assert text(torch.add, (X, X), {"out": torch.empty(8, 4)}) == "argument 1: f32[8, 4], writes 1"
    assert text("is_floating_point", (X,)) == "True"
    statistics = torch.zeros(4), torch.ones(4)
    for way in ("rule", "fallback"):
        assert text(F.batch_norm, (X, *statistics, None, None, True), {}, way) == "f32[8, 4], writes 1, writes 2"
        assert text(F.batch_norm, (X, *statistics, None, None, False), {}, way) == "f32[8, 4]"


@pytest.mark.parametrize("way", ["rule", "fallback"])
def test_whose_view_a_result_is(way: str) -> None:
    y = torch.randn(3)
    assert text("view", (X, 32), {}, way) == "view of 0: f32[32]"
    assert text(torch.meshgrid, (y, X[0]), {"indexing": "ij"}, way) == (
        "views of 0, 1: (f32[3, 4] strides [1, 0], f32[3, 4] strides [0, 1])"
    )
    assert text(torch.meshgrid, (y, y), {"indexing": "ij"}, way).startswith("view of 0: (")
    assert text("contiguous", (X,), {}, way) == "argument 0: f32[8, 4]"
    assert text(torch.einsum, ("ij->ji", X), {}, way) == "view of 0: f32[4, 8] strides [1, 4]"


def test_parts_of_a_result_may_be_arguments() -> None:
    y = torch.randn(3)
    answer = _testing.shape_infer(torch.atleast_2d, (X, y), {})
    assert answer["views_of"] == [-1, 1] and answer["view_of"] == -1
    assert [part[2] for part in answer["result"][1]] == [0, -1]
    assert answer["text"].startswith("views of none, 1: ")


@pytest.mark.parametrize("way", ["rule", "fallback"])
def test_what_metadata_holds(way: str) -> None:
    """Everything that an answer says of a tensor, besides what its text shows."""
    base = torch.randn(10, 4, requires_grad=True)
    meta = _testing.shape_infer(operator.getitem, (base, (slice(2, None), 1)), {}, way)["result"][1]
    assert meta == {
        "size": (8,), "stride": (4,), "storage_offset": 9, "dtype": torch.float32, "device": torch.device("cpu"),
        "layout": torch.strided, "requires_grad": True, "is_leaf": False, "traits": 0, "wrapped_number": False,
        "class": torch.Tensor,
    }  # fmt: skip
    assert _testing.tensor_meta(base[2:, 1]) == meta
    # Also for a view of a view, and for a tensor with a storage offset.
    for target, args in [
        ("narrow", (base[3:], 0, 1, 2)),
        ("select", (base[3:], 1, 2)),
        ("diagonal", (base[3:], 1)),
        ("unfold", (base[1:], 0, 3, 2)),
        ("as_strided", (base[1:], (2, 2), (4, 1), 7)),
        ("detach", (base[5:],)),
        (torch.split, (base[1:], [4, 5])),
        ("clone", (base[5:],)),
    ]:
        answer = _testing.shape_infer(target, args, {}, way)["result"]
        real = getattr(args[0], target)(*args[1:]) if isinstance(target, str) else target(*args)
        parts = list(zip(answer[1], real)) if answer[0] == "tuple" else [(answer, real)]
        assert [part[1] for part, _ in parts] == [_testing.tensor_meta(tensor) for _, tensor in parts], target


@pytest.mark.parametrize("way", ["rule", "fallback"])
def test_numbers_are_weak_in_promotion(way: str) -> None:
    half, small = torch.ones(2, dtype=torch.float16), torch.ones(2, dtype=torch.int8)
    scalar = torch.tensor(1.0, dtype=torch.float64)
    for target in (operator.add, torch.add, "add"):
        assert text(target, (half, 2.5), {}, way) == "f16[2]"
        assert text(target, (small, 300), {}, way) == "i8[2]"
        assert text(target, (small, 2.5), {}, way) == "f32[2]"
        # In type promotion, a 0-d tensor is weaker than one with dimensions, and stronger than a number.
        assert text(target, (half, scalar), {}, way) == "f16[2]"
        assert text(target, (small, scalar), {}, way) == "f64[2]"
        assert text(target, (scalar, 2.5), {}, way) == "f64[]"
        assert text(target, (torch.tensor(1, dtype=torch.int8), 300), {}, way) == "i8[]"
        assert text(target, (torch.tensor(True), 1), {}, way) == "i64[]"


def test_subclasses() -> None:
    """A parameter is a tensor to operations, and stays one where the operation gives it back."""
    parameter = torch.nn.Parameter(torch.randn(8, 4))
    for way in ("rule", "fallback"):
        assert _testing.shape_infer("t", (parameter,), {}, way)["result"][1]["class"] is torch.Tensor
        assert _testing.shape_infer("contiguous", (parameter,), {}, way)["result"][1]["class"] is torch.nn.Parameter
        assert _testing.shape_infer("detach", (parameter,), {}, way)["result"][1]["class"] is torch.Tensor

    class Odd(torch.Tensor):
        pass

    assert _testing.shape_infer(torch.add, (X.as_subclass(Odd), 1), {}, "rule") is None


def test_other_layouts_are_not_answered_by_rules() -> None:
    sparse = torch.eye(3).to_sparse()
    for target, args in [(torch.add, (sparse, sparse)), ("t", (sparse,)), (torch.mm, (sparse, torch.eye(3)))]:
        assert _testing.shape_infer(target, args, {}, "rule") is None
        assert _testing.shape_infer(target, args, {})["status"] == "unsupported"


def test_contents_can_not_be_known() -> None:
    for target, args in [
        ("item", (X[0, 0],)),
        (torch.nonzero, (X,)),
        (operator.getitem, (X, X > 0)),
        (torch.unique, (X,)),
    ]:
        answer = _testing.shape_infer(target, args, {})
        assert answer["status"] == "data-dependent", answer
        assert answer["reason"]


def test_the_unknown_is_unsupported() -> None:
    class Odd(torch.Tensor):
        pass

    answer = _testing.shape_infer(torch.add, (X.as_subclass(Odd), 1), {})
    assert answer["status"] == "unsupported" and "subclass" in answer["reason"]
    sparse = _testing.shape_infer("to_sparse", (X,), {})
    assert sparse["status"] == "unsupported"


def test_pytorch_raises_its_own_error() -> None:
    with pytest.raises(RuntimeError, match="broadcast"):
        _testing.shape_infer(torch.add, (X, torch.randn(3)), {})
    with pytest.raises(IndexError):
        _testing.shape_infer(torch.sum, (X, 7), {})
    with pytest.raises(TypeError):
        _testing.shape_infer(torch.add, (X, "one"), {})
    with pytest.raises(RuntimeError, match="leaf Variable"):
        _testing.shape_infer("add_", (torch.randn(3, requires_grad=True), 1), {})


def test_nothing_is_touched() -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    x = torch.arange(6.0)
    _testing.shape_infer(torch.rand, (3,), {}, "fallback")
    _testing.shape_infer("add_", (x, 1), {}, "fallback")
    _testing.shape_infer(torch.manual_seed, (7,), {}, "fallback")
    _testing.shape_infer(F.dropout, (x,), {}, "fallback")
    assert torch.equal(torch.get_rng_state(), state)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert x._version == 0


def test_answers_outlive_a_full_cache() -> None:
    """More questions than the cache holds: it starts over, and answers stay correct."""
    x = torch.randn(1, 50000)
    for i in range(1, 34000):
        if i % 1000 == 0:
            assert text("narrow", (x, 1, i, 3)) == f"view of 0: f32[1, 3] offset {i}"
        else:
            _testing.shape_infer("narrow", (x, 1, i, 3), {})


def test_rules_need_no_fake_mode() -> None:
    """Making a FakeTensorMode imports torch._dynamo; a question that a rule answers must not."""
    program = (
        "import sys, torch\n"
        "from stator import _testing\n"
        "x = torch.randn(3, 4)\n"
        "_testing.shape_infer(torch.add, (x, 1), {})\n"
        "_testing.tensor_check(x); _testing.global_state()\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    fresh(program)
