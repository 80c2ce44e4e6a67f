"""docs/models.md: the graphs of each model here and there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.zoo.kept import Kept, Row

_HEAD = """# Models

Models of libraries, made small, with random weights, captured by TorchDynamo and by Stator: called twice in eval and in training (forward and backward), each in
a process of its own on a CPU. `python -m tests.zoo` measures them and writes this page. It was measured with Python {python} and torch {torch}.

A cell has the number of graphs with operations and, in parentheses, of graph breaks; where the model was not captured in one graph, then the operations that ran in
graphs in the second call. TorchDynamo needs few graphs where it leaves a whole loop uncompiled, and then runs few operations in them. *Same* compares Stator's results, and in training the gradients, with those of the
uncompiled model: `yes` is bit by bit, `close` up to rounding; `varies` is a model that draws a seed of its own, so that no two runs agree. An empty cell was not measured. The backend runs the graphs as they are.

Two graphs without a break are a first call that filled a cache of the model (a dict of biases, a function with `lru_cache`), and a second one that found it filled, as uncompiled. TorchDynamo ignores
`lru_cache`, and computes again in each call what it holds.
"""
_COLUMNS = ("model", "eval: TorchDynamo", "Stator", "training: TorchDynamo", "Stator", "same, eval", "training")
_MODES = ("eval", "training")


def write(path: Path, kept: Kept) -> None:
    sections = [
        _section(f"{library} {one['version']}", one["models"])
        for library, one in kept.libraries.items()
        if any("stator" in row for row in one["models"].values())
    ]
    path.write_text("\n".join([_HEAD.format(python=kept.python, torch=kept.torch), *sections]))


def _section(title: str, rows: dict[str, Row]) -> str:
    measured = {name: row for name, row in sorted(rows.items()) if "stator" in row}
    lines = [f"## {title}", "", _summary(measured, rows), ""]
    lines += ["| " + " | ".join(_COLUMNS) + " |", "| " + " | ".join("---" for _ in _COLUMNS) + " |"]
    lines += ["| " + " | ".join(_cells(name, row)) + " |" for name, row in measured.items()]
    for engine, title in (("stator", "Stator"), ("dynamo", "TorchDynamo")):
        remarks = [remark for name, row in measured.items() for remark in _remarks(name, row, engine)]
        if remarks:
            lines += ["", f"Graph breaks and failures of {title}:", "", *remarks]
    return "\n".join(lines) + "\n"


def _summary(rows: dict[str, Row], known: dict[str, Row]) -> str:
    tried = sum("uncompiled" in row for row in known.values())
    rest = f" ({len(known) - tried} others were not tried yet)" if tried < len(known) else ""
    whole = {engine: sum(_is_whole(row, engine) for row in rows.values()) for engine in ("dynamo", "stator")}
    wrong = sum(any(one["same"] == "no" for one in _outcomes(row, "stator").values()) for row in rows.values())
    beside = [row for row in rows.values() if "dynamo" in row]
    # (Two single graphs hold the same program. They count differently what only reads sizes and switches modes.)
    parted = [row for row in beside if not (_is_whole(row, "dynamo") and _is_whole(row, "stator"))]
    more = sum(_captures_more(row) for row in parted)
    fewer = sum(_captures_more(row, "dynamo", "stator") for row in parted)
    said = (
        f"Of {tried} models{rest} {len(rows)} run uncompiled with the inputs that the script makes and were captured by Stator: "
        f"{whole['stator']} of them in one graph in both modes, {wrong} with another result."
    )
    if beside:
        said += (
            f" {len(beside)} were also captured by TorchDynamo: {whole['dynamo']} of them in one graph in both modes, {_failures(beside, 'dynamo')} fail there and "
            f"{_failures(beside, 'stator')} here. Of the {len(parted)} that are not one graph in both, {more} run more operations in graphs here than there, and {fewer} fewer."
        )
        if other := [
            name for name, row in rows.items() if any(one["same"] == "no" for one in _outcomes(row, "dynamo").values())
        ]:
            said += f" With TorchDynamo the result or a gradient is another one than uncompiled in {', '.join(other)}."
    return said


def _outcomes(row: Row, engine: str) -> dict[str, dict[str, Any]]:
    found = row.get(engine, {})
    failed = {"graphs": 0, "breaks": 0, "operations": 0, "same": "-", "error": found.get("error", ""), "reasons": {}}
    return {mode: found.get(mode) or failed for mode in _MODES}


def _is_whole(row: Row, engine: str) -> bool:
    return engine in row and all(
        not one["error"] and one["graphs"] == 1 and one["breaks"] == 0 for one in _outcomes(row, engine).values()
    )


def _failures(rows: list[Row], engine: str) -> int:
    return sum(any(one["error"] for one in _outcomes(row, engine).values()) for row in rows)


def _captures_more(row: Row, more: str = "stator", fewer: str = "dynamo") -> bool:
    one, other = _outcomes(row, more), _outcomes(row, fewer)
    return any(
        not one[mode]["error"] and not other[mode]["error"] and one[mode]["operations"] > other[mode]["operations"]
        for mode in _MODES
    )


def _cells(name: str, row: Row) -> list[str]:
    here = _outcomes(row, "stator")
    there = _outcomes(row, "dynamo") if "dynamo" in row else None
    cells = [name]
    for mode in _MODES:
        cells += [_graphs(there[mode]) if there else "", _graphs(here[mode])]
    return [*cells, *(here[mode]["same"] for mode in _MODES)]


def _graphs(one: dict[str, Any]) -> str:
    if one["error"]:
        return "fails"
    if one["graphs"] == 1 and not one["breaks"]:
        return "1"
    return f"{one['graphs']} ({one['breaks']}), {one['operations']}"


def _remarks(name: str, row: Row, engine: str) -> list[str]:
    """Why the graph of the model was broken, and how it failed; the modes of a model mostly say the same."""
    said: dict[str, list[str]] = {}
    for mode, one in _outcomes(row, engine).items() if engine in row else ():
        for text in [f"`{_plain(one['error'])}`"] if one["error"] else [*map(_plain, one["reasons"])]:
            said.setdefault(text, []).append(mode)
    return [
        f"- {name}" + ("" if len(modes) == len(_MODES) else f", {modes[0]}") + f": {text}"
        for text, modes in said.items()
    ]


def _plain(text: str) -> str:
    """One line without marks of Markdown."""
    line = " ".join(text.split()).replace("`", "'").replace("|", "/").replace("<", "(").replace(">", ")")
    return line if len(line) <= 200 else line[:200] + "..."
