"""Numbers and strings that a program computes are new objects in each call; literals are one object in all calls."""

import pytest
import torch

from tests.support.engine import CAPTURES, compile, reset

LITERAL = 10**30
KEPT = {}


class Holder:
    pass


def text(x):
    return f"size {x.shape[0]}", "a" * x.shape[0], str(x.dtype), "é€" + "x" * x.shape[0]


def numbers(x):
    n = x.shape[0]
    return n * 10**20, n / 3, n + 1000, complex(n, 1), float(n), float("nan"), -(n / 7), n * 1e300 * 1e300


def small(x):
    n = x.shape[0]
    return n, n - n, "abc"[n % 3], "", b"a" + b"", True, None


def data(x):
    return bytes([x.shape[0]] * 3), b"ab" * x.shape[0], range(x.shape[0]), range(10, -(10**20), -x.shape[0])


def literals(x):
    return x + 1, 12345, 1.5, "a text", (1000, 2.5), b"data", LITERAL, 3 * 12345


def twice(x):
    made = x.shape[0] / 3
    return made, made, [made, made], {"k": made}, x * made


def alone(x):
    return f"only {x.shape[0]}"


def kept(x):
    made = KEPT["made"] = f"kept {x.shape[0]}"
    holder = Holder()
    holder.made = made
    return x + 1, made, holder.made, KEPT["made"]


def in_containers(x):
    n = x.shape[0]
    return [n / 3], (n / 3, n + 2000), {f"key {n}": n / 3}, {n / 3}, x


def around_a_break(x):
    made = x.shape[0] / 3
    torch._dynamo.graph_break()
    return made, made + 1, made


def used_by_the_graph(x):
    scale = 1 / x.shape[0] ** 0.5
    return x * scale, scale


def of_an_argument(x, given="given"):
    return given + "", given * 1, given + "!"


PROGRAMS = [
    text, numbers, small, data, literals, twice, alone, kept, in_containers, around_a_break, used_by_the_graph, of_an_argument
]  # fmt: skip


def parts(value):
    """The numbers and texts in a result, in order."""
    if isinstance(value, dict):
        return [part for item in value.items() for part in parts(item)]
    if isinstance(value, (tuple, list, set)):
        return [part for item in value for part in parts(item)]
    return [] if isinstance(value, torch.Tensor) else [value]


def identities(program):
    """Which of the objects that three calls give are the same object."""
    results = [program(torch.ones(7)) for _ in range(3)]
    found = [part for result in results for part in parts(result)]
    first = {}
    return [repr(part) for part in found], [first.setdefault(id(part), index) for index, part in enumerate(found)]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_which_objects_are_the_same(program, backend: str) -> None:
    reset()
    compiled = compile(program, backend=backend, fullgraph=False)
    compiled(torch.ones(7))
    assert identities(compiled) == identities(program)
    reset()


@pytest.mark.skipif(not CAPTURES, reason="about plans alone")
def test_a_plan_tells_what_it_makes() -> None:
    reset()
    compiled = compile(lambda x: (x + 1, x.shape[0] / 2, 1000), fullgraph=True)
    compiled(torch.ones(7))
    (entry,) = compiled._entries()
    assert "= new constant 3.5" in entry["plan"] and "= constant 1000" in entry["plan"]
    reset()


def test_a_mutable_object_is_made_anew() -> None:
    def program(x):
        return x + 1, [], {}, set(), [[1.5]], ([],), Holder()

    compiled = compile(program, fullgraph=True)
    first, second = compiled(torch.ones(2)), compiled(torch.ones(2))
    assert all(one is not other for one, other in zip(first, second, strict=True))
    assert first[4][0] is not second[4][0] and first[5][0] is not second[5][0]
    reset()
