"""Sources and guards built by a test, as a trace would record them."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch  # noqa: F401  (loads the libraries that the engine is linked with)

from stator import _testing

#: Stands for nothing at all, where None is something.
NOTHING = NotImplemented


@dataclass(frozen=True)
class Node:
    """One source. Reading from it gives the source of what was read."""

    tree: SourceTree
    index: int
    object: Any

    def _child(self, access: str, found: Any, key: Any = NOTHING, number: int = 0) -> Node:
        return self.tree.add(access, self.index, key, number, found)

    def globals(self) -> Node:
        return self._child("Globals", self.object.__globals__)

    def builtins(self) -> Node:
        return self._child("Builtins", self.object.__builtins__)

    def cell(self, number: int) -> Node:
        return self._child("ClosureCell", self.object.__closure__[number], number=number)

    def contents(self, name: str | None = None) -> Node:
        try:
            found = self.object.cell_contents
        except ValueError:
            found = NOTHING
        return self._child("CellContents", found, key=NOTHING if name is None else name)

    def default(self, number: int) -> Node:
        return self._child("Default", self.object.__defaults__[number], number=number)

    def keyword_default(self, name: str) -> Node:
        return self._child("KeywordDefault", self.object.__kwdefaults__[name], key=name)

    def item(self, number: int) -> Node:
        return self._child("Item", self.object[number], number=number)

    def key(self, key: Any) -> Node:
        return self._child("DictItem", dict.get(self.object, key, NOTHING), key=key)

    def dict(self) -> Node:
        return self._child("InstanceDict", self.object.__dict__)

    def attribute(self, name: str) -> Node:
        """An attribute in the instance's dict, or below `_parameters`, `_buffers`, `_modules` of a module."""
        own = self.object.__dict__
        if name in own or not isinstance(self.object, torch.nn.Module):
            return self.dict().key(name)
        return next(
            self.dict().key(table).key(name) for table in ("_parameters", "_buffers", "_modules") if name in own[table]
        )

    def class_attribute(self, name: str) -> Node:
        found = next((c.__dict__[name] for c in self.object.__mro__ if name in c.__dict__), NOTHING)
        return self._child("ClassAttribute", found, key=name)

    def member(self, name: str) -> Node:
        return self._child("Member", getattr(self.object, name, NOTHING), key=name)

    def method_self(self) -> Node:
        return self._child("MethodSelf", self.object.__self__)

    def method_function(self) -> Node:
        return self._child("MethodFunction", self.object.__func__)

    def referent(self) -> Node:
        return self._child("Referent", self.object())

    def guard(self, kind: str, expected: Any = NOTHING, number: int = 0, other: Node | None = None) -> Node:
        self.tree.guards.append((kind, self.index, expected, number, -1 if other is None else other.index))
        return self

    def typed(self) -> Node:
        return self.guard("Type", type(self.object))

    def constant(self) -> Node:
        return self.guard("Constant", self.object)


class SourceTree:
    """All sources and guards of one program."""

    def __init__(self) -> None:
        self.sources: list[tuple] = []
        self.guards: list[tuple] = []
        self._known: dict[tuple, Node] = {}

    def add(self, access: str, parent: int, key: Any, number: int, found: Any) -> Node:
        place = (access, parent, id(key), number, id(found) if access == "Pinned" else 0)
        if place not in self._known:
            self._known[place] = Node(self, len(self.sources), found)
            self.sources.append((access, parent, key, number, found))
        return self._known[place]

    def forget(self) -> None:
        """Lets go of the objects, which sources and their tree otherwise keep until the next collection."""
        self._known.clear()
        self.sources, self.guards = [], []

    def slot(self, number: int, name: str, found: Any) -> Node:
        return self.add("Slot", -1, name, number, found)

    def function(self, found: Callable) -> Node:
        return self.add("Function", -1, NOTHING, 0, found)

    def pinned(self, found: Any) -> Node:
        return self.add("Pinned", -1, NOTHING, 0, found)

    def program(self, fetched: list[Node] = [], distinct: list[Node] = []) -> Program:  # noqa: B006
        indices = [node.index for node in fetched], [node.index for node in distinct]
        return Program(_testing.GuardProgram(self.sources, self.guards, *indices))


def nothing() -> None:
    """The function of frames whose function does not matter."""


class Program:
    """A guard program with the frame that it checks."""

    def __init__(self, program: Any) -> None:
        self.raw = program

    def check(self, *slots: Any, function: types.FunctionType = nothing) -> bool:
        return self.raw.check(list(slots), function)

    def explain(self, *slots: Any, function: types.FunctionType = nothing) -> str:
        return self.raw.explain(list(slots), function)

    def count_steps(self, *slots: Any) -> int:
        return self.raw.count_steps(list(slots), nothing)

    def nanoseconds(self, *slots: Any, repeat: int = 1000) -> float:
        return min(self.raw.nanoseconds(list(slots), nothing, repeat) for _ in range(5))

    def fetched(self) -> list:
        return self.raw.fetched()

    def print(self) -> str:
        return "\n".join(self.raw.print())

    def print_steps(self) -> str:
        return "\n".join(self.raw.print_steps())


def of_slot(found: Any, guards: Callable[[Node], object]) -> Program:
    """A program over one local variable `x`."""
    tree = SourceTree()
    guards(tree.slot(0, "x", found))
    return tree.program()
