"""Depth: everything that the uncompiled program can nest is captured in one graph. torch._dynamo fails before 60
levels."""

import sys

import pytest
import torch
import torch.nn as nn

from tests.support.engine import CAPTURES, ENGINE, captured, reset
from tests.support.harness import Built, T, same

pytestmark = pytest.mark.skipif(ENGINE == "dynamo", reason="too deep for torch._dynamo")


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


class Chain(nn.Module):
    """Each module calls the next one inside it."""

    def __init__(self, depth):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2) / 2)
        self.register_buffer("offset", torch.ones(2))
        self.inner = Chain(depth - 1) if depth > 1 else None

    def forward(self, x):
        x = x * self.weight + self.offset
        return x if self.inner is None else self.inner(x)


def nested_sequential(depth):
    module = nn.Linear(2, 2)
    for _ in range(depth):
        module = nn.Sequential(module, nn.ReLU())
    return module


@pytest.mark.parametrize("depth", [60, 100, 200])
def test_chain_of_modules(depth):
    same(Built(lambda: Chain(depth)), T(2), compare_dynamo=False)


@pytest.mark.parametrize("depth", [60, 100])
def test_sequential_in_sequential(depth):
    same(Built(lambda: nested_sequential(depth)), T(2), compare_dynamo=False)


def test_deeper_with_the_recursion_limit_raised():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(20_000)
    # From 3.12 on C calls have a limit of their own, and with a frame hook on, as torch._dynamo may leave its own, every
    # call is one: comparing what 600 levels hold would come near it.
    depth = 600 if sys.version_info < (3, 12) else 400
    try:
        same(Built(lambda: Chain(depth)), T(2), compare_dynamo=False)
    finally:
        sys.setrecursionlimit(before)


def test_functions_in_functions():
    def program(x, depth):
        def wrap(inner):
            return lambda t: inner(t) + 1

        function = torch.relu
        for _ in range(depth):
            function = wrap(function)
        return function(x)

    same(program, T(2), 150, compare_dynamo=False)


def test_properties_in_properties():
    class Link:
        def __init__(self, depth):
            self.next = Link(depth - 1) if depth else None

        @property
        def total(self):
            return 1 if self.next is None else self.next.total + 1

    same(lambda x: x + Link(80).total, T(2), compare_dynamo=False)


def test_generators_in_generators():
    def program(x, depth):
        def through(source):
            yield from source

        source = (x + k for k in range(3))
        for _ in range(depth):
            source = through(source)
        return list(source)

    same(program, T(2), 60, compare_dynamo=False)


def test_blocks_in_blocks():
    depth = 18
    lines = ["def program(x):"]
    for level in range(depth):
        lines.append("    " * (level + 1) + ("with torch.no_grad():" if level % 2 else "try:"))
    lines.append("    " * (depth + 1) + "x = x + 1")
    for level in reversed(range(0, depth, 2)):
        lines.append("    " * (level + 1) + "finally:")
        lines.append("    " * (level + 2) + "x = x * 2")
    lines.append("    return x")
    scope = {"torch": torch}
    exec("\n".join(lines), scope)
    same(scope["program"], T(2), compare_dynamo=False)


def test_containers_in_containers():
    def program(x, depth):
        nested = x + 1
        for _ in range(depth):
            nested = {"k": [nested]}
        inner = nested
        while isinstance(inner, dict):
            inner = inner["k"][0]
        return inner * 2

    same(program, T(2), 150, compare_dynamo=False)


def test_recursive_data():
    def program(x, tree):
        def total(node):
            return 0 if node is None else node["value"] + total(node["next"])

        return x + total(tree)

    def make():
        node = None
        for k in range(100):
            node = {"value": k, "next": node}
        return node

    same(program, T(2), make, compare_dynamo=False)


@pytest.mark.skipif(not CAPTURES, reason="about capture alone")
def test_every_level_is_in_the_graph():
    nodes = captured(Chain(100), torch.ones(2))
    assert sum(node.op == "call_function" for node in nodes) == 200
    assert sum(node.op == "placeholder" for node in nodes) == 201
