"""Random programs, uncompiled and compiled.

python -m tests.random_programs [--count N] [--seed N] [--jobs N]      so many programs; those that differ are made small
python -m tests.random_programs --seconds 500 --jobs 16 [--prepared]   as many as run in that time, and no longer
python -m tests.random_programs --show SEED                            prints a program

Each program that differs is written to a file of its own (--into) as it is found.
"""

import argparse
import os
import pathlib
import sys
import time

from tests.support.engine import PREPARED

from . import guided
from .campaign import Finding, as_file, limit_memory, run_campaign, work, write_in_full
from .check import check
from .program import generate


def run_file(path: str, backend: str) -> None:
    """Runs a printed program both ways; the difference is raised."""
    text = pathlib.Path(path).read_text().split('if __name__ == "__main__"')[0]
    check(text, backend)
    print("no difference")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.random_programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, help="1000, or with --seconds as many as run in that time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sizes", action="store_true", help="programs whose sizes change, each run twice")
    parser.add_argument("--seconds", type=float, help="end after so many seconds")
    parser.add_argument("--prepared", action="store_true", help="run the graphs with the backend `stator`")
    parser.add_argument("--show", type=int, help="print the program of this seed")
    parser.add_argument(
        "--shrink", type=float, help="seconds for making a failure small: 60, or none of them with --seconds"
    )
    parser.add_argument("--most", type=int, default=20, help="how many failures are shrunk and printed")
    parser.add_argument(
        "--into",
        type=pathlib.Path,
        default=pathlib.Path("build/random_programs"),
        help="a folder for the failing programs",
    )
    parser.add_argument("--uncompiled", type=int, help="run the program of this seed, uncompiled alone")
    parser.add_argument(
        "--guided", type=pathlib.Path, help="a folder: programs are guided by what they reach (make guided)"
    )
    parser.add_argument("--work", type=int, nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.prepared and not PREPARED:  # which is decided when tests.support.engine is imported
        os.environ["STATOR_TEST_PREPARED"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "tests.random_programs", *sys.argv[1:]])

    import torch

    torch.set_num_threads(1)
    if options.work:
        return work(*options.work, sizes=options.sizes)
    if options.guided is not None:
        sys.exit(bool(guided.run(options.guided, options.seconds or 600, options.seed, options.shrink or 60)))
    if options.uncompiled is not None:
        limit_memory()
        return check(generate(options.uncompiled, options.sizes), compiled=False)
    if options.show is not None:
        return print(generate(options.show, options.sizes))
    sys.exit(bool(campaign(options)))


def campaign(options: argparse.Namespace) -> int:
    """Returns how many programs differ."""
    count = options.count or (1000 if options.seconds is None else 10**9)
    seconds_for_one = options.shrink if options.shrink is not None else 60 * (options.seconds is None)

    def found(finding: Finding) -> None:
        path = write_in_full(finding, options.into)
        print(f"differs: {path}: {finding.answer.splitlines()[0][:150]}", flush=True)

    def say(text: str) -> None:
        print(text, flush=True)

    start = time.monotonic()
    totals = run_campaign(options.seed, count, options.jobs, options.sizes, options.seconds, found, say)
    print(f"{totals} in {time.monotonic() - start:.0f} s\n{totals.reasons()}", end="", flush=True)
    findings = sorted(totals.findings, key=lambda one: one.seed)
    for finding in findings:
        print(f"{finding.seed} {finding.backend}: {finding.answer.splitlines()[0][:150]}", flush=True)
    for finding in findings[: options.most] if seconds_for_one else []:
        name = f"seed_{finding.seed}_{finding.backend}.py"
        text = as_file(finding, seconds_for_one, name)
        (options.into / name).write_text(text)
        print(f"\n# ---- {name} " + "-" * 60 + f"\n{text}", flush=True)
    return len(findings)


if __name__ == "__main__":
    main()
