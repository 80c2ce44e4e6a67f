"""Features of Python 3.12 and 3.13: new syntax, `locals()`, the library. Each case names the first version that has
it."""

import sys

import pytest

from tests.support.harness import Source, T, same

IS_312 = pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax or library of Python 3.12")
IS_313 = pytest.mark.skipif(sys.version_info < (3, 13), reason="syntax or library of Python 3.13")

GENERICS = {
    "a generic function": """
def first[S](items: list[S]) -> S:
    return items[0]

def f(x):
    return first([x + 1, x * 2]), first.__type_params__
""",
    "a generic function made inside": """
def f(x):
    def scaled[S: (int, float)](by: S) -> S:
        return x * by
    return scaled(2) + scaled(0.5), [str(p) for p in scaled.__type_params__], scaled.__name__
""",
    "a generic function that closes over its parameter": """
def f(x):
    def named[S](y: S = None) -> str:
        return S.__name__ + str(y)
    return x + 1, named(3)
""",
    "a generic class": """
class Box[S]:
    def __init__(self, value: S) -> None: self.value = value
    def doubled(self) -> S: return self.value * 2

def f(x):
    return Box(x).doubled(), Box[int](x).value + 1, Box.__type_params__, Box.__parameters__, Box.__orig_bases__
""",
    "a generic class made inside": """
def f(x):
    class Box[S]:
        kind: S
        def __init__(self, value): self.value = value
        def get(self): return self.value, S
    value, parameter = Box(x + 1).get()
    return value, parameter.__name__, Box.__type_params__[0] is parameter
""",
    "a generic class with a base and super": """
class Base:
    def __init__(self, factor): self.factor = factor
    def scale(self, x): return x * self.factor

class Derived[S, *Rest](Base):
    def __init__(self, factor: S) -> None: super().__init__(factor + 1)
    def scale[**P](self, x): return super().scale(x) + 1

def f(x):
    return Derived(2).scale(x), Derived[int, str](3).scale(x), [str(p) for p in Derived.__type_params__]
""",
    "type aliases": """
type Pair[S] = tuple[S, S]
type Number = int | float

def f(x):
    type Local = list[Number]
    pair: Pair[int] = (1, 2)
    return x + pair[0], Pair.__name__, Number.__value__, Local.__value__, str(Local)
""",
    "an alias that is evaluated late": """
def f(x):
    type Later = list[Defined]
    y = x + 1
    Defined = int
    return y, Later.__value__
""",
    "bounds that change before they are read": """
class X:
    kind = int
    def method[U: kind](self): ...
    type Alias = kind

def f(x):
    X.kind = float
    return x + 1, X.method.__type_params__[0].__bound__, X.Alias.__value__
""",
    "bounds that can't be evaluated yet": """
def attempt(thing):
    try:
        return thing()
    except Exception as error:
        return type(error), str(error)

class X[S: Unknown, U: (Unknown, int)]: ...
type Alias = Unknown
first, second = X.__type_params__

def f(x):
    before = attempt(lambda: first.__bound__), attempt(lambda: second.__constraints__), attempt(lambda: Alias.__value__)
    globals()["Unknown"] = str
    after = first.__bound__, second.__constraints__, Alias.__value__, first.__constraints__, second.__bound__
    del globals()["Unknown"]
    return x + 1, before, after
""",
    "a class scope inside of a generic class": """
S = "global"
class Outer[S]:
    inner = S
    class Inner:
        seen = S
    def method(self): return S

def f(x):
    return x + 1, Outer.inner is Outer.__type_params__[0], Outer.Inner.seen is Outer.inner, Outer().method() is Outer.inner
""",
    "override and deprecated library parts": """
from typing import override
import itertools, math

class Base:
    def go(self, x): return x

class Derived(Base):
    @override
    def go(self, x): return x + 1

def f(x):
    batches = list(itertools.batched(range(7), 3))
    return Derived().go(x), Derived.go.__override__, batches, math.sumprod([1, 2], [3, 4])
""",
    "a buffer protocol of the program's own": """
class Buffer:
    def __buffer__(self, flags): return memoryview(b"abcd")

def f(x):
    return x + 1, bytes(Buffer()), memoryview(Buffer())[1]
""",
    "f-strings within f-strings": """
def f(x):
    words = ["a", "b"]
    width = 6
    return x + 1, f"{'/'.join(words)} {f"{f'{len(words)}':>{width}}"} {words[0]!r:^{width}} {
        "# no comment"  # a comment
    } {width=} {(lambda n: n * 2)(3)} {'\\n'.join(words)}"
""",
    "slices that can be hashed": """
def f(x):
    table = {slice(1, 2): 3}
    return x[slice(1, 2)] + 1, table[slice(1, 2)], hash(slice(1, 2, 3)) == hash((1, 2, 3)) or slice(1, 2) in table
""",
    "sum compensates": """
def f(x):
    return x + 1, sum([0.1] * 10), sum([1e100, 1.0, -1e100]), sum([1, 0.1, True])
""",
    "the first and the last of a traceback": """
def inner(): raise ValueError("inner")

def f(x):
    try:
        inner()
    except ValueError as error:
        error.add_note("noted")
        lines = [error.__traceback__.tb_lineno, error.__traceback__.tb_next.tb_lineno]
        return x + 1, lines, error.__notes__
""",
}


@IS_312
@pytest.mark.parametrize("name", GENERICS)
def test_of_312(name):
    same(Source(GENERICS[name]), T(3), fullgraph=False, compare_dynamo=False)


OF_313 = {
    "defaults of type parameters": """
class Box[S = int, **P = [int]]:
    def __init__(self, value: S) -> None: self.value = value

def f(x):
    def made[U = str](y: U): return y
    return Box(x + 1).value, [p.__default__ for p in Box.__type_params__], made(2), made.__type_params__[0].__default__
""",
    "copy.replace": """
import copy, dataclasses, collections
@dataclasses.dataclass
class Point:
    a: int
    b: object
Pair = collections.namedtuple("Pair", "a b")

class Own:
    def __init__(self, n): self.n = n
    def __replace__(self, /, **changes): return Own(changes["n"] + 1)

def f(x):
    return copy.replace(Point(1, x), b=x + 1), copy.replace(Pair(1, 2), a=x), copy.replace(Own(1), n=5).n
""",
    "attributes that a class is known to have": """
class Own:
    def __init__(self, n): self.n = n
    def other(self): self.m = 3

def f(x):
    class Made:
        def __init__(self): self.a = 1
    made = Made()
    return x + made.a, sorted(Own.__static_attributes__), Own.__firstlineno__, Made.__static_attributes__, Made.__firstlineno__
""",
    "docstrings without their indentation": '''
def documented():
    """First.

        Indented.
    Not.
    """

def f(x):
    def inner():
        """One
            two
        three"""
    return x + 1, documented.__doc__, inner.__doc__
''',
    "what close gives": """
def numbers():
    try:
        yield 1
    except GeneratorExit:
        return "closed"

def f(x):
    first, second, third = numbers(), numbers(), numbers()
    next(first)
    for _ in third: pass
    return x + 1, first.close(), first.close(), second.close(), third.close()
""",
    "what close gives through a delegation": """
def inner():
    try:
        yield 1
    except GeneratorExit:
        return "inner"

def outer():
    try:
        result = yield from inner()
    except GeneratorExit:
        return "outer"
    return result

def f(x):
    generator = outer()
    next(generator)
    return x + 1, generator.close()
""",
    "deprecated functions": """
import warnings

@warnings.deprecated("use the other")
def old(x): return x * 2

@warnings.deprecated("no more", category=None)
class Old:
    def __init__(self, n): self.n = n

def f(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = old(x)
    globals().pop("__warningregistry__", None)  # counts the changes of filters in the whole process
    return y + Old(3).n, [str(w.message) for w in caught], [w.category for w in caught], old.__deprecated__
""",
    "locals are a new dict each time": """
def f(x):
    a = 1
    first = locals()
    b = 2
    second = locals()
    first["a"] = 10
    return x + a, list(first), list(second), first is second, second["a"]
""",
    "locals seen by exec": """
def f(x):
    a = 1
    exec("a = 5; c = 7")
    names = {}
    exec("d = a + 1", globals(), names | locals())
    return x + a, sorted(locals()), eval("a + 1"), "c" in locals()
""",
    "a frame's locals are written through": """
import sys

def set_there():
    frame = sys._getframe(1)
    frame.f_locals["a"] = 10
    frame.f_locals["new"] = 11
    return sorted(frame.f_locals)

def f(x):
    a = 1
    y = x + a
    names = set_there()
    return y * a, names, a, sorted(locals())
""",
    "a frame's locals are written through from a deeper call": """
import sys

def change(depth, name, value):
    sys._getframe(depth).f_locals[name] = value

def between(x):
    k = 2
    y = x * k
    change(1, "k", 3)
    change(2, "a", 5)
    return y * k

def f(x):
    a = 1
    y = between(x + a) + a
    change(1, "y", y + 1)
    return y * a, a
""",
    "a frame's cells are written through": """
import sys

def change(value):
    sys._getframe(1).f_locals["a"] = value

def f(x):
    a = 1
    def read(): return a
    before = read()
    change(7)
    return x + read(), before, a
""",
    "locals inside of comprehensions": """
def f(x):
    a = 1
    inside = [sorted(locals()) for i in range(2)]
    nested = [[sorted(locals()) for j in range(1)] for i in range(1)]
    return x + a, inside, nested
""",
    "locals in a class body and a generator": """
def numbers(n):
    m = n + 1
    yield sorted(locals())
    m += 1
    yield locals()

def f(x):
    class Made:
        a = 1
        names = sorted(locals())
    generator = numbers(3)
    return x + Made.a, Made.names, next(generator), next(generator)
""",
    "replaced in strings by keyword": """
def f(x):
    return x + 1, "aaa".replace("a", "b", count=2)
""",
    "python's own new functions": """
import math, itertools, random
def f(x):
    return x + 1, math.fma(2.0, 3.0, 1.0), list(itertools.batched([1, 2, 3, 4], 2, strict=True))
""",
    "an exception's lines and class": """
class Problem(Exception):
    def __init__(self, n): self.n = n; super().__init__(n)

def f(x):
    try:
        raise Problem(3)
    except* Problem as group:
        return_value = group.exceptions[0].n
    return x + return_value
""",
    "a property knows its name": """
class Own:
    @property
    def size(self): return 3

def f(x):
    return x + Own().size, Own.size.__name__
""",
    "partial with placeholders is not there yet, methods of enum are": """
import enum
class Color(enum.Enum):
    RED = 1
    @enum.nonmember
    class Inner: pass
    GREEN = 2

def f(x):
    return x + Color.RED.value, Color.Inner.__name__, list(Color), 2 in Color, Color["GREEN"]
""",
}


@IS_313
@pytest.mark.parametrize("name", OF_313)
def test_of_313(name):
    same(Source(OF_313[name]), T(3), fullgraph=False, compare_dynamo=False)
