"""`torch.autograd.grad` and `backward()` inside of the program, captured with `trace_autograd_ops`."""

import pytest
import torch

import stator
from tests.support.long import every
from tests.support.scenarios import same_scenario

BACKENDS = ["eager", "aot_eager", "inductor"]
X = torch.arange(1.0, 9.0).reshape(2, 4)


@pytest.fixture(autouse=True)
def captured():
    import torch._dynamo.config as config

    with config.patch(trace_autograd_ops=True):
        yield


def made():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))


def gradients(model, x):
    loss = model(x).square().sum()
    return loss.detach(), torch.autograd.grad(loss, list(model.parameters()))


def gradient_of_one(model, x):
    weight = model[0].weight
    return torch.autograd.grad(model(x).sum(), weight)[0] * 2


def several_results(model, x):
    y = model(x)
    weights = torch.ones_like(y)
    return torch.autograd.grad((y, y.sum()), tuple(model.parameters()), grad_outputs=(weights, None))


def backward(model, x):
    model(x).square().sum().backward()
    return [one.grad * 2 for one in model.parameters()]


def backward_twice(model, x):
    loss = model(x).square().sum()
    loss.backward(retain_graph=True)
    first = model[0].weight.grad
    loss.backward()
    return first is model[0].weight.grad, first


def backward_of_some(model, x):
    model(x).sum().backward(inputs=[model[0].bias])
    return model[0].weight.grad, model[0].bias.grad


def backward_with_a_gradient(model, x):
    y = model(x)
    y.backward(torch.full_like(y, 2.0))
    return model[2].bias.grad


def a_step(model, x):
    model(x).sum().backward()
    with torch.no_grad():
        for one in model.parameters():
            one.sub_(0.1 * one.grad)
            one.grad = None
    return model[0].weight.detach().clone()


def of_an_intermediate_leaf(model, x):
    y = model(x).detach().requires_grad_()
    (y * y).sum().backward()
    return y.grad, y.detach()


def chunks(model, x):
    hidden = model[0](x)
    leaf = hidden.detach().requires_grad_()
    total = torch.zeros(())
    for part in (leaf[:1], leaf[1:]):
        loss = model[2](part).square().sum()
        loss.backward()
        total = total + loss.detach()
    hidden.backward(leaf.grad)
    return total


def of_an_unused_parameter(model, x):
    model[0](x).sum().backward()
    return model[2].weight.grad


def returns_what_was_consumed(model, x):
    loss = model(x).sum()
    loss.backward()
    return loss


def under_a_write_through_a_view(model, x):
    y = x * 1
    y[0].mul_(model[0].bias[0])
    y.sum().backward()
    return y.detach(), model[0].bias.grad


def of_nothing(model, x):
    try:
        x.sum().backward()
    except RuntimeError as error:
        return str(error)


PROGRAMS = [
    gradients,
    gradient_of_one,
    several_results,
    backward,
    backward_twice,
    backward_of_some,
    backward_with_a_gradient,
    a_step,
    of_an_intermediate_leaf,
    chunks,
    of_an_unused_parameter,
    returns_what_was_consumed,
    under_a_write_through_a_view,
    of_nothing,
]


COMPILED = every(15, PROGRAMS, 0)


@pytest.mark.parametrize(
    "program, backend",
    [(program, backend) for backend in BACKENDS for program in (COMPILED if backend == "inductor" else PROGRAMS)],
    ids=lambda one: getattr(one, "__name__", one),
)
def test_same_as_uncompiled(program, backend):
    def scenario(compile, note):
        model = made()
        f = compile(program)
        for call in range(3):
            result = note(f, model, X + call)
            note.value([one.grad for one in model.parameters()])
            if torch.is_tensor(result) and result.requires_grad:
                note(lambda result=result: result.backward())

    same_scenario(scenario, backend, tolerance=1e-4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS[:10], ids=lambda one: one.__name__)
def test_one_graph(program, backend):
    model, expected = made(), made()
    f = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(f(model, X), program(expected, X))


def test_a_history_from_before_the_call_breaks_the_graph():
    def scenario(compile, note):
        weight = torch.ones(4, requires_grad=True)
        f = compile(lambda y: (y * 3).sum().backward())
        for _ in range(2):
            note(f, weight * 2)
            note.value(weight.grad)

    same_scenario(scenario, "eager")


def test_hooks_break_the_graph():
    def scenario(compile, note):
        weight = torch.ones(4, requires_grad=True)
        f = compile(lambda x: (x * weight).sum().backward())
        note(f, torch.ones(4))
        note.value(weight.grad)
        weight.register_post_accumulate_grad_hook(lambda one: one.grad.mul_(10))
        note(f, torch.ones(4))
        note.value(weight.grad)

    same_scenario(scenario, "eager")


def test_a_break_without_the_setting():
    import torch._dynamo.config as config

    with config.patch(trace_autograd_ops=False), pytest.raises(Exception, match="autograd is run inside"):
        stator.compile(backward, backend="eager", fullgraph=True)(made(), X)


@pytest.mark.parametrize("program", [gradients, backward])
def test_nodes_that_compute_gradients_are_marked(program):
    marked = []

    def backend(module, inputs):
        marked.extend(node.op for node in module.graph.nodes if node.meta.get("autograd_backward"))
        return module.forward

    stator.compile(program, backend=backend, fullgraph=True)(made(), X)
    assert marked == ["call_function"]
