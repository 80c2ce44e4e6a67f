"""Nested tensors of `torch.jagged` layout: in graphs, with other lengths and batches in each call, in training, and with
other tensors that share their offsets or do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nested import nested_tensor_from_jagged
from torch.nested._internal.nested_tensor import nested_view_from_values_offsets
from torch.nn import functional as F

import stator
from tests.support.long import every

BACKENDS = ["eager", "aot_eager", "stator"]
LENGTHS = [(2, 3, 4), (2, 3, 4), (3, 2, 6), (4, 4, 4), (2, 2, 2, 3), (5, 7), (1, 2, 3), (4,), (0, 3), (6, 2, 2)]

WEIGHT = torch.linspace(-1, 1, 48).reshape(6, 8).requires_grad_()
BIAS = torch.linspace(-1, 1, 8).requires_grad_()
PARAMETERS = [WEIGHT, BIAS]


def jagged(lengths: Iterable[int], size: int = 8, grad: bool = False, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randn(length, size, generator=generator) for length in lengths]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=grad)


class Seen:
    """What a program could see of results. Ragged sizes are named by the tensors that they stand for: the offsets of
    the arguments first, then others in the order in which they are seen."""

    def __init__(self, *arguments: Any) -> None:
        self.sources: list[torch.Tensor] = []
        for argument in arguments:
            self(argument)

    def __call__(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value).__name__, [self(one) for one in value]
        if isinstance(value, torch.SymInt):
            return self.name(value)
        if not isinstance(value, torch.Tensor):
            return value
        if not value.is_nested:
            return tuple(value.shape), value.stride(), value.dtype, value.requires_grad, value.detach().clone()
        source = value.offsets() if value.lengths() is None else value.lengths()
        self.note(source)
        ragged = [self.name(size) for size in value.shape]
        lengths = None if value.lengths() is None else value.lengths().clone()
        return (
            type(value),
            ragged,
            value.requires_grad,
            value.offsets().clone(),
            lengths,
            value.detach().values().clone(),
        )

    def note(self, source: torch.Tensor) -> None:
        if not any(source is one for one in self.sources):
            self.sources.append(source)

    def name(self, size: Any) -> Any:
        if not isinstance(size, torch.SymInt):
            return size
        known = torch.nested._internal.nested_tensor._tensor_symint_registry
        return [number for number, one in enumerate(self.sources) if one in known and known[one] == size]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True)
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(same(left, right) for left, right in zip(one, other, strict=True))
    return bool(one == other)


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (tuple, list)):
        return [tensor for one in value for tensor in tensors_of(one)]
    return [value] if isinstance(value, torch.Tensor) else []


def outcome(program: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
    """The results, and the gradients of all leaves; or the exception."""
    seen = Seen(*arguments)
    try:
        result = program(*arguments)
        noted = [seen(result), seen(arguments)]
        summed = [one.values() if one.is_nested else one for one in tensors_of(result) if one.requires_grad]
        leaves = [one for one in (*tensors_of(arguments), *PARAMETERS) if one.requires_grad and one.is_leaf]
        if summed and leaves:
            total = sum(one.cos().sum() for one in summed)
            noted += [seen(one) for one in torch.autograd.grad(total, leaves, allow_unused=True)]
        return noted
    except Exception as error:
        return [type(error)]


def expect_same(
    program: Callable[..., Any], calls: Iterable[Callable[[], tuple[Any, ...]]], backend: str, **options: Any
) -> list[int]:
    """How many graphs there are after each call."""
    compiled = stator.compile(program, backend=backend, isolate_recompiles=True, **options)
    graphs = []
    with stator.watch() as report:
        for make in calls:
            expected, actual = outcome(program, make()), outcome(compiled, make())
            assert same(expected, actual), (expected, actual)
            graphs.append(len(report.graphs))
    return graphs


def heads(x):
    return x.view(x.size(0), x.size(1), 2, 4).transpose(1, 2) * 2


def in_place(x):
    y = x.clone()
    y.mul_(2)
    y += x
    return y


def halves(x):
    left, right = x.chunk(2, dim=-1)
    return left * right


ONE_GRAPH: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: torch.relu(x) * 2 + x.cos() - x,
    "number of rows": lambda x: x * x.size(0),
    "dense operand": lambda x: x * BIAS + torch.ones(x.size(0), 1, 8),
    "linear": lambda x: F.linear(x, WEIGHT),
    "matmul": lambda x: x @ WEIGHT.t(),
    "layer_norm": lambda x: F.layer_norm(x, (8,), BIAS, BIAS),
    "softmax": lambda x: F.softmax(x, dim=-1),
    "softmax of rows": lambda x: F.softmax(x, dim=1),
    "sum of all": lambda x: x.sum(),
    "sum of elements": lambda x: x.sum(-1),
    "sum of rows": lambda x: x.sum(1),
    "mean": lambda x: x.mean(-1, keepdim=True),
    "mean of rows": lambda x: x.mean(1),
    "gelu": lambda x: F.gelu(x).masked_fill(x > 0, 1.0),
    "where": lambda x: torch.where(x > 0, x, -x),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "dtype": lambda x: x.to(torch.float64).float() + x.double(),
    "cat": lambda x: torch.cat([x, x * 2], dim=-1),
    "chunk": halves,
    "narrow": lambda x: x.narrow(-1, 2, 3),
    "unsqueeze": lambda x: x.unsqueeze(-1).squeeze(-1),
    "transpose": lambda x: x.transpose(1, 2).sin().transpose(1, 2),
    "heads": heads,
    "unflatten": lambda x: x.unflatten(-1, [2, 4]).transpose(1, 2) * 2,
    "flatten": lambda x: x.unflatten(-1, [2, 4]).flatten(2) * 2,
    "in place": in_place,
    "detach": lambda x: x.detach() + x,
    "values": lambda x: (x * 2).values() * 2,
    "loss": lambda x: (x**2).values().mean(),
    "offsets": lambda x: (x.offsets().diff(), x.offsets()),
    "padded": lambda x: x.to_padded_tensor(0.0) + 1,
    "padded function": lambda x: torch.nested.to_padded_tensor(x, -1.0) * 2,
    "metadata": lambda x: x + 1 if x.is_nested and x.layout == torch.jagged and x.dim() == 3 else x,
    "number of elements": lambda x: x / x.numel(),
    "shape": lambda x: (x * 2).shape,
    "ragged size": lambda x: (x.size(1), x + 1 if x.size(1) >= 2 and x.size(1) != 5 else x - 1),
    "compared shapes": lambda x: x + 1 if x.shape == x.sin().shape else x - 1,
    "from values": lambda x: nested_view_from_values_offsets(x.values() * 2, x.offsets()) + x,
    "from jagged": lambda x: nested_tensor_from_jagged(x.values() * 2, x.offsets()) * x,
    "other offsets": lambda x: nested_tensor_from_jagged(x.values() * 2, x.offsets().clone()) * 2,
    "with lengths": lambda x: nested_tensor_from_jagged(x.values(), x.offsets(), x.offsets().diff() - 1).cos(),
    "from padded": lambda x: nested_tensor_from_jagged(F.pad(x.values(), (1, 1)), x.offsets()).sin(),
    "data": lambda x: x.data * 2 + x,
    "own offsets": lambda x: x + (1 if (x * 2).offsets() is x.offsets() else 2),
    "lengths": lambda x: x + 1 if (x * 2).lengths() is None and x.lengths() is None else x,
}
WITH_BREAKS: dict[str, Callable[..., Any]] = {
    "unbind": lambda x: (x * 2).unbind(),
    "one element": lambda x: (x * 2)[0],
    "attention on a CPU": lambda x: F.scaled_dot_product_attention(heads(x), heads(x), heads(x)) * 2,
    "strides": lambda x: x + x.stride(-1),
    "arithmetic with the ragged size": lambda x: (x.size(1) * 2, x * 2)[1],
    "print": lambda x: (x * 2, print(end=""), x + 1)[::2],
    "input in place": lambda x: x.detach().mul_(2) + x,
}


def variants(programs: Iterable[str]) -> list[tuple[str, str, bool]]:
    """With each backend, with gradients and without: two of these for each program where tests may not take long."""
    all_of_one = [("eager", False), ("aot_eager", True), ("stator", False), ("stator", True), ("eager", True)]
    all_of_one.append(("aot_eager", False))
    return [(name, *one) for turn, name in enumerate(programs) for one in every(3, all_of_one, turn)]


@pytest.mark.parametrize("name, backend, grad", variants(ONE_GRAPH))
def test_one_graph(name, backend, grad):
    calls = [lambda lengths=lengths: (jagged(lengths, grad=grad),) for lengths in LENGTHS]
    graphs = expect_same(ONE_GRAPH[name], calls, backend, fullgraph=True)
    # Other lengths, then other batches. (A length of 1 is a constant, and compilers may need the number of rows.)
    assert graphs[:4] == [1, 1, 1, 1]
    assert graphs[4] == 2
    assert graphs[5:7] == [2, 3] or (backend == "aot_eager" and name == "matmul")


@pytest.mark.parametrize("name, backend, grad", variants(WITH_BREAKS))
def test_breaks(name, backend, grad):
    calls = [lambda lengths=lengths: (jagged(lengths, grad=grad),) for lengths in LENGTHS]
    expect_same(WITH_BREAKS[name], calls, backend)


def test_a_graph_on_which_aot_autograd_fails():
    """Uncompiled, only the backward pass of these raises, or nothing."""
    for name in ("sum of rows", "mean of rows", "with lengths", "data"):
        program = ONE_GRAPH[name]
        calls = [lambda lengths=lengths: (jagged(lengths, grad=True),) for lengths in LENGTHS[:4]]
        assert expect_same(program, calls, "aot_eager", fullgraph=True) == [1, 1, 1, 1]
        with stator.watch() as report:
            compiled = stator.compile(program, backend="aot_eager", fullgraph=True, isolate_recompiles=True)
            compiled(jagged((2, 3, 4), grad=True))
        assert [note.topic for note in report.notes] == ["backend_fails_on_nested_tensors"]

    def backend(module, examples):
        raise ZeroDivisionError

    with pytest.raises(stator.BackendCompilerFailed):
        stator.compile(lambda x: x * 2, backend=backend)(X)


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_are_symbols_at_first(backend):
    calls = [lambda lengths=lengths, size=size: (jagged(lengths, size, grad=True),) for lengths, size in
             (((2, 3, 4), 5), ((3, 4, 5, 6), 4), ((2, 2), 9))]  # fmt: skip
    assert expect_same(lambda x: x.sin() * x, calls, backend, fullgraph=True, dynamic=True) == [1, 1, 1]


X, Y = jagged((2, 3, 4)), jagged((2, 3, 4), seed=1)
OFFSETS, OTHER = torch.tensor([0, 2, 5, 9]), torch.tensor([0, 3, 5, 9])
VALUES = torch.linspace(-1, 1, 36).reshape(9, 4)


def add_if_equal(x, y):
    return x + y if x.shape == y.shape else x.sin()


def of_two(values, one, other):
    x, y = nested_tensor_from_jagged(values * 2, one), nested_tensor_from_jagged(values * 3, other)
    return x + y if x.shape == y.shape else x.cos(), y


def made_first(x, values, offsets):
    made = nested_tensor_from_jagged(values * 2, offsets)
    return made * x if made.shape == x.shape else (made, x + 1)


def made_last(x, values, offsets):
    y = x + 1
    made = nested_tensor_from_jagged(values * 2, offsets)
    return made * y if made.shape == y.shape else (made, y)


def from_(values, offsets):
    return nested_tensor_from_jagged(values, offsets)


SHARED: list[tuple[Callable[..., Any], list[Callable[[], tuple[Any, ...]]]]] = [
    (add_if_equal, [lambda: (X, X * 2), lambda: (X, Y), lambda: (Y, X), lambda: (X, X), lambda: (Y * 2, Y)]),
    (add_if_equal, [lambda: (X, Y), lambda: (X, X * 2), lambda: (X, X), lambda: (Y, X)]),
    (add_if_equal, [lambda: (X, X), lambda: (X, Y), lambda: (X, X * 2)]),
    (of_two, [lambda: (VALUES, OFFSETS, OTHER), lambda: (VALUES, OFFSETS, OFFSETS), lambda: (VALUES, OTHER, OTHER.clone())]),
    (of_two, [lambda: (VALUES, OFFSETS, OFFSETS), lambda: (VALUES, OFFSETS, OTHER), lambda: (VALUES, OTHER, OFFSETS)]),
    *[
        (program, [lambda x=x, offsets=offsets: (from_(VALUES, x), VALUES, offsets) for x, offsets in order])
        for program in (made_first, made_last)
        for order in (
            [(OFFSETS, OFFSETS), (OFFSETS, OTHER), (OTHER, OTHER), (OTHER, OFFSETS)],
            [(OFFSETS, OTHER), (OTHER, OFFSETS), (OTHER, OTHER), (OFFSETS, OFFSETS.clone())],
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program, calls", SHARED)
def test_tensors_that_share_offsets(program, calls, backend):
    expect_same(program, [call for call in calls for _ in range(2)], backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_can_be_used_with_arguments(backend):
    compiled = stator.compile(lambda x: x.sin(), backend=backend, fullgraph=True)
    for x in (X, X, jagged((5, 1), grad=True)):
        y = compiled(x)
        assert y.shape == x.shape
        assert torch.equal((y + x).values(), (x.sin() + x).values())


@pytest.mark.parametrize("backend", BACKENDS)
def test_other_kinds_of_jagged_tensors(backend):
    kinds = [
        lambda: (jagged((2, 3, 4)),),
        lambda: (jagged((2, 3, 4)).transpose(1, 2),),
        lambda: (nested_tensor_from_jagged(VALUES, OFFSETS),),  # without the least and the largest length
        lambda: (nested_tensor_from_jagged(VALUES, OFFSETS, torch.tensor([1, 2, 3])),),  # with holes
        lambda: (jagged((2, 3, 4)).double(),),
        lambda: (VALUES,),
        lambda: (jagged((2, 3, 4), grad=True).cos(),),
    ]
    expect_same(lambda x: x.sin() * 2, kinds + kinds[::-1], backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_largest_length_is_guarded(backend):
    def call(longest: int) -> tuple[torch.Tensor]:
        return (nested_view_from_values_offsets(VALUES, OFFSETS, min_seqlen=2, max_seqlen=longest),)

    expect_same(lambda x: x.to_padded_tensor(0.5), [lambda n=n: call(n) for n in (4, 4, 5, 6)], backend, fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_length_that_is_computed_once(backend):
    """The first call computes the largest length and keeps it in the tensor."""
    for program in (lambda x: x.to_padded_tensor(0.0), lambda x: (x * 2).to_padded_tensor(0.0) + 1):
        expect_same(program, [lambda: (nested_tensor_from_jagged(VALUES, OFFSETS),)] * 2, backend)
        kept = nested_tensor_from_jagged(VALUES, OFFSETS)
        expect_same(program, [lambda: (kept,)] * 3, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_training(backend):
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2))
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    for lengths in LENGTHS:
        gradients = []
        for run in (model, compiled):
            x = jagged(lengths, grad=True)
            model.zero_grad()
            run(x).values().square().sum().backward()
            assert x.grad is not None and x.grad.shape == x.shape
            gradients.append([x.grad.values(), *(parameter.grad.clone() for parameter in model.parameters())])
        assert same(*gradients)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_view_of_values_that_require_a_gradient(backend):
    def gradient(run: Callable[..., Any]) -> torch.Tensor:
        values = VALUES.clone().requires_grad_()
        return torch.autograd.grad(run(nested_tensor_from_jagged(values * 2, OFFSETS)), values)[0]

    def program(x):
        return x.sin().values().sum()

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        assert torch.allclose(gradient(compiled), gradient(program))


@pytest.mark.parametrize("backend", BACKENDS)
def test_construction_from_a_list(backend):
    def program(x, y):
        return torch.nested.nested_tensor([x * 2, y], layout=torch.jagged) * 2

    calls = [lambda n=n, m=m: (torch.ones(n, 2), torch.ones(m, 2)) for n, m in ((3, 4), (3, 4), (4, 3), (5, 5))]
    expect_same(program, calls, backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_argument_that_is_written_to(backend):
    def program(x):
        x.mul_(2)
        return x + 1

    expect_same(program, [lambda: (jagged((2, 3, 4)),)] * 2, backend)


def test_what_is_ragged_is_not_mixed_with_other_subclasses():
    from torch.testing._internal.two_tensor import TwoTensor

    def program(x, y):
        return x + 1, y + 1

    compiled = stator.compile(program, backend="eager")
    y = TwoTensor(torch.ones(2), torch.zeros(2))
    with stator.watch() as report:
        for _ in range(2):
            one, other = compiled(X, y)
            assert torch.equal(one.values(), X.values() + 1)
            assert torch.equal(other.a, y.a + 1)
    assert "nested tensors are used beside tensors of other subclasses" in str(report)


def test_values_that_several_tensors_share():
    def written_before(x):
        values = x.values() * 2
        y = nested_tensor_from_jagged(values, x.offsets())
        values.add_(1)
        return y * 2 + x

    def written_offsets(x):
        offsets = x.offsets().clone()
        one = nested_tensor_from_jagged(x.values(), offsets)
        offsets.add_(0)
        return one + nested_tensor_from_jagged(x.values() * 2, offsets)

    for program in (written_before, written_offsets):
        for backend in BACKENDS:
            expect_same(program, [lambda: (jagged((2, 3, 4)),)] * 2, backend)


def test_reasons():
    reasons = {
        "unbind": "the result depends on the data of a tensor",
        "strides": "the strides of a",
        "arithmetic with the ragged size": "the program computes with the ragged size of a nested tensor",
    }
    for name, reason in reasons.items():
        assert reason in str(stator.explain(WITH_BREAKS[name])(X)), name


@pytest.mark.parametrize("dynamic", [None, True])
def test_the_largest_length_of_a_result(dynamic):
    """Where it was given to the operation that made the tensor; without it there is none."""

    def program(values, offsets, largest):
        made = nested_tensor_from_jagged(values, offsets, max_seqlen=largest)
        again = nested_tensor_from_jagged(values * 2, made.offsets(), max_seqlen=made._maybe_max_seqlen)
        without = nested_tensor_from_jagged(values, made.offsets())
        return made._maybe_max_seqlen, again._maybe_max_seqlen, made._maybe_min_seqlen, again, without._maybe_max_seqlen

    compiled = stator.compile(program, backend="eager", fullgraph=True, dynamic=dynamic)
    offsets = torch.tensor([0, 2, 4, 7, 10])
    for largest in (5, 5, 7, 3):
        arguments = torch.randn(10, 5), offsets, largest
        results, expected = compiled(*arguments), program(*arguments)
        assert [int(one) if one is not None else None for one in (*results[:3], results[4])] == [
            int(one) if one is not None else None for one in (*expected[:3], expected[4])
        ]
        assert torch.equal(results[3].values(), expected[3].values())
        assert results[3]._maybe_max_seqlen == largest
