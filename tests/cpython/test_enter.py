"""Frames are entered at an instruction in their middle with given slots and stack, and CPython continues."""

import sys
import traceback

import pytest

from tests.support.frames_extension import decode, extension, find

NULL = extension._frames_NULL
enter = extension._frames_enter
# Where the NULL below the arguments of a call stands.
NULL_ABOVE_CALLABLE = sys.version_info >= (3, 13)


def below_arguments(callable_) -> list:
    return [callable_, NULL] if NULL_ABOVE_CALLABLE else [NULL, callable_]


class Manager:
    def __init__(self) -> None:
        self.log: list = []

    def __enter__(self) -> "Manager":
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace) -> bool:
        self.log.append(kind)
        return False


def add(x, y):
    return x + y


def loop_in_with(x, manager):
    y = 0
    with manager:
        for i in range(3):  # noqa: B007
            y = add(x, y)
            y = y * 2
            if y > 1000:
                raise ValueError("big")
    return y


def after_call_of_add():
    """The STORE_FAST y behind the call of `add`."""
    rows = decode(loop_in_with.__code__)
    position = next(i for i, row in enumerate(rows) if row.op == "LoadGlobal" and row.line == add_line())
    return next(row for row in rows[position:] if row.op == "StoreFast")


def add_line() -> int:
    return loop_in_with.__code__.co_firstlineno + 4


def started(iterable, count: int):
    iterator = iter(iterable)
    for _ in range(count):
        next(iterator)
    return iterator


def test_in_a_loop_inside_with() -> None:
    manager = Manager()
    stack = [manager.__exit__, started(range(3), 1), 77]
    slots = {"x": 5, "y": 0, "i": 0, "manager": manager}
    assert enter(loop_in_with, (None, None), after_call_of_add().start, slots, stack) == ((77 * 2 + 5) * 2 + 5) * 2
    assert extension._frames_was_taken()
    assert manager.log == [None]


def test_exception_after_entering_runs_the_handlers_of_the_frame() -> None:
    manager = Manager()
    stack = [manager.__exit__, started(range(3), 1), 777]
    with pytest.raises(ValueError, match="big") as caught:
        enter(loop_in_with, (None, None), after_call_of_add().start, {"x": 5, "y": 0, "i": 0}, stack)
    assert manager.log == [ValueError]
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.lineno) == ("loop_in_with", add_line() + 3)


def test_at_a_call_with_its_stack() -> None:
    def f(x):
        return add(x, 10)

    call = find(f, "Call")
    assert enter(f, (0,), call.start, {"x": 0}, [*below_arguments(add), 1, 2]) == 3


def test_at_a_method_call_with_its_stack() -> None:
    def f(x):
        return x.append(1)

    items: list = []
    call = find(f, "Call")
    assert enter(f, (None,), call.start, {"x": None}, [list.append, items, 5]) is None
    assert items == [5]


def test_at_a_call_with_keywords() -> None:
    def named(a, *, key):
        return (a, key)

    def f(x):
        return named(x, key=2)

    if sys.version_info >= (3, 13):
        call = find(f, "CallKw")
        assert enter(f, (0,), call.start, {"x": 0}, [*below_arguments(named), 7, 8, ("key",)]) == (7, 8)
    else:
        call = find(f, "Call")
        assert call.start < call.offset, "the call starts at its keyword names"
        assert enter(f, (0,), call.start, {"x": 0}, [*below_arguments(named), 7, 8]) == (7, 8)


def test_at_an_extended_argument() -> None:
    source = "def f():\n" + "".join(f"    x = {n}.5\n" for n in range(300)) + "    return x\n"
    space: dict = {}
    exec(source, space)
    f = space["f"]
    load = find(f, "LoadConst", 299)
    assert load.start < load.offset
    assert enter(f, (), load.start, {}, []) == 299.5


def test_cells_and_free_variables() -> None:
    shared = 1

    def f(captured, plain):
        nonlocal shared
        marker = plain

        def inner():
            return (captured, shared)

        captured += 1
        shared += 1
        return inner, marker

    build = next(row for row in decode(f.__code__) if row.op == "StoreFast")
    inner, marker = enter(f, (None, None), build.start, {"captured": 10, "plain": 0, "shared": 20}, ["marked"])
    assert (inner(), marker) == ((11, 21), "marked")
    assert shared == 21, "the free variable is the cell of the function around"


def test_prologue_is_run_once_and_the_closure_is_its_own() -> None:
    def f(captured):
        return (lambda: captured), captured

    resume = find(f, "Resume")
    made, value = enter(f, (1,), resume.start, {"captured": 2}, [])
    other, _ = enter(f, (1,), resume.start, {"captured": 3}, [])
    assert (made(), value, other()) == (2, 2, 3)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="comprehensions are functions of their own")
def test_in_an_inlined_comprehension_with_null_on_the_stack() -> None:
    def f(xs):
        return [x + 1 for x in xs]

    store = next(row for row in decode(f.__code__) if row.op == "StoreFast")
    # the saved (unbound) x, the list, the iterator, the next item
    stack = [NULL, [100], started([1, 2, 3], 2), 5]
    assert enter(f, ([],), store.start, {"xs": None}, stack) == [100, 6, 4]


def test_generators_as_callers() -> None:
    def f(x):
        y = add(x, 1)
        return y * 10

    store = find(f, "StoreFast")

    def callers():
        for n in range(4):
            yield enter(f, (None,), store.start, {"x": None}, [n])

    assert list(callers()) == [0, 10, 20, 30]

    def delegating():
        yield from callers()
        return "done"

    assert list(delegating()) == [0, 10, 20, 30]


def test_a_frame_made_for_the_purpose() -> None:
    outside = 100

    def f(a, b=1, /, c=2, *rest, d, e=3, **more):
        total = add(a, b)
        return (a, b, c, rest, d, e, more, total, outside)

    store = find(f, "StoreFast")
    slots = {"a": 10, "b": 20, "c": 30, "rest": (1,), "d": 40, "e": 50, "more": {"x": 1}}
    expected = (10, 20, 30, (1,), 40, 50, {"x": 1}, "total", 100)
    assert extension._frames_enter_primed(f, store.start, slots, ["total"], None) == expected
    assert extension._frames_was_taken()
    # it must not run from its start, so not even a tracer gets it
    sys.settrace(lambda *_: None)
    try:
        result = extension._frames_enter_primed(f, store.start, slots, ["total"], None)
    finally:
        sys.settrace(None)
    assert result == expected


def test_in_coroutines() -> None:
    def f(x):
        y = add(x, 1)
        return y * 10

    store = find(f, "StoreFast")

    async def caller():
        return enter(f, (None,), store.start, {}, [4])

    coroutine = caller()
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    assert stopped.value.value == 40


def test_recursion() -> None:
    def f(n):
        rest = add(n, 0)
        return n + (enter(f, (None,), store.start, {"n": n - 1}, [0]) if n else rest)

    store = find(f, "StoreFast")
    assert f(50) == sum(range(51))


def test_recursion_without_end() -> None:
    def f(n):
        rest = add(n, 0)
        return enter(f, (None,), store.start, {"n": n + 1}, [rest])

    store = find(f, "StoreFast")
    depth = sys.getrecursionlimit()
    with pytest.raises(RecursionError):
        f(0)
    assert sys.getrecursionlimit() == depth
    assert extension._frames_hook_in_place() == "none"
    assert add(1, 2) == 3


def test_exceptions_in_finally() -> None:
    log: list = []

    def f(x):
        try:
            y = add(x, 1)
            raise KeyError(y)
        finally:
            log.append(y)
            raise ValueError("from finally")

    store = find(f, "StoreFast")
    with pytest.raises(ValueError, match="from finally") as caught:
        enter(f, (None,), store.start, {}, [3])
    assert log == [3]
    assert isinstance(caught.value.__context__, KeyError)
    first = f.__code__.co_firstlineno
    lines = [each.lineno - first for each in traceback.extract_tb(caught.value.__traceback__) if each.name == "f"]
    context = [each.lineno - first for each in traceback.extract_tb(caught.value.__context__.__traceback__)]
    assert (lines, context) == ([6], [3])


def test_in_an_except_block_with_the_handled_exception() -> None:
    def f(x):
        try:
            raise KeyError(x)
        except KeyError as error:
            y = add(1, 2)
            return (y, error, sys.exc_info()[1])

    code = decode(f.__code__)
    store = [row for row in code if row.op == "StoreFast"][1]
    error = KeyError("set aside")
    # the stack of an except block: the exception that was handled before it
    result = enter(f, (None,), store.start, {"error": error, "x": 0}, [None, "sum"])
    assert result == ("sum", error, None)
    assert sys.exc_info()[1] is None


def test_references_are_flat() -> None:
    import gc

    value, manager = object(), Manager()
    start = after_call_of_add().start

    def once() -> None:
        enter(
            loop_in_with,
            (value, manager),
            start,
            {"x": 1, "y": value, "manager": manager},
            [manager.__exit__, started(range(3), 1), 1],
        )
        with pytest.raises(ValueError, match="big"):
            enter(
                loop_in_with,
                (value, manager),
                start,
                {"x": 1, "y": value, "manager": manager},
                [manager.__exit__, started(range(3), 1), 5000],
            )
        manager.log.clear()

    for _ in range(100):
        once()
    gc.collect()
    blocks, counts = sys.getallocatedblocks(), (sys.getrefcount(value), sys.getrefcount(manager))
    for _ in range(10_000):
        once()
    gc.collect()
    assert (sys.getrefcount(value), sys.getrefcount(manager)) == counts
    assert sys.getallocatedblocks() - blocks < 100
