"""The source of a program, for reproduction files: functions and classes with those that they name."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import types
from typing import Any

from stator.isolation import _names, is_of_program


class Code:
    """Collects definitions and imports. Names are those of the program; a second object of one name is imported."""

    def __init__(self) -> None:
        self.imports: dict[str, str] = {}
        self.definitions: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._alive: list[Any] = []

    def name(self, value: Any, wanted: str | None = None) -> str:
        """The expression for a function, a class or a module."""
        if id(value) in self._names:
            return self._names[id(value)]
        self._alive.append(value)
        if isinstance(value, types.ModuleType):
            return self._module(value, wanted)
        module, qualname = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
        if module == "builtins" or module is None:
            return qualname or repr(value)
        if isinstance(value, (types.FunctionType, type)) and self._is_of_program(value):
            return self._define(value, wanted)
        return self._import(value, module, qualname)

    def _is_of_program(self, value: Any) -> bool:
        if isinstance(value, types.FunctionType):
            return is_of_program(value.__code__.co_filename)
        file = getattr(sys.modules.get(value.__module__), "__file__", None)
        return file is None or is_of_program(file)

    def _module(self, module: types.ModuleType, wanted: str | None) -> str:
        name = wanted or module.__name__
        self.imports[name] = f"import {module.__name__}" + (
            f" as {wanted}" if wanted not in (None, module.__name__) else ""
        )
        self._names[id(module)] = name
        return name

    def _import(self, value: Any, module: str, qualname: str) -> str:
        top = module.split(".")[0]
        self.imports.setdefault(module, f"import {module}")
        self._names[id(value)] = f"{module}.{qualname}"
        return self._names[id(value)] if top else qualname

    def _define(self, value: Any, wanted: str | None) -> str:
        tree = source_of(value)
        if tree is None:
            return self._import(value, value.__module__, value.__qualname__)
        name = wanted or ("program" if value.__name__ == "<lambda>" else value.__name__)
        while name in self.definitions:
            name += "_"
        self._names[id(value)] = name
        self.definitions[name] = ""  # in its place among the others, should it name itself
        text = ast.unparse(_named(tree, name))
        for function in _functions(value):
            self.add_names(function)
        if isinstance(value, type):
            for base in value.__bases__:
                if self._is_of_program(base):
                    self.name(base, base.__name__)
        del self.definitions[name]
        self.definitions[name] = text
        return name

    def add_names(self, function: types.FunctionType) -> None:
        """What the code of a function names in its module, and is code."""
        for name in sorted(_names(function.__code__)):
            value = function.__globals__.get(name)
            if isinstance(value, types.ModuleType):
                self._module(value, name)
            elif (
                isinstance(value, (types.FunctionType, type, types.BuiltinFunctionType))
                and name not in self.definitions
            ):
                found = self.name(value, name)
                if found != name:
                    self.imports[name] = f"{name} = {found}"
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            contents = _contents(cell)
            if isinstance(contents, (types.FunctionType, type)) and name != "__class__":
                found = self.name(contents, name)
                if found != name:
                    self.imports[name] = f"{name} = {found}"


def source_of(value: Any) -> ast.stmt | None:
    """The definition as a statement, without decorators that compile; None if there is no source."""
    try:
        lines, _ = inspect.getsourcelines(value)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError, IndentationError):
        return None
    if isinstance(value, types.FunctionType) and value.__name__ == "<lambda>":
        return _lambda_of(value, tree)
    found = tree.body[0] if tree.body else None
    if not isinstance(found, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return None
    found.decorator_list = [one for one in found.decorator_list if "compile" not in ast.unparse(one)]
    _make_global(found)
    return found


def _lambda_of(function: types.FunctionType, tree: ast.Module) -> ast.stmt | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            made = compile(ast.Expression(node), "?", "eval").co_consts[0]
            if made.co_code == function.__code__.co_code or len(_lambdas(tree)) == 1:
                return ast.fix_missing_locations(ast.Assign([ast.Name("_", ast.Store())], node))
    return None


def _lambdas(tree: ast.AST) -> list[ast.Lambda]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda)]


def _named(tree: ast.stmt, name: str) -> ast.stmt:
    if isinstance(tree, ast.Assign):
        tree.targets = [ast.Name(name, ast.Store())]
    else:
        tree.name = name  # type: ignore[attr-defined]
    return ast.fix_missing_locations(tree)


def _make_global(definition: ast.stmt) -> None:
    """Variables of a closure become global ones; inside nested functions `nonlocal` stays what it was."""
    for statement in getattr(definition, "body", ()):
        for node in _own_nodes(statement):
            for name, value in ast.iter_fields(node):
                if isinstance(value, list):
                    setattr(node, name, [_as_global(one) for one in value])
    if hasattr(definition, "body"):
        definition.body = [_as_global(one) for one in definition.body]


def _as_global(node: Any) -> Any:
    return ast.Global(node.names) if isinstance(node, ast.Nonlocal) else node


def _own_nodes(node: ast.AST) -> list[ast.AST]:
    """The nodes of a statement that are not inside another function or class."""
    if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
        return []
    return [node, *(inner for child in ast.iter_child_nodes(node) for inner in _own_nodes(child))]


def _functions(value: Any) -> list[types.FunctionType]:
    if isinstance(value, types.FunctionType):
        return [value]
    found = []
    for one in vars(value).values():
        one = getattr(one, "__func__", one) if isinstance(one, (staticmethod, classmethod)) else one
        inner = (one.fget, one.fset) if isinstance(one, property) else (one,)
        found += [function for function in inner if isinstance(function, types.FunctionType)]
    return found


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
