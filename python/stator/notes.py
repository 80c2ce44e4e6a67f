"""What the user is told while a program runs: where Stator does less than was asked for, where, and what to do.

What asks for a change of the program is a `RuntimeWarning` at the program's line; the rest goes to the logger "stator".
Each is told once. Whoever collects a report (`stator.explain`, `stator.watch`) gets them every time.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

logger = logging.getLogger("stator")

_told: set[tuple[Any, ...]] = set()


def tell(
    kind: str,
    topic: str,
    file: str,
    line: int,
    text: str,
    at_each_place: bool = False,
    listener: Callable[[dict[str, Any]], None] | None = None,
    code: str = "?",
) -> None:
    """Called by the engine. `kind` is "info", "log" or "warn"; nothing that a program does about warnings comes out."""
    if listener is not None:
        note = {"topic": topic, "text": text, "file": file, "line": line}
        listener({"code": code, "entries": [], "breaks": [], "notes": [note]})
    key = (topic, file, line) if at_each_place else (topic,)
    if key in _told:
        return
    _told.add(key)
    if kind == "warn":
        try:
            warnings.warn_explicit(text, RuntimeWarning, file, line)
        except Exception:
            # A program that makes errors of warnings means its own: its call would have another end than uncompiled.
            logger.warning("%s", text)
    else:
        logger.log(logging.WARNING if kind == "log" else logging.INFO, "%s", text)


def forget() -> None:
    """What was told of a place is told again if it happens there again; what is told once a process is not."""
    _told.difference_update([key for key in _told if len(key) > 1])


def warn_once(topic: str, text: str, stacklevel: int) -> None:
    """For what the user writes in Python: at the line that called, `stacklevel` frames up."""
    if (topic,) not in _told:
        _told.add((topic,))
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
