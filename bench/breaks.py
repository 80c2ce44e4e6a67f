"""The cost of a graph break in a cached call: under both systems, and compared with the uncompiled program.

Two figures. The overhead is a call whose graphs return recorded results, as in the other benchmarks: the cost of
leaving and entering compiled code. The whole call runs its graphs, with `eager` and with Stator's default backend, and
is compared with the uncompiled one: CPU time, batches of calls in turn, the best of each.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn

from bench.measure import Answering, Recording, Repeats, best_seconds, quiet
from bench.models import VOCABULARY, from_transformers, tokens
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


class Streaming(nn.Module):
    """Adds up what a generator over its layers gives."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))

    def hidden(self, x: Tensor) -> Iterator[Tensor]:
        for layer in self.layers:
            x = torch.relu(layer(x))
            opaque(x)
            yield x * 2

    def forward(self, x: Tensor) -> Tensor:
        total = x
        for each in self.hidden(x):
            total = total + each
        return total


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


NO_BREAK = Breaking("no break", lambda: (no_break, input_tensor()), 0)

PROGRAMS = (
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
    Breaking("a generator in a module", lambda: (Streaming(), input_tensor()), 5),
    Breaking("a loop of 20 items", lambda: (loop_of_items, input_tensor()), 20),
)


def mamba() -> tuple[Any, tuple[Any, ...]]:
    model, inputs = from_transformers(
        "MambaModel", "MambaConfig", lambda: (tokens(),), vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2,
        state_size=8, use_cache=False,
    )  # fmt: skip
    return model.eval(), inputs


#: Its selective scan is a loop over tokens, and `associative_scan` where it is compiled.
MAMBA = Breaking("Mamba", mamba, 0)


def programs(containing: str = "") -> list[Breaking]:
    """The 20 programs that break, between one that does not and a model that once did."""
    model = (MAMBA,) if importlib.util.find_spec("transformers") else ()
    return [program for program in (NO_BREAK, *PROGRAMS, *model) if containing in program.name]


#: How many times as long as uncompiled a program with breaks may take.
AT_MOST = 1.1
#: What runs the graphs of whole calls.
BACKENDS = ("eager", "stator")


@dataclass
class Cost:
    """One call, in seconds, and how many operations of it ran in graphs."""

    uncompiled: float = math.inf
    overhead: dict[str, float] = field(default_factory=dict)
    theirs: float = math.inf  # the whole call with torch._dynamo and `eager`
    whole: dict[str, float] = field(default_factory=dict)  # with Stator, by backend
    executed: dict[str, int] = field(default_factory=dict)

    def to_uncompiled(self, backend: str) -> float:
        return self.whole[backend] / self.uncompiled


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
    cost = Cost()
    for _ in repeats:
        for system in systems:
            system.reset()
            counting = CountingNodes()
            compiled, arguments = _cached(program, system, counting)
            counting.counting = True
            with printing_nowhere():
                compiled(*arguments)
            cost.executed[system.name] = counting.executed
            system.reset()
            recording = Recording()
            _cached(program, system, recording)
            system.reset()
            compiled, arguments = _cached(program, system, Answering(recording.outputs))
            with printing_nowhere(), quiet():
                overhead = best_seconds(functools.partial(compiled, *arguments), *_batches(program))
            cost.overhead[system.name] = min(cost.overhead.get(system.name, overhead), overhead)
        _measure_whole(program, systems, cost)
    for system in systems:
        system.reset()
    return cost


def _measure_whole(program: Breaking, systems: Sequence[System], cost: Cost) -> None:
    """The uncompiled program and the compiled ones take turns."""
    calls = [program.make()]
    names = [""]
    for system in systems:
        system.reset()
        for backend in BACKENDS if system.name == "stator" else BACKENDS[:1]:
            calls.append(_cached(program, system, backend))
            names.append(backend if system.name == "stator" else system.name)
    best = _best_cpu_seconds(calls, *_batches(program))
    for name, seconds_of_one in zip(names, best, strict=True):
        if name == "":
            cost.uncompiled = min(cost.uncompiled, seconds_of_one)
        elif name in BACKENDS:
            cost.whole[name] = min(cost.whole.get(name, seconds_of_one), seconds_of_one)
        else:
            cost.theirs = min(cost.theirs, seconds_of_one)


def _cached(program: Breaking, system: System, backend: Any) -> tuple[Any, tuple[Any, ...]]:
    """Compiled, and called until nothing is captured any more and the graphs are prepared."""
    function, arguments = program.make()
    compiled = system.compile(function, backend=backend)
    with printing_nowhere():
        for _ in range(4):
            compiled(*arguments)
    return compiled, arguments


def _batches(program: Breaking) -> tuple[int, int]:
    """How many batches, and calls in each."""
    return (8, 5) if program.breaks > 50 or program is MAMBA else (40, 20)


def _best_cpu_seconds(calls: Sequence[tuple[Any, tuple[Any, ...]]], batches: int, count: int) -> list[float]:
    best = [math.inf] * len(calls)
    with printing_nowhere(), quiet():
        for _ in range(batches):
            for place, (function, arguments) in enumerate(calls):
                function(*arguments)
                start = time.process_time()
                for _ in range(count):
                    function(*arguments)
                best[place] = min(best[place], (time.process_time() - start) / count)
    return best


def table(results: list[tuple[Breaking, Cost]]) -> str:
    """Both figures for both systems, and Stator's whole call beside uncompiled."""
    head = ["program", "breaks", "nodes", "torch._dynamo", "stator", "times less", "least", "aim", ""]
    overheads = [head]
    for program, cost in results:
        nodes = "/".join(str(cost.executed[name]) for name in ("torch._dynamo", "stator") if name in cost.executed)
        theirs, ours = cost.overhead["torch._dynamo"], cost.overhead.get("stator")
        ratio = theirs / ours if ours is not None else None
        row = [program.name, str(program.breaks), nodes, seconds(theirs)]
        row += [seconds(ours), f"{ratio:.1f}"] if ours is not None else ["-", "-"]
        row += [f"{program.goal.least:g}", f"{program.goal.aim:g}"] if program.goal else ["", ""]
        overheads.append([*row, verdict(ratio, program.goal)])
    return (
        f"A cached call that breaks, without its operations\n{aligned(overheads)}\n\n"
        f"The same with its operations, beside uncompiled\n{table_of_whole_calls(results)}"
    )


def table_of_whole_calls(results: list[tuple[Breaking, Cost]]) -> str:
    head = ["program", "breaks", "uncompiled", "torch._dynamo, eager"]
    head += [column for backend in BACKENDS for column in (f"stator, {backend}", "to uncompiled")]
    rows = [head]
    for program, cost in results:
        row = [program.name, str(program.breaks), seconds(cost.uncompiled), seconds(cost.theirs)]
        for backend in BACKENDS:
            is_there = backend in cost.whole
            row += [seconds(cost.whole[backend]), f"{cost.to_uncompiled(backend):.2f}"] if is_there else ["-", "-"]
        rows.append(row)
    lines = [aligned(rows)]
    breaking = [cost for program, cost in results if program.breaks > 0 and cost.whole]
    if breaking:
        within = {name: sum(cost.to_uncompiled(name) <= AT_MOST for cost in breaking) for name in BACKENDS}
        counts = " and ".join(f"{count} of {len(breaking)} with {name}" for name, count in within.items())
        lines.append(f"At most {AT_MOST:g} times as long as uncompiled: {counts}.")
    return "\n".join(lines)


def as_record(results: list[tuple[Breaking, Cost]]) -> dict[str, Any]:
    return {program.name: {"breaks": program.breaks, **asdict(cost)} for program, cost in results}
