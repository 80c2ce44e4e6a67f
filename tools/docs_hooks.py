"""Called by mkdocs: writes the configuration reference from python/stator/settings.py, without importing it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

SETTINGS = Path(__file__).parents[1] / "python" / "stator" / "settings.py"
PLACE = "<!-- every setting -->"


def settings() -> dict[str, tuple[Any, str]]:
    """Each setting's default and documentation, as `_OPTIONS` has them."""
    for statement in ast.parse(SETTINGS.read_text()).body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "_OPTIONS":
            assert statement.value is not None
            return ast.literal_eval(statement.value)
    raise ValueError(f"{SETTINGS} has no _OPTIONS")


def on_page_markdown(markdown: str, **_: Any) -> str:
    if PLACE not in markdown:
        return markdown
    sections = (
        f"### {name}\n\n`{type(default).__name__}`, default `{default!r}`\n\n{text}\n"
        for name, (default, text) in settings().items()
    )
    return markdown.replace(PLACE, "\n".join(sections))
