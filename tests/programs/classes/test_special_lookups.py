"""Class attributes and subscripts that take more than one step to look up."""

import sys

import pytest

from tests.support.harness import Source, T, same

HEAD = """
import typing
T, S = typing.TypeVar("T"), typing.TypeVar("S")
class Box(typing.Generic[T]):
    pass
class Pair(typing.Generic[T, S]):
    pass
"""


@pytest.mark.parametrize("subscript", ["Box[T]", "Pair[T, S]", "Pair[int, T]", "Box[list[T]]", "Box[int | None]"])
def test_generic_classes_with_type_variables(subscript):
    text = f"{HEAD}def f(x): return typing.cast({subscript}, x) + 1, {subscript}"
    same(Source(text), T(3), mutate=["T = typing.TypeVar('U')"])


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="a classmethod does not bind what it wraps")
def test_properties_of_classes():
    text = """
class Index:
    _first, _last = 0, 2
    @classmethod
    @property
    def span(cls): return slice(cls._first, cls._last)
    @classmethod
    @property
    def last(cls): return cls._last
def f(x): return x[Index.span] * Index.last + Index().last
"""
    same(Source(text), T(3), mutate=["Index._last = 1"])


def test_inequality_by_equality():
    text = """
class Always:
    def __eq__(self, other): return NotImplemented if other is None else 1
    def __ne__(self, other): return super().__ne__(other)
class Plain:
    def __ne__(self, other): return super().__ne__(other)
plain = Plain()
def f(x): return x + 1, Always() != Always(), Always() != None, plain != plain, plain != Plain(), object.__ne__(plain, 3)
"""
    same(Source(text), T(3))


def test_functions_in_sets():
    text = """
def g(x): return x
def h(x): return -x
s, other = {g, torch.relu, 'a', 3}, 1
def f(x): return (g(x) if g in s else h(x)), h in s, torch.relu in s, len(s), s == {g, 'a', 3, torch.relu}
"""
    mutations = ["s.remove(g)", "s.add(h)", "s = {g, 'a'}", "other = 2"]
    same(Source(text), T(3), mutate=mutations)
