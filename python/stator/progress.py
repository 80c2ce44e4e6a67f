"""A line on the terminal for captures and backends that take over two seconds; nothing if that is not a terminal.

The engine calls `began` and `ended` around each capture, if the error output is a terminal. One thread of the process
writes the line and removes it again.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import CodeType

PATIENCE = 2.0  # seconds

_running: dict[int, list[tuple[str, float]]] = {}
_wake = threading.Event()
_writer: tuple[int, threading.Thread] | None = None


def began(code: CodeType) -> None:
    """A capture of this code begins in this thread."""
    _begin(f"capturing {code.co_qualname} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})")


def ended(_: object = None) -> None:
    """What began last in this thread has ended."""
    stack = _running.get(threading.get_ident(), [])
    if stack:
        stack.pop()
    if not stack:
        _running.pop(threading.get_ident(), None)


class compiling:
    """Around a backend: the line names it. Does nothing outside of a capture that is shown."""

    def __init__(self, backend: str) -> None:
        self.backend = backend

    def __enter__(self) -> None:
        self.is_shown = threading.get_ident() in _running
        if self.is_shown:
            _begin(f"compiling with {self.backend}")

    def __exit__(self, *error: object) -> None:
        if self.is_shown:
            ended()


def _begin(words: str) -> None:
    global _writer
    _running.setdefault(threading.get_ident(), []).append((words, time.monotonic()))
    if _writer is None or _writer[0] != os.getpid():  # a forked process has no thread of its own
        _writer = os.getpid(), threading.Thread(target=_write, name="stator-progress", daemon=True)
        _writer[1].start()
    _wake.set()


def _write() -> None:
    shown = False
    while True:
        if not _running and not shown:
            _wake.wait()
            _wake.clear()
        time.sleep(0.2)
        line = _line()
        if (line or shown) and _is_terminal():
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()
        shown = bool(line)


def _line() -> str:
    """The oldest activity that takes long, by its innermost part."""
    now = time.monotonic()
    late = [stack for stack in list(_running.values()) if stack and now - stack[0][1] > PATIENCE]
    if not late:
        return ""
    stack = min(late, key=lambda one: one[0][1])
    return f"stator: {', '.join(words for words, _ in stack)}: {now - stack[0][1]:.0f} s"


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except Exception:
        return False
