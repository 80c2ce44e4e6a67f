"""`contextvars.ContextVar` and `threading.local`: values are guarded, assignments are replayed in order."""

from __future__ import annotations

import contextvars
import threading

import torch

import stator
from tests.support.harness import Source, T, same, unrelated

TEXT = """
import contextvars, threading, torch
VARIABLE = contextvars.ContextVar("variable")
OTHER = contextvars.ContextVar("other", default=7)
LOCAL = threading.local()
TOKENS = []
"""


def program(body: str) -> Source:
    return Source(TEXT + "def f(x):\n" + "".join(f"    {line}\n" for line in body.splitlines()))


def test_a_value_is_guarded():
    same(
        program("return x * VARIABLE.get(2) + OTHER.get()"),
        T(3),
        mutate=["VARIABLE.set(3)", "OTHER.set(1)", "VARIABLE.set(3)", "VARIABLE.set(torch.ones(3))"],
        compare_dynamo=False,
    )


def test_a_variable_without_a_value_raises():
    body = "try:\n    return VARIABLE.get()\nexcept LookupError as error:\n    return x + 1, error.args[0] is VARIABLE"
    same(program(body), T(3), mutate=["VARIABLE.set(3)"], compare_dynamo=False)


def test_assignments_are_replayed():
    body = "VARIABLE.set(x + 1)\ny = VARIABLE.get() * 2\nVARIABLE.set(y)\nOTHER.set(3)\nreturn VARIABLE.get() is y, y"
    same(program(body), T(3), mutate=[unrelated("OTHER.set(4)"), unrelated("VARIABLE.set(4)")], compare_dynamo=False)


def test_a_value_is_reset():
    body = (
        "token = OTHER.set(1)\n"
        "second = OTHER.set(2)\n"
        "y = x * OTHER.get()\n"
        "OTHER.reset(second)\n"
        "y = y * OTHER.get()\n"
        "OTHER.reset(token)\n"
        "return y * OTHER.get(), token.var is OTHER"
    )
    same(program(body), T(3), mutate=["OTHER.set(3)"], compare_dynamo=False)


def test_tokens_leave_the_call_in_any_order():
    variable = contextvars.ContextVar("variable", default=0)

    def program(x, tokens):
        made = []
        tokens.append(made)
        first = variable.set(1)
        variable.reset(first)
        variable.set(2)
        made.append(variable.set(3))
        return x + variable.get()

    def run(function):
        tokens = []
        function(torch.ones(2), tokens)
        value = variable.get()
        variable.reset(tokens[0][0])
        return value, variable.get()

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert contextvars.copy_context().run(run, compiled) == contextvars.copy_context().run(run, program) == (3, 2)


def test_a_token_of_another_variable_breaks_the_graph():
    body = (
        "token = VARIABLE.set(1)\ny = x + 1\ntry:\n    OTHER.reset(token)\nexcept ValueError:\n    y = y * 2\nreturn y"
    )
    same(program(body), T(3), fullgraph=False, compare_dynamo=False)


def test_attributes_of_a_thread_local():
    body = (
        "y = x * getattr(LOCAL, 'scale', 2)\n"
        "LOCAL.count = getattr(LOCAL, 'count', 0) + 1\n"
        "LOCAL.result = y\n"
        "had = hasattr(LOCAL, 'gone')\n"
        "LOCAL.gone = 1\n"
        "del LOCAL.gone\n"
        "return LOCAL.result + 1, had, hasattr(LOCAL, 'gone')"
    )
    same(
        program(body),
        T(3),
        mutate=["LOCAL.scale = 3", "LOCAL.scale = torch.ones(3)"],
        fullgraph=False,
        compare_dynamo=False,
    )


def test_threads_have_attributes_of_their_own():
    local = threading.local()

    @stator.compile(backend="eager", fullgraph=True)
    def scaled(x):
        local.seen = x
        return x * local.scale

    results = []

    def run(scale: int) -> None:
        local.scale = scale
        x = torch.ones(2)
        results.append((scaled(x), local.seen is x))

    run(2)
    for scale in (3, 4):
        thread = threading.Thread(target=run, args=(scale,))
        thread.start()
        thread.join()
    assert [(int(result[0]), is_own) for result, is_own in results] == [(2, True), (3, True), (4, True)]


def test_contexts_have_values_of_their_own():
    variable = contextvars.ContextVar("variable")

    @stator.compile(backend="eager", fullgraph=True)
    def scaled(x):
        scale = variable.get(1)
        variable.set(scale + 1)
        return x * scale

    x = torch.ones(2)
    other = contextvars.copy_context()
    assert [int(scaled(x)[0]), int(scaled(x)[0]), int(other.run(scaled, x)[0]), variable.get()] == [1, 2, 1, 3]


def test_a_variable_that_the_program_makes():
    body = (
        "made = contextvars.ContextVar('made', default=2)\n"
        "bare = contextvars.ContextVar('bare')\n"
        "first = made.get()\n"
        "token = made.set(x + 1)\n"
        "y = made.get() * first\n"
        "made.reset(token)\n"
        "try:\n"
        "    bare.get()\n"
        "except LookupError as error:\n"
        "    y = y + (error.args[0] is bare)\n"
        "return y * made.get() + bare.get(3), token.var is made"
    )
    same(program(body), T(3), compare_dynamo=False)


def test_a_variable_that_the_program_makes_leaves_the_call():
    def run(x):
        made = contextvars.ContextVar("made", default=x)
        other = contextvars.ContextVar("other")
        other.set(x * 2)
        return made, other, made.set(5)

    def seen(function):
        made, other, token = contextvars.Context().run(lambda: function(torch.ones(2)))
        inside = contextvars.copy_context()
        inside.run(made.set, 1)
        return made.name, other.name, made.get().tolist(), token.var is made, other in inside

    def in_its_context(function):
        made, other, token = function(torch.ones(2))
        found = made.get(), other.get().tolist()
        made.reset(token)
        return found, made.get().tolist()

    compiled = stator.compile(run, fullgraph=True, backend="eager")
    for _ in range(2):
        assert seen(compiled) == seen(run)
        assert in_its_context(compiled) == in_its_context(run)


def test_a_break_while_a_variable_that_the_program_makes_is_set():
    body = (
        "made = contextvars.ContextVar('made', default=2)\n"
        "token = made.set(x + 1)\n"
        "print(made.get().sum().item())\n"
        "y = made.get() * 2\n"
        "made.reset(token)\n"
        "return y, made.get()"
    )
    same(program(body), T(3), compare_dynamo=False, fullgraph=False, stateful=True)
