"""`python -m stator`: doctor, explain, run --report, and the progress line on a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time

import pytest

from tests.support.processes import beside_dynamo

PROGRAM = """
import torch

@torch.compile(backend="eager")
def f(x):
    y = x + 1
    print("in f")
    return y * 2

def g(x, n):
    return torch.relu(x) * n

if __name__ == "__main__":
    for size in (2, 2, 3):
        f(torch.ones(size))
"""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "a_program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def without_rich(tmp_path):
    """A folder in which `import rich` fails."""
    folder = tmp_path / "without"
    folder.mkdir()
    (folder / "rich.py").write_text("raise ImportError('not here')")
    return str(folder)


def test_the_doctor(without_rich):
    program = f"import sys; sys.path.insert(0, {without_rich!r}); sys.argv = ['stator', 'doctor', '--quick']\n"
    printed = beside_dynamo(program + "from stator.__main__ import main; main()", check=False)
    assert "frame hook" in printed and "nobody: Stator sets it for each call" in printed
    last = printed.splitlines()[-1]
    assert last.startswith("stator ") and "works: eager stator aot_eager" in last and "fails: none" in last


def test_the_doctor_names_what_is_wrong(monkeypatch, capsys):
    import torch
    from torch._dynamo.backends import registry

    import stator
    from stator import doctor

    def wrong(graph_module, example_inputs):
        return lambda *inputs: tuple(one + torch.rand(()) for one in graph_module(*inputs))

    def failing(graph_module, example_inputs):
        raise OSError("no compiler")

    monkeypatch.setattr(doctor, "_requirements", doctor._requirements)
    monkeypatch.setattr(stator, "list_backends", lambda: ["eager", "stator"])
    assert doctor._try("eager")[0] == "works"
    monkeypatch.setitem(registry._BACKENDS, "failing", None)
    monkeypatch.setitem(registry._COMPILER_FNS, "failing", failing)
    assert doctor._try("failing")[0] == "fails: OSError: no compiler"
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert ("TORCHDYNAMO_DISABLE", "set to '1': nothing is compiled") in doctor._conflicts()
    monkeypatch.setattr(doctor._requirements, "_torch_of_the_build", lambda: "1.0")
    assert any("built for torch 1.0" in answer for *_, answer in doctor._versions())
    assert doctor.main(["--quick"]) == 1
    assert "TORCHDYNAMO_DISABLE" in capsys.readouterr().out.splitlines()[-1]


def test_explain(program, without_rich):
    code = (
        f"import sys, os; sys.path.insert(0, {without_rich!r}); os.chdir({str(program.parent)!r})\n"
        "sys.argv = ['stator', 'explain', 'a_program:g', 'torch.ones(2)', '3']\n"
        "from stator.__main__ import main; main()"
    )
    printed = beside_dynamo(code)
    assert "1 graphs" in printed and "torch.relu(%l_x_)" in printed and "a_program.py:10" in printed


def test_run_with_a_report(program):
    code = f"import sys; sys.argv = ['stator', 'run', '--report', {str(program)!r}]\n"
    printed = beside_dynamo(code + "from stator.__main__ import main; main()")
    assert printed.count("in f") == 3 + printed.count('print("in f")')
    assert "2 recompiles" in printed or "1 recompiles" in printed
    assert "input-output" in printed and "calls" in printed


def test_tables_with_rich(monkeypatch, capsys):
    rich = pytest.importorskip("rich")
    from stator import terminal

    assert rich is not None
    terminal.table("a title", ("one", "two"), [("x", "works"), ("y", "fails: [bold]no[/bold]")])
    printed = capsys.readouterr().out
    assert "a title" in printed and "fails: [bold]no[/bold]" in printed and "\x1b" not in printed


def test_tables_without_rich(monkeypatch, capsys):
    from stator import terminal

    monkeypatch.setattr(terminal, "_rich", lambda: None)
    terminal.table("a title", ("one", "two"), [("x", "works")])
    assert capsys.readouterr().out == "\na title\n  one  two\n  x    works\n"


SLOW = """
import time, torch, stator
from stator import progress
progress.PATIENCE = 0.3
def slow(graph_module, example_inputs):
    time.sleep(1.5)
    return graph_module
stator.compile(lambda x: x + 1, backend=slow)(torch.ones(2))
time.sleep(0.5)
"""

# An operation without a rule, of which PyTorch takes long to tell the size of the result.
SLOW_CAPTURE = """
import time, torch, stator
from stator import progress
progress.PATIENCE = 0.3
@torch.library.custom_op("slowly::add", mutates_args=())
def add(x: torch.Tensor) -> torch.Tensor:
    return x + 1
@add.register_fake
def _(x):
    time.sleep(1.5)
    return torch.empty_like(x)
stator.compile(lambda x: add(x) * 2)(torch.ones(2))
time.sleep(0.5)
"""


@pytest.mark.parametrize(
    "program, line",
    [
        (SLOW, "stator: capturing <lambda> (<string>:8), compiling with slow: "),
        (SLOW_CAPTURE, "stator: capturing <lambda> (<string>:12): "),
    ],
    ids=["backend", "capture"],
)
def test_what_takes_long_is_shown_on_a_terminal_alone(program, line):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    quiet = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert (quiet.returncode, quiet.stderr) == (0, "")
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", program], stderr=theirs, env=environment)
    os.close(theirs)
    shown, end = "", time.monotonic() + 100
    while time.monotonic() < end and select.select([ours], [], [], 100)[0]:
        try:
            shown += os.read(ours, 4096).decode()
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert process.wait() == 0
    assert line in shown
    assert shown.endswith("\r\x1b[K")
