"""One instruction is executed from C with its frame linked; then the frame continues, or handles the exception."""

import gc
import sys

import pytest

from tests.support.frames_extension import decode, extension, find

NULL = extension._frames_NULL
step = extension._frames_step


def g(x):
    return x


def guarded(x):
    a = x + 1
    try:
        b = g(a)
    except KeyError as error:
        return ("caught", str(error), a)
    return b + a


def step_call(function, slots, action, nth: int = 0, op: str = "Call"):
    """Runs the function with its nth call replaced by `action`, entering right there."""
    call = find(function, op, nth)
    arguments = (None,) * function.__code__.co_argcount
    return step(function, arguments, call.offset, call.next_offset, slots, [], action)


def test_the_frame_is_seen_from_the_step() -> None:
    seen = []

    def look():
        frame = sys._getframe(1)
        gc.collect()
        seen.append(
            (frame.f_code, frame.f_lineno - frame.f_code.co_firstlineno, dict(frame.f_locals), frame.f_back.f_code)
        )
        return 100

    assert step_call(guarded, {"x": 1, "a": 42}, look) == 142
    assert seen == [(guarded.__code__, 3, {"x": 1, "a": 42}, step_call.__code__)]


def test_locals_of_cells_are_seen_from_the_step() -> None:
    outside = "out"

    def f(x):
        y = g(x)
        return (lambda: (x, outside)), y

    seen = {}

    def look():
        seen.update(sys._getframe(1).f_locals)
        return 5

    made, y = step_call(f, {"x": 3}, look)
    assert (made(), y, seen) == ((3, "out"), 5, {"x": 3, "outside": "out"})


def test_an_exception_of_the_step_goes_to_the_handler() -> None:
    def fail():
        raise KeyError("k")

    assert step_call(guarded, {"x": 1, "a": 42}, fail) == ("caught", "'k'", 42)
    assert sys.exc_info() == (None, None, None)


def entries(error: BaseException, function) -> list:
    """Lines and columns of the function's own frames in the traceback."""
    return [positions(trace) for frame, trace in walk(error) if frame.f_code is function.__code__]


def walk(error: BaseException):
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame, trace
        trace = trace.tb_next


def positions(trace) -> tuple:
    return list(trace.tb_frame.f_code.co_positions())[trace.tb_lasti // 2]


def raised(action) -> BaseException:
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_exception_without_handler_leaves_the_frame_with_its_line() -> None:
    def fail(*_):
        raise RuntimeError("r")

    real = g.__code__
    try:
        g.__code__ = (lambda x: 1 / 0).__code__
        expected = raised(lambda: guarded(41))
    finally:
        g.__code__ = real
    found = raised(lambda: step_call(guarded, {"x": 1, "a": 42}, fail))
    assert type(found) is RuntimeError
    assert entries(found, guarded) == entries(expected, guarded) != []
    assert found.__context__ is None


# Instructions without caches at the edges of handlers. Each function fails at its `del`, and the same must be seen when
# it is not CPython that fails there.
EDGES = """
def first_in_handler(x):
    x = 1
    try: del missing
    except NameError: return "caught"
    missing = 0

def behind_handler(x):
    try:
        x = 1
    except NameError:
        return "wrong"
    del missing
    missing = 0

def in_handler(x):
    try:
        x = 1
        del missing
    except NameError:
        return "caught"
    missing = 0

def in_finally(x):
    try:
        x = 1
    finally:
        del missing
    missing = 0

def in_with(x):
    with memoryview(b""):
        del missing
    missing = 0
"""
edges: dict = {}
exec(EDGES, edges)
del edges["__builtins__"]


@pytest.mark.parametrize("name", edges)
def test_raising_at_the_edge_of_a_handler(name: str) -> None:
    function = edges[name]
    delete = find(function, "DeleteFast")
    assert delete.next_offset - delete.offset == 2, "this is about instructions without caches"
    stack = [memoryview(b"").__exit__] if name == "in_with" else []

    def fail():
        raise UnboundLocalError("missing")

    def run_stepped():
        return step(function, (None,), delete.offset, delete.next_offset, {"x": 1}, stack, fail)

    if name in ("first_in_handler", "in_handler"):
        assert function(1) == run_stepped() == "caught"
        return
    expected, found = raised(lambda: function(1)), raised(run_stepped)
    assert entries(found, function) == entries(expected, function) != []
    assert len(entries(found, function)) == 1


def test_every_edge_is_met() -> None:
    """A handler that begins at the instruction, one that ended just before it, and one around."""

    def handlers(name: str) -> list[bool]:
        rows = decode(edges[name].__code__)
        position = next(i for i, row in enumerate(rows) if row.op == "DeleteFast")
        return [row.handler >= 0 for row in rows[position - 1 : position + 1]]

    assert handlers("first_in_handler") == [False, True]
    assert handlers("in_finally") == [True, False]
    assert handlers("in_handler") == [True, True]


def test_a_callee_resumed_inside_a_resumed_caller() -> None:
    def inner(p, q):
        r = p * q
        for k in range(2):
            r = g(r)
            r += k
        return r

    def outer(z):
        y = z + 1
        w = inner(y, 2)
        return (w, y)

    store = find(inner, "StoreFast", 2)
    iterator = iter(range(2))
    next(iterator)

    def resume_inner():
        slots = {"p": 3, "q": 2, "r": 6, "k": 0}
        return extension._frames_enter(inner, (None, None), store.start, slots, [iterator, 1000])

    assert step_call(outer, {"z": 2, "y": 3}, resume_inner) == (1001, 3)


def test_a_failing_callee_inside_a_resumed_caller_shows_both_frames() -> None:
    def inner(p):
        q = g(p)
        raise ValueError(q)

    def outer(z):
        y = z + 1
        w = inner(y)
        return w

    store = find(inner, "StoreFast")

    def resume_inner():
        return extension._frames_enter(inner, (None,), store.start, {"p": 1}, ["q"])

    found = raised(lambda: step_call(outer, {"z": 2, "y": 3}, resume_inner))
    names = [frame.f_code.co_name for frame, _ in walk(found)]
    assert names.index("outer") < names.index("resume_inner") < names.index("inner")
    lines = {frame.f_code.co_name: trace.tb_lineno - frame.f_code.co_firstlineno for frame, trace in walk(found)}
    assert (lines["outer"], lines["inner"]) == (2, 2)


def test_a_frame_object_outlives_its_frame() -> None:
    kept = []

    def keep():
        kept.append(sys._getframe(1))
        return 1

    assert step_call(guarded, {"x": 1, "a": 42}, keep) == 43
    gc.collect()
    frame = kept[0]
    assert frame.f_locals == {"x": 1, "a": 42, "b": 1}
    assert frame.f_lineno == guarded.__code__.co_firstlineno + 6


def test_a_generator_made_by_the_frame_after_the_step() -> None:
    def f(x):
        y = g(x)
        return (y + i for i in range(3))

    assert list(step_call(f, {"x": 1}, lambda: 10)) == [10, 11, 12]


def test_tracing_that_starts_in_the_step_sees_the_rest() -> None:
    def f(x):
        a = g(x)
        b = a + 1
        return b

    lines = []

    def trace(frame, event, argument):
        if frame.f_code is f.__code__ and event == "line":
            lines.append(frame.f_lineno - f.__code__.co_firstlineno)
        return trace

    def start():
        sys._getframe(1).f_trace = trace
        sys.settrace(trace)
        return 5

    try:
        assert step_call(f, {"x": 1}, start) == 6
    finally:
        sys.settrace(None)
    assert lines == [2, 3]


def test_references_are_flat() -> None:
    value = object()

    def fail():
        raise KeyError("k")

    def once() -> None:
        step_call(guarded, {"x": value, "a": value}, fail)
        step_call(guarded, {"x": value, "a": 1}, lambda: 1)

    for _ in range(100):
        once()
    gc.collect()
    blocks, count = sys.getallocatedblocks(), sys.getrefcount(value)
    for _ in range(10_000):
        once()
    gc.collect()
    assert sys.getrefcount(value) == count
    # Less than a block for ten calls: other threads of the process allocate some, too.
    assert sys.getallocatedblocks() - blocks < 1_000
