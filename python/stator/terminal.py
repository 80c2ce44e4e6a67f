"""Tables on the terminal: with rich, if that is installed, otherwise plain."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stator.report import Report


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints a table. The last column takes what room there is."""
    if (rich := _rich()) is None:
        _plain(title, columns, rows)
        return
    from rich.table import Table
    from rich.text import Text

    shown = Table(title=title, title_justify="left", title_style="bold")
    for name in columns:
        shown.add_column(name, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(cell, style=_style(cell)) for cell in row))
    rich.print(shown)


def _rich() -> Any:
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console()


def _style(cell: str) -> str:
    """Colours for the words that a reader looks for."""
    if cell == "works" or cell.startswith("yes"):
        return "green"
    return "red" if cell.startswith(("fails", "no:", "break")) else ""


def _plain(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}")
    widths = [max(len(row[number]) for row in [columns, *rows]) for number in range(len(columns))]
    limit = max(20, shutil.get_terminal_size().columns)
    for row in [columns, *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        print("  " + (line if len(line) < 4 * limit else line[: 4 * limit] + " ..."))


def show_report(report: Report) -> None:
    """The figures of a report as tables."""
    from stator.report import _seconds

    captures = [
        (str(number), one.code, str(one.nodes), str(len(one.guards)), _seconds(sum(one.times.values())))
        for number, one in enumerate(report.graphs, 1)
    ]
    table(f"{len(captures)} graphs", ("graph", "function", "nodes", "guards", "captured in"), captures)
    if report.breaks:
        rows = [
            (f"break {n}", one.kind, f"{one.file}:{one.line}", one.reason) for n, one in enumerate(report.breaks, 1)
        ]
        table(f"{len(rows)} graph breaks", ("", "kind", "line", "reason"), rows)
    if report.recompiles:
        again = [(one.code, f"{one.file}:{one.line}", "; ".join(one.reasons[:2])) for one in report.recompiles]
        table(f"{len(again)} recompiles", ("function", "line", "because"), again)
    if report.calls:
        shown = [(one.name, *(str(number) for number in one.numbers())) for one in report.calls.values()]
        table("calls", ("function", "calls", "hits", "captures", "with breaks", "uncompiled"), shown)
    for note in report.notes:
        print(f"note: {note.text}")
