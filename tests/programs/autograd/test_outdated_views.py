"""Views that autograd no longer tracks, because their memory was written to after they were made: what the program sees of
them, and the errors where their history is read."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
import torch

import stator
from tests.support.harness import users_lines
from tests.support.long import every

BASES = {"leaf": "a", "result": "a * 1", "view": "(a * 1)[0:]", "without gradient": "n"}
VIEWS = {
    "rows": "list(b)",
    "rows in a loop": "[row for row in b]",
    "rows of a view": "list(b.view(3, 1))",
    "views of rows": "[row[None] for row in b]",
    "unbind": "b.unbind()",
    "split": "b.split(1)",
    "chunk": "b.chunk(3)",
    "a view of a part": "(b.split(2)[0][1:], b[0])",
    "select": "[b[0], b[1]]",
    "from outside": "parts",
}
WRITES = {
    "none": "pass",
    "base": "b.mul_(2)",
    "view": "v[0].mul_(2)",
    "detached": "b.detach().mul_(2)",
    "another row": "list(b)[1].zero_()",
    "with gradients": "b.add_(a.sum())",
}
USES = {
    "none": "r = None",
    "operation": "r = v[0] * 2",
    "unused operation": "v[1].sum()\n    r = None",
    "is_leaf": "r = v[0].is_leaf",
    "grad_fn": "r = v[1].grad_fn is None",
    "detach": "r = v[0].detach()",
    "caught": "try:\n        r = v[0] + 1\n    except RuntimeError as error:\n        r = str(error)",
    "hook": "r = v[0].register_hook(print) is None",
}
MODES = ("enable_grad", "no_grad")
BREAKS = ("pass", "torch._dynamo.graph_break()")
TEXT = """
def f(a, n, parts):
    b = {base}
    with torch.{made}():
        v = {view}
    {broken}
    with torch.{written}():
        {write}
    {use}
    return b, v, r
"""


def answer(read: Any) -> Any:
    try:
        return read()
    except RuntimeError as error:
        return str(error)


def facts(tensor: torch.Tensor, all_tensors: list[torch.Tensor], is_compiled: bool) -> dict[str, Any]:
    """The histories of the results of a compiler are its own, but autograd refuses the same ones."""
    names = ("requires_grad", "is_leaf", "output_nr", "_version", "grad_fn")
    found: dict[str, Any] = {name: answer(lambda name=name: getattr(tensor, name)) for name in names}
    found["values"] = tensor.detach().tolist()
    if is_compiled:
        return {name: found[name] for name in ("requires_grad", "is_leaf", "values")}
    found["grad_fn"] = found["grad_fn"] if isinstance(found["grad_fn"], str) else type(found["grad_fn"]).__name__
    base = tensor._base
    found["_base"] = None if base is None else next((i for i, one in enumerate(all_tensors) if one is base), "another")
    found["_is_view"] = tensor._is_view()
    return found


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, (list, tuple)):
        return list(itertools.chain.from_iterable(map(tensors_in, value)))
    return [value] if isinstance(value, torch.Tensor) else []


def written_to_later(tensor: torch.Tensor) -> Any:
    with torch.no_grad():
        first = answer(lambda: tensor.mul_(1)._version)
    return first, answer(lambda: tensor.mul_(1)._version)


def seen(function: Any, is_compiled: bool) -> list[Any]:
    """What a program can see of three calls."""
    found: list[Any] = []
    for needs_gradient, is_outdated in ((True, False), (True, True), (False, False)):
        a = torch.arange(3.0).requires_grad_(needs_gradient)
        n, whole = torch.ones(3), a * 1
        parts = whole.unbind()
        if is_outdated:
            whole.detach().mul_(1)
        result: Any = ()
        try:
            result = function(a, n, parts)
        except Exception as error:
            # (Which operator makes a view is up to the compiler, and with torch 2.15 another one does.)
            text = re.sub(r" of \w+Backward\d*", "", str(error)) if is_compiled else str(error)
            found.append((type(error).__name__, text, users_lines(error)))
        tensors = [a, n, whole, *parts, *tensors_in(result)]
        found.append([one for one in result if not tensors_in(one)])
        found.append([facts(one, tensors, is_compiled) for one in tensors])
        found.append([answer(lambda one=one: (one * 2).requires_grad) for one in tensors])
        if not is_compiled:
            found.append([written_to_later(one) for one in tensors])
            found.append([facts(one, tensors, is_compiled) for one in tensors])
    return found


PROGRAMS = list(itertools.product(BASES, VIEWS, WRITES, USES))
CASES = [(backend, *program) for turn, backend in enumerate(("eager", "stator", "aot_eager"))
         for program in every(31, PROGRAMS, turn)]  # fmt: skip


@pytest.mark.parametrize("backend, base, view, write, use", CASES)
def test_outdated(backend: str, base: str, view: str, write: str, use: str) -> None:
    is_compiled = backend == "aot_eager"
    # (A compiler returns other views, of which autograd does not know that there were several.)
    breaks = BREAKS[:1] if is_compiled else BREAKS
    for made, written, broken in itertools.product(MODES, MODES, breaks):
        text = TEXT.format(base=BASES[base], made=made, view=VIEWS[view], broken=broken, written=written,
                           write=WRITES[write], use=USES[use])  # fmt: skip
        names: dict[str, Any] = {"torch": torch}
        exec(text, names)
        expected = seen(names["f"], is_compiled)
        compiled = stator.compile(names["f"], backend=backend, isolate_recompiles=True)
        assert seen(compiled, is_compiled) == expected, text


def test_rows_that_are_kept_are_those_of_one_iteration() -> None:
    """The program that a random one was reduced to."""

    def program(x: torch.Tensor, kept: list[torch.Tensor]) -> list[torch.Tensor]:
        for row in x:
            kept.append(row)
            with torch.no_grad():
                x.mul_(2)
        return kept

    def kinds(function: Any) -> list[str]:
        rows = function(torch.arange(3.0, requires_grad=True), [])
        return [str(answer(lambda row=row: row.is_leaf)) for row in rows]

    expected = kinds(program)
    assert "Output 0 of Unbind" in expected[0]
    for backend in ("eager", "stator", "aot_eager"):
        assert kinds(stator.compile(program, backend=backend)) == expected


def test_rows_that_nothing_is_written_to_are_captured_whole() -> None:
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    def program(x):
        with torch.no_grad():
            rows = list(x)
        return rows[0] * 2, rows

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    leaf = torch.arange(3.0, requires_grad=True)
    _, rows = compiled(leaf)
    assert len(graphs) == 1 and [row.grad_fn for row in rows] == [None] * 3
