"""Faults on purpose. Each takes a number of rounds, raises AssertionError if a result is wrong, and says what it saw.

A fault may end the call it happens in, with the exception that it is. The calls before and after it have the results of the
uncompiled program.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import signal
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

import stator
from tests.torture.allocations import allocations
from tests.torture.damaged_files import damaged_recordings, full_disk
from tests.torture.programs import expect_right, expected, not_captured, program


class Fault(Exception):
    """Raised on purpose."""


class Interrupted(BaseException):
    """Raised by a signal."""


# ---- exceptions --------------------------------------------------------------------------------------------------------
def backends(rounds: int) -> str:
    """Backends that raise while they compile, and graphs that raise while they run."""
    kinds = (Fault, KeyboardInterrupt, SystemExit, MemoryError, RecursionError, StopIteration, GeneratorExit)
    raised = 0
    for number in range(rounds):
        kind, is_late, fails = kinds[number % len(kinds)], number // len(kinds) % 2, [True]

        def backend(graph_module: Any, example_inputs: Any, kind=kind, is_late=is_late, fails=fails) -> Any:
            def run(*inputs: Any) -> Any:
                if fails[0]:
                    raise kind("on purpose")
                return graph_module(*inputs)

            if fails[0] and not is_late:
                raise kind("on purpose")
            return run

        compiled = stator.compile(program, backend=backend, isolate_recompiles=True)
        with contextlib.suppress(BaseException):
            compiled(torch.ones(3), [0, 1])
            raised -= 1
        raised += 1
        fails[0] = False
        expect_right(compiled)
        expect_right(compiled)
    return f"{raised} of {rounds} raised"


class Touchy:
    """An object whose comparisons raise while `fails` is set."""

    fails = False

    def __init__(self, value: int) -> None:
        self.value = value

    def _touch(self) -> None:
        if Touchy.fails:
            raise Fault("on purpose")

    def __eq__(self, other: object) -> bool:
        self._touch()
        return isinstance(other, Touchy) and self.value == other.value

    def __hash__(self) -> int:
        self._touch()
        return hash(self.value)

    def __bool__(self) -> bool:
        self._touch()
        return self.value > 0

    def __len__(self) -> int:
        self._touch()
        return self.value


def compares(x: torch.Tensor, one: Touchy, other: Touchy, table: dict[Any, int]) -> torch.Tensor:
    if one == other:
        x = x + 1
    if one:
        x = x * 2
    return x + table.get(one, 5) + len(other)


def guarded_objects(rounds: int) -> str:
    """`__eq__`, `__hash__`, `__bool__` and `__len__` of objects in guards that raise in some calls."""
    compiled = stator.compile(compares)
    outcomes: collections.Counter[str] = collections.Counter()
    for number in range(rounds):
        one, other = Touchy(number % 3), Touchy(number % 2)
        table = {Touchy(1): 7, "text": 8}
        Touchy.fails = number % 4 == 3
        seen = []
        for fn in (compares, compiled):
            try:
                seen.append(fn(torch.ones(2), one, other, table).tolist())
            except Fault:
                seen.append("Fault")
        Touchy.fails = False
        assert seen[0] == seen[1], (number, seen)
        outcomes["raised" if seen[0] == "Fault" else "returned"] += 1
    return str(dict(outcomes))


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) * 2


def hooks(rounds: int) -> str:
    """Module hooks that raise in some calls, before and after the module."""
    seen = 0
    model = Hooked()
    compiled = stator.compile(model)
    fails = [False]

    def hook(*_: Any) -> None:
        if fails[0]:
            raise Fault("on purpose")

    x = torch.ones(1, 2)
    for number in range(rounds):
        owner = (model, model.linear)[number % 2]
        register = (owner.register_forward_hook, owner.register_forward_pre_hook)[number // 2 % 2]
        handle = register(hook)
        fails[0] = True
        try:
            compiled(x)
        except Fault:
            seen += 1
        fails[0] = False
        assert torch.equal(compiled(x), model(x))
        handle.remove()
        assert torch.equal(compiled(x), model(x))
    assert seen == rounds
    return f"{seen} raised"


class Dying:
    """Its finalizer calls compiled functions, resets, collects and raises."""

    act: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Dying.act()
        raise Fault("on purpose")


def finalizers(rounds: int) -> str:
    """Finalizers that run at any time, call back, reset everything, and raise."""
    compiled = stator.compile(program)
    acts: list[Callable[[], Any]] = [
        lambda: compiled(torch.ones(3), [0, 1]),
        stator.reset,
        gc.collect,
        lambda: stator.compile(program)(torch.ones(2), [0]),
    ]
    before, hook, count = gc.get_threshold(), sys.unraisablehook, [0]
    sys.unraisablehook = lambda found: count.__setitem__(0, count[0] + 1)
    gc.set_threshold(50)
    try:
        for number in range(rounds):
            Dying.act = staticmethod(acts[number % len(acts)])
            Dying()
            expect_right(compiled, number % 4)
    finally:
        Dying.act = staticmethod(lambda: None)
        gc.collect()
        gc.set_threshold(*before)
        sys.unraisablehook = hook
    assert count[0] > 0
    return f"{count[0]} finalizers ran"


# ---- interrupts --------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def raising_on_alarm() -> Iterator[None]:
    def raise_it(*_: Any) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, raise_it)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def alarms(rounds: int) -> str:
    """SIGALRM at ever later moments of a capture, a cached call and an exit."""
    outcomes: collections.Counter[str] = collections.Counter()
    kept = stator.compile(program)
    expect_right(kept)
    spans = [1.5 * _seconds_of(act) for act in (_captured, lambda: kept(torch.ones(3), [0, 1]))]
    with raising_on_alarm():
        for number in range(rounds):
            compiled = kept if number % 2 else not_captured()
            items = [0, 1]
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 + spans[number % 2] * number / rounds)
                result = compiled(torch.ones(3), items)
                signal.setitimer(signal.ITIMER_REAL, 0)
                outcomes["returned"] += 1
                assert result.tolist() == expected(2)
            except Interrupted:
                outcomes["interrupted"] += 1
            _without_alarm(lambda compiled=compiled: expect_right(compiled))
    return str(dict(outcomes))


def _captured() -> None:
    not_captured()(torch.ones(3), [0, 1])


def _seconds_of(act: Callable[[], Any]) -> float:
    taken = []
    for _ in range(9):
        began = time.perf_counter()
        act()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def _without_alarm(act: Callable[[], None]) -> None:
    """A signal that came late may still be pending."""
    for _ in range(3):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            act()
            return
        except Interrupted:
            continue


def keyboard_interrupts(rounds: int) -> str:
    """Interrupts by another thread, as Ctrl-C gives them, at any moment of captures and calls."""
    import _thread

    outcomes: collections.Counter[str] = collections.Counter()
    is_over = threading.Event()
    may_interrupt = threading.Event()
    is_armed = [False]

    def interrupt() -> None:
        while not is_over.is_set():
            time.sleep(2e-4)
            if may_interrupt.is_set():
                may_interrupt.clear()
                _thread.interrupt_main()

    def raise_once(*_: Any) -> None:
        """One that comes late, on a busy machine, finds nothing to interrupt."""
        if is_armed[0]:
            is_armed[0] = False
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, raise_once)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        for number in range(rounds):
            compiled = not_captured()
            try:
                try:
                    is_armed[0] = True
                    may_interrupt.set()
                    for _ in range(1 + number % 5):
                        assert compiled(torch.ones(3), [0, 1]).tolist() == expected(2)
                    outcomes["returned"] += 1
                finally:
                    is_armed[0] = False
            except KeyboardInterrupt:
                outcomes["interrupted"] += 1
            expect_right(compiled)
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
    return str(dict(outcomes))


# ---- resources ---------------------------------------------------------------------------------------------------------
def recursion(rounds: int) -> str:
    """Calls and captures with ever fewer frames left until the recursion limit."""
    outcomes: collections.Counter[str] = collections.Counter()

    def deep(depth: int, call: Callable[[], Any]) -> Any:
        return call() if depth == 0 else deep(depth - 1, call)

    for number in range(rounds):
        compiled = not_captured()
        if number % 2:
            expect_right(compiled)
        left = number // 2 % 120
        depth = sys.getrecursionlimit() - _depth() - left
        try:
            result = deep(depth, lambda compiled=compiled: compiled(torch.ones(3), [0, 1]))
            assert result.tolist() == expected(2)
            outcomes["returned"] += 1
        except RecursionError:
            outcomes["raised"] += 1
        expect_right(compiled)
    return str(dict(outcomes))


def _depth() -> int:
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    return depth


def garbage(rounds: int) -> str:
    """A garbage collection at each allocation, with cycles that die meanwhile."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(1, 1, 1)
    try:
        for number in range(rounds):
            model = Hooked()
            model.itself = [model]  # type: ignore[assignment]
            compiled = stator.compile(model)
            x = torch.ones(1 + number % 3, 2)
            assert torch.equal(compiled(x), model(x))
            expect_right(stator.compile(program), number % 3)
            del model, compiled
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
    return f"{rounds} rounds"


FAULTS: dict[str, Callable[[int], str]] = {
    "backends": backends,
    "guarded_objects": guarded_objects,
    "hooks": hooks,
    "finalizers": finalizers,
    "alarms": alarms,
    "keyboard_interrupts": keyboard_interrupts,
    "recursion": recursion,
    "garbage": garbage,
    "allocations": allocations,
    "full_disk": full_disk,
    "damaged_recordings": damaged_recordings,
}
