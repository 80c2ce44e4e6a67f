"""`stator.verify(f)(*args)`: runs a program uncompiled and compiled, and compares what a program can notice.

Both runs get deep copies, made together, of the function's model or `self`, its closure and the arguments, so that what
they share stays shared. Globals of the program are not copied: both runs use them, one after the other.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from types import CellType, FunctionType, MethodType
from typing import Any

import torch

from stator import backends
from stator.errors import Mismatch
from stator.report import Report, _collecting
from stator.same import Comparison, Different


@dataclass
class _Run:
    """What one run had and what it left behind."""

    fn: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    random_state: Any = None


def verify(
    fn: Any, *, backend: str | backends.CompilerFunction = "eager", exact: bool = False, calls: int = 2
) -> Callable[..., Any]:
    """`stator.verify(fn)(*args)` runs `fn` uncompiled and compiled on copies. Raises `stator.Mismatch` if they differ.

    Compared are results, arguments, the model with its attributes and gradients, what shares memory or is one object,
    exceptions, printed text and the state of the random generators. If the result requires a gradient, its sum goes
    through a backward pass first. Returns the result of the uncompiled run. Neither `fn` nor the arguments are changed;
    globals of the program are shared by both runs and are not compared.

    Args:
        fn: a function, a bound method or a module, compiled or not.
        backend: as for `stator.compile`.
        exact: compare floats bit for bit instead of with PyTorch's tolerances for each dtype.
        calls: how often to call; later calls use what the first one captured.
    """
    from stator import api

    original = api.original_of(fn)

    def verified(*args: Any, **kwargs: Any) -> Any:
        given = (original, args, kwargs)
        plain, tested = (_Run(*_copied(given)) for _ in range(2))
        report = Report()
        compiled = api.compile(tested.fn, backend=backend, isolate_recompiles=True)
        for number in range(calls):
            state = _random_state()
            _run(plain, plain.fn)
            _set_random_state(state)
            with _collecting(report.add):
                _run(tested, compiled)
            _compare(plain, tested, exact, number, report)
            if plain.error is not None:
                raise plain.error
        return plain.result

    return verified


def _copied(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of the function, its arguments and keywords. deepcopy treats functions as constants."""
    memo: dict[int, Any] = {}
    fn, *others = given
    if type(fn) is FunctionType:
        cells = tuple(_copied_cell(cell, memo) for cell in fn.__closure__ or ())
        made = FunctionType(fn.__code__, fn.__globals__, fn.__name__, copy.deepcopy(fn.__defaults__, memo), cells)
        made.__kwdefaults__ = copy.deepcopy(fn.__kwdefaults__, memo)
        made.__qualname__, made.__module__ = fn.__qualname__, fn.__module__
        made.__dict__.update(fn.__dict__)
        fn = made
    elif type(fn) is MethodType:
        fn = MethodType(fn.__func__, copy.deepcopy(fn.__self__, memo))
    else:
        fn = copy.deepcopy(fn, memo)
    return fn, *copy.deepcopy(others, memo)


def _copied_cell(cell: CellType, memo: dict[int, Any]) -> CellType:
    try:
        return CellType(copy.deepcopy(cell.cell_contents, memo))
    except ValueError:  # empty
        return CellType()


def _run(run: _Run, fn: Callable[..., Any]) -> None:
    printed = io.StringIO()
    run.result = run.error = None
    with contextlib.redirect_stdout(printed):
        try:
            run.result = fn(*run.arguments, **run.keywords)
            _backward(run.result)
        except Exception as error:
            run.error = error
    run.printed, run.random_state = printed.getvalue(), _random_state()


def _backward(result: Any) -> None:
    """Gradients of the sum of what the program returned, if it can have any."""
    leaves = torch.utils._pytree.tree_leaves(result)
    outputs = [one for one in leaves if isinstance(one, torch.Tensor) and one.grad_fn is not None]
    if outputs and torch.is_grad_enabled():
        torch.autograd.backward(outputs, [torch.ones_like(one) for one in outputs])


def _compare(plain: _Run, tested: _Run, exact: bool, number: int, report: Report) -> None:
    comparison = Comparison(exact)
    try:
        comparison.same(_error(plain), _error(tested), "exception")
        comparison.same(plain.printed, tested.printed, "printed text")
        comparison.same(plain.arguments, tested.arguments, "arguments")
        comparison.same(plain.keywords, tested.keywords, "keyword arguments")
        _compare_functions(comparison, plain.fn, tested.fn)
        comparison.same(plain.result, tested.result, "result")
        # After the rest, which says more about the cause.
        comparison.same(plain.random_state, tested.random_state, "random state")
    except Different as difference:
        raise Mismatch(str(difference), difference.place, number + 1, report) from tested.error


def _compare_functions(comparison: Comparison, plain: Any, tested: Any) -> None:
    if type(plain) is not FunctionType:
        comparison.same(plain, tested, "self")
        return
    for name, one, other in zip(plain.__code__.co_freevars, plain.__closure__ or (), tested.__closure__ or ()):
        if (contents := _contents(one)) or _contents(other):
            comparison.same(contents, _contents(other), f"closure variable {name}")
    comparison.same(plain.__defaults__, tested.__defaults__, "defaults")
    comparison.same(plain.__kwdefaults__, tested.__kwdefaults__, "defaults of keywords")


def _contents(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()


def _error(run: _Run) -> str:
    return "none" if run.error is None else f"{type(run.error).__qualname__}: {run.error}"


def _random_state() -> tuple[Any, ...]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    return torch.get_rng_state(), random.getstate(), cuda


def _set_random_state(state: tuple[Any, ...]) -> None:
    torch.set_rng_state(state[0])
    random.setstate(state[1])
    if state[2]:
        torch.cuda.set_rng_state_all(state[2])
