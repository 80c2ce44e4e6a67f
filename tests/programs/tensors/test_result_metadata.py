"""Programs that read the memory layout of a result, write through it, or get a warning from the operation that created
it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.support.harness import same


def image(*sizes: int) -> torch.Tensor:
    return torch.rand(sizes).contiguous(memory_format=torch.channels_last)


def asked(result: torch.Tensor) -> tuple:
    formats = [torch.contiguous_format] + [torch.channels_last] * (result.dim() == 4)
    return (
        result.stride(),
        result.storage_offset(),
        result.dtype,
        [result.is_contiguous(memory_format=one) for one in formats],
    )


RESULTS = {
    "channel_shuffle": (lambda x: F.channel_shuffle(x, 3), lambda: image(2, 6, 4, 4)),
    "max_unpool2d": (lambda x: F.max_unpool2d(x, torch.zeros_like(x).long(), 2), lambda: image(1, 2, 2, 2)),
    "native_batch_norm": (
        lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0],
        lambda: torch.rand(4, 3, 5).transpose(0, 2),
    ),
    "ldexp": (lambda x: torch.ldexp(x[:, None], x), lambda: torch.rand(5, 10).T),
    "angle": (torch.angle, lambda: torch.rand(4, 3, dtype=torch.complex64).T),
    "pad": (lambda x: F.pad(x, (1, 1, 1, 1, 1, 1), mode="reflect"), lambda: image(2, 3, 4, 5)),
    "pool": (lambda x: F.avg_pool1d(x, 2), lambda: torch.rand(2, 8, 4).mT),
    "normal": (lambda x: torch.normal(x, x), lambda: torch.rand(3, 4).T),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_program_asks_for_strides(name: str) -> None:
    function, make = RESULTS[name]

    def f(x: torch.Tensor) -> tuple:
        result = function(x)
        try:
            flat = result.view(-1).shape
        except RuntimeError:
            flat = None
        return result, asked(result), flat

    torch.manual_seed(0)
    x = make()
    compiled = stator.compile(f, backend="eager")
    torch.manual_seed(1)
    expected = f(x)
    for _ in range(2):
        torch.manual_seed(1)
        actual = compiled(x)
        assert actual[1:] == expected[1:]
        assert asked(actual[0]) == expected[1]
        assert torch.equal(actual[0], expected[0])
    stator.reset()


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "reshape": lambda x: x.reshape(-1),
    "contiguous": lambda x: x.contiguous(),
    "to": lambda x: x.to(x.dtype),
    "type_as": lambda x: x.type_as(torch.zeros(1, dtype=x.dtype)),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "expand_as": lambda x: x.expand_as(x),
    "unflatten": lambda x: x.unflatten(0, (1, -1)),
    "chunk": lambda x: x.chunk(2, -1)[-1],
    "tensor_split": lambda x: torch.tensor_split(x, 2)[0],
    "narrow": lambda x: x.narrow(0, 0, 1),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag if x.is_complex() else x,
    "view_as_real": lambda x: torch.view_as_real(x) if x.is_complex() else x,
    "conj": lambda x: x.conj(),
    "resolve_conj": lambda x: x.conj().resolve_conj(),
    "mT": lambda x: x.mT,
    "mH": lambda x: x.mH,
    "adjoint": lambda x: x.adjoint(),
    "squeeze": lambda x: x.squeeze(),
    "squeeze two": lambda x: x.squeeze((0, -1)),
    "atleast_1d": torch.atleast_1d,
    "atleast_3d": torch.atleast_3d,
    "broadcast_to": lambda x: torch.broadcast_to(x, x.shape),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, torch.ones(1))[0],
    "meshgrid": lambda x: torch.meshgrid(x.reshape(-1), torch.arange(2), indexing="ij")[0],
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(0, 1, 1),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "index": lambda x: x[[0]],
    "slice": lambda x: x[:],
    "einsum": lambda x: torch.einsum("...->...", x),
    "dropout": lambda x: F.dropout(x.real, 0.5, False),
    "cat": lambda x: torch.cat([x]),
    "sum over nothing": lambda x: x.sum(dim=()),
}


def sources() -> Iterator[torch.Tensor]:
    for dtype in (torch.float32, torch.complex64):
        for sizes in ((3, 4), (1, 4), (4, 1), (2, 3, 4), (0, 3)):
            yield torch.ones(sizes, dtype=dtype)
            yield torch.ones(sizes, dtype=dtype).transpose(0, -1).contiguous().transpose(0, -1)
            yield torch.ones((*sizes, 2), dtype=dtype)[..., 1]


def shares_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.untyped_storage()._cdata == other.untyped_storage()._cdata


@pytest.mark.parametrize("name", VIEWS)
def test_writing_through_a_result(name: str) -> None:
    def f(x: torch.Tensor) -> tuple:
        result = VIEWS[name](x)
        lies = result.stride(), result.storage_offset(), result.dtype, result.is_conj(), result is x
        with contextlib.suppress(RuntimeError):  # elements that share memory
            result.mul_(3)
        return result, lies, x.sum(), x + 1

    for x in sources():
        compiled = stator.compile(f, backend="eager")
        for _ in range(2):
            given = [x.detach().clone(memory_format=torch.preserve_format) for _ in range(2)]
            try:
                expected = f(given[0])
            except (IndexError, RuntimeError) as error:  # of an empty tensor
                with pytest.raises(type(error)):
                    compiled(given[1])
                continue
            actual = compiled(given[1])
            assert actual[1] == expected[1]
            for one, other in zip([actual[0], *actual[2:], given[1]], [expected[0], *expected[2:], given[0]]):
                assert torch.equal(one, other)
                assert one.stride() == other.stride()
            assert shares_memory(actual[0], given[1]) == shares_memory(expected[0], given[0])
        stator.reset()


WARNING = {
    "out= of another size": lambda x: torch.add(x, 1, out=torch.empty(2)),
    "two of them": lambda x: torch.linalg.qr(x, out=(torch.empty(1), torch.empty(2))),
    "a target that is broadcast": lambda x: F.mse_loss(x, x[0]),
    "an implicit dimension": lambda x: F.softmax(x),
    "a dimension too few": lambda x: F.dropout2d(x, 0.5, False),
    "once": torch.qr,
}


@pytest.mark.parametrize("name", WARNING)
def test_warnings_are_those_of_the_program(name: str) -> None:
    """Shape inference, which runs the operation too, neither adds warnings nor suppresses them."""

    def run(function: Callable) -> list[list[str]]:
        calls = []
        for _ in range(2):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                function(torch.eye(3))
            calls.append([str(one.message) for one in seen])
        return calls

    torch.set_warn_always(name == "once")
    try:
        compiled = stator.compile(lambda x: WARNING[name](x), backend="eager")
        assert run(compiled) == run(WARNING[name])
    finally:
        torch.set_warn_always(False)
        stator.reset()


def test_a_warning_that_python_gives_once_for_a_line() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(x, x[0])

    compiled = stator.compile(f, backend="eager")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            compiled(torch.eye(3))
            warnings.warn("ours", stacklevel=1)
    assert [str(one.message).split()[0] for one in seen] == ["Using", "ours"]
    stator.reset()


@pytest.mark.parametrize("weights", [False, True])
def test_a_result_that_the_kernel_leaves_out(weights: bool) -> None:
    """Attention without weights gives None for them, where FakeTensor has an empty tensor."""
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.randn(1, 4, 8)
    with torch.no_grad():
        expected = attention(x, x, x, need_weights=weights)
        compiled = stator.compile(attention, fullgraph=True)
        for _ in range(2):
            actual = compiled(x, x, x, need_weights=weights)
            assert torch.equal(actual[0], expected[0])
            assert actual[1] is None if expected[1] is None else torch.equal(actual[1], expected[1])


# ---- Operations whose results are their arguments, or views of several of them -------------------------------------
def grids(x, y):
    rows, columns = torch.meshgrid(x, y, indexing="ij")
    x.add_(1)
    return rows, columns, rows + columns


def written_through_one_view(x, y):
    a, b = torch.broadcast_tensors(x, y)
    b.mul_(2)
    return a + b, x, y, a is x, b is y


def at_least(x, y):
    a, b = torch.atleast_2d(x, y)
    b.add_(1)
    return a is x, b is y, a, b, y


def given_for_results(x, values, places):
    result = torch.max(x, 0, out=(values, places))
    return result.values is values, result.indices is places, result, values + 1


def summed_into_a_view(x, y):
    a, b = torch.broadcast_tensors(x * 1, y)
    a.add_(b)
    return a, y


MATRIX = lambda: torch.arange(6.0).reshape(2, 3)  # noqa: E731
VECTOR = lambda: torch.arange(3.0)  # noqa: E731


@pytest.mark.parametrize(
    "program, arguments",
    [
        (grids, (VECTOR, lambda: torch.arange(4.0))),
        (written_through_one_view, (MATRIX, MATRIX)),
        (at_least, (MATRIX, VECTOR)),
        (given_for_results, (MATRIX, lambda: torch.empty(3), lambda: torch.empty(3, dtype=torch.int64))),
        (summed_into_a_view, (MATRIX, lambda: torch.ones(1, 3, requires_grad=True))),
    ],
)
def test_as_uncompiled(program, arguments):
    same(program, *arguments, fullgraph=False, compare_dynamo=False, graphs=None)
