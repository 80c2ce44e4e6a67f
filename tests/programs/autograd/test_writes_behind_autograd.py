"""Writes to `x.data` and `x.detach()` of an input that requires a gradient. Where Stator runs the graph they are captured; a compiler gets a graph
break, because aot_autograd puts values of another input there."""

import pytest
import torch

from tests.support.scenarios import same_scenario


def before_it_is_used(x, w):
    w.data.clamp_(-0.1, 0.1)
    return (x * w).sin()


def after_it_was_saved(x, w):
    y = x * w
    w.data.mul_(2)
    return y + w


def of_a_part(x, w):
    w.data[0] = 3
    w[1:].detach().add_(1)
    return x * w


def where_the_backward_pass_refuses_it(x, w):
    y = x * w
    w.detach().mul_(2)
    return y


def to_several(x, w):
    w.data.mul_(2)
    x.data.add_(w.data)
    return x * w


def before_an_operation_that_raises(x, w):
    w.data.mul_(2)
    return x[(w.detach() * 100).long()] * w


PROGRAMS = [
    before_an_operation_that_raises,
    before_it_is_used,
    after_it_was_saved,
    of_a_part,
    where_the_backward_pass_refuses_it,
    to_several,
]


@pytest.mark.parametrize("backend", ["eager", "stator", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_writes(program, backend):
    def scenario(compile, note):
        step = compile(program)
        leaf = torch.tensor([0.5, -0.25, 0.05], requires_grad=True)
        for w in (leaf, leaf, leaf.sin(), torch.ones(3), leaf):
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            result = note(step, x, w)
            note(lambda result: result.sum().backward(), result)
            note.value([x.grad, leaf.grad, leaf.detach().clone(), w.detach().clone()])
            if is_captured:  # (aot_autograd writes to the input itself, which counts, where it is a plain one)
                note.value([w._version, x._version])

    is_captured = backend != "aot_eager"
    same_scenario(scenario, backend, fullgraph=is_captured, tolerance=0 if is_captured else 1e-6)
