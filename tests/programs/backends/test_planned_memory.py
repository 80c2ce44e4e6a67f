"""`backend="stator"`: results that the program never sees are the same tensors in all calls."""

from __future__ import annotations

import gc
import os
import random
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from stator import _testing
from tests.programs.backends.test_prepared_calls import compiled

Tensor = torch.Tensor
CALLS = 6  # captured, observed, observed for a plan, and planned from the fourth one on

of_later_versions = pytest.mark.skipif(
    torch.torch_version.TorchVersion(torch.__version__) < (2, 13), reason="other operators are planned"
)


def look(value: Any) -> Any:
    """All of a result that a program could notice."""
    if not isinstance(value, Tensor):
        return [look(item) for item in value] if isinstance(value, (tuple, list)) else value
    data = value.detach().resolve_conj().contiguous()
    raw = data.view(torch.uint8) if data.numel() and data.dim() else data.reshape(-1).view(torch.uint8)
    facts = (value.dtype, value.shape, value.stride(), value.storage_offset(), value.untyped_storage().nbytes())
    return (*facts, value._version, value._is_view(), value.requires_grad, raw.numpy().tobytes())


def same(
    program: Callable, make: Callable[[int], Any], calls: int = CALLS, planned: bool | None = True, **options: Any
) -> Any:
    """Results of all calls, each with other data, compared once more when all calls have ended."""
    runners: list[Any] = []
    entry = compiled(program, runners, **options)
    results, expected = [], []
    with torch.no_grad():
        for number in range(calls):
            given, also = make(number), make(number)
            torch.manual_seed(number)
            results.append(entry(*given))
            torch.manual_seed(number)
            expected.append(program(*also))
            assert look(results[-1]) == look(expected[-1])
            assert look(given) == look(also)
    assert look(results) == look(expected)
    if planned is not None:
        assert any(runner.planned[0] + runner.planned[1] for runner in runners) == planned
    return runners[0].planned


def data(*sizes: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    if not dtype.is_floating_point:
        return torch.randint(-4 if dtype.is_signed else 0, 5, sizes, generator=generator).to(dtype)
    values = torch.randn(sizes, generator=generator)
    special = torch.tensor([0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e-40, -1e-45, 3e38])
    flat = values.reshape(-1)
    places = torch.randint(0, flat.numel(), (min(4, flat.numel()),), generator=generator)
    flat[places] = special[torch.randint(0, len(special), places.shape, generator=generator)]
    return values.to(dtype)


FORMS: dict[str, Callable[[Tensor, Tensor], Any]] = {
    **{
        name: lambda x, y, name=name: getattr(torch, name)(x)
        for name in (
            "abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc exp exp2 expm1 floor frac log log10 log1p log2 "
            "reciprocal neg round rsqrt sigmoid sin sinc sinh sqrt tan tanh trunc sgn sign lgamma digamma erfinv relu "
            "triu tril clone square"
        ).split()
    },
    **{
        name: lambda x, y, name=name: getattr(F, name)(x)
        for name in (
            "gelu silu mish elu leaky_relu softplus hardsigmoid hardswish hardshrink softshrink relu6 glu logsigmoid"
        ).split()
    },
    **{
        name: lambda x, y, name=name: getattr(torch, name)(x, y)
        for name in (
            "add sub mul div maximum minimum fmax fmin atan2 hypot logaddexp pow eq ne gt ge lt le mm "
            "bitwise_and bitwise_or bitwise_xor"
        ).split()
    },
    "remainders": lambda x, y: x.remainder(y * 0 + 3) + x.fmod(y * 0 + 3) + x.remainder(3) + x.fmod(2),
    "numbers": lambda x, y: ((x + 1) * 0.1 - 3) / 7,
    "other numbers": lambda x, y: (1 - x) + 2 / (x + 1),
    "comparisons": lambda x, y: (x > 0.1) ^ (x <= 3) | (x == 1) & (x != 2) | (x < 0.5) ^ (x >= -1),
    "powers": lambda x, y: x**2 + x**0.5 + x**-1 + 2**x,
    "clamp": lambda x, y: x.clamp(-1, 1) + x.clamp_min(0) + x.clamp_max(0.5) + x.clamp(x, y),
    "products": lambda x, y: torch.addmm(x, x, y, alpha=2) + torch.baddbmm(x[None], x[None], y[None])[0] + x[None].bmm(y[None])[0],
    "addcmul": lambda x, y: torch.addcmul(x, x, y, value=0.5) + torch.addcdiv(x, x, y, value=0.5),
    "softmax": lambda x, y: F.softmax(x, -1) + F.log_softmax(y, 0),
    "reductions": lambda x, y: x.sum(0) + x.mean(1) + x.amax(0) + x.amin(1) + x.var(0) + y.std(1),
    "choices": lambda x, y: x.max(0)[0] + y.min(1)[0] + x.argmax(0) + x.argmin(1),
    "sums along": lambda x, y: x.cumsum(0) + y.cumprod(1),
    "cat": lambda x, y: torch.cat([x, y], 1) + torch.cat([y, x], 1),
    "where": lambda x, y: torch.where(x > 0, x, y * 0.1),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3) + torch.lerp(x, y, x),
    "gather": lambda x, y: x.gather(1, y.argsort(1)),
    "losses": lambda x, y: F.mse_loss(x, y, reduction="none") + F.smooth_l1_loss(x, y, reduction="none"),
    "dtypes": lambda x, y: x.double() + x.half() + x.to(torch.int32) + x.bool(),
    "pools": lambda x, y: F.avg_pool2d(x[None, None], 3),
    "linear": lambda x, y: F.linear(x, y, x[0]),
    "norm": lambda x, y: F.layer_norm(x, (6,)) + y,
}  # fmt: skip
LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "sliced": lambda x: torch.cat([x, x], 1)[:, ::2],
    "offset": lambda x: torch.cat([x.reshape(-1)[:1], x.reshape(-1)])[1:].view(x.shape),
    "expanded": lambda x: x[:1].expand(6, 6),
}
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FORMS)
def test_each_operator_computes_the_same_bits(name: str, dtype: torch.dtype) -> None:
    form = FORMS[name]

    def program(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        # Operands that die may give their place to the result.
        results = [form(x, y), form(x * 1, y), form(y * 1, x * 1)]
        return results[0].clone(), torch.stack(results)

    try:
        program(data(6, 6, dtype=dtype), data(6, 6, dtype=dtype))
    except RuntimeError:
        return
    for number, arrange in enumerate(LAYOUTS.values()):
        other = list(LAYOUTS.values())[(number * 2 + 1) % len(LAYOUTS)]

        def make(seed: int, arrange: Any = arrange, other: Any = other) -> Any:
            return arrange(data(6, 6, seed=seed, dtype=dtype)), other(data(6, 6, seed=100 + seed, dtype=dtype))

        same(program, make, planned=None)
        stator.reset()


UNARY: list[Callable[[Tensor], Tensor]] = [
    lambda x: x + 1,
    lambda x: x * 0.5,
    lambda x: 2 - x,
    torch.relu,
    torch.sigmoid,
    lambda x: x.t(),
    lambda x: x.t().reshape(8, 8),
    lambda x: x.contiguous().view(4, 16).permute(1, 0).reshape(8, 8),
    lambda x: F.softmax(x, -1),
    lambda x: F.layer_norm(x, (8,)),
    lambda x: x - x.mean(-1, keepdim=True),
    lambda x: x.double().mul(2).float(),
    lambda x: torch.cat(x.chunk(2, 1)[::-1], 1),
    lambda x: x[:, torch.tensor([7, 6, 5, 4, 3, 2, 1, 0])],
    lambda x: x.max(1, keepdim=True)[0] - x,
    lambda x: torch.where(x > 0, x, x * 0.1),
    lambda x: x.contiguous(),
    lambda x: x[None].expand(2, 8, 8)[1],
    lambda x: F.dropout(x, 0.5),
    lambda x: x.clone().mul_(2),
    lambda x: x.flatten()[torch.arange(64)].view(8, 8),
]
BINARY: list[Callable[[Tensor, Tensor], Tensor]] = [
    torch.add,
    torch.mul,
    torch.mm,
    torch.maximum,
    lambda x, y: torch.addmm(x[0], x, y.t()),
    lambda x, y: F.linear(x, y),
    lambda x, y: torch.cat([x[:4], y[4:]]),
    lambda x, y: (x > y).float() * x,
    lambda x, y: x.clone().copy_(y).add_(x),
    lambda x, y: torch.einsum("ij,kj->ik", x, y),
]


def random_program(seed: int) -> Callable[[Tensor, Tensor], Any]:
    """A graph of operators, of which some results are kept, written to, viewed, and returned."""
    choices = random.Random(seed)
    steps: list[tuple[Any, int, int]] = []
    for number in range(choices.randrange(5, 40)):
        # Mostly what was made last, so that the others die.
        first, second = (max(0, number + 1 - choices.choice([0, 0, 1, 1, 2, 3, 8])) for _ in range(2))
        steps.append((choices.choice(UNARY if choices.random() < 0.6 else BINARY), first, second))
    returned = sorted(choices.sample(range(len(steps) + 2), choices.randrange(1, 4)))
    writes = {choices.randrange(len(steps)) for _ in range(choices.randrange(3))}

    def program(x: Tensor, y: Tensor) -> Any:
        values = [x, y]
        for number, (step, first, second) in enumerate(steps):
            made = step(values[first]) if step in UNARY else step(values[first], values[second])
            if number in writes:
                made = made * 1
                made.add_(1)
            values.append(made)
        return [values[number] for number in returned]

    return program


@pytest.mark.parametrize("seed", range(60))
def test_random_graphs(seed: int) -> None:
    program = random_program(seed)

    def make(number: int) -> tuple[Tensor, Tensor]:
        return data(8, 8, seed=number), data(8, 8, seed=50 + number)

    same(program, make, planned=None)


@of_later_versions
def test_what_is_planned() -> None:
    layer = nn.Linear(8, 8)
    assert same(lambda x: F.softmax(layer(x) * 2, -1).t() + 1, lambda n: (data(8, 8, seed=n),))[0] == 3

    def escaping(x: Tensor) -> Any:
        y, z, kept = x * 2, x + 1, {}
        kept["y"] = y.t()
        return kept["y"], z.view(-1)[1:], torch.max(x, 1)[1]

    same(escaping, lambda n: (data(8, 8, seed=n),), planned=False)


def test_results_are_fresh() -> None:
    entry = compiled(lambda x: ((x + 1).relu() * 2, (x - 1).sigmoid().t()))
    with torch.no_grad():
        results = [entry(data(8, 8)) for _ in range(6)]
        assert len({result.data_ptr() for pair in results for result in pair}) == 12
        results[5][0].zero_(), results[4][1].zero_()
        assert results[3][0].nan_to_num().abs().sum() > 0 and results[3][1].nan_to_num().sum() > 0


def test_writes_to_intermediate_tensors() -> None:
    def program(x: Tensor) -> Any:
        y = x * 2
        z = y.view(-1)
        z.add_(1)
        w = (x + 3).relu_()
        w[0] = y[1]
        v = y.sin()
        return w * y.cos(), v

    assert same(program, lambda n: (data(8, 8, seed=n),))[0] == 1


def test_a_plan_belongs_to_one_run_at_a_time() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.LayerNorm(64)) for _ in range(6)))
    entry = compiled(model)
    failures: list[Any] = []
    with torch.no_grad():
        given = [data(32, 64, seed=number).nan_to_num(0, 1, -1) for number in range(4)]
        expected = [look(model(one)) for one in given]
        for _ in range(5):
            entry(given[0])

    def work(number: int) -> None:
        with torch.no_grad():
            for _ in range(150):
                if look(entry(given[number])) != expected[number]:
                    failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_the_same_entry_inside_of_itself() -> None:
    """Giving a warning runs code of the program in the middle of a row."""

    def program(x: Tensor) -> Tensor:
        y = x * 2
        z = y[:1].var(0)
        return (y + 1).relu() + z.nan_to_num()

    entry = compiled(program)
    inside: list[Tensor] = []

    def show(*_: Any, **__: Any) -> None:
        if len(inside) < 20:
            x = data(8, 8, seed=len(inside) + 9)
            inside.append(x)
            assert look(entry(x)) == look(expected(x))

    def expected(x: Tensor) -> Tensor:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return program(x)

    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        for number in range(6):
            x = data(8, 8, seed=number)
            assert look(entry(x)) == look(expected(x))
    assert len(inside) == 20


@pytest.mark.parametrize("at", range(6))
def test_an_exception_in_the_middle(at: int) -> None:
    """What the program has then stays as it is in later calls."""

    def program(x: Tensor, index: Tensor, given: Tensor) -> Any:
        y = x * 2
        view, other, last = y.t(), given.t(), y + 1
        parts = last.chunk(2)
        try:
            taken = last.take(index)
        except IndexError:
            return y, view, other, last, parts
        return (taken + y.sum() + view.sum() + other.sum() + parts[0].sum()) * 2

    entry = stator.compile(program, backend="stator")
    results, expected = [], []
    with torch.no_grad():
        for number in range(12):
            arguments = data(8, 8, seed=number), torch.tensor([99 if number % 6 == at else 3]), data(4, 8, seed=number)
            results.append(entry(*arguments))
            expected.append(program(*arguments))
            assert look(results[-1]) == look(expected[-1])
        y, view, other, last, parts = results[at]
        assert view._base is y and other._base is not None and parts[0]._base is last
        for tensor in (view, parts[0]):
            tensor.add_(1)
        expected[at][1].add_(1), expected[at][4][0].add_(1)
    assert look(results) == look(expected)


def test_operators_that_the_program_has_replaced() -> None:
    """They may keep what they are called with, before a plan is made and later."""
    kept: list[Tensor] = []
    copies: list[Tensor] = []

    def sin(x: Tensor) -> Tensor:
        kept.append(x)
        copies.append(x.clone())
        return x.new_empty(x.shape).copy_(torch.from_numpy(x.numpy().copy() * 2))

    def program(x: Tensor) -> Tensor:
        return (x * 2).sin().relu() * 3 + (x + 1).relu().cos()

    for calls_before in (0, 1, 3, 4):
        entry = compiled(program)
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for number in range(calls_before):
                entry(data(8, 8, seed=number))
            with torch.library._scoped_library("aten", "IMPL") as library:
                library.impl("sin", sin, "CPU", allow_override=True)
                for number in range(5):
                    x = data(8, 8, seed=number)
                    assert look(entry(x)) == look(program(x))
            assert look(entry(x)) == look(program(x))
    assert kept and look(kept) == look(copies)


@of_later_versions
def test_views_follow_their_bases() -> None:
    layer = nn.Linear(8, 8)
    runners: list[Any] = []
    entry = compiled(lambda x: layer(x.view(2, 4, 8).transpose(0, 1)).relu() @ layer.weight.t(), runners)

    def check(rounds: int = 3) -> None:
        for number in range(rounds):
            x = data(8, 8, seed=number)
            expected = F.linear(x.view(2, 4, 8).transpose(0, 1), layer.weight, layer.bias).relu() @ layer.weight.t()
            assert look(entry(x)) == look(expected)

    with torch.no_grad():
        check()
        assert runners[0].planned[1] >= 3
        layer.weight.data = data(8, 8, seed=5)
        check()
        layer.weight.set_(data(8, 8, seed=6).t())
        check()
        layer.weight.set_(data(80, seed=7).untyped_storage(), 3, (8, 8), (8, 1))
        check()
        layer.weight.mul_(2)
        check()
        layer.weight = nn.Parameter(data(8, 8, seed=8))
        check()


def test_views_keep_no_memory() -> None:
    entry = compiled(lambda x: (x.t() + 1).relu() * 2)
    with torch.no_grad():
        for _ in range(4):
            x = torch.ones(1 << 10, 4)
            entry(x)
            storage = x.untyped_storage()
            uses = storage._use_count() if hasattr(storage, "_use_count") else None
            fresh = torch.ones(1 << 10, 4).untyped_storage()
            assert uses is None or uses == fresh._use_count() + 1


def test_the_base_of_a_result_is_that_of_the_program() -> None:
    def program(x: Tensor) -> Any:
        y = x.t()
        return y[1:], y.sum() + 1, y.relu() * 2

    entry = compiled(program)
    with torch.no_grad():
        for number in range(CALLS):
            x = data(8, 8, seed=number)
            result = entry(x)
            assert result[0]._base is x
            assert look(result) == look(program(x))


def test_sizes_that_depend_on_data() -> None:
    def program(x: Tensor) -> Tensor:
        found = x[x > 0]
        return ((found + 1) * 2).relu() + found.view(-1).sum()

    entry = stator.compile(program, backend="stator")
    with torch.no_grad():
        for number in range(8):
            x = torch.randn(4 + number // 4, 4, generator=torch.Generator().manual_seed(number))
            assert look(entry(x)) == look(program(x))


@pytest.mark.filterwarnings("ignore:Stator has captured")
def test_modes_around_the_call() -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        return (torch.mm(x, w) * 2).sigmoid().sum(0) + 1

    entry = stator.compile(program, backend="stator")
    x, w = data(8, 8).nan_to_num(0, 1, -1), data(8, 8, seed=1).nan_to_num(0, 1, -1).requires_grad_()
    before = torch.get_num_threads()
    try:
        for number in range(24):
            for mode in (torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu"), torch.enable_grad):
                with mode():
                    torch.set_num_threads(1 + number % 2)
                    torch.set_flush_denormal(number % 3 == 0)
                    if number % 5 == 4:
                        torch.use_deterministic_algorithms(number % 2 == 0)
                    result, expected = entry(x, w), program(x, w)
                    assert result.is_inference() == expected.is_inference()
                    if not result.is_inference():
                        assert look(result) == look(expected)
                    assert torch.equal(result, expected)
    finally:
        torch.set_flush_denormal(False)
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)


def test_a_profiler_sees_all_calls() -> None:
    entry = compiled(lambda x: ((x + 1).relu() * 2).t().contiguous())
    with torch.no_grad():
        for _ in range(4):
            entry(data(8, 8))
        with torch.profiler.profile() as profile:
            entry(data(8, 8))
    assert {"aten::add", "aten::relu", "aten::mul"} <= {event.key for event in profile.key_averages()}


def test_random_numbers() -> None:
    entry = compiled(lambda x: F.dropout((x + 1) * 2, 0.5) + torch.rand_like(x) * 2)
    with torch.no_grad():
        for number in range(CALLS):
            torch.manual_seed(number)
            first, after = entry(torch.ones(8, 8)), torch.get_rng_state()
            torch.manual_seed(number)
            second = F.dropout((torch.ones(8, 8) + 1) * 2, 0.5) + torch.rand_like(torch.ones(8, 8)) * 2
            assert torch.equal(first, second) and torch.equal(after, torch.get_rng_state())


def chain(x: Tensor) -> Tensor:
    y = (x + 1).sigmoid()
    for _ in range(20):
        y = (x + y.sum()) * y.tanh() - F.softmax(y, -1)
    return y.sum()


def peak_of_calls(function: Callable, make: Callable[[int], Any], calls: int = CALLS + 2) -> int:
    """From before the first call on, so that what a call keeps for the next one counts."""
    given = [make(number) for number in range(calls)]

    def run() -> None:
        for each in given:
            function(*each)

    return _testing.peak_memory(run)


KEPT_NUMBERS = 3 * 8  # numbers among the arguments, which the binding wraps, are kept in 8 bytes


@pytest.mark.parametrize("rows", [1, 8, 64, 100, 128, 600])
def test_the_peak_of_a_long_chain(rows: int) -> None:
    runners: list[Any] = []
    entry = compiled(chain, runners)
    with torch.no_grad():
        uncompiled = peak_of_calls(chain, lambda number: (torch.ones(rows, rows),))
        assert peak_of_calls(entry, lambda number: (torch.ones(rows, rows),)) <= uncompiled + KEPT_NUMBERS
    assert (runners[0].planned[0] > 50) == (rows <= 128)


def wide(x: Tensor) -> Tensor:
    for width in (32, 128, 8, 64, 16):
        x = F.softmax(x @ torch.ones(x.shape[1], width) * 0.5, -1).sigmoid()
    return x


PEAKS: dict[str, Callable[[Tensor], Any]] = {
    "two in turn": lambda x: F.softmax(F.softmax(F.softmax(F.softmax(x, -1), 0), -1), 0),
    "in place of operands": lambda x: ((((x + 1) * 2).relu() - 1) * 2).sigmoid(),
    "several sizes": wide,
    "a large one in between": lambda x: (x.sin().repeat(40, 1).cos().sum(0) * 2).tanh() + x.exp().sin(),
    "views": lambda x: (x * 2).t().contiguous().view(-1).sin().view(4, -1).t().contiguous().cos(),
    "parts": lambda x: torch.cat([part.sin().cos() for part in (x * 2).chunk(4, 1)], 1).relu().sum(0),
    "results in between": lambda x: [(x * 2).sin(), (x + 2).softmax(-1).cos(), (x @ x.t()).softmax(-1).sum(0)],
}


@of_later_versions
@pytest.mark.parametrize("name", PEAKS)
def test_the_peak_is_not_above_uncompiled(name: str) -> None:
    runners: list[Any] = []
    entry = compiled(PEAKS[name], runners)
    with torch.no_grad():
        uncompiled = peak_of_calls(PEAKS[name], lambda number: (data(8, 16, seed=number),))
        assert peak_of_calls(entry, lambda number: (data(8, 16, seed=number),)) <= uncompiled + KEPT_NUMBERS
    assert runners[0].planned[0] > 1


def test_numbers_that_are_alike_are_kept_once() -> None:
    def program(x: Tensor) -> Tensor:
        for _ in range(20):
            x = (x + 1) * 0.5
        return x + 1.0 - 0.0 * x + -0.0

    same(program, lambda number: (torch.full((2,), -0.0 if number % 2 else 3e-45),))
    entry = compiled(program)
    with torch.no_grad():
        uncompiled = peak_of_calls(program, lambda number: (torch.ones(8),))
        assert peak_of_calls(entry, lambda number: (torch.ones(8),)) <= uncompiled + 5 * 8


def test_memory_is_given_back() -> None:
    def resident() -> int:
        gc.collect()
        with open(f"/proc/{os.getpid()}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def rounds(count: int) -> None:
        for _ in range(count):
            runners: list[Any] = []
            entry = compiled(chain, runners)
            with torch.no_grad():
                for _ in range(4):
                    entry(torch.ones(100, 100))
            kept.append(runners[0].planned[2])
            stator.reset()

    kept: list[int] = []
    rounds(20)
    before = resident()
    rounds(200)
    assert sum(kept[20:]) > 12 << 20
    assert resident() - before < 8 << 20


def test_one_of_two_rows_raises() -> None:
    """What the program has then is not written to by the others."""
    with torch.library._scoped_library("planned_rows", "FRAGMENT") as library:
        library.define("between(Tensor x) -> Tensor")
        library.impl("between", lambda x: x.clone(), "CPU")
        library.impl("between", lambda x: torch.empty_like(x), "Meta")

        def program(x: Tensor, index: Tensor) -> Any:
            x = torch.ops.planned_rows.between(((x + 1).sigmoid() * 2).tanh())
            y = (x * 2).sigmoid()
            try:
                z = y.take(index)
            except IndexError:
                return y, y.sum()
            return (z + y).sin(), z

        runners: list[Any] = []
        entry = compiled(program, runners)
        results, expected = [], []
        with torch.no_grad():
            for number in range(12):
                given = data(8, 8, seed=number), torch.tensor([99 if number in (4, 7) else 3])
                results.append(entry(*given))
                expected.append(program(*given))
                assert look(results[-1]) == look(expected[-1])
                assert number != 3 or (runners[0].planned[0] > 3 and runners[0].planned[2] <= 576)
        assert look(results) == look(expected)
