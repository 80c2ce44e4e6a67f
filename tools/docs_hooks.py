"""Called by mkdocs: writes the configuration reference from python/stator, without importing it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1] / "python" / "stator"
SETTINGS = PACKAGE / "settings.py"
SETTINGS_OF_TORCH = PACKAGE / "dynamo_settings.py"
PLACE = "<!-- every setting -->"
PLACES_OF_TORCH = {
    "HONOURED": "<!-- every honoured setting of torch -->",
    "WITHOUT_MEANING": "<!-- every setting of torch without meaning -->",
}


def settings() -> dict[str, tuple[Any, str]]:
    """Each setting's default and documentation, as `_OPTIONS` has them."""
    for statement in ast.parse(SETTINGS.read_text()).body:
        if isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == "_OPTIONS":
            assert statement.value is not None
            return ast.literal_eval(statement.value)
    raise ValueError(f"{SETTINGS} has no _OPTIONS")


def settings_of_torch(table: str) -> dict[str, str]:
    """A table of dynamo_settings.py. Some of its values are names of texts."""
    names: dict[str, Any] = {}
    for statement in ast.parse(SETTINGS_OF_TORCH.read_text()).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant):
            names[ast.unparse(statement.targets[0])] = statement.value.value
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Dict):
            keys = [ast.literal_eval(key) for key in statement.value.keys if key is not None]
            values = [
                names[value.id] if isinstance(value, ast.Name) else ast.literal_eval(value)
                for value in statement.value.values
            ]
            names[ast.unparse(statement.target)] = dict(zip(keys, values, strict=True))
    return names[table]


def on_page_markdown(markdown: str, **_: Any) -> str:
    if PLACE not in markdown:
        return markdown
    sections = (
        f"### {name}\n\n`{type(default).__name__}`, default `{default!r}`\n\n{text}\n"
        for name, (default, text) in settings().items()
    )
    for table, place in PLACES_OF_TORCH.items():
        rows = (f"| `{name}` | {text} |" for name, text in sorted(settings_of_torch(table).items()))
        markdown = markdown.replace(place, "\n".join(["| setting | |", "| --- | --- |", *rows]))
    return markdown.replace(PLACE, "\n".join(sections))
