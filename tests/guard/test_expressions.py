"""Guards on expressions over numbers that change from call to call, in 64 bits, with Python's semantics of every
operator."""

import itertools
import math
import operator
import random

import pytest

from tests.guard.source_tree import Program, SourceTree

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
LEAST, MOST = -(2**63), 2**63 - 1
EDGES = [0, 1, -1, 2, -2, 3, -3, 7, -7, 62, 63, 64, 2**31, -(2**31), 2**62, MOST, MOST - 1, LEAST, LEAST + 1]


def fits(number: int) -> bool:
    return LEAST <= number <= MOST


def of_two(condition: tuple, a: object = 1, b: object = 1) -> Program:
    """A program over the local variables `a` and `b`, sources 0 and 1, with one condition."""
    tree = SourceTree()
    first, second = tree.slot(0, "a", a), tree.slot(1, "b", b)
    first.guard("Expression", condition)
    return tree.program([first, second])


A, B = ("source", 0), ("source", 1)


@pytest.mark.parametrize("symbol", OPERATORS)
def test_operators_are_those_of_python(symbol):
    drawn = random.Random(symbol)
    numbers = EDGES + [drawn.randint(-1000, 1000) for _ in range(20)]
    for a, b in itertools.product(numbers, numbers):
        if symbol in ("**", "<<") and b > 100:
            continue
        try:
            expected = OPERATORS[symbol](a, b)
        except (ZeroDivisionError, ValueError):
            expected = None
        if symbol == ">>" and b < 0:
            expected = None
        known = isinstance(expected, int) and fits(expected)
        for wanted in {expected, 0, 1} if known else {0, 1}:
            program = of_two(("==", (symbol, A, B), wanted))
            holds = known and expected == wanted
            # A shift by 63 fits only for 0, -1 or the least int: the guard fails for those, which is never wrong.
            if program.check(a, b) != holds:
                assert symbol == "<<" and b > 62 and not program.check(a, b), (a, symbol, b, wanted)


@pytest.mark.parametrize("symbol", COMPARISONS)
def test_comparisons(symbol):
    program = of_two((symbol, A, B))
    for a, b in itertools.product(EDGES, EDGES):
        assert program.check(a, b) == COMPARISONS[symbol](a, b)


@pytest.mark.parametrize("a", EDGES)
def test_one_operand(a):
    assert of_two(("==", ("~", A), B)).check(a, ~a)
    assert of_two(("==", ("-", A), B)).check(a, -a) == fits(-a)


@pytest.mark.parametrize("value", [True, 1.0, "1", None, 2**63, -(2**63) - 1, 10**40, type("I", (int,), {})(1)])
def test_other_values_fail(value):
    program = of_two((">=", ("*", A, 0), 0))
    assert program.check(1, 1)
    assert not program.check(value, 1)
    assert not of_two(("fits", A)).check(value, 1)
    assert of_two(("fits", A)).check(MOST, 1)
    assert not of_two(("fits", ("+", A, 1))).check(MOST, 1)


def test_words():
    program = of_two(("==", ("%", ("+", A, 1), B), 0), 3, 2)
    assert program.print() == "(L['a'] + 1) % L['b'] == 0"
    assert program.check(3, 2)
    assert program.explain(4, 2) == "(L['a'] + 1) % L['b'] == 0 is not true any more: L['a'] is 4"
    assert of_two(("<", ("-", A), ("~", B))).print() == "-L['a'] < ~L['b']"
    assert of_two(("fits", ("-", ("*", A, 2), 1))).print() == "((L['a'] * 2) - 1) fits into 64 bits"


def test_repetitions_are_one_guard():
    tree = SourceTree()
    node = tree.slot(0, "a", 1)
    for _ in range(3):
        node.guard("Expression", ("<", A, 10))
        node.guard("Expression", (">", A, -10))
    program = tree.program()
    assert program.print() == "L['a'] < 10\nL['a'] > -10"
    assert program.check(9) and not program.check(10) and not program.check(-10)


class Box:
    pass


def test_attributes_that_count():
    box = Box()
    box.steps, box.bound = 0, 5
    tree = SourceTree()
    node = tree.slot(0, "box", box).typed()
    steps, bound = node.attribute("steps"), node.attribute("bound").constant()
    steps.guard("Type", int)
    steps.guard("Expression", ("<", ("source", steps.index), 100))
    program = tree.program([steps, bound])
    for count in range(200):
        box.steps = count
        assert program.check(box) == (count < 100)
        assert count >= 100 or program.fetched() == [count, 5]
    # Without a change the quick check succeeds, with the object of the last full check.
    box.steps = 7
    for _ in range(50):
        assert program.check(box) and program.fetched() == [7, 5]
    box.steps = 101
    assert not program.check(box)


def test_changed_ints_are_named():
    box = Box()
    box.steps, box.name = 1000, "a"
    tree = SourceTree()
    number, other = tree.slot(0, "n", 5).constant(), tree.slot(1, "m", 6).constant()
    attribute = tree.slot(2, "box", box).typed()
    attribute.attribute("steps").constant()
    attribute.attribute("name").constant()
    program = tree.program([number, other])
    changed = lambda *slots: sorted(program.raw.changed_numbers(list(slots), test_words))  # noqa: E731
    assert program.check(5, 6, box) and changed(5, 6, box) == []
    assert changed(7, 6, box) == ["L['n']"]
    assert changed(7, 8, box) == ["L['m']", "L['n']"]
    box.steps = 1001
    assert changed(7, 8, box) == ["L['box'].steps", "L['m']", "L['n']"]
    # The changed number was accepted by that call only.
    assert not program.check(5, 6, box) and not program.check(7, 8, box)
    box.steps = int("1000")
    assert program.check(5, 6, box) and not program.check(7, 6, box)
    for value in (True, 5.0, "5"):
        assert changed(value, 6, box) == []
    box.name = "b"
    assert changed(5, 9, box) == ["L['m']"]
    assert not program.check(5, 6, box)


FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    3.0,
    0.1,
    1e308,
    -1e308,
    5e-324,
    2.0**53,
    2.0**63,
    1e16,
    math.inf,
    -math.inf,
    math.nan,
]
OF_FLOATS = {symbol: OPERATORS.get(symbol, operator.truediv) for symbol in ("+", "-", "*", "/", "//", "%", "**")}


def is_same(number: float) -> tuple:
    return ("is", ("source", 0), number)


@pytest.mark.parametrize("symbol", OF_FLOATS)
def test_operators_on_floats_are_those_of_python(symbol):
    for a, b in itertools.product([*FLOATS, 3, -2, 0, 2**53 + 1], [*FLOATS, 2, -3, 0, -(2**62)]):
        if isinstance(a, int) and isinstance(b, int):
            continue
        try:
            expected = OF_FLOATS[symbol](a, b)
        except (ZeroDivisionError, OverflowError):
            expected = None
        operation = (symbol, A, B)
        if not isinstance(expected, float):
            assert not of_two(("fits", operation), a, b).check(a, b), (a, symbol, b)
            continue
        assert of_two(("is", operation, expected), a, b).check(a, b) or math.isnan(expected), (a, symbol, b)
        assert of_two(("fits", operation), a, b).check(a, b)
        assert not of_two(("is", operation, -expected), a, b).check(a, b) or math.isnan(expected), (a, symbol, b)


@pytest.mark.parametrize("symbol", COMPARISONS)
def test_comparisons_of_floats(symbol):
    numbers = [*FLOATS, 0, 1, -3, 2**53, 2**53 + 1, 2**63 - 1, -(2**63)]
    for a, b in itertools.product(numbers, numbers):
        holds = COMPARISONS[symbol](a, b)
        is_mixed = isinstance(a, int) != isinstance(b, int)
        # Ints that no float is equal to are not compared with floats: the guard fails, which is never wrong.
        known = not is_mixed or all(abs(one) <= 2**53 for one in (a, b) if isinstance(one, int))
        assert of_two((symbol, A, B), a, b).check(a, b) == (holds and known), (a, symbol, b)
        assert of_two(("not", (symbol, A, B)), a, b).check(a, b) == (not holds and known), (a, symbol, b)


def test_ints_divided():
    for a, b in itertools.product(EDGES, EDGES):
        known = b != 0 and abs(a) <= 2**53 and abs(b) <= 2**53
        assert of_two(("fits", ("/", A, B))).check(a, b) == known
        assert not known or of_two(("is", ("/", A, B), a / b)).check(a, b)


def test_a_float_differs_from_an_int():
    program = of_two((">", A, 0), 1.5)
    assert (
        program.check(2.5, 1) and not program.check(2, 1) and not program.check(True, 1) and not program.check(-0.0, 1)
    )
    assert of_two(is_same(0.0), 0.0).check(0.0, 1) and not of_two(is_same(0.0), 0.0).check(-0.0, 1)
    assert of_two(is_same(math.nan), 0.0).check(math.nan, 1)
    assert not of_two(("~", A), 1.5).check(1.5, 1) and not of_two(("fits", ("&", A, B)), 1.5).check(1.5, 1)


def test_words_of_floats():
    assert of_two(("not", ("<", ("/", A, 2), 0.5)), 1.5).print() == "not (L['a'] / 2 < 0.5)"
    assert of_two(("is", ("abs", ("-", A)), -0.0), 1.5).print() == "abs(-L['a']) is -0.0"


def test_changed_floats_are_named():
    tree = SourceTree()
    one, other = tree.slot(0, "a", 0.5).constant(), tree.slot(1, "b", 0.0).constant()
    program = tree.program([one, other])
    changed = lambda *slots: sorted(program.raw.changed_numbers(list(slots), test_words))  # noqa: E731
    assert changed(0.5, 0.0) == []
    assert changed(1.5, -0.0) == ["L['a']", "L['b']"]
    assert changed(1, 0.0) == [] and changed(0.25, 0) == ["L['a']"]
