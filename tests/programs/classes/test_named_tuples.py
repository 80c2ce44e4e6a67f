"""`collections.namedtuple` called by the compiled function: each call has a class of its own."""

from __future__ import annotations

import collections

import pytest
import torch

import stator
from tests.support.corpus import Corpus
from tests.support.counting import counted_calls
from tests.support.harness import Source, T, same

corpus = Corpus()


@corpus.core
def makes_and_reads_one(x, y):
    Point = collections.namedtuple("Point", ["x", "y"])
    point = Point(x + 1, y=y)
    return point.x * point[1], point._fields, len(point), Point.__name__


@corpus.core
def replaces_a_field(x, y):
    Point = collections.namedtuple("Point", "x y")
    point = Point(x, y)
    return point.x - point._replace(x=y)[0], point._asdict()["y"] + 1


@corpus.core
def has_defaults(x):
    Point = collections.namedtuple("Point", ("a", "b", "c"), defaults=(None, 1))
    point = Point(x)
    return point.a + point.c, point.b is None


@corpus.core
def makes_one_of_a_list(x, y):
    Point = collections.namedtuple("Point", ["x", "y"])
    first, second = Point._make([x, y])
    return callable(Point._make), first + second, isinstance(Point(1, 2), tuple), type(Point(1, 2)) is Point


@corpus.core
def compares_two_classes(x):
    one, other = (collections.namedtuple("Point", ["x"]) for _ in range(2))
    return x + 1, one is other, type(one(1)) is one, one(1) == other(1)


test_programs = corpus.test()


def test_instances_leave_the_call():
    def program(x):
        Point = collections.namedtuple("Point", ["x", "y"])
        return Point(x + 1, 2), [Point(1, 2), Point(x, Point)]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    one, other = compiled(torch.ones(2)), compiled(torch.ones(2))
    for point, (plain, (tensor, held)) in (one, other):
        assert type(point) is type(plain) is held
        assert (held.__name__, held.__module__, held._fields) == ("Point", __name__, ("x", "y"))
        assert point.y == 2
        assert repr(plain) == "Point(x=1, y=2)"
        assert torch.equal(point.x, torch.full((2,), 2.0))
        assert torch.equal(tensor, torch.ones(2))
    assert type(one[0]) is not type(other[0])


def test_the_class_after_a_graph_break():
    def program(x):
        Point = collections.namedtuple("Point", ["x"])
        y = x + 1
        print(end="")
        return Point(y * 2).x

    for count in counted_calls(program, lambda: (torch.ones(2),), calls=2):
        assert count.operations == 2


def test_names_of_fields_are_guarded():
    text = (
        "NAMES = ['a', 'b']\nimport collections\ndef f(x): return x + len(collections.namedtuple('T', NAMES)._fields)"
    )
    same(Source(text), T(3), mutate=["NAMES.append('c')", "NAMES[:] = ['a']"])


@pytest.mark.parametrize("fields", [["a", "a"], ["def"], ["_x"], 3])
def test_errors_are_those_of_the_function(fields):
    def program(x):
        y = x + 1
        try:
            collections.namedtuple("T", fields)
        except (TypeError, ValueError) as error:
            return y, str(error)

    same(program, T(2), fullgraph=False, compare_dynamo=False)


def test_what_leads_to_the_class_breaks_the_graph():
    def program(x):
        Point = collections.namedtuple("Point", ["x"], defaults=[1])
        defaults = Point._field_defaults
        defaults["x"] = 2
        return x + 1, defaults, Point._field_defaults is defaults, Point.__mro__[0] is Point, {Point: 1}[Point]

    same(program, T(2), fullgraph=False, compare_dynamo=False)
