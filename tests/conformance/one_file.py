"""Runs the tests of one file on one engine and writes an outcome for each: see __main__.py."""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import sys
import traceback
import unittest
import warnings
from pathlib import Path
from typing import Any


def point_torch_at_stator() -> None:
    """From now on torch.compile and all that calls it is Stator's; the rest of torch._dynamo is unchanged."""
    import stator

    stator.install()


def compare_results_alone() -> None:
    """From now on tests compare neither ints, which count graphs, operations and recompiles, nor the text of graphs."""
    from expecttest import TestCase as WithTexts
    from torch.testing._internal.common_utils import TestCase

    compare = TestCase.assertEqual

    def assert_equal(test: Any, one: Any, other: Any, *arguments: Any, **options: Any) -> None:
        if type(one) is not int or type(other) is not int:
            compare(test, one, other, *arguments, **options)

    def accept(*_: Any, **__: Any) -> None:
        pass

    TestCase.assertEqual = assert_equal
    for kind in (TestCase, WithTexts):
        kind.assertExpectedInline = accept
        kind.assertGreater = kind.assertGreaterEqual = accept


class Outcomes(unittest.TestResult):
    """Writes the outcome of each test at once, so that nothing is lost if the process dies."""

    def __init__(self, place: Path) -> None:
        super().__init__()
        self.place = place

    def write(self, test: unittest.TestCase, outcome: str, reason: str = "") -> None:
        with self.place.open("a") as results:
            print(json.dumps([name_of(test), outcome, reason]), file=results)

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.write(test, "started")
        faulthandler.dump_traceback_later(int(os.environ["STATOR_SECONDS_FOR_A_TEST"]), exit=True)
        self.is_reported = False

    def stopTest(self, test: unittest.TestCase) -> None:
        faulthandler.cancel_dump_traceback_later()
        if not self.is_reported:
            self.write(test, "passed")
        super().stopTest(test)

    def report(self, test: unittest.TestCase, outcome: str, reason: str = "") -> None:
        if not self.is_reported:
            self.write(test, outcome, reason)
        self.is_reported = True

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.report(test, "failed", reason_of(test, err))

    addFailure = addError

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.report(test, "failed", reason_of(test, err))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.report(test, "skipped", reason)

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.report(test, "passed")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        # What torch._dynamo does not support: the test checks that the result is right.
        self.report(test, "passed", "torch._dynamo is expected to fail")


def name_of(test: unittest.TestCase) -> str:
    return ".".join(test.id().split(".")[-2:])


def reason_of(test: unittest.TestCase, err: Any) -> str:
    """The line of the test that failed, and the exception."""
    kind, value, trace = err
    # (Files such as test_dynamic_shapes.py take the tests of others.)
    folder = Path(sys.modules[type(test).__module__].__file__).parent
    lines = [frame.lineno for frame in traceback.extract_tb(trace) if Path(frame.filename).parent == folder]
    text = " ".join(str(value).split())
    while value.__cause__ is not None:
        value = value.__cause__
        text = f"{text} <- {type(value).__name__}: {' '.join(str(value).split())}"
    return f"line {lines[0] if lines else '?'}, {kind.__name__}: {text[:300]}"


def all_tests(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    tests: list[unittest.TestCase] = []
    for test in suite:
        tests += all_tests(test) if isinstance(test, unittest.TestSuite) else [test]
    return tests


def main() -> None:
    engine, file, results, done, words = sys.argv[1:]
    warnings.simplefilter("ignore")
    path = Path(file)
    if engine == "stator":
        point_torch_at_stator()
    if os.environ.get("STATOR_RESULTS_ALONE"):
        compare_results_alone()
    module = importlib.import_module(path.stem)
    skipped = set(json.loads(Path(done).read_text()))
    wanted = words.split()
    outcomes = Outcomes(Path(results))
    tests = unittest.TestSuite()
    for test in all_tests(unittest.defaultTestLoader.loadTestsFromModule(module)):
        name = name_of(test)
        if name not in skipped and (not wanted or any(word in name for word in wanted)):
            tests.addTest(test)
    # (A suite also calls `setUpClass`, where classes change settings.)
    tests.run(outcomes)
    # Threads of compilers would outlive the interpreter.
    sys.stderr.flush()
    os._exit(0)


main()
