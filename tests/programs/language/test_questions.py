"""C functions that are called while tracing and asked again by guards."""

from __future__ import annotations

import sys

import pytest
import torch

import stator
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario


def test_subclasses_are_guarded():
    text = """
class Base: pass
class One(Base): scale = 2
KEPT = []
def f(x):
    classes = Base.__subclasses__()
    for one in classes:
        x = x * one.scale
    classes.append(int)
    return x, classes, len(Base.__subclasses__())
"""
    more = "class Two(Base): scale = 3\nKEPT.append(Two)"
    same(Source(text), T(3), mutate=[more, "class Other: scale = 4"], compare_dynamo=False)


def test_switches_of_kernels():
    before = torch.backends.cuda.matmul.allow_tf32

    def scenario(compile, note):
        f = compile(lambda x: x.sin() if torch.backends.cuda.matmul.allow_tf32 else x.cos())
        try:
            for is_on in (False, True, False):
                torch.backends.cuda.matmul.allow_tf32 = is_on
                note(f, torch.ones(2))
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    same_scenario(scenario, "eager")


def test_whether_a_checkpoint_is_valid():
    same(lambda x: x + 1 if torch.autograd._is_checkpoint_valid() else x - 1, T(2), compare_dynamo=False)


def test_whether_cuda_is_initialized(monkeypatch):
    program = stator.compile(lambda x: x + 1 if torch.cuda.is_initialized() else x - 1, backend="eager", fullgraph=True)
    x = torch.ones(2)
    for initialized in (False, True, False):
        monkeypatch.setattr(torch.cuda, "_initialized", initialized)
        assert torch.equal(program(x), x + 1 if initialized else x - 1)


def test_the_accelerator():
    def program(x):
        there = torch.accelerator.is_available()
        return x + 1, there, torch.accelerator.current_accelerator(), torch.accelerator.device_count() > 0

    same(program, T(2), compare_dynamo=False)


def test_identity_of_a_tensor():
    def program(x, y):
        return x + 1, id(x) == id(y), id(x)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    one, other = torch.ones(2), torch.ones(2)
    for x, y in ((one, one), (one, other), (other, one)):
        assert compiled(x, y)[1:] == (x is y, id(x))


def test_the_guard_on_an_identity_keeps_no_tensor():
    import weakref

    compiled = stator.compile(lambda x: (id(x), x + 1), backend="eager", fullgraph=True)
    x = torch.ones(2)
    compiled(x)
    reference = weakref.ref(x)
    del x
    assert reference() is None


class Text(str):
    def __eq__(self, other):
        raise RuntimeError("a pattern compares no texts")

    __hash__ = str.__hash__


def test_a_pattern_and_a_text_of_a_subclass():
    import re

    pattern = re.compile(r"(\d+)\.(\d+)(.*)")

    def program(x):
        text = Text("2.13.0")
        found = pattern.match(text)
        return x * int(found[1]), found.group(0), type(found.group(0)) is str, pattern.findall(text), found.span(2)

    same(program, T(2), compare_dynamo=False)


def test_the_text_of_such_a_match():
    import re

    def program(x):
        text = Text("abc")
        y = x + 1
        return y, re.match("a", text).string is text, type(re.fullmatch("...", text).string).__name__

    same(program, T(2), fullgraph=False, compare_dynamo=False)


def test_versions_are_compared():
    version = pytest.importorskip("packaging.version")

    def program(x):
        return x + 1 if version.parse(torch.__version__) >= version.parse("2.0.0") else x

    same(program, T(2), compare_dynamo=False)


class Scaled(int):
    def __eq__(self, other):
        raise RuntimeError("a guard compares contents")

    __hash__ = int.__hash__


@pytest.mark.parametrize(
    "kind, values", [(Scaled, (5, 10)), (type("Real", (float,), {}), (0.0, -0.0)), (Text, ("a", "bc"))]
)
def test_instances_of_subclasses_are_guarded_by_their_contents(kind, values):
    def program(x, y):
        return x + len(y) if isinstance(y, str) else x * y

    report = []
    compiled = stator.compile(program, backend=lambda graph, inputs: report.append(graph) or graph.forward)
    for value in (*values, *values):
        x = torch.ones(2)
        expected, actual = program(x, kind(value)), compiled(x, kind(value))
        assert torch.equal(expected, actual)
        assert torch.equal(expected.signbit(), actual.signbit())
    assert len(report) == 2


def test_a_result_is_detached_in_place():
    def program(x):
        y = x * 2
        y.detach_()
        return y + 1, y.requires_grad

    same(program, T(3, grad=True), compare_dynamo=False)


def test_a_product_is_a_multiple_of_its_factors():
    def program(x):
        n = x.sum().int().item()
        return x + 1 if ((n + 10) * (n + 10)) % (n + 10) == 0 else x

    same(program, lambda: torch.ones(3), compare_dynamo=False)


def test_the_recursion_limit_is_guarded():
    before = sys.getrecursionlimit()

    def scenario(compile, note):
        f = compile(lambda x: x * sys.getrecursionlimit())
        try:
            for more in (0, 1, 0):
                sys.setrecursionlimit(before + more)
                note(f, torch.ones(2))
        finally:
            sys.setrecursionlimit(before)

    same_scenario(scenario, "eager")
