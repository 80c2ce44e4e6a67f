"""What autograd rejects, and what it reports about a tensor, depends on more than `requires_grad`."""

import pytest
import torch

from tests.support.harness import Source, T, same
from tests.support.rebuilt import compiled

LEAF, INNER = "torch.ones(3, requires_grad=True)", "torch.ones(3, requires_grad=True) * 1"
PLAIN = "torch.ones(3)"
VIEW_OF_LEAF = "torch.ones(4, requires_grad=True)[1:]"
ONE_OF_SEVERAL = "(torch.ones(2, 3, requires_grad=True) * 1).unbind(0)[0]"
ONE_OF_SEVERAL_PLAIN = "torch.ones(2, 3).unbind(0)[0]"
MADE_WITHOUT_GRADIENTS = "without_gradients(torch.ones(4))"
DETACHED = "torch.ones(3, requires_grad=True).detach()"
ALL = [LEAF, INNER, PLAIN, VIEW_OF_LEAF, ONE_OF_SEVERAL, ONE_OF_SEVERAL_PLAIN, MADE_WITHOUT_GRADIENTS, DETACHED]

PREPARED = """
W = torch.full((3,), 2.0, requires_grad=True)
def without_gradients(t):
    with torch.no_grad():
        return t[1:]
"""
PROGRAMS = {
    "is_leaf": "def f(x):\n    return x * 2 if x.is_leaf else x + 1",
    "grad_fn": "def f(x):\n    return x * 2 if x.grad_fn is None else x + 1",
    "a write": "def f(x):\n    y = x + 1\n    x.mul_(2)\n    return y + x",
    "a write with a gradient": "def f(x):\n    y = x + 1\n    x.mul_(W)\n    return y + x",
    "a write that is caught": """
def f(x):
    y = x + 1
    try:
        y = y * 2
        x.mul_(W)
    except RuntimeError as error:
        return y, str(error)
    return y + x
""",
    "a write to a view": "def f(x):\n    y = x + 1\n    x[1:].mul_(W[1:])\n    return y + x",
    "an item": "def f(x):\n    y = x + 1\n    x[0] = W[0]\n    return y + x",
    "a write without gradients": "def f(x):\n    with torch.no_grad():\n        x.mul_(2)\n    return x + 1",
    "a detached one": "def f(x):\n    x.detach().mul_(2)\n    return x + 1",
    "a view made without gradients": """
def f(x):
    with torch.no_grad():
        v = x.view(3)
    try:
        v.mul_(W)
    except RuntimeError as error:
        return x + 1, str(error)
    return v + 1
""",
    "one of several views": """
def f(x):
    y = x * 1
    first = y.chunk(3)[0]
    try:
        first.mul_(W[:1])
    except RuntimeError as error:
        return y + 1, str(error)
    return y + 2
""",
    "a row after a break": """
def f(x):
    for row in torch.stack([x, x]):
        print(1)
        try:
            row.mul_(W)
        except RuntimeError as error:
            x = x + len(str(error))
    return x
""",
}


@pytest.mark.parametrize("first", ALL)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_state_in_turn(name, first):
    """Each kind of tensor after each other kind: assumptions about the first must not be made for the next."""
    others = [f"ARGS[0] = {one}" for one in ALL if one != first]
    same(Source(PREPARED + PROGRAMS[name]), T(3), mutate=[f"ARGS[0] = {first}", *others], fullgraph=False,
         compare_dynamo=False, calls=2)  # fmt: skip


def test_an_output_that_is_also_read_and_gets_another_size():
    def f(a, b):
        c = a + 1
        try:
            torch.add(a, b, out=b)
        except RuntimeError as error:
            return c, str(error)
        return c

    expected = f(torch.ones(2, 3), torch.ones(3))
    actual = compiled(f, fullgraph=False)(torch.ones(2, 3), torch.ones(3))
    assert torch.equal(expected[0], actual[0]) and expected[1] == actual[1]


def test_rows_of_two_iterations_are_two_objects():
    source = """
def f(x):
    kept = [row for row in x] + [row for row in x]
    print(1)
    return kept, kept[0] is kept[2], [row for row in x]
"""
    same(Source(source), T(2, 3), fullgraph=False, compare_dynamo=False)
    same(Source(source), T(2, 3, grad=True), fullgraph=False, compare_dynamo=False)


@pytest.mark.parametrize("write", ["x.detach().mul_(2)", "x.data.mul_(2)", "with torch.no_grad(): x.mul_(2)"])
@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_a_write_behind_autograd_beside_another(write, backend):
    """aot_autograd gives the detached input the other one's values."""
    source = f"KEPT = torch.ones(3)\ndef f(x, y):\n    {write}\n    y += KEPT\n    return y, -KEPT\n"
    same(Source(source), T(3, grad=True), T(3), fullgraph=False, compare_dynamo=False, backend=backend,
         tolerance=1e-6 if backend else None)  # fmt: skip
