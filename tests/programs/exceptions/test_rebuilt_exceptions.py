"""Exceptions that were raised in the compiled code leave it with traceback, cause and context."""

import contextlib
import sys
import traceback

import pytest
import torch

from tests.support.rebuilt import both


def fails(x, depth):
    if depth == 0:
        raise ValueError("deep", depth)
    return fails(x, depth - 1)


class Mine(KeyError):
    def __init__(self, code, **named) -> None:
        super().__init__(code)
        self.code = code
        self.named = named


class Suspicious(OSError):
    pass


def simple(x):
    try:
        raise ValueError("text")
    except ValueError as error:
        return error


def nested(x):
    try:
        fails(x, 3)
    except ValueError as error:
        return error


def builtin(x):
    try:
        return [1][3]
    except IndexError as error:
        return error


def division(x):
    try:
        return 1 // 0
    except ZeroDivisionError as error:
        return error


def raised_again(x):
    try:
        try:
            fails(x, 1)
        except ValueError:
            raise
    except ValueError as error:
        return error


def raised_by_name(x):
    try:
        try:
            fails(x, 1)
        except ValueError as error:
            raise error
    except ValueError as error:
        return error


def through_finally(x):
    log = []
    try:
        try:
            fails(x, 1)
        finally:
            log.append(1)
    except ValueError as error:
        return error


def in_loop(x):
    found = None
    for k in range(3):
        try:
            if found is None:
                fails(x, k)
            raise found
        except ValueError as error:
            found = error
    return found


def with_cause(x):
    try:
        try:
            fails(x, 1)
        except ValueError as error:
            raise Mine(3, a=x.shape[0]) from error
    except Mine as error:
        return error


def without_cause(x):
    try:
        try:
            fails(x, 1)
        except ValueError:
            raise TypeError("other") from None
    except TypeError as error:
        return error


def with_context(x):
    try:
        try:
            fails(x, 1)
        except ValueError:
            {}["missing"]
    except KeyError as error:
        return error


def with_notes(x):
    try:
        fails(x, 0)
    except ValueError as error:
        error.add_note("a note")
        error.add_note("another")
        return error


def operating_system(x):
    try:
        raise FileNotFoundError(2, "not there", "the name")
    except OSError as error:
        return error


def derived(x):
    try:
        raise Suspicious(13, "denied", "file")
    except OSError as error:
        return error


def stopped(x):
    try:
        next(iter(()))
    except StopIteration as error:
        return error


def returned_value(x):
    def generator():
        yield 1
        return "value"

    values = generator()
    next(values)
    try:
        next(values)
    except StopIteration as error:
        return error


def out_of_generator(x):
    def generator():
        yield 1
        raise LookupError("inside")

    try:
        for _ in generator():
            pass
    except LookupError as error:
        return error


def thrown_in(x):
    def generator():
        yield 1

    values = generator()
    next(values)
    try:
        values.throw(LookupError("thrown"))
    except LookupError as error:
        return error


def delegated(x):
    def inner():
        yield 1
        raise LookupError("inside")

    def outer():
        yield from inner()

    try:
        return list(outer())
    except LookupError as error:
        return error


def from_callback(x):
    def key(item):
        if item == 2:
            raise LookupError("key")
        return item

    try:
        return sorted([1, 2, 3], key=key)
    except LookupError as error:
        return error


def from_with(x):
    @contextlib.contextmanager
    def manager():
        try:
            yield
        except ValueError as error:
            raise TypeError("changed") from error

    try:
        with manager():
            fails(x, 1)
    except TypeError as error:
        return error


def suppressed(x):
    with contextlib.suppress(ValueError):
        fails(x, 1)
    try:
        fails(x, 2)
    except ValueError as error:
        return error


def not_raised(x):
    return Mine(1, b=2)


def without_traceback(x):
    try:
        fails(x, 1)
    except ValueError as error:
        return error.with_traceback(None)


def part_of_traceback(x):
    try:
        fails(x, 2)
    except ValueError as error:
        error.__traceback__ = error.__traceback__.tb_next
        return error


def stopped_in_generator(x):
    def numbers():
        yield x + 1
        raise StopIteration(2)

    try:
        return list(numbers())
    except RuntimeError as error:
        return error


def stopped_in_coroutine(x):
    async def number():
        return next(iter(()))

    try:
        number().send(None)
    except RuntimeError as error:
        return error


PROGRAMS = [
    simple,
    nested,
    builtin,
    division,
    raised_again,
    raised_by_name,
    through_finally,
    in_loop,
    with_cause,
    without_cause,
    with_context,
    with_notes,
    operating_system,
    derived,
    stopped,
    returned_value,
    out_of_generator,
    thrown_in,
    delegated,
    from_callback,
    from_with,
    suppressed,
    not_raised,
    without_traceback,
    part_of_traceback,
    stopped_in_generator,
    stopped_in_coroutine,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_is_what_it_would_have_been(program) -> None:
    plain, rebuilt = both(program, torch.ones(2))
    while plain is not None:
        assert type(plain) is type(rebuilt)
        assert plain.args == rebuilt.args and str(plain) == str(rebuilt)
        assert plain.__dict__ == rebuilt.__dict__
        assert plain.__suppress_context__ == rebuilt.__suppress_context__
        assert traceback.format_exception(plain) == traceback.format_exception(rebuilt)
        for name in ("errno", "filename", "value"):
            assert getattr(plain, name, None) == getattr(rebuilt, name, None)
        assert (plain.__cause__ is None) == (rebuilt.__cause__ is None)
        plain, rebuilt = plain.__context__, rebuilt.__context__
    assert rebuilt is None


def test_information_on_the_exception_in_handling() -> None:
    def program(x):
        try:
            fails(x, 1)
        except ValueError:
            return sys.exc_info()

    (plain_type, plain, plain_trace), (rebuilt_type, rebuilt, rebuilt_trace) = both(program, torch.ones(2))
    assert plain_type is rebuilt_type
    assert rebuilt.__traceback__ is rebuilt_trace
    assert traceback.format_tb(plain_trace) == traceback.format_tb(rebuilt_trace)
    assert traceback.format_exception(plain) == traceback.format_exception(rebuilt)


def test_identity_is_kept() -> None:
    def program(x):
        try:
            fails(x, 1)
        except ValueError as error:
            first = error
        try:
            raise TypeError("other") from first
        except TypeError as error:
            return first, error, [error, first]

    for first, second, both_of_them in both(program, torch.ones(2)):
        assert second.__cause__ is first
        assert both_of_them[0] is second and both_of_them[1] is first
    codes = []
    for _, second, _ in both(program, torch.ones(2)):
        frame = second.__traceback__.tb_frame
        codes.append((frame.f_code.co_name, frame.f_lineno > 0, frame.f_globals is globals()))
    assert codes[0] == codes[1]


def test_frames_of_one_call_are_one() -> None:
    frames = []
    for error in both(raised_by_name, torch.ones(2)):
        trace = error.__traceback__
        frames.append((trace.tb_frame is trace.tb_next.tb_frame, trace.tb_lineno, trace.tb_next.tb_lineno))
    assert frames[0] == frames[1] and frames[0][0]


def test_variables_of_frames_with_free_variables_can_be_read() -> None:
    class Base:
        def go(self, x):
            raise ValueError("from below")

    class Derived(Base):
        def go(self, x):
            return super().go(x)  # the class is a free variable

    def program(x):
        try:
            return Derived().go(x)
        except ValueError as error:
            return error

    for error in both(program, torch.ones(2)):
        names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
        assert names == ["program", "go", "go"]
        # Those of inlined frames are unbound.
        assert all(isinstance(frame.f_locals, dict) for frame, _ in traceback.walk_tb(error.__traceback__))
