"""Generators are stopped at every yield and recreated in that state: the copy has to continue like the original."""

import contextlib
import gc
import traceback
import weakref
from collections.abc import Callable, Generator
from types import FunctionType

import pytest

from tests.support.frames_extension import decode, extension

NULL = extension._frames_NULL


def copy_of(generator: Generator, function: FunctionType | Generator) -> Generator:
    """Another generator in the state of this one: a new one of the function, or one that is given. `caught` is the
    variable that holds what is being handled."""
    frame = generator.gi_frame
    if frame is None:
        return extension._frames_generator(function)
    slots, stack = extension._frames_snapshot(frame, -1)
    if not frame_has_started(generator):
        return extension._frames_generator(function, -1, slots, stack, None)
    [yielded] = [
        each.offset
        for each in decode(generator.gi_code)
        if each.op == "YieldValue" and frame.f_lasti in (each.offset, each.next_offset)
    ]
    return extension._frames_generator(function, yielded, slots, stack, frame.f_locals.get("caught"))


def frame_has_started(generator: Generator) -> bool:
    return any(
        each.op == "YieldValue" and generator.gi_frame.f_lasti in (each.offset, each.next_offset)
        for each in decode(generator.gi_code)
    )


def simple(n, *rest, key=None, **others):
    for i in range(n):
        sent = yield i, rest, key
        yield sent, sorted(others)
    return "done"


def nested_loops(n, *rest, key=None, **others):
    unbound = None
    del unbound
    for i, item in enumerate(range(n)):
        for j in [10, 20]:
            yield from (i, item, j)
    unbound = 3
    yield unbound


def inner(n):
    try:
        got = yield n
    except KeyError as caught:
        got = yield repr(caught)
    return [got, n]


def delegating(n, *rest, key=None, **others):
    first = yield from inner(n)
    second = yield from inner(first)
    yield first, second
    return second


def handling(n, *rest, key=None, **others):
    for i in range(n):
        try:
            raise ValueError(i)
        except ValueError as error:
            caught = error
            yield i
            try:
                raise
            except ValueError as again:
                yield again is caught, again.__context__ is None
        caught = None
        del caught


def in_with(n, *rest, key=None, **others):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, "left")
        for i in range(n):
            yield i, list(log)
    yield log


def with_cells(n, *rest, key=None, **others):
    total = 0

    def add(amount):
        nonlocal total
        total += amount * n
        return total

    for i in range(n):
        yield add(i)
    yield total


def free_variables():
    shared = [1]
    count = 0

    def generator(n, *rest, key=None, **others):
        nonlocal count
        for item in shared * n:
            count += item
            yield count

    return generator


FUNCTIONS = [simple, nested_loops, delegating, handling, in_with, with_cells]


def drain(generator: Generator) -> list:
    items = []
    try:
        while True:
            items.append(next(generator))
    except StopIteration as stop:
        return [*items, ("returned", stop.value)]


@pytest.mark.parametrize("function", [*FUNCTIONS, free_variables], ids=lambda each: each.__name__)
def test_goes_on_from_every_yield(function: Callable) -> None:
    make = function if function in FUNCTIONS else None
    steps = len(drain((make or function())(3, 4, 5, key="k", a=1)))
    for taken in range(steps):
        # A function of its own for each: free variables are shared by a copy and its original.
        one, other = make or function(), make or function()
        expected, original = one(3, 4, 5, key="k", a=1), other(3, 4, 5, key="k", a=1)
        for _ in range(taken):
            assert next(expected) == next(original)
        copy = copy_of(original, other)
        assert copy.gi_frame.f_lineno == expected.gi_frame.f_lineno
        assert copy.gi_frame.f_lasti == expected.gi_frame.f_lasti
        assert copy.gi_running is False
        assert (copy.gi_yieldfrom is None) == (expected.gi_yieldfrom is None)
        assert drain(copy) == drain(expected)
        assert copy.gi_frame is None


def test_one_that_ended() -> None:
    generator = extension._frames_generator(simple)
    assert generator.gi_frame is None
    assert list(generator) == []
    assert next(generator, "end") == "end"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_a_suspended_one_is_moved(function: FunctionType) -> None:
    steps = len(drain(function(3)))
    for taken in range(steps):
        for moved_from in range(steps):
            expected, original, moved = function(3), function(3), function(3)
            for _ in range(taken):
                assert next(expected) == next(original)
            for _ in range(moved_from):
                next(moved)
            if not frame_has_started(original) and frame_has_started(moved):
                continue
            assert copy_of(original, moved) is moved
            assert drain(moved) == drain(expected)


def test_a_suspended_one_is_ended() -> None:
    log: list[str] = []

    class Held:
        def __del__(self) -> None:
            log.append("freed")

    def generate():
        held = Held()
        try:
            for _ in [held]:
                yield 1
        finally:
            log.append("closed")

    generator = generate()
    next(generator)
    assert extension._frames_generator(generator) is generator
    assert log == ["freed"]
    assert generator.gi_frame is None
    assert list(generator) == []
    generator.close()
    assert log == ["freed"]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_the_state_tells_the_place(function: FunctionType) -> None:
    one, other = function(3), function(3)
    places = set()
    for _ in range(2 * len(drain(function(3)))):
        state, same = extension._frames_generator_state(one), extension._frames_generator_state(other)
        assert (state is None) == (same is None)
        if state is not None:
            assert state[0] == same[0]
            places.add(state[0])
        assert (one.gi_frame is None) == (state == (b"",))
        if one.gi_frame is not None and state is not None:
            assert state[1] is function
            slots, stack = extension._frames_snapshot(one.gi_frame, -1 if frame_has_started(one) else 0)
            held = [None if value is NULL else value for value in [*slots, *stack]]
            assert all(each is value for each, value in zip(state[2:], held, strict=True))
        assert next(one, None) == next(other, None)
    assert len(places) >= 2


def test_the_state_of_others_is_unknown() -> None:
    def handles():
        try:
            raise ValueError
        except ValueError:
            yield 1
        yield extension._frames_generator_state(generator)
        yield 3

    generator = handles()
    assert extension._frames_generator_state(generator) is not None
    next(generator)
    assert extension._frames_generator_state(generator) is None
    assert next(generator) is None
    assert extension._frames_generator_state(generator) is not None

    async def waits() -> None:
        pass

    coroutine = waits()
    assert extension._frames_generator_state(coroutine) is None
    assert extension._frames_generator_state([]) is None
    coroutine.close()


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_takes_exceptions_as_the_original(function: FunctionType) -> None:
    steps = len(drain(function(2)))
    for taken in range(steps):
        expected, original = function(2), function(2)
        for _ in range(taken):
            next(expected), next(original)
        copy = copy_of(original, function)
        texts = []
        for each in (expected, copy):
            try:
                texts.append([each.throw(KeyError("thrown"))])
            except BaseException as error:
                texts.append(traceback.format_exception(error))
        assert texts[0] == texts[1]


def test_is_closed_as_the_original() -> None:
    log = []

    def function():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    original = function()
    next(original)
    copy = copy_of(original, function)
    copy.close()
    assert log == ["closed"] and list(copy) == []
    second = copy_of(original, function)
    del second
    assert log == ["closed"] * 2


def test_values_are_sent() -> None:
    original = simple(2)
    next(original)
    assert copy_of(original, simple).send("sent") == ("sent", [])
    with pytest.raises(TypeError, match="just-started"):
        copy_of(simple(2), simple).send("sent")


def test_is_sent_to_by_loops_and_delegation() -> None:
    original = simple(2)
    next(original)
    assert list(copy_of(original, simple))[-1] == (None, [])

    def around(generator):
        return (yield from generator)

    original = simple(2)
    next(original)
    outer = around(copy_of(original, simple))
    next(outer)
    assert drain(outer)[-1] == ("returned", "done")


def test_owns_what_it_holds() -> None:
    class Thing:
        pass

    def function(thing):
        for each in [thing]:
            yield each, thing

    thing = Thing()
    original = function(thing)
    next(original)
    copy = copy_of(original, function)
    gone = weakref.ref(thing)
    del thing, original
    gc.collect()
    assert gone() is not None
    assert copy.gi_frame.f_locals["thing"] is gone()
    del copy
    gc.collect()
    assert gone() is None


def test_cycles_are_collected() -> None:
    def function(own):
        yield own

    holder: list = []
    original = function(holder)
    next(original)
    copy = copy_of(original, function)
    holder.append(copy)
    gone = weakref.ref(copy)
    del original, copy, holder
    gc.collect()
    assert gone() is None
