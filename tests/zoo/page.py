"""docs/models.md: the graphs of each model here and there."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

_HEAD = """# Models

Models of libraries that run uncompiled with random weights, made small, captured by TorchDynamo and by Stator: called twice in eval and in training (forward and
backward). `python -m tests.zoo` measures them and writes this page; what it finds out about a model is kept in `build/zoo.json`.

A cell has the number of graphs with operations and, in parentheses, of graph breaks. *Same* compares Stator's results, and in training the gradients, with those of the
uncompiled model: `yes` is bit by bit, `close` up to rounding. The backend runs the graphs as they are.
"""
_COLUMNS = ("model", "eval: TorchDynamo", "Stator", "training: TorchDynamo", "Stator", "same, eval", "training")
_MODES = ("eval", "training")


def write(path: Path, kept: dict[str, dict[str, Any]]) -> None:
    path.write_text("\n".join([_HEAD, *(_section(library, rows) for library, rows in kept.items())]))


def _section(library: str, rows: dict[str, Any]) -> str:
    measured = {name: row for name, row in rows.items() if "stator" in row}
    lines = [f"## {library} {metadata.version(library)}", "", _summary(measured, len(rows)), ""]
    lines += ["| " + " | ".join(_COLUMNS) + " |", "| " + " | ".join("---" for _ in _COLUMNS) + " |"]
    lines += ["| " + " | ".join(_cells(name, row)) + " |" for name, row in measured.items()]
    lines.append("")
    for name, row in measured.items():
        for mode, one in _outcomes(row, "stator").items():
            if one["error"]:
                lines.append(f"- {name}, {mode}, Stator: `{one['error'][:160]}`")
    return "\n".join(lines).rstrip() + "\n"


def _summary(rows: dict[str, Any], tried: int) -> str:
    whole = {engine: sum(_is_whole(row, engine) for row in rows.values()) for engine in ("dynamo", "stator")}
    beside = [row for row in rows.values() if "dynamo" in row]
    more = sum(_needs_more(row) for row in beside)
    return (
        f"Of {tried} model types {len(rows)} run uncompiled with the inputs that the script makes. Stator captures {whole['stator']} of them in one graph in both modes. "
        f"{len(beside)} were also captured by TorchDynamo, which has one graph for {whole['dynamo']} of these; "
        f"{more} have more graph breaks here than there."
    )


def _outcomes(row: dict[str, Any], engine: str) -> dict[str, dict[str, Any]]:
    found = row.get(engine, {})
    return {
        mode: found.get(mode) or {"graphs": 0, "breaks": 0, "same": "-", "error": found.get("error", "")}
        for mode in _MODES
    }


def _is_whole(row: dict[str, Any], engine: str) -> bool:
    return engine in row and all(
        not one["error"] and one["graphs"] == 1 and one["breaks"] == 0 for one in _outcomes(row, engine).values()
    )


def _needs_more(row: dict[str, Any]) -> bool:
    there, here = _outcomes(row, "dynamo"), _outcomes(row, "stator")
    return any(not there[mode]["error"] and here[mode]["breaks"] > there[mode]["breaks"] for mode in _MODES)


def _cells(name: str, row: dict[str, Any]) -> list[str]:
    here = _outcomes(row, "stator")
    there = _outcomes(row, "dynamo") if "dynamo" in row else None
    cells = [name]
    for mode in _MODES:
        cells += [_graphs(there[mode]) if there else "", _graphs(here[mode])]
    return [*cells, *(here[mode]["same"] for mode in _MODES)]


def _graphs(one: dict[str, Any]) -> str:
    if one["error"]:
        return "fails"
    return f"{one['graphs']} ({one['breaks']})" if one["breaks"] else str(one["graphs"])
