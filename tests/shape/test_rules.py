"""Every rule against FakeTensor, with the samples of PyTorch's operator database.

By default a few samples of each operation; STATOR_LONG_TESTS=1 takes all of them in float32 and int64, and many in more
dtypes and layouts.
"""

from __future__ import annotations

import collections
import itertools
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from stator import _testing
from tests.shape import against_fake, rule_coverage
from tests.shape.against_fake import Verdict
from tests.support.long import LONG, every
from tests.support.torch_settings import default_dtype

SAMPLES = 30 if LONG else 2
DTYPES = (
    [torch.float32, torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.float64, torch.uint8, torch.float16]
    if LONG
    else [torch.float32, torch.int64]
)

# Where FakeTensor is wrong: the rule gives what a real run gives.
FAKE_DIFFERS = {
    "div": "floor division by a tensor without dimensions: FakeTensor's decomposition forgets the layout of the other",
    "floor_divide": "as div",
    "logical_and": "FakeTensor sorts the dimensions of a broadcast result in another order",
    "logical_or": "as logical_and",
    "logical_xor": "as logical_and",
    "copysign": "FakeTensor's decomposition ends with `where`, whose condition comes from the second operand",
    "logaddexp": "as logical_and",
    "logaddexp2": "as logical_and",
    "xlogy": "FakeTensor's decomposition ends with `where`, whose condition comes first in deciding the layout",
    "flip": "as empty_like",
    "fliplr": "as empty_like",
    "flipud": "as empty_like",
    "nn.functional.batch_norm": "FakeTensor keeps any dense layout, PyTorch only channels last",
    "nn.functional.nll_loss": "FakeTensor lays out the loss of each element as the target, PyTorch contiguously",
    "nn.functional.one_hot": "as nll_loss",
    "diff": "the stride of a single element, where nothing is subtracted",
    "roll": "FakeTensor forgets channels last",
    "tensor_split": "at places that a tensor holds: FakeTensor fails where it should say that it can't know",
    "nn.functional.dropout": "in inference mode FakeTensor makes a new tensor, also where nothing is dropped",
    "nn.functional.dropout2d": "as dropout",
    "nn.functional.dropout3d": "as dropout",
    "nn.functional.hardtanh": "the stride of a single element",
    "nn.functional.relu6": "as hardtanh",
    "pow": "the stride of a single element, to the power of one",
    "__rpow__": "as pow",
    "nn.functional.threshold": "the stride of a single element",
    "mul": "the stride of a single element, in arithmetic with a number",
    "ldexp": "FakeTensor computes the power of two in float32, PyTorch in the default float type",
    "nn.functional.multi_head_attention_forward": "the stride of a single element, in arithmetic with a number",
    "empty_like": "strides of a tensor without elements: FakeTensor computes new ones, PyTorch keeps them",
    "zeros_like": "as empty_like",
    "ones_like": "as empty_like",
    "full_like": "as empty_like",
    "rand_like": "as empty_like",
    "randint_like": "as empty_like",
    "heaviside": "as logical_and",
    "einsum": "the stride of a single element, in a product by a matrix",
    "randn_like": "as empty_like",
}
# In inference mode FakeTensor makes views through operations that forget that their base requires grad.
FAKE_DIFFERS_IN_INFERENCE = dict.fromkeys(
    [
        "broadcast_to",
        "svd_lowrank",
        "expand_as",
        "reshape",
        "reshape_as",
        "view_as",
        "flatten",
        "unflatten",
        "movedim",
        "ravel",
        "tensor_split",
        "hsplit",
        "vsplit",
        "dsplit",
        "broadcast_tensors",
        "linalg.diagonal",
        "meshgrid",
    ],
    "a view of a tensor that requires grad, in inference mode",
)

# Operations that have to have a rule for at least one of their samples.
COVERED = set(rule_coverage.LISTED)


SAMPLER = ThreadPoolExecutor(1)
OPERATIONS = [
    op
    for op in op_db
    if any(_testing.shape_has_rule(form) or against_fake.is_wrapper(form) for form in against_fake.forms(op))
]


def samples(
    op: Any, dtype: torch.dtype, requires_grad: bool, count: int = SAMPLES, inference: bool = False
) -> list[tuple[tuple, dict]]:
    # In a thread of its own: each sample notes the stack under which it was made, and pytest's is deep.
    return SAMPLER.submit(draw_samples, op, dtype, requires_grad, count, inference).result()


def draw_samples(
    op: Any, dtype: torch.dtype, requires_grad: bool, count: int, inference: bool
) -> list[tuple[tuple, dict]]:
    with warnings.catch_warnings(), torch.inference_mode(inference):
        warnings.simplefilter("ignore")
        try:
            # Every n-th of a larger number of samples covers more forms than the first ones.
            drawn = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), 5 * count))
            drawn = drawn[: max(count - 1, 1)] + drawn[-1:] if len(drawn) > count else drawn
        except Exception:  # samples that can't be created here are skipped
            return []
    return [((sample.input, *sample.args), sample.kwargs) for sample in drawn]


def draw_errors(op: Any) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return list(op.error_inputs("cpu"))
        except Exception:
            return []


def verdicts(op: Any, calls: list[tuple[tuple, dict]]) -> Iterator[tuple[Any, tuple, dict, Verdict]]:
    for args, kwargs in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for form in against_fake.forms(op):
                if _testing.shape_has_rule(form):
                    yield form, args, kwargs, against_fake.compare(form, args, kwargs)
                elif against_fake.is_wrapper(form):
                    for inner in against_fake.calls_inside(form, args, kwargs):
                        if _testing.shape_has_rule(inner[0]):
                            yield *inner, against_fake.compare(*inner)


class Tally:
    """Counts verdicts and collects what must not be."""

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known
        self.counts: collections.Counter[str] = collections.Counter()
        self.with_rule: set[str] = set()
        self.wrong: list[str] = []

    def add(self, op: Any, form: Any, args: tuple, kwargs: dict, verdict: Verdict) -> None:
        self.counts[verdict.kind] += 1
        if verdict.kind != "no rule":
            self.with_rule.add(op.name)
        if verdict.kind == "differs" or (verdict.kind == "fake differs from eager" and op.name not in self.known):
            self.wrong.append(f"{op.name}: {against_fake.show(form, args, kwargs)}: {verdict.kind}: {verdict.detail}")

    def check(self) -> None:
        assert not self.wrong, f"{len(self.wrong)} answers are wrong:\n" + "\n".join(self.wrong[:40])


PARTS = 16 if LONG else 4


@pytest.mark.parametrize("part", range(PARTS))
def test_samples_of_the_operator_database(part: int) -> None:
    tally = Tally(FAKE_DIFFERS)
    # All variants of an operation in one part.
    names = sorted({op.name for op in OPERATIONS})[part::PARTS]
    operations = [op for op in OPERATIONS if op.name in names]
    for op in operations:
        for dtype in [one for one in DTYPES if op.supports_dtype(one, "cpu")] or [torch.complex64]:
            for requires_grad in (False, True):
                if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
                    continue
                takes_all = LONG and dtype in (torch.float32, torch.int64)
                calls = samples(op, dtype, requires_grad, 2000 if takes_all else SAMPLES)
                others = calls[:SAMPLES] if LONG else calls[:1]
                calls = calls + [other for call in others for other in against_fake.relayouts(*call)]
                for form, args, kwargs, verdict in verdicts(op, calls):
                    tally.add(op, form, args, kwargs, verdict)
                for form, args, kwargs in outs(op, calls[:SAMPLES]) if not requires_grad else ():
                    tally.add(op, form, args, kwargs, against_fake.compare(form, args, kwargs))
    tally.check()
    assert tally.counts["agrees"] > 1000
    missing = COVERED.intersection(names) - tally.with_rule
    assert not missing, f"no rule answered for {sorted(missing)}"


def outs(op: Any, calls: list[tuple[tuple, dict]]) -> Iterator[tuple[Any, tuple, dict]]:
    for args, kwargs in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield from rule_coverage.out_calls(op, args, kwargs)


MODES = {
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
    "inference tensors": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "float64 by default": lambda: default_dtype(torch.float64),
}


@pytest.mark.parametrize("mode", MODES)
def test_other_modes(mode: str) -> None:
    entered = MODES[mode]
    inside = mode == "inference tensors"
    tally = Tally(FAKE_DIFFERS | (FAKE_DIFFERS_IN_INFERENCE if mode == "inference" else {}))
    for op in every(3, OPERATIONS, list(MODES).index(mode)):
        # Autocast also affects tensors that have its dtype already.
        for dtype in (torch.float32, torch.bfloat16 if mode == "autocast" else torch.int64):
            if not op.supports_dtype(dtype, "cpu"):
                continue
            calls = samples(op, dtype, dtype.is_floating_point and not inside, 6 if LONG else 1, inside)
            with entered():
                for form, args, kwargs, verdict in verdicts(op, calls):
                    tally.add(op, form, args, kwargs, verdict)
    tally.check()
    assert tally.counts["agrees"] > 100


@pytest.mark.parametrize("turn, mode", list(enumerate(["plain", "autocast", "grad"])))
def test_what_is_called_behind(turn: int, mode: str) -> None:
    """The native operations that PyTorch's Python functions call have their own rules."""
    tally = Tally(FAKE_DIFFERS)
    for op in every(2, OPERATIONS, turn):
        for dtype in (torch.float32, torch.bfloat16 if mode == "autocast" else torch.int64):
            if not op.supports_dtype(dtype, "cpu"):
                continue
            for args, kwargs in samples(op, dtype, mode == "grad" and dtype.is_floating_point, 12 if LONG else 1):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    inside = against_fake.calls_behind(op.op, args, kwargs)
                    with torch.autocast("cpu", torch.bfloat16, enabled=mode == "autocast"):
                        for inner in inside:
                            tally.add(op, *inner, against_fake.compare(*inner))
    tally.check()
    assert tally.counts["agrees"] > 300


def test_what_pytorch_rejects_has_no_rule() -> None:
    rejected = 0
    wrong: list[str] = []
    for op in OPERATIONS:
        if op.error_inputs_func is None:
            continue
        for error in SAMPLER.submit(draw_errors, op).result():
            sample = error.sample_input
            args = (sample.input, *sample.args)
            real = against_fake.run_real(op.op, args, sample.kwargs)
            if not isinstance(real, Exception):
                continue
            rejected += 1
            try:
                answer = _testing.shape_infer(op.op, args, sample.kwargs, "rule")
            except Exception as raised:  # noqa: BLE001
                pytest.fail(f"{against_fake.show(op.op, args, sample.kwargs)} raised {raised!r} in a rule")
            if answer is None:
                continue
            # Arguments that are invalid because of their data are accepted by FakeTensor and by the rule.
            verdict = against_fake.compare(op.op, args, sample.kwargs)
            if verdict.kind != "agrees":
                wrong.append(f"{against_fake.show(op.op, args, sample.kwargs)}: {verdict.detail}")
    assert not wrong, "\n".join(wrong)
    assert rejected > 150
