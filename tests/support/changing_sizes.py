"""Calls with other sizes, made uncompiled and compiled: compares them and counts captures, also those of torch._dynamo."""

from __future__ import annotations

import collections
import contextlib
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

import stator
from tests.support import engine
from tests.support.compare import assert_same
from tests.support.long import LONG

BACKENDS = ["eager", "aot_eager", "inductor"] if LONG else ["eager"]


def outcome(function: Callable, arguments: tuple, backward: bool = False) -> tuple:
    """What a call returned or raised, what it did to its arguments, and their gradients."""
    # What has no data can't be changed, and may be too large for a copy.
    arguments = tuple(one if getattr(one, "is_meta", False) else copy.deepcopy(one) for one in arguments)
    tensors = [one for one in arguments if isinstance(one, torch.Tensor) and one.is_floating_point()]
    if backward:
        for one in tensors:
            one.requires_grad_()
    torch.manual_seed(0)
    try:
        result = function(*arguments)
    except (RuntimeError, IndexError, ValueError, TypeError, ArithmeticError) as error:
        return type(error), arguments
    if backward:
        result.sum().backward()
        return result.detach(), [one.grad for one in tensors]
    return result, arguments


def captures_of(
    program: Callable,
    calls: Iterable[tuple],
    *,
    fullgraph: bool = True,
    backward: bool = False,
    backend: str = "eager",
    **options: Any,
) -> int:
    """Makes the calls both ways, compares, and returns the number of captures."""
    engine.reset()
    compiled = stator.compile(program, fullgraph=fullgraph, backend=backend, **options)
    before = engine.captures()
    for arguments in calls:
        assert_same(outcome(program, arguments, backward), outcome(compiled, arguments, backward))
    return engine.captures() - before


@contextlib.contextmanager
def counted_by_dynamo() -> Iterator[collections.Counter]:
    """Counts the captures of torch._dynamo, including those without operations; there is no limit to them."""
    counts: collections.Counter[str] = collections.Counter()

    def started(arguments: Any) -> None:
        counts["captures"] += arguments.callback_trigger == torch._dynamo.callback.CallbackTrigger.DYNAMO

    torch._dynamo.reset()
    callbacks = torch._dynamo.callback_handler
    callbacks.register_start_callback(started)
    try:
        with torch._dynamo.config.patch(recompile_limit=1000, accumulated_recompile_limit=10000):
            yield counts
    finally:
        callbacks.remove_start_callback(started)
        torch._dynamo.reset()


def captures_of_dynamo(program: Callable, calls: Iterable[tuple], *, fullgraph: bool = True, **options: Any) -> int:
    """The number of captures of torch._dynamo for these calls."""
    with counted_by_dynamo() as counts:
        compiled = torch.compile(program, backend="eager", fullgraph=fullgraph, **options)
        for arguments in calls:
            outcome(compiled, arguments)
    return counts["captures"]


def assert_as_dynamo(program: Callable, calls: list[tuple], **options: Any) -> None:
    """No more captures than torch._dynamo takes."""
    ours = captures_of(program, calls, **options)
    theirs = captures_of_dynamo(program, calls, **options)
    assert ours <= theirs, (ours, theirs)
