"""Operations that the engine has no rule for: FakeTensor answers with symbols, so that one capture serves all sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.support import engine

Program = Callable[..., Any]


def define() -> dict[str, Any]:
    """Custom operations, with implementations for FakeTensor that compute with sizes and branch on them."""

    @torch.library.custom_op("stator_dynamic::joined", mutates_args=())
    def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y])

    @joined.register_fake
    def _(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.new_empty(x.shape[0] + y.shape[0], *x.shape[1:])

    @torch.library.custom_op("stator_dynamic::halves", mutates_args=())
    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        middle = x.shape[0] // 2
        return x[:middle].clone(), x[middle:].clone()

    @halves.register_fake
    def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        middle = x.shape[0] // 2
        return x.new_empty(middle, *x.shape[1:]), x.new_empty(x.shape[0] - middle, *x.shape[1:])

    @torch.library.custom_op("stator_dynamic::even_part", mutates_args=())
    def even_part(x: torch.Tensor) -> torch.Tensor:
        return x.clone() if x.shape[0] % 2 == 0 else x[:-1].clone()

    @even_part.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x) if x.shape[0] % 2 == 0 else x.new_empty(x.shape[0] - 1, *x.shape[1:])

    @torch.library.custom_op("stator_dynamic::turned", mutates_args=())
    def turned(x: torch.Tensor) -> torch.Tensor:
        return x.t().contiguous().t()

    @turned.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_strided((x.shape[0], x.shape[1]), (1, x.shape[0]), dtype=x.dtype)

    @torch.library.custom_op("stator_dynamic::counted_up", mutates_args=("x",))
    def counted_up(x: torch.Tensor, by: int) -> None:
        x.add_(by)

    @counted_up.register_fake
    def _(x: torch.Tensor, by: int) -> None:
        return None

    @torch.library.custom_op("stator_dynamic::first", mutates_args=())
    def first(x: torch.Tensor, count: int) -> torch.Tensor:
        return x[:count].clone()

    @first.register_fake
    def _(x: torch.Tensor, count: int) -> torch.Tensor:
        torch._check(count <= x.shape[0])
        return x.new_empty(count, *x.shape[1:])

    @torch.library.custom_op("stator_dynamic::of_eight", mutates_args=())
    def of_eight(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @of_eight.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return x.new_empty(int(x.shape[0]), *x.shape[1:])

    return locals()


OPERATIONS = define()


def call(name: str) -> Program:
    return OPERATIONS[name]


def joined(x: torch.Tensor) -> Any:
    z = call("joined")(x, x[1:])
    return z.sum(0), z.shape[0], z.stride()


def halves(x: torch.Tensor) -> Any:
    first, second = call("halves")(x)
    return first.sum(0) + second.sum(0), first.shape, second.shape


def even_part(x: torch.Tensor) -> Any:
    return call("even_part")(x) * 2


def turned(x: torch.Tensor) -> Any:
    y = call("turned")(x)
    return y.stride(), y.is_contiguous(), y.reshape(-1)


def counted_up(x: torch.Tensor) -> Any:
    y = x.clone()
    call("counted_up")(y, x.shape[0])
    return y, x.sum()


def first(x: torch.Tensor) -> Any:
    return call("first")(x, x.shape[0] - 1) + 1


def of_eight(x: torch.Tensor) -> Any:
    return call("of_eight")(x) + x.shape[0]


def in_layers(x: torch.Tensor) -> Any:
    for _ in range(3):
        x = call("joined")(x, x)
    return x.mean(0)


# With the number of captures for these lengths, with symbols from the first call.
PROGRAMS: dict[str, tuple[Program, tuple[int, ...], int]] = {
    "sum of sizes": (joined, (4, 7, 12, 5), 1),
    "quotients": (halves, (4, 7, 12, 5), 1),
    "a branch on a size": (even_part, (4, 8, 7, 12, 5), 2),
    "strides": (turned, (4, 7, 12, 5), 1),
    "writes, takes a size": (counted_up, (4, 7, 12, 5), 1),
    "takes a size, checks it": (first, (4, 7, 12, 5), 1),
    "needs the number": (of_eight, (4, 7, 4, 7), 2),
    "again and again": (in_layers, (4, 7, 12, 5), 1),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_as_uncompiled(name: str, backend: str) -> None:
    program, lengths, captures = PROGRAMS[name]
    compiled = stator.compile(program, backend=backend, dynamic=True, fullgraph=True)
    before = engine.captures()
    for length in itertools.chain(lengths, lengths):
        x = torch.randn(length, 3)
        y = x.clone()
        torch.testing.assert_close(compiled(y), program(x), rtol=0, atol=0)
        torch.testing.assert_close(y, x, rtol=0, atol=0)
    assert engine.captures() - before == captures


def test_the_second_size_makes_a_symbol() -> None:
    compiled = stator.compile(joined)
    before = engine.captures()
    for length in (4, 7, 12, 5, 9):
        x = torch.randn(length, 3)
        torch.testing.assert_close(compiled(x), joined(x))
    assert engine.captures() - before == 2


def test_sizes_that_the_operation_rejects() -> None:
    """PyTorch's error at the call that has such sizes."""

    def program(x: torch.Tensor, count: int) -> torch.Tensor:
        return call("first")(x, count) + 1

    compiled = stator.compile(program, dynamic=True)
    for length, count in ((6, 3), (9, 4), (3, 3), (5, 2)):
        x = torch.randn(length, 2)
        torch.testing.assert_close(compiled(x, count), program(x, count))
    x = torch.randn(3, 2)
    torch.testing.assert_close(compiled(x, 5), program(x, 5))  # the operation itself takes it


def test_gradients() -> None:
    """Of an operation of PyTorch without a rule of the engine."""

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.householder_product(x, x[0]).sum() * x.shape[0]

    compiled = stator.compile(program, dynamic=True, fullgraph=True)
    before = engine.captures()
    for length in (5, 7, 6):
        mine = torch.randn(length, 3, requires_grad=True)
        expected = mine.detach().clone().requires_grad_()
        compiled(mine).backward()
        program(expected).backward()
        torch.testing.assert_close(mine.grad, expected.grad)
    assert engine.captures() - before == 1
