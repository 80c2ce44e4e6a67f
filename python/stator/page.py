"""A report as one HTML file: `report.html("report.html")`.

The file has the data as JSON and the code of page.js; it loads nothing. Texts that repeat (guards, files) are indices
into `strings`, and stacks into `stacks`. Only files of the program are included, not
those of Python's and PyTorch's folders.
"""

from __future__ import annotations

import ast
import html
import json
import linecache
import os
import platform
import re
import sysconfig
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

import torch

import stator

if TYPE_CHECKING:
    from stator.report import Capture, Report

# A longer file is shown from this many lines before its first mark to as many after its last one.
AROUND = 40
MOST_LINES = 4000

_LINE = re.compile(r"\((\S[^()]*):(\d+)\)")


def render(report: Report) -> str:
    """The page as text."""
    # `<` in a JSON string could end the script element.
    data = json.dumps(_Page(report).data(), separators=(",", ":")).replace("<", "\\u003c")
    files = resources.files("stator")
    page, script = ((files / name).read_text(encoding="utf-8") for name in ("page.html", "page.js"))
    return page.replace("{{SCRIPT}}", script).replace("{{DATA}}", data)


def write(report: Report, path: str | os.PathLike[str]) -> None:
    text = render(report)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def frame(report: Report) -> str:
    """The page inside another one: what notebooks show."""
    text = html.escape(render(report))
    return f'<iframe title="Stator report" style="width:100%;height:40rem" srcdoc="{text}"></iframe>'


class _Page:
    def __init__(self, report: Report) -> None:
        self.report = report
        self.strings: dict[str, int] = {}
        self.stacks: dict[tuple[tuple[int, int], ...], int] = {}
        # File -> line -> number of the capture -> operations.
        self.captured: dict[str, dict[int, dict[int, int]]] = {}
        self._paths: set[str] = set()

    def data(self) -> dict[str, Any]:
        report = self.report
        captures = [self._capture(number, capture) for number, capture in enumerate(report.captures)]
        return {
            "made": f"stator {stator.__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
            f"{time.strftime('%Y-%m-%d %H:%M')}",
            "summary": {
                "graphs": report.graph_count,
                "nodes": report.node_count,
                "guards": len(report.guards),
                "graph breaks": report.graph_break_count,
                "recompiles": len(report.recompiles),
                "notes": len(report.notes),
            },
            "times": report.times,
            "idle": report.idle,
            "captures": captures,
            "breaks": [vars(broken) for broken in report.breaks],
            "recompiles": [vars(again) for again in report.recompiles],
            "notes": [vars(note) for note in report.notes],
            "mismatched": [str(call) for call in report.mismatched_calls],
            "events": report.events,
            "calls": [
                {"name": one.name, "counts": one.counts, "seconds": one.seconds, "saved": one.saved}
                for one in report.calls.values()
            ],
            "timeline": report.timeline,
            "functions": {self._string(path): _functions(path) for path in self._paths},
            "files": self._files(),
            "strings": list(self.strings),
            "stacks": list(self.stacks),
        }

    def _capture(self, number: int, capture: Capture) -> dict[str, Any]:
        return {
            "code": capture.code,
            "nodes": capture.nodes,
            "lines": capture.graph.splitlines() if capture.nodes else [],
            "places": {name: self._place(number, place) for name, place in capture.places.items()},
            "guards": [self._string(guard) for guard in capture.guards],
            "steps": [self._string(step) for step in capture.guard_steps],
            "times": capture.times,
            "knowledge": capture.knowledge,
            "symbols": capture.symbols,
            "relations": capture.relations,
        }

    def _place(self, number: int, place: dict[str, Any]) -> dict[str, Any]:
        lines = [(file, line) for file, line in place["lines"] if _is_of_program(file)]
        # An operation belongs to the innermost line of the program; its callers are shown with the node.
        if lines:
            file, line = lines[0]
            graphs = self.captured.setdefault(file, {}).setdefault(line, {})
            graphs[number] = graphs.get(number, 0) + 1
        self._paths.update(file for file, _ in lines)
        stack = tuple((self._string(file), line) for file, line in lines)
        share = round(place.get("share", 0.0), 6)
        return {"module": place["module"], "stack": self.stacks.setdefault(stack, len(self.stacks)), "share": share}

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _files(self) -> list[dict[str, Any]]:
        fixed = self._fixed()
        broken: dict[str, set[int]] = {}
        places = [(one.file, one.line) for one in self.report.breaks]
        for file, line in [*places, *((one.file, one.line) for one in self.report.recompiles)]:
            broken.setdefault(file, set()).add(line)
        files = []
        for path in {**broken, **self.captured, **fixed}:
            text = [line.rstrip("\n") for line in linecache.getlines(path)]
            if not text or not _is_of_program(path):
                continue
            marked = {*broken.get(path, ()), *self.captured.get(path, ()), *fixed.get(path, ())}
            first = max(1, min(marked) - AROUND)
            last = min(len(text), max(marked) + AROUND, first + MOST_LINES)
            files.append(
                {
                    "path": path,
                    "first": first,
                    "lines": text[first - 1 : last],
                    "captured": self.captured.get(path, {}),
                    "fixed": fixed.get(path, {}),
                }
            )
        return files

    def _fixed(self) -> dict[str, dict[int, list[str]]]:
        """File -> line -> what it specialized, or which relation it needs."""
        fixed: dict[str, dict[int, list[str]]] = {}
        for capture in self.report.captures:
            for text in [*(one for one in capture.symbols if "specialized to" in one), *capture.relations]:
                if found := _LINE.search(text):
                    lines = fixed.setdefault(found[1], {}).setdefault(int(found[2]), [])
                    lines += [text] if text not in lines else []
        return fixed


def _functions(path: str) -> list[tuple[int, int, str]]:
    """First line, last line and name of the functions of a file, the outer ones first."""
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return []
    found: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, around: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = around
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{around}.{child.name}" if around else child.name
                if not isinstance(child, ast.ClassDef):
                    found.append((child.lineno, child.end_lineno or child.lineno, name))
            visit(child, name)

    visit(tree, "")
    return found


_NOT_OF_PROGRAM = tuple(
    os.path.realpath(folder) + os.sep for folder in (sysconfig.get_path("stdlib"), os.path.dirname(torch.__file__))
)


def _is_of_program(file: str) -> bool:
    return not os.path.realpath(file).startswith(_NOT_OF_PROGRAM)
