"""torch.compile around, inside and next to functions that Stator compiles: the outermost compiler wins, functions
compiled by torch.compile inside keep their backend, and no nesting fails."""

from __future__ import annotations

import functools
import sys

import pytest
import torch
import torch._dynamo
from torch import nn

import stator
from tests.support.engine import Recorder

pytestmark = pytest.mark.usefixtures("engine")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(torch.sin(self.layer(x)))


class Around(nn.Module):
    def __init__(self, inner) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x * 2) + 1


def function(x):
    return torch.sin(x) * 2


def calling(inner):
    return lambda x: inner(x * 3) + 1


def with_forward(compiler):
    model = Net()
    model.forward = compiler(model.forward)
    return model


def in_place(compiler):
    model = Net()
    compiler(model)
    return model


def passed_on(inner):
    @functools.wraps(inner)
    def outer(x):
        return inner(x) + 1

    return outer


# What is built, given the two compilers and torch.compiler.disable; then how many graphs each compiler gets. Built
# again without compilers, it has to compute the same.
NESTINGS = {
    "torch of stator": (lambda s, t, d: t(s(function)), 0, 1),
    "stator of torch": (lambda s, t, d: s(t(function)), 1, 0),
    "torch above stator": (lambda s, t, d: t(calling(s(function))), 0, 1),
    "stator above torch": (lambda s, t, d: s(calling(t(function))), 2, 1),
    "stator above torch above stator": (lambda s, t, d: s(calling(t(calling(s(function))))), 2, 1),
    "torch above stator above torch": (lambda s, t, d: t(calling(s(calling(t(function))))), 0, 1),
    "disabled stator": (lambda s, t, d: d(s(function)), 0, 0),
    "torch of disabled stator": (lambda s, t, d: t(d(s(function))), 0, 1),
    "stator above disabled torch": (lambda s, t, d: s(calling(d(t(function)))), 2, 0),
    "torch of a partial": (lambda s, t, d: t(functools.partial(s(function))), 0, 1),
    "stator of a partial": (lambda s, t, d: s(functools.partial(t(function))), 1, 0),
    "torch of a wrapper": (lambda s, t, d: t(passed_on(s(function))), 0, 1),
    "torch above a wrapper": (lambda s, t, d: t(calling(passed_on(s(function)))), 0, 1),
    "stator of a wrapper": (lambda s, t, d: s(passed_on(t(function))), 1, 1),
    "torch of a module": (lambda s, t, d: t(s(Net())), 0, 1),
    "stator of a module": (lambda s, t, d: s(t(Net())), 1, 0),
    "torch around a module": (lambda s, t, d: t(Around(s(Net()))), 0, 1),
    "stator around a module": (lambda s, t, d: s(Around(t(Net()))), 2, 1),
    "torch above a module": (lambda s, t, d: t(calling(s(Net()))), 0, 1),
    "torch of a compiled forward": (lambda s, t, d: t(with_forward(s)), 0, 1),
    "torch around a compiled forward": (lambda s, t, d: t(Around(with_forward(s))), 0, 1),
    "torch above a method": (lambda s, t, d: t(calling(s(Net().forward))), 0, 1),
    "stator of a compiled forward": (lambda s, t, d: s(with_forward(t)), 1, 0),
    "stator around a compiled forward": (lambda s, t, d: s(Around(with_forward(t))), 2, 1),
    "disabled module": (lambda s, t, d: d(s(Net())), 0, 0),
    "torch around a disabled module": (lambda s, t, d: t(Around(d(s(Net())))), 0, 2),
    "torch of an operation": (lambda s, t, d: s(calling(t(nn.functional.relu))), 2, 1),
}


def built(nesting, *compilers):
    torch.manual_seed(0)
    return nesting(*compilers)


def computes_the_same(compiled, expected):
    for _ in range(2):
        x = torch.randn(3, 4)
        one, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        result, wanted = compiled(one), expected(other)
        torch.testing.assert_close(result, wanted)
        result.sum().backward()
        wanted.sum().backward()
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("name", NESTINGS)
def test_all_nestings_work_and_the_outermost_wins(name):
    torch._dynamo.reset()
    nesting, of_stator, of_torch = NESTINGS[name]
    one, other = Recorder(), Recorder()
    compilers = (functools.partial(stator.compile, backend=one), functools.partial(torch.compile, backend=other))
    computes_the_same(built(nesting, *compilers, torch.compiler.disable), built(nesting, *[lambda inner: inner] * 3))
    assert (one.count, other.count) == (of_stator, of_torch)


@pytest.mark.parametrize("name", [name for name in NESTINGS if "disabled" not in name])
def test_nothing_breaks_with_fullgraph(name):
    torch._dynamo.reset()
    nesting = NESTINGS[name][0]
    one, other = Recorder(), Recorder()
    full = {"fullgraph": True}
    compilers = (
        functools.partial(stator.compile, backend=one, **full),
        functools.partial(torch.compile, backend=other, **full),
    )
    computes_the_same(built(nesting, *compilers, torch.compiler.disable), built(nesting, *[lambda inner: inner] * 3))
    assert one.count + other.count == 1


@pytest.mark.parametrize("name", ["torch above stator", "stator above torch", "torch around a module"])
def test_backends_that_trace_through_autograd(name):
    torch._dynamo.reset()
    compilers = (
        functools.partial(stator.compile, backend="aot_eager"),
        functools.partial(torch.compile, backend="aot_eager"),
    )
    nesting = NESTINGS[name][0]
    computes_the_same(built(nesting, *compilers, torch.compiler.disable), built(nesting, *[lambda inner: inner] * 3))


def test_module_compile_is_one_more_torch_compile():
    torch._dynamo.reset()
    one, other = Recorder(), Recorder()
    model = in_place(lambda model: model.compile(backend=other))
    x = torch.randn(2, 4)
    torch.testing.assert_close(stator.compile(model, backend=one)(x), Net.forward(model, x))
    assert (one.count, other.count) == (1, 0)
    torch.testing.assert_close(stator.compile(Around(model), backend=one)(x), Net.forward(model, x * 2) + 1)
    assert other.count == 1


def test_a_method_that_torch_compiles_keeps_its_backend():
    torch._dynamo.reset()
    other = Recorder()

    class Attending(nn.Module):
        @torch.compile(backend=other)
        def attend(self, x):
            return x.sin()

        def forward(self, x):
            return self.attend(x * 2) + 1

    with stator.watch() as report:
        stator.compile(Attending())(torch.ones(2))
    assert other.count == 1
    assert [broken.kind for broken in report.breaks] == ["compiled-by-torch"]
    assert "attend is compiled by torch.compile" in report.breaks[0].reason


def test_torch_breaks_above_and_takes_over_what_stator_compiled():
    torch._dynamo.reset()
    one, other = Recorder(), Recorder()
    inner = stator.compile(function, backend=one)

    def breaking(x):
        torch._dynamo.graph_break()
        return inner(x) + 1

    x = torch.randn(3)
    outer = torch.compile(breaking, backend=other)
    for _ in range(2):
        torch.testing.assert_close(outer(x), function(x) + 1)
    assert one.count == 0
    torch.testing.assert_close(inner(x), function(x))
    assert one.count == 1


def test_what_can_not_be_traced_through_says_so():
    inner = torch.compile(lambda x: x + sys.getrefcount(x), backend="eager")
    with pytest.raises(stator.Unsupported, match=r"compiled by torch\.compile") as raised:
        stator.compile(calling(inner), fullgraph=True)(torch.ones(2))
    assert "fullgraph=True" in str(raised.value)
