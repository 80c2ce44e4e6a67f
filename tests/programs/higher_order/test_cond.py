"""`torch.cond`: both branches are subgraphs, and the graph runs one of them."""

import itertools

import pytest
import torch

import stator
from tests.support.harness import Source, T, same
from tests.support.long import every

pytestmark = pytest.mark.filterwarnings("ignore")

# (Uncompiled, PyTorch compiles the branches, and imports the module of their globals.)
HEAD = f"__name__ = {__name__!r}\n"
BRANCHES = {
    "operands": "def f(x, y): return torch.cond(x.sum() > 0, lambda a, b: a.sin() + b, lambda a, b: a - b.cos(), (x, y))",
    "closures": "def f(x, y): return torch.cond(x.sum() > 0, lambda: x.sin() + y, lambda: y * 2, ())",
    "a closure of one branch": "def f(x, y):\n    z = y * 3\n    return torch.cond(x.sum() > 0, lambda a: a * z, lambda a: a + 1, (x,))",
    "several results": "def f(x, y): return torch.cond(x.sum() > 0, lambda a: (a.sin(), {'k': a * 2}), lambda a: (a.cos(), {'k': a + y}), (x,))",
    "nested operands": "def f(x, y): return torch.cond(x.sum() > 0, lambda d: d['x'] + d['y'][0], lambda d: d['x'] * 2, ({'x': x, 'y': [y]},))",
    "one in the other": """
def f(x, y):
    def inner(a): return torch.cond(a.max() > 1, lambda b: b.sin() * y, lambda b: b + 1, (a,))
    return torch.cond(x.sum() > 0, inner, lambda a: a.cos() * y, (x,)) + 1""",
    "two of them": """
def f(x, y):
    a = torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a - 1, (x,))
    return torch.cond(a.sum() > y.sum(), lambda a: a * y, lambda a: a / 2, (a,)), a""",
    "a module": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.other = nn.Linear(3, 3), nn.Linear(3, 3)
    def forward(self, x, y): return torch.cond(x.sum() > 0, self.layer, lambda a: self.other(a).relu() + y, (x,))
f = Model()""",
    "a view of its own": "def f(x, y): return torch.cond(x.sum() > 0, lambda a: (a * 2)[None].expand(1, 3)[0] + 0, lambda a: a + y, (x,)) * 2",
    "writes to its own": "def f(x, y):\n    def branch(a):\n        b = a * 2\n        b.add_(y)\n        return b\n    return torch.cond(x.sum() > 0, branch, lambda a: a + 0, (x,))",
    "keyword arguments": "def f(x, y): return torch.cond(pred=x.sum() > 0, true_fn=lambda a: a + y, false_fn=lambda a: a * y, operands=(x,))",
    "a predicate of one element": "def f(x, y): return torch.cond(x[:1] > 0, lambda a: a + y, lambda a: a * y, (x,))",
    "a constant predicate": "def f(x, y): return torch.cond(x.shape[0] > 2, lambda a: a + y, lambda a: a * y, (x,))",
}


@pytest.mark.parametrize(
    "name, backend, sign",
    [
        (name, *way)
        for turn, name in enumerate(BRANCHES)
        for way in every(2, itertools.product([None, "aot_eager"], [1, -1]), turn)
    ],
)
def test_branches(name, backend, sign):
    same(
        Source(HEAD + BRANCHES[name]), lambda: (torch.arange(1.0, 4.0) * sign).requires_grad_(), T(3, grad=True), backend=backend,
        compare_dynamo=False, tolerance=None if backend is None else 1e-5,
    )  # fmt: skip


def test_the_graph_is_that_of_dynamo():
    def program(x, y):
        z = y + 1
        return torch.cond(x.sum() > 0, lambda a: a.sin() + z, lambda a: a.cos() * x, (y,))

    texts = []

    def backend(module, inputs):
        texts.append(module.print_readable(print_output=False, expanded_def=True))
        return module

    stator.compile(program, backend=backend, fullgraph=True)(torch.ones(2), torch.ones(2))
    torch._dynamo.reset()
    torch.compile(program, backend=backend, fullgraph=True)(torch.ones(2), torch.ones(2))
    assert main_graph(texts[0]) == main_graph(texts[1])
    for part in ("l_x__false_branch", "z_true_branch"):
        assert part in texts[0] and part in texts[1]


def main_graph(text):
    lines = text.split("class cond_true_0")[0].splitlines()
    return [line for line in lines if line.strip() and not line.strip().startswith("#")]


SCALE, WEIGHT = 2, torch.ones(3)


def test_what_branches_read_is_guarded(monkeypatch):
    def program(x):
        return torch.cond(x.sum() > 0, lambda a: a * SCALE, lambda a: a + WEIGHT, (x,))

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = torch.ones(3)
    space = globals()
    for name, value in [("SCALE", 5), ("WEIGHT", torch.full((3,), 7.0)), ("SCALE", 2.5), ("WEIGHT", torch.ones(()))]:
        monkeypatch.setitem(space, name, value)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), x * SCALE)
            torch.testing.assert_close(compiled(-x), -x + WEIGHT)


def test_a_constant_predicate_is_guarded():
    text = "FLAG = True\ndef f(x): return torch.cond(FLAG, lambda a: a + 1, lambda a: a * 3, (x,))"
    same(Source(text), T(3), mutate=["FLAG = False", "FLAG = True"], compare_dynamo=False)


def test_a_constant_predicate_warns():
    with pytest.warns(UserWarning, match="Pred is a Python constant"):
        stator.compile(lambda x: torch.cond(True, torch.sin, torch.cos, (x,)), backend="eager")(torch.ones(2))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_that_change(backend):
    def program(x, y):
        return torch.cond(x.sum() > 0, lambda a: a.sin() * a.shape[0] + y, lambda a: a.view(-1) * 2 + y, (x,))

    compiled = stator.compile(program, backend=backend, fullgraph=True, dynamic=True)
    for size in (3, 5, 8):
        for sign in (1, -1):
            x = torch.arange(1.0, size + 1) * sign
            y = torch.ones(size)
            torch.testing.assert_close(compiled(x, y), x.sin() * size + y if sign > 0 else x * 2 + y)


REFUSED = {
    "an effect": "log = []\ndef f(x):\n    def branch(a):\n        log.append(1)\n        return a + 1\n    return torch.cond(x.sum() > 0, branch, lambda a: a * 1, (x,))",
    "different sizes of tuples": "def f(x): return torch.cond(x.sum() > 0, lambda a: (a + 1,), lambda a: (a * 1, a * 2), (x,))",
    "different dtypes": "def f(x): return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a.double(), (x,))",
    "an operand itself": "def f(x): return torch.cond(x.sum() > 0, lambda a: a, lambda a: a * 1, (x,))",
    "a write to an operand": "def f(x): return torch.cond(x.sum() > 0, lambda a: a.add_(1) * 2, lambda a: a * 1, (x * 1,))",
    "a predicate of many elements": "def f(x): return torch.cond(x > 0, lambda a: a + 1, lambda a: a * 1, (x,))",
    "a break": "def f(x):\n    def branch(a):\n        print('here')\n        return a + 1\n    return torch.cond(x.sum() > 0, branch, lambda a: a * 1, (x,))",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses(name):
    """It does what the uncompiled program does: mostly, PyTorch raises."""
    space = {"torch": torch}
    exec(REFUSED[name], space)

    def outcome(function):
        torch._dynamo.reset()
        try:
            return function(torch.ones(3, requires_grad=name != "an operand itself"))
        except Exception as error:
            return type(error)

    expected, got = outcome(space["f"]), outcome(stator.compile(space["f"], backend="eager"))
    if isinstance(expected, type):
        assert got is expected
    else:
        torch.testing.assert_close(got, expected)
    with pytest.raises(stator.Unsupported):
        stator.compile(space["f"], backend="eager", fullgraph=True)(torch.ones(3, requires_grad=True))


def test_no_leak():
    def program(x):
        return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: a * 2, (x,))

    import gc

    def count():
        gc.collect()
        return sum(type(one).__name__ == "GraphModule" for one in gc.get_objects())

    def run():
        stator.compile(program, backend="eager")(torch.ones(3))

    run()
    before = count()
    for _ in range(5):
        run()
    assert count() <= before


@pytest.mark.skipif(torch.__version__ < "2.12", reason="PyTorch refuses such branches, also uncompiled")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_branches_that_write_without_gradients(backend):
    def up(x, counts):
        counts.add_(1)
        return x.sin()

    def down(x, counts):
        counts.mul_(2)
        return x.cos()

    @torch.no_grad()
    def program(x, counts):
        made = counts * 1
        y = torch.cond(x.sum() > 0, up, down, (x, counts))
        return y + counts, torch.cond(x.sum() > 1, up, down, (x, made)), made

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for value in (1.0, -1.0, 0.1):
        counts = [torch.full((3,), 5.0) for _ in range(2)]
        expected, actual = (run(torch.full((3,), value), one) for run, one in zip((program, compiled), counts))
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
        torch.testing.assert_close(counts[1], counts[0], rtol=0, atol=0)
