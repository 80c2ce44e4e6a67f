"""Messages and reports use the names that the user knows, and report callables that capture nothing."""

from __future__ import annotations

import functools
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import stator
from stator import naming

pytestmark = pytest.mark.usefixtures("engine")


def decorator(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


class Plain(nn.Module):
    def forward(self, x):
        return x + 1


class Decorated(nn.Module):
    @decorator
    @torch.no_grad()
    def forward(self, x):
        return x + 1


class Nothing(nn.Module):
    def forward(self, x):
        return x


class Lit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Plain()

    def forward(self, x):
        return self.net(x)

    def training_step(self, x):
        return self.net(x).sum()


def place_of(cls) -> str:
    code = naming.innermost(vars(cls)["forward"]).__code__
    return f"({Path(__file__)}:{code.co_firstlineno})"


each_model = pytest.mark.parametrize("cls", [Plain, Decorated])


@each_model
def test_the_warning_of_the_bound_names_the_model(cls):
    compiled = stator.compile(cls(), dynamic=False)
    with warnings.catch_warnings(record=True) as caught, stator.config.patch(recompile_limit=2):
        warnings.simplefilter("always")
        for length in range(1, 5):
            compiled(torch.ones(length))
    (warning,) = (one for one in caught if "recompile limit" in str(one.message))
    assert f"captured {cls.__name__} {place_of(cls)} 2 times" in str(warning.message)
    assert warning.filename == __file__


def test_the_recompile_limit_is_reported_for_each_model_that_shares_a_forward():
    class Derived(Plain):
        pass

    stator.reset()
    with warnings.catch_warnings(record=True) as caught, stator.config.patch(recompile_limit=2):
        warnings.simplefilter("always")
        for cls in (Plain, Plain, Derived):
            compiled = stator.compile(cls(), dynamic=False)
            for length in range(1, 5):
                compiled(torch.ones(length))
    named = [str(one.message).split()[3] for one in caught if "recompile limit" in str(one.message)]
    assert [name.split(".")[-1] for name in named] == ["Plain", "Derived"]


@each_model
def test_reports_name_the_model(cls):
    compiled = stator.compile(cls(), dynamic=False)
    with stator.watch() as report:
        compiled(torch.ones(2))
        compiled(torch.ones(3))
    assert report.captures[0].code == f"{cls.__name__} {place_of(cls)}"
    (recompiled,) = report.recompiles
    assert recompiled.code == f"{cls.__name__} {place_of(cls)}"
    assert recompiled.file == __file__
    assert recompiled.source.strip() in ("def forward(self, x):", "@decorator")


@each_model
def test_a_refused_recompile_names_the_model(cls):
    compiled = stator.compile(cls(), dynamic=False)
    with (
        torch.compiler.set_stance("fail_on_recompile"),
        pytest.raises(RuntimeError, match=f"{cls.__name__} .*would have to be captured") as raised,
    ):
        compiled(torch.ones(2))
    assert place_of(cls) in str(raised.value)


def test_a_decorated_function_is_called_by_its_own_name():
    @decorator
    def inner(x):
        return x + 1

    report = stator.explain(inner)(torch.ones(2))
    assert report.captures[0].code.startswith("test_a_decorated_function_is_called_by_its_own_name.<locals>.inner (")


def test_functions_that_pybind11_made_are_named_as_they_are_imported():
    assert naming.imported_name(torch.nn.functional.scaled_dot_product_attention) == (
        "torch.nn.functional.scaled_dot_product_attention"
    )

    def asks(x):
        torch.autograd._profiler_enabled()
        return x + 1

    (broken,) = stator.explain(asks)(torch.ones(2)).breaks
    assert broken.reason == "the C function torch.autograd._profiler_enabled is called"


def test_a_report_is_of_this_call():
    kept = stator.compile(Plain())
    kept(torch.ones(2))
    for model in (Plain(), stator.compile(Plain())):
        report = stator.explain(model)(torch.ones(2))
        assert report.graph_count == len(report.graph_modules) == 1
    with stator.watch() as report:
        stator.compile(Plain())(torch.ones(2))
    assert report.graph_count == 0, "another instance's graph serves this one, not the one that was explained"


def test_captures_without_operations_are_no_graphs():
    report = stator.explain(Nothing())(torch.ones(2))
    assert report.graph_count == 0
    assert len(report.captures) == 1
    (words,) = report.idle
    assert words == f"the compiled callable Nothing {place_of(Nothing)} captured nothing: 1 capture, no operations"
    assert words in str(report)
    assert stator.explain(Plain())(torch.ones(2)).idle == []


def test_a_callable_that_is_never_called_is_reported():
    compiled = stator.compile(Lit())
    with stator.watch() as report:
        compiled.training_step(torch.ones(2))
    words = f"the compiled callable Lit {place_of(Lit)} was never called"
    assert words in report.idle
    with stator.watch() as report:
        compiled(torch.ones(2))
    assert words not in report.idle
    stator.reset()
    with stator.watch() as report:
        pass
    assert words not in report.idle
