"""Runs an operation once on real tensors with the metadata of given FakeTensors.

FakeTensors often accept dtypes that no kernel accepts, or arguments of different dtypes; the graph would then raise in
its middle, or not at all if the result is unused. FakeTensors also sometimes predict another memory layout than the
kernel's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

# No trial run with larger arguments: the answer of FakeTensor is used.
MOST_ELEMENTS = 1 << 22

# These pass integers to LAPACK as indices, which count from 1 and are not checked.
TRUST_PIVOTS = ("ldl_solve", "lu_solve", "lu_unpack")

# The default generator belongs to the program, and to all of its threads.
_own_generator = torch.Generator()

# The result, the tensors that replaced the fakes, and which of those were written to.
Outcome = tuple[Any, list[torch.Tensor], list[int]]


def attempt(
    target: Callable | str, arguments: tuple[Any, ...], keywords: dict[str, Any], fakes: Sequence[FakeTensor]
) -> Outcome | str | None:
    """The outcome; or the text of the error if the operation rejects such arguments; or None if it was not tried, or
    failed because of the data. A method is given by its name. `fakes` are the FakeTensors among the arguments.
    """
    if sum(_memory(fake) for fake in fakes) > MOST_ELEMENTS:
        return None
    with _kept_generators({fake.device for fake in fakes if fake.device.type not in ("cpu", "meta")}):
        # 0 is a valid index for most tensors, but not a valid divisor: then 1 is tried.
        if any(name in str(getattr(target, "__name__", target)) for name in TRUST_PIVOTS):
            return _try(target, arguments, keywords, fakes, 1)
        first = _try(target, arguments, keywords, fakes, 0)
        if not isinstance(first, str):
            return first
        second = _try(target, arguments, keywords, fakes, 1)
        return first if isinstance(second, str) else second


@contextmanager
def _kept_generators(devices: set[torch.device]) -> Iterator[None]:
    """Leaves the random state of these devices as it was; the engine does that for the CPU."""
    kept = [(device, torch.get_device_module(device).get_rng_state(device)) for device in devices]
    try:
        yield
    finally:
        for device, state in kept:
            torch.get_device_module(device).set_rng_state(state, device)


def _try(
    target: Callable | str,
    arguments: tuple[Any, ...],
    keywords: dict[str, Any],
    fakes: Sequence[FakeTensor],
    integer: int,
) -> Outcome | str | None:
    try:
        reals = [_filled(fake, integer) for fake in fakes]
        versions = _versions(reals)
        made = {id(fake): real for fake, real in zip(fakes, reals, strict=True)}
        taken, named = _real(arguments, made), _real(keywords, made)
        function = getattr(torch.Tensor, target) if isinstance(target, str) else target
        result = function(*taken, **named)
    except torch.linalg.LinAlgError:
        return None  # because of the data
    except Exception as error:
        return str(error) or type(error).__name__
    written = [number for number, version in enumerate(_versions(reals)) if version != versions[number]]
    return result, reals, written


def _versions(tensors: list[torch.Tensor]) -> list[int]:
    return [0 if tensor.is_inference() else tensor._version for tensor in tensors]


def _fakes(value: Any) -> Iterator[FakeTensor]:
    if isinstance(value, FakeTensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _fakes(item)
    elif isinstance(value, dict):
        yield from _fakes(list(value.values()))
    elif isinstance(value, slice):
        yield from _fakes([value.start, value.stop, value.step])


def _real(value: Any, made: dict[int, torch.Tensor]) -> Any:
    if isinstance(value, FakeTensor):
        if id(value) not in made:  # a constant
            made[id(value)] = _filled(value, 0)
        return made[id(value)]
    real = partial(_real, made=made)
    if isinstance(value, list):
        return [real(item) for item in value]
    if isinstance(value, tuple) and any(True for _ in _fakes(value)):
        items = [real(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: real(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(real(value.start), real(value.stop), real(value.step))
    return value


def _memory(fake: FakeTensor) -> int:
    """The number of elements of its storage."""
    # Sizes of fakes are numbers here; PyTorch's annotations allow for symbols.
    offset = int(fake.storage_offset())
    if not fake.numel():
        return offset
    return offset + 1 + sum((size - 1) * stride for size, stride in zip(fake.size(), fake.stride(), strict=True))


def _filled(fake: FakeTensor, integer: int) -> torch.Tensor:
    """A real tensor with the metadata of the fake: layout, flags, `requires_grad`. Floats are between 0 and 1, where
    most functions are defined; integers are all equal."""
    with torch.inference_mode(fake.is_inference()), torch.no_grad():
        memory = torch.empty(_memory(fake), dtype=fake.dtype, device=fake.device)
        if fake.dtype.is_complex or (fake.dtype.is_floating_point and fake.dtype.itemsize > 1):
            (torch.view_as_real(memory) if fake.dtype.is_complex else memory).uniform_(
                generator=_own_generator if memory.is_cpu else None
            )
        elif integer == 0 or fake.dtype.is_floating_point:
            memory.zero_()
        else:
            memory.fill_(integer)
        if fake.requires_grad and not fake.is_leaf:
            with torch.enable_grad():
                memory = memory.requires_grad_().clone()
                return _flagged(memory.as_strided(fake.size(), fake.stride(), fake.storage_offset()), fake)
        tensor = _flagged(memory.as_strided(fake.size(), fake.stride(), fake.storage_offset()), fake)
        return tensor.detach().requires_grad_(fake.requires_grad)


def _flagged(tensor: torch.Tensor, fake: FakeTensor) -> torch.Tensor:
    if fake.is_conj():
        tensor = tensor.conj()
    return torch._neg_view(tensor) if fake.is_neg() else tensor
