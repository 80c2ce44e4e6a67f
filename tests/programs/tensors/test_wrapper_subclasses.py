"""Wrapper subclasses: tensors with `__torch_dispatch__` that consist of other tensors are inputs, intermediates and results
of a graph, as uncompiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing

import stator
from tests.programs.tensors.wrappers import BACKENDS, Doubling, Pair, check, outcome, parts, quantize, scaled, two
from tests.support.long import LONG

PROGRAMS: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (lambda x: x + 1, lambda: (two(3, 4, grad=True),)),
    (lambda x, y: (torch.sin(x) * y).sum(), lambda: (two(3, 4, grad=True), torch.ones(3, 4, requires_grad=True))),
    (lambda x: (x.t() @ x).relu(), lambda: (two(3, 4, grad=True),)),
    (lambda x: x.view(-1)[2:5] * x.shape[0], lambda: (two(3, 4),)),
    (lambda x: x.clone().add_(1).mul_(x), lambda: (two(3),)),
    (lambda x: x.mul_(2) + x, lambda: (two(3),)),
    (lambda x: (x.a + 1, x * 2), lambda: (two(3),)),
    (lambda x: (x.a.add_(1), x * 2), lambda: (two(3),)),
    (lambda x: (x + 1).a * 2, lambda: (two(3),)),
    (lambda x: x.unbind(0)[1], lambda: (two(3, 2),)),
    (lambda x: (isinstance(x, TwoTensor), type(x + 1) is TwoTensor, x.dtype, (x + 1).size(0)), lambda: (two(3),)),
    (lambda x: (x, x + 1), lambda: (two(3),)),
    (lambda x: [x.detach(), x.exp()], lambda: (two(3, grad=True),)),
    (lambda x: torch.sin(x) + x, lambda: (Doubling(torch.ones(2), torch.zeros(2)),)),
    (
        lambda w, x: torch.nn.functional.linear(x, w).relu(),
        lambda: (scaled(4, 3), torch.ones(2, 3, requires_grad=True)),
    ),
    (lambda w: (w.name_of_scale, w.clone().name_of_scale, w * 2), lambda: (scaled(4, 3),)),
    (lambda x: x * 2, lambda: (TwoTensor(two(3), two(3, seed=1)),)),
    (lambda x: [row * 2 for row in x], lambda: (two(3, 2, grad=True),)),
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs(number):
    for backend in BACKENDS if LONG else {"eager", BACKENDS[1 + number % 2]}:
        check(*PROGRAMS[number], backend)


def quantized_twice(x):
    y = quantize(x)
    z = quantize(y.plain() + 1)
    return torch.nn.functional.linear(x, y), z, z.name_of_scale


def made_and_mutated(x):
    y = quantize(x)
    y.note = [1]
    y.note.append(x.shape[0])
    return y, y.note, y.dtype, y.data8


CONSTRUCTIONS: list[Callable[..., Any]] = [
    quantize,
    quantized_twice,
    made_and_mutated,
    lambda x: quantize(x) * 2,
    lambda x: (lambda y: (y, y.data8 + 1, y * 2))(quantize(x)),
    lambda x: quantize(x + 1).t(),
]


@pytest.mark.parametrize("number", range(len(CONSTRUCTIONS)))
def test_wrappers_that_the_program_makes(number):
    for backend in BACKENDS if LONG else {"eager", BACKENDS[1 + number % 2]}:
        check(CONSTRUCTIONS[number], lambda: (torch.arange(6.0).view(3, 2),), backend)


def test_a_wrapper_of_an_input_is_written_to():
    """It shares memory with all tensors that it was made of: breaks the graph."""

    def program(x):
        y = Pair(x, x * 2)
        y.mul_(3)
        return y * 2, x

    check(program, lambda: (torch.ones(3),), "eager", graphs=2)


def test_parameters_of_a_module():
    """Parameters, quantized or not, in a forward and a backward pass."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Parameter(two(4, 3))
            self.second = nn.Parameter(scaled(2, 4), requires_grad=False)

        def forward(self, x):
            return nn.functional.linear(torch.tanh(x @ self.first.t()), self.second)

    def run(compile: Callable[..., Any]) -> Any:
        model = Model()
        inputs = torch.ones(5, 3, requires_grad=True)
        result = compile(model)(inputs)
        result.sum().backward()
        return parts(result), parts(model.first.grad), parts(inputs.grad)

    expected = run(lambda model: model)
    for backend in BACKENDS:
        assert run(lambda model: stator.compile(model, backend=backend, fullgraph=True)) == expected


def captures(program: Callable[..., Any], *calls: Callable[[], tuple[Any, ...]]) -> list[int]:
    """How many graphs were captured after each call."""
    compiled = stator.compile(program, backend="eager", fullgraph=True, isolate_recompiles=True)
    counts = []
    with stator.watch() as report:
        for make in calls:
            assert outcome(compiled, make()) == outcome(program, make())
            counts.append(len(report.graphs))
    return counts


def test_guards():
    """On the class, on the metadata of inner tensors, on the context."""

    def other_dtype():
        return (TwoTensor(torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)),)

    def other_strides():
        return (TwoTensor(torch.ones(6)[::2], torch.ones(6)[::2]),)

    def nested():
        return (TwoTensor(two(3), two(3)),)

    program = lambda x: x * 2  # noqa: E731
    plain = lambda: (torch.ones(3),)  # noqa: E731
    calls = (lambda: (two(3),), lambda: (two(3, seed=2),), other_dtype, other_strides, nested, plain)
    assert captures(program, *calls) == [1, 1, 2, 3, 4, 5]
    assert captures(program, lambda: (two(3),), lambda: (two(3, grad=True),)) == [1, 2]
    assert captures(program, lambda: (scaled(3),), lambda: (scaled(3),), lambda: (scaled(3, name="b"),)) == [1, 1, 2]


def test_a_context_that_changes_in_place():
    """The guard has a copy of it."""
    wrapper = scaled(3)
    program = lambda w: (w.name_of_scale, w * 2)  # noqa: E731
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for name in ("a", "b", "a"):
        wrapper.name_of_scale = name
        assert parts(compiled(wrapper)) == parts(program(wrapper))


def test_an_inner_tensor_that_is_replaced():
    wrapper = two(3)
    program = lambda x: x * 2  # noqa: E731
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert parts(compiled(wrapper)) == parts(program(wrapper))
    wrapper.a = torch.ones(3)
    assert parts(compiled(wrapper)) == parts(program(wrapper))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_on_a_result(backend):
    def program(x):
        y = x * 2
        y.register_hook(lambda gradient: gradient * 3)
        return y * 2

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        gradients = []
        for run in (program, compiled):
            x = two(3, grad=True)
            gradients.append(torch.autograd.grad(run(x).sum(), x)[0])
        assert torch.equal(gradients[0].a, gradients[1].a)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_with_side_effects_on_a_result_breaks_the_graph(backend):
    seen = []

    def program(x):
        y = x * 2
        y.register_hook(lambda gradient: seen.append(type(gradient)))
        return y * 2

    compiled = stator.compile(program, backend=backend)
    for run in (program, compiled, compiled):
        run(two(3, grad=True)).sum().backward()
    assert seen == [TwoTensor] * 3
    with pytest.raises(stator.Unsupported, match="a hook on a result of class .*TwoTensor"):
        stator.compile(program, backend=backend, fullgraph=True)(two(3, grad=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hook_on_a_result_of_a_class_with_a_torch_function(backend):
    """A compiler would trace the hook without it."""

    def program(x):
        y = x * 2
        y.register_hook(lambda gradient: torch.sin(gradient))
        return y * 2

    compiled = stator.compile(program, backend=backend)
    gradients = []
    for run in (program, compiled, compiled):
        x = Doubling(torch.ones(2), torch.zeros(2)).requires_grad_()
        gradients.append(torch.autograd.grad(run(x).sum(), x)[0])
    assert parts(gradients[0]) == parts(gradients[1]) == parts(gradients[2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_class_whose_constructor_export_sees(backend):
    """PyTorch wants such an `__init__` to be disabled for TorchDynamo."""

    def program(x):
        made = TwoTensor(x, x * 2)
        return made + 1, made.b

    check(program, lambda: (torch.arange(3.0),), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_row_by_a_number_that_changes(backend):
    compiled = stator.compile(lambda x, row: x[row] * 2, backend=backend)
    x = two(4, 3)
    for row in (0, 1, 2, 3, 1):
        assert torch.equal(compiled(x, row).a, x.a[row] * 2)


def test_setting_an_attribute_breaks_the_graph():
    def program(x):
        y = x + 1
        y.a = x.a * 5
        return y * 2

    check(program, lambda: (two(3),), "eager", graphs=2)


def test_a_class_that_can_not_be_taken_apart_breaks_the_graph():
    class Opaque(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*(one.as_subclass(torch.Tensor) if isinstance(one, cls) else one for one in args))

    compiled = stator.compile(lambda x: x + 1, backend="eager", fullgraph=True)
    with pytest.raises(stator.Unsupported, match="a tensor of class .*Opaque is used"):
        compiled(torch.ones(2).as_subclass(Opaque))


def test_sizes_that_change_beside_a_wrapper():
    """A quantized weight, and batches of any size: two captures."""
    weight = scaled(4, 3)
    program = lambda x: torch.nn.functional.linear(x, weight).relu()  # noqa: E731
    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    with stator.watch() as report:
        for size in (2, 5, 7, 9):
            x = torch.arange(3.0 * size).view(size, 3)
            assert parts(compiled(x)) == parts(program(x))
    assert len(report.graphs) == 2


FUNCTIONS: dict[Any, Callable[..., Any]] = {}


class Affine(torch.Tensor):
    """A quantized tensor with tables of what it implements, as libraries write them."""

    @staticmethod
    def __new__(cls, q, scale, dtype):
        return torch.Tensor._make_wrapper_subclass(cls, q.shape, dtype=dtype, device=q.device)

    def __init__(self, q, scale, dtype):
        self.q, self.scale = q, scale

    def __repr__(self):
        return "Affine"

    @classmethod
    def from_float(cls, x):
        scale = x.abs().amax(-1, keepdim=True) / 127
        return cls((x / scale).round().to(torch.int8), scale, x.dtype)

    def __tensor_flatten__(self):
        return ["q", "scale"], [self.dtype]

    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["q"], inner["scale"], context[0])

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in FUNCTIONS:
            return FUNCTIONS[func](*args, **(kwargs or {}))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        made = cls(func(args[0].q), func(args[0].scale), args[0].dtype)
        return return_and_correct_aliasing(func, args, kwargs or {}, made)


def linear(x, weight, bias=None):
    x = Affine.from_float(x)
    result = (x.q.to(torch.int32) @ weight.q.to(torch.int32).t()).to(weight.dtype) * x.scale * weight.scale.t()
    return result + bias


def test_a_model_with_dynamically_quantized_activations():
    """One graph. A new entry in the table of functions is another one."""
    FUNCTIONS.clear()
    FUNCTIONS[nn.functional.linear] = linear
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2))
    for layer in (model[0], model[2]):
        layer.weight = nn.Parameter(Affine.from_float(layer.weight.detach()), requires_grad=False)
    x = torch.randn(3, 8)
    for backend in BACKENDS:
        compiled = stator.compile(model, backend=backend, fullgraph=True)
        for _ in range(2):
            assert torch.equal(compiled(x), model(x))
    FUNCTIONS[nn.functional.linear] = lambda x, weight, bias: linear(x, weight, bias) * 2
    assert torch.equal(compiled(x), model(x))


class Negative(Pair):
    """Inherits an `__tensor_unflatten__` that makes instances of the base class, and computes otherwise."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [-one.a if isinstance(one, cls) else one for one in args]
        return cls(func(*plain, **(kwargs or {})), args[0].b)


class Noted(Negative):
    """Has an attribute that the instance of the base class has not."""

    def __init__(self, a, b, outer_size=None, outer_stride=None):
        super().__init__(a, b)
        self.note = 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_class_that_inherits_how_it_is_made(backend):
    """Compilers would compute with the base class: the graph runs as it was captured."""
    program = lambda x: (x + 1, (x * 2).a)  # noqa: E731
    make = lambda kind: lambda: (kind(torch.arange(3.0), torch.ones(3)),)  # noqa: E731
    check(program, make(Negative), backend)
    with pytest.raises(stator.Unsupported, match="__tensor_flatten__ of class .*Noted can't be guarded"):
        stator.compile(program, backend=backend, fullgraph=True)(*make(Noted)())


class Rising(Pair):
    """What it has been compiled for holds for larger numbers as well."""

    @staticmethod
    def __new__(cls, a, b, level=0):
        return TwoTensor.__new__(cls, a, b)

    def __init__(self, a, b, level=0):
        self.a, self.b, self.level = a, b, level

    def __tensor_flatten__(self):
        return ["a", "b"], (self.level,)

    @classmethod
    def __metadata_guard__(cls, captured, now):
        return captured[0] <= now[0]

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Rising(inner["a"], inner["b"], context[0])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [one.a if isinstance(one, cls) else one for one in args]
        return cls(func(*plain, **(kwargs or {})), args[0].b, args[0].level)


class AlsoRising(Rising):
    pass


def test_a_class_with_a_guard_of_its_own():
    for kind in (Rising, AlsoRising):
        make = lambda level, kind=kind: lambda: (kind(torch.arange(3.0), torch.ones(3), level),)  # noqa: E731
        calls = [make(level) for level in (2, 3, 2, 1, 2)]
        assert captures(lambda x: x.clone().a + 1, *calls) == [1, 1, 1, 2, 2]


@dataclass(frozen=True)
class Frozen:
    size: Any
    device: Any
    inner: Any = None


@dataclass
class Open:
    size: Any


class Record(NamedTuple):
    size: Any
    device: Any
    inner: Any = None


class WithContext(torch.Tensor):
    """Its context is an object that the program makes."""

    @staticmethod
    def __new__(cls, a, context):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

    def __init__(self, a, context):
        self.a, self.context = a, context

    def __repr__(self):
        return "WithContext"

    def __tensor_flatten__(self):
        return ["a"], self.context

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return WithContext(inner["a"], context)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = [one.a if isinstance(one, cls) else one for one in args]
        rows = args[0].context.size[0]
        return cls(func(*plain, **(kwargs or {})) * rows, args[0].context)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", [Frozen, Record])
def test_a_context_that_the_program_makes(kind, backend):
    def program(x):
        made = WithContext(x, kind(x.shape, x.device, kind(x.shape, x.device)))
        result = made * made
        return result.a, made.context.size, made.context.inner.device

    check(program, lambda: (torch.arange(6.0).view(2, 3),), backend)


def test_a_context_that_the_program_makes_and_may_change_breaks_the_graph():
    program = lambda x: (WithContext(x + 1, Open(x.shape)) * 2).a + 1  # noqa: E731
    check(program, lambda: (torch.arange(6.0).view(2, 3),), "eager", graphs=2)
    with pytest.raises(stator.Unsupported, match="whose attribute 'context' is no constant"):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(2, 3))
