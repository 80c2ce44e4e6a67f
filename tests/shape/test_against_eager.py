"""Inferred metadata compared with the results of kernels, with the samples of PyTorch's operator database in all forms
and layouts.

By default a sample or two of each operation; STATOR_LONG_TESTS=1 takes more, in more dtypes.
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
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db

from tests.shape import against_eager, against_fake
from tests.shape.against_eager import Verdict
from tests.support.long import LONG

SAMPLES = 20 if LONG else 1
DTYPES = [torch.float32, torch.int64, torch.complex64, torch.bool, torch.bfloat16]
PARTS = 16
SAMPLER = ThreadPoolExecutor(1)

# With an `out=` that is not contiguous, PyTorch's kernel writes behind its end.
UNSAFE_OUT = {"tril", "triu"}
LAYOUTS = list(against_eager.LAYOUTS)


def samples(op: Any, dtype: torch.dtype, requires_grad: bool) -> list[tuple[tuple, dict]]:
    # In a thread of its own: each sample notes the stack under which it was made, and pytest's is deep.
    return SAMPLER.submit(draw_samples, op, dtype, requires_grad).result()


def draw_samples(op: Any, dtype: torch.dtype, requires_grad: bool) -> list[tuple[tuple, dict]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            drawn = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=requires_grad), 4 * SAMPLES))
        except Exception:  # samples that can't be created here are skipped
            return []
    drawn = drawn[:SAMPLES] + drawn[-1:] if len(drawn) > SAMPLES else drawn
    calls = [((sample.input, *sample.args), sample.kwargs) for sample in drawn]
    return [call for call in calls if all(one.layout == torch.strided for one in against_fake.flatten_tensors(call))]


def calls_of(op: Any, dtype: torch.dtype, requires_grad: bool) -> Iterator[tuple[Any, tuple, dict]]:
    calls = samples(op, dtype, requires_grad)
    layouts = LAYOUTS if LONG or (dtype == torch.float32 and not requires_grad) else LAYOUTS[:2]
    others = [other for call in calls for other in against_eager.relayouts(*call, layouts)]
    empty = [other for call in calls[:1] for other in against_eager.emptied(*call)]
    for args, kwargs in calls + others + empty:
        for form in against_fake.forms(op):
            if against_fake.is_wrapper(form):
                yield from against_fake.calls_inside(form, args, kwargs)
            else:
                yield form, args, kwargs
    if not requires_grad and dtype == torch.float32 and op.name not in UNSAFE_OUT:
        for args, kwargs in calls:
            yield from against_eager.out_calls(op, args, kwargs)


class Tally:
    """Counts verdicts and collects what must not be."""

    def __init__(self) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []

    def add(self, call: tuple[Any, tuple, dict], verdict: Verdict) -> None:
        self.counts[verdict.kind] += 1
        if verdict.kind == "differs":
            self.wrong.append(
                f"{against_fake.show(*call)}: {verdict.by} in {', '.join(verdict.fields)}: {verdict.detail}"
            )

    def check(self) -> None:
        assert not self.wrong, f"{len(self.wrong)} answers are wrong:\n" + "\n".join(self.wrong[:40])


@pytest.mark.parametrize("part", range(PARTS))
def test_samples_of_the_operator_database(part: int) -> None:
    tally = Tally()
    names = sorted({op.name for op in op_db})[part::PARTS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, op in enumerate(op for op in op_db if op.name in names):
            dtypes = [one for one in DTYPES if op.supports_dtype(one, "cpu")]
            for dtype in dtypes if LONG else dtypes[: 1 + number % 2]:
                for requires_grad in (False, True) if dtype == torch.float32 else (False,):
                    for call in calls_of(op, dtype, requires_grad):
                        tally.add(call, against_eager.compare(*call))
    tally.check()
    assert tally.counts["agrees"] > 500


def image(*sizes: int) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return torch.rand(sizes).contiguous(memory_format=formats[len(sizes)])


def lines(*sizes: int) -> torch.Tensor:
    return torch.rand(sizes).transpose(1, 2).contiguous().transpose(1, 2)


def idle(*sizes: int) -> torch.Tensor:
    """Strides of dimensions with one element are anything."""
    tensor = torch.rand(sizes)
    return tensor.as_strided(sizes, [7 if size == 1 else step for size, step in zip(sizes, tensor.stride())])


WHERE_FAKE_TENSOR_IS_WRONG = {
    "channel_shuffle": lambda: (F.channel_shuffle, (image(2, 6, 4, 4), 3), {}),
    "max_unpool2d": lambda: (F.max_unpool2d, (image(1, 2, 2, 2), image(1, 2, 2, 2).long(), 2), {}),
    "native_batch_norm": lambda: (
        torch.native_batch_norm,
        (torch.rand(4, 3, 5).transpose(0, 2), *(torch.ones(3) for _ in range(4)), True, 0.1, 1e-5),
        {},
    ),
    "ldexp": lambda: (torch.ldexp, (torch.rand(5, 1, 10).permute(2, 1, 0), torch.rand(5, 10).T), {}),
    "angle": lambda: (torch.angle, (torch.rand(4, 3, dtype=torch.complex64).T,), {}),
    "reflect an image": lambda: (F.pad, (image(2, 3, 4, 5), (1, 1, 1, 1, 1, 1)), {"mode": "reflect"}),
    "replicate a volume": lambda: (F.pad, (image(2, 3, 4, 5, 6), (1, 1, 1, 1, 1, 1)), {"mode": "replicate"}),
    "reflection_pad3d": lambda: (torch._C._nn.reflection_pad3d, (image(2, 3, 4, 5), (1, 1, 1, 1, 1, 1)), {}),
    "empty rms_norm": lambda: (F.rms_norm, (torch.rand(0, 1), (1,), torch.rand(1)), {}),
    "rms_norm": lambda: (F.rms_norm, (idle(1, 4, 8), (8,)), {}),
    "log_sigmoid": lambda: (F.logsigmoid, (torch.rand(3, 4).T,), {}),
    "rrelu": lambda: (F.rrelu, (image(2, 3, 4, 5),), {}),
    "lines averaged": lambda: (F.avg_pool1d, (lines(2, 4, 8), 2), {}),
    "lines with gradient": lambda: (F.max_pool1d, (lines(2, 4, 8).requires_grad_(), 2), {}),
    "lines without gradient": lambda: (F.max_pool1d, (lines(2, 4, 8), 2), {}),
    "lines adapted": lambda: (F.adaptive_max_pool1d, (lines(2, 4, 8), 2), {}),
    "lines resampled": lambda: (F.interpolate, (lines(2, 4, 8),), {"scale_factor": 2, "mode": "area"}),
    "a whole volume": lambda: (F.adaptive_avg_pool3d, (image(2, 4, 3, 3, 3), 1), {}),
    "pixel_unshuffle of nothing": lambda: (F.pixel_unshuffle, (torch.rand(0, 4, 6, 8), 2), {}),
    "huber_loss": lambda: (F.huber_loss, (idle(1, 4), idle(1, 4)), {"reduction": "none"}),
    "prelu": lambda: (F.prelu, (idle(1, 4, 8), torch.rand(4)), {}),
    "abs": lambda: (torch.abs, (torch.view_as_complex(torch.rand(1, 1, 2, 2))[..., :1],), {}),
    "isfinite": lambda: (torch.isfinite, (torch.ones(2, 0, 3, 2, dtype=torch.int64)[..., 1],), {}),
    "operands of two types": lambda: (
        torch.div,
        (idle(1, 3, 4, 5).to(torch.complex64), torch.rand(1, 1, 4, 5).expand(1, 3, 4, 5)),
        {},
    ),
    "out= of a decomposition": lambda: (
        torch.linalg.qr,
        (torch.rand(3, 3),),
        {"out": (torch.empty(0), torch.empty(0))},
    ),
    "out= that is written": lambda: (
        torch.linalg.matrix_rank,
        (torch.rand(3, 3),),
        {"out": torch.empty((), dtype=torch.int64)},
    ),
    "conjugate": lambda: (torch.vdot, tuple(torch.rand(2, 3, dtype=torch.complex64).conj()), {}),
    "a function of aten": lambda: (torch.ops.aten.channel_shuffle, (image(2, 6, 4, 4), 3), {}),
    "offset of a scatter": lambda: (torch.select_scatter, (torch.rand(3, 4, 2)[..., 1], torch.rand(4), 0, 1), {}),
}


@pytest.mark.parametrize("name", WHERE_FAKE_TENSOR_IS_WRONG)
def test_the_kernel_is_right(name: str) -> None:
    verdict = against_eager.compare(*WHERE_FAKE_TENSOR_IS_WRONG[name]())
    # If FakeTensor is wrong about sizes, there is no answer.
    assert verdict.kind == ("not captured" if name == "pixel_unshuffle of nothing" else "agrees"), verdict


def test_mixed_types_in_mixed_layouts() -> None:
    tally = Tally()
    base = torch.ones(2, 3, 4)
    layouts = [
        base,
        base.transpose(0, 2).contiguous().transpose(0, 2),
        torch.ones(3, 4).expand(2, 3, 4),
        torch.ones(2, 1, 4).expand(2, 3, 4),
        torch.ones(2, 3, 8)[..., ::2],
    ]
    for one, other in itertools.product(layouts, layouts):
        for types in ((torch.float32, torch.bool), (torch.int64, torch.float32), (torch.bfloat16, torch.float32)):
            pair = [
                torch.ones(24, dtype=dtype).repeat(2).as_strided(tensor.shape, tensor.stride())
                for tensor, dtype in zip((one, other), types)
            ]
            for target in (torch.mul, torch.eq, torch.atan2, torch.maximum):
                for args in (tuple(pair), tuple(reversed(pair))):
                    tally.add((target, args, {}), against_eager.compare(target, args, {}))
    tally.check()
    assert tally.counts["agrees"] == 600
