"""The extension under test in tests/cpython and tests/bytecode: the engine, or on a Python without PyTorch the rooms
that need none, built by `make test-frames`."""

import importlib
import importlib.util
import os
import sys
from types import CodeType, FunctionType, ModuleType
from typing import NamedTuple


def load() -> ModuleType:
    path = os.environ.get("STATOR_FRAMES")
    if path is None:
        return importlib.import_module("stator._testing")
    # By its path, so that the package (and with it PyTorch) is not imported.
    name = "stator._frames"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


extension = sys.modules.get("stator._frames") or load()


class Decoded(NamedTuple):
    """One instruction, as the extension returns it."""

    op: str
    arg: int
    extra: int
    target: int
    start: int
    offset: int
    next_offset: int
    line: int
    handler: int
    can_resume: int


def decode(code: CodeType) -> list[Decoded]:
    return [Decoded(*row) for row in extension._frames_decode(code)]


def find(function: FunctionType, op: str, nth: int = 0) -> Decoded:
    """The nth instruction of this kind in a function."""
    return [each for each in decode(function.__code__) if each.op == op][nth]
