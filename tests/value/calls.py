"""Calls of builtins and operators on all kinds of values, compared with Python's: results, classes, changes of the
operands, whether the result is one of them, and exceptions."""

import collections
import itertools
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import torch

import stator


class Ordered(OrderedDict):
    pass


class OrderedOwn(OrderedDict):
    """`OrderedDict` fills itself through the method of a subclass, `dict` does not."""

    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "set"))


class DictOwn(dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, (value, "set"))

    def __missing__(self, key):
        return ("missing", key)


class Defaulting(defaultdict):
    pass


class ListOwn(list):
    def append(self, item):
        super().append((item, "appended"))


class Text(str):
    pass


class Number(int):
    pass


class Pair(tuple):
    pass


class Collected(set):
    pass


class Equal:
    def __eq__(self, other):
        return isinstance(other, Equal)

    def __hash__(self):
        return 5

    def __repr__(self):
        return "Equal"


class Position:
    def __index__(self):
        return 1

    def __repr__(self):
        return "Position"


def numbers():
    yield 1
    yield 2


OPERANDS: dict[str, Callable[[], Any]] = {
    "dict": lambda: {1: 2},
    "Ordered": lambda: Ordered({1: 3}),
    "OrderedDict": lambda: OrderedDict({1: 4}),
    "defaultdict": lambda: defaultdict(int, {1: 5}),
    "Defaulting": lambda: Defaulting(list, {1: 6}),
    "DictOwn": lambda: DictOwn({1: 7}),
    "Counter": lambda: Counter({1: 7}),
    "Collected": lambda: Collected({1, 2}),
    "set": lambda: {1, 3},
    "frozenset": lambda: frozenset({1, 3}),
    "keys": lambda: {1: 2}.keys(),
    "items": lambda: {1: 2}.items(),
    "values": lambda: OrderedDict({1: 2}).values(),
    "list": lambda: [1],
    "ListOwn": lambda: ListOwn([1]),
    "tuple": lambda: (1,),
    "Pair": lambda: Pair((1,)),
    "int": lambda: 3,
    "bool": lambda: True,
    "float": lambda: 2.5,
    "None": lambda: None,
    "str": lambda: "ab",
    "bytes": lambda: b"ab",
    "bytearray": lambda: bytearray(b"xy"),
    "deque": lambda: deque([1]),
    "Size": lambda: torch.Size([1]),
    "Equal": Equal,
}

MORE_OPERANDS: dict[str, Callable[[], Any]] = {
    **OPERANDS,
    "empty dict": dict,
    "two keys": lambda: {1: 2, "a": 3},
    "OrderedOwn": lambda: OrderedOwn({1: 4, 2: 5}),
    "empty list": list,
    "numbers": lambda: [3, 1, 2],
    "strings": lambda: ["b", "a"],
    "empty tuple": tuple,
    "pairs": lambda: [(1, 2), (3, 4)],
    "-1": lambda: -1,
    "0": lambda: 0,
    "-0.0": lambda: -0.0,
    "nan": lambda: float("nan"),
    "complex": lambda: 1 + 2j,
    "''": lambda: "",
    "words": lambda: "Hello World",
    "format": lambda: "x-{}-%s",
    "Number": lambda: Number(4),
    "bounded deque": lambda: deque([1, 2], 3),
    "range": lambda: range(5, 0, -2),
    "slice": lambda: slice(0, 2),
    "Position": Position,
    "generator": numbers,
    "iterator": lambda: iter([1, 2, 3]),
    "enumerate": lambda: enumerate("ab"),
    "zip": lambda: zip([1], [2]),
    "reversed": lambda: reversed([1, 2]),
    "len": lambda: len,
    "function": lambda: lambda *given: given,
    "class int": lambda: int,
    "dtype": lambda: torch.float32,
}


def taken(iterator: Any, depth: int) -> list[Any]:
    items = []
    try:
        for item in itertools.islice(iterator, 6):
            items.append(shown(item, depth + 1))
    except Exception as error:
        items.append(("raises", type(error).__name__))
    return items


def shown(value: Any, depth: int = 0) -> Any:
    """A value with its class and its contents. Iterators are consumed."""
    name = type(value).__name__
    if depth > 4:
        return "..."
    if isinstance(value, list | tuple | deque):
        return name, [shown(item, depth + 1) for item in value], getattr(value, "maxlen", None)
    if isinstance(value, dict):
        items = [(shown(key, depth + 1), shown(dict.__getitem__(value, key), depth + 1)) for key in value]
        return name, items, repr(getattr(value, "default_factory", None))
    if isinstance(value, set | frozenset):
        # The order of a set that compiled code returns is not guaranteed.
        return name, sorted(repr(item) for item in value)
    if hasattr(value, "__next__"):
        return name, taken(value, depth)
    return name, re.sub(r"0x[0-9a-f]+", "0x", repr(value))


def made_inside(function: Callable, makers: list[Callable]) -> Callable:
    with_operands = given_from_outside(function)

    def f(x):
        return with_operands(x, [make() for make in makers])

    return f


def given_from_outside(function: Callable) -> Callable:
    def f(x, operands):
        try:
            result = function(*operands)
        except Exception as error:
            return x + 1, "raised", type(error), str(error), operands
        return x + 1, "gave", result, [result is operand for operand in operands], operands

    return f


def outcome(function: Callable, *arguments: Any) -> list[Any]:
    _, kind, first, second, operands = function(torch.ones(2), *arguments)
    if kind == "raised":
        return [kind, first, second, shown(operands)]
    return [kind, shown(first), second, shown(operands)]


def differences(function: Callable, makers: list[Callable], compare: Callable[[list, list], bool]) -> list[str]:
    """The differences of `function` when compiled: with operands created inside, and with outside ones, twice."""
    found = []
    expected = outcome(made_inside(function, makers))
    stator.reset()
    inside = outcome(stator.compile(made_inside(function, makers), backend="eager"))
    if not compare(expected, inside):
        found.append(f"made inside: {inside} instead of {expected}")
    expected = outcome(given_from_outside(function), [make() for make in makers])
    compiled = stator.compile(given_from_outside(function), backend="eager")
    for turn in ("first", "second"):
        outside = outcome(compiled, [make() for make in makers])
        if not compare(expected, outside):
            found.append(f"from outside, {turn} call: {outside} instead of {expected}")
    return found


__all__ = ["MORE_OPERANDS", "OPERANDS", "collections", "differences"]
