"""Tensors that start or cease to require a gradient inside of the program."""

import pytest
import torch

import stator
from tests.support.harness import T, same
from tests.support.scenarios import same_scenario

BACKENDS = ["eager", "aot_eager"]
W = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
PLAIN, LEAF = lambda: torch.arange(1.0, 4.0), lambda: torch.arange(1.0, 4.0, requires_grad=True)


def returns_the_leaf(x):
    y = x * 2
    y.requires_grad_()
    return y


def returns_what_depends_on_it(x):
    y = (x * 2).detach().requires_grad_()
    return y * 3, y


def assigns_the_attribute(x):
    y = x.detach() + 1
    y.requires_grad = True
    return y.requires_grad, y.is_leaf, y.grad, (y * y).sum(), y


def an_input(x):
    before = x.requires_grad
    x.requires_grad_()
    return before, x.requires_grad, (x * x).sum()


def an_input_that_ceases(x):
    y = x * 2
    x.requires_grad_(False)
    return y, x * 3


def a_leaf_that_ceases_again(x):
    y = torch.zeros(3, requires_grad=True)
    z = x + y
    y.requires_grad_(requires_grad=False)
    return z, y * 2, y


def a_leaf_that_is_made(x):
    y = torch.full((3,), 2.0, requires_grad=True)
    return (x * y).sum(), y


def without_gradients(x):
    with torch.no_grad():
        y = (x * 2).requires_grad_()
        z = y * 3
    return y, z, y * 4


def is_written_to(x):
    y = (x.detach() * 2).requires_grad_()
    with torch.no_grad():
        y.mul_(2)
    return y * 3, y


def is_written_to_through_its_base(x):
    z = x.detach() * 2
    y = z.detach().requires_grad_()
    z.add_(1)
    return y * 3, y, z


def reads_after_the_backward(x):
    y = (x.detach() * 2).requires_grad_()
    (y * y).sum().backward()
    return y.grad, y


def refused_write(x):
    y = (x.detach() * 2).requires_grad_()
    try:
        y.mul_(2)
    except RuntimeError as error:
        return str(error), y
    return y


def refused_view(x):
    y = (x.detach() * 2).requires_grad_()
    try:
        y[1:].mul_(2)
    except RuntimeError as error:
        return str(error), y
    return y


def of_integers(x):
    y = x.detach().long()
    try:
        y.requires_grad_()
    except RuntimeError as error:
        return str(error), x + 1
    return y


def of_a_result(x):
    y = x * W
    try:
        y.requires_grad_(False)
    except RuntimeError as error:
        return str(error), y
    return y


def of_a_view(x):
    y = x.detach() * 2
    v = y[1:]
    v.requires_grad_()
    return v.requires_grad, v.is_leaf, y, v * 2


def gets_a_history(x):
    y = x.detach() * 2
    v, w = y[1:], y.detach()[:1]
    y.mul_(W)
    return v.requires_grad, v.is_leaf, (v * 2).requires_grad, w.requires_grad, v * 3


def gets_a_history_through_a_view(x):
    y = x.detach() * 2
    v, w = y[1:], y[:1]
    v.mul_(W[1:])
    return v.requires_grad, y.requires_grad, y.is_leaf, w.requires_grad, (y * 2).requires_grad, y * 2


def gets_a_history_by_an_item(x):
    y = x.detach() * 2
    y[0] = W[0]
    return y.requires_grad, (y * 2).requires_grad, y * 2


def an_input_gets_a_history(x):
    if x.requires_grad:
        return x + 1
    v = x[1:]
    v.mul_(W[1:])
    return x.requires_grad, (x * 2).requires_grad, v.requires_grad, x * 2


def detached_views_get_none(x):
    y = x.detach() * 2
    v, w = y.view(-1)[1:], y.detach()[1:]
    w[:1].mul_(W[1:2])
    return v.requires_grad, y.requires_grad, w.requires_grad, v * 2, w * 2


def of_a_base(x):
    y = x.detach() * 2
    v = y[1:]
    y.requires_grad_()
    return v.requires_grad, v * 2, y * 3


def a_parameter(x):
    p = torch.nn.Parameter(x.detach() * 2)
    return (
        isinstance(p, torch.nn.Parameter),
        type(p) is torch.nn.Parameter,
        p.is_leaf,
        p.requires_grad,
        (p * W).sum(),
        p,
    )


def a_parameter_of_the_input(x):
    p = torch.nn.Parameter(x)
    with torch.no_grad():
        p.mul_(2)
    return p * 3, p, x * 4


def a_parameter_of_a_result_with_a_history(x):
    y = x * W
    p = torch.nn.Parameter(y)
    return (p * y).sum(), p


def parameters_of_a_module(x):
    layer = torch.nn.Linear(3, 3)
    layer.weight = torch.nn.Parameter(torch.eye(3) * 2)
    layer.bias = torch.nn.Parameter(x.detach(), requires_grad=False)
    return layer(x), layer.weight, layer.bias


def a_parameter_without_gradients(x):
    with torch.no_grad():
        p = torch.nn.Parameter(x + 1)
        y = p * 2
    return y, y.requires_grad, p * 3, p


def a_parameter_that_needs_floats(x):
    return torch.nn.Parameter(x.long())


PROGRAMS = [value for name, value in list(globals().items()) if callable(value) and value.__module__ == __name__][2:]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [PLAIN, LEAF], ids=["plain", "leaf"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_same_as_uncompiled(program, make, backend):
    def scenario(compile, note):
        W.grad = None
        f = compile(program)
        for _ in range(3):
            x = make()
            result = note(f, x)
            note.value(x)
            tensors = [one for one in (result if isinstance(result, tuple) else (result,)) if torch.is_tensor(one)]
            for one in tensors:
                if one.requires_grad:
                    one.sum().backward(retain_graph=True)
            note.value([one.grad for one in tensors if one.is_leaf])
            note.value([x.grad, x.requires_grad, x._version, W.grad])

    same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program", [returns_the_leaf, returns_what_depends_on_it, an_input, a_leaf_that_is_made, a_parameter]
)
def test_captured_in_one_graph(program, backend):
    f = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(f(PLAIN()), program(PLAIN()))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_one_graph_that_a_backend_would_not_keep(backend):
    f = stator.compile(returns_what_depends_on_it, backend=backend, fullgraph=True)
    for _ in range(2):
        z, y = f(PLAIN())
        z.sum().backward()
        assert y.is_leaf
        assert y.grad.tolist() == [3, 3, 3]


def test_a_gradient_that_is_set_on_a_result():
    def program(x):
        y = x * 2
        y.grad = x + 1
        before = y.grad
        z = x * 3
        z.grad = None
        return y, before is y.grad, z, z.grad

    same(program, T(3))
