"""`associative_scan`: of a pointwise function it is an operation with a subgraph, of any other the code of PyTorch around `vmap` is inlined."""

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan

import stator
from tests.support.harness import Source, T, same

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
from torch._higher_order_ops.associative_scan import associative_scan
w = torch.tensor([1.0, 2.0, 3.0])
def states(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]
"""
GENERIC = {
    "sums": "def f(x): return associative_scan(lambda a, b: a + b, x, 0, combine_mode='generic')",
    "pairs, backwards, along another dimension": "def f(x): return associative_scan(states, (x, x.cos()), -1, reverse=True, combine_mode='generic')",
    "dicts": "def f(x):\n    def combine(a, b): return {'k': a['k'] * b['k'], 'l': a['l'] + b['l']}\n    return associative_scan(combine, {'k': x, 'l': x + 1}, 1, combine_mode='generic')",
    "not pointwise": "def f(x):\n    return associative_scan(lambda a, b: a @ b, x[:, :, None] * x[:, None], 0, combine_mode='generic')",
    "with a closure": "def f(x):\n    z = x.sum()\n    return associative_scan(lambda a, b: a + b * z + w, x, 0, combine_mode='generic')",
    "one row": "def f(x): return associative_scan(lambda a, b: a + b, x[:1], 0, combine_mode='generic')",
    "an unknown mode": "def f(x): return associative_scan(lambda a, b: a + b, x, 0, combine_mode='no')",
    "pointwise where there is no such kernel": "def f(x): return associative_scan(lambda a, b: a + b, x, 0)",
}


@pytest.mark.parametrize(("name", "backend"), [*((name, None) for name in GENERIC), ("dicts", "aot_eager")])
def test_of_any_function(name, backend):
    same(
        Source(HEAD + GENERIC[name]), T(5, 3, grad=True), backend=backend, compare_dynamo=False,
        tolerance=None if backend is None else 1e-5,
    )  # fmt: skip


OPERATION = {
    "sums": "def f(x): return torch.ops.higher_order.associative_scan(lambda a, b: a + b, [x], ())",
    "pairs": "def f(x):\n    return torch.ops.higher_order.associative_scan(lambda a, b, c, d: [a * c, c * b + d], [x, x.cos()], ())",
    "methods and functions": "def f(x): return torch.ops.higher_order.associative_scan(lambda a, b: torch.sin(a).mul(b) / 2 + b.abs(), [x], ())",
    "reads of other tensors": "def f(x):\n    z = x.detach().sum(0)\n    return torch.ops.higher_order.associative_scan(lambda a, b: a * w + b * z, [x.detach()], ())",
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", OPERATION)
def test_of_a_pointwise_function(name, backend):
    same(
        Source(HEAD + OPERATION[name]), T(5, 3), backend=backend, compare_dynamo=backend is None,
        tolerance=None if backend is None else 1e-5,
    )  # fmt: skip


def test_a_pointwise_function_has_a_gradient():
    text = "def f(x): return torch.ops.higher_order.associative_scan(lambda a, b: [a + b], [x], ())"
    same(Source(HEAD + text), T(5, 3, grad=True), compare_dynamo=False)


@pytest.mark.parametrize(
    "combine", ["a.flip(0) + b", "a.cumsum(0) + b", "a.add_(b)", "a", "(a + b).double()", "(a + b).sum()"]
)
def test_what_is_not_captured(combine):
    program = eval(f"lambda x: torch.ops.higher_order.associative_scan(lambda a, b: {combine}, [x], ())")
    with pytest.raises(stator.Unsupported):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(4, 3))


SCALE = 2.0


def test_what_functions_read_is_guarded(monkeypatch):
    program = lambda x: associative_scan(lambda a, b: a + b * SCALE, x, 0, combine_mode="generic")  # noqa: E731
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for scale in (2.0, torch.ones(())):
        monkeypatch.setitem(globals(), "SCALE", scale)
        for rows in (3, 3, 4):
            x = torch.randn(rows, 3)
            torch.testing.assert_close(compiled(x), program(x), rtol=0, atol=0)
