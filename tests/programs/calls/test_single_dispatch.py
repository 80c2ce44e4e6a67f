"""functools.singledispatch: functions that choose an implementation by the class of their first argument."""

import linecache
import textwrap

import pytest
import torch

import stator
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario

SETTING = """
import abc, collections, functools

@functools.singledispatch
def twice(value):
    return value

@twice.register
def _(value: torch.Tensor):
    return value * 2

@twice.register(list)
@twice.register(tuple)
def _(value, factor=2):
    return [twice(item) * factor for item in value]

class Base: ...
class Derived(Base):
    def __init__(self, tensor): self.tensor = tensor

class Counted:
    @functools.singledispatchmethod
    def add(self, value): return value + 1
    @add.register
    def _(self, value: int): return value + 2
    @add.register
    def _(self, value: torch.Tensor): return value + 3

COUNTED = Counted()
"""

PROGRAMS = {
    "tensors": "return twice(x)",
    "nested": "return twice([x, (x + 1, x)]), twice((x,), factor=3)",
    "default": "return twice(Derived) is Derived, twice(3) + x",
    "made_in_the_program": "return twice(Derived(x)).tensor",
    "dispatch": "return twice.dispatch(collections.OrderedDict)(x), twice.dispatch(type(x))(x)",
    "registry": "return twice.registry[list]([x]), len(twice.registry)",
    "method": "return COUNTED.add(x), COUNTED.add(4)",
    "no_argument": "try:\n    return twice()\nexcept TypeError as error:\n    return x, str(error)",
}
CHANGES = [
    "twice.register(Base, lambda value: value)\ntwice.register(int, lambda value: value * 5)",
    "@twice.register\ndef _(value: torch.Tensor):\n    return value * 7",
    "twice.register(object, lambda value: 11 if value is not Derived else value)",
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_as_uncompiled(name: str) -> None:
    """Registering an implementation is seen, whichever class it is for."""
    text = SETTING + "def f(x):\n" + textwrap.indent(PROGRAMS[name], "    ")

    def scenario(compile, note):
        names: dict = {"torch": torch}
        exec(compile_source(text), names)
        call = compile(names["f"])
        for change in ["", *CHANGES]:
            exec(change, names)
            for _ in range(2):
                note(call, torch.arange(3.0))

    # The cache of `singledispatch` is not compared: it is filled when a call is captured, and not by later calls.
    same_scenario(scenario, "eager")


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_as_one_graph(name: str) -> None:
    names: dict = {"torch": torch}
    exec(compile_source(SETTING + "def f(x):\n" + textwrap.indent(PROGRAMS[name], "    ")), names)
    assert stator.explain(names["f"])(torch.arange(3.0)).breaks == []


def compile_source(text: str):
    """Code whose lines tracebacks can show."""
    file = f"<single dispatch {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return compile(text, file, "exec")


ABSTRACT = """
import abc, functools

class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...

class Square:
    def __init__(self, side): self.side = side

@functools.singledispatch
def area(shape): return shape.side

@area.register
def _(shape: Shape): return shape.side * shape.side

def f(x): return area(Square(x))
"""


def test_classes_registered_with_an_abstract_class() -> None:
    """Which implementation is right changes without a change of the function."""
    same(Source(ABSTRACT), T(3), mutate=["Shape.register(Square)"], fullgraph=False, compare_dynamo=False)
