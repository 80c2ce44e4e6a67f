"""`stator.minify(file)`: shrinks a program that shows a mismatch, and tells whose fault the mismatch is.

Smaller versions of the program are tried as long as one shows the same kind of mismatch with the same fault (see
reductions.py). If the backend is at fault, the graph that it was given is tried as the program, too. Each version runs
in a process of its own, forked from one that has imported torch, so that a crash or a hang ends nothing else.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any
from unittest import mock

from stator import reductions

# Seconds after which a version counts as one that does not show the mismatch.
HANGS = 60


@dataclass
class Minified:
    """A smaller program.

    Attributes:
        path: its file.
        program: its text.
        fault: "backend", "front end" or "guard".
        tried: how many versions were run.
    """

    path: str
    program: str
    fault: str
    tried: int

    def __str__(self) -> str:
        return f"{self.path}: fault of the {self.fault}, {self.tried} versions tried\n\n{self.program}"


def minify(file: str | os.PathLike[str], output: str | os.PathLike[str] | None = None) -> Minified:
    """Shrinks a file that `check=` of `stator.compile` wrote. Raises ValueError if it shows no mismatch.

    Args:
        file: a reproduction file. It is run, many times: use only files that you trust.
        output: where the smaller program goes; `NAME-minified.py` beside the file by default.
    """
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
    with Oracle() as oracle:
        wanted = oracle.ask(text)
        if "fault" not in wanted:
            raise ValueError(f"{file} shows no mismatch: {wanted.get('error', 'the runs agree')}")
        graph = oracle.ask(text, "graph").get("text") if wanted["fault"] == "backend" else None
        if graph is not None and _is_alike(oracle.ask(graph), wanted):
            text = graph
        program = _shrunk(text, oracle, wanted)
    path = os.fspath(output) if output is not None else f"{os.path.splitext(os.fspath(file))[0]}-minified.py"
    with open(path, "w", encoding="utf-8") as opened:
        opened.write(program)
    return Minified(path, program, wanted["fault"], oracle.asked)


def _is_alike(answer: dict[str, str], wanted: dict[str, str]) -> bool:
    return all(answer.get(name) == wanted[name] for name in ("fault", "kind"))


def _shrunk(text: str, oracle: Oracle, wanted: dict[str, str]) -> str:
    tree = ast.parse(text)
    if isinstance(tree.body[0], ast.Expr) and isinstance(tree.body[0].value, ast.Constant):
        del tree.body[0]
    kinds = (
        reductions.statements,
        reductions.blocks,
        reductions.modules,
        reductions.parameters,
        reductions.expressions,
        reductions.copies,
    )
    seen: set[str] = set()
    before = ""
    while before != (before := ast.unparse(tree)):
        for kind in kinds:
            tree = _with_changes(tree, kind, oracle, wanted, seen)
    title = f'"""{wanted["difference"]}: fault of the {wanted["fault"]}."""\n'
    return title + ast.unparse(tree) + "\n"


def _with_changes(tree: ast.Module, kind: Any, oracle: Oracle, wanted: Any, seen: set[str]) -> ast.Module:
    """The tree with those changes of a kind that still show the mismatch, tried one after the other."""
    number = 0
    while number < len(changes := list(kind(tree))):
        undo = changes[number]()
        try:
            candidate = ast.unparse(ast.fix_missing_locations(tree))
        finally:
            undo()
        is_new = candidate not in seen
        seen.add(candidate)
        if is_new and not reductions.undefined(candidate) and _is_alike(oracle.ask(candidate), wanted):
            tree = ast.parse(candidate)
        else:
            number += 1
    return tree


class Oracle:
    """Runs programs in forked processes, and tells what each of them shows."""

    def __init__(self) -> None:
        self.asked = 0
        self._folder = tempfile.TemporaryDirectory(prefix="stator-minify-")
        self._server = _server(tuple(sys.path))

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()

    def ask(self, text: str, question: str = "mismatch") -> dict[str, str]:
        """What the program shows: its "fault", "kind" and "difference", or an "error"; for "graph" another "text"."""
        assert self._server.stdin is not None and self._server.stdout is not None
        self.asked += 1
        path = os.path.join(self._folder.name, f"version_{self.asked}.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self._server.stdin.write(json.dumps([path, question]) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline() or '{"error": "the process ended"}')


@functools.cache
def _server(path: tuple[str, ...]) -> subprocess.Popen[str]:
    """The process from which others are forked. Its imports take seconds, so that it stays until this process ends."""
    return subprocess.Popen(
        [sys.executable, "-c", "from stator.minification import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
    )


def serve() -> None:
    """Answers questions of an `Oracle`, each in a forked process."""
    import torch

    import stator

    torch.set_num_threads(1)  # a thread would not be there after a fork
    # What a capture imports takes seconds, and each process would import it again. CUDA can't be used after a fork if
    # it was initialized before, as a check does to compare its random state.
    with mock.patch.object(torch.cuda, "is_available", return_value=False):
        checked = stator.compile(lambda x: x + 1, backend=lambda graph_module, _: graph_module.forward, check="first")
        checked(torch.ones(1))
    importlib.import_module("torch._dynamo")
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        path, question = json.loads(line)
        print(_answer_of_child(path, question), file=answers, flush=True)


def _answer_of_child(path: str, question: str) -> str:
    readable, writable = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(readable)
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(silent, descriptor)
        try:
            answer = json.dumps(_answer(path, question))
        except BaseException as error:
            answer = json.dumps({"error": f"{type(error).__name__}: {error}"})
        os.write(writable, answer.encode()[: 1 << 16])
        os._exit(0)
    os.close(writable)
    text = b""
    while select.select([readable], [], [], HANGS)[0] and (part := os.read(readable, 1 << 16)):
        text += part
    os.close(readable)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return text.decode() or '{"error": "it crashed or hangs"}'


def _answer(path: str, question: str) -> dict[str, str]:
    import runpy

    from stator import reproductions
    from stator.errors import Mismatch

    if question == "graph":
        reproductions.show = _graph_program  # type: ignore[assignment]
    try:
        runpy.run_path(path, run_name="__main__")
    except Mismatch as found:
        kind = found.place if found.place in ("exception", "printed text") else "value"
        return {"fault": found.fault, "kind": kind, "difference": str(found).splitlines()[0]}
    except _Graph as graph:
        return {"text": graph.text}
    return {}


class _Graph(Exception):
    """Carries the program that is the graph."""

    def __init__(self, text: str) -> None:
        self.text = text


def _graph_program(calls: Any, **options: Any) -> None:
    """In place of `reproductions.show`: raises `_Graph` with a program whose function is the first captured graph."""
    import stator
    from stator.backends import resolve
    from stator.reproductions import _backend_text
    from stator.written_values import Names, Writer

    def keep(graph_module: Any, example_inputs: Any) -> Any:
        writer = Writer(Names(), list(example_inputs), lambda value: value.__qualname__)
        arguments = writer.expression(tuple(example_inputs))
        imports = {"torch": "import torch", "show": "from stator import reproductions"}
        definitions: dict[str, str] = {}
        backend = resolve(options.get("backend", "eager"), dynamic=None, options=None, mode=None)
        text = _backend_text(backend, imports, definitions)
        body = "\n".join(f"    {line}" for line in [*writer.description.lines(), f"yield program, {arguments}, {{}}"])
        raise _Graph(
            "\n".join([*imports.values(), *definitions.values(), _function_of(graph_module)])
            + f"\ndef calls():\n{body}\nreproductions.show(calls, backend={text})\n"
        )

    fn, arguments, keywords = next(iter(calls()))
    try:
        stator.compile(fn, backend=keep)(*arguments, **keywords)
    except stator.BackendCompilerFailed as failed:
        raise failed.__cause__ or failed from None


def _function_of(graph_module: Any) -> str:
    """The code of a graph as a function `program`."""
    tree = ast.parse(graph_module.code.strip())
    (function,) = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    function.name, function.args.args = "program", function.args.args[1:]
    for argument in function.args.args:
        argument.annotation = None
    function.body = [one for one in function.body if not (isinstance(one, ast.Assign) and _is_none(one.value))]
    return ast.unparse(function)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
