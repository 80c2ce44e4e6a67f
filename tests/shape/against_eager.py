"""Compares the result of `infer` for a call with the results of kernels on real tensors.

FakeTensor is the oracle of the rules, and kernels are the oracle of both: where the two disagree about strides, dtypes
or aliasing the program sees what the kernel made.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from stator import _testing
from tests.shape import against_fake
from tests.shape.against_fake import Target


@dataclasses.dataclass
class Verdict:
    """The outcome of one call."""

    kind: str  # "agrees", "differs", "fails when run", "not captured", "refused by both"
    by: str = ""  # "rule" or "fallback"
    fields: tuple[str, ...] = ()
    detail: str = ""


def real_run(target: Target, args: tuple, kwargs: dict) -> tuple[Any, list[torch.Tensor], list[dict], list[int]]:
    """The result of the call on fresh inputs, those inputs, their metadata and versions before."""
    with torch.inference_mode(False):
        args, kwargs = against_fake.copy_inputs(args, kwargs)
    tensors = against_fake.flatten_tensors(args, kwargs)
    before = [_testing.tensor_meta(tensor) for tensor in tensors]
    versions = [-1 if tensor.is_inference() else tensor._version for tensor in tensors]
    result = against_fake.call(target, args, kwargs)
    return result, tensors, before, versions


def base_of(tensor: torch.Tensor, tensors: list[torch.Tensor]) -> int:
    """The argument that a result is a view of; -1 for new memory, and for an argument itself."""
    if any(tensor is other for other in tensors) or tensor.layout != torch.strided:
        return -1
    identity = storage(tensor)
    return next((i for i, other in enumerate(tensors) if storage(other) == identity), -1)


def storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else -id(tensor)


def parts_of(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size) else [value]


def bases_said(answer: dict, parts: int) -> list[int]:
    return list(answer["views_of"]) or [answer["view_of"]] * parts


def changed_fields(said: Any, real: Any) -> Iterator[str]:
    """Which parts of two descriptions differ."""
    if said[0] != real[0]:
        yield "kind"
    elif said[0] == "tensor":
        for field, value in said[1].items():
            if value != real[1][field] and not is_meaningless(field, real[1]):
                yield field
        if said[2] != real[2]:
            yield "same object"
    elif said[0] in ("tuple", "list"):
        if said[2] != real[2]:
            yield "class"
        if len(said[1]) != len(real[1]):
            yield "length"
        for one, other in zip(said[1], real[1]):
            yield from changed_fields(one, other)
    elif said != real:
        yield "constant"


def is_meaningless(field: str, meta: dict) -> bool:
    return field == "wrapped_number" and meta["size"] != ()


def compare(target: Target, args: tuple, kwargs: dict) -> Verdict:
    try:
        rule = _testing.shape_infer(target, args, kwargs, "rule")
        by = "fallback" if rule is None else "rule"
        answer = rule or _testing.shape_infer(target, args, kwargs)
    except Exception as error:  # noqa: BLE001
        return refused(target, args, kwargs, f"{type(error).__name__}: {str(error)[:150]}")
    if answer["status"] != "ok":
        return refused(target, args, kwargs, answer["text"], by)
    try:
        result, tensors, before, versions = real_run(target, args, kwargs)
    except Exception as error:  # noqa: BLE001
        return Verdict("fails when run", by, (), f"{answer['text']} | eager {type(error).__name__}: {str(error)[:150]}")
    real = against_fake.describe_real(result, tensors)
    fields = set(changed_fields(answer["result"], real))
    if answer["result"][0] != "constant":
        parts = parts_of(result)
        said = bases_said(answer, len(parts))
        found = [base_of(part, tensors) if isinstance(part, torch.Tensor) else -1 for part in parts]
        for part, one, other in zip(parts, said, found):
            if one != other and isinstance(part, torch.Tensor) and not same_base(one, other, tensors):
                fields.add("view of")
    for i, tensor in enumerate(tensors):
        now = _testing.tensor_meta(tensor)
        expected = answer["changed"].get(i, before[i])
        fields.update("argument's " + field for field in now if now[field] != expected[field])
        if (
            versions[i] >= 0
            and tensor._version != versions[i]
            and i not in answer["written"]
            and i not in answer["changed"]
        ):
            fields.add("written")
    if not fields:
        return Verdict("agrees", by)
    return Verdict("differs", by, tuple(sorted(fields)), f"{answer['text']} | eager {against_fake.short(real)}")


def same_base(one: int, other: int, tensors: list[torch.Tensor]) -> bool:
    return one >= 0 and other >= 0 and storage(tensors[one]) == storage(tensors[other])


def refused(target: Target, args: tuple, kwargs: dict, words: str, by: str = "") -> Verdict:
    try:
        real_run(target, args, kwargs)
    except Exception:  # noqa: BLE001
        return Verdict("refused by both", by)
    return Verdict("not captured", by, (), words)


# Layouts in memory --------------------------------------------------------------------------------------------------


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(0, -1).contiguous().transpose(0, -1) if tensor.dim() > 1 else tensor


def inner_transposed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.transpose(-2, -1).contiguous().transpose(-2, -1) if tensor.dim() > 2 else tensor


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor


def with_holes(tensor: torch.Tensor) -> torch.Tensor:
    wide = tensor.new_empty([*tensor.shape, 2])
    return wide[..., 1].copy_(tensor)


def sliced(tensor: torch.Tensor) -> torch.Tensor:
    """A part of a larger tensor, away from its borders."""
    if tensor.dim() == 0:
        return torch.stack([tensor, tensor])[1]
    wide = tensor.new_zeros([size + 2 for size in tensor.shape])
    view = wide[tuple(slice(1, size + 1) for size in tensor.shape)]
    return view.copy_(tensor)


def expanded(tensor: torch.Tensor) -> torch.Tensor:
    """The first row, over and over, without copies."""
    return tensor[:1].expand(tensor.shape) if tensor.dim() > 0 and tensor.shape[0] > 1 else tensor


def odd_single(tensor: torch.Tensor) -> torch.Tensor:
    """Arbitrary strides of dimensions with one element."""
    if 1 not in tensor.shape:
        return tensor
    strides = [7 if size == 1 else stride for size, stride in zip(tensor.shape, tensor.stride())]
    return tensor.contiguous().as_strided(tensor.shape, strides) if tensor.is_contiguous() else tensor


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": transposed,
    "inner transposed": inner_transposed,
    "channels last": channels_last,
    "with holes": with_holes,
    "sliced": sliced,
    "expanded": expanded,
    "odd strides of one": odd_single,
}


def laid_out(tensor: torch.Tensor, layout: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    if tensor.layout != torch.strided or type(tensor) is not torch.Tensor:
        return tensor
    with torch.no_grad(), torch.inference_mode(False):
        try:
            changed = layout(tensor.detach())
        except RuntimeError:
            return tensor
    if changed.stride() == tensor.stride() and changed.storage_offset() == tensor.storage_offset():
        return tensor
    return changed.detach().requires_grad_(tensor.requires_grad)


def relayouts(args: tuple, kwargs: dict, names: list[str]) -> Iterator[tuple[tuple, dict]]:
    """The same call with its tensors laid out in memory in other ways: all of them, or the first alone."""
    for name in names:
        seen: dict[int, torch.Tensor] = {}

        def change(tensor: torch.Tensor, layout: Callable = LAYOUTS[name]) -> torch.Tensor:
            return laid_out(tensor, layout)

        changed = against_fake.replaced(args, change, seen)
        keywords = {key: against_fake.replaced(value, change, seen) for key, value in kwargs.items()}
        before, after = against_fake.flatten_tensors(args, kwargs), against_fake.flatten_tensors(changed, keywords)
        if all(one is other for one, other in zip(before, after)):
            continue
        yield changed, keywords
        if len(before) > 1 and isinstance(args[0], torch.Tensor) and (first := change(args[0])) is not args[0]:
            yield (first, *args[1:]), kwargs


def emptied(args: tuple, kwargs: dict) -> Iterator[tuple[tuple, dict]]:
    """The same call without elements in the first dimension."""

    def empty(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dim() == 0 or type(tensor) is not torch.Tensor or tensor.layout != torch.strided:
            return tensor
        return tensor.detach()[:0].requires_grad_(tensor.requires_grad)

    seen: dict[int, torch.Tensor] = {}
    yield against_fake.replaced(args, empty, seen), kwargs


# `out=` -----------------------------------------------------------------------------------------------------------------


def out_calls(op: Any, args: tuple, kwargs: dict) -> Iterator[tuple[Any, tuple, dict]]:
    """The function with `out=`: as it should be, of another layout, and to be resized."""
    if not op.supports_out or "out" in kwargs:
        return
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = op.op(*args, **kwargs)
    except Exception:  # noqa: BLE001  refused, as it should be without `out=` too
        return
    tensors = parts_of(result)
    if not tensors or not all(isinstance(part, torch.Tensor) for part in tensors):
        return

    def with_out(make: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Any, tuple, dict]:
        made = tuple(make(part) for part in tensors)
        return op.op, args, {**kwargs, "out": made[0] if isinstance(result, torch.Tensor) else made}

    yield with_out(torch.empty_like)
    yield with_out(lambda part: laid_out(torch.empty_like(part), transposed))
    yield with_out(lambda part: laid_out(torch.empty_like(part), sliced))
    yield with_out(lambda part: part.new_empty(0))
