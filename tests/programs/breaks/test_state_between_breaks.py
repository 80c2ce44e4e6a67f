"""What a graph break runs may change anything that the captured regions around it depend on: each region is entered with what is
there then. And what a region rebuilds for the break does not depend on how much of it there is."""

import pytest
import torch

import stator
from tests.support.engine import reset
from tests.support.harness import Source, T, same

PREPARED = """
import torch
import torch._dynamo
SCALE, CALLS, KEPT = 2, [0], []
class Box: pass
BOX = Box()
BOX.scale, BOX.parts = 3, {"a": 1, "b": 2}
class Layer(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
    def forward(self, x):
        y = x + self.k
        n = change(y)
        return y * n
NET = torch.nn.Sequential(*(Layer(k) for k in range(3)))
"""

CHANGES = {
    "a global": "global SCALE\n    SCALE += 1",
    "an attribute": "BOX.scale = BOX.scale + 1",
    "a new attribute": "BOX.scale = 1.5 if BOX.scale == 3 else 3",
    "a dict": "BOX.parts['c'] = BOX.parts.pop('c', 0) + 1",
    "an item": "BOX.parts['a'] += 1",
    "the order of a dict": "BOX.parts['a'] = BOX.parts.pop('a')",
    "a layer": "NET[1].k += 1",
    "the layers": "NET[0], NET[2] = NET[2], NET[0]",
    "a forward": "NET[1].forward = lambda x: x - 1",
    "the class of a layer": "Layer.extra = CALLS[0]",
    "a hook": "len(NET[2]._forward_hooks) or NET[2].register_forward_hook(lambda m, a, r: r + 5)",
    "the sizes": "t.resize_(t.numel()) if t.requires_grad is False and t.dim() == 2 else None",
    "the values": "t.data.add_(1)",
    "grad mode": "torch.set_grad_enabled(CALLS[0] % 4 < 2)",
    "the default dtype": "torch.set_default_dtype(torch.float64 if CALLS[0] % 3 == 0 else torch.float32)",
    "the function itself": "global change\n    old = change\n    change = lambda t: old(t)",
}

BODIES = {
    "straight": "y = x * SCALE\n    n = change(y)\n    z = y * n + BOX.scale * SCALE\n    m = change(z)\n    return z - m * SCALE, list(BOX.parts), BOX.parts['a']",
    "a loop": "for k in range(4):\n        x = x * BOX.scale + BOX.parts['a']\n        change(x)\n        x = x - SCALE\n    return x, list(BOX.parts)",
    "modules": "return NET(x) + NET(x * SCALE)",
    "a generator": "def g(t):\n        for layer in NET:\n            yield t * SCALE + BOX.scale\n            change(t)\n    return [a - layer.k for a, layer in zip(g(x), NET)]",
}


@pytest.fixture(autouse=True)
def settings():
    reset()
    yield
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    reset()


def outcomes(text, compiles, changes=(), also=()):
    """What six calls of the program `f` give, in a world of its own; each change is made before a call."""
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    namespace = Source(text).namespace()
    function = stator.compile(namespace["f"], backend="eager") if compiles else namespace["f"]
    seen = []
    for call in range(6):
        if call >= 2 and call - 2 < len(changes):
            exec(changes[call - 2], namespace)
        result = function(torch.arange(6.0).reshape(2, 3) + call)
        state = torch.is_grad_enabled(), torch.get_default_dtype(), [repr(namespace[name]) for name in also]
        seen.append((repr(result), state))
    return seen


def same_in_six_calls(text, changes=(), also=()):
    assert outcomes(text, True, changes, also) == outcomes(text, False, changes, also)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_by_the_break(change, body):
    """Each of six calls gives what the uncompiled program gives in a world of its own."""
    text = (
        f"{PREPARED}\n@torch._dynamo.disable\ndef change(t):\n    CALLS[0] += 1\n    {CHANGES[change]}\n    return 2\n"
        f"def f(x):\n    {BODIES[body]}\n"
    )
    same_in_six_calls(text, also=["CALLS"])


HANDED_OVER = """
import gc, weakref
import torch
import torch._dynamo
SEEN, HELD = [], []
class Thing: pass
@torch._dynamo.disable
def drops(a, b=None, *, c=None):
    alive = [weakref.ref(one) for one in (a, b, c) if one is not None]
    HELD.clear()
    del a, b, c
    SEEN.append([one() is not None for one in alive])
    return 1
class Takes:
    @torch._dynamo.disable
    def drops(self, a):
        alive = weakref.ref(a)
        del a
        SEEN.append(alive() is not None)
        return 1
TAKES = Takes()
"""


@pytest.mark.parametrize(
    "body",
    [
        "y = x + 1\n    n = drops(y)\n    return y * n, SEEN",
        "y = x + 1\n    n = drops(y * 2)\n    return y * n, SEEN",
        "y = x + 1\n    n = drops(y, y * 2)\n    return y * n, SEEN",
        "y = x + 1\n    n = drops(y * 3, y, c=y * 2)\n    return y * n, SEEN",
        "y = x + 1\n    n = drops(Thing(), b=None, c=Thing())\n    return y * n, SEEN",
        "y = x + 1\n    HELD.append(Thing())\n    n = drops(HELD[0])\n    return y * n, SEEN",
        "y = x + 1\n    thing = Thing()\n    n = drops(thing, Thing())\n    return y * n, SEEN",
        "thing = Thing()\n    def g():\n        return thing\n    n = drops(thing, Thing())\n    return x * n, SEEN, g() is thing",
        "y = x + 1\n    n = TAKES.drops(y) + TAKES.drops(y * 2) + Takes().drops(Thing())\n    return y * n, SEEN",
    ],
)
def test_when_arguments_of_a_break_die(body):
    """A function that runs uncompiled may free its arguments, unless a variable of the caller holds them."""
    same_in_six_calls(f"{HANDED_OVER}def f(x):\n    SEEN.clear()\n    {body}\n")


@pytest.mark.parametrize("count", [1, 15, 16, 17, 39, 40, 41, 90])
def test_many_values_across_a_break(count):
    """On the stack, in variables, and in registers of the plan."""
    names = [f"v{i}" for i in range(count)]
    assign = "\n    ".join(f"{name} = [x + {i}, {i}]" for i, name in enumerate(names))
    stack = ", ".join(f"x * {i}" for i in range(count))
    text = (
        "import torch\nimport torch._dynamo\n@torch._dynamo.disable\ndef opaque(*given):\n    return len(given)\n"
        f"def inner(x):\n    {assign}\n    many = [{stack}, opaque(x)]\n    return many, {', '.join(names)}, opaque({', '.join(names)})\n"
        "def f(x):\n    return inner(x), opaque(x), x + 1\n"
    )
    same_in_six_calls(text)


@pytest.mark.parametrize(
    "parameters", ["x, k=1, *more, flag=True, **named", "x, *, " + ", ".join(f"k{i}={i}" for i in range(20))]
)
def test_callees_with_many_parameters(parameters):
    text = (
        "import torch\nimport torch._dynamo\n@torch._dynamo.disable\ndef opaque(t):\n    return 2\n"
        f"def inner({parameters}):\n    y = x + 1\n    n = opaque(y)\n    return y * n, sorted(locals())\n"
        "def f(x):\n    return inner(x * 2)\n"
    )
    same_in_six_calls(text)


@pytest.mark.parametrize("count", [2, 4, 5, 9])
def test_aliases_of_what_is_written_to(count):
    """Several objects of a class, of which one is written to: in other calls two of them are one."""
    names = [f"b{i}" for i in range(count)]
    text = (
        "import torch\nimport torch._dynamo\nclass Box: pass\n@torch._dynamo.disable\ndef opaque(t):\n    return 2\n"
        f"def g(x, {', '.join(names)}):\n    y = x + b0.k\n    b0.k = 5\n    y = y * opaque(y)\n    b0.k += 1\n"
        f"    return y, {', '.join(f'x + {name}.k' for name in names)}\n"
        f"def box(k):\n    made = Box()\n    made.k = k\n    return made\n"
        f"BOXES = [box(1) for _ in range({count})]\n"
        "def f(x):\n    for one in BOXES:\n        one.k = 1\n    return g(x, *BOXES)\n"
    )
    same_in_six_calls(text, ["BOXES[1] = BOXES[0]", "BOXES[-1] = BOXES[1]", "BOXES[:] = [box(1) for _ in BOXES]"])


OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_of_a_graph(operator):
    """The runner calls what is behind the functions of `operator`: with tensors, numbers, and in place."""
    text = (
        "import torch\ndef f(x, y):\n"
        f"    z = x {operator} y\n    w = {'x @ x' if operator == '@' else f'x {operator} 2'}\n"
        f"    x {operator}= {'y' if operator == '@' else '3'}\n    return z, w, x, x[0], z[..., 1:]\n"
    )
    integral = operator in "&|^<<>>"
    make = (lambda: torch.arange(1, 5).reshape(2, 2)) if integral else (lambda: torch.arange(1.0, 5.0).reshape(2, 2))
    same(Source(text), make, make, compare_dynamo=False)


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_that_raise_in_a_graph(operator):
    """The type, the text and the line are those of the uncompiled program."""
    text = f"import torch\ndef f(x, y, n):\n    x = x.reshape(-1)[: n.item()]\n    return x {operator} y\n"
    same(Source(text), T(6), T(4), lambda: torch.tensor(5), fullgraph=False, compare_dynamo=False)
