"""`torch.autograd.Function` and hooks on tensors inside of function transforms: nodes that call what the program has
written, if that only computes."""

import pytest
import torch

import stator
from tests.support.harness import Source, T, same, unrelated
from tests.support.scenarios import same_scenario

HEAD = """
import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
FACTOR, seen = 3, []

class Cube(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x): return x * x * x
    @staticmethod
    def setup_context(ctx, inputs, output):
        x, = inputs
        ctx.save_for_backward(x)
        ctx.power = 2
    @staticmethod
    def backward(ctx, gradient):
        x, = ctx.saved_tensors
        return gradient * 5 * x ** ctx.power

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(x, scale): return x * scale * FACTOR, x.sign()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.scale = inputs[1]
        ctx.mark_non_differentiable(output[1])
    @staticmethod
    def backward(ctx, gradient, _): return gradient * ctx.scale * 7, None
    @staticmethod
    def vmap(info, in_dims, x, scale): return Scaled.apply(x, scale * info.batch_size), (in_dims[0], in_dims[0])

class WithTangents(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(x): return x.exp()
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)
    @staticmethod
    def backward(ctx, gradient):
        y, = ctx.saved_tensors
        return Cube.apply(y) * gradient
    @staticmethod
    def jvp(ctx, tangent):
        y, = ctx.saved_tensors
        return tangent * y * 2

class Notes(Cube):
    @staticmethod
    def forward(x):
        seen.append(tuple(x.shape))
        return x * 2

class NotesLater(Cube):
    @staticmethod
    def backward(ctx, gradient):
        seen.append(tuple(gradient.shape))
        return gradient * 2

class Writes(Cube):
    @staticmethod
    def forward(x):
        y = x.clone()
        y += 1
        return y

class Draws(Cube):
    @staticmethod
    def forward(x): return x + torch.rand_like(x)

class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, gradient): return gradient

def triple(gradient): return gradient * 3
def by_global(gradient): return gradient * FACTOR
def noted(gradient): seen.append(tuple(gradient.shape))
def hooked(x, hook):
    y = x * 2
    y.register_hook(hook)
    return (y * y).sum()
"""

CAPTURED = {
    "vmap": "vmap(Cube.apply)(x)",
    "grad": "grad(lambda x: Cube.apply(x).sum())(x)",
    "grad of grad": "vmap(vmap(grad(grad(Cube.apply))))(x)",
    "vmap of grad": "vmap(grad(lambda row: Cube.apply(row).sin().sum()))(x)",
    "grad of vmap": "grad(lambda x: vmap(Cube.apply)(x).sum())(x)",
    "vjp": "vjp(Cube.apply, x)[1](x + 1)",
    "jacrev": "jacrev(Cube.apply)(x[0])",
    "hessian by reverse mode": "jacrev(jacrev(lambda x: Cube.apply(x).sum()))(x[0])",
    "two results, a number, a global": "grad(lambda x: Scaled.apply(x, 2)[0].sum())(x)",
    "a vmap of its own": "vmap(lambda row: Scaled.apply(row, 2))(x)",
    "a vmap of its own along another dimension": "vmap(lambda row: Scaled.apply(row, 2)[0], in_dims=1)(x)",
    "forward mode": "jvp(WithTangents.apply, (x,), (x * 2,))",
    "jacfwd": "jacfwd(WithTangents.apply)(x[0])",
    "one that applies another": "vmap(grad(lambda row: WithTangents.apply(row).sum()))(x)",
    "beside one outside": "grad(lambda x: Cube.apply(x).sum())(x) + Cube.apply(x)",
    "a hook": "grad(hooked)(x, triple)",
    "a hook that reads a global": "grad(hooked)(x, by_global)",
    "a lambda as hook": "grad(hooked)(x, lambda gradient: gradient * 4)",
    "a hook in vmap of grad": "vmap(grad(lambda row: hooked(row, triple)))(x)",
    "a hook and second derivatives": "vmap(vmap(grad(grad(lambda e: hooked(e, triple)))))(x)",
}

# The graph breaks at the outermost transform.
BROKEN = {
    "forward has side effects": "vmap(Notes.apply)(x), seen",
    "backward has side effects": "grad(lambda x: NotesLater.apply(x).sum())(x), seen",
    "forward writes": "vmap(Writes.apply)(x)",
    "forward draws": "vmap(Draws.apply, randomness='same')(x)",
    "without setup_context": "grad(lambda x: Old.apply(x).sum())(x)",
    "a hook with side effects": "grad(hooked)(x, noted), seen",
    "a hook that reads a tensor": "grad(hooked)(x, lambda gradient: gradient * x)",
}


def source(body):
    return Source(HEAD + f"def f(x):\n    y = x.sin() * 2\n    return {body}, y")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name, backend):
    # A number that a backward pass reads may change before that of a compiled graph runs: see below.
    breaks = backend == "aot_eager" and name == "a hook that reads a global"
    same(source(CAPTURED[name]), T(3, 4), compare_dynamo=False, backend=backend, fullgraph=not breaks)


@pytest.mark.parametrize(
    "name", ["vmap", "a vmap of its own", "vmap of grad", "a hook", "two results, a number, a global"]
)
def test_inputs_that_require_a_gradient(name):
    same(source(CAPTURED[name]), T(3, 4, grad=True), compare_dynamo=False, backend="eager")


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    same(source(BROKEN[name]), T(3, 4), compare_dynamo=False, backend="eager", fullgraph=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_they_read_is_guarded(backend):
    changes = [
        "FACTOR = 5",
        "Scaled.forward = staticmethod(lambda x, scale: (x * scale, x + 1))",
        "def number(x, scale): return x * scale * FACTOR, x - 1\nScaled.forward = staticmethod(number)",
        "FACTOR = 6",
        "Scaled.vmap = staticmethod(lambda info, in_dims, x, scale: (Scaled.apply(x, 3), (0, 0)))",
        unrelated("OTHER = 3"),
    ]
    body = CAPTURED["a vmap of its own"]
    same(source(body), T(3, 4), compare_dynamo=False, backend=backend, mutate=changes)


def test_a_number_of_the_backward_pass_that_changes_before_it_runs():
    """A compiler would have traced the hook with the number of the forward pass."""

    def scenario(compile, note):
        def f(x):
            gradient, run = torch.func.grad_and_value(lambda t: hooked(t))(x)
            return gradient * run

        def hooked(t):
            y = t * 2
            y.register_hook(lambda gradient: gradient * factors[0])
            return (y * y).sum()

        factors = [3.0]
        compiled = compile(f)
        for factor in (3.0, 4.0):
            factors[0] = factor
            note(compiled, torch.arange(3.0))

    for backend in ("eager", "aot_eager"):
        same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gradients_through_the_transform(backend):
    space = {}
    exec(HEAD, space)  # noqa: S102
    cube, vmap = space["Cube"], space["vmap"]

    def scenario(compile, note):
        compiled = compile(lambda x: vmap(lambda row: cube.apply(row).sum())(x).sin())
        for number in range(2):
            x = torch.arange(6.0).reshape(2, 3).add(number).div(8).requires_grad_()
            note.gradients(note(compiled, x), x)

    same_scenario(scenario, backend, tolerance=1e-5)


def test_one_graph_whose_node_is_the_class():
    space = {}
    exec(HEAD, space)  # noqa: S102
    report = stator.explain(lambda x: space["vmap"](space["Cube"].apply)(x))(torch.ones(2, 3))
    assert (report.graph_count, report.graph_break_count) == (1, 0)


def test_the_reason_of_a_break():
    space = {}
    exec(HEAD, space)  # noqa: S102
    report = stator.explain(lambda x: space["vmap"](space["Writes"].apply)(x))(torch.ones(2, 3))
    reason = "a torch.autograd.Function inside of a torch.func transform: forward has an in-place operator"
    assert [one.reason for one in report.breaks] == [reason]
