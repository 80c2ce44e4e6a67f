"""Runs the scenarios and writes docs/integrations.md: python -m tests.integrations [LIBRARY ...] [-k WORDS]

Exits with 1 if a scenario fails with Stator, or has another result than uncompiled.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import warnings
from pathlib import Path

from tests.integrations import processes, table
from tests.integrations.scenario import MODES, SCENARIOS, Scenario

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent.parent / "docs" / "integrations.md"
LIBRARIES = (
    "transformers",
    "accelerate",
    "peft",
    "diffusers",
    "lightning",
    "torch_geometric",
    "timm",
    "torchao",
    "torchmetrics",
    "scripts",
    "tools",
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integrations", description=__doc__)
    parser.add_argument("libraries", nargs="*", metavar="LIBRARY", help=", ".join(LIBRARIES))
    parser.add_argument("-k", dest="words", default="", help="only scenarios with these words; writes no page")
    parser.add_argument("--limit", type=float, default=300, help="seconds for one scenario in one mode")
    parser.add_argument("--quick", action="store_true", help="without TorchDynamo; writes no page")
    options = parser.parse_args()
    if unknown := set(options.libraries) - set(LIBRARIES):
        parser.error(f"no scenarios for {', '.join(sorted(unknown))}")
    logs = Path(tempfile.mkdtemp(prefix="integrations-"))
    print(f"Logs are in {logs}")
    warnings.filterwarnings("ignore")
    bad = 0
    for library in options.libraries or LIBRARIES:
        rows = _rows(library, options, logs)
        bad += sum(not row.is_good for row in rows)
        if not options.words and not options.quick:
            before = PAGE.read_text() if PAGE.exists() else ""
            sections = {library: table.section(library, rows)}
            PAGE.write_text(table.page(before, sections, [*LIBRARIES, "tests"]))
    return 1 if bad else 0


def _rows(library: str, options: argparse.Namespace, logs: Path) -> list[table.Row]:
    importlib.import_module(f"tests.integrations.{library}")
    rows = []
    for scenario in [one for one in SCENARIOS if one.library == library]:
        if options.words not in scenario.name:
            continue
        row = table.Row(scenario, *(_ended(scenario, mode, options, logs) for mode in MODES))
        rows.append(row)
        print(library, "|", " | ".join(row.cells()), flush=True)
        for mode, ended in zip(MODES, (row.uncompiled, row.dynamo, row.stator), strict=True):
            if ended.error is not None:
                print(f"    {mode}: {ended.error}", flush=True)
        for reason, count in row.stator.reasons.items():
            print(f"    break {count}: {reason}", flush=True)
    return rows


def _ended(scenario: Scenario, mode: str, options: argparse.Namespace, logs: Path) -> processes.Ended:
    if options.quick and mode == "torch.compile":
        return processes.Ended("left out", [], [], {})
    return processes.run(scenario, mode, logs, options.limit)


if __name__ == "__main__":
    sys.exit(main())
