"""Expressions over numbers that change, and what follows from relations between them."""

from __future__ import annotations

import math
import random

import pytest

from stator import _testing

OPERATIONS = ["+", "-", "*", "//", "%", "min", "max"]
COMPARISONS = ["<", "<=", "==", "!=", ">", ">="]


def texts(*expressions, hints=(5, 7, 9), comparisons=()):
    return _testing.number_facts(list(hints), list(comparisons), list(expressions))[2]


def relations(*comparisons, hints=(5, 7, 9)):
    return _testing.number_facts(list(hints), list(comparisons), [])[1]


def test_equal_expressions_are_written_alike():
    two = ("*", 2, "s0")
    assert len(set(texts(("+", two, ("*", "s1", "s0")), ("*", "s0", ("+", "s1", 2))))) == 1
    assert texts(("-", ("+", "s0", "s1"), "s1")) == ["s0"]
    assert texts(("-", "s0", "s0"), ("*", "s0", 0)) == ["0", "0"]


def test_multiples_come_out_of_quotients():
    assert texts(("//", ("+", ("*", 6, "s0"), 3), 2), ("%", ("+", ("*", 6, "s0"), 3), 2)) == ["(s0 * 3) + 1", "1"]
    quarter = ("//", ("+", ("//", ("-", "s0", 1), 2), 3), 4)
    assert texts(("//", ("//", "s0", 2), 3), quarter) == ["s0 // 6", "(s0 + 5) // 8"]
    assert texts(("//", ("*", "s0", "s1"), "s1"), ("%", ("*", "s0", "s1"), "s0")) == ["s0", "0"]


def test_exact_quotients_of_sums():
    more = ("+", ("*", "s0", "s1"), "s2")
    assert texts(("//", ("*", ("*", 2, "s0"), more), more), ("%", ("*", "s1", more), more)) == ["2 * s0", "0"]
    assert texts(("//", ("+", ("*", 2, more), 1), more)) != ["2"]


def test_a_quotient_is_known_once_its_operands_are():
    quotient = ("//", ("+", "s0", "s1"), 4)
    following = [("s0", "==", 5), ("s1", "==", 7), (quotient, "==", 3), (("*", quotient, "s2"), ">", ("*", "s2", 2))]
    assert relations((quotient, ">", 0), *following) == relations((quotient, ">", 0), *following[:2])


@pytest.mark.parametrize(
    "comparison",
    [
        ("s0", ">", 1),
        ("s0", "!=", 0),
        (("*", "s0", "s1"), ">", "s0"),
        (("*", "s0", "s1"), ">=", 4),
        (("+", "s0", "s1"), ">", "s1"),
        (("-", "s0", "s0"), "==", 0),
        (("%", "s0", 4), "<", 4),
        (("%", ("*", "s0", 8), 4), "==", 0),
        (("//", "s0", 2), ">=", 1),
        (("min", "s0", "s1"), "<=", "s1"),
        (("max", "s0", "s1"), ">=", "s0"),
        (("min", "s0", 8), "<=", 8),
        (("min", "s0", 8), ">=", 2),
        (("max", ("-", "s0", "s1"), 3), ">=", 3),
        (("abs", ("-", "s0", "s1")), ">=", 0),
    ],
    ids=str,
)
def test_what_follows_from_ranges_is_no_relation(comparison):
    outcomes, left, _ = _testing.number_facts([5, 7, 9], [comparison], [])
    assert outcomes == [True]
    assert left == []


def test_extremes():
    assert texts(("min", "s0", "s1"), ("max", "s1", 8)) == ["min(s0, s1)", "max(s1, 8)"]
    assert len(set(texts(("min", "s0", "s1"), ("min", "s1", "s0")))) == 1
    assert texts(("min", "s0", 1), ("max", "s0", 2), ("max", "s0", "s0"), ("min", ("+", "s0", 1), "s0")) == [
        "1",
        "s0",
        "s0",
        "s0",
    ]
    assert texts(("min", "s0", "s1"), comparisons=[("s0", "<", "s1")]) == ["s0"]


def test_whole_parts_of_quotients_are_quotients():
    half = ("/", "s0", 2)
    assert texts(("math.floor", half), ("int", half)) == ["s0 // 2", "s0 // 2"]
    assert texts(("math.ceil", half)) == ["-((-s0) // 2)"]
    assert texts(("round", half), ("math.floor", ("math.sqrt", "s0"))) == ["round(s0 / 2)", "math.floor(math.sqrt(s0))"]


@pytest.mark.parametrize("function", ["int", "round", "math.floor", "math.ceil"])
@pytest.mark.parametrize("divisor", [1, 2, 3, 7, "s1", ("-", "s1", 9)])
def test_functions_compute_what_python_does(function, divisor):
    chosen = random.Random(1)
    for _ in range(50):
        hints = [chosen.choice([2, 3, 5, 2**31, 2**52 + 1, chosen.randrange(2, 2**53)]), chosen.choice([2, 4, 17]), 9]
        (text,) = texts((function, ("/", ("-", "s0", "s2"), divisor)), hints=hints)
        for s0 in (hints[0], 2, 3, 4, 2**53 - 1):
            symbols = {"s0": s0, "s1": hints[1], "s2": hints[2]}
            number = divisor if isinstance(divisor, int) else hints[1] if divisor == "s1" else hints[1] - 9
            assert eval(text, {"math": math}, symbols) == eval(function)((s0 - 9) / number)  # noqa: S307


def test_a_relation_is_left_once():
    assert relations(("s0", "<", "s1"), ("s1", ">", "s0"), ("s0", "!=", "s1"), ("s0", "<=", "s1")) == ["s0 < s1"]
    assert relations(("s0", "==", 5), ("s0", ">", 3), (("*", "s0", "s0"), "==", 25)) == ["s0 == 5"]
    assert relations(("s0", "<", 100), ("s0", "<", 200), ("s0", "!=", 150)) == ["s0 < 100"]


def test_equal_symbols_become_one():
    outcomes, left, [text] = _testing.number_facts([5, 5, 9], [("s1", "==", "s0")], [("-", "s1", "s0")])
    assert (outcomes, left, text) == ([True], ["s1 == s0"], "0")


def test_what_is_divisible_stays_so():
    divisible = (("%", "s0", 4), "==", 0)
    assert relations(divisible, divisible, (("+", ("%", "s0", 4), 1), "==", 1), hints=(8,)) == ["s0 % 4 == 0"]


def test_numbers_that_do_not_fit():
    assert texts(("*", "s0", "s1"), hints=(2**40, 2**40)) == [None]
    assert relations((("*", "s0", "s1"), "<", 5), hints=(2**40, 2**40)) == []


def test_expressions_that_become_too_large_are_none():
    factors = [("+", ("+", "s0", "s1"), ("*", "s2", number)) for number in range(1, 5)]
    product = factors[0]
    for factor in factors[1:]:
        product = ("*", product, factor)
    for expression in (
        ("//", product, 3),
        ("%", ("+", product, ("*", 7, "s1")), "s0"),
        ("//", ("*", product, product), "s2"),
    ):
        [text] = texts(expression)
        assert text is None or eval(text, {}, {"s0": 5, "s1": 7, "s2": 9}) == value_of(  # noqa: S307
            expression, {"s0": 5, "s1": 7, "s2": 9}
        )


def value_of(written, symbols):
    if isinstance(written, int):
        return written
    if isinstance(written, str):
        return symbols[written]
    operation, *operands = written
    left, *rest = (value_of(operand, symbols) for operand in operands)
    if not rest:
        return {"-": -left, "~": ~left, "abs": abs(left)}[operation]
    return {
        "+": lambda: left + rest[0],
        "-": lambda: left - rest[0],
        "*": lambda: left * rest[0],
        "//": lambda: left // rest[0],
        "%": lambda: left % rest[0],
        "min": lambda: min(left, rest[0]),
        "max": lambda: max(left, rest[0]),
    }[operation]()


def holds(comparison, symbols):
    left, operation, right = comparison
    one, other = value_of(left, symbols), value_of(right, symbols)
    return {
        "<": one < other,
        "<=": one <= other,
        "==": one == other,
        "!=": one != other,
        ">": one > other,
        ">=": one >= other,
    }[operation]


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions_and_comparisons(seed):
    """At other values that satisfy the relations, expressions have their value and comparisons their outcome."""
    chosen = random.Random(seed)
    compared = 0
    for _ in range(60):
        hints = [chosen.choice([2, 3, 4, 6, 8, 12, chosen.randrange(2, 40)]) for _ in range(chosen.randrange(1, 4))]

        def expression(depth, hints=hints):
            if depth == 0 or chosen.random() < 0.3:
                return chosen.choice([f"s{chosen.randrange(len(hints))}", chosen.randrange(-3, 10)])
            operation = chosen.choice(OPERATIONS)
            right = chosen.randrange(1, 9) if operation in ("//", "%") else expression(depth - 1)
            return (operation, expression(depth - 1), right)

        comparisons = [(expression(2), chosen.choice(COMPARISONS), expression(2)) for _ in range(4)]
        expressions = [expression(3) for _ in range(4)]
        outcomes, left, written = _testing.number_facts(hints, comparisons, expressions)
        for attempt in range(12):
            values = [
                hint if attempt == 0 or chosen.random() < 0.4 else chosen.choice([2 * hint, chosen.randrange(2, 50)])
                for hint in hints
            ]
            symbols = {f"s{i}": value for i, value in enumerate(values)}
            if not all(eval(relation, {}, symbols) for relation in left):  # noqa: S307
                assert attempt > 0, (hints, comparisons, left)
                continue
            compared += 1
            where = (hints, values, comparisons, expressions, left, written)
            for comparison, outcome in zip(comparisons, outcomes, strict=True):
                assert outcome is None or holds(comparison, symbols) == outcome, (comparison, *where)
            for one, text in zip(expressions, written, strict=True):
                assert text is None or eval(text, {}, symbols) == value_of(one, symbols), (one, text, *where)  # noqa: S307
    assert compared > 100


def test_a_condition_between_the_largest_expressions():
    def chain(divisor, length=10):
        expression = "s0"
        for _ in range(length):
            expression = ("//", ("*", ("+", expression, "s2"), "s1"), divisor)
        return expression

    outcomes, left, texts_of = _testing.number_facts([5, 7, 9], [(chain(3), "<", chain(2))], [chain(3)])
    assert texts_of[0] is not None, "the expression should be as large as one may be"
    assert len(left) == 1 and eval(left[0], {}, {"s0": 5, "s1": 7, "s2": 9}) == outcomes[0]  # noqa: S307
