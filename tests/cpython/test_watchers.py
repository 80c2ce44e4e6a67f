"""Frames observed by tools: which tool receives call and return events, and under which the frame runs uncompiled."""

import contextlib
import ctypes
import sys

import pytest

from tests.support.frames_extension import extension

untouched = extension._frames_pass
leave = extension._frames_return
PyTrace_CALL, PyTrace_RETURN = 0, 3


def taken() -> bool:
    return extension._frames_was_taken()


def simple(x):
    return x


def with_cells(a, b=2, *, c=3):
    def inner():
        return a + c

    return inner() + b


def closing_over(outside):
    def closed(x):
        kept = x

        def inner():
            return kept + outside

        return inner()

    return closed


def several_returns(x):
    if x > 100:
        return x
    x = x + 1
    return x


def constant(x):
    return None


def handles(x):
    try:
        raise KeyError(x)
    except KeyError:
        return x + 1


def raises(x):
    raise ValueError(x)


closed = closing_over(10)
one_line = lambda x: x  # noqa: E731
FUNCTIONS = [simple, with_cells, closed, several_returns, constant, handles, one_line]


@contextlib.contextmanager
def profiled(code, events: list):
    def profile(frame, event, argument):
        if frame.f_code is code and event in ("call", "return"):
            frame.f_locals  # looks at variables, cells among them
            events.append((event, argument))

    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("calls_before", [0, 1])
def test_a_profiler_gets_the_events_of_a_frame_that_is_left_at_once(function, calls_before) -> None:
    for _ in range(calls_before):
        function(1)
    for _ in range(3):
        events: list = []
        with profiled(function.__code__, events):
            assert leave(function, (1,), "left") == "left"
        assert taken()
        assert events == [("call", None), ("return", "left")]
    assert leave(function, (1,), "left") == "left" and taken()
    assert function(1) == untouched(function, (1,))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_profiler_gets_the_events_of_an_uncompiled_frame_once(function) -> None:
    expected = function(1)
    for _ in range(3):
        events: list = []
        with profiled(function.__code__, events):
            assert untouched(function, (1,)) == expected
        assert taken()
        assert events == [("call", None), ("return", expected)]


def test_an_exception_ends_a_frame_once() -> None:
    for _ in range(2):
        events: list = []
        with profiled(raises.__code__, events), pytest.raises(ValueError, match="1"):
            untouched(raises, (1,))
        assert events == [("call", None), ("return", None)]


def test_a_profiler_that_raises() -> None:
    for when in ("call", "return"):

        def profile(frame, event, argument, when=when):
            if frame.f_code is simple.__code__ and event == when:
                raise RuntimeError(when)

        sys.setprofile(profile)
        try:
            with pytest.raises(RuntimeError, match=when):
                leave(simple, (1,), "left")
        finally:
            sys.setprofile(None)
    assert leave(simple, (1,), "left") == "left"


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("wants_lines", [False, True])
def test_a_trace_function_gets_the_frames_whose_lines_it_wants(function, wants_lines) -> None:
    def events_of(call) -> tuple:
        events = []

        def trace(frame, event, argument):
            if frame.f_code is not function.__code__:
                return None
            events.append((event, frame.f_lineno, sorted(frame.f_locals)))
            return trace if wants_lines else None

        sys.settrace(trace)
        try:
            return call(), events
        finally:
            sys.settrace(None)

    expected, plain = events_of(lambda: function(1))
    for _ in range(3):
        result, events = events_of(lambda: leave(function, (1,), "left"))
        assert events == plain
        assert (result, taken()) == ((expected, False) if wants_lines else ("left", True))
        assert events_of(lambda: untouched(function, (1,))) == (expected, plain)


def test_a_trace_function_may_change_arguments() -> None:
    def trace(frame, event, argument):
        if frame.f_code is several_returns.__code__ and event == "call":
            frame.f_locals["x"] = 50
            ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), 0)

    sys.settrace(trace)
    try:
        assert untouched(several_returns, (1,)) == 51
    finally:
        sys.settrace(None)


TraceFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_trace_function_written_in_c_gets_calls_but_no_lines(function) -> None:
    """Like that of coverage. It requests the lines of every frame, so frames are not left to it."""
    events = []

    @TraceFunction
    def trace(holder, frame, what, argument):
        if frame.f_code is function.__code__:
            frame.f_trace = holder
            events.append(what)
        return 0

    set_trace = ctypes.pythonapi.PyEval_SetTrace
    for _ in range(3):
        events.clear()
        set_trace(trace, ctypes.py_object(events))
        try:
            assert leave(function, (1,), "left") == "left"
        finally:
            set_trace(None, None)
        assert events == [PyTrace_CALL, PyTrace_RETURN]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("wants_lines", [False, True])
def test_a_tool_of_sys_monitoring(function, is_local: bool, wants_lines: bool) -> None:
    monitoring, tool = sys.monitoring, sys.monitoring.PROFILER_ID
    events = monitoring.events
    met: list = []
    code = function.__code__
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, events.PY_START, lambda code, _: met.append((code, "start")))
        monitoring.register_callback(tool, events.PY_RETURN, lambda code, *_: met.append((code, "return")))
        monitoring.register_callback(tool, events.LINE, lambda *_: None)
        wanted = events.PY_START | events.PY_RETURN | (events.LINE if wants_lines else 0)
        if is_local:
            monitoring.set_local_events(tool, code, wanted)
        else:
            monitoring.set_events(tool, wanted)
        for _ in range(3):
            met.clear()
            result = leave(function, (1,), "left")
            assert taken() != wants_lines
            assert (result == "left") != wants_lines
            if function is not constant or not is_local:  # no instruction of its own reports its end
                assert [what for where, what in met if where is code] == ["start", "return"]
        monitoring.set_local_events(tool, code, 0)
        monitoring.set_events(tool, 0)
    finally:
        for event in (events.PY_START, events.PY_RETURN, events.LINE):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    assert leave(function, (1,), "left") == "left"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_tool_that_was_given_up(function) -> None:
    """Its events stay, but no callback is called for them."""
    monitoring, tool = sys.monitoring, sys.monitoring.PROFILER_ID
    monitoring.use_tool_id(tool, "test")
    monitoring.set_events(tool, monitoring.events.LINE | monitoring.events.PY_START)
    monitoring.free_tool_id(tool)
    try:
        assert [leave(function, (1,), "left") for _ in range(3)] == ["left"] * 3
    finally:
        monitoring.use_tool_id(tool, "test")
        monitoring.set_events(tool, 0)
        monitoring.free_tool_id(tool)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
def test_a_debugger_may_ask_for_lines_at_the_call_event() -> None:
    monitoring, tool = sys.monitoring, sys.monitoring.DEBUGGER_ID
    events = monitoring.events
    lines: list = []
    code = several_returns.__code__

    def start(called, offset) -> None:
        if called is code:
            monitoring.set_local_events(tool, code, events.LINE)

    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, events.PY_START, start)
        monitoring.register_callback(tool, events.LINE, lambda _, line: lines.append(line - code.co_firstlineno))
        monitoring.set_events(tool, events.PY_START)
        for _ in range(3):
            lines.clear()
            assert leave(several_returns, (1,), "left") == 2
            assert lines == [1, 3, 4]
        monitoring.set_local_events(tool, code, 0)
        monitoring.set_events(tool, 0)
    finally:
        for event in (events.PY_START, events.LINE):
            monitoring.register_callback(tool, event, None)
        monitoring.free_tool_id(tool)
    assert leave(several_returns, (1,), "left") == "left"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
def test_coverage_by_sys_monitoring_does_without_the_lines_of_compiled_code() -> None:
    monitoring, tool = sys.monitoring, sys.monitoring.COVERAGE_ID
    monitoring.use_tool_id(tool, "test")
    try:
        monitoring.register_callback(tool, monitoring.events.LINE, lambda *_: None)
        monitoring.set_events(tool, monitoring.events.LINE)
        assert leave(simple, (1,), "left") == "left"
        monitoring.set_events(tool, 0)
    finally:
        monitoring.register_callback(tool, monitoring.events.LINE, None)
        monitoring.free_tool_id(tool)
