"""Calls that PyTorch's own tests expect to raise do so with the same message, even if the result is unused."""

import warnings

import pytest
from torch.testing._internal.common_methods_invocations import op_db

import stator

PARTS = 6


def refused_calls(part):
    for op in [op for op in op_db if op.error_inputs_func is not None][part::PARTS]:
        for number, error in enumerate(op.error_inputs("cpu")):
            sample = error.sample_input
            yield f"{op.name} {number}", op.op, (sample.input, *sample.args), sample.kwargs


def outcome(function, args, kwargs):
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error)
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_refused_as_uncompiled(part):
    wrong, count = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, op, args, kwargs in refused_calls(part):

            def program(*args, op=op, **kwargs):
                op(*args, **kwargs)
                return 1

            expected = outcome(program, args, kwargs)
            if expected is None:
                continue
            count += 1
            stator.reset()
            found = outcome(stator.compile(program, backend="eager"), args, kwargs)
            if found != expected:
                wrong.append(f"{name}: {expected} became {found}")
    assert not wrong, "\n".join(wrong)
    assert count > 50
