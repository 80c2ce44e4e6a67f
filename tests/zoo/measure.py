"""One model, uncompiled and captured by an engine, in a process of its own."""

from __future__ import annotations

import copy
import json
import multiprocessing
import os
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

from tests.models.comparing import tensors

Makers = Callable[[str], Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]]


@dataclass
class Outcome:
    """Of a model in a mode under an engine."""

    graphs: int = 0
    breaks: int = 0
    same: str = "-"  # yes bit by bit, close, no; compared with uncompiled
    error: str = ""


class Counting:
    """A backend that runs the graphs that it gets, and counts those with operations."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.graphs += any(node.op.startswith("call") for node in graph_module.graph.nodes)
        return graph_module


def run_apart(job: Callable[..., Any], arguments: tuple[Any, ...], limit: float, folder: Path) -> dict[str, Any]:
    """The job's answer, which is JSON; `error` alone if it does not end or crashes."""
    place = folder / f"{os.getpid()}.json"
    place.unlink(missing_ok=True)
    process = multiprocessing.get_context("fork").Process(target=_answer, args=(job, arguments, place))
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        return {"error": f"no end after {limit:.0f} s"}
    if process.exitcode != 0 or not place.exists():
        return {"error": f"the process ended with {process.exitcode}"}
    return json.loads(place.read_text())


def _answer(job: Callable[..., Any], arguments: tuple[Any, ...], place: Path) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    place.write_text(json.dumps(job(*arguments)))


def first_that_runs(makers: Makers, name: str) -> dict[str, Any]:
    """Which of the ways to make a model gives one that runs uncompiled, in eval and in training."""
    said = ""
    for number, make in enumerate(makers(name)):
        try:
            model, inputs = _made(make)
            for training in (False, True):
                _run(model.train(training), inputs, training)
        except Exception as error:  # noqa: BLE001 - the libraries raise all kinds
            said = said or f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
            continue
        return {"number": number}
    return {"error": said}


def capture(makers: Makers, name: str, number: int, engine: str) -> dict[str, Any]:
    return {
        mode: asdict(_capture(list(makers(name))[number], training, engine))
        for mode, training in (("eval", False), ("training", True))
    }


def _capture(make: Callable[[], tuple[torch.nn.Module, dict[str, Any]]], training: bool, engine: str) -> Outcome:
    model, inputs = _made(make)
    model.train(training)
    uncompiled = copy.deepcopy(model)
    backend = Counting()
    outcome = Outcome()
    compiled, breaks = _compiled(model, backend, engine)
    try:
        for _ in range(2):
            expected, actual = _run(uncompiled, inputs, training), _run(compiled, inputs, training)
            outcome.same = worse(outcome.same, sameness(expected, actual))
    except Exception as error:  # noqa: BLE001
        outcome.error = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    outcome.graphs, outcome.breaks = backend.graphs, breaks()
    return outcome


def _compiled(model: torch.nn.Module, backend: Counting, engine: str) -> tuple[Any, Callable[[], int]]:
    if engine == "stator":
        import stator

        stator.config.suppress_errors = False
        stator.install()
    import torch._dynamo

    counters = torch._dynamo.utils.counters
    return torch.compile(model, backend=backend), lambda: sum(counters["graph_break"].values())


def _made(make: Callable[[], tuple[torch.nn.Module, dict[str, Any]]]) -> tuple[torch.nn.Module, dict[str, Any]]:
    torch.manual_seed(0)
    return make()


def _run(model: Any, inputs: dict[str, Any], training: bool) -> list[torch.Tensor]:
    for seed in (torch.manual_seed, numpy.random.seed, random.seed):
        seed(7)
    model.zero_grad()
    if not training:
        with torch.no_grad():
            return tensors(model(**inputs))
    results = tensors(model(**inputs))
    sum(one.float().square().sum() for one in results if one.requires_grad).backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return [*results, *gradients]


def worse(one: str, other: str) -> str:
    return max(one, other, key=("-", "yes", "close", "no").index)


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bit by bit, but for the bits of NaN."""
    if torch.equal(one, other):
        return True
    if not one.is_floating_point() or not torch.equal(one.isnan(), other.isnan()):
        return False
    return torch.equal(one.nan_to_num(), other.nan_to_num())


def sameness(expected: list[torch.Tensor], actual: list[torch.Tensor]) -> str:
    if len(expected) != len(actual):
        return "no"
    found = "yes"
    for one, other in zip(expected, actual, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return "no"
        if not _equal(one, other):
            scale = one.detach().nan_to_num().abs().max().item() if one.numel() and one.is_floating_point() else 0.0
            close = torch.allclose(one, other, rtol=1e-3, atol=1e-4 + 1e-4 * scale, equal_nan=True)
            found = worse(found, "close" if close else "no")
    return found
