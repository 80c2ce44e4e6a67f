"""Entries keep nothing alive that the program has dropped, while the compiled function itself is alive."""

import functools
import gc
import weakref

import pytest
import torch
import torch._dynamo
from torch import nn

from tests.support.engine import ENGINE, compile, reset

pytestmark = pytest.mark.skipif(ENGINE != "stator", reason="what an entry holds")


@torch._dynamo.disable
def opaque(tensor):
    return 2


class Held:
    def __init__(self):
        self.tensor = torch.ones(2)

    def scale(self, x):
        return x * self.tensor


class Broken(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        y = self.layer(x)
        return self.layer(y) * opaque(y)


def generate(held, x):
    for _ in range(3):
        yield x * held.tensor


def with_default(held, x):
    def inner(t, unused=held):
        return t + 1

    return call_it(inner, x)


def call_it(function, x):
    return function(x) * 2


def caught(held, x):
    try:
        raise ValueError(held)
    except ValueError:
        return x * 2


def changed(held, x):
    held.count = 3
    return x * 2


def compared(held, x):
    def one():
        return held

    return x * 2 if one is held.scale else x


USES = {
    "an argument": lambda held, x: x * held.tensor,
    "an argument with a break": lambda held, x: x * held.tensor * opaque(x),
    "an object that is changed": changed,
    "a generator": lambda held, x: sum(generate(held, x)),
    "a default value": with_default,
    "an exception": caught,
    "a partial": lambda held, x: call_it(functools.partial(Held.scale, held), x),
    "a bound method": lambda held, x: call_it(held.scale, x),
    "an identity": lambda held, x: x * 2 if held is x else x,
    "a list": lambda held, x: [held][0].scale(x),
    "a key": lambda held, x: x * {held: 3}[held],
    "functions compared": compared,
}


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


@pytest.mark.parametrize("name", USES)
def test_objects(name):
    compiled = compile(USES[name], fullgraph=False)
    for _ in range(2):
        held = Held()
        for _ in range(3):
            compiled(held, torch.ones(2))
        references = [weakref.ref(held), weakref.ref(held.tensor)]
        del held
        assert [reference() for reference in references] == [None, None]


def test_functions():
    compiled = compile(call_it, fullgraph=False)
    same = compile(lambda one, other, x: x * 2 if one is other else x, fullgraph=False)
    held = Held()
    for function in (lambda t: t + 1, lambda t, unused=held: t * 2):
        for _ in range(3):
            compiled(function, torch.ones(2))
            same(function, call_it, torch.ones(2))
        reference = weakref.ref(function)
    reference_to_held = weakref.ref(held)
    del function, held
    assert reference() is None and reference_to_held() is None


@pytest.mark.parametrize("make", [lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU()), Broken])
def test_modules(make):
    function = compile(lambda module, x: module(x) * 2, fullgraph=False)
    for _ in range(2):
        module = make()
        compiled = compile(module, fullgraph=False)
        for _ in range(3):
            compiled(torch.ones(2))
            function(module, torch.ones(2))
        references = [weakref.ref(module), weakref.ref(compiled), weakref.ref(next(module.parameters()))]
        del module, compiled
        gc.collect()
        assert [reference() for reference in references] == [None] * 3


def test_what_is_replaced():
    held = Held()

    def f(x):
        held.tensor = x * 2
        return x + 1

    compiled = compile(f)
    for _ in range(4):
        before = weakref.ref(held.tensor)
        compiled(torch.ones(2))
        assert before() is None


def test_arguments_of_what_is_called():
    seen = []

    @torch._dynamo.disable
    def drops(argument):
        reference = weakref.ref(argument)
        argument = None
        seen.append(reference() is None)

    def f(x):
        drops(x * 2)
        drops(argument=x + 1)
        return x

    compiled = compile(f, fullgraph=False)
    for function in (f, compiled, compiled):
        function(torch.ones(2))
    assert seen == [seen[0], seen[1]] * 3


def with_class(layer):
    """A module whose class, defined here, closes over the layer."""

    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x)

    return Local()


def method_of_class(layer):
    class Local:
        def scale(self, x):
            return layer(x)

    return Local().scale


def function_of_class(layer):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + layer.bias

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    return lambda x: Double.apply(x)


def closure(layer):
    def inner(x):
        return layer(x)

    return lambda x: inner(x) + 1


@pytest.mark.parametrize("make", [with_class, method_of_class, function_of_class, closure])
@pytest.mark.parametrize("is_kept", [True, False])
def test_what_was_compiled_and_dropped(make, is_kept):
    """Neither a live compiled function nor what is left of a freed one keeps a class of the program alive."""
    layer = nn.Linear(2, 2)
    subject = make(layer)
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        expected = subject(x)
        compiled = compile(subject, fullgraph=False)
        for _ in range(2):
            assert torch.equal(compiled(x), expected)
        if not is_kept:
            del compiled
            assert torch.equal(compile(subject, fullgraph=False)(x), expected)
    references = [weakref.ref(layer), weakref.ref(layer.weight)]
    del subject, layer
    compiled = None
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_what_is_compiled_anew_is_not_captured_anew():
    """A class defined in a function has its entries for as long as its object is there."""
    subject = with_class(nn.Linear(2, 2))
    captured = []

    def backend(graph, inputs):
        captured.append(graph)
        return graph

    for _ in range(3):
        compile(subject, backend=backend)(torch.ones(2))
    assert len(captured) == 1
