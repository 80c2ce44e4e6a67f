"""The caches of `functools.lru_cache`: looked up without a call, and filled with results computed elsewhere."""

import functools
import sys
import threading

import pytest

from tests.support.frames_extension import extension

NULL = extension._frames_NULL
look_up = extension._frames_cached_call
note = extension._frames_note_cached_call

CALLS = [((), None), ((1,), None), (("a",), None), ((1.0,), None), ((True,), None), ((1, "a"), None),
         ((1,), {"b": 2}), ((), {"a": 1, "b": 2.0}), (((1, 2), None), {"c": "d"})]  # fmt: skip


def cache(maxsize: int | None, typed: bool = False):
    @functools.lru_cache(maxsize=maxsize, typed=typed)
    def function(*arguments, **keywords):
        return [arguments, keywords]

    return function


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("maxsize", [None, 100])
@pytest.mark.parametrize("arguments, keywords", CALLS)
def test_a_result_is_found_without_a_call(maxsize, typed, arguments, keywords):
    cached = cache(maxsize, typed)
    assert look_up(cached, arguments, keywords, typed) is NULL
    held = cached(*arguments, **(keywords or {}))
    before = cached.cache_info()
    assert look_up(cached, arguments, keywords, typed) is held
    assert cached.cache_info() == before


@pytest.mark.parametrize("typed", [False, True])
@pytest.mark.parametrize("maxsize", [None, 100])
@pytest.mark.parametrize("arguments, keywords", CALLS)
def test_a_result_is_added(maxsize, typed, arguments, keywords):
    cached, result = cache(maxsize, typed), object()
    note(cached, arguments, keywords, result)
    assert cached.cache_info()[:2] == (0, 1)
    assert look_up(cached, arguments, keywords, typed) is result
    assert cached(*arguments, **(keywords or {})) is result
    note(cached, arguments, keywords, object())
    assert cached.cache_info()[:2] == (2, 1)
    assert cached(*arguments, **(keywords or {})) is result
    assert cached(*arguments, "other") == [(*arguments, "other"), {}]


def test_the_oldest_result_makes_room():
    noted, called = cache(2), cache(2)
    for number in (1, 2, 1, 3, 2, 4):
        note(noted, (number,), None, [(number,), {}])
        called(number)
        assert noted.cache_info() == called.cache_info()
        assert all(
            (look_up(noted, (n,), None, False) is NULL) == (look_up(called, (n,), None, False) is NULL)
            for n in range(5)
        )


def test_a_cache_without_room():
    cached = cache(0)
    note(cached, (1,), None, object())
    assert cached.cache_info()[:2] == (0, 1) and look_up(cached, (1,), None, False) is NULL
    assert cached(1) == [(1,), {}]


def test_a_key_that_raises():
    cached = cache(None)
    with pytest.raises(TypeError, match="unhashable"):
        note(cached, ([],), None, 1)
    assert cached(1) == [(1,), {}]


def test_no_reference_is_left():
    cached, result = cache(2), object()
    before = sys.getrefcount(result), sys.getrefcount(cached.__wrapped__)
    for number in range(50):
        note(cached, (number,), None, result)
    cached.cache_clear()
    assert (sys.getrefcount(result), sys.getrefcount(cached.__wrapped__)) == before


class Slow:
    """A key whose hash lets other threads run."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        for _ in range(20):
            pass
        return self.number

    def __eq__(self, other):
        return self.number == other.number


def test_threads():
    """While one thread notes a call, another one that calls the function gets its own result."""
    cached, wrong = cache(None), []

    def work(first):
        for number in range(first, 4000, 2):
            key = Slow(number)
            if first == 0:
                note(cached, (key,), None, number)
            elif cached(key)[0][0].number != number:
                wrong.append(number)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(first,)) for first in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong
    assert all(cached(Slow(number)) == number for number in range(0, 4000, 2))
