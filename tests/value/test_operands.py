"""Every binary operator on every pair of classes: results and error messages."""

import operator

import pytest

from tests.value.calls import OPERANDS, differences

OPERATORS = [
    *("or_", "and_", "sub", "xor", "add", "mul", "mod", "floordiv", "truediv", "pow", "lshift", "matmul"),
    *("ior", "iand", "isub", "ixor", "iadd", "imul", "imod"),
    *("lt", "le", "eq", "ne", "gt", "ge", "contains"),
]


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_on_all_pairs(name):
    apply = getattr(operator, name)
    found = []
    for left, make_left in OPERANDS.items():
        for right, make_right in OPERANDS.items():
            for difference in differences(apply, [make_left, make_right], lambda one, other: one == other):
                found.append(f"{left} {name} {right} {difference}")
    assert not found, "\n".join(found[:20])
