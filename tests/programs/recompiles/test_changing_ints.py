"""Outside ints that differ in every call: captured once as a constant, once as a variable, and correct each time.

A case is a program, called as `f(x, i, ...)` with one int after the other; `captures` is how often it may be captured.
"""

import itertools

import pytest
import torch

from tests.support.changing import same_both, same_values
from tests.support.engine import CAPTURES, Recorder, compile, reset
from tests.support.harness import T, same
from tests.support.long import every

COUNT = range(2, 22)

PROGRAMS = {
    "beside a tensor": "def f(x, i): return x + i, i * x, x - i, i - x, x / (i + 1), x // (i + 1), x % (i + 2)",
    "of sums and products": "def f(x, i): return x + i, i * x, x - i, i - x, x / (i + 1)",
    "compared with a tensor": "def f(x, i): return x > i, i >= x, x == i",
    "in place": "def f(x, i):\n    y = x.clone()\n    y += i\n    y.mul_(i).add_(i)\n    y *= i + 1\n    return y",
    "of functions": "def f(x, i): return torch.add(x, i, alpha=i), torch.sub(x, x, alpha=i), x.add(i), torch.div(x, i + 1, rounding_mode='floor')",
    "filled": "def f(x, i): return x.masked_fill(x > 0, i), torch.full_like(x, i), torch.where(x > 0, x, i), x.clamp(-i, i)",
    "int tensors": "def f(x, i):\n    n = torch.arange(5)\n    return n + i, n & i, n | i, n ^ i, n // (i + 1), (n + i).dtype, n.bool() | (n > i)",
    "returned": "def f(x, i): return x + 1, i, i + 1, -i, i * i - 3, ~i, +i, i % 7, i // 3, i ** 3, i << 2, i >> 1, i & 5, i | 8, i ^ 3, 2 - i",
    "nothing but the int": "def f(x, i): return i + 1",
    "in containers": "def f(x, i): return x + 1, (i, [i + 1, {'a': i + 2}])",
    "one object": "def f(x, i):\n    j = i + 1000\n    k = (j, [j])\n    return x + 1, k[0] is k[1][0], i",
    "counted up": "def f(x, i):\n    for _ in range(100): i += 1\n    return x * i, i",
    "only passed on": "def g(x, i): return x * 2, i\ndef f(x, i): return g(x, i)",
    "its class": "def f(x, i): return x + 1 if isinstance(i, int) and type(i) is int and not isinstance(i, (str, bool)) else x - 1",
    "none": "def f(x, i): return x + i if i is not None and i is not True else x",
    "int of it": "def f(x, i): return x * int(i), abs(i), abs(-i)",
    "two of them": "def f(x, i):\n    j = i * 3\n    return x * (i + j), i + j, j - i",
    "row": "def f(x, i): return x[i % 6] + 1",
    "as a default": "def g(x, n): return x * n\ndef f(x, i, g=g): return g(x, n=i)",
    "keyword": "def g(x, **k): return x * k['n']\ndef f(x, i): return g(x, n=i)",
    "closure": "def f(x, i):\n    def g(y): return y * i + i\n    return g(x)",
    "in a slice of time": "def f(x, i): return x.sum(0) * (i + 0.5) if i < 0 else x.sum(0) * i",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_twice(name):
    same_both(PROGRAMS[name], COUNT, captures=2)


@pytest.mark.parametrize("name", ["of sums and products", "in place", "row", "two of them", "filled"])
def test_gradients(name):
    same_both(PROGRAMS[name], COUNT, captures=2, grads=True)


SELECTED = {
    "row": "def f(x, i): return x[i] * 2",
    "next row": "def f(x, i): return x[i + 1 - 1] * 2",
    "column": "def f(x, i): return x[:, i], x[1:3, i], x[i, 2], x[i, :], x[i, None], x[i, ...]",
    "element": "def f(x, i): return x[i, i], x[i][i]",
    "written": "def f(x, i):\n    y = x.clone()\n    y[i] = 5\n    y[0] = i\n    y[:, i] += 1\n    return y",
    "as a view": "def f(x, i):\n    y = x.clone()\n    y[i].add_(1)\n    y[i][1:].mul_(i)\n    return y, y[i].view(5, 1).t().squeeze()",
}


@pytest.mark.parametrize("name", SELECTED)
def test_parts_of_a_tensor(name):
    # The first is a constant, then counted from the start, then from the end.
    same_both(SELECTED[name], [0, 1, 2, 3, 4, 0, 3, -1, -2, -3, 2, -4], captures=3)


def test_index_out_of_bounds_raises_as_ever():
    same_both("def f(x, i): return x[i]", [0, 1, 2, 5, 6, 7, -6, -7, 3], captures=None, fullgraph=False)


def test_where_a_part_begins():
    source = "def f(x, i):\n    row = x[i]\n    return row + 1, row.storage_offset(), row[1:].storage_offset()"
    same_both(source, [0, 1, 2, 3, 4], captures=5)
    same_both("def f(x, i): return torch.as_strided(x[i], (2,), (1,)) + 1", [0, 1, 2, 3, 4], captures=5)
    same_both("def f(x, i): return x[i].chunk(2)[1].storage_offset()", [0, 1, 2, 3], captures=5)


BRANCHES = {
    "parity": ("def f(x, i): return x + i if i % 2 == 0 else x * i", 3),
    "bounds": ("def f(x, i): return x + i if 5 <= i < 10 else x * i", 5),
    "truth": ("def f(x, i): return x + i if i - 10 else x", 3),
    "not": ("def f(x, i): return x if not i else x * i", 3),
    "all of them": ("def f(x, i): return x + i if i != 3 and (i > 7 or i == 5) else x - i", 6),
    "smaller": ("def f(x, i): return x * min(i, 10), max(3, i)", 4),
    "every fifth": ("def f(x, i):\n    if (i + 1) % 5 == 0: x = x * 0.5\n    return x + i, i + 1", 3),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_one_capture_for_each_branch(name):
    source, captures = BRANCHES[name]
    same_both(source, range(20), captures=captures)


SPECIALIZED = {
    "range": "def f(x, i):\n    for j in range(i): x = x + j\n    return x",
    "list index": "def f(x, i): return x * [1, 2, 3, 4, 5][i]",
    "dict key": "def f(x, i): return x * {j: j + 1 for j in range(9)}[i], {i: 1}",
    "text": "def f(x, i): return x + 1, f'{i:03d} {i + 1}', str(i), '%d' % i, repr(i)",
    "sizes": "def f(x, i): return torch.zeros(i, 2), x.unsqueeze(0).expand(i, 6, 5), x.repeat(i, 1)",
    "dimension": "def f(x, i): return x.sum(i % 2), x.transpose(0, i % 2)",
    "slices": "def f(x, i): return x[i:], x[:i], x[:, : i + 1]",
    "true division": "def f(x, i): return x * (i / 2), i / 4",
    "with floats": "def f(x, i): return x * (i * 0.5), i < 2.5, i == 3.0, i + 1j",
    "with bools": "def f(x, i): return x + 1, i + True, i == True, i & True",
    "exponent": "def f(x, i): return x ** i, 2 ** i, i ** i, 1 << i",
    "list of ints": "def f(x, i): return x[[i, 0]], x[(i, [0])]",
    "attributes": "def f(x, i): return x + i.bit_length(), i.real, i.numerator",
    "hash and set": "def f(x, i): return x + 1, hash(i), i in {1, 2, 3}, i in (1, 4), {i, 1}",
    "repeated": "def f(x, i): return x + 1, [0] * i, 'a' * i, (1,) * i",
    "divmod": "def f(x, i): return x + 1, divmod(i, 3), round(i), pow(i, 2, 5), float(i), complex(i), bool(i)",
    "product of all": "import math\ndef f(x, i): return x * math.sqrt(i) + math.gcd(i, 4)",
    "sum and sorted": "def f(x, i): return x * sum([i, 1, i]), sorted([i, 2, 1]), [i, 1].index(1), [3, i].count(3)",
    "many factors": "def f(x, i):\n    for _ in range(5): i = i * i % 1000 + i\n    return x * (i % 7), i",
}


@pytest.mark.parametrize("name", SPECIALIZED)
def test_what_looks_at_the_value_is_right(name):
    same_both(SPECIALIZED[name], [1, 2, 3, 4, 3, 2, 1], captures=None)


NUMBERS = [5, 7, -3, 0, 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 + 1, 10**40, -(10**30), 6]


@pytest.mark.parametrize(
    "source",
    [
        "def f(x, i): return x + 1, i, i + 1, i * 2 - 1, i * i, -i, ~i, i % 10, i // 7, i << 3, i >> 2, i & 255, i ** 2",
        "def f(x, i): return x + 1 if i + 1 > 0 else x - 1",
        "def f(x, i): return x + 1 if (i * 3) % 2 else x - 1",
        "def f(x, i): return x * i",
        "def f(x, i): return abs(i), max(i, 0), +i",
    ],
)
def test_ints_of_any_size(source):
    same_both(source, NUMBERS, captures=None, fullgraph=False)


def test_division_is_pythons():
    pairs = [(a, b) for a, b in itertools.product([7, -7, 0, 3, 2**63 - 1, -(2**63)], [2, -2, 5, -1, 1, -5])]
    same_both("def f(x, a, b): return x + 1, a // b, a % b, b // (a * a + 1)", pairs, captures=None)
    same_both("def f(x, a, b): return x + 1 if a % b == 1 else x - a // b", pairs, captures=None, fullgraph=False)


def test_division_by_zero():
    same_both(
        "def f(x, a, b): return x * (a // b), a % b",
        [(4, 1), (5, 2), (6, 3), (7, 0), (8, 4), (9, 0)],
        captures=None,
        fullgraph=False,
    )
    same_both("def f(x, i): return x * (8 % (i - 3))", [0, 1, 2, 3, 4, 3], captures=None, fullgraph=False)
    same_both("def f(x, i): return x << i, 1 << i", [1, 2, -1, 3], captures=None, fullgraph=False)


class Number(int):
    def __add__(self, other):
        return 1000


@pytest.mark.parametrize("number", [True, False, Number(3), 2.5, None, 1.0, torch.tensor(3)])
def test_what_is_no_int(number):
    source = "def f(x, i): return (x + 1, type(i).__name__) if i is None else (x * i, i + 1, type(i).__name__)"
    same_both(source, [1, 2, 3, number, 4, number, 5], captures=None, fullgraph=False)


def test_bools_stay_constants():
    recorder = same_both("def f(x, i): return x + i, i", [True, False, True, False], captures=2)
    if CAPTURES:
        assert [len([n for n in graph.graph.nodes if n.op == "placeholder"]) for graph in recorder.graphs] == [1, 1]


def test_two_ints_and_the_same_object():
    pairs = [(1, 2), (2, 3), (3, 3), (4, 4), (5, 9), (9, 5), (300, 300)]
    same_both("def f(x, a, b): return x * a + b, a + b, a * b", pairs, captures=2)
    same_both("def f(x, a, b): return x * a if a < b else x - b", pairs, captures=3)


def test_ints_in_containers_and_attributes():
    source = """
class C:
    def __init__(self): self.n = 0
c, items, table = C(), [0, 1], {"k": 0}
def f(x, i):
    return x * c.n + items[0] - table["k"]
def change(i):
    c.n, items[0], table["k"] = i, i * 2, i + 5
"""
    reset()
    recorder = Recorder()
    namespace = {"torch": torch}
    exec(source, namespace)
    compiled = compile(namespace["f"], backend=recorder)
    x = torch.randn(3)
    for number in range(20):
        namespace["change"](number)
        torch.testing.assert_close(compiled(x, 0), namespace["f"](x, 0))
    assert not CAPTURES or recorder.count == 2
    reset()


def test_arguments_of_a_module():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(5, 5)

        def forward(self, x, step, *, scale):
            if step % 2 == 0:
                x = x * scale
            return self.linear(x) + step, step + 1

    reset()
    model = Model()
    recorder = Recorder()
    compiled = compile(model, backend=recorder)
    x = torch.randn(2, 5)
    step = 0
    for scale in range(20):
        expected, _ = model(x, step, scale=scale)
        actual, step = compiled(x, step, scale=scale)
        torch.testing.assert_close(actual, expected)
    assert step == 20
    assert not CAPTURES or recorder.count <= 4
    reset()


def test_graph_has_the_int_as_input():
    recorder = same_both("def f(x, i): return x * (i + 1)", [3, 4, 5])
    if not CAPTURES:
        return
    nodes = list(recorder.graphs[1].graph.nodes)
    assert [(node.op, node.name) for node in nodes] == [
        ("placeholder", "l_x_"), ("placeholder", "l_i_"), ("call_function", "add"), ("call_function", "mul"), ("output", "output"),
    ]  # fmt: skip


def test_harness_agrees():
    same(
        lambda x, n: x * n + n,
        T(3, 4),
        2,
        mutate=["ARGS[1] = 3", ("unrelated", "ARGS[1] = 4"), ("unrelated", "ARGS[1] = -7")],
    )


COMPILED = [
    "def f(x, i): return x * i + (i + 1)",
    "def f(x, i): return x[i % 5] * 2",
    "def f(x, i): return x[i % 5, :] + x[i % 5 + 1] if i % 3 else x[0] * i",
    "def f(x, i):\n    y = x * 2\n    y[i % 6] = i\n    return y, i + 1",
]


@pytest.mark.parametrize(
    "backend, grads, source",
    [
        *itertools.product(["aot_eager"], [False, True], COMPILED),
        *itertools.product(["inductor"], [True], every(4, COMPILED, 0)),
    ],
)
def test_compiling_backends(backend, grads, source):
    same_both(source, [0, 1, 5, 2, 3, 4, -7, 9], captures=None, backend=backend, grads=grads)


def test_what_a_backend_burns_in_becomes_a_constant():
    def backend(module, example_inputs):
        for value in example_inputs:
            if isinstance(value, torch.SymInt):
                int(value)  # specializes
        return module.forward

    same_both("def f(x, i): return x * i", [1, 2, 3, 4, 5], captures=None, backend=backend)


# --- counters and loops --------------------------------------------------------------------------------------------------


def recorded(make, calls, captures, fullgraph=True):
    """Runs what `make` makes both ways, `calls` times, and compares results and attributes; at most `captures` graphs."""
    reset()
    recorder = Recorder()
    plain, program = make(), make()
    compiled = compile(program, backend=recorder, fullgraph=fullgraph)
    for call in range(calls):
        x = torch.full((3,), float(call))
        same_values(plain(x), compiled(x), call)
        state = getattr(plain, "__dict__", {})
        for name, value in state.items():
            if isinstance(value, int):
                assert program.__dict__[name] == value and type(program.__dict__[name]) is type(value), (name, call)
    if CAPTURES:
        assert recorder.count <= captures, f"{recorder.count} captures, at most {captures} expected"
    reset()


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.total = 5

    def forward(self, x):
        self.steps += 1
        self.total += self.steps * 2
        return x * self.steps + self.total


class CountingEvery(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.resets = 0

    def forward(self, x):
        self.steps += 1
        if self.steps == 7:
            self.steps = 0
            self.resets += 1
        return x + self.steps


def test_counter_on_a_module():
    recorded(Counting, calls=20, captures=2)


def test_counter_that_starts_again():
    recorded(CountingEvery, calls=30, captures=5)


def test_counter_in_a_global_and_a_closure():
    def make():
        count, table = 0, {"n": 0}

        def f(x):
            nonlocal count
            count += 1
            table["n"] += 2
            return x * count + table["n"]

        return f

    recorded(make, calls=20, captures=2)


@torch._dynamo.disable
def opaque(x):
    return None


LOOPS = {
    "range": "def f(x):\n    for i in range(50):\n        x = x * 0.5 + i\n        opaque(x)\n    return x",
    "while": "def f(x):\n    i = 0\n    while i < 50:\n        x = x * 0.5 + i\n        opaque(x)\n        i += 1\n    return x, i",
    "enumerate": "def f(x):\n    for i, s in enumerate('a' * 30):\n        x = x * 0.5 + i\n        opaque(x)\n    return x",
    "rows": "def f(x):\n    total = 0\n    for i in range(30):\n        total = total + x[i % 3] * i\n        opaque(x)\n    return total",
    "branch": "def f(x):\n    for i in range(30):\n        if i % 2 == 0: x = x + i\n        else: x = x * 0.5\n        opaque(x)\n    return x",
    "nested": "def f(x):\n    for i in range(6):\n        for j in range(6):\n            x = x * 0.5 + i * j\n            opaque(x)\n    return x",
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_break(name):
    def make():
        namespace = {"torch": torch, "opaque": opaque}
        exec(LOOPS[name], namespace)
        return namespace["f"]

    recorded(make, calls=3, captures=12, fullgraph=False)
