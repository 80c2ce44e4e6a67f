"""What a call can see and change, and copies of it: so that one call can run twice and be compared.

A `World` is a function with its arguments and the global variables that it may read: variables of its module, of the
functions it calls, of the modules and classes that these name. A copy of a world shares no mutable object with it.
While a copy is `bound`, the global variables of the program are its copies; afterwards they are what they were.
"""

from __future__ import annotations

import builtins
import collections
import copy
import os
import sysconfig
import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

_IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, range)
_CODE = (types.ModuleType, type, types.BuiltinFunctionType, types.CodeType)


class NotCopied(Exception):
    """Something that the call may change can't be copied; the text says what."""


@dataclass(eq=False)
class Namespace:
    """Where global variables are: the globals of a module, or a class."""

    name: str
    owner: Any
    names: set[str] = field(default_factory=set)

    def variables(self) -> dict[str, Any]:
        return dict(vars(self.owner) if isinstance(self.owner, type) else self.owner)

    def set(self, name: str, value: Any) -> None:
        if isinstance(self.owner, type):
            type.__setattr__(self.owner, name, value)
        else:
            self.owner[name] = value

    def delete(self, name: str) -> None:
        if isinstance(self.owner, type):
            type.__delattr__(self.owner, name)
        else:
            del self.owner[name]

    def place(self, name: str) -> str:
        return f"G[{name!r}]" if not self.name else f"{self.name}.{name}"


@dataclass(eq=False)
class World:
    """A call, and what it can see. `variables` are those global variables that refer to data, in the same order in
    every copy, and so are the `tensors` that the call was given."""

    fn: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    namespaces: list[Namespace] = field(default_factory=list)
    variables: list[tuple[Namespace, str, Any]] = field(default_factory=list)
    tensors: list[torch.Tensor] = field(default_factory=list)
    # After `bound`: what was assigned to global variables, and which were deleted.
    assigned: dict[tuple[Namespace, str], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, fn: Any, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> World:
        reach = _Reach()
        if isinstance(fn, types.FunctionType):
            reach.add_function(fn, is_entered=True)
        reach.add([fn, arguments, keywords])
        reach.finish()
        return cls(fn, arguments, keywords, reach.namespaces(), reach.variables, reach.tensors)

    def copied(self) -> World:
        """Raises NotCopied."""
        copier = _Copier()
        reach = _Reach()
        reach.add([self.fn, self.arguments, self.keywords, [value for *_, value in self.variables]])
        copier.prepare(reach)
        arguments, keywords = copier.copy(self.arguments), copier.copy(self.keywords)
        variables = [(space, name, copier.copy_or_share(value)) for space, name, value in self.variables]
        fn = copier.function(self.fn)
        copier.fill_cells()
        copier.copy_gradients(reach.tensors)
        tensors = [copier.memo.get(id(one), one) for one in self.tensors]
        return World(fn, arguments, keywords, self.namespaces, variables, tensors)

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Inside, the program's global variables are those of this world. Notes what was assigned meanwhile."""
        before = [space.variables() for space in self.namespaces]
        for (space, name, value), now in zip(self.variables, self._values_now(), strict=True):
            if now is not value:
                space.set(name, value)
        for (space, name), value in self.assigned.items():  # in an earlier call
            if value is not Deleted:
                space.set(name, value)
            elif name in space.variables():
                space.delete(name)
        started = [space.variables() for space in self.namespaces]
        try:
            yield
        finally:
            for space, first, bound in zip(self.namespaces, before, started, strict=True):
                self._restore(space, first, bound)

    def _values_now(self) -> list[Any]:
        scopes = {id(space): space.variables() for space in self.namespaces}
        return [scopes[id(space)].get(name, Deleted) for space, name, _ in self.variables]

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Notes what is assigned to global variables, and leaves it."""
        before = [space.variables() for space in self.namespaces]
        try:
            yield
        finally:
            for space, first in zip(self.namespaces, before, strict=True):
                self.assigned |= {(space, name): value for name, value in _changes(first, space.variables())}

    def _restore(self, space: Namespace, before: dict[str, Any], bound: dict[str, Any]) -> None:
        now = space.variables()
        self.assigned |= {(space, name): value for name, value in _changes(bound, now)}
        for name, _ in _changes(before, now):
            if name in before:
                space.set(name, before[name])
            elif name in now:
                space.delete(name)


class Deleted:
    """The value of a variable that the program has deleted."""


def _changes(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, Any]]:
    changed = [(name, value) for name, value in now.items() if name not in before or before[name] is not value]
    return changed + [(name, Deleted) for name in before if name not in now]


class _Reach:
    """Walks over values, and over the code that they name."""

    def __init__(self) -> None:
        self.seen: dict[int, Any] = {}
        self.tensors: list[torch.Tensor] = []
        self.functions: list[types.FunctionType] = []
        self.variables: list[tuple[Namespace, str, Any]] = []
        self._spaces: dict[int, Namespace] = {}
        self._codes: set[Any] = set()
        self._own_globals: Any = None
        self._pending: list[Any] = []

    def namespaces(self) -> list[Namespace]:
        return list(self._spaces.values())

    def add(self, values: list[Any]) -> None:
        waiting = list(values)
        while waiting:
            value = waiting.pop()
            if isinstance(value, _IMMUTABLE) or id(value) in self.seen:
                continue
            self.seen[id(value)] = value
            waiting += self._inside(value)

    def _inside(self, value: Any) -> list[Any]:
        """What a value refers to. Notes functions, tensors and classes on the way."""
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
            return [value.grad] if value.is_leaf and value.grad is not None else []
        if isinstance(value, types.FunctionType):
            self.functions.append(value)
            self._pending.append(value)
            cells = [cell.cell_contents for cell in value.__closure__ or () if not _is_empty(cell)]
            return [*cells, value.__defaults__, value.__kwdefaults__]
        if isinstance(value, types.MethodType):
            return [value.__func__, value.__self__]
        if isinstance(value, _CODE):
            return []
        self._pending.append(type(value))
        return list(referents(value).values())

    def finish(self) -> None:
        """Follows the code of the functions and classes that were found, and the data that this code names."""
        while self._pending:
            found = self._pending.pop()
            if isinstance(found, type):
                self._add_class(found)
            else:
                self.add_function(found)

    def add_function(self, function: types.FunctionType, is_entered: bool = False) -> None:
        if is_entered:
            self._own_globals = function.__globals__
        code = function.__code__
        if (code, id(function.__globals__)) in self._codes or not is_of_program(code.co_filename):
            return
        self._codes.add((code, id(function.__globals__)))
        names = _names(code)
        self._add_variables(self._space_of(function), function.__globals__, names)
        for name in names:
            if isinstance(module := function.__globals__.get(name), types.ModuleType) and _is_module_of_program(module):
                space = self._spaces.setdefault(id(vars(module)), Namespace(module.__name__, vars(module)))
                self._add_variables(space, vars(module), names)

    def _space_of(self, function: types.FunctionType) -> Namespace:
        scope = function.__globals__
        own = self._own_globals is None or scope is self._own_globals
        name = "" if own else str(scope.get("__name__", "?"))
        return self._spaces.setdefault(id(scope), Namespace(name, scope))

    def _add_variables(self, space: Namespace, scope: dict[str, Any], names: set[str]) -> None:
        for name in sorted(names - space.names):
            if name not in scope or name.startswith("__"):
                continue
            space.names.add(name)
            value = scope[name]
            if isinstance(value, types.FunctionType):
                self._pending.append(value)
                if value.__closure__ is None:
                    continue
            elif isinstance(value, type):
                self._pending.append(value)
                continue
            if not isinstance(value, (*_CODE, types.GenericAlias)):
                self.variables.append((space, name, value))
                self.add([value])

    def _add_class(self, cls: type) -> None:
        if cls in self._codes or not _is_class_of_program(cls):
            return
        self._codes.add(cls)
        space = self._spaces.setdefault(id(cls), Namespace(cls.__qualname__, cls))
        self._pending += [base for base in cls.__bases__ if base is not object]
        for name, value in list(vars(cls).items()):
            value = getattr(value, "__func__", value) if isinstance(value, (staticmethod, classmethod)) else value
            if isinstance(value, types.FunctionType):
                self._pending.append(value)
            elif isinstance(value, property):
                self._pending += [one for one in (value.fget, value.fset) if isinstance(one, types.FunctionType)]
            elif isinstance(value, (list, dict, set, collections.deque, torch.Tensor)) and not name.startswith("__"):
                space.names.add(name)
                self.variables.append((space, name, value))
                self.add([value])


def referents(value: Any) -> dict[str, Any]:
    """The values inside a container or an object, by how a program writes them."""
    found: dict[str, Any] = {}
    if isinstance(value, dict):
        found |= {f"[{key!r}]" if isinstance(key, _IMMUTABLE) else f".keys()[{number}]": one
                  for number, (key, one) in enumerate(value.items())}  # fmt: skip
        found |= {f".keys()[{n}]": key for n, key in enumerate(value) if not isinstance(key, _IMMUTABLE)}
    elif isinstance(value, (list, tuple, collections.deque)):
        found |= {f"[{number}]": one for number, one in enumerate(value)}
    elif isinstance(value, (set, frozenset)):
        found |= {f".elements()[{number}]": one for number, one in enumerate(value)}
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        found |= {f".{name}": one for name, one in attributes.items()}
    for cls in type(value).__mro__:
        slots = cls.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(value, name):
                found[f".{name}"] = getattr(value, name)
    return found


class _Copier:
    """Deep copies with one memo. Functions with a closure, and tensors with a history, are copied too."""

    def __init__(self) -> None:
        self.memo: dict[int, Any] = {}
        self._cells: list[tuple[types.CellType, types.CellType]] = []

    def prepare(self, reach: _Reach) -> None:
        """Puts what `deepcopy` refuses, or takes for a constant, into the memo."""
        for function in reach.functions:
            if function.__closure__ is not None and is_of_program(function.__code__.co_filename):
                self.function(function)
        for tensor in reach.tensors:
            if tensor.grad_fn is not None and type(tensor) is torch.Tensor:
                self.memo[id(tensor)] = self._with_history(tensor)
            elif type(tensor) is torch.nn.Parameter:
                self.memo[id(tensor)] = self._parameter(tensor)

    def copy(self, value: Any) -> Any:
        try:
            return copy.deepcopy(value, self.memo)
        except Exception as error:
            raise NotCopied(f"{type(value).__name__}: {type(error).__name__}: {error}") from error

    def copy_or_share(self, value: Any) -> Any:
        """A global variable that can't be copied, such as a lock or a logger, is used by both."""
        try:
            return self.copy(value)
        except NotCopied:
            return value

    def function(self, fn: Any) -> Any:
        if type(fn) is types.MethodType:
            return types.MethodType(self.function(fn.__func__), self.copy(fn.__self__))
        if type(fn) is not types.FunctionType:
            return self.copy(fn)
        if id(fn) in self.memo:
            return self.memo[id(fn)]
        if fn.__closure__ is None and not fn.__defaults__ and not fn.__kwdefaults__:
            return fn
        cells = tuple(self._cell(cell) for cell in fn.__closure__ or ())
        made = types.FunctionType(fn.__code__, fn.__globals__, fn.__name__, None, cells)
        self.memo[id(fn)] = made
        made.__defaults__, made.__kwdefaults__ = self.copy(fn.__defaults__), self.copy(fn.__kwdefaults__)
        made.__qualname__, made.__module__ = fn.__qualname__, fn.__module__
        made.__dict__.update(fn.__dict__)
        return made

    def _cell(self, cell: types.CellType) -> types.CellType:
        if id(cell) not in self.memo:
            self.memo[id(cell)] = types.CellType()
            self._cells.append((cell, self.memo[id(cell)]))
        return self.memo[id(cell)]

    def fill_cells(self) -> None:
        for original, made in self._cells:
            if not _is_empty(original):
                made.cell_contents = self.copy(original.cell_contents)

    def _parameter(self, parameter: torch.nn.Parameter) -> torch.nn.Parameter:
        """PyTorch's copy would not share memory with other parameters that the original shares it with."""
        with torch.inference_mode(False):
            made = torch.nn.Parameter(copy.deepcopy(parameter.detach(), self.memo), parameter.requires_grad)
        made.__dict__.update(self.copy(parameter.__dict__))
        return made

    def copy_gradients(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            made = self.memo.get(id(tensor))
            if made is not None and tensor.is_leaf and tensor.grad is not None and made.grad is None:
                made.grad = self.copy(tensor.grad)

    def _with_history(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor that is not a leaf, with a leaf of its own behind it; memory is shared as between the originals."""
        with torch.inference_mode(False), torch.enable_grad():
            contents = copy.deepcopy(tensor.detach(), self.memo)
            made = torch.empty_like(contents).requires_grad_().clone()
            made.data = contents
            return made


def _is_empty(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


def _names(code: types.CodeType) -> set[str]:
    """The names that the code, or a function inside it, may read or write."""
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(_names(one) for one in inner))


def _is_module_of_program(module: types.ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and is_of_program(file)


def _is_class_of_program(cls: type) -> bool:
    import sys

    if cls.__module__ in ("builtins", None) or getattr(builtins, cls.__name__, None) is cls:
        return False
    module = sys.modules.get(cls.__module__)
    file = getattr(module, "__file__", None)
    return module is None or file is None or is_of_program(file)


@cache
def _folders() -> tuple[str, ...]:
    installed = (sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    found = (*installed, os.path.dirname(os.path.dirname(torch.__file__)), os.path.dirname(__file__))
    return tuple(os.path.realpath(folder) + os.sep for folder in found)


@cache
def is_of_program(file: str) -> bool:
    """Whether a file is the user's: not of Python, and not of an installed library. The global variables of libraries
    are too many to copy, and hardly ever change in a call."""
    return not os.path.realpath(file).startswith(_folders()) and not file.startswith("<frozen ")
