"""Every call of the list, on arrays, does compiled what numpy does; most of them without a graph break."""

import re
import warnings
from typing import Any

import numpy as np
import pytest

import stator
from tests.programs.arrays.calls import CALLS
from tests.support.compare import assert_same

# Draws random numbers.
NOT_COMPARED = {"np.random.rand(2)"}
# Python's own objects for arrays: they compare by identity.
OPAQUE = {"a.flat", "a.base", "a.flags"}


def operands(dtype: type = np.float64) -> dict[str, np.ndarray]:
    source = np.random.default_rng(0)
    numbers = source.standard_normal
    return {
        "a": numbers((3, 4)).astype(dtype),
        "b": numbers((3, 4)).astype(dtype),
        "m": numbers((4, 4)).astype(dtype),
        "v": numbers(6).astype(dtype),
        "n": source.integers(-4, 5, (3, 4)),
        "i": np.array([0, 2, 5, 1]),
        "k": source.integers(0, 2, (3, 4)).astype(bool),
        "z": numbers(5) + 1j * numbers(5),
    }


def program_of(call: str) -> Any:
    *statements, result = call.split(";")
    lines = [f"    {line}" for line in (*statements, f"return {result}")]
    names: dict[str, Any] = {"np": np}
    exec("def program(a, b, m, v, n, i, k, z):\n" + "\n".join(lines), names)
    return names["program"]


def outcome(program: Any, **given: np.ndarray) -> Any:
    try:
        return program(**given), given
    except Exception as error:
        return type(error), str(error), given


def check(call: str, dtype: type) -> None:
    program = program_of(call)
    compiled = stator.compile(program)
    tolerance = 1e-4 if dtype is np.float32 else None
    for _ in range(2):
        expected, actual = outcome(program, **operands(dtype)), outcome(compiled, **operands(dtype))
        assert_same(expected if call not in OPAQUE else None, actual if call not in OPAQUE else None, tolerance)


@pytest.mark.parametrize("call", [call for call in CALLS if call not in NOT_COMPARED])
def test_double_precision(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(call, np.float64)


@pytest.mark.parametrize(
    "call", [call for call in CALLS if call not in NOT_COMPARED and re.search(r"\b[abmv]\b", call)]
)
def test_single_precision(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(call, np.float32)


def is_captured(call: str) -> bool:
    try:
        return not stator.explain(program_of(call))(**operands()).breaks
    except Exception:  # as uncompiled
        return False


def test_most_calls_are_captured():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        captured = [call for call in CALLS if is_captured(call)]
    assert len(captured) > 0.82 * len(CALLS)
