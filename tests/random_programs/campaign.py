"""Many programs in several processes. A process that dies or hangs is a finding, and the work goes on behind it."""

from __future__ import annotations

import collections
import os
import pathlib
import queue
import re
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from .check import DYNAMIC, Difference, Invalid, Summary, check, depends_on_depth
from .program import generate
from .shrink import shrunk

PATIENCE = 60  # seconds of processor time for one program
# As many by the clock, where the machine has other work and where the process waits for something that never comes.
LONGEST_WAIT = 5 * PATIENCE
BETWEEN = 20  # seconds between two reports of how it stands
MEMORY = 6 << 30
# Every so many programs, one runs through aot_autograd as well.
AOT_EVERY = 40
# It omits unused random numbers, so that later ones differ; it registers hooks of its own, and the
# program's have other numbers; it holds weak references to parameters, which then can't be swapped.
NOT_FOR_AOT = r"(?i)rand|dropout|seed|HANDLES\.append|handle = |swap_tensors"


@dataclass
class Finding:
    seed: int
    backend: str
    answer: str


@dataclass
class Totals:
    summary: Summary = field(default_factory=Summary)
    invalid: collections.Counter[str] = field(default_factory=collections.Counter)  # by the reason
    findings: list[Finding] = field(default_factory=list)

    def __str__(self) -> str:
        counts = ", ".join(f"{value} {name}" for name, value in asdict(self.summary).items())
        return f"{counts}; {self.invalid.total()} not compared; {len(self.findings)} differ"

    def reasons(self) -> str:
        return "".join(f"  {count} {reason}\n" for reason, count in self.invalid.most_common())


def backends(seed: int, sizes: bool = False) -> list[str]:
    if sizes:
        return ["automatic", "dynamic"]
    takes_part = seed // 2 % AOT_EVERY == 7 and not re.search(NOT_FOR_AOT, generate(seed))
    return ["eager", "aot_eager"] if takes_part else ["eager"]


def run_seeds(seeds: range, step: int = 1, sizes: bool = False) -> Totals:
    """Programs one after the other in this process."""
    totals = Totals()
    for seed in seeds[::step]:
        for backend in backends(seed, sizes):
            answer = outcome(seed, backend, totals.summary)
            if isinstance(answer, NotCompared):
                totals.invalid[answer] += 1
            elif answer:
                totals.findings.append(Finding(seed, backend, answer))
    return totals


class NotCompared(str):
    """Why a program is not compared, in words that many programs share."""

    @classmethod
    def of(cls, error: Invalid) -> NotCompared:
        cause = error.__cause__ or (error.args[0] if error.args else error)
        text = re.sub(r"'[^']*'|<[^>]*>|\d+", "_", str(cause).split("\n")[0])[:90]
        return cls(f"{type(cause).__name__}: {text}" if isinstance(cause, BaseException) else text)


def program_of(seed: int, backend: str) -> str:
    return generate(seed, sizes=backend in DYNAMIC)


def outcome(seed: int, backend: str, summary: Summary) -> str:
    """Empty if all is well, or a `NotCompared`."""
    try:
        check(program_of(seed, backend), backend, summary=summary)
    except Invalid as invalid:
        return NotCompared.of(invalid)
    except Difference as difference:
        if depends_on_depth(program_of(seed, backend)):
            return NotCompared("its results depend on the depth at which recursion fails")
        return str(difference)
    except Exception as error:
        return f"raised: {type(error).__name__}: {error}"
    return ""


# ---- Processes: a worker says on its output what it is at, the parent listens. ---------------------------------------
def limit_memory() -> None:
    if "STATOR_SANITIZED" in os.environ:
        return  # the address sanitizer reserves all there is
    # (A torch with CUDA has reserved gigabytes of addresses when it is imported.)
    with open("/proc/self/statm") as file:
        reserved = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (reserved + MEMORY, reserved + MEMORY))


def work(start: int, count: int, step: int, sizes: bool = False) -> None:
    """A worker's life."""
    limit_memory()
    for seed in range(start, start + count, step):
        for backend in backends(seed, sizes):
            say("at", seed, backend)
            summary = Summary()
            answer = outcome(seed, backend, summary)
            say("ran", *asdict(summary).values())
            if isinstance(answer, NotCompared):
                say("invalid", seed, backend, answer)
            elif answer:
                say("found", seed, backend, answer.replace("\n", "\\n"))
    say("done")


def say(*words: object) -> None:
    sys.__stdout__.write("\t".join(map(str, words)) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


def processor_seconds(process: int) -> float:
    """The processor time of a process so far."""
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except OSError:  # it has ended, or this is no Linux
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ends_uncompiled(seed: int, sizes: bool, seconds: float) -> bool:
    """Whether it is Stator that hangs: some programs catch the exception that is to end them."""
    command = [sys.executable, "-m", "tests.random_programs", "--uncompiled", str(seed), *["--sizes"] * sizes]
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False
    return True


class Worker:
    """A process over some seeds, restarted behind a program that killed it."""

    def __init__(
        self,
        start: int,
        end: int,
        step: int,
        totals: Totals,
        sizes: bool = False,
        deadline: float = float("inf"),
        found: Callable[[Finding], None] | None = None,
    ) -> None:
        self.next, self.end, self.step, self.totals, self.sizes = start, end, step, totals, sizes
        self.deadline = deadline  # of `time.monotonic`: a program that runs then is left out
        self.found = found
        self.backend = "eager"

    def add(self, answer: str) -> None:
        finding = Finding(self.next, self.backend, answer)
        self.totals.findings.append(finding)
        if self.found is not None:
            self.found(finding)

    def run(self) -> None:
        while self.next < self.end:
            if self.run_process():
                return
            self.next += self.step

    def run_process(self) -> bool:
        command = [sys.executable, "-m", "tests.random_programs", "--work", str(self.next), str(self.end - self.next),
                   str(self.step), *["--sizes"] * self.sizes]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        has_begun, since = False, (time.monotonic(), 0.0)
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=lambda: [*map(lines.put, process.stdout or ()), lines.put(None)], daemon=True).start()
        while True:
            try:
                line = lines.get(timeout=max(0.0, min(PATIENCE / 4, self.deadline - time.monotonic())))
            except queue.Empty:
                now, left = time.monotonic(), self.deadline - time.monotonic()
                spent = processor_seconds(process.pid) - since[1]
                if left > 0 and spent < PATIENCE and now - since[0] < LONGEST_WAIT:
                    continue
                process.kill()
                process.wait()
                if left <= 0:
                    return True
                if ends_uncompiled(self.next, self.sizes, min(left, LONGEST_WAIT)):
                    self.add("hangs")
                else:
                    self.totals.invalid["no end"] += 1
                return False
            if line is None and not has_begun:
                self.add("a worker can't start: try --count 1 --jobs 1 --show with this seed")
                return True
            if line is None:
                self.add(f"crash: exit status {process.wait()}")
                return False
            has_begun = True
            word, *rest = line.rstrip("\n").split("\t")
            since = time.monotonic(), processor_seconds(process.pid)
            if word == "at" and time.monotonic() > self.deadline:
                process.kill()
                process.wait()
                return True
            if word == "at":
                self.next, self.backend = int(rest[0]), rest[1]
            elif word == "invalid":
                self.totals.invalid[rest[2]] += 1
            elif word == "found":
                self.add(rest[2].replace("\\n", "\n"))
            elif word == "ran":
                counts = self.totals.summary
                for name, value in zip(asdict(counts), rest):
                    setattr(counts, name, getattr(counts, name) + int(value))
            elif word == "done":
                process.wait()
                return True


def run_campaign(
    seed: int,
    count: int,
    jobs: int,
    sizes: bool = False,
    seconds: float | None = None,
    found: Callable[[Finding], None] | None = None,
    say: Callable[[str], object] | None = None,
) -> Totals:
    """`found` is called with each difference as it is found, `say` now and then with how it stands."""
    totals = Totals()
    deadline = float("inf") if seconds is None else time.monotonic() + seconds
    workers = [Worker(seed + number, seed + count, jobs, totals, sizes, deadline, found) for number in range(jobs)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    start = time.monotonic()
    for thread in threads:
        while thread.is_alive():
            thread.join(BETWEEN)
            if thread.is_alive() and say is not None:
                say(f"{time.monotonic() - start:.0f} s: {totals}")
    return totals


FILE = """\
# Seed {seed}, backend {backend}. Run it in the repository: {how}python {name}
# {answer}
{text}
if __name__ == "__main__":
    from tests.random_programs.__main__ import run_file

    run_file(__file__, {backend!r})
"""


def as_file(finding: Finding, seconds: float, name: str = "failing.py") -> str:
    """The finding as a small program that shows itself when it is run."""
    text, answer = shrunk(program_of(finding.seed, finding.backend), finding.backend, seconds)
    if answer == "not seen again":
        answer = f"{finding.answer} (not seen again when run alone)"
    return _file(finding, text, answer, name)


def write_in_full(finding: Finding, folder: pathlib.Path) -> pathlib.Path:
    """Writes the program as it was generated, as a file that shows the difference when it is run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed_{finding.seed}_{finding.backend}.py"
    path.write_text(_file(finding, program_of(finding.seed, finding.backend), finding.answer, path.name))
    return path


def _file(finding: Finding, text: str, answer: str, name: str) -> str:
    return FILE.format(
        seed=finding.seed,
        backend=finding.backend,
        answer=answer.replace("\n", "\n# "),
        text=text,
        name=name,
        how="STATOR_TEST_PREPARED=1 " if os.environ.get("STATOR_TEST_PREPARED") == "1" else "",
    )


__all__ = ["Finding", "Totals", "as_file", "limit_memory", "run_campaign", "run_seeds", "work", "write_in_full"]
