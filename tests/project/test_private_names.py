"""The parts of torch that Stator uses by name, including private ones, exist in the installed torch."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

import stator

PACKAGE = Path(stator.__file__).resolve().parent
ENGINE = PACKAGE.parents[1] / "src"

# Absent from some versions; the engine checks whether they exist.
OPTIONAL: set[tuple[str, str]] = set()


def of_the_engine() -> set[tuple[str, str]]:
    """`imported("torch.x", "y")`, `find_class("torch.x", "y")` and the like, which C++ calls with constants."""
    called = re.compile(r'\b\w+\("(torch[\w.]*)",\s*"([\w.]+)"\)')
    return {(m[1], m[2]) for file in ENGINE.rglob("*.cpp") for m in called.finditer(file.read_text())}


def of_python() -> set[tuple[str, str]]:
    names = set()
    for file in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "torch":
                names |= {(node.module or "", alias.name) for alias in node.names}
    return names


def is_there(module: str, name: str) -> bool:
    held = importlib.import_module(module)
    for part in name.split("."):
        if not hasattr(held, part):
            try:
                importlib.import_module(f"{module}.{name}")
            except ImportError:
                return False
            return True
        held = getattr(held, part)
    return True


@pytest.mark.parametrize("names", [of_the_engine, of_python])
def test_names_are_there(names):
    if names is of_the_engine and not ENGINE.is_dir():
        pytest.skip("the engine's sources are not here")
    wanted = names() - OPTIONAL
    assert len(wanted) > 10
    assert [f"{module}.{name}" for module, name in sorted(wanted) if not is_there(module, name)] == []


def test_what_functions_are_applied_by():
    """`torch.autograd.Function.apply` is a classmethod in some versions and written in C in others."""
    import torch

    assert isinstance(torch.autograd.Function.__dict__["apply"], (classmethod, type(dict.__dict__["fromkeys"])))
