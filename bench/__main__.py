"""`python -m bench [--full] [--repeats N] [--only TEXT] [--dynamo-alone]`: tables on the screen, figures in
bench/results."""

from __future__ import annotations

import argparse
import math
from pathlib import Path

from bench import breaks, captures, depth, dynamic, executor, models, parts, systems, tables, tracker
from bench.measure import Repeats, measure
from bench.programs import PROGRAMS

# Without --full, a program is not repeated again after so many seconds: all of `make bench` ends within ten minutes.
SECONDS = 4.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("--repeats", type=int, default=5, help="how often each capture is repeated; the best counts")
    parser.add_argument("--full", action="store_true", help="all repeats, also of programs that take long")
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--dynamo-alone", action="store_true", help="without Stator, to see what there is to beat")
    options = parser.parse_args()
    repeats = Repeats(options.repeats, math.inf if options.full else SECONDS)

    programs = [program for program in (*PROGRAMS, *models.PROGRAMS) if options.only in program.name]
    if not models.PROGRAMS:
        print("No library of models is installed: `make models` does that.\n")
    compared = (systems.dynamo(),) if options.dynamo_alone else systems.both()
    # First, while nothing is decoded yet.
    steps = [] if options.dynamo_alone else [(each, captures.measure(each, repeats)) for each in programs]
    captured = [(program, each) for program, each in steps if each is not None]
    results = [(program, measure(program, compared, repeats)) for program in programs]
    breaking = breaks.programs(options.only)
    costs = [(program, breaks.measure_breaks(program, compared, repeats)) for program in breaking]
    shapes = [] if options.dynamo_alone else [shape for shape in tracker.SHAPES if options.only in f"tracker {shape}"]
    tracking = {shape: tracker.measure(shape) for shape in shapes}

    growths = [growth for growth in depth.GROWTHS if options.only in growth.name]
    growing = {growth.name: depth.measure(growth, compared) for growth in growths}
    # The models have sizes in many places; of the others there is nothing to learn.
    sized = [] if options.dynamo_alone else [each for each in models.PROGRAMS if options.only in each.name]
    sizes = [(each, dynamic.measure(each, systems.both(), repeats)) for each in sized]
    chosen = [] if options.dynamo_alone else [*executor.MICRO, *models.PROGRAMS]
    executed = [(each, executor.measure(each)) for each in chosen if options.only in f"executor {each.name}"]
    of_parts = parts.measure() if not options.dynamo_alone and options.only in "parts" else {}

    if results:
        print_programs(results)
    if costs:
        print(breaks.table(costs))
    if captured:
        print()
        print(captures.table(captured))
    if sizes:
        print()
        print(dynamic.table(sizes))
    if growing:
        print()
        print(depth.table(growing))
    if tracking:
        print()
        print(tracker.table(tracking))
    if executed:
        print()
        print(executor.table(executed))
    if of_parts:
        print()
        print(parts.table(of_parts))
    more = {
        "steps": captures.as_record(captured),
        "breaks": breaks.as_record(costs),
        "sizes": dynamic.as_record(sizes),
        "growth": depth.as_record(growing),
        "tracker": tracker.as_record(tracking),
        "executor": executor.as_record(executed),
        "parts": of_parts,
    }
    print(f"\nWritten to {tables.write_json(results, more, Path(__file__).parent / 'results')}")


def print_programs(results: tables.Results) -> None:
    print(tables.comparison(results, "capture", "Capture: the first call, with a backend that does no work"))
    print()
    print(tables.comparison(results, "cached", "Cached call: every later one, with that backend"))
    print()
    print(
        tables.comparison(results, "first_result", "First result: from the first call to a real answer, with `eager`")
    )
    print()


if __name__ == "__main__":
    main()
