"""python -m tests.zoo [LIBRARY ...] [-k WORDS] [--models NAME ...] [--engines stator] [--jobs N] [--limit SECONDS] [--seconds SECONDS]

Captures all models of the libraries and writes docs/models.md. What was measured is kept in build/zoo.json: a run that was cut off, or that had used up
its `--seconds`, goes on there. `--again` measures what was asked for anew, `--page` only writes the page.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from tests.zoo import measure, page
from tests.zoo.kept import Kept, Row
from tests.zoo.processes import Job, Processes, Steps

LIBRARIES = ("transformers", "diffusers", "timm", "pytorchcv", "torchaudio", "torch_geometric")
ENGINES = ("stator", "dynamo")
ROOT = Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=", ".join(LIBRARIES))
    parser.add_argument("-k", dest="words", default="", help="only models with this in their names")
    parser.add_argument("--models", nargs="*", help="only models with exactly these names")
    parser.add_argument("--engines", nargs="*", default=ENGINES, choices=ENGINES)
    parser.add_argument("--jobs", type=int, default=1, help="models that are measured at the same time")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a model under an engine")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="seconds for everything")
    parser.add_argument("--kept", type=Path, default=ROOT / "build" / "zoo.json")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    kept = Kept(options.kept)
    whole = True
    if not options.page:
        if not kept.is_of_this_python:
            parser.error(
                f"{options.kept} belongs to Python {kept.python} with torch {kept.torch}: move it away, or --page"
            )
        whole = _measure_all(kept, options)
    page.write(ROOT / "docs" / "models.md", kept)
    print("Everything was measured." if whole else "The time is over: the same command goes on.")
    return 0 if whole else 1


def _measure_all(kept: Kept, options: argparse.Namespace) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(Path(folder), options.jobs, options.seconds)
        return processes.run(_models(kept, options))


def _models(kept: Kept, options: argparse.Namespace) -> Iterator[Steps]:
    measure.preload(options.engines)
    for library in options.libraries or LIBRARIES:
        if importlib.util.find_spec(library) is None:
            print(library, "is not installed", flush=True)
            continue
        module = importlib.import_module(f"tests.zoo.{library}")
        rows = kept.rows(library, module.DISTRIBUTION)
        names = module.names()
        for name in names:
            rows.setdefault(name, {})
        for name in names:
            row = rows[name]
            if options.words in name and (options.models is None or name in options.models):
                if options.again:
                    row.clear()
                yield _steps(module, name, row, kept, options)


def _steps(module: ModuleType, name: str, row: Row, kept: Kept, options: argparse.Namespace) -> Steps:
    """The model uncompiled, then under each engine; what is known already is not measured again."""
    if "uncompiled" not in row:
        row["uncompiled"] = yield Job(measure.first_that_runs, (module.makers, name), options.limit)
        kept.save()
    number = row["uncompiled"].get("number")
    if number is None:
        print(name, "does not run uncompiled:", row["uncompiled"]["error"], flush=True)
        return
    for engine in options.engines:
        if engine not in row:
            row[engine] = yield Job(measure.capture, (module.makers, name, number, engine), options.limit)
            kept.save()
            print(name, engine, measure.in_words(row[engine]), flush=True)


if __name__ == "__main__":
    sys.exit(main())
