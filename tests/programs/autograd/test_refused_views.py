"""Views that autograd refuses, in graphs for a compiler: one of several views, and views made without gradients. Writing
to them, or reading them after a write to what they are views of, raises as uncompiled; gradients pass them as uncompiled."""

import pytest
import torch

import stator
from tests.support.scenarios import same_scenario

REFUSED = {
    "one of split": "(a * 1).split(1)[0].mul_(2)",
    "one of unbind": "(a * 1).unbind()[1].add_(1)",
    "one of chunk": "(a * 1).chunk(2)[0].zero_()",
    "one of several sizes": "(a * 1).split_with_sizes([1, 2])[1].zero_()",
    "a view of one of several": "(a * 1).split(2)[0][1:].mul_(2)",
    "made without gradients": "without_gradients(a)[1:].mul_(2)",
    "of a custom function": "Viewed.apply(a * 1).mul_(2)",
    "detached in place": "(a * 1)[1:].detach_()",
    "read after a write": "after_write(a * 1)",
    "read after a write to another": "after_write_to_another(a * 1)",
    "made without gradients and written to": "written_without_gradients(b) * a",
    "made without gradients of what is written to": "written_behind(a * 1)",
}
PREPARED = """
log = []
def without_gradients(t):
    with torch.no_grad():
        return t[:]
def written_without_gradients(t):
    with torch.no_grad():
        v = t[:]
        v.mul_(2)
    return v
def written_behind(t):
    v = without_gradients(t)
    t.mul_(2)
    return v + 1
def after_write(t):
    part = t.split(1)[0]
    t.mul_(2)
    return part + 1
def after_write_to_another(t):
    p, q, r = t.unbind()
    with torch.no_grad():
        q.mul_(2)
    return p + 1
class Viewed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)
    @staticmethod
    def backward(ctx, gradient):
        return gradient
"""
LEFT = """
def f(a, b):
    log.append(1)
    z = a * 3
    r = {}
    log.append(2)
    return z, r
"""
CAUGHT = """
def f(a, b):
    z = a * 3
    try:
        r = {}
        log.append(2)
        return z, r
    except RuntimeError as error:
        log.append(str(error))
        return z
    finally:
        log.append(3)
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("program", [LEFT, CAUGHT], ids=["left", "caught"])
def test_refused(program: str, refused: str, backend: str) -> None:
    def scenario(compile, note):
        names: dict = {"torch": torch}
        exec(PREPARED + program.format(REFUSED[refused]), names)
        compiled = compile(names["f"])
        for needs_gradient in (True, True, False):
            a, b = (torch.arange(3.0).requires_grad_(needs_gradient) for _ in range(2))
            note(compiled, a, b)
            note.value(names["log"])
            note.value([a.detach(), b.detach()])

    same_scenario(scenario, backend)


def test_gradients_of_a_returned_view_made_without_gradients() -> None:
    """The gradient of the view does not reach its base."""

    def scenario(compile, note):
        def of_result(a):
            y = a * 2
            with torch.no_grad():
                target = y[1:]
            return y, target

        def of_input(a):
            with torch.no_grad():
                target = a[1:]
            return a * 2, target

        def of_view(a):
            y = a * 2
            with torch.no_grad():
                target = y[1:]
            return y, target.view(2, 1)[:, 0]

        for program in (of_result, of_input, of_view):
            compiled = compile(program)
            for _ in range(2):
                leaf = torch.arange(3.0, requires_grad=True)
                y, target = compiled(leaf)
                note(lambda target=target: (target.is_leaf, target.grad_fn is None))
                note.gradients(y[1:] * target, leaf)

    same_scenario(scenario, "aot_eager")


def test_parts_that_leave_are_compiled() -> None:
    """Common uses of views are compiled: returning them, writing to them without gradients."""
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    weight = torch.nn.Parameter(torch.ones(3))

    def parts(a):
        return (a * 2).split(1)

    def written(a):
        with torch.no_grad():
            weight[:2].mul_(2)
        return a * weight

    for program in (parts, written):
        graphs.clear()
        stator.compile(program, backend=backend, fullgraph=True)(torch.ones(3, requires_grad=True))
        assert len(graphs) == 1
