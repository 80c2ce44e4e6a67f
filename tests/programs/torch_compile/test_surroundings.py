"""Compiled functions in different surroundings: under modes, inside transforms and tracers, with tensors of every
kind."""

import functools
import warnings

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import stator

BACKENDS = ("eager", "aot_eager")


def shown(value):
    """The properties of a result that are compared."""
    if not isinstance(value, torch.Tensor):
        return value
    described = (type(value).__name__, value.dtype, value.layout, value.device.type, value.requires_grad)
    if value.is_nested or value.device.type == "meta":
        return described
    plain = value.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    try:
        return (
            *described,
            tuple(value.shape),
            plain.to_dense().tolist() if value.layout != torch.strided else plain.tolist(),
        )
    except (RuntimeError, TypeError):
        return described


def outcome(call):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return pytree.tree_map(shown, call())
        except Exception as error:  # noqa: BLE001  whatever it is, it has to be the same
            return type(error).__name__, str(error)[:150]


def assert_same(make, program, backend):
    """`make` turns a function into a call; twice, so that what was captured is used too."""
    stator.reset()
    expected, actual = make(program), make(stator.compile(program, backend=backend))
    for _ in range(2):
        assert repr(outcome(expected)) == repr(outcome(actual))


def program(x):
    return torch.relu(x * 2 + 1).sum(-1)


# ---- modes and transforms -----------------------------------------------------------------------------------------------

seen = []


class Listening(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


class Changing(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result + 1 if getattr(function, "__name__", "") == "relu" else result


class Dispatching(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        seen.append(str(function))
        return function(*args, **(kwargs or {}))


def under(mode, called_before):
    def make(function):
        def call():
            before = function(torch.ones(2, 2)) if called_before else None
            seen.clear()
            with mode():
                result = function(torch.ones(2, 2))
            return before, result, list(seen), function(torch.ones(2, 2))

        return call

    return make


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("called_before", [False, True])
@pytest.mark.parametrize("mode", [Listening, Changing, Dispatching])
def test_under_modes(mode, called_before, backend):
    assert_same(under(mode, called_before), program, backend)


def in_forward_mode(function):
    def call():
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(torch.ones(2, 2), torch.ones(2, 2))
            return forward_ad.unpack_dual(function(dual)).tangent

    return call


def with_saved_tensors_changed(function):
    def call():
        x = torch.ones(2, 2, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor * 2):
            function(x).sum().backward()
        return x.grad

    return call


def with_gradient(call_with):
    def make(function):
        def call():
            x = torch.ones(2, 2, requires_grad=True)
            call_with(function, x).sum().backward()
            return x.grad

        return call

    return make


SURROUNDINGS = {
    "grad": lambda f: lambda: torch.func.grad(lambda x: f(x).sum())(torch.ones(2, 2)),
    "vmap": lambda f: lambda: torch.vmap(f)(torch.ones(3, 2, 2)),
    "jvp": lambda f: lambda: torch.func.jvp(f, (torch.ones(2, 2),), (torch.ones(2, 2),)),
    "vjp": lambda f: lambda: torch.func.vjp(f, torch.ones(2, 2))[1](torch.ones(2)),
    "hessian": lambda f: lambda: torch.func.hessian(lambda x: f(x).pow(2).sum())(torch.ones(2, 2)),
    "forward-mode gradients": in_forward_mode,
    "saved tensors changed": with_saved_tensors_changed,
    "a checkpoint": with_gradient(functools.partial(checkpoint, use_reentrant=False)),
    "a reentrant checkpoint": with_gradient(functools.partial(checkpoint, use_reentrant=True)),
    "torch.jit.trace": lambda f: lambda: torch.jit.trace(f, (torch.ones(2, 2),))(torch.ones(2, 2) * 3),
    "torch.fx": lambda f: lambda: torch.fx.symbolic_trace(lambda x: f(x))(torch.ones(2, 2) * 3),
    "make_fx": lambda f: lambda: make_fx(f)(torch.ones(2, 2))(torch.ones(2, 2) * 3),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_inside(name, backend):
    assert_same(SURROUNDINGS[name], program, backend)


# ---- kinds of tensors ---------------------------------------------------------------------------------------------------


class Plain(torch.Tensor):
    pass


class Tripling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs or {})
        return result * 3 if getattr(function, "__name__", "") == "relu" else result


def made_in_inference_mode():
    with torch.inference_mode():
        return torch.ones(2, 2)


KINDS = {
    "sparse": lambda: torch.ones(2, 2).to_sparse(),
    "sparse rows": lambda: torch.ones(2, 2).to_sparse_csr(),
    "meta": lambda: torch.ones(2, 2, device="meta"),
    "complex": lambda: torch.ones(2, 2, dtype=torch.complex64),
    "conjugate": lambda: torch.ones(2, 2, dtype=torch.complex64).conj(),
    "negative": lambda: torch.ones(2, 2, dtype=torch.complex64).conj().imag,
    "expanded": lambda: torch.ones(2, 1).expand(2, 2),
    "without elements": lambda: torch.ones(0, 2),
    "without dimensions": lambda: torch.tensor(2.0),
    "bool": lambda: torch.ones(2, 2).bool(),
    "half": lambda: torch.ones(2, 2).half(),
    "8-bit float": lambda: torch.ones(2, 2).to(torch.float8_e4m3fn),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.quint8),
    "no leaf": lambda: torch.ones(2, 2, requires_grad=True) * 2,
    "of inference mode": made_in_inference_mode,
    "parameter": lambda: nn.Parameter(torch.ones(2, 2)),
    "with names": lambda: torch.ones(2, 2, names=("a", "b")),
    "of oneDNN": lambda: torch.ones(2, 2).to_mkldnn(),
    "masked": lambda: torch.masked.masked_tensor(torch.ones(2, 2), torch.ones(2, 2).bool()),
    "with gaps": lambda: torch.ones(4, 4)[::2, 1::2],
    "channels last": lambda: torch.ones(2, 2, 2, 2).to(memory_format=torch.channels_last),
    "subclass": lambda: torch.ones(2, 2).as_subclass(Plain),
    "subclass with code": lambda: torch.ones(2, 2).as_subclass(Tripling),
}

BODIES = {
    "operations": program,
    "a write": lambda x: x.add_(1) if x.is_floating_point() else x,
    "a view": lambda x: x.reshape(-1)[:1],
    "questions": lambda x: (x[0] if x.dim() else x, x.dtype, x.shape, x.requires_grad),
    "nothing": lambda x: x,
    "a product": lambda x: x @ x.transpose(-1, -2),
    "copies": lambda x: (x.clone(), x.detach(), x.is_contiguous()),
    "cat": lambda x: torch.cat([x, x]),
    "dtypes": lambda x: (x.to(torch.float64), x.float()),
    "alike": lambda x: (torch.zeros_like(x), torch.ones_like(x) * 2),
    "comparisons": lambda x: (x == 1, x.eq(1).all()),
    "sums": lambda x: (x.sum(), x.mean() if x.is_floating_point() else 0),
}


def with_argument(kind):
    def make(function):
        def call():
            x = KINDS[kind]()
            return function(x), x

        return call

    return make


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", KINDS)
def test_arguments(kind, backend):
    for body in BODIES.values():
        assert_same(with_argument(kind), body, backend)


def test_whether_an_inlined_callable_is_one_graph_is_guarded():
    def broken(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    chosen = [stator.compile(broken, backend="eager"), stator.compile(broken, backend="eager", fullgraph=True)]

    def program(x, callee):
        return callee(x) - 1

    compiled = stator.compile(program, backend="eager")
    x = torch.ones(2)
    for _ in range(2):
        assert torch.equal(compiled(x, chosen[0]), program(x, broken))
        with pytest.raises(stator.Unsupported):
            compiled(x, chosen[1])
