"""The table of docs/integrations.md."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata
from typing import Any

import torch

from tests.integrations.processes import Ended
from tests.integrations.scenario import Scenario

_HEAD = """# Integrations

Libraries that call `torch.compile` themselves, and the tools of every day, with TorchDynamo and with `stator.install()`. This page is written by
`make integrations`; `make integrations LIBRARIES="peft timm"` measures some of them again and keeps the other rows. The scenarios are in `tests/integrations`: models are
tiny, with random weights, on a CPU with one thread. Each scenario runs in a process of its own: uncompiled, with TorchDynamo, with Stator.

In a column with two entries the first is TorchDynamo's and the second Stator's. *Graphs* are those of the first call and, after `+`, those of all later
calls; *breaks* are graph breaks, counted alike; *first* is the seconds of the first call with all compilation, *later* the milliseconds of the fastest later one. *Same* compares
all results with those of the uncompiled run: `yes` is bit by bit, `close` up to rounding.
"""

_COLUMNS = ("scenario", "backend", "torch.compile", "Stator", "graphs", "breaks", "first", "later", "same")


@dataclass
class Row:
    scenario: Scenario
    uncompiled: Ended
    dynamo: Ended
    stator: Ended

    @property
    def is_good(self) -> bool:
        return self.stator.error is None and sameness(self.uncompiled, self.stator) != "no"

    def cells(self) -> list[str]:
        pair = (self.dynamo, self.stator)
        return [
            self.scenario.name,
            f"`{self.scenario.backend}`",
            *(_passes(one) for one in pair),
            " / ".join(_counted([call.graphs for call in one.calls]) for one in pair),
            " / ".join(_counted([call.breaks for call in one.calls]) for one in pair),
            " / ".join(_first(one) for one in pair),
            " / ".join(_later(one) for one in pair),
            " / ".join(sameness(self.uncompiled, one) for one in pair),
        ]


def sameness(uncompiled: Ended, compiled: Ended) -> str:
    if uncompiled.error is not None or compiled.error is not None:
        return "-"
    if len(uncompiled.results) != len(compiled.results):
        return "no"
    found = {_same(*pair) for pair in zip(uncompiled.results, compiled.results, strict=True)}
    return next((word for word in ("no", "close") if word in found), "yes")


def _same(expected: Any, actual: Any) -> str:
    if isinstance(expected, list):
        if len(expected) != len(actual):
            return "no"
        found = {_same(*pair) for pair in zip(expected, actual, strict=True)}
        return next((word for word in ("no", "close") if word in found), "yes")
    if isinstance(expected, torch.Tensor):
        if not isinstance(actual, torch.Tensor) or (expected.shape, expected.dtype) != (actual.shape, actual.dtype):
            return "no"
        if torch.equal(expected, actual):
            return "yes"
        return "close" if torch.allclose(expected, actual, rtol=1e-3, atol=1e-4, equal_nan=True) else "no"
    if type(expected) is not type(actual):
        return "no"
    if isinstance(expected, float) and expected != actual:
        return "close" if abs(expected - actual) <= 1e-4 + 1e-3 * abs(expected) else "no"
    return "yes" if expected == actual else "no"


def _passes(ended: Ended) -> str:
    return "yes" if ended.error is None else "no"


def _counted(counts: list[int]) -> str:
    if not counts:
        return "-"
    later = sum(counts[1:])
    return f"{counts[0]}+{later}" if later else str(counts[0])


def _first(ended: Ended) -> str:
    return f"{ended.calls[0].seconds:.2f}" if ended.calls else "-"


def _later(ended: Ended) -> str:
    return f"{1000 * min(call.seconds for call in ended.calls[1:]):.1f}" if len(ended.calls) > 1 else "-"


def section(library: str, rows: list[Row]) -> str:
    """The rows of a library under its name and version."""
    lines = [f"## {library}{_version(library)}", ""]
    lines += ["| " + " | ".join(_COLUMNS) + " |", "| " + " | ".join("---" for _ in _COLUMNS) + " |"]
    lines += ["| " + " | ".join(row.cells()) + " |" for row in rows]
    lines.append("")
    for row in rows:
        for name, ended in (("torch.compile", row.dynamo), ("Stator", row.stator)):
            if ended.error is not None:
                lines += [f"- {row.scenario.name}, with {name}: `{ended.error[:200]}`"]
    return "\n".join(lines).rstrip() + "\n"


def _version(library: str) -> str:
    try:
        return " " + metadata.version(library)
    except metadata.PackageNotFoundError:
        return ""


def page(before: str, sections: dict[str, str], order: list[str]) -> str:
    """The page with these sections instead of those of the same libraries in the page before."""
    kept: dict[str, str] = {}
    for text in before.split("\n## ")[1:]:
        kept[text.split()[0]] = "## " + text.rstrip() + "\n"
    kept.update(sections)
    return "\n".join([_HEAD, *(kept[library] for library in order if library in kept)])
