"""The long form:

python -m tests.torture faults [--rounds N] [NAMES...]
python -m tests.torture threads [--seconds N] [--threads N] [--seed N]
python -m tests.torture soak [--seconds N] [--pause MILLISECONDS]
"""

from __future__ import annotations

import argparse
import time

from tests.torture import faults, soak, threads


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("faults", "threads", "soak"))
    parser.add_argument("names", nargs="*", help=f"of faults: {', '.join(faults.FAULTS)}")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0, help="of the soak, after each request")
    given = parser.parse_intermixed_args()
    if given.kind == "threads":
        print(threads.run(given.seconds, given.threads, given.seed))
    elif given.kind == "soak":
        print(soak.run(given.seconds, lambda text: print(text, flush=True), pause=given.pause / 1000))
    else:
        for name in given.names or faults.FAULTS:
            began = time.perf_counter()
            said = faults.FAULTS[name](given.rounds)
            print(f"{name}: {said} in {time.perf_counter() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
