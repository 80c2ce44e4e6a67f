"""Comprehensions, with a separate frame or inlined, and exception groups, which came with the same versions."""

import pytest

from tests.support.harness import Source, T, same

# From 3.12 on a comprehension has no frame of its own: its variables are slots of the function around it, which get
# their former values back even when it fails, and breaks and resumptions happen in its middle.
COMPREHENSIONS = {
    "the variable outside is untouched": """
def f(x):
    i = 7
    made = [i * 2 for i in range(3)]
    return x + i, made, [i for made in [i]], made
""",
    "a variable that is not bound outside": """
def f(x):
    made = [i for i in range(3)]
    try:
        i
    except UnboundLocalError as error:
        return x + 1, made, str(error)
    i = 3
""",
    "a global of the same name": """
i = 100
def f(x):
    made = [i for i in range(3)]
    return x + i, made
""",
    "cells made for each": """
def f(x):
    i = 7
    first = [lambda: i for i in range(3)]
    def read(): return i
    i = 8
    return x + read(), [g() for g in first], i
""",
    "cells with defaults and breaks": """
def f(x):
    makers = [(print(i), lambda k=i: k + i + x)[1] for i in range(3)]
    return x + 1, [m() for m in makers]
""",
    "a break inside": """
def f(x):
    y = x + 1
    made = [(print("item", i), y * i)[1] for i in range(4) if i != 2]
    return sum(made) + x
""",
    "a break inside of nested ones": """
def f(x):
    i = "kept"
    made = [[(print(i, j), x * i + j)[1] for j in range(2)] for i in range(3)]
    return made[2][1] + 1, i
""",
    "a break inside a set and a dict": """
def f(x):
    k = 5
    made = {k: (print(k), x + k)[1] for k in range(3)}
    also = {(print(k), k % 2)[1] for k in range(4)}
    return made[2] * 2, also, k
""",
    "an exception inside gives the variable back": """
def f(x):
    i = 7
    y = x + i
    try:
        [1 // (2 - i) for i in range(5)]
    except ZeroDivisionError as error:
        return y * i, str(error), i
""",
    "an exception behind a break inside": """
def fail(n):
    print("asked", n)
    if n == 2: raise KeyError(n)
    return n

def f(x):
    n, m = 7, 8
    try:
        made = [x + fail(n) + m for n in range(4) for m in range(2)]
    except KeyError as error:
        return x + n + m, error.args, n, m
""",
    "an exception where the variable was not bound": """
def f(x):
    try:
        [1 // (1 - i) for i in range(5)]
    except ZeroDivisionError:
        try:
            return i
        except UnboundLocalError as error:
            return x + 1, str(error)
    i = 1
""",
    "in a class body": """
def f(x):
    n = 3
    class Made:
        n = 5
        items = [n + i for i in range(2)]
        names = [name for name in ("a", "b")]
    return x + sum(Made.items), Made.names, hasattr(Made, "i")
""",
    "super and __class__ inside": """
class Base:
    def scale(self, n): return n * 2

class Derived(Base):
    def scale(self, n): return n
    def all(self, x): return [x * super(Derived, self).scale(i) for i in range(2)], [__class__ for _ in range(1)]

def f(x):
    return Derived().all(x)
""",
    "super without arguments": """
class Base:
    def scale(self, n): return n * 2

class Derived(Base):
    def scale(self, n): return [super(__class__, self).scale(n + i) for i in range(2)]

def f(x):
    return x + sum(Derived().scale(3))
""",
    "assignment expressions": """
def f(x):
    made = [last := i * 2 for i in range(3)]
    any((found := i) > 1 for i in range(5))
    return x + last, made, found
""",
    "a generator keeps its frame": """
def f(x):
    i = 4
    pending = (x + i * j for j in range(3))
    i = 5
    first = next(pending)
    print("between")
    i = 6
    return first + sum(pending), i
""",
    "a comprehension inside of a generator": """
def items(x):
    i = 9
    yield [i + x for i in range(2)]
    print("in the middle")
    yield {i: x * i for i in range(2)}
    yield i

def f(x):
    return list(items(x))
""",
    "unpacking targets and conditions": """
def f(x):
    pairs = {"a": 1, "b": 2, "c": 3}
    a, b = 10, 20
    made = {b: a for a, b in pairs.items() if (a, b) != ("b", 2)}
    star = [rest for first, *rest in [(1, 2, 3), (4,)]]
    return x + a + b, made, star
""",
    "a loop variable deleted inside a lambda's scope": """
def f(x):
    functions = [[(lambda: (i, j)) for j in range(2)] for i in range(2)]
    return x + 1, [[g() for g in row] for row in functions]
""",
    "a subscript as the target": """
def f(x):
    box = [0]
    made = [box[0] for box[0] in range(3)]
    return x + box[0], made
""",
    "an argument of the function as the variable": """
def g(x, i):
    rows = [i for i in range(i)]
    print(rows)
    return x + i, rows

def f(x):
    return g(x, 3), g(x, 2)
""",
    "a variable captured by an inner function": """
def f(x):
    def read(): return i
    i = 1
    made = [(i, read()) for i in range(3)]
    print(made)
    return x + i + read(), made
""",
    "recursion inside": """
def tree(x, depth):
    if depth == 0:
        print("leaf")
        return x
    return sum([tree(x + depth, depth - 1) for depth in (depth, depth)]) * depth

def f(x):
    return tree(x, 2)
""",
}


@pytest.mark.parametrize("name", COMPREHENSIONS)
def test_comprehensions(name):
    same(Source(COMPREHENSIONS[name]), T(3), fullgraph=False, compare_dynamo=False)


GROUPS = {
    "taken apart": """
def f(x):
    caught = []
    try:
        raise ExceptionGroup("both", [ValueError(1), TypeError(2), ExceptionGroup("inner", [ValueError(3)])])
    except* ValueError as group:
        caught.append([str(e) for e in group.exceptions])
    except* TypeError as group:
        caught.append(group.message)
    return x + len(caught), caught
""",
    "with something left": """
def g(x):
    try:
        raise ExceptionGroup("both", [ValueError(1), KeyError(2)])
    except* ValueError:
        x = x + 1
    return x

def f(x):
    try:
        return g(x)
    except ExceptionGroup as group:
        return x + 5, [type(e) for e in group.exceptions], group.message
""",
    "a break in the handler": """
def f(x):
    y = x + 1
    try:
        raise ExceptionGroup("both", [ValueError(1), KeyError(2)])
    except* ValueError as group:
        print("one", group.exceptions)
        y = y * 2
    except* KeyError:
        y = y + 3
    else:
        y = y - 100
    finally:
        print("done")
    return y
""",
    "raising in the handler": """
def g(x):
    try:
        raise ValueError("plain")
    except* ValueError as group:
        raise RuntimeError("new") from group

def f(x):
    try:
        g(x)
    except ExceptionGroup as group:
        return x + 1, group.message, [str(e) for e in group.exceptions]
    except RuntimeError as error:
        return x + 2, str(error), type(error.__cause__), type(error.__context__)
""",
    "contexts that suppress parts": """
import contextlib
def f(x):
    with contextlib.suppress(KeyError):
        raise KeyError(1)
    return x + 1
""",
    "split and subgroup": """
def f(x):
    group = ExceptionGroup("all", [ValueError(1), TypeError(2), ExceptionGroup("in", [KeyError(3)])])
    left, right = group.split((ValueError, KeyError))
    return x + 1, repr(left), repr(right), group.subgroup(OSError), repr(group.derive([OSError()]))
""",
}


@pytest.mark.parametrize("name", GROUPS)
def test_exception_groups(name):
    same(Source(GROUPS[name]), T(3), fullgraph=False, compare_dynamo=False)
