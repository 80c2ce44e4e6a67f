"""Coroutines and asynchronous generators are recreated where they are suspended: the copy continues like the original."""

import sys
import types

import pytest

from tests.support.frames_extension import decode, extension


def copy_of(original, function, prefix):
    """Another one in the state of this one, which is suspended."""
    frame = getattr(original, f"{prefix}_frame")
    slots, stack = extension._frames_snapshot(frame, -1)
    [yielded] = [
        each.offset
        for each in decode(function.__code__)
        if each.op == "YieldValue" and frame.f_lasti in (each.offset, each.next_offset)
    ]
    return extension._frames_generator(function, yielded, slots, stack, None)


@types.coroutine
def pause(value):
    return (yield value)


async def waits(n):
    total = 0
    for k in range(n):
        total += await pause(k)
    try:
        total *= await waits_twice(total)
    except KeyError as error:
        total = str(error)
    return total


async def waits_twice(n):
    return await pause(n) + await pause(n + 1)


async def items(n):
    try:
        for k in range(n):
            got = await pause(("waits", k))
            got = (yield k, got) or got
            yield got
    finally:
        SEEN.append("closed")


SEEN: list = []


def send(awaitable, value):
    try:
        return awaitable.send(value)
    except StopIteration as stop:
        return "returned", stop.value
    except (StopAsyncIteration, KeyError, RuntimeError) as error:
        return type(error), str(error)


def drain(coroutine):
    return [send(coroutine, value) for value in range(1, 8)]


@pytest.mark.parametrize("taken", range(1, 6))
def test_a_coroutine_goes_on_at_every_await(taken: int) -> None:
    expected, original = waits(3), waits(3)
    for value in [None, 1, 2, 3, 4][:taken]:
        assert send(expected, value) == send(original, value)
    copy = copy_of(original, waits, "cr")
    assert type(copy) is types.CoroutineType and copy.__qualname__ == "waits"
    assert copy.cr_frame.f_lineno == expected.cr_frame.f_lineno
    assert (copy.cr_await is None) == (expected.cr_await is None)
    assert drain(copy) == drain(expected)


def test_a_coroutine_takes_exceptions() -> None:
    original = waits(0)
    original.send(None)
    copy = copy_of(original, waits, "cr")
    with pytest.raises(StopIteration) as stop:
        copy.throw(KeyError("thrown"))
    assert stop.value.value == "'thrown'"


def test_a_coroutine_that_ended_or_did_not_start() -> None:
    ended = extension._frames_generator(waits)
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        ended.send(None)
    fresh = extension._frames_generator(waits, -1, [2, None, None, None], [], None)
    fresh.close()


def run(generator, *sent):
    """What the steps of an asynchronous generator give."""
    seen = []
    for value in sent:
        step = generator.asend(value)
        while True:
            given = send(step, None if not seen or seen[-1] is not waiting else "answer")
            if not (isinstance(given, tuple) and given[0] == "waits"):
                break
            seen.append(waiting)
        seen.append(given)
    return seen


waiting = object()


def test_an_asynchronous_generator_goes_on_at_every_yield() -> None:
    for taken in range(1, 5):
        expected, original = items(3), items(3)
        assert run(expected, *[None] * taken) == run(original, *[None] * taken)
        copy = copy_of(original, items, "ag")
        assert type(copy) is types.AsyncGeneratorType and copy.ag_frame.f_lineno == expected.ag_frame.f_lineno
        assert run(copy, "x", "y", None, None, None) == run(expected, "x", "y", None, None, None)


def test_an_asynchronous_generator_is_registered_when_it_is_made() -> None:
    original = items(3)
    run(original, None)
    before, started, ended = sys.get_asyncgen_hooks(), [], []
    sys.set_asyncgen_hooks(firstiter=started.append, finalizer=lambda one: ended.append(one.__name__))
    try:
        copy = copy_of(original, items, "ag")
        assert started == [copy]
        started.clear()
        run(copy, None)
        assert started == []
        del copy
        assert ended == ["items"]
    finally:
        sys.set_asyncgen_hooks(*before)


def test_an_asynchronous_generator_that_ended() -> None:
    ended = extension._frames_generator(items)
    assert run(ended, None) == [(StopAsyncIteration, "")]
