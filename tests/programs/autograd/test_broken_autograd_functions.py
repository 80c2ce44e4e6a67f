"""`torch.autograd.Function`: what breaks the graph in `forward` or `backward`, and gradients that don't fit the inputs."""

import warnings

import pytest
import torch
import torch.nn as nn
from torch._dynamo.backends.common import aot_autograd

import stator
from tests.support.engine import CAPTURES, Recorder, compile, reset, unsupported
from tests.support.harness import Source, T, same


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


BROKEN = {
    "a break in forward": """
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        print("forward")
        ctx.save_for_backward(x)
        return y + 1
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]
""",
    "a break in backward": """
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        if grad.sum() > 100:
            return grad
        return grad * ctx.saved_tensors[0]
""",
    "an effect in backward": """
LOG = []
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        LOG.append(1)
        return grad * len(LOG)
""",
    "an effect on something made before, in backward": """
class Settings: pass
SETTINGS = Settings()
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        SETTINGS.log = [3]
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        SETTINGS.log.append(1)
        return grad * 2
""",
    "the context counts": """
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.count = 1
        ctx.log = []
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        ctx.count += 1
        return grad * ctx.count
""",
    "the state of autocast in backward": """
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * (5 if torch.is_autocast_enabled("cpu") else 2)
    @classmethod
    def apply(cls, x):
        with torch.autocast("cpu"):
            return super().apply(x)
""",
    "the grad mode in backward": """
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * (5 if torch.is_grad_enabled() else 2)
""",
    "writes to an input": """
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, grad):
        return grad * 7
""",
    "writes to a saved tensor in backward": """
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.kept = x * 2
        return x * 3
    @staticmethod
    def backward(ctx, grad):
        ctx.kept.view(-1).add_(1)
        return grad * ctx.kept
""",
    "backward and vjp": """
class Opaque(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 3
    @staticmethod
    def vjp(ctx, grad):
        return grad * 5
""",
    "saved_tensors given away": """
class Opaque(torch.autograd.Function):
    kept = None
    @staticmethod
    def forward(ctx, x):
        Opaque.kept = ctx
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad
""",
}


@pytest.mark.parametrize("name", BROKEN)
def test_refused(name):
    source = BROKEN[name] + "\ndef f(x):\n    y = x * 1\n    return Opaque.apply(y).sin() + 1\n"
    if name == "writes to an input":
        source = BROKEN[name] + "\ndef f(x):\n    return Opaque.apply(x).sin() + 1\n"
    leaf = name == "writes to an input"
    same(Source(source), T(4, grad=not leaf), fullgraph=False, compare_dynamo=False)
    if CAPTURES and not leaf:
        with pytest.raises(unsupported()):
            compile(Source(source).namespace()["f"], fullgraph=True)(torch.ones(4, requires_grad=True))


UNFIT = {
    "too few": "()",
    "too many": "(grad, None, grad)",
    "for a number": "(grad, grad)",
}


def nothing_compiled(graph, inputs):
    """A backend that Stator does not know as one that traces the backward pass."""
    return aot_autograd(fw_compiler=lambda graph, inputs: graph)(graph, inputs)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", nothing_compiled])
@pytest.mark.parametrize("returned", UNFIT.values(), ids=UNFIT)
def test_gradients_that_do_not_fit(returned, backend, dynamic):
    text = f"""
class Unfit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, number):
        return x * number
    @staticmethod
    def backward(ctx, grad):
        return {returned}
def f(x):
    return Unfit.apply(x, 3).sin()
"""
    program = Source(text).namespace()["f"]
    errors = []
    for one in (program, stator.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)):
        for size in (3, 5):
            x = torch.arange(float(size), requires_grad=True)
            result = one(x)
            assert torch.equal(result, (x * 3).sin())
            with pytest.raises(RuntimeError) as error:
                result.sum().backward()
            assert x.grad is None
            errors.append(str(error.value))
    assert len(set(errors)) == 1 and "UnfitBackward returned a" in errors[0]


def test_a_forward_with_a_break_is_captured_around_it():
    source = Source(BROKEN["a break in forward"] + "\ndef f(x):\n    return Opaque.apply(x)\n").namespace()
    recorder = Recorder()
    f = compile(source["f"], backend=recorder, fullgraph=False)
    for _ in range(3):
        x = torch.ones(4, requires_grad=True)
        f(x).sum().backward()
        assert torch.equal(x.grad, torch.ones(4))
    if CAPTURES:
        assert len(recorder.graphs) == 2
