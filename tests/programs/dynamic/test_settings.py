"""Settings and marks of PyTorch that say which sizes and numbers are dynamic: results as uncompiled, and captures and
symbols as torch._dynamo has them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.compiler.config
from torch import nn

import stator
from tests.support import engine
from tests.support.compare import Comparison

dynamo = torch._dynamo
T = torch.randn


def sizes(*lengths: int, mark: Callable[..., Any] | None = None, **options: Any) -> list[Callable[[], tuple]]:
    """Calls with a tensor of each length."""

    def call(length: int) -> tuple:
        x = T(length, 3)
        if mark is not None:
            mark(x, 0, **options)
        return (x,)

    return [lambda length=length: call(length) for length in lengths]


def calls(*arguments: tuple) -> list[Callable[[], tuple]]:
    return [lambda one=one: one for one in arguments]


@dataclass
class Case:
    """A program, or a maker of one, and calls, under settings. A step between the calls may change a setting."""

    program: Callable[..., Any]
    calls: list[Callable[[], tuple] | dict[str, Any]]
    config: dict[str, Any] = field(default_factory=dict)
    dynamic: bool | None = None
    fewer: bool = False  # torch._dynamo needs more captures


def double(x):
    return x * 2


def scaled(x, n):
    return x * n + n


def indexed(x, n):
    return x[n:] if n > 1 else x


class Window(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.width = width

    def forward(self, x):
        return x * self.width


class Held(nn.Module):
    """Has a tensor that is neither a parameter nor a buffer."""

    def __init__(self):
        super().__init__()
        self.cache = T(4, 3)

    def forward(self, x):
        return self.cache.sum(0) + x


class Buffered(Held):
    def __init__(self):
        super().__init__()
        del self.cache
        self.register_buffer("cache", T(4, 3))


def with_attribute(module, name, *values):
    """Calls of a module whose attribute changes before each."""

    def call(value):
        setattr(module, name, value)
        return (T(3),)

    return [lambda value=value: call(value) for value in values]


def grown(module):
    return with_attribute(module, "cache", *(T(n, 3) for n in (4, 5, 6, 7)))


STATIC_WINDOW = type("StaticWindow", (Window,), {"__module__": __name__})
dynamo.mark_static(STATIC_WINDOW)


def of_module(cls, changes, config=None, **options):
    module = cls()
    return Case(module, changes(module), config or {}, **options)


def widths(module):
    return with_attribute(module, "width", 3, 4, 5, 6)


CASES = {
    "automatic": lambda: Case(double, sizes(4, 5, 6, 7)),
    "not automatic": lambda: Case(double, sizes(4, 5, 6), {"automatic_dynamic_shapes": False}),
    "not static by default": lambda: Case(double, sizes(4, 5, 6), {"assume_static_by_default": False}),
    "dynamic=True": lambda: Case(double, sizes(4, 5, 6), dynamic=True),
    "dynamic=False": lambda: Case(double, sizes(4, 5, 6), dynamic=False),
    "dynamic=True, not automatic": lambda: Case(
        double, sizes(4, 5, 6), {"automatic_dynamic_shapes": False}, dynamic=True
    ),
    "automatic is switched off and on": lambda: Case(
        double,
        [
            *sizes(4),
            {"automatic_dynamic_shapes": False},
            *sizes(5, 6),
            {"automatic_dynamic_shapes": True},
            *sizes(7, 8),
        ],
    ),
    "static by default is switched off": lambda: Case(
        double, [*sizes(4), {"assume_static_by_default": False}, *sizes(5, 6)]
    ),
    "equal sizes that part": lambda: Case(double, calls((T(4, 4),), (T(5, 5),), (T(6, 7),), (T(9, 8),))),
    "equal sizes with dynamic=True": lambda: Case(double, calls((T(4, 4),), (T(5, 5),)), dynamic=True),
    "sources": lambda: Case(double, sizes(4, 5, 6), {"dynamic_sources": "L['x']"}),
    "a source and a dimension": lambda: Case(double, sizes(4, 5, 6), {"dynamic_sources": "L['x']:0"}),
    "a source and another dimension": lambda: Case(double, sizes(4, 5, 6), {"dynamic_sources": "L['x']:1"}),
    "sources by pattern": lambda: Case(double, sizes(4, 5, 6), {"dynamic_sources": r"L\['y'\], L\['.*'\]:0"}),
    "sources with dynamic=False": lambda: Case(double, sizes(4, 5, 6), {"dynamic_sources": "L['x']"}, dynamic=False),
    "an int as a source": lambda: Case(scaled, calls((T(3), 4), (T(3), 5)), {"dynamic_sources": "L['n']"}),
    "an int as a source with specialize_int": lambda: Case(
        scaled, calls((T(3), 4), (T(3), 5)), {"dynamic_sources": "L['n']", "specialize_int": True}
    ),
    "sources and mark_static": lambda: Case(
        double, sizes(4, 5, 6, mark=dynamo.mark_static), {"dynamic_sources": "L['x']"}
    ),
    "values": lambda: Case(double, sizes(11, 5, 6), {"dynamic_values": "11,12"}),
    "values of ints": lambda: Case(scaled, calls((T(3), 11), (T(3), 5)), {"dynamic_values": "11"}),
    "mark_dynamic": lambda: Case(double, sizes(4, 5, 6, mark=dynamo.mark_dynamic)),
    "mark_dynamic of one and zero": lambda: Case(double, sizes(1, 0, 5, 6, mark=dynamo.mark_dynamic)),
    "mark_dynamic with dynamic=False": lambda: Case(double, sizes(4, 5, 6, mark=dynamo.mark_dynamic), dynamic=False),
    "mark_dynamic with dynamic=True": lambda: Case(double, sizes(4, 5, 6, mark=dynamo.mark_dynamic), dynamic=True),
    "mark_dynamic with a range": lambda: Case(double, sizes(4, 5, 6, mark=dynamo.mark_dynamic, min=3, max=9)),
    "mark_dynamic with a hint": lambda: Case(double, sizes(4, 5, 6, mark=dynamo.mark_dynamic, hint_override=8)),
    "maybe_mark_dynamic": lambda: Case(double, sizes(4, 5, 6, mark=dynamo.maybe_mark_dynamic)),
    "maybe_mark_dynamic with dynamic=False": lambda: Case(
        double, sizes(4, 5, 6, mark=dynamo.maybe_mark_dynamic), dynamic=False
    ),
    "maybe_mark_dynamic and specialized": lambda: Case(
        lambda x: x * len(range(x.shape[0])), sizes(4, 5, mark=dynamo.maybe_mark_dynamic)
    ),
    "mark_static": lambda: Case(double, sizes(4, 5, 6, mark=dynamo.mark_static)),
    "mark_static with dynamic=True": lambda: Case(double, sizes(4, 5, 6, mark=dynamo.mark_static), dynamic=True),
    "mark_static of all": lambda: Case(double, sizes(4, 5, 6, mark=lambda x, _: dynamo.mark_static(x)), dynamic=True),
    "dynamic before static": lambda: Case(
        double, sizes(4, 5, 6, mark=lambda x, i: (dynamo.mark_dynamic(x, i), dynamo.mark_static(x, i)))
    ),
    "maybe dynamic before static": lambda: Case(
        double, sizes(4, 5, 6, mark=lambda x, i: (dynamo.maybe_mark_dynamic(x, i), dynamo.mark_static(x, i)))
    ),
    "mark_static_address": lambda: Case(double, sizes(4, 5, 6, mark=lambda x, _: dynamo.mark_static_address(x))),
    "ints": lambda: Case(scaled, calls(*((T(3), n) for n in (4, 5, 6, 7)))),
    "ints with specialize_int": lambda: Case(scaled, calls(*((T(3), n) for n in (4, 5, 6))), {"specialize_int": True}),
    "ints, not automatic": lambda: Case(
        scaled, calls(*((T(3), n) for n in (4, 5, 6))), {"automatic_dynamic_shapes": False}
    ),
    "ints with dynamic=True": lambda: Case(scaled, calls(*((T(3), n) for n in (4, 5, 6))), dynamic=True),
    "ints with dynamic=False": lambda: Case(scaled, calls(*((T(3), n) for n in (4, 5, 6))), dynamic=False),
    "floats": lambda: Case(scaled, calls(*((T(3), n) for n in (4.5, 5.5, 6.5, 7.5)))),
    "floats with specialize_float": lambda: Case(
        scaled, calls(*((T(3), n) for n in (4.5, 5.5, 6.5))), {"specialize_float": True}
    ),
    "floats with dynamic=True": lambda: Case(scaled, calls(*((T(3), n) for n in (4.5, 5.5, 6.5))), dynamic=True),
    "floats with dynamic=False": lambda: Case(scaled, calls(*((T(3), n) for n in (4.5, 5.5, 6.5))), dynamic=False),
    "an int of a module": lambda: of_module(Window, widths, fewer=True),
    "an int of a module that may change": lambda: of_module(Window, widths, {"allow_unspec_int_on_nn_module": True}),
    "an int of a module with dynamic=True": lambda: of_module(
        Window, lambda module: widths(module)[:1] * 3, dynamic=True
    ),
    "an int of a module that may change with dynamic=True": lambda: of_module(
        Window, widths, {"allow_unspec_int_on_nn_module": True}, dynamic=True
    ),
    "an int of a module of a static class": lambda: of_module(STATIC_WINDOW, widths),
    "an attribute of a module": lambda: of_module(Held, grown),
    "a buffer": lambda: of_module(Buffered, grown),
    "a buffer that may change": lambda: of_module(Buffered, grown, {"force_parameter_static_shapes": False}),
    "a buffer as a source": lambda: of_module(Buffered, grown, {"dynamic_sources": ".*cache.*"}),
    "a marked attribute": lambda: of_module(
        Held,
        lambda module: with_attribute(module, "cache", *(marked(T(n, 3)) for n in (4, 5, 6))),
    ),
    "a marked buffer": lambda: of_module(
        Buffered,
        lambda module: with_attribute(module, "cache", *(marked(T(n, 3)) for n in (4, 5, 6))),
    ),
    "a parameter": lambda: Case(double, calls(*((nn.Parameter(T(n, 3)),) for n in (4, 5, 6)))),
    "a parameter that may change": lambda: Case(
        double,
        calls(*((nn.Parameter(T(n, 3)),) for n in (4, 5, 6))),
        {"force_parameter_static_shapes": False},
    ),
    "a marked parameter": lambda: Case(double, calls(*((marked(nn.Parameter(T(n, 3))),) for n in (4, 5, 6)))),
    "a parameter of a module of PyTorch": lambda: of_module(
        lambda: nn.Linear(3, 4),
        lambda module: with_attribute(module, "bias", *(None, nn.Parameter(T(4)))),
        {"force_parameter_static_shapes": False},
    ),
}


def marked(tensor):
    dynamo.mark_dynamic(tensor, 0)
    return tensor


def settings(changes: dict[str, Any]) -> contextlib.ExitStack:
    stack = contextlib.ExitStack()
    for name, value in changes.items():
        home = dynamo.config if hasattr(dynamo.config, name) else torch.compiler.config
        stack.enter_context(home.patch({name: value}))
    return stack


def run(case: Case, function: Callable[..., Any]) -> list[Any]:
    results = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(settings(case.config))
        for step in case.calls:
            if isinstance(step, dict):
                stack.enter_context(settings(step))
            else:
                torch.manual_seed(0)
                results.append(function(*step()))
    return results


def plain(source: str) -> str:
    """A source by the names of attributes."""
    return re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", source)


def symbols_of_dynamo(graph_module: torch.fx.GraphModule) -> set[str]:
    symbols = set()
    for node in graph_module.graph.find_nodes(op="placeholder"):
        value, source = node.meta["example_value"], node.meta["grapharg"].source
        if is_symbol(value) or node.meta["grapharg"].pass_arg_as_tensor:
            symbols.add(plain(source.name))
        elif isinstance(value, torch.Tensor):
            symbols.update(f"{plain(source.name)}.size()[{i}]" for i, size in enumerate(value.shape) if is_symbol(size))
    return symbols


def is_symbol(value: Any) -> bool:
    return isinstance(value, torch.SymFloat) or (isinstance(value, torch.SymInt) and value.node.maybe_as_int() is None)


def by_dynamo(case: Case) -> tuple[list[Any], list[set[str]]]:
    captured = []

    def backend(graph_module, _):
        captured.append(symbols_of_dynamo(graph_module))
        return graph_module.forward

    dynamo.reset()
    results = run(case, torch.compile(case.program, backend=backend, dynamic=case.dynamic))
    dynamo.reset()
    return results, captured


def by_stator(case: Case) -> tuple[list[Any], list[set[str]]]:
    engine.reset()
    with stator.watch() as report:
        results = run(case, stator.compile(case.program, dynamic=case.dynamic))
    captured = []
    for capture in report.captures:
        found = (re.match(r"s\d+ is (.*?): (.*)", line) for line in capture.symbols)
        captured.append({plain(match[1]) for match in found if not match[2].startswith("specialized")})
    return results, captured


def test_sizes_to_specialize_on_have_graphs_of_their_own():
    size = "L['x'].size()[0]"
    criteria = [lambda n: n == 5, lambda n: n % 8 == 0]
    case = Case(double, sizes(4, 5, 6, 5, 16, 7, 24, mark=dynamo.mark_dynamic, specialize_on=criteria))
    engine.reset()
    with stator.watch() as report:
        results = run(case, stator.compile(case.program, fullgraph=True))
    Comparison().same(run(case, double), results, "results")
    generic, five, multiple = [capture.symbols[0] for capture in report.captures]
    assert generic == f"s0 is {size}: 4 in this call, at least 2; marked with mark_dynamic"
    assert five.startswith(f"s0 is {size}: specialized to 5 by {size} == 5")
    assert multiple.startswith(f"s0 is {size}: 16 in this call")
    # A function of specialize_on does not specialize anything else.
    x = torch.ones(4, 3)
    dynamo.mark_dynamic(x, 0, specialize_on=[lambda n: n == 5])
    with pytest.raises(RuntimeError, match="is specialized to 4"):
        stator.compile(lambda x: x.view(4, 3) + 1)(x)
    dynamo.mark_dynamic(x, 0, specialize_on=[lambda n: n.nothing])
    with pytest.raises(RuntimeError, match="specialize_on raises an exception"):
        stator.compile(double)(x)


def test_a_limit_on_the_guards_of_a_symbol():
    def program(x):
        for size in (3, 4, 5, 6):
            torch._check(x.size(0) != size)
        return x + 2

    def captured():
        engine.reset()
        with stator.watch() as report:
            compiled = stator.compile(program, dynamic=True)
            for size in (12, 13, 14):
                assert torch.equal(compiled(torch.ones(size)), torch.ones(size) + 2)
        return [capture.symbols[0] for capture in report.captures]

    assert len(captured()) == 1
    for limit, captures in ((4, 1), (3, 3)):
        with torch.fx.experimental._config.patch(symbol_guard_limit_before_specialize=limit):
            lines = captured()
        assert len(lines) == captures
    assert all("specialized to" in line and "torch._check" in line for line in lines)


def test_the_hint_of_a_mark_is_that_of_the_backend():
    hints = []

    def backend(module, inputs):
        fake = list(module.graph.nodes)[1].meta["example_value"]
        hints.append(fake.fake_mode.shape_env.var_to_hint_override[fake.shape[0].node.expr])
        return module.forward

    x = torch.ones(4, 3)
    dynamo.mark_dynamic(x, 0, hint_override=64)
    stator.compile(double, backend=backend)(x)
    assert hints == [64]


# Since torch 2.12.
NEWER_IN_TORCH = (
    "a source and a dimension",
    "a source and another dimension",
    "sources by pattern",
    "values",
    "values of ints",
)


@pytest.mark.parametrize("name", CASES)
def test_as_torch_has_them(name):
    if name in NEWER_IN_TORCH and not hasattr(torch.compiler.config, "dynamic_values"):
        pytest.skip("this torch does not have it")
    torch.manual_seed(0)
    case = CASES[name]()
    expected = run(case, case.program)
    results, captured = by_stator(case)
    Comparison().same(expected, results, "results")
    others, captured_by_dynamo = by_dynamo(case)
    Comparison().same(expected, others, "results of torch._dynamo")
    if case.fewer:
        assert len(captured) < len(captured_by_dynamo)
    else:
        assert captured == captured_by_dynamo


@pytest.mark.parametrize("is_shared", [True, False])
def test_equal_sizes_share_a_symbol_unless_told_otherwise(is_shared):
    import torch.fx.experimental._config as settings

    def program(x, y):
        return x * 2, y * 3

    engine.reset()
    with settings.patch(use_duck_shape=is_shared):
        compiled = stator.compile(program, backend="eager", dynamic=True)
        before = engine.captures()
        for sizes in (3, 3), (4, 5), (6, 6), (7, 8):
            x, y = map(torch.ones, sizes)
            assert torch.equal(compiled(x, y)[1], y * 3)
        assert engine.captures() - before == (2 if is_shared else 1)
