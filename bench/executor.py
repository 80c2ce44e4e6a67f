"""The backend `stator` against uncompiled, in one process: what a call takes, and what preparing it takes.

Both are called in turn and the best of many counts, so that the ratio means something on a machine with other work.
"""

from __future__ import annotations

import enum
import functools
import gc
import math
import os
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import stator
from bench.page_tables import Pages, map_pages, present_pages
from bench.programs import Program, made, thousand_adds
from bench.tables import aligned, seconds
from stator import _testing
from stator.backends import prepared_calls


class Residual(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 64), nn.Linear(64, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Attention(nn.Module):
    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads, self.all, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.all(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2])
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
        self.layers = nn.Sequential(*layers, nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def repeated(step: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    def program(x: Tensor) -> Tensor:
        for _ in range(10):
            x = step(x)
        return x

    return program


def written(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    for i in range(8):
        y[:, i] = x[:, i] * i
    return y.add_(1).mul_(2)


def decay(x: Tensor) -> Tensor:
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
    return (x - mean) / (variance + 1e-5).sqrt()


def small(batch: int = 8, width: int = 32) -> Tensor:
    return torch.randn(batch, width)


STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda x: x + 1,
    "mul and sub": lambda x: x * 0.5 - x,
    "relu": torch.relu,
    "sigmoid and tanh": lambda x: x.sigmoid().tanh(),
    "softmax": lambda x: F.softmax(x, -1),
    "normalization": decay,
    "layer_norm": lambda x: F.layer_norm(x, (32,)),
    "matmul": lambda x: x @ x.t() @ x * 0.01,
    "views": lambda x: x.t().reshape(8, 32).view(8, 4, 8).flatten(1),
    "indexing": lambda x: torch.cat([x[:, 16:], x[:, :16]], 1),
    "chunks": lambda x: torch.cat(x.chunk(4, 1)[::-1], 1),
    "max": lambda x: x - torch.max(x, 1, keepdim=True)[0],
    "where": lambda x: torch.where(x > 0, x, x * 0.1),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x) @ x * 0.01,
    "dtypes": lambda x: x.double().mul(2).float(),
}
MODULES: dict[str, Callable[[], tuple[Any, tuple[Any, ...]]]] = {
    "in place": lambda: (written, (small(),)),
    "mlp": lambda: (
        nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)),
        (small(),),
    ),
    "residual blocks": lambda: (nn.Sequential(*(Residual() for _ in range(6))), (small(),)),
    "attention": lambda: (nn.Sequential(*(Attention() for _ in range(4))), (torch.randn(1, 8, 32),)),
    "convolutions": lambda: (Convolutions(), (torch.randn(1, 3, 16, 16),)),
}


def micro(name: str, step: Callable[[Tensor], Tensor]) -> Program:
    return Program(f"micro {name}", lambda: (repeated(step), (small(),)))


MICRO = (
    *(micro(name, step) for name, step in STEPS.items()),
    *(Program(f"micro {name}", make) for name, make in MODULES.items()),
)


@dataclass
class Figures:
    """In seconds for one call, but for counts."""

    uncompiled: float
    prepared: float
    as_captured: float
    first_uncompiled: float
    first: float  # with the capture
    prepared_steps: int
    peak_uncompiled: int = 0  # bytes
    peak: int = 0
    training_uncompiled: float | None = None
    training: float | None = None

    @property
    def memory_ratio(self) -> float:
        return self.peak / self.peak_uncompiled if self.peak_uncompiled else 1.0

    @property
    def ratio(self) -> float:
        return self.uncompiled / self.prepared

    @property
    def training_ratio(self) -> float | None:
        return self.training_uncompiled / self.training if self.training and self.training_uncompiled else None


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def best_in_turn(actions: Sequence[Callable[[], object]], budget: float) -> list[float]:
    """The best time of each, for as many rounds as fit in so many seconds."""
    best, end = [math.inf] * len(actions), time.perf_counter() + budget
    rounds = 0
    while rounds < 5 or (time.perf_counter() < end and rounds < 3000):
        best = [min(known, timed(action)) for known, action in zip(best, actions, strict=True)]
        rounds += 1
    return best


def trained(model: nn.Module, call: Callable[..., Any], inputs: tuple[Any, ...]) -> Callable[[], None]:
    def step() -> None:
        result = call(*inputs)
        result.sum().backward()
        model.zero_grad()

    return step


CALLS_TO_PLAN = 4  # captured, observed, observed once more for the plan of memory, and run by it


def peak_of_calls(call: Callable[..., Any], inputs: tuple[Any, ...]) -> int:
    """The most bytes that tensors take at a time in the first calls: what one of them keeps for the next one counts."""

    def calls() -> None:
        for _ in range(CALLS_TO_PLAN + 2):
            call(*inputs)

    return _testing.peak_memory(calls)


def measure(program: Program, budget: float = 2.0) -> Figures:
    stator.reset()
    model, inputs = made(program)
    runners: list[Any] = []

    def backend(module: Any, examples: Any) -> Any:
        runners.append(prepared_calls(module, examples))
        return runners[-1]

    with torch.no_grad():
        first_uncompiled = timed(lambda: model(*inputs))
        call, captured = stator.compile(model, backend=backend), stator.compile(model, backend="eager")
        first = timed(lambda: call(*inputs))
        for _ in range(CALLS_TO_PLAN - 1):
            call(*inputs), captured(*inputs)
        times = best_in_turn([lambda: model(*inputs), lambda: call(*inputs), lambda: captured(*inputs)], budget)
        peaks = peak_of_calls(model, inputs), peak_of_calls(stator.compile(model), inputs)
    uncompiled, prepared, as_captured = times
    prepared_steps = sum(runner.prepared[0] for runner in runners)
    figures = Figures(uncompiled, prepared, as_captured, first_uncompiled, first, prepared_steps, *peaks)
    if program.name.startswith("micro") and isinstance(model, nn.Module):
        model.train()
        model(*inputs)
        steps = [trained(model, model, inputs), trained(model, call, inputs)]
        steps[1](), steps[1]()
        figures.training_uncompiled, figures.training = best_in_turn(steps, budget)
    return figures


def first_call(backend: str, x: Tensor) -> float:
    stator.reset()
    call = stator.compile(thousand_adds, backend=backend)
    return timed(lambda: call(x))


def overhead() -> dict[str, float]:
    """Of a chain of a thousand operators on one number, where everything but the kernel counts most."""
    x = torch.zeros(1)
    with torch.no_grad():
        first = [min(first_call(backend, x) for _ in range(5)) for backend in ("eager", "stator")]
        call, captured = (stator.compile(thousand_adds, backend=backend) for backend in ("stator", "eager"))
        traced = torch.jit.trace(thousand_adds, x)
        functions = {"uncompiled": thousand_adds, "stator": call, "eager": captured, "torch.jit": traced}
        for function in functions.values():
            function(x), function(x)
        times = best_in_turn([functools.partial(function, x) for function in functions.values()], 3)
    each = {f"an operator, {name}": value / 1000 for name, value in zip(functions, times, strict=True)}
    return each | {"1,000 nodes, first call with `eager`": first[0], "the same with `stator`": first[1]}


CHAINS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "mul": torch.mul,
    "mm": torch.mm,
    "relu": lambda x, _: torch.relu(x),
    "sigmoid": lambda x, _: torch.sigmoid(x),
    "softmax": lambda x, _: torch.softmax(x, -1),
}


def above_kernel(name: str, length: int = 1000, rounds: int = 100) -> tuple[float, float, float]:
    """One operator of a long chain: uncompiled, with `stator`, and its kernel alone.

    The kernel is called by a loop in C++, without a dispatcher, with the same arguments: what `stator` takes more is
    all that is not the kernel, including what the call of the compiled function itself takes.
    """
    step, x, y = CHAINS[name], torch.zeros(8, 8), torch.zeros(8, 8)

    def chain(x: Tensor, y: Tensor) -> Tensor:
        for _ in range(length):
            x = step(x, y)
        return x

    call, best = stator.compile(chain, backend="stator"), [math.inf] * 3
    with torch.no_grad():
        call(x, y), call(x, y)
        for _ in range(rounds):
            times = timed(lambda: chain(x, y)), timed(lambda: call(x, y)), _testing.kernel_time(name, x, y, length)
            best = [min(pair) for pair in zip(best, times, strict=True)]
    return best[0] / length, best[1] / length, best[2] / length


def overhead_table() -> str:
    rows = [["One operator on 8 by 8 numbers", "uncompiled", "stator", "kernel alone", "stator above it"]]
    for name in CHAINS:
        uncompiled, prepared, kernel = above_kernel(name)
        rows.append([name, *map(seconds, (uncompiled, prepared, kernel, prepared - kernel))])
    return aligned(rows) + "\nat most 0.50 us above the kernel"


def in_new_process(measure: Callable[[], float]) -> float:
    """The result of a function in a forked process: cold, if this one has done nothing but to import."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write_end, struct.pack("d", measure()))
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    if len(data) != 8:
        raise RuntimeError("the measuring process failed")
    return float(struct.unpack("d", data)[0])


def identity(x: Tensor) -> Tensor:
    return x


def prepare_process(pages: Pages) -> float:
    map_pages(pages)
    start = time.thread_time()
    stator.compile(identity)
    return time.thread_time() - start


class State(enum.Enum):
    """In what process an uncompiled first call is measured. The compiled one is measured in the same, after the first
    `stator.compile`, which runs some views, so that an uncompiled call takes less after it too."""

    Fresh = "fresh"  # it has imported everything, and called nothing
    AfterCompile = "after `stator.compile`"  # of another function
    KernelsUsed = "kernels used"  # by two uncompiled calls of the program: nothing is new but the capture


def cold_call(model: Any, inputs: tuple[Any, ...], pages: Pages, state: State, is_compiled: bool) -> float:
    """CPU time of this thread, which other work on the machine changes least."""
    map_pages(pages)
    with torch.no_grad():
        for _ in range(2 if state == State.KernelsUsed else 0):
            model(*inputs)
        if is_compiled or state != State.Fresh:
            stator.compile(identity)  # here, and not before the fork, after which each page written to costs a copy
        call = stator.compile(model) if is_compiled else model
        start = time.thread_time()
        call(*inputs)
        return time.thread_time() - start


def cold_table(programs: Sequence[Program], rounds: int = 5) -> str:
    """First calls in new processes. Has to come before anything else is called in this one.

    All begin in a process that has imported everything and has called nothing. What `stator.compile` does once for a
    process is counted in its own line.
    """
    once = in_new_process(functools.partial(prepare_process, present_pages()))
    heads = [text for state in State for text in (state.value, "stator", "ratio")]
    rows, ratios = [["First call, CPU time", *heads]], {state: list[float]() for state in State}
    for program in programs:
        model, inputs = made(program)
        gc.collect()
        pages = present_pages()
        row = [program.name]
        for state in State:
            measures = [functools.partial(cold_call, model, inputs, pages, state, each) for each in (False, True)]
            first = [math.inf] * len(measures)
            for _ in range(rounds):
                first = [min(known, in_new_process(measure)) for known, measure in zip(first, measures, strict=True)]
            ratios[state].append(first[1] / first[0])
            row += [*map(seconds, first), f"{ratios[state][-1]:.2f}x"]
        rows.append(row)
    within = sum(ratio <= 1.3 for ratio in ratios[State.Fresh])
    means = ", ".join(f"{geometric_mean(each):.2f}x ({state.value})" for state, each in ratios.items())
    text = f"\ngeometric means {means} (at most 1.30x); {within} of {len(programs)} within 1.30x of the first"
    return aligned(rows) + text + f"\nthe first `stator.compile` of a process: {seconds(once)}"


def geometric_mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


Results = list[tuple[Program, Figures]]


def table(results: Results) -> str:
    rows = [
        [
            "Backend `stator`",
            "uncompiled",
            "eager",
            "stator",
            "ratio",
            "training",
            "memory",
            "first uncompiled",
            "first stator",
        ]
    ]
    for program, each in results:
        training = f"{each.training_ratio:.2f}x" if each.training_ratio else ""
        first = [seconds(each.first_uncompiled), seconds(each.first)]
        times = [seconds(value) for value in (each.uncompiled, each.as_captured, each.prepared)]
        rows.append([program.name, *times, f"{each.ratio:.2f}x", training, f"{each.memory_ratio:.2f}x", *first])
    ratios = [each.ratio for _, each in results]
    trainings = [each.training_ratio for _, each in results if each.training_ratio]
    text = f"\ngeometric mean {geometric_mean(ratios):.2f}x (at least 1.40x), least {min(ratios):.2f}x (at least 1.00x)"
    if trainings:
        text += f"; training {geometric_mean(trainings):.2f}x (at least 1.10x), least {min(trainings):.2f}x"
    text += f"; memory at the peak at most {max(each.memory_ratio for _, each in results):.2f}x (at most 1.00x)"
    return aligned(rows) + text


def as_record(results: Results) -> dict[str, Any]:
    return {program.name: asdict(each) | {"ratio": each.ratio} for program, each in results}


def main() -> None:
    """`python -m bench.executor`: this table alone."""
    from bench import models

    torch.set_num_threads(1)  # more could not be forked
    print(cold_table((*MICRO, *models.PROGRAMS)))
    print()
    print(table([(program, measure(program)) for program in (*MICRO, *models.PROGRAMS)]))
    print()
    print(overhead_table())
    for name, value in overhead().items():
        print(f"{name}: {seconds(value)}")


if __name__ == "__main__":
    main()
