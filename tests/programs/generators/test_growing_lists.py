"""Lists of comprehensions and displays that grow while the graph breaks: one capture serves all lengths."""

import pytest
import torch

from tests.support import engine
from tests.support.counting import counted_calls
from tests.support.harness import Source, T, same

PARTS = """
SEEN = []

def parts(x, count):
    for k in range(count):
        y = x * k
        print("part", k)
        yield y + 1
"""

PROGRAMS = {
    "comprehension": "def f(x): return [part * 2 for part in parts(x, 12)]",
    "condition": "def f(x): return [part * 2 for k, part in enumerate(parts(x, 12)) if k % 3]",
    "nested": "def f(x): return [[one + k for one in parts(x, 3)] for k in range(4)]",
    "reduced": "def f(x): return torch.cat([part * 2 for part in parts(x, 12)]).sum()",
    "delegated": """
def outer(x):
    yield from parts(x, 6)
    yield from parts(x + 1, 5)
def f(x): return [part * 2 for part in outer(x)]
""",
    "break in the element": """
def opaque(x):
    print("seen")
    return x + 1
def f(x): return [opaque(x * k) - k for k in range(11)]
""",
    "display": """
def opaque(x):
    print("seen")
    return x + 1
def f(x): return [*parts(x, 2), opaque(x), *parts(x, 3), opaque(x - 1)]
""",
    "raises": """
def f(x):
    try:
        return [part * 2 for part in parts(x, 12) if k_of(part) < 9]
    except ValueError as error:
        return x, str(error)
def k_of(part):
    SEEN.append(len(SEEN))
    if len(SEEN) % 10 == 0:
        raise ValueError(len(SEEN))
    return 1
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name):
    same(Source("import torch\n" + PARTS + PROGRAMS[name]), T(4, grad=True), fullgraph=False, compare_dynamo=False)


def test_captures_do_not_depend_on_the_length():
    @torch._dynamo.disable
    def opaque(x):
        return x

    def parts(x, count):
        for k in range(count):
            y = x * k
            opaque(y)
            yield y + 1

    def captures_of(count):
        def program(x):
            return [part * 2 for part in parts(x, count)]

        first, second, third = counted_calls(program, lambda: (torch.ones(3),), calls=3)
        assert first.operations == second.operations == third.operations == 3 * count
        assert third.captures == 0
        return engine.captures()

    engine.reset()
    before = engine.captures()
    few = captures_of(5) - before
    assert captures_of(40) - before - few <= few
