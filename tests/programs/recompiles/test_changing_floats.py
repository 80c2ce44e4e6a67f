"""Outside floats that differ in every call: captured once as a constant, once as a variable, and correct each time.

A case is a program, called as `f(x, a, ...)` with one float after the other; `captures` is how often it may be captured.
"""

import itertools
import math

import pytest
import torch

from tests.support.changing import same_both, same_values
from tests.support.engine import CAPTURES, ENGINE, Recorder, compile, reset
from tests.support.long import every

SERIES = [0.5 + step * 0.37 for step in range(20)]
NAN, INF = math.nan, math.inf
ODD = [1.5, 2.5, -0.0, 0.0, NAN, INF, -INF, 1e308, -1e308, 5e-324, 0.1, -2.5, 2.0**53, 2.0**63, 1e22, 3.0, -0.0]


@pytest.fixture
def unbounded():
    """Beyond the recompile limit calls run uncompiled, which is always right."""
    if ENGINE != "stator":
        yield
        return
    import stator

    with stator.config.patch(recompile_limit=1000):
        yield


PROGRAMS = {
    "beside a tensor": "def f(x, a): return x + a, a * x, x - a, a - x, x / a, x // a, x % a, a / (x * x + 1)",
    "powers": "def f(x, a): return (x * x) ** a, a ** x, torch.pow(x * x, a), (x * x).pow(a), torch.pow(a, x)",
    "compared with a tensor": "def f(x, a): return x > a, a >= x, x == a",
    "in place": "def f(x, a):\n    y = x.clone()\n    y += a\n    y.mul_(a).add_(a)\n    y *= a + 1\n    return y",
    "of functions": "def f(x, a): return torch.add(x, x, alpha=a), torch.sub(x, x, alpha=a), x.add(a), torch.div(x, a, rounding_mode='floor')",
    "of optimizers": "def f(x, a): return x.clone().addcdiv_(x, x * x + 1, value=-a), x.clone().lerp_(x * 2, a), torch.addcmul(x, x, x, value=a)",
    "filled": "def f(x, a): return x.masked_fill(x > 0, a), torch.full_like(x, a), torch.where(x > 0, x, a), x.clamp(-a, a), torch.full((2, 3), a)",
    "written": "def f(x, a):\n    y = x.clone()\n    y[0] = a\n    y[1:, 0] += a\n    return y",
    "int tensors": "def f(x, a):\n    n = torch.arange(5)\n    return n + a, n * a, n / a, n > a, (n + a).dtype, n.bool() * a",
    "other dtypes": "def f(x, a): return x.half() * a, x.double() * a, x.to(torch.complex64) * a, x.sum() * a, x.bfloat16() + a",
    "returned": "def f(x, a): return x + 1, a, a + 1, -a, a * a - 3, +a, a % 7, a // 3, a ** 3, a / 2, 2 - a, 2 / a, 2 // a, 7 % a, 2 ** a, abs(a), abs(-a)",
    "nothing but the float": "def f(x, a): return a + 1",
    "in containers": "def f(x, a): return x + 1, (a, [a + 1, {'a': a + 2}])",
    "one object": "def f(x, a):\n    b = a + 1000\n    k = (b, [b])\n    return x + 1, k[0] is k[1][0], a",
    "its class": "def f(x, a): return x + 1 if isinstance(a, float) and type(a) is float and not isinstance(a, (str, int)) else x - 1",
    "none": "def f(x, a): return x + a if a is not None and a is not True else x",
    "float of it": "def f(x, a): return x * float(a), float(a)",
    "two of them": "def f(x, a):\n    b = a * 3\n    return x * (a + b), a + b, b - a, a / b",
    "keyword": "def g(x, **k): return x * k['n']\ndef f(x, a): return g(x, n=a)",
    "closure": "def f(x, a):\n    def g(y): return y * a + a\n    return g(x)",
    "schedule": "def f(x, a): return x * (a * 0.5 * (1 + a / 100)), a * 0.9",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_twice(name):
    same_both(PROGRAMS[name], SERIES, captures=2)


@pytest.mark.parametrize("name", ["schedule", "powers", "in place", "of functions", "of optimizers", "filled"])
def test_gradients(name):
    same_both(PROGRAMS[name], SERIES, captures=2, grads=True)


MIXED = {
    "products": "def f(x, i, a): return x * (i * a), i + a, a - i, i / 7, 7 / (i + 1), a ** i, a // (i + 1), float(i), i * 0.5",
    "a schedule": "def f(x, step, rate): return x * (rate * (1 - step / 100)), min(1.0, step / 10) * rate",
    "compared": "def f(x, i, a): return x + a if i < a + 100 else x - i",
}


@pytest.mark.parametrize("name", MIXED)
def test_with_ints(name):
    # `min` has an entry for each of its two results.
    same_both(MIXED[name], list(enumerate(SERIES)), captures=3)


BRANCHES = {
    "bounds": ("def f(x, a): return x + a if 2.5 <= a < 5 else x * a", 5),
    "truth": ("def f(x, a): return x + a if a - 0.5 else x", 3),
    "not": ("def f(x, a): return x if not a else x * a", 3),
    "smaller": ("def f(x, a): return x * min(a, 3.0), max(1.0, a)", 4),
    "clipped": ("def f(x, a):\n    if a > 5: x = x * (5 / a)\n    return x + a, a + 1", 3),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_one_capture_for_each_branch(name):
    source, captures = BRANCHES[name]
    same_both(source, SERIES, captures=captures)


SPECIALIZED = {
    "int of it": "def f(x, a): return x * int(a), round(a), round(a, 1), math.floor(a)",
    "dict key": "def f(x, a): return x * {0.5: 3}.get(a, 1), {a: 1}",
    "text": "def f(x, a): return x + 1, f'{a:.3f} {a + 1}', str(a), '%g' % a, repr(a)",
    "functions of math": "def f(x, a): return x * math.sqrt(a) + math.exp(-a), math.cos(a)",
    "attributes": "def f(x, a): return x + a.is_integer(), a.real, a.as_integer_ratio(), a.hex()",
    "hash and set": "def f(x, a): return x + 1, hash(a), a in {0.5, 2.0}, a in (1, 4.5), {a, 1}",
    "divmod": "def f(x, a): return x + 1, divmod(a, 3), complex(a), bool(a), a + 1j, a + True",
    "invert": "def f(x, a): return x + ~a",
    "a size": "def f(x, a): return torch.zeros(a)",
    "an index": "def f(x, a): return x[a]",
    "dropout": "def f(x, a): return torch.nn.functional.dropout(x, a / 100, training=False)",
    "arange": "def f(x, a): return torch.arange(0, a, 0.5), torch.tensor(a), torch.tensor([a, 1]), torch.linspace(0, a, 3)",
    "sum and sorted": "def f(x, a): return x * sum([a, 1, a]), sorted([a, 2, 1]), [a, 1].index(1), [3, a].count(3)",
    "rounded at each step": "def f(x, a):\n    for _ in range(30): a = a + 0.1\n    return x * a, a",
    "many steps": "def f(x, a):\n    for _ in range(60): a = a * 1.1 - a\n    return x * a, a",
}


@pytest.mark.parametrize("name", SPECIALIZED)
def test_what_looks_at_the_value_is_right(name):
    same_both(
        "import math\n" + SPECIALIZED[name], [0.5, 1.5, 2.25, 4.5, 2.25, 1.5, 0.5], captures=None, fullgraph=False
    )


@pytest.mark.parametrize(
    "source",
    [
        "def f(x, a): return x + 1, a, a + 1, a * 2 - 1, a * a, -a, abs(a), a - a, a * 0, 0 - a, a + -0.0, a + 0.0",
        "def f(x, a): return x + 1, a % 10, a // 7, a % -3.5, a // -0.3, a / 3, a % INF, a // -INF",
        "def f(x, a): return x + 1, 1 / a",
        "def f(x, a): return x + 1, 1 // a, 5 % a",
        "def f(x, a): return x + 1, a ** 2, a ** 3.0",
        "def f(x, a): return x + 1, a ** 0.5",
        "def f(x, a): return x + 1, a ** -1",
        "def f(x, a): return x + 1, 2 ** a",
        "def f(x, a): return x + 1, (-1.5) ** a, 0.0 ** a",
        "def f(x, a): return x + 1 if a < 1 else x - 1",
        "def f(x, a): return x + 1 if not a >= 1 else x - 1",
        "def f(x, a): return x + 1 if a == a else x - 1",
        "def f(x, a): return x + 1 if a else x - 1",
        "def f(x, a): return x + 1 if a == 2 ** 53 + 1 or a > 2 ** 63 - 1 else x - 1",
        "def f(x, a): return x * a, x + a, x / a, x.clamp(min=a)",
        "def f(x, a): return max(a, 0.0), min(a, 0.0), max(0.0, a), +a, str(a), str(-a), str(a * 0)",
        "def f(x, a): return x + 1, f'{a * 1.0}'",
        "def f(x, a): return x + 1, ~a",
    ],
)
def test_floats_of_every_kind(source, unbounded):
    same_both("from math import inf as INF\n" + source, ODD * 2, captures=None, fullgraph=False)


def test_ints_and_floats_of_any_size(unbounded):
    ints = [3, 5, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 10**40, 10**400, 7]
    pairs = list(itertools.product(ints, [1.5, 2.0**53, 2.0**63, INF, NAN]))
    for body in (
        "x + 1, i < a, i == a, i >= a",
        "x * (i * a)",
        "i + a, i / 3, a - i",
        "x + 1, float(i)",
        "i // a, i % a",
    ):
        same_both(f"def f(x, i, a): return {body}", pairs, captures=None, fullgraph=False)


def test_division_is_pythons(unbounded):
    numbers = [7.5, -7.5, 0.0, -0.0, 3.0, 1e300, -0.1, 2, -3]
    pairs = list(itertools.product(numbers, [2.5, -2.5, 5.0, -1.0, 1e-300, INF, -INF, NAN, 0.1, 4]))
    same_both("def f(x, a, b): return x + 1, a // b, a % b, a / b", pairs, captures=None, fullgraph=False)
    same_both("def f(x, a, b): return x + 1 if a % b > 1 else x - a // b", pairs, captures=None, fullgraph=False)


def test_division_by_zero():
    numbers = [1.5, 2.5, 3.5, 0.0, 4.5, -0.0]
    for sign in ("/", "//", "%"):
        same_both(f"def f(x, a): return x * (2 {sign} a)", numbers, captures=None, fullgraph=False)
        same_both(
            f"def f(x, a):\n    try: return x * (2 {sign} a)\n    except ZeroDivisionError: return x",
            numbers,
            captures=None,
        )


CONVERTED = [
    "x.clamp(max=a)", "torch.add(x, x, alpha=a)", "x.masked_fill(x > 0, a)", "torch.full_like(x, a)", "x.half() ** a", "torch.where(x > 0, x, a)",
    "torch.full_like(x.int(), a)", "x.to(torch.int8).masked_fill(x > 0, a)", "torch.full((2,), a, dtype=torch.uint8)", "torch.addcmul(x, x, x, value=a)",
    "x.clone().fill_(a)", "torch.lerp(input=x, end=x, weight=a)",
]  # fmt: skip


@pytest.mark.parametrize("expression", CONVERTED)
def test_what_a_dtype_can_not_hold(expression, unbounded):
    same_both(
        f"def f(x, a): return {expression}",
        [1.5, 2.5, 3.5, 200.5, 1e5, 1e30, 1e300, INF, NAN, 4.5, -INF, 1e300],
        captures=None,
        fullgraph=False,
    )


class Real(float):
    def __add__(self, other):
        return 1000.0


@pytest.mark.parametrize("number", [True, 3, Real(3), None, 10**30, torch.tensor(3.0)])
def test_what_is_no_float(number):
    source = "def f(x, a): return (x + 1, type(a).__name__) if a is None else (x * a, a + 1, type(a).__name__)"
    same_both(source, [1.5, 2.5, 3.5, number, 4.5, number, 5.5], captures=None, fullgraph=False)


def test_an_int_where_a_float_was():
    # The dtype says which it was.
    source = "def f(x, a): return torch.arange(3) * a, a + 1"
    same_both(source, [1.5, 2.5, 2, 3, 4, 4.0, 5, 5.5], captures=4)


def test_two_floats_and_the_same_object():
    same = 4.5
    pairs = [(1.5, 2.5), (2.5, 3.5), (3.5, 3.5), (same, same), (5.5, 9.5), (9.5, 5.5)]
    same_both("def f(x, a, b): return x * a + b, a + b, a * b", pairs, captures=2)
    same_both("def f(x, a, b): return x * a if a < b else x - b", pairs, captures=3)


def test_floats_in_attributes_that_change():
    class Averaged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rate, self.loss = 0.1, 0.0

        def forward(self, x, loss):
            self.rate *= 0.9
            self.loss = 0.5 * self.loss + 0.5 * loss
            return x * self.rate - self.loss

    reset()
    recorder = Recorder()
    plain, program = Averaged(), Averaged()
    compiled = compile(program, backend=recorder)
    x = torch.randn(4)
    for step in range(20):
        same_values(plain(x, step * 0.3), compiled(x, step * 0.3), step)
        assert (plain.rate, plain.loss) == (program.rate, program.loss)
    assert not CAPTURES or recorder.count <= 3
    reset()


def test_graph_has_the_float_as_input():
    recorder = same_both("def f(x, a): return x * (a + 1)", [3.5, 4.5, 5.5])
    if not CAPTURES:
        return
    nodes = list(recorder.graphs[1].graph.nodes)
    assert [(node.op, node.name) for node in nodes] == [
        ("placeholder", "l_x_"), ("placeholder", "l_a_"), ("call_method", "item"),
        ("call_function", "add"), ("call_function", "mul"), ("output", "output"),
    ]  # fmt: skip


COMPILED = [
    "def f(x, a): return x * a + (a + 1)",
    "def f(x, a): return torch.add(x, x, alpha=a), x / (a * a + 1), a + 1",
    "def f(x, a): return x.clamp(-abs(a), abs(a)), torch.where(x > 0, x, a), (x * x + 1) ** a",
    "def f(x, a):\n    y = x * 2\n    y[0] = a\n    return y.masked_fill(x > 0, a) if a > 1 else x * a, a / 3",
]


@pytest.mark.parametrize("grads", [False, True], ids=["", "grads"])
@pytest.mark.parametrize("source", COMPILED)
@pytest.mark.parametrize("by_name", [False, True], ids=["", "by name"])
def test_aot_eager(source, grads, by_name):
    numbers = [0.5, 1.5, 2.5, 0.0, 1.0, -3.25, INF, 2.5]
    if by_name:
        by_its_name(source, "aot_eager", numbers, grads)
    else:
        same_both(source, numbers, captures=None, backend="aot_eager", grads=grads)


@pytest.mark.parametrize("source", every(2, COMPILED[:2], 0))
def test_inductor(source):
    by_its_name(source, "inductor", [0.5, 1.5, 2.5], grads=True)


def by_its_name(source, backend, numbers, grads):
    """As `same_both`, with a backend given by name."""
    reset()
    namespace = {"torch": torch}
    exec(source, namespace)
    plain = namespace["f"]
    compiled = compile(plain, backend=backend)
    for number in numbers:
        one, other = (torch.linspace(-2, 2, 12).reshape(3, 4).requires_grad_(grads) for _ in range(2))
        expected, actual = plain(one, number), compiled(other, number)
        same_values(expected, actual, number)
        if grads:
            for result in (expected, actual):
                parts = result if isinstance(result, tuple) else (result,)
                sum(part.sum() for part in parts if isinstance(part, torch.Tensor)).backward()
            torch.testing.assert_close(one.grad, other.grad, equal_nan=True)
    reset()


@pytest.mark.parametrize("fails", [False, True], ids=["burned in", "fails"])
def test_what_a_backend_can_not_do_with_becomes_a_constant(fails):
    def backend(module, example_inputs):
        for value in example_inputs:
            if not isinstance(value, torch.SymInt):
                continue
            if fails:
                raise RuntimeError("no symbols please")
            int(value)  # specializes
        return module.forward

    same_both("def f(x, a): return x * a", [15, 25, 35, 45], captures=None, backend=backend)


# --- loops ---------------------------------------------------------------------------------------------------------------

LOOPS = {
    "item": "def f(x):\n    for _ in range(20):\n        s = x.sum().item()\n        x = x * 0.9 + s / 100\n    return x, s",
    "norm": "def f(x):\n    for _ in range(20):\n        n = x.norm().item()\n        if n > 1.5: x = x / n\n        x = x * 1.25\n    return x, n",
    "stack": "def f(x):\n    for _ in range(20): x = x * 0.9 + x.sum().item() * 0.01\n    return x",
    "total": "def f(x):\n    total, best = 0.0, float('inf')\n    for i in range(20):\n        loss = x.mean().item()\n        total += loss\n        best = min(best, loss)\n        x = x * 0.5 - total * 0.01 + i\n    return x, total / 20, best",
    "clock": "import time\ndef f(x):\n    start = time.perf_counter()\n    for _ in range(20):\n        x = x * 0.5\n        spent = time.perf_counter() - start\n        x = x + 1 if spent >= 0 else x - 1\n    return x",
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_break(name):
    reset()
    recorder = Recorder()
    worlds = [{"torch": torch}, {"torch": torch}]
    for world in worlds:
        exec(LOOPS[name], world)
    compiled = compile(worlds[1]["f"], backend=recorder, fullgraph=False)
    for call in range(3):
        x = torch.full((3,), 0.5 + call)
        same_values(worlds[0]["f"](x), compiled(x), call)
    if CAPTURES:
        assert recorder.count <= 8, f"{recorder.count} captures"
    reset()
