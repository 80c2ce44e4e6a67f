"""A world is a program with inputs of its own: two worlds built alike are equal and share nothing.

The uncompiled program runs in one world, the compiled one in another, so that what either does to its inputs, to its
globals or to its classes can be compared afterwards.
"""

import contextlib
import linecache
from collections.abc import Callable
from typing import Any

import torch

from tests.support.engine import ENGINE

Maker = Callable[[], Any]

IMPORTED: dict[str, Any] = {}
exec(
    """
import collections, contextlib, copy, dataclasses, enum, functools, itertools, math, operator, random, types, typing
import torch
import torch.nn as nn
import torch.nn.functional as F
""",
    IMPORTED,
)
del IMPORTED["__builtins__"]


def T(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False, device: str = "cpu") -> Maker:
    """A maker of tensors of this shape; values follow the seed of the world that calls it."""

    def make() -> torch.Tensor:
        if dtype.is_floating_point or dtype.is_complex:
            return torch.randn(shape, dtype=torch.float64).to(dtype).to(device).requires_grad_(grad)
        if dtype is torch.bool:
            return torch.randint(0, 2, shape).bool()
        return torch.randint(0, 3, shape).to(dtype)

    return make


_sources = 0


def register_source(text: str) -> str:
    """Gives a text a file name under which tracebacks and inspect find its lines."""
    global _sources
    _sources += 1
    filename = f"<program {_sources}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return filename


class Source:
    """A program as text: every world executes it anew, so globals and classes are the world's own."""

    def __init__(self, text: str, name: str = "f") -> None:
        self.code = compile_source(text)
        self.name = name

    def namespace(self) -> dict[str, Any]:
        namespace: dict[str, Any] = {"__name__": "program", **IMPORTED}
        exec(self.code, namespace)
        return namespace


def compile_source(text: str) -> Any:
    """The code of a text, with its lines registered."""
    return compile(text, register_source(text), "exec")


class Built:
    """A program that is created for every world, such as a module with parameters."""

    def __init__(self, make: Maker) -> None:
        self.make = make


class World:
    """A program, its arguments and, for a program given as text, its globals."""

    def __init__(self, program: Any, makers: tuple, keyword_makers: dict[str, Any], seed: int) -> None:
        self.makers, self.keyword_makers = makers, keyword_makers
        self.args: list[Any] = []
        self.kwargs: dict[str, Any] = {}
        self.under: Callable[[], Any] = contextlib.nullcontext
        self.namespace: dict[str, Any] = {}
        torch.default_generator.manual_seed(seed)
        if isinstance(program, Source):
            self.namespace = program.namespace()
            self.program = self.namespace[program.name]
        else:
            self.namespace.update(IMPORTED)
            self.program = program.make() if isinstance(program, Built) else program
        self.own_names = set(self.namespace) if isinstance(program, Source) else None
        self.entry = self.program
        self.make_arguments(seed)

    def make_arguments(self, seed: int) -> None:
        """Fresh arguments; equal for equal seeds."""
        torch.default_generator.manual_seed(seed)
        self.args = [value() if callable(value) else value for value in self.makers]
        self.kwargs = {name: value() if callable(value) else value for name, value in self.keyword_makers.items()}

    def change(self, mutation: Callable[["World"], object] | str) -> None:
        """Applies one mutation: a function of the world, or text that runs among the program's globals."""
        torch.default_generator.manual_seed(99)
        if isinstance(mutation, str):
            self.namespace.update(ARGS=self.args, KWARGS=self.kwargs, PROGRAM=self.program, WORLD=self)
            exec(mutation, self.namespace)
            for name in ("ARGS", "KWARGS", "PROGRAM", "WORLD"):
                del self.namespace[name]
        else:
            mutation(self)

    def state(self) -> tuple:
        """Everything that a call may have changed, in comparable form."""
        names = {} if self.own_names is None else {k: v for k, v in self.namespace.items() if not is_machinery(k)}
        return self.args, self.kwargs, self.program, names


def is_machinery(name: str) -> bool:
    """Whether a global is not compared: torch._dynamo leaves names of its own there, Stator must leave none.

    A name with one underscore in front is a tool of the program, such as a logger.
    """
    left_by_dynamo = ENGINE == "dynamo" and (name.startswith("__") or name[1:2].isdigit())
    is_tool = name.startswith("_") and not name.startswith("__")
    return name == "__builtins__" or is_tool or left_by_dynamo


def is_plain(value: Any) -> bool:
    """Whether a fresh equal value may stand in for this one without compiling again."""
    if isinstance(value, (list, tuple)):
        return all(is_plain(one) for one in value)
    if type(value) is dict:
        return all(is_plain(one) for one in value.values())
    return isinstance(value, (torch.Tensor, int, float, str, bytes, type(None), torch.dtype)) and not isinstance(
        value, torch.nn.Parameter
    )
