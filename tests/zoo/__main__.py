"""python -m tests.zoo [LIBRARY ...] [-k WORDS] [--engines stator] [--limit SECONDS]

Captures all models of the libraries and writes docs/models.md. What was measured is kept in build/zoo.json: a run that was cut off goes on
there, and `--again` forgets it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import tempfile
from pathlib import Path

from tests.zoo import measure, page

LIBRARIES = ("transformers",)
ENGINES = ("dynamo", "stator")
ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "zoo.json"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    parser.add_argument("libraries", nargs="*", default=LIBRARIES)
    parser.add_argument("-k", dest="words", default="")
    parser.add_argument("--engines", nargs="*", default=ENGINES, choices=ENGINES)
    parser.add_argument("--limit", type=float, default=600, help="seconds for a model under an engine")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    kept = {} if options.again or not KEPT.exists() else json.loads(KEPT.read_text())
    with tempfile.TemporaryDirectory() as folder:
        for library in options.libraries:
            module = importlib.import_module(f"tests.zoo.{library}")
            rows = kept.setdefault(library, {})
            for name in module.names():
                if options.words in name:
                    _measure(module.makers, name, rows.setdefault(name, {}), options, Path(folder))
                    KEPT.parent.mkdir(exist_ok=True)
                    KEPT.write_text(json.dumps(kept, indent=1))
    page.write(ROOT / "docs" / "models.md", kept)


def _measure(makers: measure.Makers, name: str, row: dict, options: argparse.Namespace, folder: Path) -> None:
    if "uncompiled" not in row:
        row["uncompiled"] = measure.run_apart(measure.first_that_runs, (makers, name), options.limit, folder)
    number = row["uncompiled"].get("number")
    if number is None:
        print(name, "does not run uncompiled:", row["uncompiled"]["error"], flush=True)
        return
    for engine in options.engines:
        if engine not in row:
            row[engine] = measure.run_apart(measure.capture, (makers, name, number, engine), options.limit, folder)
    print(name, {engine: row.get(engine) for engine in options.engines}, flush=True)


if __name__ == "__main__":
    main()
