"""`stator.verify(f)(*args)`: runs a program uncompiled and compiled, and compares what a program can notice.

Both runs get deep copies, made together, of the function's model or `self`, its closure, the arguments and the global
variables that the program names, so that what they share stays shared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from stator import backends, exclusive
from stator._engine import engine
from stator.errors import Mismatch
from stator.isolation import World
from stator.report import Report, _collecting
from stator.runs import Run, State, compare
from stator.same import Different


def verify(
    fn: Any, *, backend: str | backends.CompilerFunction = "eager", exact: bool = False, calls: int = 2
) -> Callable[..., Any]:
    """`stator.verify(fn)(*args)` runs `fn` uncompiled and compiled on copies. Raises `stator.Mismatch` if they differ.

    Compared are results, arguments, the model with its attributes and gradients, global variables, what shares memory
    or is one object, exceptions, printed text and the state of the random generators. If the result requires a
    gradient, its sum goes through a backward pass first. Returns the result of the uncompiled run. Neither `fn` nor the
    arguments nor the global variables are changed, except those that can't be copied, which both runs share.

    Args:
        fn: a function, a bound method or a module, compiled or not.
        backend: as for `stator.compile`.
        exact: compare floats bit for bit instead of with PyTorch's tolerances for each dtype.
        calls: how often to call; later calls use what the first one captured.
    """
    from stator import api

    original = api.original_of(fn)

    def verified(*args: Any, **kwargs: Any) -> Any:
        with exclusive.in_turn():
            return run_both_ways(args, kwargs)

    def run_both_ways(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        world = World.of(original, args, kwargs)
        plain, tested = (Run(world.copied()) for _ in range(2))
        report = Report()
        compiled = api.compile(tested.world.fn, backend=backend, isolate_recompiles=True)
        for number in range(calls):
            state = State.now()
            with uncompiled():
                plain.call_hidden(_with_backward(plain.world.fn))
            state.restore()
            with _collecting(report.add):
                tested.call_hidden(_with_backward(compiled))
            try:
                compare(plain, tested, exact)
            except Different as difference:
                raise Mismatch(str(difference), difference.place, number + 1, report) from tested.error
            if plain.error is not None:
                raise plain.error
        return plain.result

    return verified


class uncompiled:
    """Inside, compiled callables run uncompiled in this thread."""

    def __enter__(self) -> None:
        self.before = engine().run_uncompiled(True)

    def __exit__(self, *error: object) -> None:
        engine().run_uncompiled(self.before)


def _with_backward(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Calls the function, and then computes the gradients of the sum of what it returned, if it can have any."""

    def called(*args: Any, **kwargs: Any) -> Any:
        result = fn(*args, **kwargs)
        leaves = torch.utils._pytree.tree_leaves(result)
        outputs = [one for one in leaves if isinstance(one, torch.Tensor) and one.grad_fn is not None]
        if outputs and torch.is_grad_enabled():
            torch.autograd.backward(outputs, [torch.ones_like(one) for one in outputs])
        return result

    return called
