"""Whether an operation takes what FakeTensors take: it runs once on tensors made for that.

A FakeTensor knows sizes and devices, and of dtypes what the result has. That a kernel does not exist for a dtype, or
wants its arguments to have the same one, it often does not know; a graph would fail in the middle, or not at all where
nobody uses the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

# Larger arguments are not made: what FakeTensors say of them has to do.
MOST_ELEMENTS = 1 << 22


def refusal(target: Callable | str, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> str | None:
    """The words in which the operation refuses such arguments; None if it takes them. Arguments are fakes; an operation
    that is a method is given by its name."""
    if sum(fake.numel() for fake in _fakes((arguments, keywords))) > MOST_ELEMENTS:
        return None
    # The index 0 is in most tensors, but nothing is divided by it.
    first = _said(target, arguments, keywords, 0)
    return first and _said(target, arguments, keywords, 1) and first


def _said(target: Callable | str, arguments: tuple[Any, ...], keywords: dict[str, Any], integer: int) -> str | None:
    made: dict[int, torch.Tensor] = {}
    with torch.no_grad():
        try:
            taken, named = _real(arguments, made, integer), _real(keywords, made, integer)
            if isinstance(target, str):
                getattr(taken[0], target)(*taken[1:], **named)
            else:
                target(*taken, **named)
        except torch.linalg.LinAlgError:
            return None  # that is about the numbers
        except Exception as error:
            return str(error) or type(error).__name__
    return None


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


def _real(value: Any, made: dict[int, torch.Tensor], integer: int) -> Any:
    if isinstance(value, FakeTensor):
        if id(value) not in made:
            made[id(value)] = _filled(value, integer)
        return made[id(value)]
    real = partial(_real, made=made, integer=integer)
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


def _filled(fake: FakeTensor, integer: int) -> torch.Tensor:
    """Numbers between 0 and 1, which most functions are defined for; integers are all the same."""
    reach = 1 + sum((size - 1) * stride for size, stride in zip(fake.size(), fake.stride(), strict=True))
    memory = torch.empty(reach if fake.numel() else 0, dtype=fake.dtype, device=fake.device)
    if fake.dtype.is_floating_point and fake.dtype.itemsize > 1:
        memory.uniform_()
    elif integer == 0 or fake.dtype.is_floating_point:
        memory.zero_()
    else:
        memory.fill_(integer)
    return memory.as_strided(fake.size(), fake.stride())
