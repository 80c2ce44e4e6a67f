"""Smaller versions of a program: each generator yields changes of a syntax tree that `stator.minify` tries.

A change is a function that edits the tree in place and returns a function that undoes it.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator
from typing import Any

Undo = Callable[[], None]
Change = Callable[[], Undo]

_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try)


def statements(tree: ast.Module) -> Iterator[Change]:
    """Without a run of statements: long runs first, as in delta debugging."""
    for owner, name, body in _bodies(tree):
        size = len(body)
        while size >= 1:
            for first in range(len(body) - size, -1, -1):
                if first + size <= len(body) and not any(_is_needed(one) for one in body[first : first + size]):
                    yield _replace_slice(owner, name, first, size, [])
            size //= 2


def blocks(tree: ast.Module) -> Iterator[Change]:
    """The body of a compound statement in place of it."""
    for owner, name, body in _bodies(tree):
        for index, statement in enumerate(body):
            if isinstance(statement, _COMPOUND):
                for field in ("body", "orelse", "finalbody"):
                    if inner := getattr(statement, field, None):
                        yield _replace_slice(owner, name, index, 1, inner)


def expressions(tree: ast.Module) -> Iterator[Change]:
    """A part of an expression in place of the whole."""
    for node in _nodes(tree):
        if isinstance(node, ast.Module):
            continue
        for name, value in list(ast.iter_fields(node)):
            if isinstance(value, ast.expr) and not _is_target(node, name):
                for part in _parts(value):
                    yield _replace_field(node, name, part)
            elif isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, ast.expr) and name in ("args", "elts", "values"):
                        for part in _parts(item):
                            yield _replace_slice(node, name, index, 1, [part])
                        if name in ("args", "elts") and not (
                            isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Store)
                        ):
                            yield _replace_slice(node, name, index, 1, [])
                    elif isinstance(item, ast.keyword):
                        yield _replace_slice(node, name, index, 1, [])


def modules(tree: ast.Module) -> Iterator[Change]:
    """`torch.nn.Identity()` in place of a module; a small tensor in place of a large one."""
    for node in _nodes(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            called = ast.unparse(node.value.func)
            if called.startswith(("torch.nn.", "nn.")) and not called.endswith((".Identity", ".Parameter")):
                yield _replace_field(node, "value", _parsed("torch.nn.Identity()"))
            if called.startswith("torch."):
                for small in ("torch.ones(2)", "torch.ones(2, 2)"):
                    if ast.unparse(node.value) not in ("torch.ones(2)", small):
                        yield _replace_field(node, "value", _parsed(small))


def parameters(tree: ast.Module) -> Iterator[Change]:
    """A function without a parameter, and its calls without that argument."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    for name, function in functions.items():
        calls = [
            node.value.elts[1]
            for node in ast.walk(tree)
            if isinstance(node, ast.Yield)
            and isinstance(node.value, ast.Tuple)
            and ast.unparse(node.value.elts[0]) == name
            and isinstance(node.value.elts[1], ast.Tuple)
        ]
        for index in range(len(function.args.args) - 1, -1, -1):
            if calls and all(len(one.elts) > index for one in calls):
                yield _all_of(
                    [_replace_slice(function.args, "args", index, 1, [])]
                    + [_replace_slice(one, "elts", index, 1, []) for one in calls]
                )


def copies(tree: ast.Module) -> Iterator[Change]:
    """`a = b`, or an expression that is used once, in place of the variable."""
    for function in [node for node in _nodes(tree) if isinstance(node, ast.FunctionDef)]:
        for statement in function.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                name = statement.targets[0].id
                uses = [one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == name]
                if isinstance(statement.value, (ast.Name, ast.Constant)) or len(uses) == 2:
                    yield _inline(function, statement, name)


# ---- changes ---
def _replace_slice(owner: Any, name: str, first: int, size: int, new: list[Any]) -> Change:
    def change() -> Undo:
        before = list(getattr(owner, name))
        after = before[:first] + list(new) + before[first + size :]
        if not after and name == "body":
            after = [ast.Pass()]
        setattr(owner, name, after)
        return lambda: setattr(owner, name, before)

    return change


def _all_of(changes: list[Change]) -> Change:
    def change() -> Undo:
        undos = [one() for one in changes]

        def undo_all() -> None:
            for undo in undos:
                undo()

        return undo_all

    return change


def _replace_field(owner: Any, name: str, new: Any) -> Change:
    def change() -> Undo:
        before = getattr(owner, name)
        setattr(owner, name, new)
        return lambda: setattr(owner, name, before)

    return change


class _Substitute(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self.name, self.value = name, value

    def visit_Name(self, node: ast.Name) -> Any:
        return self.value if node.id == self.name and isinstance(node.ctx, ast.Load) else node


def _inline(function: ast.FunctionDef, statement: ast.Assign, name: str) -> Change:
    def change() -> Undo:
        before = function.body
        kept = [one for one in before if one is not statement]
        copied = ast.parse(ast.unparse(ast.Module(kept, []))).body
        function.body = [_Substitute(name, statement.value).visit(one) for one in copied] or [ast.Pass()]
        return lambda: setattr(function, "body", before)

    return change


def undefined(text: str) -> set[str]:
    """Names that a program reads and nobody defines: there is no need to run it."""
    tree = ast.parse(text)
    known = set(dir(builtins)) | {"__name__", "__file__"}
    read: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else known).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.alias):
            known.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            known.add(node.name)
    return read - known


# ---- the tree ---
def _nodes(tree: ast.Module) -> list[ast.AST]:
    """All nodes but those of the backend and the guard filter: an error that is theirs is not to be reduced away."""
    kept = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "reproductions.show":
            kept |= {inner.id for given in node.keywords for inner in ast.walk(given) if isinstance(inner, ast.Name)}
    found: list[ast.AST] = [tree]
    for statement in tree.body:
        if not _is_needed(statement) and getattr(statement, "name", None) not in kept:
            found += ast.walk(statement)
    return found


def _bodies(tree: ast.Module) -> Iterator[tuple[Any, str, list[ast.stmt]]]:
    for node in _nodes(tree):
        for name in ("body", "orelse", "finalbody"):
            body = getattr(node, name, None)
            if isinstance(body, list) and body and isinstance(body[0], ast.stmt):
                yield node, name, body


def _is_needed(statement: ast.stmt) -> bool:
    """What makes the file a reproduction."""
    text = ast.unparse(statement)
    return "reproductions.show" in text or text == "from stator import reproductions" or isinstance(statement, ast.Pass)


def _is_target(node: ast.AST, name: str) -> bool:
    return name in ("target", "func", "annotation", "returns") or isinstance(node, (ast.Delete, ast.Global))


def _parts(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        receiver = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return [*receiver, *(one for one in node.args if not isinstance(one, ast.Starred))]
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.BoolOp):
        return list(node.values)
    if isinstance(node, ast.Subscript):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    if isinstance(node, (ast.Tuple, ast.List)) and isinstance(node.ctx, ast.Load):
        return list(node.elts)
    if isinstance(node, ast.Dict):
        return list(node.values)
    return []


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
