"""Autograd functions inside of compiled functions and around them: double backward, writes that autograd does not see,
writes to inputs that have a history. PyTorch's compilers don't support some of that; then the graph runs as captured.
"""

import pytest
import torch
import torch.autograd.functional as functional
import torch.nn.functional as F
from torch import nn

from tests.support.harness import T, same
from tests.support.scenarios import same_scenario

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])
ONES = torch.ones(3)


def cubes(x):
    return x**3 * x.sin()


def total(x):
    return cubes(x).sum()


APIS = {
    "jacobian": lambda f: lambda x: functional.jacobian(f(cubes), x),
    "jacobian of a graph": lambda f: lambda x: functional.jacobian(f(cubes), x, create_graph=True),
    "jacobian, vectorized": lambda f: lambda x: functional.jacobian(f(cubes), x, vectorize=True),
    "hessian": lambda f: lambda x: functional.hessian(f(total), x),
    "hessian, vectorized": lambda f: lambda x: functional.hessian(f(total), x, vectorize=True),
    "vjp": lambda f: lambda x: functional.vjp(f(cubes), x, ONES),
    "jvp": lambda f: lambda x: functional.jvp(f(cubes), x, ONES),
    "vhp": lambda f: lambda x: functional.vhp(f(total), x, ONES),
    "hvp": lambda f: lambda x: functional.hvp(f(total), x, ONES),
}


@BACKENDS
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("place", ["inside", "around"])
def test_functional(api: str, place: str, backend: str) -> None:
    def scenario(compile, note):
        if place == "inside":
            call = compile(APIS[api](lambda f: f))
        else:
            compiled: dict = {}
            call = APIS[api](lambda f: compiled.setdefault(f, compile(f)))
        for _ in range(2):
            note(call, torch.arange(3.0) + 1)
        leaf = (torch.arange(3.0) + 1).requires_grad_()
        result = note(call, leaf)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            note.gradients(result, leaf)

    same_scenario(scenario, backend, tolerance=1e-6)


@BACKENDS
def test_gradient_penalty(backend: str) -> None:
    def scenario(compile, note):
        torch.manual_seed(0)
        critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

        def inside(x):
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
            return ((gradient.norm(2, dim=1) - 1) ** 2).mean()

        around = compile(critic)

        def outside(x):
            x = x.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(around(x).sum(), x, create_graph=True)
            return ((gradient.norm(2, dim=1) - 1) ** 2).mean()

        for penalty in (compile(inside), outside):
            for _ in range(2):
                critic.zero_grad()
                note.gradients(note(penalty, torch.ones(2, 3)), *critic.parameters())

    same_scenario(scenario, backend, tolerance=1e-6)


def test_second_gradient_that_can_not_be_had_raises() -> None:
    """Random numbers would be drawn again: better an error than gradients without a history."""
    import stator

    f = stator.compile(lambda x: (F.dropout(x, 0.5) * x**2).sum(), backend="aot_eager")
    x = torch.ones(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(f(x), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiated again"):
        torch.autograd.grad(gradient.sum(), x)


@BACKENDS
def test_backward_again(backend: str) -> None:
    def scenario(compile, note):
        f = compile(lambda w: w.exp().sum())
        for _ in range(2):
            w = torch.ones(3, requires_grad=True)
            result = note(f, w)
            note(lambda result=result: result.backward())
            w = torch.ones(3, requires_grad=True)
            result = note(f, w)
            note(lambda result=result: result.backward(retain_graph=True))
            note(lambda result=result: result.backward())
            note.value(w.grad)

    same_scenario(scenario, backend)


def test_donated_buffers_are_for_those_who_ask() -> None:
    from torch._functorch import config

    import stator

    def twice() -> None:
        stator.reset()
        f = stator.compile(lambda x: torch.relu(x) * 2, backend="aot_eager")
        x = torch.ones(3, requires_grad=True)
        f(x).sum().backward()
        result = f(x).sum()
        result.backward(retain_graph=True)
        result.backward()
        assert x.grad is not None and x.grad.tolist() == [6.0] * 3

    twice()
    twice()
    with config.patch(donated_buffer=True), pytest.raises(RuntimeError, match="non-empty donated buffers"):
        twice()


def detached_times(a, b):
    v = b.detach()
    v.mul_(a)
    return v


def data_times(a, b):
    v = b.data
    v.mul_(a)
    return v


def part_of_detached_times(a, b):
    v = b.detach()[1:]
    v.mul_(a[1:])
    return v * 2


def times(a, b):
    return b.mul_(a)


def silu(a, b):
    return F.silu(b, inplace=True) * a


def relu(a, b):
    return F.relu(b, inplace=True) * a


def read_then_written(a, b):
    y = b.sigmoid()
    b.mul_(a)
    return y + b


def view_of_written(a, b):
    v = b.view(-1)
    b.mul_(a)
    return v * 2


def part_written(a, b):
    b[1:].mul_(a[1:])
    return b * 2


def written_twice(a, b):
    return b.exp_().mul_(b)


def not_returned(a, b):
    b.mul_(a)
    return b.sum() * 2


def result_written_past_autograd(a, b):
    y = a.exp()
    y.detach().add_(1)
    return y * b


def result_written_without_gradients(a, b):
    y = a.exp()
    with torch.no_grad():
        y.add_(1)
    return y * b


def copied(a, b):
    b.copy_(a)
    return b.sum()


WRITES = [
    detached_times,
    data_times,
    part_of_detached_times,
    times,
    silu,
    relu,
    read_then_written,
    view_of_written,
    part_written,
    written_twice,
    not_returned,
    result_written_past_autograd,
    result_written_without_gradients,
    copied,
]
INPUTS = {
    "plain": lambda leaf: torch.ones(3) * 2,
    "leaf": lambda leaf: torch.full((3,), 2.0, requires_grad=True),
    "result": lambda leaf: leaf * 1,
    "view of a result": lambda leaf: torch.cat([leaf, leaf])[2:5],
    "detached": lambda leaf: (leaf * 2).detach(),
}


@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_recorded_writes(write, kind: str) -> None:
    def scenario(compile, note):
        f = compile(write)
        for _ in range(2):
            a, leaf = (torch.arange(1.0, 4.0).requires_grad_() for _ in range(2))
            b = INPUTS[kind](leaf)
            result = note(f, a, b)
            if isinstance(result, torch.Tensor):
                note.gradients(result, a, leaf)
            note.value(b.detach())

    same_scenario(scenario, "aot_eager", tolerance=1e-6)


def test_parameter_written_after_use() -> None:
    def scenario(compile, note):
        p = nn.Parameter(torch.arange(3.0))

        def f(x):
            y = p * p * x
            with torch.no_grad():
                p.mul_(0.5)
            return y

        f = compile(f)
        for _ in range(2):
            note(f, torch.ones(3))
            note.value(p)

    same_scenario(scenario, "aot_eager")


# ---- Programs that set the gradient of a tensor, and operators of `torch.ops` --------------------------------------
def with_gradient():
    x = torch.randn(3, requires_grad=True)
    x.grad = torch.ones(3)
    return x


def test_set_to_none():
    def program(x):
        y = x * 2
        x.grad = None
        return y, x.grad is None

    same(program, with_gradient, compare_dynamo=False, grads=False)


def test_set_to_a_result():
    def program(x):
        with torch.no_grad():
            x.grad = x * 3
            return x.grad + 1

    same(program, T(3, grad=True), compare_dynamo=False, grads=False)


def test_scaled():
    def program(x):
        with torch.no_grad():
            x.grad = x.grad * 0.5
            x.grad.add_(1)
        return x * 2

    same(program, with_gradient, compare_dynamo=False, grads=False)


def test_refused_as_uncompiled():
    def program(x, y):
        try:
            x.grad = y
        except RuntimeError as error:
            return str(error)[:40], x + 1

    same(program, T(3, grad=True), T(4), fullgraph=False, compare_dynamo=False, grads=False)


def test_operators():
    def program(x):
        return torch.ops.aten.add.Tensor(torch.ops.aten.relu(x), x, alpha=2)

    same(program, T(3))
