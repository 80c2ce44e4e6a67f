"""The cost of a graph break in a cached call: under both systems, and compared with the uncompiled program.

Two figures. The overhead is a call whose graphs return recorded results, as in the other benchmarks: the cost of
leaving and entering compiled code. The whole call runs its graphs with `eager` and is compared with the uncompiled one.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn

from bench.measure import Answering, Recording, Repeats, best_seconds, quiet
from bench.programs import Goal
from bench.systems import System
from bench.tables import aligned, seconds, verdict


@torch._dynamo.disable
def opaque(x: Tensor) -> int:
    return 2


def no_break(x: Tensor) -> Tensor:
    return (x + 1) * 2


def one_break(x: Tensor) -> Tensor:
    y = x + 1
    n = opaque(y)
    return y * n


def branch(x: Tensor) -> Tensor:
    y = x + 1
    if y.sum() > 0:
        return y * 2
    return y * 3


def item(x: Tensor) -> Tensor:
    y = x + 1
    n = y.sum().item()
    return y * (n > 0)


def printing(x: Tensor) -> Tensor:
    y = x + 1
    print("seen")
    return y * 2


def inner(x: Tensor) -> Tensor:
    y = x + 1
    return y * opaque(y)


def middle(x: Tensor) -> Tensor:
    return inner(x * 2) - 1


def three_frames_down(x: Tensor) -> Tensor:
    return middle(x - 1) + 1


def loop(x: Tensor) -> Tensor:
    for _ in range(100):
        x = x + 1
        opaque(x)
        x = x * 0.5
    return x


def loop_of_branches(x: Tensor) -> Tensor:
    for _ in range(100):
        x = x + 1
        x = x * 0.5 if x.sum() > 0 else x - 1
    return x


class Printing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x + 1
        opaque(y)
        return y * 2


def in_with(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x + 1
        n = opaque(y)
        return y * n


def in_try(x: Tensor) -> Tensor:
    y = x + 1
    try:
        y = y * opaque(y)
    finally:
        y = y - 1
    return y


def raised(x: Tensor) -> Tensor:
    y = x + 1
    try:
        raise_for(y)
    except KeyError:
        y = y * 2
    return y


@torch._dynamo.disable
def raise_for(x: Tensor) -> None:
    raise KeyError("no")


def parts(x: Tensor) -> Iterator[Tensor]:
    for k in range(10):
        y = x * k
        opaque(y)
        yield y + 1


def generator(x: Tensor) -> Tensor:
    for part in parts(x):
        x = x + part
    return x


def delegated(x: Tensor) -> Iterator[Tensor]:
    yield from parts(x)


def generator_of_generator(x: Tensor) -> Tensor:
    return torch.cat([part * 2 for part in delegated(x)])


def closure(x: Tensor) -> Tensor:
    scale = 2

    def scaled(y: Tensor) -> Tensor:
        return y * scale * opaque(y)

    return scaled(x + 1) + scaled(x)


class Deep(nn.Module):
    """Modules in modules, the innermost of which breaks."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.inner = Deep(depth - 1) if depth > 0 else Printing()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x + 1) * 2


class Measured(nn.Module):
    """A block of linear layers that looks at its result."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = self.layers(x)
        return y / y.abs().max().item()


def loop_of_items(x: Tensor) -> Tensor:
    total = 0.0
    for _ in range(20):
        x = x * 0.5 + 1
        total += x.sum().item()
    return x * total


@dataclass(frozen=True)
class Breaking:
    """A program, how often it breaks, and how many times less than under torch._dynamo it has to cost."""

    name: str
    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    breaks: int
    goal: Goal | None = None


def input_tensor() -> tuple[Tensor]:
    return (torch.ones(8),)


PROGRAMS = (
    Breaking("no break", lambda: (no_break, input_tensor()), 0),
    Breaking("a disabled function", lambda: (one_break, input_tensor()), 1, Goal(10, 20)),
    Breaking("a branch on a tensor", lambda: (branch, input_tensor()), 1, Goal(10, 20)),
    Breaking("item()", lambda: (item, input_tensor()), 1, Goal(10, 20)),
    Breaking("print()", lambda: (printing, input_tensor()), 1, Goal(10, 20)),
    Breaking("three frames down", lambda: (three_frames_down, input_tensor()), 1, Goal(10, 20)),
    Breaking(
        "10 modules that break",
        lambda: (nn.Sequential(*(Printing() for _ in range(10))), input_tensor()),
        10,
        Goal(10, 20),
    ),
    Breaking("a loop of 100 calls", lambda: (loop, input_tensor()), 100, Goal(10, 20)),
    Breaking("a loop of 100 branches", lambda: (loop_of_branches, input_tensor()), 100, Goal(10, 20)),
    Breaking("in a with block", lambda: (in_with, input_tensor()), 1),
    Breaking("in a try block", lambda: (in_try, input_tensor()), 1),
    Breaking("a function that raises", lambda: (raised, input_tensor()), 1),
    Breaking("a generator", lambda: (generator, input_tensor()), 10),
    Breaking("a generator of a generator", lambda: (generator_of_generator, input_tensor()), 10),
    Breaking("a closure", lambda: (closure, input_tensor()), 2),
    Breaking("5 modules deep", lambda: (Deep(5), input_tensor()), 1),
    Breaking("a block of linear layers", lambda: (Measured(), input_tensor()), 1),
    Breaking("4 blocks of linear layers", lambda: (nn.Sequential(*(Measured() for _ in range(4))), input_tensor()), 4),
    Breaking("a loop over modules", lambda: (nn.Sequential(*(Deep(1) for _ in range(5))), input_tensor()), 5),
    Breaking("a loop of 20 items", lambda: (loop_of_items, input_tensor()), 20),
)


@dataclass
class Cost:
    """One call, in seconds, and how many operations of it ran in graphs."""

    uncompiled: float = float("inf")
    overhead: dict[str, float] = field(default_factory=dict)
    whole: dict[str, float] = field(default_factory=dict)
    executed: dict[str, int] = field(default_factory=dict)


class CountingNodes:
    """Runs graphs as they are; counts the operations that ran, so that a figure for an empty graph shows as one."""

    def __init__(self) -> None:
        self.executed = 0
        self.counting = False

    def __call__(self, graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        operations = sum(node.op.startswith("call") for node in graph_module.graph.nodes)
        forward = graph_module.forward

        def run(*inputs: Any) -> Any:
            if self.counting:
                self.executed += operations
            return forward(*inputs)

        return run


@contextlib.contextmanager
def printing_nowhere() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield


def measure_breaks(program: Breaking, systems: Sequence[System], repeats: Repeats) -> Cost:
    """The systems take turns with the uncompiled program."""
    cost = Cost()
    for _ in repeats:
        function, arguments = program.make()
        cost.uncompiled = min(cost.uncompiled, _seconds_of_call(program, function, arguments))
        for system in systems:
            backend = CountingNodes()
            whole = _cached_call(program, system, backend)
            cost.whole[system.name] = min(cost.whole.get(system.name, whole), whole)
            cost.executed[system.name] = backend.executed
            recording = Recording()
            _cached_call(program, system, recording, timed=False)
            overhead = _cached_call(program, system, Answering(recording.outputs))
            cost.overhead[system.name] = min(cost.overhead.get(system.name, overhead), overhead)
    for system in systems:
        system.reset()
    return cost


def _cached_call(program: Breaking, system: System, backend: Any, timed: bool = True) -> float:
    function, arguments = program.make()
    system.reset()
    compiled = system.compile(function, backend=backend)
    with printing_nowhere():
        compiled(*arguments)
        compiled(*arguments)
        if isinstance(backend, CountingNodes):
            backend.counting = True
            compiled(*arguments)
            backend.counting = False
    return _seconds_of_call(program, compiled, arguments) if timed else 0.0


def _seconds_of_call(program: Breaking, function: Callable[..., Any], arguments: tuple[Any, ...]) -> float:
    batches, calls = (4, 5) if program.breaks > 50 else (20, 20)
    with printing_nowhere(), quiet():
        return best_seconds(lambda: function(*arguments), batches, calls)


def table(results: list[tuple[Breaking, Cost]]) -> str:
    """Both figures for both systems, and Stator's whole call beside uncompiled."""
    head = ["program", "breaks", "nodes", "torch._dynamo", "stator", "times less", "least", "aim", ""]
    overheads, wholes = [head], [["program", "breaks", "uncompiled", "torch._dynamo", "stator", "to uncompiled"]]
    for program, cost in results:
        nodes = "/".join(str(cost.executed[name]) for name in ("torch._dynamo", "stator") if name in cost.executed)
        theirs, ours = cost.overhead["torch._dynamo"], cost.overhead.get("stator")
        ratio = theirs / ours if ours is not None else None
        row = [program.name, str(program.breaks), nodes, seconds(theirs)]
        row += [seconds(ours), f"{ratio:.1f}"] if ours is not None else ["-", "-"]
        row += [f"{program.goal.least:g}", f"{program.goal.aim:g}"] if program.goal else ["", ""]
        overheads.append([*row, verdict(ratio, program.goal)])
        whole = cost.whole.get("stator")
        row = [program.name, str(program.breaks), seconds(cost.uncompiled), seconds(cost.whole["torch._dynamo"])]
        wholes.append(
            [*row, *([seconds(whole), f"{whole / cost.uncompiled:.2f}"] if whole is not None else ["-", "-"])]
        )
    return (
        f"A cached call that breaks, without its operations\n{aligned(overheads)}\n\n"
        f"The same with its operations, by `eager`, beside uncompiled\n{aligned(wholes)}"
    )


def as_record(results: list[tuple[Breaking, Cost]]) -> dict[str, Any]:
    return {program.name: {"breaks": program.breaks, **asdict(cost)} for program, cost in results}
