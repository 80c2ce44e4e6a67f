"""Rarely used features of Python, where an almost correct model gives a wrong result."""

import pytest
import torch

import stator
from tests.support.harness import Source, T, same

PROGRAMS = {
    "vars of a number": """
def f(x):
    try:
        vars(42)
    except TypeError as error:
        return x + 1, str(error)
""",
    "a descriptor that only sets": """
class Field:
    def __set__(self, instance, value):
        instance.__dict__["field"] += value * 2

class Holder:
    field = Field()
    def __init__(self): self.__dict__["field"] = 1

holder = Holder()

def f(x):
    holder.field = 10
    return x + holder.field
""",
    "a descriptor that only deletes": """
class Field:
    def __delete__(self, instance): instance.__dict__.clear()

class Holder:
    field = Field()

def f(x):
    holder = Holder()
    before = isinstance(holder.field, Field)
    holder.__dict__["field"] = x
    y = holder.field + 1
    del holder.field
    return y, before, holder.__dict__
""",
    "isdisjoint takes what it needs": """
taken = []

def items():
    for i in range(5):
        taken.append(i)
        yield i

def f(x):
    return x + 1, {2, 4}.isdisjoint(items()), {0, 9}.issuperset(items()), {1}.issubset(items())
""",
    "an iterator of a string": """
def f(x):
    letters = "abc".__iter__()
    first = next(letters)
    return x + 1, first, letters, b"ab".__iter__(), range(3).__iter__()
""",
    "methods of None": """
def f(x):
    equal = None.__eq__
    return x + 1, equal(None), equal(3), None.__ne__({}), None.__bool__(), equal
""",
    "an empty tuple is one object": """
def f(x, *rest):
    return x + 1, rest is (), () * 3 is (), (1, 2)[5:] is rest, tuple([]) is ()
""",
    "an index that is a tuple": """
def f(x):
    try:
        [1, 2].index(())
    except ValueError as error:
        return x + 1, str(error)
""",
    "attributes named by a subclass of str": """
class Name(str): pass
class Holder: pass

def f(x):
    holder = Holder()
    setattr(holder, Name("a"), x)
    return getattr(holder, Name("a")) + 1, hasattr(holder, Name("b"))
""",
    "enumerate from a subclass of int": """
class Start(int): pass

def f(x):
    return x + 1, list(enumerate("ab", Start(4)))
""",
    "what a generator is made of": """
def f(x):
    numbers = (i for i in range(3))
    return x + 1, numbers.gi_code.co_name, numbers.gi_running, list(numbers)
""",
    "an empty dict and a key that can't be one": """
def f(x):
    try:
        {}.pop([1])
    except KeyError as error:
        return x + 1, error.args
""",
    "a dict with an iterator as a key": """
numbers = iter([1, 2])

def f(x):
    seen = {}
    seen.setdefault(numbers, x)
    return x + 1, len(seen), numbers in seen
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_corners(name):
    same(Source(PROGRAMS[name]), T(3), fullgraph=False, compare_dynamo=False)


def test_order_of_operations_on_views_is_pythons():
    same(
        Source("""
def f(x):
    first, second = {i * 7: 1 for i in range(9)}, {i * 11: 1 for i in range(9)}
    order = []
    for made in (first.keys() ^ second.keys(), first.keys() & [0, 7, 77], {1, 64, 33} | first.keys(),
                 first.items() ^ second.items(), [500, 3] - second.keys()):
        for key in made:
            order.append(key)
    return x + len(order), order
"""),
        T(3),
        compare_dynamo=False,
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_leaf_made_inside_gets_its_gradient(backend):
    def f(x):
        leaf = torch.ones(2, requires_grad=True)
        weight = torch.tensor([1.0, 2.0], requires_grad=True)
        return leaf, weight, (leaf * 2 * x * weight).sum()

    for compiled in (f, stator.compile(f, backend=backend)):
        for _ in range(2):
            leaf, weight, loss = compiled(torch.full((2,), 3.0))
            loss.backward()
            assert leaf.grad.tolist() == [6.0, 12.0]
            assert weight.grad.tolist() == [6.0, 6.0]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_write_to_the_data_of_an_input_after_it_was_saved(backend):
    def f(x):
        result = x.sin()
        x.data.mul_(2)
        return result

    gradients = []
    for function in (f, stator.compile(f, backend=backend)):
        x = torch.tensor([0.3, 0.4], requires_grad=True)
        function(x).sum().backward()
        gradients.append((x.grad, x.detach()))
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)


def test_function_allowed_in_graphs_runs_on_each_call_even_if_its_result_is_not_used():
    seen = []

    @torch._dynamo.allow_in_graph
    def note(x):
        seen.append(tuple(x.shape))
        return x + 1

    def f(x):
        note(x)
        return x * 2

    compiled = stator.compile(f, backend="eager", fullgraph=True)
    compiled(torch.ones(3))
    seen.clear()
    compiled(torch.ones(3))
    assert seen == [(3,)]


NUMBERS = """
import dataclasses

class Number:
    def __init__(self, value): self.value = value
    def __float__(self): return self.value
    def __int__(self): return self.value
    def __index__(self): return self.value
    def __complex__(self): return self.value

class Hashed:
    def __init__(self, value): self.value = value
    def __hash__(self): return self.value

@dataclasses.dataclass(frozen=True)
class Point:
    a: int
    b: str

USES = (
    float, int, complex, bin, range, lambda n: [1, 2, 3][n], lambda n: "a" * n, lambda n: [1] * n, lambda n: "abc"[n],
    lambda n: [1, 2, 3][n:],
)

def f(x, value):
    found = []
    for use in USES:
        try:
            found.append(use(Number(value)))
        except Exception as error:
            found.append((type(error), str(error)))
    return x + 1, found

def hashes(x, value):
    return x + 1, hash(Hashed(value)), hash(Point(value, "a"))
"""


@pytest.mark.parametrize("value", ["'text'", "2", "2.5", "1j", "None"])
def test_numbers_made_by_special_methods(value):
    same(Source(f"{NUMBERS}\ng = f\ndef f(x): return g(x, {value})"), T(3), fullgraph=False, compare_dynamo=False)


@pytest.mark.parametrize("value", [5, -1, 2**61, 2**70, -(2**63), 2**63])
def test_hashes_made_by_special_methods(value):
    same(Source(f"{NUMBERS}\ndef f(x): return hashes(x, {value})"), T(3), fullgraph=False, compare_dynamo=False)


MORE_PROGRAMS = {
    "a generator given up in a mode before an error": """
import itertools
import torch

def without_gradients(t, count):
    for i in range(count):
        with torch.no_grad():
            yield t * i

def f(x):
    for () in list(itertools.islice(without_gradients(x, 2), 2)):
        pass
    return x
""",
    "containers that hold themselves": """
def f(x):
    items, table = [1], {}
    items.append(items)
    items.append(items)
    table["self"] = table
    table["items"] = items
    return x + 1, repr(items), str(table), items[1] is items, table
""",
    "the same list many times over": """
def f(x):
    nested = [1, "a"]
    for _ in range(40):
        nested = [nested, nested]
    depth = 0
    while isinstance(nested[0], list):
        nested, depth = nested[0], depth + 1
    return x + depth
""",
    "an object whose __call__ is an object": """
class Endless: pass
Endless.__call__ = Endless()

def f(x):
    try:
        Endless()()
    except RecursionError:
        return x + 1
""",
    "special methods that are no functions": """
class Asked:
    def __get__(self, instance, owner): return lambda *given: len(given)

class Odd:
    __getitem__ = property(lambda self: 1 / 0)
    __len__ = Asked()
    __contains__ = None
    __reversed__ = None
    __iadd__ = None
    __add__ = staticmethod(lambda other: ("added", other))
    __bytes__ = lambda self: b"abc"
    __index__ = lambda self: 3

def attempt(function, *given):
    try:
        return function(*given)
    except Exception as error:
        return type(error), str(error)

def in_place(odd):
    odd += 1
    return odd

def f(x):
    odd = Odd()
    return (x + 1, attempt(len, odd), attempt(iter, odd), attempt(reversed, odd), attempt(lambda: 1 in odd),
            attempt(in_place, odd), attempt(lambda: odd + 5), attempt(bytes, odd))
""",
    "what __new__ gives": """
class Base:
    def __new__(cls, given):
        if isinstance(given, str): return [given]
        return object.__new__(Derived if given == 1 else cls)

class Derived(Base):
    def __init__(self, given): self.given = given

def f(x):
    made = Base(1), Derived(2), Base("a"), Base(3)
    return x + 1, [type(one) for one in made], made[0].given, made[1].given, made[2], made[3].__dict__
""",
    "too many arguments for object": """
class Makes:
    def __new__(cls, *given): return object.__new__(cls, *given)

class Initialises:
    def __init__(self, *given): object.__init__(self, *given)

class Neither: pass

def attempt(function, *given):
    try:
        return type(function(*given))
    except TypeError as error:
        return str(error)

def f(x):
    return (x + 1, attempt(Makes, 1), attempt(Makes), attempt(Initialises, 1), attempt(Neither, 1),
            attempt(object.__new__, Neither, 1), attempt(object.__new__, Makes, 1))
""",
    "reflected operators that are only inherited": """
class Base:
    def __sub__(self, other): return "Base.__sub__"
    def __rsub__(self, other): return "Base.__rsub__"

class Inherits(Base): pass

class Overrides(Base):
    def __rsub__(self, other): return "Overrides.__rsub__"

def f(x):
    return x + 1, Base() - Inherits(), Base() - Overrides(), Inherits() - Base(), 1 - Inherits()
""",
    "views compared by items that have no hash": """
def f(x):
    one, other = {1: [2], 3: {}}, {1: [2], 3: {}}
    return (x + 1, one.items() == other.items(), one.items() != other.items(), one.items() <= other.items(),
            one.items() < other.items(), one.keys() > {1}, one.keys() >= other.keys(), one.keys() == {1, 3},
            {1: 2}.items() == {(1, 2)}, {1: 2}.items() > {1: 3}.items())
""",
    "a set-only descriptor of a metaclass": """
class OnlySets:
    def __set__(self, instance, value): pass

class Meta(type): pass
class Holder(metaclass=Meta): pass
Holder.a = 42
Meta.a = OnlySets()

def f(x):
    return x + Holder.a
""",
    "an ordered dict that changes under its iterator": """
from collections import OrderedDict

def f(x):
    ordered, seen = OrderedDict(a=1, b=2, c=3), []
    try:
        for key in ordered:
            seen.append(key)
            del ordered[key]
            ordered["d"] = 4
    except RuntimeError as error:
        seen.append(str(error))
    return x + 1, seen
""",
    "exceptions in a ring": """
def f(x):
    try:
        try:
            raise ValueError(1)
        except ValueError as error:
            error.__context__ = error
            raise TypeError(2)
    except TypeError as error:
        return x + 1, type(error.__context__), error.__context__.__context__ is error.__context__
""",
    "lists with a hash of their own": """
class Hashed(list):
    def __hash__(self): return hash(tuple(self))

def f(x):
    seen = {Hashed([1, 2]): "a"}
    return x + 1, hash(Hashed([3])), seen[Hashed([1, 2])]
""",
    "classmethods of other descriptors": """
class Holder:
    @classmethod
    @property
    def name(cls): return cls.__name__

    @classmethod
    @classmethod
    def twice(cls): return cls

def attempt(function):
    try:
        return function()
    except TypeError as error:
        return str(error)

def f(x):
    return x + 1, attempt(lambda: Holder.name), attempt(lambda: Holder.twice())
""",
    "texts of a class of their own": """
class Text(str): pass

class Formats:
    def __init__(self, text): self.text = text
    def __format__(self, specification): return self.text

def attempt(function):
    try:
        return function()
    except TypeError as error:
        return str(error)

def f(x):
    return x + 1, ",".join([Text("a"), "b"]), attempt(lambda: format(Formats(1.5))), attempt(lambda: f"{Formats('a')}")
""",
    "lengths that are none": """
import sys

class Long:
    def __init__(self, length): self.length = length
    def __len__(self): return self.length

def attempt(length):
    try:
        return len(Long(length))
    except Exception as error:
        return type(error), str(error)

def f(x):
    return x + 1, [attempt(length) for length in (0, 5, True, -1, sys.maxsize + 1, -sys.maxsize - 10, 2.5, None)]
""",
    "a dict with keys that are tuples of objects": """
class Plain: pass
plain = Plain()
table = {(1, plain): 2, "a": 3}

def f(x):
    copy = table.copy()
    return x + len(copy), copy[(1, plain)], sum(table.values())
""",
    "copies of what has attributes": """
import copy
from collections import OrderedDict

given = OrderedDict(a=1)
given.note = "given"

def f(x):
    made = OrderedDict(b=2)
    made.note = "made"
    copies = copy.copy(given), copy.copy(made)
    return x + 1, copies, copies[0].note, copies[1].note
""",
    "objects that say goodbye": """
import gc
said = []

class Guest:
    def __init__(self, name): self.name = name
    def __del__(self): said.append(self.name)

def f(x):
    Guest("nobody keeps it")
    guest = Guest("kept for a while")
    y = x + 1
    del guest
    return y, len(said)
""",
}


@pytest.mark.parametrize("name", MORE_PROGRAMS)
def test_more_corners(name):
    same(Source(MORE_PROGRAMS[name]), T(3), fullgraph=False, compare_dynamo=False)
