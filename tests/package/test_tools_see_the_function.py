"""Tools that inspect functions find the original function in a compiled one."""

from __future__ import annotations

import ast
import dis
import doctest
import functools
import inspect
import pydoc
import sys
import textwrap
import threading
import traceback
import types
import typing
from unittest import mock

import pytest
import torch
from torch import nn

import stator
from stator import naming

pytestmark = pytest.mark.usefixtures("engine")


def function(x: torch.Tensor, factor: int = 2, *rest: int, shift: int = 3, **others: int) -> torch.Tensor:
    """Multiplies.

    >>> 1 + 1
    2
    """
    return x * factor + shift


class Net(nn.Module):
    def forward(self, x: torch.Tensor, factor: int = 1) -> torch.Tensor:
        """Forward."""
        return x * factor

    @stator.compile
    def other(self, x: int) -> int:
        """Other."""
        return x + 1

    @stator.compile
    async def later(self) -> int:
        return 1


MODEL = Net()
PAIRS = {
    "function": lambda: (stator.compile(function), function),
    "bound method": lambda: (stator.compile(MODEL.forward), MODEL.forward),
    "in a class": lambda: (Net.other, Net.other.__wrapped__),
    "of an instance": lambda: (MODEL.other, types.MethodType(Net.other.__wrapped__, MODEL)),
    "asynchronous": lambda: (Net.later, Net.later.__wrapped__),
}
QUESTIONS = {
    **{
        name: getattr(inspect, name)
        for name in (
            "signature",
            "getsource",
            "getfile",
            "getsourcefile",
            "getsourcelines",
            "isfunction",
            "ismethod",
            "isroutine",
            "getdoc",
            "getmodule",
            "getfullargspec",
            "iscoroutinefunction",
            "isgeneratorfunction",
            "getclosurevars",
            "get_annotations",
        )
    },
    **{
        name: functools.partial(lambda name, asked: getattr(asked, name), name)
        for name in ("__name__", "__qualname__", "__module__", "__doc__", "__code__", "__defaults__", "__kwdefaults__")
    },
    "__globals__": lambda asked: asked.__globals__ is globals(),
    "hints": typing.get_type_hints,
    "innermost": naming.innermost,
    "signature of a partial": lambda asked: inspect.signature(functools.partial(asked)),
    "a wrapper": lambda asked: (lambda made: (made.__name__, inspect.signature(made)))(functools.wraps(asked)(print)),
    "dis": lambda asked: dis.Bytecode(asked).codeobj,
    "ast": lambda asked: ast.dump(ast.parse(textwrap.dedent(inspect.getsource(asked)))),
    "help": lambda asked: pydoc.plain(pydoc.render_doc(asked)),
    "autospec": lambda asked: str(inspect.signature(mock.create_autospec(asked))),
}


def wrapped_by(wrapped):
    def wrapper(*args, **kwargs):
        return wrapped(*args, **kwargs)

    return functools.wraps(wrapped)(wrapper)


QUESTIONS["a wrapper"] = lambda asked: (wrapped_by(asked).__name__, inspect.signature(wrapped_by(asked)))


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("pair", PAIRS)
def test_the_answer_is_that_of_the_original(pair, question):
    compiled, original = PAIRS[pair]()
    assert QUESTIONS[question](compiled) == QUESTIONS[question](original)


def test_doctests_are_found():
    found = doctest.DocTestFinder(recurse=False).find(stator.compile(function), "function", globs={})
    assert [len(test.examples) for test in found] == [1]


def test_it_can_be_scripted():
    def doubled(x: torch.Tensor, factor: int = 2) -> torch.Tensor:
        return x * factor

    assert torch.jit.script(stator.compile(doubled))(torch.ones(2)).tolist() == [2, 2]


def test_it_can_be_patched():
    compiled = stator.compile(function)
    holder = types.SimpleNamespace(compiled=compiled)
    with mock.patch.object(holder, "compiled", autospec=True) as patched:
        patched.return_value = 5
        assert holder.compiled(1) == 5
        with pytest.raises(TypeError):
            holder.compiled()
    assert holder.compiled is compiled


def test_samplers_see_its_frames():
    entered, leave = threading.Event(), threading.Event()

    def sampled(x):
        entered.set()
        leave.wait(600)
        return x + 1

    compiled = stator.compile(sampled)
    thread = threading.Thread(target=compiled, args=(torch.ones(1),))
    thread.start()
    try:
        assert entered.wait(600)
        frames = traceback.extract_stack(sys._current_frames()[thread.ident])
        assert "sampled" in [frame.name for frame in frames]
    finally:
        leave.set()
        thread.join()


def test_a_method_compiled_in_its_class_compiles_again():
    graphs = []

    def keep(graph_module, example_inputs):
        graphs.append(graph_module)
        return graph_module

    class Holder:
        @stator.compile
        def method(self, x):
            return x + 1

    assert torch.equal(stator.compile(Holder().method, backend=keep)(torch.zeros(2)), torch.ones(2))
    assert len(graphs) == 1
