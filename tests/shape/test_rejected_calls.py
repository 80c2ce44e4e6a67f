"""Calls that PyTorch rejects: a compiled program sees the exception of the uncompiled one, type and text.

By default two of the error samples that PyTorch's operator database has for each operation; STATOR_LONG_TESTS=1 takes all.
"""

from __future__ import annotations

import itertools
import re
import warnings
from collections.abc import Callable
from typing import Any

import pytest
from torch.testing._internal.common_methods_invocations import op_db

import stator
from stator import _testing
from tests.shape import against_fake
from tests.support.long import LONG

SAMPLES = None if LONG else 2
OPERATIONS = [op for op in op_db if op.error_inputs_func is not None and _testing.shape_has_rule(op.op)]
PARTS = 4


def outcome(function: Callable[..., Any], args: tuple, kwargs: dict) -> tuple[type, str]:
    try:
        function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001
        # Addresses differ from run to run.
        return type(error), re.sub("0x[0-9a-f]+", "0x", str(error))
    return type(None), ""


def rejected(op: Any) -> list[tuple[tuple, dict]]:
    try:
        samples = [error.sample_input for error in itertools.islice(op.error_inputs("cpu"), SAMPLES)]
    except Exception:  # noqa: BLE001  samples that can't be made here are none
        return []
    return [((sample.input, *sample.args), sample.kwargs) for sample in samples]


@pytest.mark.parametrize("part", range(PARTS))
def test_a_program_sees_the_error_of_pytorch(part: int) -> None:
    wrong, met = [], 0
    for op in OPERATIONS[part::PARTS]:

        def program(*args: Any, op: Any = op, **kwargs: Any) -> Any:
            return op.op(*args, **kwargs)

        for args, kwargs in rejected(op):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                # Each with inputs of its own, because a call may write to them before it is rejected.
                expected = outcome(program, *against_fake.copy_inputs(args, kwargs))
                seen = outcome(stator.compile(program), *against_fake.copy_inputs(args, kwargs))
            met += expected[0] is not type(None)
            if seen != expected:
                wrong.append(f"{against_fake.show(op.op, args, kwargs)}: {expected} uncompiled, {seen} compiled")
    assert not wrong, "\n".join(wrong)
    assert met > 20
