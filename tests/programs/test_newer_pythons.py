"""What came with Python 3.12 and 3.13: new syntax, comprehensions without functions, `locals()`, attributes kept inline.

Programs that older Pythons can run as well do so there too; the others say from which version on they are Python.
"""

import sys

import pytest
from harness import Source, T, same

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


OBJECT = """
class Holder:
    kind = "class"
    def __init__(self):
        self.a = 2
        self.b = 3
holder = Holder()
def set_a(value): holder.a = value
def delete_a(): del holder.a
def f(x):
    return x * holder.a + len(holder.__dict__)
"""
READ_ONLY = OBJECT.replace(" + len(holder.__dict__)", "")
WARM = "for i in range(200): set_a(i)\nset_a(2)\n"

# In 3.13 the values of a dict that was asked for may lie in its instance, so that a store through the instance does
# not touch the dict. Whatever the order of asking, changing and checking is, a change must be noticed.
CHANGES = {
    "by attribute": ["set_a(5)", "set_a(6)", "holder.a = 7", "delete_a(); Holder.a = 8", "holder.a = 1"],
    "through the dict": ["vars(holder)['a'] = 5", "holder.__dict__['a'] = 6", "holder.__dict__.update(a=7)"],
    "by attribute once the dict was taken": ["kept = vars(holder); set_a(5)", "set_a(6)", "kept['a'] = 7", "set_a(8)"],
    "in both ways in turn": [
        "vars(holder)['a'] = 5",
        "set_a(6)",
        "vars(holder)['a'] = 7",
        "holder.a = 8",
        "holder.__dict__['a'] = 9",
    ],
    "removed and put back": [
        "delete_a(); set_a(5)",
        "del vars(holder)['a']; set_a(6)",
        "vars(holder).pop('a'); holder.a = 7",
    ],
    "another dict": [
        "holder.__dict__ = {'a': 5}",
        "set_a(6)",
        "holder.__dict__ = dict(a=7, b=1)",
        "vars(holder)['a'] = 8",
    ],
    "the dict outlives its instance": [
        "old = vars(holder); holder = Holder(); holder.a = 5",
        "old['a'] = 1; holder.a = 6",
        "del old; holder.a = 7",
    ],
    "a dict that was replaced": [
        "old = holder.__dict__; holder.__dict__ = {'a': 5, 'b': 1}",
        "old['a'] = 6",
        "holder.a = 7",
        "old.clear(); holder.a = 8",
    ],
    "cleared": [
        "vars(holder).clear(); holder.a = 5",
        "holder.a = 6",
        "holder.b = 1",
        "holder.__dict__.clear(); holder.__dict__['a'] = 4",
    ],
    "updated as one": [
        "vars(holder).update({'a': 5, 'c': 1})",
        "vars(holder).update(a=6)",
        "vars(holder).__ior__({'a': 7})",
        "vars(holder).setdefault('d', 1)",
    ],
    "by the library's ways": [
        "setattr(holder, 'a', 5)",
        "object.__setattr__(holder, 'a', 6)",
        "operator.setitem(vars(holder), 'a', 7)",
        "delattr(holder, 'a'); setattr(holder, 'a', 8)",
    ],
    "many attributes": ["for i in range(40): setattr(holder, f'n{i}', i)", "set_a(6)", "vars(holder)['a'] = 7"],
    "the class is another": [
        "class Other: pass\nholder.__class__ = Other\nholder.a = 5",
        "holder.a = 6",
        "vars(holder)['a'] = 7",
    ],
    "a property appears": [
        "Holder.a = property(lambda self: 50)",
        "del Holder.a; set_a(6)",
        "Holder.a = 9",
        "set_a(7)",
    ],
    "copied": ["holder = copy.copy(holder); holder.a = 5", "set_a(6)", "vars(holder)['a'] = 7"],
    "pickled": ["holder = object.__reduce_ex__(holder, 2)[0](Holder); vars(holder).update(a=5, b=1)", "set_a(6)"],
    "keys in another order": ["vars(holder)['a'] = vars(holder).pop('a'); set_a(5)", "set_a(6)"],
    "keys that are no names": ["vars(holder)[3] = 1; set_a(5)", "set_a(6)", "vars(holder)['a'] = 7"],
}


@pytest.mark.parametrize("program", [OBJECT, READ_ONLY], ids=["with its dict", "attribute alone"])
@pytest.mark.parametrize(
    "prepared",
    ["", "vars(holder)\n", WARM, "kept = vars(holder)\n" + WARM],
    ids=["fresh", "asked", "warm", "warm and asked"],
)
@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_instances(name, prepared, program):
    same(Source(program + prepared), T(3), calls=4, mutate=CHANGES[name], compare_dynamo=False)


@pytest.mark.parametrize("asked", [False, True])
def test_changes_between_many_calls(asked):
    """Long enough for checks to be recorded as quick ones and for dicts to be watched."""
    text = OBJECT + ("kept = vars(holder)\n" if asked else "") + "def other(n): vars(holder)['a'] = n\n"
    changes = []
    for i in range(6):
        changes += [f"set_a({i + 3})", "pass", "pass", "pass", f"other({i + 20})", "pass", "pass", "pass"]
    same(Source(text), T(3), calls=8, mutate=changes, compare_dynamo=False)


@pytest.mark.parametrize(
    "name", ["by attribute", "through the dict", "in both ways in turn", "another dict", "cleared"]
)
def test_changes_of_modules(name):
    text = """
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = 2
    def forward(self, x): return x * self.a
holder = Holder()
initial = dict(vars(holder))
def set_a(value): holder.a = value
def delete_a(): del holder.a
def f(x): return holder(x)
"""
    changes = [
        change.replace("holder.__dict__ = {", "holder.__dict__ = {**initial, ")
        .replace("dict(a=7, b=1)", "dict(initial, a=7)")
        .replace("vars(holder).clear()", "vars(holder).clear(); vars(holder).update(initial)")
        .replace("holder.__dict__.clear()", "holder.__dict__.clear(); vars(holder).update(initial)")
        for change in CHANGES[name]
    ]
    same(Source(text), T(3), calls=5, mutate=changes, compare_dynamo=False)


INSIDE = {
    "attributes set after the dict was taken": """
class Holder: pass
def f(x):
    holder = Holder()
    holder.a = x
    names = vars(holder)
    holder.b = x + 1
    names["c"] = 3
    del holder.a
    return holder, names, names is holder.__dict__, list(names), holder.c
""",
    "an object from outside, its dict taken before": """
class Holder: pass
holder = Holder()
holder.a = 1
names = vars(holder)
def f(x):
    holder.b = holder.a + 1
    names["c"] = x
    seen = list(names)
    print(seen)
    holder.a = names["b"]
    return x + holder.a, names is vars(holder), sorted(vars(holder)), holder.c
""",
    "an object from outside behind a break": """
class Holder:
    def __init__(self): self.a, self.b = 1, 2
holder = Holder()
names = vars(holder)
def f(x):
    holder.a += 1
    print(names)
    y = x * holder.a
    names["a"] += 1
    print(holder.a)
    holder.b = y
    del names["a"]
    print(hasattr(holder, "a"))
    holder.a = 1
    return y + holder.a, list(names)
""",
    "attributes iterated while they change": """
class Holder:
    def __init__(self): self.a, self.b = 1, 2
def f(x):
    holder = Holder()
    try:
        for name in vars(holder):
            setattr(holder, name + "2", x)
    except RuntimeError as error:
        return x + 1, str(error), sorted(vars(holder))
""",
    "dicts swapped": """
class Holder:
    def __init__(self, n): self.n = n
first, second = Holder(1), Holder(2)
def f(x):
    first.__dict__, second.__dict__ = second.__dict__, first.__dict__
    return x + first.n, second.n
""",
    "a dict shared": """
class Holder:
    def __init__(self, n): self.n = n
first, second = Holder(1), Holder(2)
second.__dict__ = first.__dict__
def f(x):
    first.n += 1
    y = x + second.n
    second.n += 1
    print(first.n)
    return y, first.n
""",
    "a class's attributes through its proxy": """
class Holder: n = 1
view = vars(Holder)
def f(x):
    Holder.n += 1
    y = x + view["n"]
    print(view["n"])
    Holder.m = y
    return y + Holder().n, "m" in view
""",
    "slots beside a dict": """
class Base: __slots__ = ("s",)
class Holder(Base):
    def __init__(self): self.s, self.d = 1, 2
holder = Holder()
def f(x):
    holder.s += 1
    holder.d += 1
    print(holder.s, vars(holder))
    return x + holder.s * holder.d
""",
}


@pytest.mark.parametrize("name", INSIDE)
def test_instances_and_their_dicts_inside(name):
    same(Source(INSIDE[name]), T(3), calls=4, fullgraph=False, compare_dynamo=False)


# From 3.13 on a comparison and the question for its truth are one opcode. Between the two the program may break, so
# that what goes on there can't be left to CPython as it is.
COMPARED = """
import sys
class Number:
    def __init__(self, n): self.n = n
    def __lt__(self, other):
        print("compared", self.n)
        return Answer(self.n < other.n)
class Answer:
    def __init__(self, yes): self.yes = yes
    def __bool__(self):
        print("asked")
        if self.yes is None: raise ValueError("unsure")
        return self.yes
class Unsure(Number):
    def __lt__(self, other): return Answer(None)
"""
COMPARISONS = {
    "breaks in both": """
def f(x):
    y = x + 1
    if Number(1) < Number(2):
        y = y * 2
    return y, 3 if Number(5) < Number(4) else 4
""",
    "in a loop": """
def f(x):
    n = 0
    while Number(n) < Number(3):
        x = x * 2 + n
        n += 1
    return x
""",
    "the truth fails": """
def f(x):
    y = x + 1
    try:
        if Unsure(1) < Number(2):
            y = y * 2
    except ValueError as error:
        return y + 3, str(error), error.__traceback__.tb_lineno
    return y
""",
    "the failure leaves": """
def f(x):
    y = x + 1
    if Unsure(1) < Number(2):
        y = y * 2
    return y
""",
    "tensors": """
def f(x):
    y = x + 1
    if y.sum() > 100:
        y = y * 2
    while y.abs().max() < 50:
        y = y * 3
    return y
""",
    "a tensor of several": """
def f(x):
    y = x + 1
    if y > 1:
        y = y * 2
    return y
""",
    "a debugger comes": """
def tracer(frame, event, argument): return None
class Debugged(Number):
    def __lt__(self, other):
        sys.settrace(tracer)
        return Answer(True)
def f(x):
    y = x + 1
    try:
        if Debugged(1) < Number(2):
            y = y * 2
    finally:
        sys.settrace(None)
    return y + 1
""",
    "many in a row, without tensors": """
def f(x):
    count = 0
    for i in range(150):
        if Number(i) < Number(75):
            count += 1
    return x + count
""",
    "in a generator": """
def items(x):
    for i in range(3):
        if Number(i) < Number(2):
            yield x * i
def f(x):
    return list(items(x))
""",
    "chained": """
def f(x):
    return x + (1 if Number(1) < Number(2) < Number(3) else 2), Number(1) < Number(0) < Number(5)
""",
}


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_asked_for_their_truth(name):
    same(Source(COMPARED + COMPARISONS[name]), T(3), calls=3, fullgraph=False, compare_dynamo=False)
