"""`stator.compile(..., check=...)`: calls that run both ways, and are compared.

A checked call runs uncompiled first, on a copy of what it can see, and then compiled on the real objects, from the same
random state. With `check="first"` only calls that capture are checked: the engine announces a capture before anything
of the call has run, and the uncompiled run happens then. A capture in the middle of a call, after a graph break, is
checked in the next call. One thread checks at a time.
"""

from __future__ import annotations

import functools
import itertools
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from stator import backends, exclusive, notes, reproductions
from stator.errors import Mismatch
from stator.isolation import NotCopied, World
from stator.printed_text import printed_text
from stator.report import Report
from stator.runs import Run, State, compare, compare_gradients, walk
from stator.same import Different
from stator.verification import uncompiled
from stator.written_values import Names

# The most values of a call that are remembered to find a missing guard.
MOST_VALUES = 20_000
# How often a call that differed is repeated while other threads run.
REPETITIONS = 4


class _Thread(threading.local):
    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.is_uncompiled = False


_thread = _Thread()


@contextmanager
def _all_uncompiled() -> Iterator[None]:
    """Inside, this thread runs compiled callables uncompiled, and checks none of them."""
    before, _thread.is_uncompiled = _thread.is_uncompiled, True
    try:
        with uncompiled():
            yield
    finally:
        _thread.is_uncompiled = before


def checked_policy(check: Any) -> str | int | None:
    if check is None or check in ("first", "always") or (type(check) is int and check > 0):
        return check
    raise ValueError(f"check is None, 'first', 'always' or a number of calls, not {check!r}")


class _Call:
    """A call in progress. It is prepared when it is known to be checked: the uncompiled run is then done."""

    def __init__(self, checker: Checker, arguments: tuple[Any, ...], keywords: dict[str, Any], number: int) -> None:
        self.checker, self.arguments, self.keywords, self.number = checker, arguments, keywords, number
        self.has_tried = False
        # Once it is prepared: the uncompiled run, the call as it was before, and the state then.
        self.plain: Run | None = None
        self.untouched: World | None = None
        self.began: State | None = None
        # Left when the compiled call has returned, and when it is compared.
        self.following, self.ending = ExitStack(), ExitStack()

    @functools.cached_property
    def world(self) -> World:
        return World.of(self.checker.function, self.arguments, self.keywords)

    @functools.cached_property
    def inputs(self) -> reproductions.Inputs | None:
        return reproductions.describe(self.world, self.checker.names)

    def prepare(self) -> None:
        self.has_tried = True
        if not self._take_turn():
            self.checker.is_due = True
            notes.warn(
                f"check: a call of {self.checker.name} is not checked, because another thread checks one for long"
            )
            return
        self.inputs  # noqa: B018 - as they are before the call
        try:
            plain, self.untouched = Run(self.world.copied()), self.world.copied()
        except NotCopied as reason:
            notes.warn(
                f"check: a call of {self.checker.name} is not checked, because an argument can't be copied: {reason}"
            )
            return
        self.began = State.now()
        try:
            with _all_uncompiled():
                plain.call_hidden(plain.world.fn)
        finally:
            self.began.restore()
        self.plain = plain
        self.printed = self.following.enter_context(printed_text(is_hidden=False))
        self.following.enter_context(self.world.noted())

    def _take_turn(self) -> bool:
        turn = exclusive.take_turn()
        if turn is not None:
            self.ending.callback(turn.release)
        return turn is not None


class Checker:
    """Checks the calls of one compiled callable."""

    def __init__(self, function: Any, policy: str | int, exact: bool, backend: backends.Backend) -> None:
        self.function, self.policy, self.exact, self.backend = function, policy, exact, backend
        owner = getattr(function, "__self__", None)
        is_model = isinstance(owner, torch.nn.Module)
        self.name = type(owner).__qualname__ if is_model else getattr(function, "__qualname__", "?")
        self.report = Report()
        self.calls = 0
        self._numbers = itertools.count(1)  # for all threads
        self.is_due = False  # a capture was not checked yet
        self.compiled: Any = None
        self.options: dict[str, Any] = {}
        # The values that each capture was made with, and the text of a program that makes them.
        self.captured_with: list[dict[str, str]] = []
        self.captured_inputs: list[reproductions.Inputs | None] = []
        self.names = Names()

    def before_capture(self, is_start: bool) -> None:
        """The engine calls this before every capture. Nothing of the call has run yet if `is_start`."""
        current = next((one for one in reversed(_thread.calls) if one.checker is self), None)
        if current is None:
            return
        self.captured_with.append(fingerprint(current.untouched or current.world))
        self.captured_inputs.append(current.inputs)
        if current.has_tried:
            return
        if self.policy == "first" and is_start and current is _thread.calls[-1]:
            current.prepare()
        else:
            self.is_due = True

    def call(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if _thread.is_uncompiled:
            return self.function(*arguments, **keywords)
        number = self.calls = next(self._numbers)
        current = _Call(self, arguments, keywords, number)
        with current.ending:
            if self._is_checked_now(number):
                self.is_due = False
                current.prepare()
            return self._run(current)

    def _is_checked_now(self, number: int) -> bool:
        if isinstance(self.policy, int):
            return number % self.policy == 0
        return self.policy == "always" or self.is_due

    def _run(self, current: _Call) -> Any:
        _thread.calls.append(current)
        try:
            result = self.compiled(*current.arguments, **current.keywords)
        except Exception as error:
            current.following.close()
            self._compare(current, None, error)
            raise
        finally:
            _thread.calls.pop()
            current.following.close()
        self._compare(current, result, None)
        return result

    def _compare(self, current: _Call, result: Any, error: Exception | None) -> None:
        if current.plain is None:
            return
        tested = Run(current.world, result, error, current.printed.getvalue(), State.now())
        try:
            comparison = compare(current.plain, tested, self.exact)
            compare_gradients(current.plain, tested, comparison)
        except Different as difference:
            if mismatch := self._mismatch(current, difference):
                raise mismatch from tested.error

    def _mismatch(self, current: _Call, difference: Different) -> Mismatch | None:
        after = State.now()
        fault, missing = self._fault(current)
        if threading.active_count() > 1 and self._is_of_other_threads(current, fault, missing):
            notes.warn(
                f"check: a call of {self.name} differed once and not again; other threads run meanwhile: {difference}"
            )
            after.restore()
            return None
        path = reproductions.write(self, current.inputs, difference, fault)
        after.restore()
        return Mismatch(str(difference), difference.place, current.number, self.report, fault, missing, path)

    def _is_of_other_threads(self, current: _Call, fault: str, missing: list[str]) -> bool:
        """They draw random numbers and assign global variables that the call uses. Then it agrees when it is repeated,
        and nothing that it can see has changed since the capture; or it doesn't even agree uncompiled."""
        if fault == "guard":
            return not missing
        # They may have disturbed the repetition, too.
        if any(self._agrees(current, self.backend) for _ in range(REPETITIONS)):
            return True
        with _all_uncompiled():
            return not self._repeated(current, lambda fn: fn)

    # ---- whose fault it is ---
    def _fault(self, current: _Call) -> tuple[str, list[str]]:
        """Runs the call again with a fresh capture, and if need be with the graph as it was captured."""
        if self._agrees(current, self.backend):
            return "guard", self._unguarded(fingerprint(current.untouched))
        return ("backend" if self._agrees(current, backends._EAGER) else "front end"), []

    def _agrees(self, current: _Call, backend: backends.Backend) -> bool:
        from stator import api

        options = {**self.options, "isolate_recompiles": True, "before_capture": None, "listener": None}
        return self._repeated(current, lambda fn: api.compile_with(fn, backend, options, options["arguments"]))

    def _repeated(self, current: _Call, made: Callable[[Any], Any]) -> bool:
        """Whether the call on a fresh copy, with what `made` returns for its function, does what it did uncompiled."""
        assert current.untouched is not None and current.plain is not None and current.began is not None
        again = Run(current.untouched.copied())
        called = made(again.world.fn)
        current.began.restore()
        again.call_hidden(called)
        try:
            compare_gradients(current.plain, again, compare(current.plain, again, self.exact))
        except Different:
            return False
        return True

    def _unguarded(self, now: dict[str, str]) -> list[str]:
        """What differs from the values of the capture that is most like this call, and that no guard checks."""
        guarded = "\n".join(self.report.guards)
        best: list[str] | None = None
        for then in self.captured_with:
            places = [place for place in {**then, **now} if then.get(place) != now.get(place)]
            free = [place for place in places if place not in guarded] or places
            if best is None or len(free) < len(best):
                best = [f"{place} was {then.get(place, 'absent')} and is {now.get(place, 'absent')}" for place in free]
        return (best or [])[:10]


def fingerprint(world: World | None) -> dict[str, str]:
    """The values that a call can see, by source: numbers and texts as they are, tensors by their metadata."""
    found: dict[str, str] = {}
    if world is None:
        return found
    for place, value in walk(world):
        found[place] = _described(value)
        if len(found) >= MOST_VALUES:
            break
    found["torch.is_grad_enabled()"] = str(torch.is_grad_enabled())
    return found


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        facts = f"{value.dtype} {list(value.shape)} {value.device}"
        return f"{type(value).__name__} {facts} requires_grad={value.requires_grad}"
    if isinstance(value, (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, type)):
        return repr(value)[:200]
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.ModuleType)):
        return getattr(value, "__qualname__", value.__name__)
    return type(value).__qualname__


def checked(
    function: Any,
    policy: str | int,
    exact: bool,
    backend: backends.Backend,
    options: dict[str, Any],
    make: Callable[[dict[str, Any]], Any],
) -> Any:
    """A callable that checks the calls of what `make(options)` compiles."""
    checker = Checker(function, policy, exact, backend)
    checker.options = options
    checker.compiled = make(
        {
            **options,
            "isolate_recompiles": True,
            "before_capture": checker.before_capture,
            "listener": checker.report.add,
        }
    )

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            return function(*args, **kwargs)
        return checker.call(args, kwargs)

    # As for torch.compile: the outermost compiler finds the original by these.
    wrapper: Any = called
    wrapper._torchdynamo_orig_callable = function
    wrapper._torchdynamo_wrapper_id = id(called)
    wrapper._stator_options = checker.compiled._stator_options
    wrapper._stator_compiled = checker.compiled
    wrapper._stator_checker = checker
    return called
