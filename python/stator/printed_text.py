"""What a call prints, kept to be compared.

`sys.stdout` belongs to the process, and several threads may check calls at once: what stands in its place while any of
them does tells the threads apart, and is taken away with the last of them.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_changing = threading.Lock()


class _ByThread(io.TextIOBase):
    """What the threads that keep their text write goes to their copies, and on to `shown` unless it is hidden."""

    def __init__(self, shown: Any) -> None:
        self.shown = shown
        self.kept: dict[int, list[tuple[io.StringIO, bool]]] = {}  # by thread, the outermost first

    def write(self, text: str) -> int:
        for copy, is_hidden in reversed(self.kept.get(threading.get_ident(), ())):
            copy.write(text)
            if is_hidden:
                return len(text)
        return self.shown.write(text)

    def flush(self) -> None:
        self.shown.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.shown, name)


@contextmanager
def printed_text(is_hidden: bool) -> Iterator[io.StringIO]:
    """What this thread prints inside goes into the answer, and where it went before unless it is hidden."""
    kept, me = io.StringIO(), threading.get_ident()
    with _changing:
        if not isinstance(sys.stdout, _ByThread):
            sys.stdout = _ByThread(sys.stdout)
        stream = sys.stdout
        stream.kept.setdefault(me, []).append((kept, is_hidden))
    try:
        yield kept
    finally:
        with _changing:
            stream.kept[me] = [one for one in stream.kept[me] if one[0] is not kept]
            if not stream.kept[me]:
                del stream.kept[me]
            # The program may have put another stream there for longer.
            if not stream.kept and sys.stdout is stream:
                sys.stdout = stream.shown
