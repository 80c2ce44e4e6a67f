"""`python -m bench [--repeats N] [--only TEXT] [--dynamo-alone]`: tables on the screen, figures in bench/results."""

from __future__ import annotations

import argparse
from pathlib import Path

from bench import systems, tables, tracker
from bench.measure import measure
from bench.programs import PROGRAMS, Program, made


def capture_times(programs: list[Program]) -> dict[str, dict[str, float]]:
    import stator

    times = {}
    for program in programs:
        function, arguments = made(program)
        report = stator.explain(function)(*arguments)
        if report.times:
            times[program.name] = report.times
    return times


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--repeats", type=int, default=5, help="how often each capture is repeated; the best counts")
    parser.add_argument(
        "--only", default="", help="programs whose name contains this; `tracker` for the module tracker"
    )
    parser.add_argument("--dynamo-alone", action="store_true", help="without Stator, to see what there is to beat")
    options = parser.parse_args()

    if options.only == "tracker":
        print(tracker.table({shape: tracker.measure(shape) for shape in tracker.SHAPES}))
        return
    programs = [program for program in PROGRAMS if options.only in program.name]
    compared = (systems.dynamo(),) if options.dynamo_alone else systems.both()
    results = [(program, measure(program, compared, options.repeats)) for program in programs]
    times = {} if options.dynamo_alone else capture_times(programs)

    print(tables.comparison(results, "capture", "Capture: the first call, with a backend that does no work"))
    print()
    print(tables.comparison(results, "cached", "Cached call: every later one, with that backend"))
    print()
    print(
        tables.comparison(results, "first_result", "First result: from the first call to a real answer, with `eager`")
    )
    if times:
        print()
        print(tables.shares(times))
    tracking = {}
    if not options.dynamo_alone and not options.only:
        tracking = {shape: tracker.measure(shape) for shape in tracker.SHAPES}
        print()
        print(tracker.table(tracking))
    folder = Path(__file__).parent / "results"
    print(f"\nWritten to {tables.write_json(results, times, tracking, folder)}")


if __name__ == "__main__":
    main()
