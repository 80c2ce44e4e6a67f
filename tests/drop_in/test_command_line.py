"""Stator behind a program that does not mention it: `python -m stator run`, and the environment variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import beside_dynamo, python

PROGRAM = """
import sys
import torch

compiled = torch.compile(lambda x: x + 1, backend="eager")
print(type(compiled).__module__, __name__, sys.argv[1:])
"""

STARTUP = Path(__file__).parents[2] / "python"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(PROGRAM)
    return path


def test_run_a_script(script: Path):
    assert python("-m", "stator", "run", str(script), "--a", "b") == "stator._C __main__ ['--a', 'b']"


def test_run_a_module(script: Path):
    arguments = ["stator", "run", "-m", "script", "c"]
    program = f"import os, runpy, sys; os.chdir({str(script.parent)!r}); sys.path[0] = ''; sys.argv = {arguments}; "
    said = beside_dynamo(program + "runpy.run_module('stator', run_name='__main__', alter_sys=True)")
    assert said == "stator._C __main__ ['c']"


def test_without_a_script_the_usage_is_shown():
    program = "import runpy, sys; sys.argv = ['stator', 'run']; runpy.run_module('stator', run_name='__main__')"
    assert "python -m stator run SCRIPT" in beside_dynamo(program, check=False)


def test_the_environment_variable(script: Path):
    # `site` does so with the folder that packages are installed in.
    starting = f"import site, runpy, sys; site.addsitedir({str(STARTUP)!r}); "
    imported = "import torch; print(any('stator' in name for name in sys.modules))"
    assert python("-c", starting + imported, STATOR_INSTALL="0") == "False"
    runs = f"runpy.run_path({str(script)!r}, run_name='__main__')"
    assert python("-c", starting + runs, STATOR_INSTALL="1") == "stator._C __main__ []"


def test_a_stator_that_does_not_fit_leaves_the_program_to_torch():
    starting = f"import site, sys; site.addsitedir({str(STARTUP)!r}); sys.modules['stator'] = None; "
    said = python("-c", starting + "import torch; print(torch.ones(1).item())", STATOR_INSTALL="1")
    assert "STATOR_INSTALL has no effect" in said
    assert said.splitlines()[-1] == "1.0"
