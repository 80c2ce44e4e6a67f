"""Wrapper subclasses: tensors with `__torch_dispatch__` that consist of other tensors are inputs, intermediates and results
of a graph, as uncompiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing

import stator
from tests.support.long import LONG

BACKENDS = ("eager", "aot_eager", "stator")


class Scaled(torch.Tensor):
    """int8 numbers and a scale; computes with what they stand for. The scale's name is its context."""

    @staticmethod
    def __new__(cls, data, scale, name="a"):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data, scale, name="a"):
        self.data8, self.scale, self.name_of_scale = data, scale, name

    def __tensor_flatten__(self):
        return ["data8", "scale"], {"name": self.name_of_scale}

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Scaled(inner["data8"], inner["scale"], context["name"])

    def __repr__(self):
        return f"Scaled({self.name_of_scale})"

    def plain(self):
        return self.data8.to(self.scale.dtype) * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        aten = torch.ops.aten
        if func in (aten.detach.default, aten.clone.default, aten.t.default):
            made = cls(func(args[0].data8), args[0].scale, args[0].name_of_scale)
            return return_and_correct_aliasing(func, args, kwargs, made)
        plain = [one.plain() if isinstance(one, cls) else one for one in args]
        return func(*plain, **kwargs)


class Doubling(TwoTensor):
    """Its `__torch_function__` doubles results before `__torch_dispatch__` sees anything of that."""

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Doubling(inner["a"], inner["b"], size, stride)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
            return result * 2 if func in (torch.sin, torch.Tensor.sin) else result


class Pair(TwoTensor):
    """Without TwoTensor's mark on its constructor, which keeps compilers out."""

    def __init__(self, a, b, outer_size=None, outer_stride=None):
        self.a, self.b = a, b

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Pair(inner["a"], inner["b"], size, stride)


def two(*sizes: int, grad: bool = False, seed: int = 0) -> TwoTensor:
    generator = torch.Generator().manual_seed(seed)
    made = TwoTensor(torch.randn(sizes, generator=generator), torch.randn(sizes, generator=generator))
    return made.requires_grad_(grad)


def scaled(*sizes: int, name: str = "a") -> Scaled:
    generator = torch.Generator().manual_seed(1)
    return Scaled(torch.randint(-9, 9, sizes, generator=generator, dtype=torch.int8), torch.tensor(0.5), name)


def parts(value: Any) -> Any:
    """What a result consists of, to be compared."""
    if isinstance(value, (tuple, list)):
        return [parts(one) for one in value]
    if isinstance(value, dict):
        return {key: parts(one) for key, one in value.items()}
    if not isinstance(value, torch.Tensor):
        return value
    if hasattr(value, "__tensor_flatten__"):
        names, context = value.__tensor_flatten__()
        inner = [parts(getattr(value, name)) for name in names]
        return type(value), names, context, inner, value.shape, value.stride(), value.requires_grad, value.is_leaf
    return type(value), value.tolist(), value.dtype, value.stride(), value.requires_grad, value.is_leaf


def outcome(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The results, the gradients and the arguments after a call and a backward pass."""
    result = function(*arguments)
    gradients = []
    with torch._C.DisableTorchFunctionSubclass():
        found = [one for one in (result if isinstance(result, tuple) else (result,)) if isinstance(one, torch.Tensor)]
        for one in found:
            if one.requires_grad and one.grad_fn is not None:
                one.sum().backward(retain_graph=True)
        gradients = [parts(one.grad) for one in arguments if isinstance(one, torch.Tensor)]
    return parts(result), gradients, parts(arguments)


def check(program: Callable[..., Any], make: Callable[[], tuple[Any, ...]], backend: str, graphs: int = 1) -> None:
    """Compares two calls with the uncompiled program. The second must not recompile."""
    expected = outcome(program, make())
    compiled = stator.compile(program, backend=backend, fullgraph=graphs == 1)
    with stator.watch() as report:
        for _ in range(2):
            assert outcome(compiled, make()) == expected
            assert len(report.graphs) == graphs


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
]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_programs(number):
    for backend in BACKENDS if LONG else {"eager", BACKENDS[1 + number % 2]}:
        check(*PROGRAMS[number], backend)


def quantize(x: torch.Tensor) -> Scaled:
    return Scaled((x / 0.5).round().clamp(-127, 127).to(torch.int8), torch.tensor(0.5))


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
