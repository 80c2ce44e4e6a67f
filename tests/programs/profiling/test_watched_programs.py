"""Programs that run compiled under a profiler, coverage or a debugger."""

import cProfile
import ctypes
import io
import pdb
import pstats
import sys

import pytest
import torch

import stator

HERE = __file__


def callee(x):
    return x * 2


def whole(x):
    return callee(x) + 1


def opaque():
    print(end="")


def broken(x):
    y = callee(x)
    opaque()

    def inner(z):
        z = z + 1
        opaque()
        return z

    return inner(y) + 1


def raising(x):
    y = callee(x)
    if y.shape[0] > 2:
        raise ValueError("no")
    return y


def handling(x):
    try:
        return raising(x)
    except ValueError:
        opaque()
        return x + 7


def looping(x):
    for step in range(3):
        x = sorted([x + step, x], key=lambda t: float(t.sum()))[-1]
    return x


PROGRAMS = [whole, broken, raising, handling, looping]


def compiled_with_graphs(function, **options):
    graphs = []

    def backend(module, examples):
        graphs.append(module)
        return module

    return stator.compile(function, backend=backend, **options), graphs


def result_of(function, x):
    try:
        return function(x)
    except ValueError as error:
        return str(error)


def same(left, right) -> bool:
    return left == right if isinstance(left, str) else torch.equal(left, right)


def balanced(events: list) -> bool:
    """Each return is that of the call before it that has not returned yet."""
    open_calls = []
    for name, event in events:
        if event == "call":
            open_calls.append(name)
        elif not open_calls or open_calls.pop() != name:
            return False
    return not open_calls


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_profile_function_sees_the_compiled_function(program):
    x = torch.ones(3)
    expected = result_of(program, x)
    compiled, graphs = compiled_with_graphs(program)
    for _ in range(3):
        events = []

        def profile(frame, event, argument, events=events):
            if frame.f_code.co_filename == HERE and event in ("call", "return"):
                events.append((frame.f_code.co_name, event))

        sys.setprofile(profile)
        try:
            result = result_of(compiled, x)
        finally:
            sys.setprofile(None)
        names = ("result_of", "backend")
        events = [event for event in events if event[0] not in names and event != ("profile", "return")]
        assert same(result, expected)
        assert events[0] == (program.__name__, "call") and events[-1] == (program.__name__, "return")
        assert balanced(events), events
        assert ("callee", "call") not in events  # it is in the graph
    assert graphs


def test_cprofile():
    x = torch.ones(3)
    compiled, graphs = compiled_with_graphs(whole, fullgraph=True)
    if sys.version_info >= (3, 12):
        # cProfile then takes the call of a bound C function (`types.MethodType(len, x)()`) for the end of another call,
        # and there are such in what a capture does.
        compiled(x)
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(5):
        compiled(x)
    profiler.disable()
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).print_stats("whole|callee")
    (line,) = [line for line in text.getvalue().splitlines() if "(whole)" in line]
    assert line.split()[0] == "5" and "(callee)" not in text.getvalue()
    assert len(graphs) == 1


def test_the_profiler_of_torch_with_stacks():
    x = torch.ones(3)
    compiled, graphs = compiled_with_graphs(broken)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True):
        for _ in range(3):
            assert torch.equal(compiled(x), broken(x))
    assert len(graphs) == 3


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("wants_lines", [False, True])
def test_a_trace_function(program, wants_lines):
    x = torch.ones(3)

    def traced(function):
        events = []

        def trace(frame, event, argument):
            if frame.f_code.co_filename != HERE or frame.f_code.co_name in ("backend", "result_of"):
                return None
            events.append((frame.f_code.co_name, event, frame.f_lineno))
            return trace if wants_lines else None

        sys.settrace(trace)
        try:
            return result_of(function, x), events
        finally:
            sys.settrace(None)

    expected, plain = traced(program)
    compiled, graphs = compiled_with_graphs(program)
    for _ in range(2):
        result, events = traced(compiled)
        assert same(result, expected)
        if wants_lines:
            assert events == plain  # a debugger sees the program itself
        else:
            assert events[0] == plain[0]
    assert bool(graphs) != wants_lines
    assert same(result_of(compiled, x), expected) and graphs


TraceFunction = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)


@pytest.mark.parametrize("program", PROGRAMS)
def test_coverage(program):
    """Its trace function is written in C, and requests the lines of every frame."""
    x = torch.ones(3)
    expected = result_of(program, x)
    events = []

    @TraceFunction
    def trace(holder, frame, what, argument):
        if frame.f_code.co_filename == HERE and frame.f_code.co_name not in ("backend", "result_of", "test_coverage"):
            frame.f_trace = holder
            if what in (0, 3):
                events.append((frame.f_code.co_name, "call" if what == 0 else "return"))
        return 0

    compiled, graphs = compiled_with_graphs(program)
    set_trace = ctypes.pythonapi.PyEval_SetTrace
    for _ in range(2):
        events.clear()
        set_trace(trace, ctypes.py_object(events))
        try:
            result = result_of(compiled, x)
        finally:
            set_trace(None, None)
        assert same(result, expected)
        assert events[0] == (program.__name__, "call") and balanced(events), events
    assert graphs


def debugged(commands: list[str], function, *arguments) -> tuple[object, str]:
    """What pdb prints when it gets these commands at the call of the function."""
    output = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("\n".join(commands) + "\n"), stdout=output, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    before = sys.gettrace()
    try:
        return debugger.runcall(function, *arguments), output.getvalue()
    finally:
        sys.settrace(before)


def calls(compiled, x):
    y = compiled(x)
    return y + 1


def test_pdb_steps_into_the_uncompiled_function():
    x = torch.ones(3)
    compiled, graphs = compiled_with_graphs(whole)
    result, seen = debugged(["step", "step", "step", "p x.shape", "continue"], calls, compiled, x)
    assert torch.equal(result, calls(whole, x))
    assert "--Call--" in seen and "def whole(x)" in seen and "-> return callee(x) + 1" in seen
    assert "torch.Size([3])" in seen
    assert not graphs


def test_pdb_steps_over_the_compiled_function():
    x = torch.ones(3)
    compiled, graphs = compiled_with_graphs(whole, fullgraph=True)
    result, seen = debugged(["next", "next", "p y.tolist()", "continue"], calls, compiled, x)
    assert torch.equal(result, calls(whole, x))
    assert "[3.0, 3.0, 3.0]" in seen
    assert len(graphs) == 1


def test_a_debugger_that_comes_during_the_call():
    lines = []

    def trace(frame, event, argument):
        if frame.f_code.co_name == "comes":
            lines.append(event)
        return trace

    def start():
        sys._getframe(1).f_trace = trace
        sys.settrace(trace)

    def comes(x):
        y = x + 1
        start()
        y = y * 2
        sys.settrace(None)
        return y - 1

    x = torch.ones(3)
    expected, plain = comes(x), list(lines)
    compiled, graphs = compiled_with_graphs(comes)
    for _ in range(3):
        lines.clear()
        assert torch.equal(compiled(x), expected)
        assert lines == plain
    assert len(graphs) == 1  # what comes before the debugger


def test_a_profiler_that_comes_and_goes_during_the_call():
    def comes(x):
        y = x + 1
        sys.setprofile(lambda *_: None)
        y = callee(y)
        sys.setprofile(None)
        return y - 1

    x = torch.ones(3)
    compiled, graphs = compiled_with_graphs(comes)
    for _ in range(3):
        assert torch.equal(compiled(x), comes(x))
        assert sys.getprofile() is None
    assert graphs
