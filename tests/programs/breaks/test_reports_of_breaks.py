"""Reports of graph breaks, recompiles and the recompile limit name file, line, source and remedy."""

import warnings
from pathlib import Path

import pytest
import torch

import stator
from stator import _testing


@torch.compiler.disable
def opaque(value):
    return value


def helper(x):
    y = x + 1
    if y.sum() > 0:  # the branch
        y = y * 2
    return opaque(y)


def program(x):
    z = helper(x)
    print("", end="")
    return z + z.sum().item()


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_explain_lists_every_break_of_one_run():
    report = stator.explain(program)(torch.ones(3))
    assert [broken.kind for broken in report.breaks] == [
        "data-dependent", "disabled-function", "input-output", "data-dependent"]  # fmt: skip
    assert torch.equal(report.result, program(torch.ones(3)))
    first = report.breaks[0]
    assert first.file == __file__ and first.line == line_of("# the branch")
    assert first.source.strip().startswith("if y.sum() > 0:")
    assert first.stack == [f"program ({__file__}:{line_of('z = helper(x)')})"]
    assert first.hint == _testing.break_kinds()["data-dependent"]
    assert report.graph_count >= 3


def test_fullgraph_raises_with_the_same_text():
    with pytest.raises(stator.Unsupported) as raised:
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(3))
    assert str(stator.explain(program)(torch.ones(3)).breaks[0]) in str(raised.value)


def test_a_recompile_names_the_guard_with_both_values_and_the_line():
    def scaled(x, n):
        return x * n

    compiled = stator.compile(scaled, backend="eager")
    x = torch.ones(2)
    with stator.watch() as report:
        compiled(x, "2" == "" or 2.5)
        assert report.recompiles == []
        compiled(x, 3.5)
    (recompile,) = report.recompiles
    assert recompile.file == __file__ and recompile.line == scaled.__code__.co_firstlineno
    assert recompile.source.strip() == "def scaled(x, n):"
    assert recompile.reasons == ["L['n'] is 3.5, was 2.5"]
    assert "because L['n'] is 3.5, was 2.5" in str(report)


def test_a_recompile_behind_a_break_names_the_line_behind_it():
    def program(x, n):
        y = x + 1
        opaque(y)
        return y * n  # behind

    compiled = stator.compile(program, backend="eager")
    with stator.watch() as report:
        for n in (1.5, 2.5):
            assert torch.equal(compiled(torch.ones(2), n), program(torch.ones(2), n))
    (recompile,) = report.recompiles
    assert recompile.line == line_of("return y * n  # behind") - 1  # the call's result is still to be dropped
    assert recompile.reasons == ["L['n'] is 2.5, was 1.5"]


def test_past_the_bound_the_program_goes_on_right_with_one_warning():
    def scaled(x, n):
        y = x + 1
        opaque(y)
        return y * float(str(n))  # `str` reads the value

    compiled = stator.compile(scaled, backend="eager")
    x = torch.ones(2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(20):
            assert torch.equal(compiled(x, n + 0.5), scaled(x, n + 0.5))
        for n in range(20):
            assert torch.equal(compiled(x, n + 0.5), scaled(x, n + 0.5))
    (warning,) = [str(w.message) for w in caught if "recompile limit" in str(w.message)]
    assert "L['n'] is 8.5, was 7.5" in warning and "stator.config.recompile_limit" in warning


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @stator.compile(backend="eager")
    def scale(self, x):
        y = x + 1
        opaque(y)
        return y * self.factor


def test_instances_of_one_class_do_not_compete_for_one_bound():
    scalers = [Scaler(n + 0.5) for n in range(40)]
    x = torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for scaler in scalers:
            assert torch.equal(scaler.scale(x), (x + 1) * scaler.factor)
        captured = _testing.captures()
        for scaler in scalers:
            assert torch.equal(scaler.scale(x), (x + 1) * scaler.factor)
    assert _testing.captures() == captured


def test_a_frame_that_captures_nothing_is_left_to_cpython_and_remembered():
    calls = []

    @torch.compiler.disable
    def count():
        calls.append(None)

    def program(n):
        for _ in range(n):
            count()
        return n

    compiled = stator.compile(program, backend="eager")
    assert compiled(5000) == 5000 and len(calls) == 5000
    assert any(not entry["captured"] for entry in compiled._entries())
    captured = _testing.captures()
    assert compiled(5000) == 5000 and len(calls) == 10000
    assert _testing.captures() == captured


def test_calls_that_do_not_fit_are_in_the_report():
    def wants_two(first, second):
        return first + second

    def program(x):
        try:
            return wants_two(x, 1, third=2)
        except TypeError as error:
            return x + 1, str(error)

    with stator.watch() as report:
        _, words = stator.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    (call,) = report.mismatched_calls
    assert call.reason == words == str(call).splitlines()[0] and "unexpected keyword argument 'third'" in words
    assert "wants_two" in call.function and f"{__file__}:{wants_two.__code__.co_firstlineno}" in call.function
    assert call.arguments == ["torch.Tensor", "int", "third: int"]
    assert f"{__file__}:{program.__code__.co_firstlineno + 2}" in call.caller
    assert "mismatched call 1" in str(report)
