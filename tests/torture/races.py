"""Races between threads in the engine, by the thread sanitizer: `make sanitize-threads`.

The engine is built with it, CPython and PyTorch are not: the sanitizer sees the locks of all three, the interpreter's
among them, and the memory that the engine reads and writes. A report counts if both accesses are the engine's.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass

# Functions of the engine whose races are harmless, with the reason.
HARMLESS: dict[str, str] = {}

# Each waits for the other: what one does before the other begins is no race, because of the interpreter's lock.
RACY = """
#include <atomic>
int number;
std::atomic<int> waiting;
extern "C" int add() {
    ++waiting;
    while (waiting.load(std::memory_order_relaxed) < 2) {}
    return ++number;
}
"""


@dataclass
class Report:
    title: str
    text: str
    accesses: list[list[str]]  # the frames of each access, innermost first

    def is_of(self, library: str) -> bool:
        return len(self.accesses) > 1 and all(frames and library in frames[0] for frames in self.accesses[:2])

    def is_harmless(self) -> bool:
        return any(name in self.text for name in HARMLESS)


def reports_of(text: str) -> list[Report]:
    found = []
    for part in re.split(r"^={10,}$", text, flags=re.MULTILINE):
        title = re.search(r"WARNING: ThreadSanitizer: (.*?) \(pid", part)
        if title is None:
            continue
        accesses, frames = [], None
        for line in part.splitlines():
            if re.match(r"  (Previous )?(atomic )?(read|write) of size", line, re.IGNORECASE):
                frames = []
                accesses.append(frames)
            elif frames is not None and re.match(r"    #\d+ ", line):
                frames.append(line.strip())
            elif line.strip() and not line.startswith("    "):
                frames = None
        found.append(Report(title[1], part.strip(), accesses))
    return found


def runtime() -> str:
    compiler = os.environ.get("CXX", "c++")
    found = subprocess.run([compiler, "-print-file-name=libtsan.so"], capture_output=True, text=True, check=True)
    return os.path.realpath(found.stdout.strip())


def under_sanitizer(code: str, folder: pathlib.Path) -> list[Report]:
    """What the sanitizer reports of a program in a process of its own."""
    environment = {
        **os.environ,
        "LD_PRELOAD": runtime(),
        "OMP_NUM_THREADS": "1",
        "TSAN_OPTIONS": f"log_path={folder}/report:exitcode=0:halt_on_error=0:report_signal_unsafe=0:history_size=5",
    }
    # The sanitizer knows some layouts of the address space alone.
    subprocess.run(["setarch", "-R", sys.executable, "-c", code], env=environment, check=True)
    return reports_of("\n".join(one.read_text(errors="replace") for one in folder.glob("report*")))


def add_at_once(library: str) -> None:
    """Two threads that write to the same memory, without the interpreter's lock."""
    import ctypes

    add = ctypes.CDLL(library).add
    threads = [threading.Thread(target=add) for _ in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def finds_a_race_on_purpose(folder: pathlib.Path) -> bool:
    source, library = folder / "racy.cpp", folder / "racy.so"
    source.write_text(RACY)
    flags = ["-fsanitize=thread", "-g", "-O1", "-fPIC", "-shared"]
    subprocess.run([os.environ.get("CXX", "c++"), *flags, str(source), "-o", str(library)], check=True)
    code = f"from tests.torture import races; races.add_at_once({str(library)!r})"
    return any(one.is_of("racy.so") for one in under_sanitizer(code, folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        assert finds_a_race_on_purpose(pathlib.Path(folder)), "a race on purpose was not found"
    with tempfile.TemporaryDirectory() as folder:
        code = f"from tests.torture import threads; print(threads.run({given.seconds}, {given.threads}))"
        found = under_sanitizer(code, pathlib.Path(folder))
    ours = [one for one in found if one.is_of("/stator/_C")]
    new = [one for one in ours if not one.is_harmless()]
    print(
        f"{len(found)} reports, {len(ours)} of accesses by the engine alone, {len(new)} of them not known as harmless"
    )
    for one in new:
        print(f"\n{one.text}")
    sys.exit(bool(new))


if __name__ == "__main__":
    main()
