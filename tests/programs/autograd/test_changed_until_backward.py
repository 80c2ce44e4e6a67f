"""Hooks, `Function.backward` and checkpointed functions read values as they are when the backward pass runs, not as
they were in the forward pass."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator
from tests.support.engine import captured_graphs
from tests.support.scenarios import same_scenario

SETTINGS = {"factor": 2.0}
NUMBER = 3.0
ITEMS = [1.0]


class Settings:
    factor = 2.0


OBJECT = Settings()
TENSOR = torch.ones(3)


def reset() -> None:
    global NUMBER, TENSOR
    SETTINGS["factor"], NUMBER, ITEMS[0], Settings.factor = 2.0, 3.0, 1.0, 2.0
    OBJECT.__dict__.clear()
    TENSOR = torch.ones(3)


def change() -> None:
    global NUMBER
    SETTINGS["factor"], NUMBER, ITEMS[0], Settings.factor, OBJECT.own = 5.0, 7.0, 11.0, 13.0, 17.0
    TENSOR.add_(1)


READERS = {
    "item of a dict": lambda g: g * SETTINGS["factor"],
    "method of a dict": lambda g: g * SETTINGS.get("factor"),
    "global number": lambda g: g * NUMBER,
    "item of a list": lambda g: g + ITEMS[0],
    "sum of a list": lambda g: g + sum(ITEMS),
    "attribute of an object": lambda g: g * getattr(OBJECT, "own", 1.0) + OBJECT.factor,
    "attribute of a class": lambda g: g * Settings.factor,
    "global tensor": lambda g: g * TENSOR,
    "library": lambda g: torch.nn.functional.relu(g) * 2,
}


def as_hook(read):
    def f(x):
        y = x * 2
        y.register_hook(read)
        return y * y

    return f


def as_lambda(read):
    def f(x):
        y = x * 2
        y.register_hook(lambda g: read(g) + 1)
        return y * y

    return f


def as_leaf_hook(read):
    def f(x):
        x.register_hook(lambda g: read(g))
        return x * x

    return f


def as_backward(read):
    class Reads(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return read(g) * x

    return lambda x: Reads.apply(x) * x


def as_checkpoint(read):
    return lambda x: checkpoint(lambda y: read(y.sin()), x, use_reentrant=False) * 2


WAYS = [as_hook, as_lambda, as_leaf_hook, as_backward, as_checkpoint]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_read_when_backward_runs(way, read: str, backend: str) -> None:
    def scenario(compile, note):
        f = compile(way(READERS[read]))
        for changes in (False, True, True):
            reset()
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            result = note(f, x)
            if changes:
                change()
            note.gradients(result, x)

    same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_variable_of_an_enclosing_function(backend: str) -> None:
    def scenario(compile, note):
        factor = 2.0

        def f(x):
            y = x * 2
            y.register_hook(lambda g: g * factor)
            return y * y

        f = compile(f)
        for later in (2.0, 9.0, 4.0):
            factor = 2.0
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            result = note(f, x)
            factor = later
            note.gradients(result, x)

    same_scenario(scenario, backend)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, g * ctx.scale, torch.zeros_like(g)), None


def hook_of_constants(x):
    y = x * 2
    y.register_hook(lambda g: g.clamp(-1, 1) * 2)
    return y * y


MODEL = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())


@pytest.mark.parametrize(
    "f",
    [
        lambda x: Scaled.apply(x, NUMBER) * 2,
        hook_of_constants,
        lambda x: checkpoint(MODEL, x, use_reentrant=False) * 2,
        lambda x: checkpoint(lambda y: MODEL(y).sin(), x, use_reentrant=False) * 2,
    ],
    ids=["Function", "hook", "module", "lambda"],
)
def test_ordinary_ones_are_captured(f) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    stator.compile(f, backend="aot_eager", fullgraph=True)(x).sum().backward()
    assert len(captured_graphs(f, x)) == 1
