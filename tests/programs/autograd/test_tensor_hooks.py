"""Hooks that a program registers on tensors while it runs compiled."""

import functools

import pytest
import torch
import torch.nn as nn

from tests.support.engine import CAPTURES, Recorder, compile, reset, unsupported
from tests.support.harness import Built, T, same


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


def test_hook_on_an_input():
    def program(x):
        x.register_hook(lambda grad: grad * 3)
        return x * 2

    same(program, T(3, grad=True), compare_dynamo=False)


def test_several_hooks_in_order():
    def program(x):
        x.register_hook(lambda grad: grad + 1)
        y = x * x
        x.register_hook(lambda grad: grad * 10)
        return y

    same(program, T(3, grad=True), compare_dynamo=False)


def test_hook_closes_over_a_result():
    def program(x):
        y = x.sin()
        x.register_hook(lambda grad: grad + y.detach())
        return y.cos()

    same(program, T(3, grad=True), compare_dynamo=False)


def test_hook_removed_inside():
    def program(x):
        handle = x.register_hook(lambda grad: grad * 3)
        y = x * 2
        handle.remove()
        handle.remove()
        return y

    same(program, T(3, grad=True), compare_dynamo=False)


def test_handle_leaves_the_program():
    def program(x):
        handle = x.register_hook(lambda grad: grad * 2)
        return x * 2, handle, [handle]

    x = torch.ones(3, requires_grad=True)
    y, handle, [again] = compile(program, fullgraph=True)(x)
    assert type(handle) is torch.utils.hooks.RemovableHandle and handle is again
    y.sum().backward()
    assert x.grad.tolist() == [4.0] * 3
    handle.remove()
    (x * 1).sum().backward()
    assert x.grad.tolist() == [5.0] * 3


def test_handle_kept_by_a_module():
    class Keeps(nn.Module):
        def __init__(self):
            super().__init__()
            self.handle = None

        def forward(self, x):
            self.handle = x.register_hook(lambda grad: grad * 2)
            return x + 1

    module, x = Keeps(), torch.ones(3, requires_grad=True)
    compile(module, fullgraph=True)(x).sum().backward()
    assert x.grad.tolist() == [2.0] * 3
    module.handle.remove()
    assert not x._backward_hooks


def test_hook_on_a_parameter():
    class Clipped(nn.Linear):
        def forward(self, x):
            self.weight.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
            return super().forward(x)

    same(Built(lambda: Clipped(3, 3)), T(2, 3), compare_dynamo=False)


def test_hook_after_accumulation():
    def program(x):
        x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.mul_(5))
        return x * 2

    same(program, T(3, grad=True), compare_dynamo=False)


def test_hook_on_a_result_inside():
    def program(x):
        y = x * 2
        before = y + 1
        y.register_hook(lambda grad: grad * 7)
        return before + y * 3

    same(program, T(3, grad=True), compare_dynamo=False)
    same(program, T(3, grad=True), compare_dynamo=False, backend="aot_eager")


def test_hook_inside_that_gives_nothing():
    def program(x):
        y = x * 2
        y.register_hook(lambda grad: None)
        return y.sum()

    same(program, T(3, grad=True), compare_dynamo=False, backend="aot_eager")


def scaled(grad, *, by=1):
    return grad * by


def test_partial_hook_inside():
    def program(x):
        y = x * 2
        y.register_hook(functools.partial(scaled, by=3))
        y.register_hook(functools.partial(scaled, by=-1))
        return y + 1

    same(program, T(3, grad=True), compare_dynamo=False, backend="aot_eager")


def test_another_hook_inside_is_another_graph():
    hook = functools.partial(scaled, by=2)

    def program(x):
        y = x * 2
        y.register_hook(hook)
        return y + 1

    recorder = Recorder()
    compiled = compile(program, backend=recorder, fullgraph=True)
    for factor in (2, 2, 5):
        hook = hook if hook.keywords["by"] == factor else functools.partial(scaled, by=factor)
        x = torch.ones(3, requires_grad=True)
        compiled(x).sum().backward()
        assert x.grad.tolist() == [2.0 * factor] * 3
    if CAPTURES:
        assert recorder.count == 2


@pytest.mark.skipif(not CAPTURES, reason="about capture alone")
@pytest.mark.parametrize(
    "hook",
    [
        pytest.param("def hook(grad):\n    seen.append(grad)", id="changes something outside"),
        pytest.param("def hook(grad):\n    return grad.mul_(2)", id="changes the gradient"),
        pytest.param("def hook(grad):\n    return grad if grad.is_contiguous() else -grad", id="asks for the layout"),
        pytest.param("def hook(grad):\n    raise ValueError", id="raises"),
        pytest.param("def hook(grad):\n    return grad * grad.sum().item()", id="reads data"),
    ],
)
def test_hook_inside_that_is_not_captured(hook):
    scope = {"seen": []}
    exec(hook, scope)

    def program(x):
        y = x * 2
        y.register_hook(scope["hook"])
        return y + 1

    with pytest.raises(unsupported()):
        compile(program, fullgraph=True)(torch.ones(3, requires_grad=True))
    # With a graph break it behaves as uncompiled.
    uncompiled, x = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    results = []
    for function, leaf in ((program, uncompiled), (compile(program, fullgraph=False), x)):
        try:
            function(leaf).backward(torch.full((3,), 2.0))
            results.append(leaf.grad.tolist())
        except ValueError as error:
            results.append(type(error))
    assert results[0] == results[1]
    assert len(scope["seen"]) in (0, 2)


def test_hook_without_gradient_raises_as_uncompiled():
    def program(x):
        x.register_hook(lambda grad: grad)
        return x

    same(program, T(3), fullgraph=False, compare_dynamo=False)


class Holder:
    def __init__(self, value):
        self.value = value

    def hook(self, grad):
        return grad * self.value


def scaled_by_holder(grad, holder, by=1):
    return grad * holder.value + by


BOUND = {
    "partial over an object": lambda holder: functools.partial(scaled_by_holder, holder=holder, by=2),
    "method": lambda holder: holder.hook,
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", [*BOUND, "closure over an argument"])
@pytest.mark.parametrize("is_new", [True, False])
def test_hook_on_a_result_is_bound_to_an_object(kind, backend, is_new):
    """The values that the hook reads are inputs of the graph, or guarded. An outside object may change until it is called."""

    def program(x, holder, value):
        y = x.sin()
        if kind == "closure over an argument":
            y.register_hook((lambda grad: grad + value) if is_new else (lambda grad: grad + holder.value))
        else:
            y.register_hook(BOUND[kind](Holder(value) if is_new else holder))
        return y.cos()

    compiled = compile(program, backend=backend, fullgraph=is_new)
    for value in (torch.arange(3.0), torch.ones(3), 4.0, 5.0, 6.0, torch.zeros(3)):
        gradients = []
        for one in (program, compiled):
            x, holder = torch.linspace(0, 1, 3, requires_grad=True), Holder(value)
            result = one(x, holder, value)
            if not is_new:
                holder.value = 7.0
            result.sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients)


def test_hook_on_a_result_encloses_what_changes():
    """The hook sees the variable as it is in the backward pass."""

    def program(x):
        y = x.sin()
        scale = 2.0
        y.register_hook(lambda grad: grad * scale)
        scale = 5.0
        for index in range(3):
            y.register_hook(lambda grad: grad + index)
        return y.cos()

    same(program, T(3, grad=True), compare_dynamo=False, fullgraph=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_hook_on_a_result_reads_a_number_that_changes(backend):
    space = {"FACTOR": 1}

    def program(x):
        y = x * 2
        y.register_hook(lambda grad: grad * space["FACTOR"])
        return y * 3

    compiled = compile(program, backend=backend, fullgraph=False)
    for factor in (1, 2, 3, 4, 5, 2):
        space["FACTOR"] = factor
        x = torch.ones(3, requires_grad=True)
        compiled(x).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), 6.0 * factor))
