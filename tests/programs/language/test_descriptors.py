"""`__get__` of descriptors, called by the program."""

from __future__ import annotations

import pytest

from tests.support.harness import Source, T, same

WORLD = """
import torch
class Thing:
    __slots__ = ("size", "__dict__")
    scale = 3
    def __init__(self): self.size = 2
    @property
    def double(self): return self.size * 2
    @classmethod
    def made(cls): return cls.scale
    @staticmethod
    def still(): return 5
class Other(Thing):
    scale = 4
THING = Thing()
namespace_of = type.__dict__["__dict__"].__get__
shape_of = torch.Tensor.shape.__get__
"""


@pytest.mark.parametrize(
    "line",
    [
        "Thing.double.__get__(THING)",
        "Thing.double.__get__(THING, Thing)",
        "len(Thing.__dict__['double'].__get__(None, Thing).__doc__ or '')",
        "Thing.__dict__['size'].__get__(THING)",
        "Thing.__dict__['made'].__get__(THING, Other)()",
        "Thing.__dict__['made'].__get__(None, Other)()",
        "Thing.__dict__['still'].__get__(THING)()",
        "len(namespace_of(Thing)) + namespace_of(Thing)['scale']",
        "shape_of(x)[0] + torch.Tensor.ndim.__get__(x)",
        "list.append.__get__([1])(2) is None",
    ],
)
def test_get(line):
    changes = ["THING.size = 7", "Thing.scale = 8", "Thing.extra = 1"]
    same(Source(f"{WORLD}\ndef f(x): return x * ({line})"), T(3, 2), compare_dynamo=False, mutate=changes)


def test_the_text_of_a_function():
    text = "def g(): pass\ndef f(x): return x + len(str(g).split(' at ')[0])"
    same(Source(text), T(3), compare_dynamo=False, mutate=["g.__qualname__ = 'longer_name'", "def g(): pass"])
