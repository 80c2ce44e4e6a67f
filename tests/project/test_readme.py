"""The examples of tests/README.md are tests that pass, and the folders that it names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

TESTS = Path(__file__).resolve().parents[1]
PAGE = (TESTS / "README.md").read_text()
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def arguments_of(function: Any) -> list[tuple]:
    """What pytest would call a test with, for each time."""
    cases = [mark.args[1] for mark in getattr(function, "pytestmark", ()) if mark.name == "parametrize"]
    return [case.values for case in cases[0]] if cases else [()]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number: int) -> None:
    namespace: dict[str, Any] = {"__name__": "example", "torch": torch}
    exec(compile(EXAMPLES[number], f"<program {number} of tests/README.md>", "exec"), namespace)
    tests = [value for name, value in namespace.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        for arguments in arguments_of(test):
            test(*arguments)


def test_every_folder_is_listed() -> None:
    table = PAGE[PAGE.index("| folder | tests |") :].split("\n\n")[0]
    listed = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])}
    there = {path.name for path in TESTS.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert listed == there


def test_every_file_is_in_a_folder() -> None:
    assert {path.name for path in TESTS.glob("*.py")} == {"__init__.py", "conftest.py"}
    assert list((TESTS / "programs").glob("*.py")) == []


def test_nothing_edits_the_path_of_imports() -> None:
    edits = re.compile(r"^\s*sys\.path(\[.*\] =|\.(insert|append|extend)\()", flags=re.MULTILINE)
    assert [path.name for path in TESTS.rglob("*.py") if edits.search(path.read_text())] == []
