"""Equal objects that are not identical: `is`, and containers that find NaN by identity, follow the objects of each
call, and returned objects are the same objects."""

import pytest
import torch

import stator
from tests.support.harness import Source, T, same

KINDS = {
    "str": "''.join(['he', 'llo world'])",
    "float": "float('2.5')",
    "nan": "float('nan')",
    "int": "int('123456789012345')",
    "bytes": "bytes(bytearray(b'hello'))",
    "complex": "complex('1+2j')",
    "complex_nan": "complex(float('nan'), 1)",
    "tuple": "tuple([1, 2, 3])",
    "tuple_with_nan": "(float('nan'), 1)",
    "frozenset": "frozenset([1, 2])",
    "range": "range(int('3'))",
    "numpy": "numpy.float64(2.5)",
    "numpy_nan": "numpy.float64('nan')",
    "device": "torch.device('cpu:0')",
    "size": "torch.Size([2, 3])",
    "method": "MM().method",
    "subclass": "SS('abc')",
}
# The same object everywhere; another one everywhere; some here, others there.
STATES = [
    "_o.s = NEW(); _o.t = _o.s; _o.l = [_o.s]; _o.d = {_o.s: _o.s}; _o.e = {_o.s}",
    "_o.s = NEW(); _o.t = NEW(); _o.l = [NEW()]; _o.d = {NEW(): NEW()}; _o.e = {NEW()}",
    "_o.s = NEW(); _o.t = _o.s; _o.l = [NEW()]; _o.d = {NEW(): _o.s}; _o.e = {_o.s}",
    "_o.s = NEW(); _o.t = NEW(); _o.l = [_o.t]; _o.d = {_o.t: NEW()}; _o.e = {_o.t}",
]
EXPRESSIONS = """
o.s is o.t
o.s is not o.t, o.s == o.t
o.s in [o.t], (o.s,) in [(o.t,)]
[o.s] == [o.t], (o.s, 1) == (o.t, 1), {'k': o.s} == {'k': o.t}
o.l == [o.s], o.s in o.l
o.l.count(o.s), attempt(lambda: o.l.index(o.t)), attempt(lambda: [o.s, 1].remove(o.t))
[v is o.s for v in o.l], o.l[0] is o.t
o.s in o.d.values(), o.d.get(o.s) is o.t
collections.deque([o.s]) == collections.deque([o.t]), o.s in collections.deque([o.t])
o.s in {o.t}, len({o.s: 1, o.t: 2}), {o.s} == {o.t}
(o.s, 1) in {(o.t, 1)}, hash(o.s) == hash(o.t)
o.s in o.d, o.s in o.e
next(iter(o.d)) is o.s
[k is o.s for k in o.e]
list(o.d.items())[0][0] is o.t
list({o.s: 1, o.t: 2})[0] is o.t
id(o.s) == id(o.t), (lambda v: v is o.t)(o.s)
"""
IS_ALONE = ["bytes", "complex", "complex_nan", "range", "numpy", "device", "size", "subclass"]


def program(kind: str, body: str, first: int) -> Source:
    return Source(f"""
import numpy
class MM:
    def method(self): pass
    def __eq__(self, other): return isinstance(other, MM)
    def __hash__(self): return 1
class SS(str): pass
class O: pass
_o = O()
def NEW(): return {KINDS[kind]}
def attempt(f):
    try: return f()
    except Exception as e: return type(e).__name__
{STATES[first]}
def f(x):
{body}
""")


def changes(first: int) -> list[str]:
    return [STATES[(first + step) % len(STATES)] for step in (1, 2, 3)]


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().split("\n"))
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in IS_ALONE])
def test_asked(kind: str, expression: str) -> None:
    check(kind, expression)


@pytest.mark.parametrize("kind", IS_ALONE)
def test_asked_of_other_kinds(kind: str) -> None:
    check(kind, "o.s is o.t, o.l[0] is o.s, o.s in o.l, o.s == o.t")


def check(kind: str, expression: str) -> None:
    for first in (0, 1):
        text = program(kind, f"    o = _o\n    return x + 1, [{expression}]", first)
        same(text, T(2), fullgraph=False, compare_dynamo=False, calls=2, mutate=changes(first))


RETURNED = {
    "str": "str(o.s) | o.s + '' | '' + o.s | o.s[:] | o.s.strip() | o.s * 1 | ''.join([o.s]) | f'{o.s}' | format(o.s)"
    " | o.s.partition('zz')[0]",
    "float": "float(o.s) | +o.s | o.s.real | max(o.s, 1.0)",
    "nan": "float(o.s) | max(o.s, 1.0) | max([o.s, o.t], key=lambda v: 0)",
    "int": "int(o.s) | +o.s | abs(o.s) | o.s.numerator | operator.index(o.s) | round(o.s)",
    "bytes": "bytes(o.s) | o.s + b'' | o.s[:] | b''.join([o.s])",
    "complex": "complex(o.s) | +o.s",
    "tuple": "tuple(o.s) | o.s + () | () + o.s | o.s[:] | o.s * 1 | copy.copy(o.s) | o.s.__getnewargs__()[0]",
    "frozenset": "frozenset(o.s) | copy.copy(o.s)",
    "range": "copy.copy(o.s) | [*o.l][0]",
    "device": "o.s if x.shape[0] == 2 else 0",
}


@pytest.mark.parametrize(
    ("kind", "expression"), [(kind, one.strip()) for kind in RETURNED for one in RETURNED[kind].split("|")]
)
def test_returned_object_is_the_one_given(kind: str, expression: str) -> None:
    text = program(kind, f"    o = _o\n    return x + 1, {expression}", 1).code
    check = "\nplain = f\n" + "def f(x):\n    result = COMPILED(x)[1]\n    return [result is v for v in (_o.s, _o.t)]\n"
    for first in (0, 1):
        namespaces = []
        for compiled in (False, True):
            namespace: dict = {"__name__": "program"}
            exec("import collections, copy, operator, torch", namespace)
            exec(text, namespace)
            plain = namespace["f"]
            namespace["COMPILED"] = stator.compile(plain, backend="eager") if compiled else plain
            exec(check, namespace)
            namespaces.append(namespace)
        for state in [STATES[first], *changes(first)]:
            answers = []
            for namespace in namespaces:
                exec(state, namespace)
                answers.append([namespace["f"](torch.ones(2)) for _ in range(2)])
            assert answers[0] == answers[1], state


def test_literals_are_one_object() -> None:
    text = """
def g(): return (1, 2.5, "a b")
def f(x):
    one = (1, 2.5, "a b")
    return x + 1, one is (1, 2.5, "a b"), g() is g(), g() is one, [t is one for t in (one, (1, 2.5, "a b"))]
"""
    same(Source(text), T(2), compare_dynamo=False)


ORDINARY = """
o.mode is None
o.flag is True
o.kind is Kind.A
o.mode is not NOTHING
type(o) is O
x.dtype is torch.float32
o.number in (1, 2, 3)
o.text in ("a", "b c") and o.text == "b c"
o.pair in [(1, 2), (3, 4)]
o.pair == (1, 2) and o.text in {"b c": 1}
o.scale in (0.5, 1.0) and o.scale == 0.5
"""


@pytest.mark.parametrize("expression", ORDINARY.strip().split("\n"))
def test_ordinary_questions_are_captured(expression: str) -> None:
    """If only equality matters, replacing an object by an equal one causes no recompile."""
    state = "o.mode, o.flag, o.kind, o.number, o.text = None, True, Kind.A, 2, ' '.join(['b', 'c'])\n"
    state += "o.pair, o.scale = tuple([1, 2]), float('0.5')"
    text = f"""
class Kind(enum.Enum):
    A = 1
class O: pass
o = O()
NOTHING = object()
{state}
def f(x):
    return x * 2 if {expression} else x
"""
    same(Source(text), T(2), compare_dynamo=False, mutate=[("unrelated", state)])
