"""Records traces that failed with an internal error, and runs them again.

With `stator.config.record_errors = folder` the engine calls `record` for each such trace. The file holds the function
with what it reads (globals, closure, defaults), the frame's variables and the grad mode. Functions and classes of
importable modules are pickled by reference, those of `__main__` or inside a function by value. An object that can't be
pickled is replaced by a `Missing` that describes it.
"""

from __future__ import annotations

import builtins
import importlib
import io
import marshal
import os
import pickle
import sys
import tempfile
import types
from dataclasses import dataclass
from typing import Any

import torch

from stator import _engine, errors


@dataclass
class Missing:
    """Replaces an object that can't be pickled."""

    what: str


@dataclass
class Recording:
    function: Any
    slots: list[tuple[Any, ...]]
    at: int
    stack_depth: int
    is_generator: bool
    error: str
    grad_enabled: bool
    python: tuple[int, ...]
    torch_version: str


def record(
    folder: str, function: Any, slots: list[tuple[Any, ...]], at: int, stack_depth: int, is_generator: bool, error: str
) -> str:
    """Writes a recording to a new file in the folder and returns its path. Called by the engine."""
    os.makedirs(folder, exist_ok=True)
    recording = Recording(
        function,
        [tuple(_picklable(value) for value in slot) for slot in slots],
        at,
        stack_depth,
        is_generator,
        error,
        torch.is_grad_enabled(),
        sys.version_info[:2],
        torch.__version__,
    )
    written = _dumps(recording)
    handle, path = tempfile.mkstemp(prefix=f"{function.__name__}-", suffix=".stator", dir=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(written)
    return path


def load(path: str) -> Recording:
    """Reads a recording. Unpickling runs code of the file: use only files that you trust."""
    with open(path, "rb") as file:
        recording = pickle.load(file)
    if recording.python != sys.version_info[:2]:
        wanted = ".".join(map(str, recording.python))
        raise ValueError(f"{path} was recorded by Python {wanted}, which has other bytecode")
    return recording


def replay(path: str) -> None:
    """Runs a recorded trace again. Raises `stator.Unsupported` with the error; returns if the trace succeeds.

    Unpickling runs code of the file: use only files that you trust.
    """
    recording = load(path)
    with torch.set_grad_enabled(recording.grad_enabled):
        broken = _engine.engine().trace_again(
            recording.function, recording.slots, recording.at, recording.stack_depth, recording.is_generator
        )
    if broken is not None:
        errors.raise_unsupported(broken)


# ---- pickling functions and classes by value ----------------------------------------------------------------------


def _dumps(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def _picklable(value: Any) -> Any:
    try:
        _dumps(value)
    except Exception as reason:
        return Missing(f"{type(value).__name__}: {reason}")
    return value


def _is_importable(value: Any) -> bool:
    """Whether another process finds this object by its name."""
    if value.__module__ in (None, "__main__"):
        return False
    found: Any = sys.modules.get(value.__module__)
    try:
        importlib.import_module(value.__module__)
        for part in value.__qualname__.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return False
    return found is value


def _names(code: types.CodeType) -> set[str]:
    """The names of globals that the code, or a function inside it, may read."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(_names(one) for one in inner))


# Classes whose `__module__` is `builtins` but that are not attributes of it.
_NAMED_IN_TYPES = {value: name for name, value in vars(types).items() if isinstance(value, type)}


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return NotImplemented if _is_importable(value) else _reduce_function(value)
        if isinstance(value, type):
            if value in _NAMED_IN_TYPES:
                return getattr, (types, _NAMED_IN_TYPES[value])
            return NotImplemented if _is_importable(value) else _reduce_class(value)
        if isinstance(value, types.ModuleType):
            return importlib.import_module, (value.__name__,)
        if isinstance(value, types.CodeType):
            return marshal.loads, (marshal.dumps(value),)
        if isinstance(value, types.CellType):
            contents = () if _is_empty(value) else (value.cell_contents,)
            return types.CellType, (), contents, None, None, _fill_cell
        if isinstance(value, (staticmethod, classmethod)):
            return type(value), (value.__func__,)
        if isinstance(value, property):
            return property, (value.fget, value.fset, value.fdel, value.__doc__)
        if isinstance(value, types.MappingProxyType):
            return types.MappingProxyType, (dict(value),)
        return NotImplemented


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _fill_cell(cell: types.CellType, contents: tuple[Any, ...]) -> None:
    for value in contents:
        cell.cell_contents = value


def _reduce_function(function: types.FunctionType) -> Any:
    wanted = _names(function.__code__)
    read = {name: _shallow(value) for name, value in function.__globals__.items() if name in wanted}
    state = {
        "globals": read,
        "defaults": function.__defaults__,
        "keyword_defaults": function.__kwdefaults__,
        "attributes": function.__dict__,
        "closure": function.__closure__,
    }
    cells = len(function.__closure__ or ())
    arguments = (function.__code__, function.__name__, function.__qualname__, function.__module__, cells)
    return _make_function, arguments, state, None, None, _fill_function


def _shallow(value: Any) -> Any:
    """A global, or a `Missing`. Functions and classes are not tried, because they may be recursive."""
    return value if isinstance(value, (types.FunctionType, type, types.ModuleType)) else _picklable(value)


def _make_function(code: types.CodeType, name: str, qualname: str, module: str | None, cells: int) -> Any:
    scope = {"__builtins__": builtins, "__name__": module}
    closure = tuple(types.CellType() for _ in range(cells))
    function = types.FunctionType(code, scope, name, None, closure)
    function.__qualname__ = qualname
    return function


def _fill_function(function: types.FunctionType, state: dict[str, Any]) -> None:
    function.__globals__.update(state["globals"])
    function.__defaults__ = state["defaults"]
    function.__kwdefaults__ = state["keyword_defaults"]
    function.__dict__.update(state["attributes"])
    for mine, theirs in zip(function.__closure__ or (), state["closure"] or (), strict=True):
        if not _is_empty(theirs):
            mine.cell_contents = theirs.cell_contents


# Attributes that the metaclass creates.
_MADE_WITH_CLASS = ("__dict__", "__weakref__", "_abc_impl", "__slots__")


def _reduce_class(cls: type) -> Any:
    slots = cls.__dict__.get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    body = {
        name: value
        for name, value in cls.__dict__.items()
        if name not in _MADE_WITH_CLASS and name not in names and not isinstance(value, types.GetSetDescriptorType)
    }
    first = {"__slots__": slots} if "__slots__" in cls.__dict__ else {}
    first["__module__"] = cls.__module__
    return _make_class, (type(cls), cls.__name__, cls.__bases__, first), body, None, None, _fill_class


def _make_class(metaclass: Any, name: str, bases: tuple[type, ...], first: dict[str, Any]) -> Any:
    return metaclass(name, bases, first)


def _fill_class(cls: type, body: dict[str, Any]) -> None:
    for name, value in body.items():
        setattr(cls, name, value)
