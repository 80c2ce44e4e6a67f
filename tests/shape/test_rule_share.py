"""The share of calls that rules answer: nearly all calls of the listed operations, in all forms, and of the native
functions that they call.

By default some samples of each operation; STATOR_LONG_TESTS=1 takes all.
"""

from __future__ import annotations

import collections
import warnings
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from stator import _testing
from tests.shape import against_fake, rule_coverage
from tests.support.long import LONG

LISTED = [op for op in op_db if op.name in rule_coverage.LISTED]


GROUPS = 1 if LONG else 12
# Most of their samples have no elements, and what strides they get depends on the kernel: no rule answers for those.
MOSTLY_EMPTY = {"nn.functional.pixel_shuffle", "nn.functional.pixel_unshuffle"}


def group(number: int) -> list[Any]:
    """Every so many of the operations, so that a test takes seconds; all at once where all samples are taken."""
    return LISTED[number::GROUPS]


@pytest.mark.parametrize("number", range(GROUPS))
def test_rules_answer_for_what_is_listed(number: int) -> None:
    answered = total = 0
    poor = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in group(number):
            found = rule_coverage.coverage(op, None if LONG else 40)
            answered += found.answered
            total += found.answered + found.unanswered.total()
            if found.share < 0.5 and op.name not in MOSTLY_EMPTY:
                poor.append(f"{op.name} {op.variant_test_name}: {found.share:.0%}")
    # 97 of 100 of all; which operations are in a group depends on the version of PyTorch.
    assert answered / total >= (0.97 if LONG else 0.95), f"{answered} of {total}"
    assert not poor, poor


# Behind these there are operations of PyTorch that programs don't call, and FakeTensor answers for them.
LEFT_BEHIND = {
    "sym_int": "a number",
    "embedding_renorm_": "changes the weights of an embedding with `max_norm`",
    "tensordot": "the dimensions of both sides, each in a list of its own",
    "linalg_matrix_norm": "of dimensions without elements",
}


@pytest.mark.parametrize("number", range(GROUPS))
def test_rules_answer_for_what_is_called_behind(number: int) -> None:
    """`F.mse_loss` calls `torch._C._nn.mse_loss`, and a program may do so, too."""
    answered: collections.Counter[str] = collections.Counter()
    missing: collections.Counter[str] = collections.Counter()
    examples: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in group(number):
            if not op.supports_dtype(torch.float32, "cpu"):
                continue
            for form, args, kwargs in list(rule_coverage.calls(op, torch.float32, False))[: 400 if LONG else 6]:
                for inner in against_fake.calls_behind(form, args, kwargs):
                    name = getattr(inner[0], "__name__", repr(inner[0]))
                    if _testing.shape_infer(*inner, "rule") is not None:
                        answered[name] += 1
                    else:
                        missing[name] += 1
                        examples.setdefault(name, against_fake.show(*inner))
    never = [examples[name] for name in missing if not answered[name] and name not in LEFT_BEHIND]
    assert not never, never
    share = answered.total() / (answered.total() + missing.total())
    assert share > 0.95, f"{share:.1%}: {missing.most_common(20)}"
