"""`map`, `scan` and `while_loop`: the function is a subgraph, which the graph runs many times."""

import pytest
import torch
from functorch.experimental.control_flow import map as row_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import stator
from tests.support.harness import Source, T, same

pytestmark = pytest.mark.filterwarnings("ignore")

# (Uncompiled, PyTorch compiles the functions, and imports the module of their globals.)
HEAD = f"""
__name__ = {__name__!r}
from functorch.experimental.control_flow import map as row_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
w = torch.tensor([1.0, 2.0, 3.0])
"""
w = torch.tensor([1.0, 2.0, 3.0])
LOOPS = {
    "map": "def f(x): return row_map(lambda a: a.sin() * 2, x)",
    "map with a closure": "def f(x):\n    z = x.sum(0)\n    return row_map(lambda a: a * z + w, x)",
    "map with other arguments": "def f(x): return row_map(lambda a, b, n: (a + b) * n, x, w, 3)",
    "map of containers": "def f(x): return row_map(lambda d: {'k': d['a'] + d['b'], 'l': [d['a'] * 2]}, {'a': x, 'b': x.cos()})",
    "map in a map": "def f(x): return row_map(lambda a: row_map(lambda b: b.exp() + 1, a), x)",
    "cond in a map": "def f(x): return row_map(lambda a: torch.cond(a.sum() > 1, lambda b: b + 1, lambda b: b * 2, (a,)), x)",
    "scan": "def f(x): return scan(lambda c, a: (c + a, c * a), torch.zeros(3), x)",
    "scan backwards, along another dimension": "def f(x): return scan(lambda c, a: (c + a, c * a), torch.zeros(4), x, dim=1, reverse=True)",
    "scan with closures and containers": "def f(x):\n    z = x.sum(0)\n    return scan(lambda c, a: ({'s': c['s'] * w + a}, (a * z, a.sum())), {'s': torch.ones(3)}, x)",
    "while_loop": "def f(x):\n    return while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 2 + w), (torch.zeros((), dtype=torch.int64), x))",
    "while_loop that does not run": "def f(x): return while_loop(lambda a: a.sum() > 1e9, lambda a: (a + 1,), (x,))",
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", LOOPS)
def test_loops(name, backend):
    if backend == "aot_eager" and name == "scan with closures and containers" and torch.__version__ < "2.12":
        pytest.skip("aot_autograd of torch 2.11 refuses it")
    gradient = "while_loop" not in name
    same(
        Source(HEAD + LOOPS[name]), T(4, 3, grad=gradient), backend=backend, compare_dynamo=False,
        tolerance=None if backend is None else 1e-5,
    )  # fmt: skip


SCALE = 2


def test_what_functions_read_is_guarded(monkeypatch):
    compiled = stator.compile(lambda x: row_map(lambda a: a * SCALE, x), backend="eager", fullgraph=True)
    x = torch.ones(4, 3)
    for scale in (2, 5, torch.ones(3), 0.5, 0.25, 0.125):
        monkeypatch.setitem(globals(), "SCALE", scale)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), x * scale)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_of_rows_that_change(backend):
    def program(x):
        return row_map(lambda a: a.sin() * 2, x), scan(lambda c, a: (c + a, c * 1), torch.zeros(3), x)

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for rows in (4, 6, 9):
        x = torch.randn(rows, 3)
        mapped, (carry, sums) = compiled(x)
        torch.testing.assert_close(mapped, x.sin() * 2)
        torch.testing.assert_close(carry, x.sum(0))
        torch.testing.assert_close(sums[1:], x.cumsum(0)[:-1])


@pytest.mark.parametrize(
    "program",
    [
        lambda x: row_map(lambda a: a, x),
        lambda x: row_map(lambda a: a.add_(1), x),
        lambda x: scan(lambda c, a: (c.double(), a * 1), torch.zeros(3), x),
        lambda x: while_loop(lambda a: a.sum() < 9, lambda a: (a.double(),), (x,)),
    ],
)
def test_what_torch_refuses(program):
    with pytest.raises(stator.Unsupported):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(4, 3))
