"""Functions marked with `allow_in_graph` or `nonstrict_trace`: called with objects, modules and dataclasses."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

import stator
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario


class Point:
    def __init__(self, x: Any, y: Any, name: str = "p") -> None:
        self.x, self.y, self.name = x, y, name


class Line:
    def __init__(self, start: Any, end: Any) -> None:
        self.start, self.end = start, end


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    pytree.register_pytree_node(Point, lambda p: ((p.x, p.y), p.name), lambda xy, name: Point(*xy, name))
    pytree.register_pytree_node(Line, lambda p: ([p.start, p.end], None), lambda ends, _: Line(*ends))
    yield
    for cls in (Point, Line):
        forget(cls)


def forget(cls: type) -> None:
    pytree.SUPPORTED_NODES.pop(cls, None)
    pytree.SUPPORTED_SERIALIZED_TYPES.pop(cls, None)


@torch._dynamo.nonstrict_trace
def weigh(point: Any, *, weight: Any = 1) -> Any:
    torch._dynamo.graph_break()
    scale = 2 if point.name == "p" else 3
    return point.x * point.y * scale * weight


@torch._dynamo.nonstrict_trace
def length(line: Any) -> Any:
    return (line.end.x - line.start.x) + (line.end.y - line.start.y)


@torch._dynamo.nonstrict_trace
def halves(x: Any) -> Any:
    return {"first": Point(x / 2, x * 2, "made"), "size": x.dim()}


@torch._dynamo.nonstrict_trace
def through(layers: Any, x: Any) -> Any:
    return layers["a"](x) + layers["b"](x)


WORLD = """
import torch
from tests.programs.torch_compile.test_marked_functions import Line, Point, halves, length, through, weigh
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_object_from_outside_and_one_that_is_made(backend):
    text = """
POINT = Point(torch.ones(3), torch.full((3,), 2.0))
def f(x):
    POINT.x = POINT.x + 1
    made = Point(POINT.x, x, "q")
    return weigh(POINT, weight=2) + weigh(made), length(Line(POINT, made)), POINT.x
"""
    same(
        Source(WORLD + text),
        T(3, grad=True),
        backend=backend,
        compare_dynamo=False,
        mutate=["POINT.name = 'other'", "POINT.y = torch.ones(3)", "weigh = lambda p, weight=1: p.x"],
    )


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_results_of_registered_classes(backend):
    text = """
def f(x):
    made = halves(x)
    return made["first"].x + 1, made["first"].name, made["size"]
"""
    same(Source(WORLD + text), T(4, grad=True), backend=backend, compare_dynamo=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_modules_have_gradients_and_are_guarded(backend):
    def scenario(compile, note):
        torch.manual_seed(0)
        layers = {"a": torch.nn.Linear(4, 4), "b": torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))}
        run = compile(lambda x: through(layers, x) * 2)
        x = torch.ones(2, 4)
        for _ in range(2):
            note.gradients(note(run, x), layers["a"].weight)
        note(lambda: layers["b"][1].running_mean.clone())
        layers["b"].eval()
        note(run, x)
        with torch.no_grad():
            layers["a"].weight.mul_(2)
        note(run, x)
        layers["a"] = torch.nn.Linear(4, 4, bias=False)
        note(run, x)

    same_scenario(scenario, backend)


@dataclasses.dataclass(frozen=True)
class Pair:
    x: Any
    y: Any
    factor: int = dataclasses.field(default=3, kw_only=True)


@torch.compiler.allow_in_graph
def combine(pair: Any, more: Any = None) -> Any:
    return pair.x * pair.factor + pair.y + (0 if more is None else more[0].x)


def test_frozen_dataclasses_are_arguments():
    text = """
from tests.programs.torch_compile.test_marked_functions import Pair, combine
import torch
PAIR = Pair(torch.ones(3), torch.ones(3))
def f(x):
    return combine(Pair(x, PAIR.y, factor=2), more=[PAIR]) + combine(PAIR)
"""
    changes = ["object.__setattr__(PAIR, 'factor', 5)", "PAIR = Pair(torch.zeros(3), torch.ones(3))"]
    same(Source(text), T(3), compare_dynamo=False, mutate=changes)


class Unknown:
    x = y = torch.ones(1)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (lambda x: weigh(Unknown()), "Invalid input type for nonstrict_trace-ed function"),
        (lambda x: length(Point(x, x, [Unknown()])), "Invalid use of pytree_flatten"),
        (lambda x: combine(Unknown()), "an argument of a function marked allow_in_graph"),
        (lambda x: torch._dynamo.nonstrict_trace(lambda y: Unknown())(x), "outside `torch.compile` region"),
        (lambda x: unregistered(x), "Unsupported output type for nonstrict_trace-ed function"),
    ],
)
def test_what_is_refused(program, words):
    with pytest.raises(stator.Unsupported, match=words):
        stator.compile(program, fullgraph=True)(torch.ones(2))


@torch._dynamo.nonstrict_trace
def unregistered(x: Any) -> Any:
    return Unknown()


def plus(x: Any) -> Any:
    torch._dynamo.graph_break()
    return x + OFFSET


OFFSET = torch.full((1,), 42.0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_marking_inside_of_the_program_and_tensors_from_outside(backend):
    def program(x):
        marked = torch._dynamo.nonstrict_trace(plus)
        return marked(x) + 1

    x = torch.ones(3)
    compiled = stator.compile(program, fullgraph=True, backend=backend)
    assert torch.equal(compiled(x), program(x))


def test_another_registration_is_another_graph():
    program = stator.compile(lambda x: weigh(Point(x, x)), fullgraph=True)
    assert torch.equal(program(torch.ones(2)), torch.full((2,), 2.0))
    forget(Point)
    pytree.register_pytree_node(Point, lambda p: ((p.x, p.y), None), lambda xy, _: Point(xy[0] + 1, xy[1]))
    assert torch.equal(program(torch.ones(2)), torch.full((2,), 4.0))


class Settings:
    def __init__(self) -> None:
        self.held = None

    @property
    @torch._dynamo.assume_constant_result
    def factor(self) -> int:
        if self.held is None:
            self.held = 42
        return self.held

    @torch._dynamo.assume_constant_result
    def table(self, size: int) -> torch.Tensor:
        return torch.full([size], 2.0)


def test_constant_results_of_methods_and_properties():
    settings = Settings()
    program = stator.compile(lambda x: x * settings.factor + settings.table(x.shape[0]), fullgraph=True)
    for size in (2, 2, 3):
        assert torch.equal(program(torch.ones(size)), torch.full((size,), 44.0))
    settings = Settings()
    settings.held = 1
    assert torch.equal(program(torch.ones(2)), torch.full((2,), 3.0))


def test_disable_inside_of_the_program():
    def program(x):
        @torch.compiler.disable
        def inner(y):
            return y + 10

        return inner(x * 2) + 1

    compiled = stator.compile(program)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 13.0))
    with stator.watch() as report:
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 13.0))
    assert not report.captures
