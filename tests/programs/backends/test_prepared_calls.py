"""`backend="stator"`: operations run as calls of their operators, bit for bit as uncompiled."""

from __future__ import annotations

import copy
import textwrap
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from stator import _testing
from tests.support.processes import fresh

Tensor = torch.Tensor


def compiled(program: Callable, runners: list[Any] | None = None, **options: Any) -> Callable:
    from stator.backends import Backend, prepared_calls

    def backend(module: Any, inputs: Any) -> Any:
        runner = prepared_calls(module, inputs)
        if runners is not None:
            runners.append(runner)
        return runner

    as_stator = Backend("stator", backend)
    as_stator.runs_as_captured = True
    return stator.compile(program, backend=as_stator, fullgraph=True, **options)


def bits(value: Any) -> Any:
    if isinstance(value, Tensor):
        return (value.dtype, value.shape, value.stride(), value.requires_grad, value.detach().clone().numpy().tobytes())
    if isinstance(value, (tuple, list)):
        return [bits(item) for item in value]
    return value


def same(program: Callable, *arguments: Tensor, prepared: int | None = None, calls: int = 5) -> None:
    """Results, gradients, contents of the arguments and random state, in each of several calls."""
    runners: list[Any] = []
    entry = compiled(program, runners)
    worlds = [(program, copy.deepcopy(arguments)), (entry, copy.deepcopy(arguments))]
    for _ in range(calls):
        seen = []
        for function, given in worlds:
            torch.manual_seed(0)
            with stator.watch() as report:
                result = function(*given)
            assert not [note for note in report.notes if note.topic == "graph_raised"]
            state = torch.get_rng_state()
            results = [r for r in (result if isinstance(result, tuple) else (result,)) if isinstance(r, Tensor)]
            recorded = [r for r in results if r.requires_grad]
            if recorded:
                torch.autograd.backward(recorded, [torch.ones_like(r) for r in recorded])
            seen.append(
                (
                    bits(result),
                    bits(given),
                    bits([a.grad for a in given]),
                    [r._version for r in results],
                    [a._version for a in given],
                    [type(r.grad_fn) for r in results],
                    [any(r is a for a in given) for r in results],
                    [r._is_view() for r in results],
                    state.numpy().tobytes(),
                )
            )
        assert seen[0] == seen[1]
    if prepared is not None:
        assert [runner.prepared[0] for runner in runners] == [prepared]


def x(*sizes: int, grad: bool = False) -> Tensor:
    torch.manual_seed(len(sizes))
    return torch.randn(*sizes or (3, 4)).requires_grad_(grad)


PROGRAMS: dict[str, Callable[[Tensor], Any]] = {
    "arithmetic": lambda x: (x + 1) * 2.5 - x / 3 + 2**x,
    "reflected": lambda x: 1 - x + 2 / (x * x + 1),
    "reductions": lambda x: (x.sum(), x.mean(0), x.max(), x.std(1)),
    "named results": lambda x: torch.max(x, 1)[0] + torch.sort(x, dim=1)[0].sum(1),
    "a tuple as a whole": lambda x: torch.max(x, 1),
    "indexing": lambda x: (x[0], x[:, 1:], x[..., None], x[x[:, 0].argsort()]),
    "views": lambda x: (x.t(), x.view(-1), x.reshape(4, 3), x.unsqueeze(0).expand(2, -1, -1)),
    "views of results": lambda x: ((x * 2).view(-1)[1:3], (x + 1).t()),
    "chunks": lambda x: sum(c.sum() for c in x.chunk(2, 1)),
    "concatenation": lambda x: torch.cat([x, x * 2, torch.zeros(3, 4)], 1),
    "dtypes": lambda x: (x.to(torch.float64) * 2, x.half().float(), x.long() + 1, x.bool()),
    "factories": lambda x: x + torch.arange(4) + torch.ones(3, 1) + torch.full((4,), 2.0),
    "random": lambda x: (torch.rand_like(x) + x, torch.randn(2), F.dropout(x, 0.5), torch.bernoulli(x.sigmoid())),
    "functional": lambda x: (F.softmax(x, -1), F.layer_norm(x, (4,)), F.gelu(x), F.pad(x, (1, 1)), F.relu(x)),
    "losses": lambda x: F.cross_entropy(x, torch.tensor([0, 1, 2])) + F.mse_loss(x, x * 2) + F.smooth_l1_loss(x, x + 1),
    "no_grad inside": lambda x: x.sin() + torch.no_grad()(lambda: x.cos())(),
    "detached": lambda x: x.detach() * x,
    "attention": lambda x: F.scaled_dot_product_attention(*(x.view(1, 1, 3, 4),) * 3),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "contiguous": lambda x: (x.contiguous() + 1, x.t().contiguous()),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients(name: str, grad: bool) -> None:
    same(PROGRAMS[name], x(grad=grad))


def test_operations_are_prepared() -> None:
    same(lambda x: F.softmax((x @ x.t() + 1).relu(), -1)[0], x(), prepared=6)


def operators(program: Callable, *arguments: Tensor) -> Any:
    """The operators called where gradients are wanted, and where none are."""
    runners: list[Any] = []
    entry = compiled(program, runners)
    with torch.no_grad():
        entry(*arguments)
        assert runners[0].operators == ([], [])  # the second call is observed
        entry(*arguments)
    return runners[0].operators


COMPOSITES: dict[str, tuple[Callable, list[str]]] = {
    "linear": (lambda x: F.linear(x, x), ["aten::t", "aten::mm"]),
    "matmul": (lambda x: x[None] @ x.t(), ["aten::view", "aten::mm", "aten::_unsafe_view"]),
    "softmax": (lambda x: F.softmax(x, -1), ["aten::_softmax"]),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), ["aten::native_layer_norm"]),
    "reshape": (lambda x: x.t().reshape(-1), ["aten::clone", "aten::_unsafe_view"]),
    "no copy": (lambda x: x.contiguous().float() + 1, ["aten::add.Tensor"]),
    "einsum": (lambda x: torch.einsum("ij,kj->ik", x, x * 2), ["aten::bmm"]),
    "attention": (PROGRAMS["attention"], ["aten::scaled_dot_product_attention"]),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_composite_operators_are_taken_apart_where_no_gradient_is_wanted(name: str) -> None:
    program, called = COMPOSITES[name]
    # Older versions of PyTorch leave the mode of named tensors in these.
    if torch.__version__ >= "2.12" or name not in ("linear", "matmul", "softmax"):
        assert set(called) <= set(operators(program, x())[1])
    same(program, x())
    same(torch.no_grad()(program), x(grad=True))
    same(program, x(grad=True))


def seen_of(tensor: Tensor) -> Any:
    version = None if tensor.is_inference() else tensor._version
    return version, tensor._is_view(), tensor.requires_grad, tensor.is_leaf, tensor.is_inference()


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_results_are_tracked_as_uncompiled(mode: Any) -> None:
    def program(x: Tensor, w: Tensor) -> Any:
        y = x * 2
        view, copied = y.view(-1)[2:], y.t().contiguous()
        y.add_(1)
        view.mul_(3)
        return y, view, copied, w.t(), F.linear(x, w).chunk(2, 1)[1], x.to(torch.float64), x.detach()

    def seen(function: Callable) -> Any:
        with mode():
            given, weight = x(), x(4, 4)
            results = function(given, weight)
            noted = [seen_of(r) for r in results]
            results[0].mul_(2)
            results[3].zero_()
            noted += [seen_of(r) for r in (*results, given, weight)]
        return noted, bits(results), bits(weight)

    entry = compiled(program)
    assert seen(entry) == seen(entry) == seen(entry) == seen(program)


def test_results_may_require_gradients_later() -> None:
    def later(function: Callable) -> Any:
        result = function(x()).requires_grad_()
        (result.sin() * 2).sum().backward()
        with torch.no_grad():
            view = function(x(grad=True))
        return bits(result.grad), view.requires_grad, view.grad_fn

    entry = compiled(lambda x: x.t() + 1)
    assert later(entry) == later(entry) == later(entry) == later(lambda x: x.t() + 1)


def test_forward_mode() -> None:
    from torch.autograd import forward_ad

    def program(x: Tensor) -> Tensor:
        return F.softmax(x @ x.t(), -1) * 2

    entry = stator.compile(program, backend="stator")
    for _ in range(4):
        entry(x())
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x(), torch.ones(3, 4))
            tangents = [forward_ad.unpack_dual(function(dual)).tangent for function in (program, entry)]
        assert bits(tangents[0]) == bits(tangents[1])


def test_a_gradient_of_the_programs_own() -> None:
    text = """
        import torch, stator
        seen = []
        def negative(x):
            seen.append(x.shape)
            with torch._C._AutoDispatchBelowAutograd():
                return torch.ops.aten.erfc(x)
        library = torch.library.Library("aten", "IMPL")
        library.impl("erfc", negative, "AutogradCPU")
        entry = stator.compile(lambda x: torch.erfc(x) + 1, backend="stator")
        for _ in range(4):
            entry(torch.ones(2))
        print(len(seen))
    """
    assert fresh(textwrap.dedent(text)) == "4"


def test_writing_to_inputs_and_views() -> None:
    def program(x: Tensor, y: Tensor) -> Any:
        x.add_(1)
        view = x[0]
        view.mul_(y[0])
        y[1:] = 2.0
        y[0] = x[1]
        return x, view, x + y

    same(program, x(), x(3, 4))


def test_writing_to_a_leaf_raises() -> None:
    leaf = x(grad=True)
    for function in (lambda x: x.add_(1), compiled(lambda x: x.add_(1))):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
                function(leaf)


def test_aliased_arguments() -> None:
    entry, given = compiled(lambda x, y: x.mul_(2) + y), [torch.ones(2), torch.ones(2)]
    assert entry(given[0], given[0]).tolist() == [4, 4]
    assert entry(*given).tolist() == [5, 5]
    assert entry(given[1], given[1]).tolist() == [4, 4]
    assert entry(given[1], given[0]).tolist() == [8, 8]


def test_errors_come_from_the_line_of_the_program() -> None:
    def program(table: Tensor, index: Tensor) -> Tensor:
        table = table * 2
        taken = table[index]
        return taken + 1

    entry, table = compiled(program), x()
    for _ in range(4):
        assert torch.equal(entry(table, torch.tensor([0, 2])), program(table, torch.tensor([0, 2])))
    for function in (program, entry):
        with pytest.raises(IndexError, match="index 7 is out of bounds") as caught:
            function(table, torch.tensor([0, 7]))
        assert traceback.extract_tb(caught.value.__traceback__)[-1].line == "taken = table[index]"
    assert torch.equal(entry(table, torch.tensor([1, 2])), program(table, torch.tensor([1, 2])))


def test_what_was_written_before_an_error() -> None:
    def program(x: Tensor, index: Tensor) -> Tensor:
        x.add_(1)
        return x.take(index) * 2

    given = [torch.zeros(3), torch.zeros(3)]
    for function, target in zip((program, compiled(program)), given, strict=True):
        for index in (0, 1, 9, 2):
            try:
                function(target, torch.tensor([index]))
            except IndexError:
                target.add_(0.25)
    assert torch.equal(*given)
    assert given[0]._version == given[1]._version


def test_warnings_of_functions_in_python_are_repeated() -> None:
    entry = compiled(lambda x: F.softmax(x) + F.mse_loss(x, x[:1]))
    for _ in range(4):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            entry(x())
        assert len(given) == 2


def test_inputs_that_operations_on_lists_return() -> None:
    """`torch._foreach_add_` returns the tensors that it is given, which later operations read again."""

    def program(x, y):
        torch._foreach_add_([x, y], 1)
        product = torch._foreach_mul([x, y], 2)
        torch._foreach_mul_([product[0]], 3)
        return x * 2, 1 - 0.5**y, product[0] + x, product[1]

    with torch.no_grad():
        same(program, torch.ones(3), torch.ones(2, 2), prepared=9)


def test_settings_of_cudnn() -> None:
    """`enabled` is among the arguments of normalizations, so that it is guarded; the other settings are read by the
    operators that are called, because these are not taken apart."""
    norm, runners = nn.BatchNorm2d(2).eval(), []
    call = compiled(lambda x: F.conv2d(norm(x), torch.ones(2, 2, 1, 1)), runners)
    x = torch.randn(1, 2, 4, 4)
    with torch.no_grad():
        for enabled, benchmark in ((True, False), (True, True), (False, True), (True, False)):
            with torch.backends.cudnn.flags(enabled=enabled, benchmark=benchmark):
                call(x), call(x)
    assert len(runners) == 2
    for runner in runners:
        called = runner.operators[1]
        assert "aten::convolution" in called
        assert not {"aten::_convolution", "aten::mkldnn_convolution"} & set(called)


def test_warnings_of_operators() -> None:
    def program(x: Tensor) -> Tensor:
        return (x * 2).view(-1).var(0, correction=12) + x.sum()

    def given_by(function: Callable) -> list[str]:
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            function(x())
        return [str(each.message) for each in given]

    torch.set_warn_always(True)
    try:
        entry = compiled(program)
        for _ in range(4):
            assert given_by(entry) == given_by(program) != []
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="degrees of freedom"):
                entry(x())
    finally:
        torch.set_warn_always(False)


def test_numbers_of_data_are_read_anew() -> None:
    entry = compiled(lambda x: x * float(x.shape[0]) + F.one_hot(x.long().clamp(0, 2), 3).sum())
    for value in (0.0, 1.0, 2.0):
        given = torch.full((3,), value)
        assert torch.equal(entry(given), given * 3.0 + 3)


def test_sizes_that_change() -> None:
    def program(x: Tensor) -> Any:
        y = x[:3].relu() + x.shape[0]
        return y.view(-1, 2), x[:, : x.shape[1] // 2].sum(0), x.reshape(x.shape[0] * x.shape[1]), x[1:]

    entry = compiled(program, dynamic=True)
    for rows in (3, 4, 5, 9, 4):
        for columns in (2, 4, 8):
            assert bits(entry(x(rows, columns))) == bits(program(x(rows, columns)))


def test_modes_around_the_call() -> None:
    def program(x: Tensor) -> Tensor:
        return (x @ x.t()).relu().sum(0, keepdim=True) @ x

    entry, leaf = compiled(program), x(3, 4, grad=True)
    for _ in range(2):
        for mode in (torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)):
            with mode():
                one, other = entry(leaf), program(leaf)
                assert bits(one.float()) == bits(other.float())
                assert (one.dtype, one.is_inference()) == (other.dtype, other.is_inference())
        with torch.autograd.detect_anomaly(check_nan=False):
            assert bits(entry(leaf)) == bits(program(leaf))


def test_a_profiler_sees_the_operators() -> None:
    def names(function: Callable) -> list[str]:
        with torch.profiler.profile() as profile:
            function(x())
        return [event.name for event in profile.events() if event.name.startswith("aten::")]

    def program(x: Tensor) -> Tensor:
        return F.softmax(x + 1, -1).sum()

    entry = compiled(program)
    entry(x()), entry(x())
    assert names(entry) == names(program)


def test_saved_tensors_and_second_derivatives() -> None:
    def program(x: Tensor) -> Tensor:
        return (x.sin() * x.exp()).sum()

    def seen(function: Callable) -> Any:
        packed = []
        leaf = x(grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(bits(t)) or t, lambda t: t):
            result = function(leaf)
        (first,) = torch.autograd.grad(result, leaf, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), leaf)
        return bits(first), bits(second), packed

    entry = compiled(program)
    assert seen(program) == seen(entry) == seen(entry) == seen(entry)


def test_memory_at_the_peak() -> None:
    def program(x: Tensor) -> Tensor:
        for _ in range(20):
            x = F.softmax(x @ x, -1) + 1
        return x.sum()

    def peak(function: Callable, given: Tensor) -> int:
        return _testing.peak_memory(lambda: function(given))

    entry, given = compiled(program), torch.zeros(64, 64)
    entry(given), entry(given)
    assert peak(entry, given) <= peak(program, given) < 5 * 64 * 64 * 4
    leaf = given.clone().requires_grad_()
    entry(leaf), entry(leaf)
    assert peak(entry, leaf) <= peak(program, leaf)


def test_a_model_in_training() -> None:
    def trained(compile: Callable) -> Any:
        torch.manual_seed(1)
        model = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(),
            nn.Linear(36, 3),
        )
        call, optimizer = compile(model), torch.optim.Adam(model.parameters(), 0.1)
        losses = []
        for _ in range(4):
            loss = F.cross_entropy(call(torch.randn(5, 1, 8, 8)), torch.tensor([0, 1, 2, 0, 1]))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(bits(loss))
        return losses, bits([*model.parameters(), *model.buffers()])

    assert trained(lambda model: model) == trained(lambda model: stator.compile(model, backend="stator"))


def test_results_are_fresh_in_each_call() -> None:
    entry = compiled(lambda x: (x + 1, torch.zeros(2)))
    entry(x())
    one, other = entry(x()), entry(x())
    one[0].zero_(), one[1].add_(1)
    assert other[0].abs().sum() > 0 and other[1].sum() == 0 and entry(x())[1].sum() == 0


def test_a_graph_inside_of_an_operator() -> None:
    """Its operators are observed, though those that the outer operator calls are not."""
    inner_runners: list[Any] = []
    outer_runners: list[Any] = []
    inner = compiled(lambda x: F.linear(x, x).relu() + 1, inner_runners)
    with torch.library._scoped_library("prepared_inside", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: inner(x) * 2, "CPU")
        library.impl("twice", lambda x: x.new_empty(x.shape[0], x.shape[0]), "Meta")
        with torch.no_grad():
            entry = compiled(lambda x: torch.ops.prepared_inside.twice(x.sin()).cos(), outer_runners)
            expected = ((F.linear(x().sin(), x().sin()).relu() + 1) * 2).cos()
            for _ in range(4):
                assert torch.equal(entry(x()), expected)
    assert inner_runners[0].prepared == (3, 3)
    assert outer_runners[0].prepared[0] == 2
