"""Tools of every day around compiled programs: IPython, coverage, pytest, profilers. tests/drop_in has those of Python."""

from __future__ import annotations

import cProfile
import importlib.util
import pstats
import tempfile
from pathlib import Path
from types import ModuleType

import coverage
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from tests.integrations.scenario import Run, scenario

PROGRAM = """
import torch

def helper(x, n):
    if n > 2:
        return x + n
    return x - n

def function(x, n):
    y = torch.relu(x)
    print("in the middle")
    y = helper(y, n)
    return y * 2

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.tanh(self.linear(x))
"""


def program(folder: str) -> ModuleType:
    path = Path(folder) / "program.py"
    path.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@scenario("IPython: a cell is run twice, changed, and run again", backend="eager")
def ipython(run: Run) -> None:
    shell = InteractiveShell.instance()
    cell = """
import torch
@torch.compile(backend=BACKEND)
def f(x):
    return (x + OFFSET) * 2
result = f(torch.ones(3))
"""
    shell.user_ns.update(BACKEND=run.backend, OFFSET=1)

    def run_cell(text: str) -> torch.Tensor:
        shell.run_cell(text).raise_error()
        return shell.user_ns["result"]

    run.call(lambda: run_cell(cell))
    run.call(lambda: run_cell(cell))
    run.call(lambda: run_cell("OFFSET = 5\nresult = f(torch.ones(3))"))
    run.call(lambda: run_cell(cell.replace("* 2", "* 3")))
    run.call(lambda: run_cell("%timeit -n 2 -r 1 f(torch.ones(3))\n%time result = f(torch.zeros(3))"))
    run.call(lambda: run_cell("%prun -q result = f(torch.zeros(2))"))


@scenario("coverage: the lines around compiled functions", backend="eager")
def lines(run: Run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        measured = coverage.Coverage(data_file=None, source=[folder])
        measured.start()
        module = program(folder)
        compiled = torch.compile(module.function, backend=run.backend)
        model = torch.compile(module.Model(), backend=run.backend)
        for n in (1, 1, 3):
            run.call(lambda n=n: compiled(torch.ones(3), n))
        run.call(lambda: model(torch.ones(2, 4)))
        measured.stop()
        # Those of a captured function are not seen: docs/graph-breaks.md, "Coverage of compiled code".
        lines_of_the_module = {2, 4, 9, 15, 16, 17, 18, 20}
        run.keep(lines_of_the_module <= set(measured.get_data().lines(str(Path(folder) / "program.py"))))


@scenario("pytest runs compiled tests", backend="eager")
def tests(run: Run) -> None:
    text = f"""
import pytest, torch
@torch.compile(backend={run.backend!r})
def f(x, n):
    assert n < 5, "too large"
    return x + n
@pytest.mark.parametrize("n", [1, 2, 3])
def test_values(n):
    assert f(torch.zeros(2), n).tolist() == [n, n]
def test_it_fails():
    assert f(torch.zeros(2), 1).tolist() == [0, 0]
def test_raises():
    with pytest.raises(AssertionError, match="too large"):
        f(torch.zeros(2), 7)
def test_warns():
    with pytest.warns(UserWarning):
        torch.compile(lambda x: (__import__("warnings").warn("careful"), x + 1), backend={run.backend!r})(torch.ones(1))
"""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "test_compiled.py"
        path.write_text(text)
        outcomes: list[str] = []

        class Collector:
            def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
                if report.when == "call":
                    outcomes.append(f"{report.nodeid.rpartition('::')[2]} {report.outcome}")

        options = [str(path), "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", folder]
        run.call(lambda: int(pytest.main(options, plugins=[Collector()])))
        run.keep(outcomes)


@scenario("cProfile and torch.profiler", backend="eager")
def profilers(run: Run) -> None:
    with tempfile.TemporaryDirectory() as folder:
        module = program(folder)
        compiled = torch.compile(module.function, backend=run.backend)
        profile = cProfile.Profile()
        with profile:
            run.call(lambda: compiled(torch.ones(3), 1))
        run.keep("function" in {name for _, _, name in pstats.Stats(profile).stats})
        with torch.profiler.profile(with_stack=True, record_shapes=True) as profiled:
            run.call(lambda: compiled(torch.ones(3), 1))
        names = {event.name for event in profiled.events()}
        run.keep({"aten::relu", "aten::sub", "aten::mul"} <= names)
        run.call(lambda: compiled(torch.ones(3), 4))
