"""Lets the tests of the Python side run without the C++ engine: where it is not built, a stand-in takes its place."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import stand_in


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    found = stand_in.real_engine()
    if found is None:
        import stator

        found = stand_in.as_module()
        monkeypatch.setitem(sys.modules, "stator._C", found)
        monkeypatch.setattr(stator, "_C", found, raising=False)
    yield found
    found.reset()


@pytest.fixture
def fresh_python() -> Callable[[str], str]:
    """Runs a program in a Python that has imported nothing yet, and gives what it prints."""
    import stator

    environment = {**os.environ, "PYTHONPATH": str(Path(stator.__file__).parents[1])}

    def run(program: str) -> str:
        command = [sys.executable, "-c", textwrap.dedent(program)]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=100, env=environment
        ).stdout.strip()

    return run
