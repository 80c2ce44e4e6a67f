"""Patterns of `re`, annotations and other objects of libraries that never change."""

from __future__ import annotations

import pytest

from tests.support.harness import Source, T, same

PATTERNS = """
import re, torch
NUMBER = re.compile(r"(?P<digits>\\d+)")
TEXT = "abc123def"
class Name(str):
    pass
NAME = Name("v7")
"""


@pytest.mark.parametrize(
    "line",
    [
        "int(re.search(r'(\\d+)', TEXT).group(1))",
        "int(NUMBER.search(TEXT)['digits']) + NUMBER.search(TEXT).start()",
        "int(NUMBER.search(NAME)[1])",
        "len(re.sub(r'\\d+', '0', TEXT)) + len(NUMBER.split(TEXT)) + len(re.findall('[a-z]', TEXT))",
        "1 if re.match('abc', TEXT) else 2",
        "2 if NUMBER.match(TEXT) is None else 3",
        "NUMBER.groups + NUMBER.flags",
        "len({NUMBER: 1}) + (NUMBER == re.compile(NUMBER.pattern))",
    ],
)
def test_patterns(line):
    changes = ["TEXT = 'abc45x'", "NUMBER = re.compile(r'(?P<digits>[0-4]+)')", "NAME = Name('w89')"]
    same(Source(f"{PATTERNS}\ndef f(x): return x * ({line})"), T(3), compare_dynamo=False, mutate=changes)


def test_an_invalid_pattern_raises():
    text = "import re\ndef f(x):\n    try:\n        re.compile('(')\n    except re.error as e:\n        return x + len(e.msg)\n"
    same(Source(text), T(3), compare_dynamo=False)


ANNOTATIONS = """
import torch, typing
from typing import Callable, Dict, List, Optional, TypeVar, Union
V = TypeVar("V")
class Box(typing.Generic[V]):
    def __init__(self, held): self.held = held
"""


@pytest.mark.parametrize(
    "annotation",
    [
        "torch.Tensor | list[int]",
        "list[int] | None",
        "dict[str, int] | list[int]",
        "Callable[[V], V]",
        "Optional[Dict[str, List[V]]]",
        "Union[int, str] | None",
        "Box[int]",
    ],
)
def test_annotations(annotation):
    text = f"""
def f(x):
    def inner(y: {annotation}):
        return y
    return inner(x) + 1, inner.__annotations__["y"] == ({annotation})
"""
    same(Source(ANNOTATIONS + text), T(3), compare_dynamo=False)


def test_an_object_of_a_subscripted_class():
    same(Source(ANNOTATIONS + "def f(x): return Box[int](x).held + 1"), T(3), compare_dynamo=False)
