"""Wrapper subclasses as libraries write them, and what a program does with them compared with the uncompiled program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import return_and_correct_aliasing

import stator

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


def quantize(x: torch.Tensor) -> Scaled:
    return Scaled((x / 0.5).round().clamp(-127, 127).to(torch.int8), torch.tensor(0.5))
