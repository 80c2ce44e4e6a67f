"""Answers with symbolic sizes: evaluated at other sizes that satisfy its relations, an answer is what FakeTensor says
there, and sizes that PyTorch rejects satisfy no relations. The samples are those of PyTorch's operator database, with
each size of at least 2 a symbol of its own, and a second time also each int argument of at least 2. Operations without a
rule are asked of FakeTensor with symbols.

By default a sample or two of each operation; STATOR_LONG_TESTS=1 takes all.
"""

from __future__ import annotations

import collections
import itertools
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

from stator import _testing
from tests.shape import against_fake, rule_coverage
from tests.support.long import LONG

LISTED = [op for op in op_db if op.name in rule_coverage.LISTED]
# For sizes that don't fit, these kernels write where they should not, instead of raising.
UNCHECKED = ("lu_unpack", "segment_reduce")
OTHERS = [
    op
    for op in op_db
    if op.name not in (*rule_coverage.LISTED, *UNCHECKED) and not op.name.startswith("jiterator")  # for CUDA alone
]
GROUPS = 16
CALLS = 60 if LONG else 2  # of an operation
LARGEST = 1 << 16  # elements of a tensor that is made
FIELDS = ("status", "written", "view_of", "views_of", "random", "side_effect")


def assignments(hints: list[int], seed: int) -> Iterator[list[int]]:
    """Other numbers: all at once, where those that were equal stay equal or not; those of one number; two; a single
    one, which shows what an answer takes for granted of it."""
    chosen = random.Random(seed)
    yield [hint + 1 for hint in hints]
    yield [2 * hint for hint in hints]
    together = {hint: chosen.randrange(2, 12) for hint in set(hints)}
    yield [together[hint] for hint in hints]
    for _ in range(3):
        yield [hint if chosen.random() < 0.6 else chosen.randrange(2, 12) for hint in hints]
    for changing in some(chosen, sorted(set(hints))):
        yield [changed(chosen, changing) if hint == changing else hint for hint in hints]
    for place in some(chosen, list(range(len(hints)))):
        yield [changed(chosen, hint) if i == place else hint for i, hint in enumerate(hints)]
    for one, other in some(chosen, list(itertools.combinations(range(len(hints)), 2))):
        yield [changed(chosen, hint) if i in (one, other) else hint for i, hint in enumerate(hints)]


def some(chosen: random.Random, items: list) -> list:
    return items if LONG or len(items) <= 2 else chosen.sample(items, 2)


def changed(chosen: random.Random, hint: int) -> int:
    return max(2, chosen.choice([2 * hint, 3 * hint, hint + 1, hint - 1, hint // 2, hint + 8]))


def evaluated(value: Any, sizes: dict[str, int]) -> Any:
    """A description with the expressions in it evaluated."""
    if isinstance(value, dict):
        keys = {"size", "stride", "storage_offset"}
        return {
            key: numbers(item, sizes) if key in keys else evaluated(item, sizes)
            for key, item in value.items()
            if key != "text"
        }
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(evaluated(item, sizes) for item in value)
    return value


def numbers(value: Any, sizes: dict[str, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(numbers(item, sizes) for item in value)
    return eval(value, {}, sizes) if isinstance(value, str) else value  # noqa: S307


class Replaced:
    """Arguments with other tensors, and with other ints where these are symbols, in the order of the engine."""

    def __init__(self, tensors: dict[int, torch.Tensor], ints: list[int]) -> None:
        self.tensors, self.ints = tensors, iter(ints)
        self.has_ints = bool(ints)

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensors[id(value)]
        if type(value) is int and self.has_ints and 2 <= value < 1 << 30:
            return next(self.ints)
        if isinstance(value, (tuple, list)):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(*(self.of(part) for part in (value.start, value.stop, value.step)))
        return value


def tensor_of(meta: dict, like: torch.Tensor) -> torch.Tensor:
    made = torch.empty_strided(meta["size"], meta["stride"], dtype=like.dtype)
    return made.zero_().requires_grad_(like.requires_grad)


class Tally:
    def __init__(self, way: str = "rule") -> None:
        self.way = way
        self.counts: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []

    def try_call(self, target: Any, args: tuple, kwargs: dict, seed: int, with_ints: bool) -> None:
        tensors = against_fake.flatten_tensors(args, kwargs)
        if any(not one.is_leaf or type(one) is not torch.Tensor or one.storage_offset() for one in tensors):
            return
        found = _testing.shape_infer_dynamic(target, args, kwargs, with_ints, self.way)
        if found is None:
            self.counts["no answer"] += 1
            return
        answer, metas, kinds, relations, conditions = found
        hints = [hint for hint, _ in kinds]
        if with_ints and all(is_size for _, is_size in kinds):
            return  # as it was without
        if answer["status"] != "ok":
            self.counts["depends on contents"] += 1
            return
        for sizes in assignments(hints, seed) if hints else ():
            symbols = {f"s{i}": size for i, size in enumerate(sizes)}
            holds = all(eval(relation, {}, symbols) for relation in relations)  # noqa: S307
            if holds != _testing.relations_hold(conditions, sizes):
                self.wrong.append(f"the guard program computes {relations} for {sizes} as {not holds}")
            if not holds:
                self.counts["relations fail"] += 1
                continue
            others = [evaluated(meta, symbols) for meta in metas]
            if any(torch.Size(other["size"]).numel() > LARGEST for other in others):
                continue
            ints = [size for size, (_, is_size) in zip(sizes, kinds, strict=True) if not is_size]
            by_tensor = dict(zip(tensors, others, strict=True))
            self.compare(target, args, kwargs, answer, by_tensor, ints, symbols, relations)

    def compare(self, target, args, kwargs, answer, others, ints, symbols, relations) -> None:
        replaced = Replaced({id(tensor): tensor_of(meta, tensor) for tensor, meta in others.items()}, ints)
        call = target, replaced.of(args), replaced.of(kwargs)
        where = f"{against_fake.show(*call)} from {against_fake.show(target, args, kwargs)}, relations {relations}"
        try:
            expected = _testing.shape_infer(*call, "fallback")
        except Exception as error:  # the relations should have excluded these sizes
            self.wrong.append(f"{where}: PyTorch raises {error}"[:600])
            return
        if expected["status"] == "unsupported":
            self.counts["FakeTensor can't"] += 1
            return
        self.counts["compared"] += 1
        actual = evaluated(answer, symbols)
        fields = [field for field in (*FIELDS, "result", "changed") if actual[field] != evaluated(expected, {})[field]]
        if fields:
            details = "; ".join(f"{field}: {actual[field]} but {expected[field]}" for field in fields)
            self.wrong.append(f"{where}: {details}"[:900])


def dtype_of(op: Any) -> torch.dtype | None:
    """Not all operations take floats."""
    dtypes = (torch.float32, torch.int64, torch.bool, torch.complex64)
    return next((dtype for dtype in dtypes if op.supports_dtype(dtype, "cpu")), None)


@pytest.mark.parametrize("with_ints", [False, True], ids=["sizes", "sizes and ints"])
@pytest.mark.parametrize("number", range(GROUPS))
def test_answers_hold_at_other_sizes(number: int, with_ints: bool) -> None:
    tally = Tally()
    for op in LISTED[number::GROUPS]:
        try_samples(tally, op, CALLS, with_ints)
    check(tally)
    assert tally.counts["compared"] > (1 if with_ints else 12), tally.counts


@pytest.mark.parametrize("number", range(GROUPS))
def test_answers_without_a_rule_hold_at_other_sizes(number: int) -> None:
    tally = Tally("fallback")
    for op in OTHERS[number :: GROUPS * (1 if LONG else 2)]:
        try_samples(tally, op, 8 if LONG else 1, with_ints=False)
    check(tally)
    assert tally.counts["compared"], tally.counts


def try_samples(tally: Tally, op: Any, count: int, with_ints: bool) -> None:
    dtype = dtype_of(op)
    if dtype is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        calls = list(rule_coverage.calls(op, dtype, False))
        step = max(1, len(calls) // count)
        for seed, (form, args, kwargs) in enumerate(calls[::step][:count]):
            tally.try_call(form, args, kwargs, seed, with_ints)


def check(tally: Tally) -> None:
    assert not tally.wrong, f"{len(tally.wrong)} answers are wrong, {dict(tally.counts)}:\n" + "\n".join(
        tally.wrong[:30]
    )
