"""Runs PyTorch's own tests with torch.compile pointed at Stator, beside torch._dynamo.

    python tests/conformance PYTORCH/test dynamo/test_modules.py dynamo/test_hooks.py [-k WORDS] [--only stator]
    python tests/conformance PYTORCH/test dynamo/test_dynamic_shapes.py -k DynamicShapesMiscTests. --results-alone

The tests are not part of this repository: the first argument is the test folder of a PyTorch checkout, of the version
that is installed or one near it. A test counts when torch._dynamo passes it here; printed is how many of those pass on
Stator, and for each that does not, why. Each file runs in processes of its own, so that a crash costs one test.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS_FOR_A_TEST = 120


def run_file(engine: str, folder: Path, file: str, words: str) -> dict[str, tuple[str, str]]:
    """The outcome of every test of a file: `passed`, `failed` or `skipped`, and why."""
    outcomes: dict[str, tuple[str, str]] = {}
    while True:
        with tempfile.TemporaryDirectory() as place:
            results = Path(place) / "results"
            results.touch()
            done = Path(place) / "done"
            done.write_text(json.dumps(sorted(outcomes)))
            command = [
                sys.executable,
                str(HERE / "one_file.py"),
                engine,
                str(folder / file),
                str(results),
                str(done),
                words,
            ]
            around = (folder / file).parent
            # Test files import each other relative to their package.
            path = os.pathsep.join([str(around), str(around.parent), os.environ["PYTHONPATH"]])
            process = subprocess.Popen(
                command,
                cwd=around,
                env={**os.environ, "PYTHONPATH": path},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            _, errors = process.communicate()
            started = None
            for line in results.read_text().splitlines():
                name, outcome, reason = json.loads(line)
                if outcome == "started":
                    started = name
                    continue
                outcomes[name] = (outcome, reason)
                started = None
            if process.returncode == 0:
                return outcomes
            if started is None:
                raise SystemExit(f"{file} can't be run:\n{errors[-4000:]}")
            outcomes[started] = ("failed", f"the process ended with {process.returncode}: {last_line(errors)}")


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python tests/conformance", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="the test folder of a PyTorch checkout")
    parser.add_argument("files", nargs="+", help="test files, relative to that folder")
    parser.add_argument("-k", default="", metavar="WORDS", help="only tests whose names contain one of these words")
    parser.add_argument("--only", choices=("stator", "dynamo"), help="run one engine, and print what does not pass")
    parser.add_argument(
        "--results-alone", action="store_true", help="compare neither ints (counts of graphs) nor the text of graphs"
    )
    parser.add_argument("--dynamo-results", type=Path, help="keeps what torch._dynamo passes, for the next run")
    arguments = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(HERE.parents[1] / "python"), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    os.environ["STATOR_SECONDS_FOR_A_TEST"] = str(SECONDS_FOR_A_TEST)
    if arguments.results_alone:
        os.environ["STATOR_RESULTS_ALONE"] = "1"
    folder = arguments.folder.resolve()
    if arguments.only:
        for file in arguments.files:
            for name, (outcome, reason) in sorted(run_file(arguments.only, folder, file, arguments.k).items()):
                if outcome == "failed":
                    print(f"{name}: {reason}")
        return 0

    total = passed = 0
    kept = arguments.dynamo_results
    known = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for file in arguments.files:
        if file not in known:
            known[file] = run_file("dynamo", folder, file, "" if kept else arguments.k)
            if kept:
                kept.write_text(json.dumps(known, indent=1))
        expected = [name for name, (outcome, _) in known[file].items() if outcome == "passed"]
        words = arguments.k.split()
        expected = [name for name in expected if not words or any(word in name for word in words)]
        found = run_file("stator", folder, file, arguments.k)
        failed = [name for name in expected if found.get(name, ("missing",))[0] != "passed"]
        total += len(expected)
        passed += len(expected) - len(failed)
        print(f"{file}: {len(expected) - len(failed)} of the {len(expected)} that torch._dynamo passes")
        for name in sorted(failed):
            print(f"  {name}: {' '.join(found.get(name, ('missing', 'was not run')))}")
    print(f"in all: {passed} of {total}, {100 * passed / max(total, 1):.1f} in 100")
    return 0


if __name__ == "__main__":
    sys.exit(main())
