"""Runs tests of Python's own `test` package compiled, each test method as a function of its own.

    python tests/conformance/python_tests.py test_dict test_set ...

Hardly a tensor is in sight: this looks for wrong answers in the model of Python's own classes and functions. A test counts
when it passes uncompiled; printed is how many of those pass compiled, and for each that does not, why. A crash or a hang
costs one test.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType

SECONDS_FOR_A_TEST = 40
SECONDS_FOR_A_PROCESS = 300


class TimeOut(BaseException):
    pass


def all_tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from all_tests(test)
        else:
            yield test


def outcome_of(test: unittest.TestCase) -> tuple[str, str]:
    result = unittest.TestResult()
    signal.alarm(SECONDS_FOR_A_TEST)
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            test.run(result)
    except TimeOut:
        return "failed", "it took too long"
    finally:
        signal.alarm(0)
    if result.skipped:
        return "skipped", ""
    failed = result.errors + result.failures
    return ("failed", failed[0][1].strip().splitlines()[-1]) if failed else ("passed", "")


def run_module(name: str, place: Path, done: set[str]) -> None:
    """Writes a line for each test that is begun and one for its outcome, so that a crash loses nothing."""
    import stator

    def on_alarm(number: int, frame: FrameType | None) -> None:
        raise TimeOut

    signal.signal(signal.SIGALRM, on_alarm)
    warnings.simplefilter("ignore")
    module = importlib.import_module(f"test.{name}")
    with place.open("a") as results:
        for test in all_tests(unittest.defaultTestLoader.loadTestsFromModule(module)):
            method = getattr(test, "_testMethodName", "")
            if test.id() in done or not method.startswith("test"):
                continue
            print(json.dumps([test.id(), "started", ""]), file=results, flush=True)
            outcome, reason = outcome_of(test)
            if outcome == "passed":
                compiled = type(test)(method)
                stator.reset()
                setattr(compiled, method, stator.compile(getattr(compiled, method), backend="eager"))
                outcome, reason = outcome_of(compiled)
            else:
                outcome = "not counted"
            print(json.dumps([test.id(), outcome, reason]), file=results, flush=True)
    os._exit(0)


def outcomes_of_module(name: str) -> dict[str, tuple[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        place, done = Path(folder) / "results", Path(folder) / "done"
        outcomes: dict[str, tuple[str, str]] = {}
        while True:
            place.write_text("")
            done.write_text(json.dumps(sorted(outcomes)))
            command = [sys.executable, __file__, "--module", name, str(place), str(done)]
            try:
                code = subprocess.run(command, capture_output=True, timeout=SECONDS_FOR_A_PROCESS).returncode
            except subprocess.TimeoutExpired:
                code = -1
            found = {test: (outcome, reason) for test, outcome, reason in map(json.loads, place.open())}
            if not found and code != 0:
                raise SystemExit(f"{name} can't be run")
            outcomes |= found
            for test, (outcome, _) in found.items():
                if outcome == "started":
                    outcomes[test] = ("failed", "the process crashed, or hung")
            if code == 0:
                return outcomes


def main() -> int:
    if sys.argv[1:2] == ["--module"]:
        name, place, done = sys.argv[2:]
        run_module(name, Path(place), set(json.loads(Path(done).read_text())))
    counted = passed = 0
    for name in sys.argv[1:]:
        outcomes = {
            test: outcome for test, outcome in outcomes_of_module(name).items() if outcome[0] in ("passed", "failed")
        }
        failed = {test: reason for test, (outcome, reason) in outcomes.items() if outcome == "failed"}
        counted += len(outcomes)
        passed += len(outcomes) - len(failed)
        print(f"{name}: {len(outcomes) - len(failed)} of {len(outcomes)}", flush=True)
        for test, reason in sorted(failed.items()):
            print(f"  {test}: {reason[:200]}")
    print(f"in all: {passed} of {counted}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
