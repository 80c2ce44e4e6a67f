"""`torch.autograd.Function` inside of checkpointed functions: a node that applies the program's own class, if it only
computes, because PyTorch applies it once more in the backward pass."""

import pytest
import torch

import stator
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario

HEAD = """
import torch
from torch.utils.checkpoint import checkpoint
FACTOR, seen = 3.0, []

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power=2):
        parts = [x, x * power]
        for part in parts[1:]:
            x = x * part
        ctx.save_for_backward(x, *parts)
        ctx.power = power
        return x
    @staticmethod
    def backward(ctx, gradient):
        x, *parts = ctx.saved_tensors
        return gradient * 5 * parts[0] ** ctx.power, None

class New(torch.autograd.Function):
    @staticmethod
    def forward(x, y): return x * y, x.sign()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])
    @staticmethod
    def backward(ctx, gradient, _):
        x, y = ctx.saved_tensors
        return gradient * y * 7, gradient * x

class ByGlobal(Cube):
    @staticmethod
    def forward(ctx, x): return x * FACTOR
    @staticmethod
    def backward(ctx, gradient): return gradient * FACTOR

class Notes(Cube):
    @staticmethod
    def forward(ctx, x):
        seen.append(tuple(x.shape))
        return x * 2
    @staticmethod
    def backward(ctx, gradient): return gradient * 2

class Writes(Notes):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        x.mul_(2)
        return x

class Draws(Notes):
    @staticmethod
    def forward(ctx, x): return x * torch.rand(())
"""

BODIES = {
    "one": "Cube.apply(x.sin()).cos()",
    "with a number": "Cube.apply(x, 3) * 2",
    "two results": "sum(New.apply(x, x.exp()))",
    "one after the other": "New.apply(Cube.apply(x), x)[0]",
    "beside random numbers": "Cube.apply(x) * torch.rand_like(x)",
    "without a gradient": "Cube.apply(x.detach()) + x",
    "nested": "checkpoint(lambda y: Cube.apply(y).sin(), x, use_reentrant=False) + Cube.apply(x)",
}
BROKEN = {
    "a side effect": "Notes.apply(x)",
    "a write": "Writes.apply(x)",
    "random numbers of its own": "Draws.apply(x)",
}


def source(body, how="use_reentrant=False"):
    return Source(HEAD + f"def g(x):\n    return {body}\ndef f(x):\n    return checkpoint(g, x * 2, {how}).sin(), seen")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", BODIES)
def test_captured(name, backend):
    same(source(BODIES[name]), T(3, 4, grad=True), compare_dynamo=False, backend=backend)


@pytest.mark.parametrize("body", ["Cube.apply(x)", "Notes.apply(x)"])
def test_reentrant_checkpoints_differentiate_by_the_backward_of_the_class(body):
    same(
        source(body, "use_reentrant=True"),
        T(3, 4, grad=True),
        compare_dynamo=False,
        backend="eager",
        fullgraph=body != "Notes.apply(x)",
    )


SECOND = """
import torch
class Inner(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * 100 * x

class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 3
    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return Inner.apply(x) * gradient

def by_a_backward(x): return Outer.apply(x * 2)

def by_a_hook(x):
    y = x * 2
    y.register_hook(lambda gradient: Inner.apply(gradient))
    return y * y

def by_a_hook_that_reads_a_tensor(x):
    y, factor = x * 2, x.detach() + 1
    y.register_hook(lambda gradient: Inner.apply(gradient * factor))
    return y * y
"""


@pytest.mark.parametrize("name", ["by_a_backward", "by_a_hook", "by_a_hook_that_reads_a_tensor"])
def test_second_derivatives_through_a_function_that_a_backward_pass_applies(name):
    space = {}
    exec(SECOND, space)  # noqa: S102

    def scenario(compile, note):
        compiled = compile(space[name])
        for number in range(2):
            x = torch.arange(1.0, 4.0).add(number).requires_grad_()
            (first,) = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)
            note.value(first.detach())
            note.value(torch.autograd.grad(first.sum(), x)[0])

    same_scenario(scenario, "eager")


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    same(source(BROKEN[name]), T(3, 4, grad=True), compare_dynamo=False, backend="eager", fullgraph=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_global_number_is_guarded(backend):
    """A compiler would have traced the backward pass with the number of the forward pass, so the graph breaks there."""
    same(
        source("ByGlobal.apply(x)"),
        T(3, 4, grad=True),
        compare_dynamo=False,
        backend=backend,
        fullgraph=backend == "eager",
        mutate=["FACTOR = 5.0", "ByGlobal.backward = staticmethod(lambda ctx, gradient: gradient * 9)"],
    )


@pytest.mark.parametrize("backend", ["eager", "stator", "aot_eager", "inductor"])
def test_gradients(backend):
    space = {}
    exec(HEAD, space)  # noqa: S102
    cube, checkpoint = space["Cube"], space["checkpoint"]

    def scenario(compile, note):
        linear = torch.nn.Linear(3, 3)
        with torch.no_grad():
            linear.weight.copy_(torch.eye(3) * 2)
            linear.bias.zero_()
        compiled = compile(lambda x: checkpoint(lambda y: cube.apply(linear(y)).sin(), x, use_reentrant=False).sum())
        for number in range(2):
            x = torch.arange(6.0).reshape(2, 3).add(number).div(8).requires_grad_()
            note.gradients(note(compiled, x), x, linear.weight)

    same_scenario(scenario, backend, tolerance=1e-5)


def test_one_graph():
    space = {}
    exec(HEAD, space)  # noqa: S102
    program = lambda x: space["checkpoint"](space["Cube"].apply, x, use_reentrant=False)  # noqa: E731
    report = stator.explain(program)(torch.ones(2, 3, requires_grad=True))
    assert (report.graph_count, report.graph_break_count) == (1, 0)
