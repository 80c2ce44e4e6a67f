"""Functions made in the captured region whose `__code__` is replaced, as by decorators that rename their wrappers."""

import functools

import torch

from tests.support.corpus import Corpus
from tests.support.harness import Source, T, same, unrelated

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


def renamed(function, name):
    code = function.__code__
    function.__code__ = code.replace(co_name=name, co_qualname=f"made.{name}")
    return function


@core(compare_dynamo=False)  # which breaks the graph at `replace`
def wrapper_with_another_name(x):
    def scaled(t):
        """Scales."""
        return t * 2

    @functools.wraps(scaled)
    def wrapper(t):
        return scaled(t) + 1

    renamed(wrapper, "scale")
    return wrapper(x), wrapper.__name__, wrapper.__doc__, wrapper.__code__.co_name, wrapper.__code__.co_qualname


@core(compare_dynamo=False)
def names_stay_those_of_the_first_code(x):
    def inner(t=x, *, by=2):
        """Of the first code."""
        return t * by

    def other(t, *, by=0):
        """Of the other code."""
        return t + by

    inner.__code__ = other.__code__
    return inner(), inner.__name__, inner.__qualname__, inner.__doc__


@core(compare_dynamo=False)
def function_with_replaced_code_is_returned(x):
    k = 3

    def inner(t):
        """Of the first code."""
        return t * k

    renamed(inner, "times")
    return x + 1, inner


@later_effects
def exception_in_renamed_code(x):
    def inner():
        raise ValueError("inside")

    names = []
    try:
        renamed(inner, "raises")()
    except ValueError as error:
        place = error.__traceback__
        while place is not None:
            names.append(place.tb_frame.f_code.co_name)
            place = place.tb_next
    return x + 1, names


@core(compare_dynamo=False)
def copies_of_code_are_equal_and_not_the_same(x):
    code = (lambda t: t).__code__
    first, second = code.replace(co_name="one"), code.replace(co_name="one")
    return x + 1, first == second, first is second, first == code, hash(first) == hash(second)


@core(compare_dynamo=False)
def what_is_no_code(x):
    def inner():
        return 1

    texts = []
    for given in (3, None):
        try:
            inner.__code__ = given
        except TypeError as error:
            texts.append(str(error))
    try:
        inner.__code__.replace(co_nothing=3)
    except TypeError as error:
        texts.append(type(error).__name__)
    return x + 1, texts


@later_effects
def code_with_another_closure(x):
    k = 2

    def inner():
        return 1

    def reader():
        return k

    try:
        inner.__code__ = reader.__code__
    except ValueError as error:
        return x + 1, str(error)


@later_effects
def code_of_a_running_function(x):
    def other(t):
        return t - 1

    def inner(t):
        inner.__code__ = other.__code__
        return t + 1

    return inner(x), inner(x)


@later_effects
def code_of_a_function_that_was_called(x):
    def counting(t):
        yield t + 1
        yield t + 2

    def other(t):
        return t - 1

    steps = counting(x)
    first = next(steps)
    counting.__code__ = other.__code__
    return first, next(steps), counting(x)


@later_effects
def graph_break_in_renamed_code(x):
    def inner(t):
        t = t + 1
        print(end="")
        return t * 2

    return renamed(inner, "breaks")(x) + 1


@later_effects
def error_in_renamed_code(x):
    def inner(t):
        t = t + 1
        raise ValueError(t.sum().item())

    return renamed(inner, "fails")(x)


test_programs = corpus.test()


def test_code_of_an_outside_function_is_guarded():
    text = (
        "def one(t): return t * 2\ndef two(t): return t + 5\n"
        "def f(x):\n    def inner(t): return t\n    inner.__code__ = one.__code__\n    return inner(x)"
    )
    same(
        Source(text), T(3), compare_dynamo=False,
        mutate=["one.__code__ = two.__code__", unrelated("two.__code__ = (lambda t: t).__code__")],
    )  # fmt: skip


def test_decorator_that_keeps_no_gradients():
    def program(w):
        @torch.no_grad()
        def inner(t):
            return t * 4

        return inner(w), w * 2, inner.__name__, inner.__code__.co_name

    same(program, T(3, grad=True), compare_dynamo=not hasattr(torch.utils._contextlib, "_set_stack_frame_name"))
