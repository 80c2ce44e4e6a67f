"""Instructions that can't be captured, because their operands are objects of C classes without a model: each is executed for
real between two captured parts, and does or raises what it does uncompiled."""

import array
import datetime
import types
from decimal import Decimal

import pytest

from tests.support.corpus import Corpus
from tests.support.harness import Source, T, same

corpus = Corpus()
later_effects = corpus.later_effects


@later_effects
def unary_operators(x):
    d = Decimal("1.50")
    y = x + 1
    return y * 2, -d, +d, not d, abs(d)


@later_effects
def binary_operators(x):
    d, e = Decimal("1.50"), Decimal("0.25")
    y = x + 1
    total = d * e - d // e
    total += d
    total **= 2
    return y * 2, total, d % e


@later_effects
def comparisons(x):
    d, e = Decimal("1.50"), Decimal("0.25")
    y = x + 1
    return y * 2, d < e, d == e, d != 1, d is e, 2 in array.array("i", [1, 2]), 3 not in array.array("i", [1, 2])


@later_effects
def branches(x):
    zero, one = Decimal(0), Decimal(1)
    y = x + 1
    if zero:
        y = y - 1
    if not one:
        y = y - 2
    while one:
        one -= 1
    return y * 2, zero or "otherwise", one and "never", (zero and y) is zero


@later_effects
def a_truth_that_raises(x):
    y = x + 1
    try:
        if memoryview(b"ab").cast("B", shape=[2, 1]) < 1:
            y = y - 1
    except TypeError as error:
        return y * 2, str(error)


@later_effects
def items(x):
    numbers = array.array("i", [1, 2, 3, 4])
    y = x + numbers[0]
    numbers[1] = 20
    numbers[2] += 5
    del numbers[0]
    y = y * numbers[0]
    numbers[1:] = array.array("i", [7])
    return y, numbers.tolist(), numbers[:1].tolist()


@later_effects
def items_out_of_range(x):
    numbers = array.array("i", [1])
    y = x + 1
    log = []
    for action in (lambda: numbers[3], lambda: numbers.__setitem__(5, 1), lambda: numbers.__delitem__(9)):
        try:
            action()
        except IndexError as error:
            log.append(str(error))
    try:
        del numbers[2]
    except IndexError as error:
        log.append(str(error))
    return y * 2, log


@later_effects
def containers_that_hash(x):
    d, e = Decimal(1), Decimal(2)
    y = x + 1
    return y * 2, {d, e, 1} == {1, 2}, {d: "a", 1: "b", "k": e}, {n + d for n in (1, 2)}, {d + n: n for n in (1, 2)}


@later_effects
def unhashable_elements(x):
    numbers = array.array("i", [1])
    y = x + 1
    try:
        return {numbers: y}
    except TypeError as error:
        return y * 2, str(error)


@later_effects
def spread_in_displays(x):
    numbers, table = array.array("i", [1, 2]), types.MappingProxyType({"a": 1})
    y = x + 1
    return y * 2, [0, *numbers], (*numbers, 3), {*numbers}, {"b": 2, **table}


def keywords_of(*positional, **keywords):
    return positional, keywords


@later_effects
def spread_in_calls(x):
    numbers, table = array.array("i", [1, 2]), types.MappingProxyType({"a": 1})
    y = x + 1
    return y * 2, keywords_of(*numbers, **table), keywords_of(0, *numbers, b=2, **table)


@later_effects
def keywords_given_twice(x):
    table = types.MappingProxyType({"a": 1})
    y = x + 1
    try:
        return keywords_of(**table, **table)
    except TypeError as error:
        return y * 2, str(error)


@later_effects
def unpacked(x):
    numbers = array.array("i", [1, 2, 3])
    y = x + 1
    first, second, third = numbers
    start, *rest = numbers
    *some, last = numbers
    return y * first, second, third, start, rest, some, last


@later_effects
def unpacked_to_another_length(x):
    numbers = array.array("i", [1, 2, 3])
    y = x + 1
    log = []
    try:
        first, second = numbers
    except ValueError as error:
        log.append(str(error))
    try:
        a, b, c, d, *rest = numbers
    except ValueError as error:
        log.append(str(error))
    return y * 2, log


@later_effects
def formatted(x):
    d, day = Decimal("1.5"), datetime.date(2024, 2, 29)
    y = x + 1
    return y * 2, f"{d} {d!r} {d:.3f} {day:%Y/%m} {day!s:>12}"


@later_effects
def iterated(x):
    numbers = array.array("i", [1, 2, 3])
    y = x
    for number in numbers:
        y = y + number
        if number == 2:
            break
    else:
        y = y * 0

    def delegating():
        yield from numbers
        yield from memoryview(b"ab")

    return y, list(delegating()), [n * 2 for n in numbers]


@later_effects
def with_statements(x):
    y = x + 1
    with memoryview(bytearray(b"abc")) as view:
        y = y * view[0]
        length = len(view)
    try:
        with memoryview(b"abc") as other:
            y = y + 1
            raise KeyError(other.nbytes)
    except KeyError as error:
        return y, length, error.args


@later_effects
def no_context_manager(x):
    class Enters:
        def __enter__(self):
            return self

    y = x + 1
    log = []
    for manager in (Decimal(1), Enters()):
        try:
            with manager as entered:
                return entered
        except TypeError as error:
            log.append(str(error))
    return y * 2, log


@later_effects
def attributes(x):
    d, code = datetime.timedelta(days=1), types.SimpleNamespace
    y = x + d.days
    log = []
    try:
        d.days = 5
    except AttributeError as error:
        log.append(type(error).__name__)
    try:
        del d.days
    except AttributeError as error:
        log.append(type(error).__name__)
    try:
        d.hours
    except AttributeError as error:
        log.append(str(error))
    return y * 2, log, code.__name__


@later_effects
def raised_and_caught(x):
    y = x + 1
    log = []
    try:
        try:
            int(Decimal("nan"))
        except (TypeError, ValueError) as error:
            raise LookupError("outer") from error
    except LookupError as error:
        log.append((error.args, type(error.__cause__).__name__))
    try:
        raise Decimal(1)
    except TypeError as error:
        log.append(str(error))
    return y * 2, log


@later_effects
def exception_groups(x):
    y = x + 1
    log = []
    try:
        try:
            raise ExceptionGroup("several", [ValueError(1), KeyError("k"), ExceptionGroup("in", [ValueError(2)])])
        except* ValueError as group:
            y = y + len(group.exceptions)
            log.append(str(group))
        except* TypeError as group:
            log.append("never")
    except ExceptionGroup as rest:
        return y * 2, log, [type(error).__name__ for error in rest.exceptions]


def described(subject):
    match subject:
        case Decimal(real=1):
            return "one"
        case Decimal():
            return "a number"
        case {"a": value, **rest}:
            return value, rest
        case [first, *others]:
            return first, others
        case datetime.date(year=2024, day=day):
            return day
    return "unknown"


@later_effects
def matched(x):
    y = x + 1
    subjects = [
        Decimal(1), Decimal(2), types.MappingProxyType({"a": 1, "b": 2}), types.MappingProxyType({}),
        array.array("i", [1, 2]), datetime.date(2024, 2, 29), datetime.date(2023, 1, 1), 5,
    ]  # fmt: skip
    return y * 2, [described(subject) for subject in subjects]


@later_effects
def a_class_is_made(x):
    y = x + 1
    scale = Decimal(2)

    class Made:
        factor = scale * 2

        def apply(self, t):
            return t * int(self.factor)

    return Made().apply(y), Made.__name__


test_programs = corpus.test()

GLOBALS = """
from decimal import Decimal
TOTAL, PARTS = Decimal(1), []
def f(x):
    global TOTAL, NEW
    y = x + 1
    TOTAL = TOTAL + 1
    NEW = TOTAL * 2
    import colorsys as module
    PARTS.append(str(TOTAL))
    def inner():
        nonlocal y
        y = y * int(NEW)
        return module.__name__
    return inner(), y + int(TOTAL), MISSING if len(PARTS) > 3 else None
"""


def test_globals_cells_and_imports():
    same(Source(GLOBALS), T(3), mutate=["TOTAL = Decimal(10)", "MISSING = 7", "del MISSING"], fullgraph=False)


@pytest.mark.parametrize("kind", ["Decimal(2)", "array.array('i', [1, 2])", "5"])
def test_the_kind_of_the_operand_changes(kind):
    text = "import array\nfrom decimal import Decimal\nOPERAND = 3\ndef f(x):\n    y = x + 1\n    z = OPERAND * 2\n    return y * 2, z"
    same(Source(text), T(3), mutate=[f"OPERAND = {kind}", "OPERAND = 3"], fullgraph=False)
