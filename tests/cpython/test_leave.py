"""A frame returns a value at once."""

import gc
import sys

import pytest

from tests.support.frames_extension import decode, extension

leave = extension._frames_return


def with_return_value(a, b):
    total = a
    for _ in range(100):
        total = total + b
    return total


def with_constants(a, b):
    if a:
        return 1
    return None


def that_only_raises(a, b):
    raise RuntimeError(a)


def with_cells(a, b):
    return lambda: (a, b)


def make_with_free_variables():
    c = object()

    def with_free_variables(a, b):
        return (a, b, c)

    return with_free_variables


def with_finally(a, b):
    try:
        with_constants(a, b)
    finally:
        a.append("finally")


FUNCTIONS = [with_return_value, with_constants, that_only_raises, with_cells, make_with_free_variables(), with_finally]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_value_from_any_function(function) -> None:
    for value in ("result", None, 1, [2]):
        assert leave(function, (0, 0), value) is value
        assert extension._frames_was_taken()


def test_some_functions_have_no_return_value() -> None:
    assert not any(row.op == "ReturnValue" for row in decode(that_only_raises.__code__))
    if sys.version_info >= (3, 12):
        assert not any(row.op == "ReturnValue" for row in decode(with_constants.__code__))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_frame_object_outlives_its_frame(function) -> None:
    kept = []
    value = object()
    assert leave(function, (7, 8), value, lambda: kept.append(sys._getframe(1))) is value
    gc.collect()
    frame = kept[0]
    assert frame.f_code is function.__code__
    code = function.__code__
    assert code.co_firstlineno <= frame.f_lineno <= code.co_firstlineno + 5
    assert 0 <= frame.f_lasti < len(code.co_code)
    assert (frame.f_locals["a"], frame.f_locals["b"]) == (7, 8)
    assert frame.f_back is not None


@pytest.mark.parametrize("function", FUNCTIONS)
def test_references_are_flat(function) -> None:
    value, argument = object(), object()

    def many(count: int) -> None:
        for _ in range(count):
            leave(function, (argument, argument), value)

    many(100)
    gc.collect()
    blocks, counts = sys.getallocatedblocks(), (sys.getrefcount(value), sys.getrefcount(argument))
    many(20_000)
    gc.collect()
    assert (sys.getrefcount(value), sys.getrefcount(argument)) == counts
    assert sys.getallocatedblocks() - blocks < 50
