"""The benchmarks run: every kind of figure once, on something small."""

import textwrap

import torch

from bench import breaks, captures, depth, dynamic, executor, parts, tables
from bench.measure import Repeats, measure
from bench.programs import Program
from bench.systems import both, stator
from tests.support.processes import fresh


def doubled(x):
    return torch.relu(x * 2)


PROGRAM = Program("small", lambda: (doubled, (torch.ones(2),)))


def test_programs_under_both_systems():
    figures = measure(PROGRAM, both(), Repeats(1))
    for each in figures.values():
        assert 0 < each.cached < each.capture and each.first_result > 0 and each.node_count == 4
    assert "small" in tables.comparison([(PROGRAM, figures)], "capture", "Capture")


def test_a_long_measurement_is_not_repeated():
    assert list(Repeats(3)) == [0, 1, 2]
    assert list(Repeats(3, seconds=0)) == [0]


def test_steps_of_a_capture():
    steps = captures.measure(PROGRAM, Repeats(1))
    assert steps.operations == 2 and {"decode", "trace", "shapes", "guards", "fx"} <= set(steps.times)
    assert "small" in captures.table([(PROGRAM, steps)])


def test_symbols_beside_fixed_sizes():
    figures = dynamic.measure(PROGRAM, both(), Repeats(1))
    assert figures.static.captures == figures.symbolic.captures == figures.theirs.captures == 1
    assert figures.times_less > 0 and figures.their_guards > 0
    assert "small" in dynamic.table([(PROGRAM, figures)])


def test_growth(monkeypatch):
    monkeypatch.setattr(depth, "ROUNDS", 2)
    for what, make in (("capture", depth.nested), ("cached", depth.layers)):
        growth = depth.Growth("growth", what, make(1), make(4), at_most=100)
        figures = depth.measure(growth, (stator(),))
        assert figures["stator"].times > 0
        monkeypatch.setattr(depth, "GROWTHS", (growth,))
        assert "met" in depth.table({"growth": figures})


def test_parts(monkeypatch):
    monkeypatch.setattr(parts, "ROUNDS", 1)
    figures = parts.measure()
    assert all(each > 0 for each in figures.values())
    assert "a graph module" in parts.table(figures)


def test_breaks():
    assert len(breaks.PROGRAMS) == 20 and all(program.breaks > 0 for program in breaks.PROGRAMS)
    program = breaks.programs("in a with block")[0]
    cost = breaks.measure_breaks(program, both(), Repeats(1))
    assert all(executed > 0 for executed in cost.executed.values())
    assert all(cost.to_uncompiled(backend) > 0 for backend in breaks.BACKENDS)
    text = breaks.table([(program, cost)])
    assert "in a with block" in text and "of 1 with eager" in text


def test_prepared_calls_beside_uncompiled():
    figures = executor.measure(PROGRAM, budget=0)
    assert figures.prepared_steps == 2 and figures.peak > 0 and figures.peak_uncompiled > 0
    assert "small" in executor.table([(PROGRAM, figures)])


def test_first_calls_in_new_processes():
    text = """
        import torch
        from bench import executor
        torch.set_num_threads(1)
        print(executor.cold_table(executor.MICRO[:1], rounds=1))
    """
    answer = fresh(textwrap.dedent(text))
    assert "micro add" in answer and answer.count("kernels used") == 2
