"""Warnings and log messages about cases in which Stator can't do what the program requested.

A note that calls for a change of the program is a `RuntimeWarning` at the program's line; the others go to the logger
"stator". Each is issued once. Reports (`stator.explain`, `stator.watch`) list them every time.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

from stator import observer

logger = logging.getLogger("stator")

_issued: set[tuple[Any, ...]] = set()


def section(tag: str) -> str:
    """The section of the documentation about a kind of graph break, or about the topic of a note."""
    return f"docs/graph-breaks.md#{tag}"


def issue(
    kind: str,
    topic: str,
    file: str,
    line: int,
    text: str,
    at_each_place: bool = False,
    listener: Callable[[dict[str, Any]], None] | None = None,
    code: str = "?",
) -> None:
    """Called by the engine. `kind` is "info", "log" or "warn". Raises nothing, whatever the warning filters are."""
    if listener is not None:
        note = {"topic": topic, "text": text, "file": file, "line": line}
        listener({"code": code, "entries": [], "breaks": [], "notes": [note]})
    # Two models may share one `forward`: `code` names the model.
    key = (topic, file, line, code) if at_each_place else (topic,)
    if key in _issued:
        return
    _issued.add(key)
    text = _with_link(topic, text)
    watching = observer.current()
    if topic == "recompile_limit" and watching is not None:
        watching.limit_hit(code, text)
    elif kind == "warn":
        try:
            warnings.warn_explicit(text, RuntimeWarning, file, line)
        except Exception:
            # With `-W error` the warning would end the program's call differently than uncompiled.
            logger.warning("%s", text)
    else:
        logger.log(logging.WARNING if kind == "log" else logging.INFO, "%s", text)


def warn(text: str) -> None:
    """A `RuntimeWarning`, or a log message where warnings are errors: a compiled call does not raise it."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        logger.warning("%s", text)


def log(topic: str, text: str) -> None:
    """Called by the engine: for the log alone, every time."""
    logger.info("%s", _with_link(topic, text))


def forget() -> None:
    """Notes about a place may be issued again there; notes that are issued once a process are not."""
    _issued.difference_update([key for key in _issued if len(key) > 1])


def _with_link(topic: str, text: str) -> str:
    return f"{text} See {section(topic)}"
