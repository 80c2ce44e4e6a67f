"""Functions are stopped at every instruction they execute, and entered again right there in a new frame: the rest has
to give the same result. A trace function takes the state of the frame: slots, stack, and the handled exception."""

import contextlib
import copy
import sys
from collections.abc import Callable

import pytest

from tests.support.frames_extension import decode, extension

NULL = extension._frames_NULL


class Manager:
    def __init__(self, swallows: bool = False) -> None:
        self.log: list = []
        self.swallows = swallows

    def __enter__(self):
        self.log.append("enter")
        return self.log

    def __exit__(self, kind, value, trace) -> bool:
        self.log.append(kind.__name__ if kind else None)
        return self.swallows


def loops(n, items):
    total = []
    for i in range(n):
        for item in items:
            if item == 2:
                continue
            total.append(i * item)
        else:
            total.append("else")
        if i == 3:
            break
    while n > 0:
        n -= 1
        total.append(n)
    return total


def with_blocks(n):
    manager = Manager(swallows=True)
    with manager as log, Manager() as inner:
        for i in range(n):
            log.append(i)
            inner.append(i)
            if i == 2:
                raise ValueError(i)
    return manager.log, log, inner


def tries(n):
    log = []
    for i in range(n):
        try:
            try:
                log.append(1 // (i - 1))
                if i == 2:
                    raise KeyError(i)
            except ZeroDivisionError as error:
                log.append(type(error).__name__)
                log.append(type(sys.exc_info()[1]).__name__)
                continue
            except KeyError:
                log.append("again")
                raise
            else:
                log.append("else")
            finally:
                log.append("finally")
        except KeyError as error:
            log.append(repr(error))
            log.append(repr(error.__context__))
    return log


def nested_handlers(n):
    log = []
    try:
        try:
            [][n]
        except IndexError:
            try:
                {}[n]
            except KeyError as error:
                log.append(type(error.__context__).__name__)
                raise RuntimeError("outer") from error
    except RuntimeError as error:
        log.append(type(error.__cause__).__name__)
    log.append(sys.exc_info()[1])
    return log


def returns_in_finally(n):
    for i in range(n):
        try:
            if i == 1:
                return [i, "returned"]
        finally:
            n += 1
    return None


def cells(n):
    total = 0
    made = []
    for i in range(n):
        k = i * 10

        def add(x, step=k):
            nonlocal total
            total += x + step
            return total + k  # noqa: B023

        made.append(add)
    return [each(1) for each in made], total


def comprehensions(n):
    rows = [[i * j for j in range(n) if j] for i in range(n)]
    table = {i: [lambda i=i: i + n for _ in range(2)] for i in range(n)}
    flat = {x for row in rows for x in row}
    return rows, sorted(flat), [[f() for f in fs] for fs in table.values()]


def calls(a, *rest, key=1, **more):
    def target(*args, **kwargs):
        return args, sorted(kwargs.items())

    log = [target(a, key, x=1), target(*rest, **more), target(a, *rest, y=key, **more), "-".join(["a", "b"])]
    log.append(max(rest, key=lambda x: -x))
    first, *middle, last = rest
    (p, q), r = (first, middle), last
    log.append((p, q, r, a if a else key, a and key, a or key, not a, a is None, 1 < key < 3, key not in rest))
    return log


def texts(a, b):
    parts = [f"{a!r:>5}{b}", f"{a:{b}}", a + "!", a[1:2] if isinstance(a, str) else a]
    parts += [str(b)]
    parts[0:1] = ["sliced"]
    del parts[-1]
    return parts, {**({"k": a} if a else {}), "l": b}, [*parts, b], (*parts,), {a, b}


def matching(subjects):
    log = []
    for subject in subjects:
        match subject:
            case 0 | 1:
                log.append("small")
            case [first, *others]:
                log.append((first, others))
            case {"key": value, **others}:
                log.append((value, others))
            case complex(real=real):
                log.append(real)
            case str() as text if text:
                log.append(text)
            case _:
                log.append("other")
    return log


def imports(n):
    import os.path as path
    from collections import OrderedDict, deque

    class Local:
        value = n

        def get(self):
            return __class__.value + self.value

    assert n, "message"
    Local.other = path.join("a", "b")
    return list(deque([1], n)), list(OrderedDict(a=n)), Local().get(), Local.other


_space: dict = {}
exec(
    "def many_constants(n):\n    out = []\n"
    + "".join(f"    out = ({i}.5, n + {i})\n" for i in range(140))
    + "    for n in range(2):\n        if n:\n"
    + "".join(f"            out = [{i}.25, n]\n" for i in range(140))
    + "    return out\n",
    _space,
)
many_constants = _space["many_constants"]  # with extended arguments


PROGRAMS: list[tuple[Callable, tuple, dict]] = [
    (loops, (5, (1, 2, 3)), {}),
    (with_blocks, (4,), {}),
    (tries, (4,), {}),
    (nested_handlers, (1,), {}),
    (returns_in_finally, (3,), {}),
    (cells, (3,), {}),
    (comprehensions, (3,), {}),
    (calls, (7, 1, 2, 3), {"key": 2, "z": 5}),
    (calls, (0, 4, 5, 6), {}),
    (texts, ("abc", 10), {}),
    (matching, ([0, [1, 2, 3], {"key": 1, "x": 2}, 1j, "text", ""],), {}),
    (imports, (2,), {}),
    (many_constants, (1,), {}),
]


def depths(function) -> dict[int, int]:
    """The depth of the stack at the start of each instruction."""
    rows = decode(function.__code__)
    effects = extension._frames_stack_effects(function.__code__)
    handlers = extension._frames_handlers(function.__code__)
    found: dict[int, int] = {}
    todo = [(0, 0)]
    while todo:
        index, depth = todo.pop()
        if index in found:
            continue
        found[index] = depth
        through, jump = effects[index]
        if through is not None:
            todo.append((index + 1, depth + through))
        if jump is not None:
            todo.append((rows[index].target, depth + jump))
        if rows[index].handler >= 0:
            _, _, target, handler_depth, push_lasti = handlers[rows[index].handler]
            todo.append((target, handler_depth + push_lasti + 1))
    return {rows[index].start: depth for index, depth in found.items() if rows[index].can_resume}


class HalfMadeError(Exception):
    """From 3.13 on a function gets its closure after it was made; until then it can't be copied."""


def copied(state):
    """A deep copy with the aliases inside of it kept; functions share the cells that the state has."""
    return copy_value(state, {})


def copy_value(value, memo: dict):
    if id(value) in memo:
        return memo[id(value)]
    kind = type(value)
    if kind is list:
        memo[id(value)] = made = []
        made.extend(copy_value(each, memo) for each in value)
    elif kind is tuple:
        made = tuple(copy_value(each, memo) for each in value)
    elif kind is type(cell(0)):
        memo[id(value)] = made = cell(None)
        try:
            made.cell_contents = copy_value(value.cell_contents, memo)
        except ValueError:
            del made.cell_contents
    elif kind is type(copied):
        if value.__code__.co_freevars and not value.__closure__:
            raise HalfMadeError
        closure = tuple(copy_value(each, memo) for each in value.__closure__ or ()) or None
        made = kind(value.__code__, value.__globals__, value.__name__, value.__defaults__, closure)
        made.__kwdefaults__ = value.__kwdefaults__
    elif kind is type(Manager().__exit__):
        made = kind(value.__func__, copy_value(value.__self__, memo))
    elif kind is Manager:
        memo[id(value)] = made = Manager(value.swallows)
        made.log = copy_value(value.log, memo)
    elif kind is dict:
        memo[id(value)] = made = {}
        made.update((key, copy_value(each, memo)) for key, each in value.items())
    elif value is NULL or isinstance(value, (BaseException, type)) or kind.__name__ in ("module", "generator"):
        made = value
    elif kind.__name__.endswith("iterator"):
        # An iterator over a list follows what becomes of the list.
        constructor, (target, *_), *position = value.__reduce__()
        made = constructor(copy_value(target, memo))
        if position and position[0] is not None:
            made.__setstate__(position[0])
    else:
        try:
            made = copy.deepcopy(value)
        except TypeError:  # nothing that changes: tracebacks, views of dictionaries
            made = value
    memo[id(value)] = made
    memo.setdefault("alive", []).append(value)
    return made


def cell(value):
    return (lambda: value).__closure__[0]


# The beginnings and ends of except blocks. They count on it that nothing is raised there: if it was, CPython would lose
# track of the handled exception as well.
NEVER_FAIL = {"PushExcInfo", "PopExcept", "Copy", "Swap", "Reraise"}


class Injected(Exception):
    pass


def traced(function, arguments: tuple, keywords: dict, on_instruction: Callable) -> object:
    """The result of the function; `on_instruction` gets the frame wherever it may be entered."""
    starts = {row.start for row in decode(function.__code__) if row.can_resume}

    def trace(frame, event, _):
        if frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and frame.f_lasti in starts:
            on_instruction(frame)
        return trace

    sys._getframe().f_trace_opcodes = True  # 3.12 looks for this when tracing starts
    sys.settrace(trace)
    try:
        return function(*arguments, **keywords)
    finally:
        sys.settrace(None)


def record(function, arguments: tuple, keywords: dict) -> tuple[object, list]:
    """The result, and (offset, slots, stack, handled exception) at each instruction, in the order of execution; None
    where the state could not be copied."""
    at = depths(function)
    states: list = []

    def take_state(frame) -> None:
        states.append(None)
        with contextlib.suppress(HalfMadeError):
            slots, stack = copied(list(extension._frames_snapshot(frame, at[frame.f_lasti])))
            states[-1] = (frame.f_lasti, slots, stack, sys.exc_info()[1])

    return traced(function, arguments, keywords, take_state), states


def body_of(function) -> int:
    return next(row.start for row in decode(function.__code__) if row.op == "Resume")


def outcome(function, action: Callable) -> tuple:
    """The result, or the exception with the places in the function that it went through."""
    try:
        return ("result", repr(action()))
    except Exception as error:
        places = []
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code is function.__code__:
                places.append(list(function.__code__.co_positions())[trace.tb_lasti // 2])
            trace = trace.tb_next
        return ("exception", repr(error), repr(error.__context__), places)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0].__name__)
def test_the_rest_is_the_same_from_every_instruction(program) -> None:
    function, arguments, keywords = program
    expected = function(*copy.deepcopy(arguments), **keywords)
    result, states = record(function, arguments, keywords)
    assert repr(result) == repr(expected)
    body = body_of(function)
    entered = 0
    for state in states:
        if state is None or state[0] <= body:
            continue
        start, slots, stack, handled = state
        found = extension._frames_enter_primed(function, start, slots, stack, handled)
        assert repr(found) == repr(expected), f"entered at {start}, execution {entered}"
        assert sys.exc_info()[1] is None
        entered += 1
    executed = {state[0] for state in states if state}
    assert entered > 30
    assert len(executed) > len([row for row in decode(function.__code__) if row.can_resume]) * 0.5


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0].__name__)
def test_an_exception_has_the_same_consequences_at_every_instruction(program) -> None:
    function, arguments, keywords = program
    _, states = record(function, arguments, keywords)
    rows = {row.start: row for row in reversed(decode(function.__code__))}
    body = body_of(function)
    raised = 0
    for number in range(0, len(states), 1 + len(states) // 300):
        if states[number] is None or states[number][0] <= body:
            continue
        start, slots, stack, handled = states[number]
        if rows[start].op in NEVER_FAIL or (handled is not None and rows[start].handler < 0):
            continue
        countdown = iter(range(number, -1, -1))

        def fail(_, countdown=countdown) -> None:
            if next(countdown, None) == 0:
                raise Injected

        expected = outcome(function, lambda fail=fail: traced(function, copy.deepcopy(arguments), keywords, fail))

        def inject(state=(rows[start].offset, slots, stack, handled)) -> object:
            return extension._frames_enter_primed(function, *state, Injected())

        assert outcome(function, inject) == expected, f"raised at {start}, execution {number}"
        assert sys.exc_info()[1] is None
        raised += 1
    assert raised > 30
