"""Runs jobs in processes of their own, several at a time: forks of one that has imported the libraries.

What is measured of a model is a generator: it yields jobs and is sent the answer of each.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any

import torch

Answer = dict[str, Any]


@dataclass
class Job:
    """What it returns is written as JSON."""

    run: Callable[..., Answer]
    arguments: tuple[Any, ...]
    limit: float  # seconds


Steps = Generator[Job, Answer, None]


@dataclass
class _Running:
    steps: Steps
    job: Job
    process: ForkProcess
    place: Path
    began: float

    def answer(self) -> Answer:
        if self.process.exitcode == 0 and self.place.exists():
            return json.loads(self.place.read_text())
        return {"error": f"the process ended with {self.process.exitcode}"}

    def is_late(self) -> bool:
        return time.monotonic() - self.began > self.job.limit

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


class Processes:
    def __init__(self, folder: Path, count: int = 1, seconds: float = float("inf")) -> None:
        self._folder = folder
        self._count = count
        self._end = time.monotonic() + seconds
        self._running: list[_Running] = []
        self._started = 0

    def run(self, all_steps: Iterable[Steps]) -> bool:
        """Whether it came to an end in time. What still ran is killed, and its generators are told nothing."""
        waiting = iter(all_steps)
        while True:
            while len(self._running) < self._count and (steps := next(waiting, None)) is not None:
                self._go_on(steps, None)
            if not self._running:
                return True
            connection.wait([one.process.sentinel for one in self._running], timeout=1)
            if time.monotonic() > self._end:
                for one in self._running:
                    one.kill()
                return False
            self._take_answers()

    def _take_answers(self) -> None:
        for one in list(self._running):
            if not one.process.is_alive():
                one.process.join()
                answer = one.answer()
            elif one.is_late():
                one.kill()
                answer = {"error": f"no end after {one.job.limit:.0f} s"}
            else:
                continue
            one.place.unlink(missing_ok=True)
            self._running.remove(one)
            self._go_on(one.steps, answer)

    def _go_on(self, steps: Steps, answer: Answer | None) -> None:
        try:
            job = next(steps) if answer is None else steps.send(answer)
        except StopIteration:
            return
        self._started += 1
        place = self._folder / f"{self._started}.json"
        process = multiprocessing.get_context("fork").Process(target=_answer, args=(job, place))
        process.start()
        self._running.append(_Running(steps, job, process, place, time.monotonic()))


def run_apart(run: Callable[..., Answer], arguments: tuple[Any, ...], limit: float, folder: Path) -> Answer:
    """One job's answer; `error` alone if it does not end or crashes."""
    answers = []

    def steps() -> Steps:
        answers.append((yield Job(run, arguments, limit)))

    Processes(folder).run([steps()])
    return answers[0]


def _answer(job: Job, place: Path) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    place.write_text(json.dumps(job.run(*job.arguments)))
