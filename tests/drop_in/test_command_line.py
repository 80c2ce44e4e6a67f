"""Stator behind a program that does not mention it: `python -m stator run`, and the environment variable."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import python

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
    said = python("-m", "stator", "run", "-m", "script", "c", PYTHONPATH=f"{script.parent}:{STARTUP}")
    assert said == "stator._C __main__ ['c']"


def test_without_a_script_the_usage_is_shown():
    assert "python -m stator run SCRIPT" in python("-m", "stator", "run", check=False)


def test_the_environment_variable(script: Path):
    # `site` does so with the folder that packages are installed in.
    starting = f"import site, runpy, sys; site.addsitedir({str(STARTUP)!r}); "
    imports_nothing = "print(any('stator' in name for name in sys.modules)); "
    runs = f"runpy.run_path({str(script)!r}, run_name='__main__')"
    for value, module in (("0", "builtins"), ("1", "stator._C")):
        said = python("-c", starting + (imports_nothing if value == "0" else "") + runs, STATOR_INSTALL=value)
        assert said.splitlines()[-1] == f"{module} __main__ []"
        assert value == "1" or said.splitlines()[0] == "False"


def test_a_stator_that_does_not_fit_leaves_the_program_to_torch():
    starting = f"import site, sys; site.addsitedir({str(STARTUP)!r}); sys.modules['stator'] = None; "
    said = python("-c", starting + "import torch; print(torch.ones(1).item())", STATOR_INSTALL="1")
    assert "STATOR_INSTALL has no effect" in said
    assert said.splitlines()[-1] == "1.0"
