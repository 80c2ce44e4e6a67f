"""Random programs that are guided by what they reach in the tracer.

A program that reaches a block of the tracer for the first time, or more often than any before it, is kept, and further
programs are made by changing the choices that it was written by. This needs a build that marks its blocks:

    make guided ARGUMENTS="build/found --seconds 600"

The folder gets the choices of the kept programs, from which a later run goes on, and the programs that differ.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

import torch

from .campaign import limit_memory, say
from .check import Difference, Invalid, Summary, check, depends_on_depth
from .choices import Choices, changed
from .models import generate_model
from .program import generate_function
from .shrink import shrunk
from .sizes import generate_sized

# How programs are written, and with which backend each kind runs.
KINDS: dict[str, tuple[Callable[[random.Random], str], str]] = {
    "function": (generate_function, "eager"),
    "model": (generate_model, "eager"),
    "sized": (generate_sized, "automatic"),
}
NEW = 0.2  # the share of programs that are made from nothing
PATIENCE = 60  # seconds of processor time for one program


class Guide:
    """The kept programs: their kinds and their choices."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.file = folder / "kept.jsonl"
        self.kept: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}

    def earlier(self) -> Iterator[tuple[str, list[float]]]:
        if self.file.exists():
            for line in self.file.read_text().splitlines():
                yield tuple(json.loads(line))

    def next(self, chance: random.Random) -> tuple[str, list[float]]:
        kind = chance.choice(list(KINDS))
        kept = self.kept[kind]
        if not kept or chance.random() < NEW:
            return kind, []
        # Later ones reached what is rarer.
        return kind, changed(kept[-1 - int(len(kept) * chance.random() ** 2)], chance.choice(kept), chance)

    def keep(self, kind: str, made: list[float], is_new: bool) -> None:
        self.kept[kind].append(made)
        if is_new:
            with self.file.open("a") as file:
                file.write(json.dumps([kind, made]) + "\n")


def outcome(text: str, backend: str, summary: Summary) -> str:
    """Empty if all is well."""
    try:
        check(text, backend, summary=summary)
    except Invalid:
        return "invalid"
    except Difference as difference:
        return "invalid" if depends_on_depth(text) else str(difference)
    except Exception as error:
        return f"raised: {type(error).__name__}: {error}"
    return ""


def work(folder: pathlib.Path, seconds: float, seed: int) -> None:
    """A process's life. It says what it is at, so that its parent knows which program killed it."""
    from stator import _testing

    limit_memory()
    torch.set_num_threads(1)
    guide, summary, chance = Guide(folder), Summary(), random.Random(seed)
    current = folder / "current.py"
    waiting, end = list(guide.earlier()), time.monotonic() + seconds
    number = 0
    while waiting or time.monotonic() < end:
        number += 1
        is_new = not waiting
        kind, given = waiting.pop(0) if waiting else guide.next(chance)
        generate, backend = KINDS[kind]
        choices = Choices(given, seed + number)
        text = generate(choices)
        current.write_text(text)
        say("at", kind, backend)
        signal.setitimer(signal.ITIMER_PROF, PATIENCE)  # ends the process
        _testing.news()
        answer = outcome(text, backend, summary)
        news = _testing.news()
        if answer == "" and news:
            guide.keep(kind, choices.made, is_new)
        if answer not in ("", "invalid") and is_new:
            path = folder / f"found_{seed}_{number}.py"
            path.write_text(text)
            say("found", path.name, backend, answer.replace("\n", "\\n"))
        say("ran", *asdict(summary).values(), len(_testing.reached()), sum(map(len, guide.kept.values())))
    say("done")


def run(folder: pathlib.Path, seconds: float, seed: int, shrink: float) -> int:
    """Starts processes until the time is over; returns how many programs differ."""
    folder.mkdir(parents=True, exist_ok=True)
    end, found = time.monotonic() + seconds, list[tuple[str, str, str]]()
    totals: collections.Counter[str] = collections.Counter()
    while time.monotonic() < end:
        counts = _run_process(folder, end - time.monotonic(), seed, found)
        totals.update(dict(zip(("programs", "calls", "returned", "graphs", "nodes"), counts)))
        reached, kept = counts[-2:] if counts else (0, 0)
        print(f"{dict(totals)}; {reached} blocks reached, {kept} programs kept, {len(found)} differ", flush=True)
        seed += 1_000_000
    for name, backend, answer in found:
        print(f"{name} {backend}: {answer[:200]}", flush=True)
    for name, backend, _ in found[:10]:
        text, answer = shrunk((folder / name).read_text(), backend, shrink)
        print(f"\n# ---- {name}, backend {backend}: {answer}\n{text}", flush=True)
    return len(found)


def _run_process(folder: pathlib.Path, seconds: float, seed: int, found: list[tuple[str, str, str]]) -> list[int]:
    command = [sys.executable, "-m", "tests.random_programs.guided", str(folder), str(seconds), str(seed)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    counts: list[int] = []
    backend, last = "eager", ""
    for line in process.stdout or ():
        word, *rest = line.rstrip("\n").split("\t")
        last = word
        if word == "at":
            backend = rest[1]
        elif word == "ran":
            counts = [int(one) for one in rest]
        elif word == "found":
            found.append((rest[0], rest[1], rest[2]))
    process.wait()
    if last != "done":
        name = f"found_{seed}_died.py"
        os.replace(folder / "current.py", folder / name)
        found.append((name, backend, f"the process ended with {process.returncode}"))
    return counts


if __name__ == "__main__":
    work(pathlib.Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
