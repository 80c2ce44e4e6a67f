"""Runs programs uncompiled and compiled and compares everything that a user could notice."""

import contextlib
import io
import os
import random
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from tests.support.compare import Comparison, Difference
from tests.support.engine import (
    CAPTURES,
    DYNAMO_WRITES_THE_SAME_GRAPHS,
    ENGINE,
    Recorder,
    captured,
    captured_by_dynamo,
    captured_graphs,
    captures,
    compile,
    describe,
    graph_difference,
    reset,
    run_as_captured,
    unbounded,
)
from tests.support.long import LONG
from tests.support.worlds import Built, Source, T, World, is_plain

__all__ = ["Built", "Source", "T", "captured", "same", "same_graph_as_dynamo", "unrelated"]

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMPARE_WITH_DYNAMO = (
    os.environ.get("STATOR_TEST_DYNAMO", "1") == "1" and ENGINE == "stator" and DYNAMO_WRITES_THE_SAME_GRAPHS
)


def unrelated(mutation: Callable[[World], object] | str) -> tuple:
    """A mutation of something that the program does not depend on, or back to a state seen before: no recompile."""
    return ("unrelated", mutation)


@dataclass
class Outcome:
    """What one call did."""

    result: Any = None
    error: BaseException | None = None
    printed: str = ""
    modes: dict[str, Any] = field(default_factory=dict)
    random: Any = None


def global_modes() -> dict[str, Any]:
    """PyTorch's state that a call could leave changed."""
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "autocast dtype": torch.get_autocast_dtype("cpu"),
        "default dtype": torch.get_default_dtype(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def is_users_file(filename: str) -> bool:
    """Whether a frame belongs to a program rather than to the test harness."""
    return filename.startswith("<program") or (
        filename.startswith(TESTS) and os.path.basename(filename).startswith("test_")
    )


def users_lines(error: BaseException) -> list[tuple[str, int | None]]:
    """The program's frames of the traceback, as names with lines; a recursion counts once, however deep it went."""
    frames = [
        (frame.name, frame.lineno)
        for frame in traceback.extract_tb(error.__traceback__)
        if is_users_file(frame.filename)
    ]
    return [frame for index, frame in enumerate(frames) if index == 0 or frame != frames[index - 1]]


def run(world: World, seed: int) -> Outcome:
    """One call of the world's program."""
    outcome = Outcome()
    printed = io.StringIO()
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    with contextlib.redirect_stdout(printed), world.under():
        before = global_modes()
        try:
            outcome.result = world.entry(*world.args, **world.kwargs)
        except Exception as error:
            outcome.error = error
        outcome.modes = {"before": before, "after": global_modes()}
    outcome.printed = printed.getvalue()
    outcome.random = (bytes(torch.get_rng_state().numpy()), hash(random.getstate()))
    return outcome


def differentiable(outcome: Outcome) -> list[torch.Tensor]:
    """The results that have a backward pass."""
    found: list[torch.Tensor] = []
    visited: set[int] = set()

    def collect(value: Any) -> None:
        if isinstance(value, (list, tuple, dict)):
            if id(value) in visited:
                return
            visited.add(id(value))
        if isinstance(value, torch.Tensor):
            has_backward = value.requires_grad and value.grad_fn is not None and value.is_floating_point()
            if has_backward and all(value is not one for one in found):
                found.append(value)
        elif isinstance(value, (list, tuple)):
            for one in value:
                collect(one)
        elif isinstance(value, dict):
            for one in value.values():
                collect(one)

    collect(outcome.result)
    return found


def backward(results: list[torch.Tensor]) -> BaseException | None:
    """Backward of the sum of the results; what it raised, if anything."""
    try:
        sum(value.sum() for value in results).backward()
    except Exception as error:
        return error
    return None


def same_error(expected: BaseException | None, actual: BaseException | None, where: str) -> None:
    """Raises Difference unless both raised alike: type, text, the program's lines, cause and context."""
    if expected is None and actual is None:
        return
    if expected is None:
        raise Difference(f"{where}: uncompiled returned, compiled raised {type(actual).__name__}: {actual}") from actual
    if actual is None:
        raise Difference(
            f"{where}: uncompiled raised {type(expected).__name__}: {expected}, compiled returned"
        ) from expected
    comparison = Comparison()
    try:
        comparison.same(type(expected), type(actual), f"{where}: type of the exception")
        comparison.same(str(expected), str(actual), f"{where}: text of the exception")
        comparison.same(users_lines(expected), users_lines(actual), f"{where}: lines of the traceback")
        comparison.same(getattr(expected, "__notes__", None), getattr(actual, "__notes__", None), f"{where}: notes")
        same_error(expected.__cause__, actual.__cause__, f"{where}: cause of the exception")
        if not expected.__suppress_context__:
            same_error(expected.__context__, actual.__context__, f"{where}: context of the exception")
    except Difference as difference:
        raise difference from actual


@contextlib.contextmanager
def room_to_compare() -> Iterator[None]:
    """Lets comparisons recurse deeper than the programs, which nest as deep as Python allows."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 20_000)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def compare_worlds(one: World, other: World, seed: int, where: str, grads: bool, tolerance: float | None) -> Outcome:
    """Calls the program in both worlds and compares the outcomes; returns the uncompiled one."""
    expected, actual = run(one, seed), run(other, seed)
    same_error(expected.error, actual.error, where)
    Comparison().same(expected.printed, actual.printed, f"{where}: printed text")
    Comparison().same(expected.modes, actual.modes, f"{where}: global state")
    Comparison().same(expected.random, actual.random, f"{where}: random state")
    with room_to_compare():
        together = Comparison(tolerance)
        together.same(one.args, other.args, f"{where}: arguments")
        together.same(one.kwargs, other.kwargs, f"{where}: keyword arguments")
        together.same(expected.result, actual.result, f"{where}: result")
        together.same(one.state()[2:], other.state()[2:], f"{where}: program and its globals")
        results = differentiable(expected) if grads and expected.error is None else []
        if results:
            same_error(backward(results), backward(differentiable(actual)), f"{where}: backward")
            after = Comparison(tolerance)
            after.same(one.state(), other.state(), f"{where}: state after backward")
    return expected


@unbounded()
def same(
    program: Any,
    *make_args: Any,
    kwargs: dict[str, Any] | None = None,
    fullgraph: bool = True,
    calls: int = 2,
    mutate: list | tuple = (),
    grads: bool = True,
    compare_dynamo: bool = True,
    backend: Any = None,
    graphs: int | None = 1,
    fresh: bool | None = None,
    tolerance: float | None = None,
    under: Callable[[], Any] | None = None,
    stateful: bool = False,
) -> None:
    """Compares the compiled program with the uncompiled one.

    `program` is a function, or a `Source` or `Built` that each world makes anew. `make_args` are makers or constants.
    The program is called `calls` times, then once after each mutation and once more; with fullgraph the first call
    compiles `graphs` graphs and a call after an unchanged one compiles none. Later calls get fresh arguments if
    `fresh`, by default when these are plain tensors, constants and containers. With `backend="eager"` Stator knows
    that the graphs run as they are; without, it takes the backend for a compiler. A `stateful` program changes what it
    depends on: each of its calls may compile.
    """
    reset()
    recorder = Recorder(None if backend == "eager" else backend)
    makers = tuple(make_args), dict(kwargs or {})
    uncompiled, compiled = World(program, *makers, seed=1), World(program, *makers, seed=1)
    if under is not None:
        uncompiled.under = compiled.under = under
    runs = run_as_captured(recorder) if backend == "eager" else recorder
    compiled.entry = compile(compiled.program, backend=runs, fullgraph=fullgraph)
    if fresh is None:
        fresh = all(is_plain(value) for value in (*compiled.args, *compiled.kwargs.values()))
    counted = CAPTURES and fullgraph

    for call in range(calls):
        if call and fresh:
            uncompiled.make_arguments(seed=call + 1)
            compiled.make_arguments(seed=call + 1)
        before, captured_before = recorder.count, captures()
        outcome = compare_worlds(uncompiled, compiled, call + 1, f"call {call + 1}", grads, tolerance)
        new = recorder.count - before
        if new == 0 and captures() == captured_before + 1:
            new = 1  # captured, and there was nothing for a backend to do
        if counted:
            wanted = graphs if not call else None if stateful else 0
            if wanted is not None and new != wanted:
                raise Difference(f"call {call + 1}: {new} graphs compiled, {wanted} expected")

    for number, mutation in enumerate(mutate, start=1):
        quiet = isinstance(mutation, tuple)
        change = mutation[1] if quiet else mutation
        before = recorder.count
        uncompiled.change(change)
        compiled.change(change)
        compare_worlds(uncompiled, compiled, 50, f"after mutation {number}", grads, tolerance)
        if counted and quiet and recorder.count != before:
            raise Difference(f"after mutation {number}: compiled again, though nothing it depends on is new")
        before = recorder.count
        compare_worlds(uncompiled, compiled, 51, f"second call after mutation {number}", grads, tolerance)
        if counted and not stateful and recorder.count != before:
            raise Difference(f"second call after mutation {number}: compiled again, though nothing changed")

    reset()
    if compare_dynamo and counted and COMPARE_WITH_DYNAMO and (LONG or is_of_the_half_that_is_compared()):
        same_graph_as_dynamo(program, *make_args, kwargs=kwargs, under=under)


def is_of_the_half_that_is_compared() -> bool:
    """torch._dynamo takes longer than the rest of a test: `make test` asks it for the graphs of every other one."""
    return zlib.crc32(os.environ.get("PYTEST_CURRENT_TEST", "").encode()) % 2 == 0


def same_graph_as_dynamo(
    program: Any, *make_args: Any, kwargs: dict[str, Any] | None = None, under: Callable[[], Any] | None = None
) -> None:
    """Compares the captured graph with torch._dynamo's; a program that torch._dynamo can't capture is not compared."""
    if not CAPTURES:
        return
    under = under or contextlib.nullcontext

    def capture(how: Callable[..., Any]) -> Any:
        world = World(program, tuple(make_args), dict(kwargs or {}), seed=1)
        with under(), contextlib.redirect_stdout(io.StringIO()):
            return how(world.program, *world.args, **world.kwargs)

    expected = capture(captured_by_dynamo)
    if expected is None:
        return
    expected_nodes, actual_nodes = (
        [node for graph in graphs for node in describe(graph, live_only=True)]
        for graphs in (expected, capture(captured_graphs))
    )
    difference = graph_difference(expected_nodes, actual_nodes)
    if difference:
        raise Difference(f"the graph differs from torch._dynamo's:\n{difference}")
