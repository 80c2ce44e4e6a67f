"""One model, uncompiled and captured by an engine. Each of these runs in a process of its own."""

from __future__ import annotations

import copy
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy
import torch

from tests.models.comparing import tensors
from tests.support.counting import Counting

Makers = Callable[[str], Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]]


@dataclass
class Outcome:
    """Of a model in a mode under an engine."""

    graphs: int = 0
    breaks: int = 0
    operations: int = 0  # that ran in graphs, in the last call
    same: str = "-"  # yes bit by bit, close, varies, no; compared with uncompiled
    error: str = ""
    seconds: float = 0  # of the first call
    reasons: dict[str, int] = field(default_factory=dict)  # of the graph breaks


def preload(engines: Sequence[str]) -> None:
    """Imports what each process would import before it captures anything."""
    import torch._dynamo.repro.after_dynamo
    import torch._inductor.compile_fx

    import tests.support.torchaudio_stand_in  # noqa: F401 - before transformers, which imports torchaudio

    if "stator" in engines:
        import stator

        stator.compile(torch.relu, backend="eager")


def first_that_runs(makers: Makers, name: str) -> dict[str, Any]:
    """Which of the ways to make a model gives one that runs uncompiled, in eval and in training."""
    said = ""
    for number, make in enumerate(makers(name)):
        try:
            model, inputs = _made(make)
            for training in (False, True):
                _run(model.train(training), inputs, training)
        except Exception as error:  # noqa: BLE001 - the libraries raise all kinds
            said = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
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
    compiled, reasons = _compiled(model, backend, engine)
    began = time.perf_counter()
    try:
        for _ in range(2):
            backend.executed = 0
            expected, actual = _run(uncompiled, inputs, training), _run(compiled, inputs, training)
            outcome.seconds = outcome.seconds or round(time.perf_counter() - began, 2)
            outcome.same = worse(outcome.same, sameness(expected, actual))
    except Exception as error:  # noqa: BLE001
        outcome.error = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"
    if outcome.same == "no" and _varies(make, training):
        outcome.same = "varies"
    outcome.graphs, outcome.operations = backend.compiled, backend.executed
    outcome.breaks, outcome.reasons = sum(reasons.values()), dict(reasons)
    return outcome


def _varies(make: Callable[[], tuple[torch.nn.Module, dict[str, Any]]], training: bool) -> bool:
    """Whether uncompiled models differ too: some draw a seed of their own."""
    results = []
    for _ in range(2):
        model, inputs = _made(make)
        results.append(_run(model.train(training), inputs, training))
    return sameness(*results) == "no"


def _compiled(model: torch.nn.Module, backend: Counting, engine: str) -> tuple[Any, Mapping[str, int]]:
    if engine == "stator":
        import stator

        stator.config.suppress_errors = False
        stator.install()
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    return torch.compile(model, backend=backend), counters["graph_break"]


def in_words(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return answer["error"]
    return "; ".join(
        f"{mode}: {one['error'] or one['same']}, {one['graphs']} graphs, {one['breaks']} breaks, {one['seconds']} s"
        + "".join(f", {reason!r} {count} times" for reason, count in one["reasons"].items())
        for mode, one in answer.items()
    )


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
    return max(one, other, key=("-", "yes", "close", "varies", "no").index)


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
