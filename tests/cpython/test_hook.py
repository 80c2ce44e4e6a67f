"""Which frame the handler receives: nested calls, failing calls, threads, tracing, other tools."""

import gc
import sys
import threading
import time

import pytest

from tests.support.frames_extension import extension

take = extension._frames_pass
leave = extension._frames_return


def taken() -> bool:
    return extension._frames_was_taken()


@pytest.fixture(autouse=True)
def hook_is_off_before_and_after():
    assert extension._frames_hook_in_place() == "none"
    yield
    assert extension._frames_hook_in_place() == "none"


def f(x):
    return x * 2


class Wrapped:
    """A callable whose own Python frames come before the one that is waited for."""

    def __init__(self, function, before=lambda: None) -> None:
        self.function, self.before = function, before

    def __call__(self, *arguments):
        self.before()
        return self.function(*arguments)


def test_the_frame_of_the_function() -> None:
    assert take(f, (4,)) == 8
    assert taken()


def test_the_hook_is_off_while_the_frame_runs() -> None:
    def look():
        return extension._frames_hook_in_place()

    assert take(look, ()) == "none"
    assert taken()


def test_a_frame_behind_other_frames() -> None:
    assert take(Wrapped(f), (4,), f.__code__) == 8
    assert taken()


def test_only_the_first_frame() -> None:
    def twice(x):
        return [f(x), f(x)]

    calls = []

    def counting(x):
        calls.append(x)
        return x

    assert take(twice, (4,)) == [8, 8]
    assert take(lambda: (counting(1), counting(2)), (), counting.__code__) == (1, 2)
    assert taken()
    assert calls == [1, 2]


def test_arguments_that_do_not_bind() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        take(f, ())
    assert not taken()
    assert extension._frames_hook_in_place() == "none"
    assert f(1) == 2


def test_code_that_is_never_reached() -> None:
    assert take(lambda: 5, (), f.__code__) == 5
    assert not taken()


def test_nested_calls() -> None:
    def inner(x):
        return x + 1

    def outer(x):
        return take(inner, (x,)) * 10

    assert take(outer, (1,)) == 20
    # the inner call comes while the outer one still waits
    log = []
    wrapped = Wrapped(f, before=lambda: log.append(leave(inner, (1,), "left")))
    assert take(wrapped, (4,), f.__code__) == 8
    assert taken()
    assert log == ["left"]


def test_a_waiting_call_does_not_take_frames_of_an_inner_one() -> None:
    log = []

    def inner(x):
        log.append(f(x))  # the code that the outer call waits for
        return x

    wrapped = Wrapped(f, before=lambda: take(inner, (1,)))
    assert leave(wrapped, (4,), "left", None, f.__code__) == "left"
    assert log == [2], "the inner frame of f ran"


def test_generators_are_taken_when_they_are_made_not_when_they_run() -> None:
    def numbers():
        yield 1
        yield 2

    generator = take(numbers, ())
    assert taken()
    assert list(generator) == [1, 2]
    assert take(lambda: next(generator, "end"), (), numbers.__code__) == "end"
    assert not taken()


def test_exceptions_pass() -> None:
    def fails():
        raise KeyError("k")

    with pytest.raises(KeyError, match="k"):
        take(fails, ())
    assert taken()


def test_threads() -> None:
    errors: list = []
    interval = sys.getswitchinterval()

    def work(number: int) -> None:
        def mine(x):
            return (number, x)

        def pause() -> None:
            for _ in range(number):
                pass

        until = time.monotonic() + 0.5
        try:
            while time.monotonic() < until:
                assert take(Wrapped(mine, pause), (1,), mine.__code__) == (number, 1)
                assert leave(mine, (1,), number) == number
                assert take(Wrapped(f, pause), (number,), f.__code__) == number * 2
                assert mine(2) == (number, 2)
        except BaseException as error:
            errors.append(error)

    try:
        sys.setswitchinterval(1e-6)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []


def test_frames_are_left_to_a_tracer() -> None:
    lines = []

    def traced(x):
        y = x + 1
        return y

    def trace(frame, event, argument):
        if frame.f_code is traced.__code__:
            lines.append((event, frame.f_lineno - traced.__code__.co_firstlineno))
        return trace

    sys.settrace(trace)
    try:
        assert extension._frames_is_being_traced()
        result = leave(traced, (1,), "left")
    finally:
        sys.settrace(None)
    assert result == 2
    assert not taken()
    assert lines == [("call", 0), ("line", 1), ("line", 2), ("return", 2)]
    assert not extension._frames_is_being_traced()
    take(traced, (1,))
    assert leave(traced, (1,), "left") == "left"


def test_a_tracer_in_another_thread_is_its_own_matter() -> None:
    ready, done = threading.Event(), threading.Event()

    def traced_thread() -> None:
        sys.settrace(lambda *_: None)
        ready.set()
        done.wait(600)
        sys.settrace(None)

    thread = threading.Thread(target=traced_thread)
    thread.start()
    ready.wait(600)
    try:

        def untraced(x):
            return x

        untraced(0)
        take(untraced, (0,))
        assert leave(untraced, (1,), "left") == "left"
    finally:
        done.set()
        thread.join()


class TestAnotherTool:
    @pytest.fixture(autouse=True)
    def tool(self, hook_is_off_before_and_after):
        extension._frames_other_tool_on()
        yield
        extension._frames_other_tool_off()

    def frames(self, action) -> int:
        gc.disable()  # finalizers that a collection calls may run frames
        try:
            before = extension._frames_other_tool_count()
            action()
            return extension._frames_other_tool_count() - before
        finally:
            gc.enable()

    def test_gets_untouched_frames(self) -> None:
        assert self.frames(lambda: take(f, (4,))) == 2  # the lambda and f
        assert taken()
        assert extension._frames_hook_in_place() == "other"

    def test_gets_the_frames_in_between(self) -> None:
        wrapped = Wrapped(f)
        assert self.frames(lambda: take(wrapped, (4,), f.__code__)) == 4  # two lambdas, __call__ and f
        assert taken()

    def test_does_not_get_frames_that_were_entered_elsewhere(self) -> None:
        assert self.frames(lambda: leave(f, (4,), "left")) == 1
        assert taken()

    def test_stays_when_a_call_fails(self) -> None:
        with pytest.raises(TypeError):
            take(f, ())
        assert extension._frames_hook_in_place() == "other"


def test_a_tool_that_comes_while_a_call_waits() -> None:
    wrapped = Wrapped(f, before=extension._frames_other_tool_on)
    assert take(wrapped, (4,), f.__code__) == 8
    assert taken()
    assert extension._frames_hook_in_place() == "other"
    # it chains to our hook, which is to be put on top of it now
    assert take(f, (4,)) == 8
    assert take(Wrapped(f), (4,), f.__code__) == 8
    assert taken()
    assert extension._frames_hook_in_place() == "other"
    extension._frames_other_tool_off()
    # it put back what it found, which only passes frames on; the next call clears up
    assert extension._frames_hook_in_place() == "ours"
    before = extension._frames_other_tool_count()
    assert f(3) == 6
    assert take(f, (4,)) == 8
    assert taken()
    assert extension._frames_other_tool_count() == before
