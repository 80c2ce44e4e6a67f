"""Runs a program uncompiled and compiled in two equal worlds and compares what a user could notice."""

import contextlib
import io
import linecache
import random
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from tests.support import engine
from tests.support.compare import Comparison, Difference
from tests.support.harness import backward, global_modes, users_lines

DEPTH = 400  # calls that a program may go deep
LONGEST = 10  # seconds that a program may run uncompiled
# What aot_autograd says of a backward pass that the program may never ask for, with torch._dynamo as well.
BACKEND_REFUSES = re.compile(
    "derivative for .* is not implemented|has been modified by an inplace operation|outs_to_grad length|a second time"
    "|does not yet handle non-differentiable view input mutations|attempting to assign a gradient"
)
ADDRESS = re.compile(r"0x[0-9a-f]+")
IMPORTED: dict[str, Any] = {}
exec(
    """
import bisect, collections, contextlib, copy, dataclasses, functools, heapq, itertools, logging, math, pickle, random, sys, threading, traceback, types
import warnings
import torch
import torch._dynamo
""",
    IMPORTED,
)
del IMPORTED["__builtins__"]


class Invalid(Exception):
    """The program can't be run as a program: its text or its steps are wrong, or it has no end."""


class Endless(BaseException):
    """Raised in a program that runs for too long."""


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A random program may run forever, uncompiled too: then there is nothing to compare."""

    def stop(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    except Endless:
        raise Invalid("no end") from None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@dataclass
class Call:
    """What one call did."""

    result: Any = None
    error: BaseException | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class Program:
    """A program's text, compiled by Python once and run in as many worlds as are wanted."""

    count = 0

    def __init__(self, text: str) -> None:
        Program.count += 1
        self.filename = f"<program {Program.count}>"
        linecache.cache[self.filename] = (len(text), None, text.splitlines(keepends=True), self.filename)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.code = compile(text, self.filename, "exec")
        except SyntaxError as error:
            raise Invalid(error) from None
        self.steps: dict[str, Any] = {}

    def step(self, text: str) -> Any:
        if text not in self.steps:
            try:
                self.steps[text] = compile(text, "<step>", "exec")
            except SyntaxError as error:
                raise Invalid(error) from None
        return self.steps[text]

    def close(self) -> None:
        linecache.cache.pop(self.filename, None)


class World:
    """A program's globals, and the function that is called."""

    def __init__(self, program: Program, compile: Callable[[Callable], Callable] | None) -> None:
        self.program = program
        self.namespace: dict[str, Any] = {"__name__": "program", **IMPORTED}
        torch.default_generator.manual_seed(0)
        random.seed(0)
        self.next_handle = 1_000_000
        try:
            with self.own_handles(), contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(program.code, self.namespace)
            self.steps = self.namespace.pop("STEPS")
            self.entry = self.namespace["f"]
        except Exception as error:
            raise Invalid(error) from error
        if not isinstance(self.steps, list):  # while a program is shrunk
            raise Invalid("no steps")
        if compile is not None:
            self.entry = compile(self.entry)
        self.arguments: tuple = ()

    def call(self, change: str, arguments: str, seed: int) -> Call:
        """One step: the state changes, then the program is called."""
        with self.own_handles():
            return self.called(change, arguments, seed)

    @contextlib.contextmanager
    def own_handles(self) -> Iterator[None]:
        """Hooks are numbered by one counter for the process, and the program can read the numbers."""
        RemovableHandle.next_id, others = self.next_handle, RemovableHandle.next_id
        try:
            yield
        finally:
            self.next_handle, RemovableHandle.next_id = RemovableHandle.next_id, others

    def called(self, change: str, arguments: str, seed: int) -> Call:
        torch.default_generator.manual_seed(seed + 100)
        random.seed(seed + 100)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            for text in (change, f"_arguments = ({arguments})" if arguments else "pass"):
                with contextlib.suppress(Exception):
                    exec(self.program.step(text), self.namespace)
        self.arguments = self.namespace.get("_arguments", ())
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        call, printed = Call(), io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                call.result = self.entry(*self.arguments)
            except Exception as error:
                call.error = error
        call.facts = {
            "printed text": printed.getvalue(),
            "warnings": [
                (str(one.message), one.lineno)
                for one in warned
                if not str(one.message).startswith("Stator has captured")  # a note for the user
                if one.filename == self.program.filename and "Triggered internally" not in str(one.message)
            ],
            "global state": global_modes(),
            "random state": (torch.get_rng_state().numpy().tobytes(), random.getstate()[1][-1]),
        }  # fmt: skip
        torch.set_grad_enabled(True)
        return call

    def state(self) -> dict[str, Any]:
        return {name: value for name, value in self.namespace.items() if not name.startswith(("_", "opaque"))}


def described(error: BaseException | None) -> Any:
    """All of an exception that must agree, as plain values."""
    if error is None:
        return "returned"
    lines = users_lines(error)
    if isinstance(error, UnboundLocalError):
        # CPython 3.11 gives the line above once two instructions became one, which depends on how often they ran.
        lines[-1:] = [(name, None) for name, _ in lines[-1:]]
    if isinstance(error, RecursionError):
        return "RecursionError"  # the depth at which recursion fails is not guaranteed, nor is the place
    return {
        "type": type(error).__name__,
        "text": ADDRESS.sub("0x", str(error)),
        "lines": lines,
        "cause": described(error.__cause__) if error.__cause__ else None,
        "context": described(error.__context__) if error.__context__ and not error.__suppress_context__ else None,
    }


def gone_back(call: Call) -> BaseException | None:
    """The backward pass of the result; returns the exception."""
    try:
        return backward(call)  # type: ignore[arg-type]
    except RuntimeError as error:  # reading the gradient function of a view whose base was changed
        return error


def compare_calls(expected: Call, actual: Call, one: World, other: World, where: str, tolerance: float | None) -> None:
    plain = Comparison()
    try:
        plain.same(described(expected.error), described(actual.error), f"{where}: exception")
    except Difference as difference:
        raise difference from actual.error
    if tolerance is not None:
        expected.facts.pop("random state")  # aot_autograd leaves out random numbers that nobody uses
    for fact, value in expected.facts.items():
        plain.same(value, actual.facts[fact], f"{where}: {fact}")
    failed = gone_back(expected), gone_back(actual)
    if tolerance is not None and failed[0] is None and BACKEND_REFUSES.search(str(failed[1])):
        raise Invalid("the results of a graph of aot_autograd share one backward pass")
    if tolerance is not None and failed[0] is not None:
        # aot_autograd saves something else for a backward pass, and ends it in another place.
        raise Invalid("a backward pass that fails")
    plain.same(described(failed[0]), described(failed[1]), f"{where}: backward")
    together = Comparison(tolerance)
    together.same(one.arguments, other.arguments, f"{where}: arguments")
    together.same(expected.result, actual.result, f"{where}: result")
    together.same(one.state(), other.state(), f"{where}: outside state")


@dataclass
class Summary:
    """Statistics of a program."""

    programs: int = 0
    calls: int = 0
    returned: int = 0
    graphs: int = 0
    nodes: int = 0


# Backends that Stator runs itself, with sizes that become dynamic when they change, or are from the first call.
DYNAMIC: dict[str, bool | None] = {"automatic": None, "dynamic": True}


def compile_with(backend: str, recorder: engine.Recorder) -> Callable[[Callable], Callable]:
    if backend in DYNAMIC and engine.ENGINE == "stator":
        return lambda function: engine.stator.compile(function, backend=engine.PLAIN_BACKEND, dynamic=DYNAMIC[backend])
    return lambda function: engine.compile(function, backend=recorder, fullgraph=False)


def check(
    text: str, backend: str = "eager", compiled: bool = True, summary: Summary | None = None, depth: int = DEPTH
) -> None:
    """Raises Difference if the compiled program behaves in another way. It may go `depth` calls deep."""
    engine.reset()
    program = Program(text)
    is_exact = backend == "eager" or backend in DYNAMIC
    recorder = engine.Recorder(None if is_exact else backend)
    before = engine.captures()
    summary = summary or Summary()
    try:
        compile = compile_with(backend, recorder) if compiled else None
        with limited(LONGEST):
            one, other = World(program, None), World(program, compile)
        for number, (change, arguments) in enumerate(one.steps, start=1):
            with room(DEPTH), limited(LONGEST):
                expected = one.call(change, arguments, number)
            if isinstance(expected.error, RecursionError):
                return  # the depth at which recursion fails is not guaranteed
            if "modified inplace" in str(expected.error):
                # A view that autograd no longer tracks raises wherever it is used, even if the result is unused:
                # a graph does not compute that.
                return
            if isinstance(expected.error, MemoryError):
                raise Invalid("no end")
            notes: list[Any] = []
            with room(depth), watched(notes, is_wanted=number == len(one.steps)):
                actual = other.call(change, arguments, number)
            if expected.error is None and "except" not in text and "suppress" not in text:
                expect_no_failed_graph(notes)
            if not is_exact and BACKEND_REFUSES.search(str(actual.error)):
                raise Invalid("aot_autograd wants a derivative that nobody asked for")
            summary.calls += 1
            summary.returned += expected.error is None
            tolerance = None if is_exact else 1e-6
            compare_calls(expected, actual, one, other, f"call {number}", tolerance)
    finally:
        program.close()
        summary.programs += 1
        summary.graphs += engine.captures() - before if backend in DYNAMIC else recorder.count
        summary.nodes += sum(len(graph.graph.nodes) for graph in recorder.graphs)


@contextlib.contextmanager
def watched(notes: list[Any], is_wanted: bool) -> Iterator[None]:
    if not is_wanted or engine.ENGINE != "stator":
        yield
        return
    with engine.stator.watch() as report:
        yield
    notes += report.notes


def expect_no_failed_graph(notes: list[Any]) -> None:
    """A graph that raises where the program does not gives the right result, and takes the time of both."""
    for note in notes:
        if note.topic == "graph_raised":
            raise Difference(note.text)


def depends_on_depth(text: str) -> bool:
    """Whether the program behaves differently with a smaller recursion limit: it catches RecursionError."""
    try:
        check(text, compiled=False, depth=DEPTH - 50)
    except Difference:
        return True
    except Invalid:
        pass
    return False


@contextlib.contextmanager
def room(depth: int) -> Iterator[None]:
    """Limits the depth of a program that recurses forever."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
