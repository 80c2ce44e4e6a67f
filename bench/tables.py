"""Figures as text and as JSON."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict
from math import exp, log
from pathlib import Path
from typing import Any

import torch

from bench.measure import Figures
from bench.programs import Goal, Program

Results = list[tuple[Program, dict[str, Figures]]]


def seconds(value: float) -> str:
    if value < 1e-4:
        return f"{value * 1e6:.2f} us"
    return f"{value * 1e3:.2f} ms" if value < 0.1 else f"{value:.2f} s"


def aligned(rows: list[list[str]]) -> str:
    """Rows under each other; the first column is words, the others are numbers."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def comparison(results: Results, what: str, title: str) -> str:
    """One figure for both systems, the ratio, and the project's target."""
    head = ["program", "nodes", "torch._dynamo", "stator", "times less", "least", "aim", ""]
    rows = [head]
    ratios = []
    for program, figures in results:
        theirs, ours = figures["torch._dynamo"], figures.get("stator")
        goal: Goal | None = getattr(program, what, None)
        row = [program.name, str(theirs.node_count), seconds(getattr(theirs, what))]
        if ours is None:
            row += ["-", "-"]
            ratio = None
        else:
            ratio = getattr(theirs, what) / getattr(ours, what)
            ratios.append(ratio)
            row += [seconds(getattr(ours, what)), f"{ratio:.1f}"]
            if ours.node_count != theirs.node_count:
                row[1] = f"{theirs.node_count}/{ours.node_count}"
        row += [f"{goal.least:g}", f"{goal.aim:g}"] if goal else ["", ""]
        row.append(verdict(ratio, goal))
        rows.append(row)
    if len(ratios) > 1:
        mean = exp(sum(map(log, ratios)) / len(ratios))
        rows.append(["geometric mean", "", "", "", f"{mean:.1f}", "", "", ""])
    return f"{title}\n{aligned(rows)}"


def verdict(ratio: float | None, goal: Goal | None) -> str:
    if ratio is None or goal is None:
        return ""
    return "aim" if ratio >= goal.aim else "least" if ratio >= goal.least else "BELOW"


def write_json(results: Results, more: dict[str, Any], folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {
        "when": time.strftime("%Y-%m-%d %H:%M:%S"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "machine": platform.processor() or platform.machine(),
        "programs": {
            program.name: {
                **{name: asdict(each) for name, each in figures.items()},
                "capture_goal": asdict(program.capture) if program.capture else None,
                "cached_goal": asdict(program.cached) if program.cached else None,
            }
            for program, figures in results
        },
        **more,
    }
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path
