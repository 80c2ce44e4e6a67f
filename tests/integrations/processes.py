"""Runs a scenario in a process of its own, with a time limit.

The process is a fork of one that has imported torch and the library, which takes longer than most scenarios.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._inductor.compile_fx  # noqa: F401 - what backends import is imported before the clock starts

from tests.integrations.scenario import Call, Run, Scenario


@dataclass
class Ended:
    """How a scenario ended in one mode. `error` is the last line of the exception, None if there was none."""

    error: str | None
    calls: list[Call]
    results: list[Any]
    reasons: dict[str, int]


def run(scenario: Scenario, mode: str, folder: Path, limit: float) -> Ended:
    """The log of the process, with the traceback of an exception, is left in `folder`."""
    path = folder / f"{scenario.library}, {scenario.name}, {mode}".replace("/", "-").replace(" ", "_")
    process = multiprocessing.get_context("fork").Process(target=_child, args=(scenario, mode, path))
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
        return Ended(f"no end after {limit:.0f} s", [], [], {})
    if process.exitcode != 0:
        return Ended(f"the process ended with {process.exitcode}", [], [], {})
    return torch.load(path.with_suffix(".pt"), weights_only=False)


def _child(scenario: Scenario, mode: str, path: Path) -> None:
    log = os.open(path.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    # A cache of its own, or the second compiler would be given what the first one has compiled.
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(path.with_suffix(".cache"))
    _choose(mode)
    torch.manual_seed(0)
    state = Run(scenario.backend)
    error = None
    try:
        scenario.program(state)
    except Exception as failure:
        traceback.print_exc()
        error = f"{type(failure).__name__}: {next(iter(str(failure).splitlines()), '')}"
    reasons = dict(torch._dynamo.utils.counters["graph_break"])
    torch.save(Ended(error, state.calls, state.results, reasons), path.with_suffix(".pt"))
    sys.stdout.flush()
    sys.stderr.flush()


def _choose(mode: str) -> None:
    torch.set_num_threads(1)
    if mode == "uncompiled":
        torch.compiler.set_stance("force_eager")
    elif mode == "stator":
        import stator

        # An internal error would leave the frame to CPython, with the right results.
        stator.config.suppress_errors = False
        stator.install()
