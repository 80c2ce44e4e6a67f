"""Annotations: objects of libraries that never change."""

from __future__ import annotations

import pytest

from tests.support.harness import Source, T, same

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


@pytest.mark.parametrize("alias", ["list[int]", "dict[str, V]", "tuple[int, ...]"])
def test_parts_of_a_subscripted_class(alias):
    text = f"""
KEPT = {alias}
def f(x):
    new = {alias}
    return x + len(new.__args__) + len(KEPT.__parameters__), new.__origin__ is KEPT.__origin__, KEPT.__args__[0]
"""
    same(Source(ANNOTATIONS + text), T(3), mutate=["KEPT = set[V]"], compare_dynamo=False)
