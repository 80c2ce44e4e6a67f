"""`python -m tests.cuda`: the tests of this folder on a machine that has a GPU but no pytest."""

from __future__ import annotations

import importlib
import itertools
import sys
import time
import traceback
import types
from typing import Any


class Skipped(Exception):
    pass


def stand_in() -> types.ModuleType:
    """As much of pytest as these tests use."""

    def skip(reason: str) -> None:
        raise Skipped(reason)

    def parametrize(names: str, values: list[Any]) -> Any:
        def decorate(test: Any) -> Any:
            test.cases = [{names: value} for value in values]
            return test

        return decorate

    module = types.ModuleType("pytest")
    module.skip = skip  # type: ignore[attr-defined]
    module.mark = types.SimpleNamespace(  # type: ignore[attr-defined]
        parametrize=parametrize, skipif=lambda condition, reason: (condition, reason)
    )
    return module


def main() -> int:
    sys.modules["pytest"] = stand_in()
    words = sys.argv[1:]
    failed = 0
    for name in ("tests.cuda.test_recorded_graphs",):
        module = importlib.import_module(name)
        if module.pytestmark[0]:
            print(f"skipped: {module.pytestmark[1]}")
            continue
        tests = [test for test in vars(module).values() if getattr(test, "__name__", "").startswith("test_")]
        for test, case in itertools.chain(*(((test, case) for case in getattr(test, "cases", [{}])) for test in tests)):
            if words and not any(word in test.__name__ for word in words):
                continue
            start = time.perf_counter()
            try:
                test(**case)
                outcome = "passed"
            except Skipped as reason:
                outcome = f"skipped: {reason}"
            except BaseException:
                failed += 1
                outcome = "FAILED\n" + traceback.format_exc(limit=-6)
            print(f"{test.__name__} {case or ''} {time.perf_counter() - start:.1f} s {outcome}", flush=True)
    print(f"{failed} failed")
    return failed


if __name__ == "__main__":
    sys.exit(main() > 0)
