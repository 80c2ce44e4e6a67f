"""One checked call at a time.

A check sets global variables of the program, catches warnings and rewinds the random generators, all of which belong to
the process. A call that is checked in another thread therefore waits for its turn. It does not wait forever: the call
that it waits for may itself wait for this thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Seconds to wait. It is longer than most calls take uncompiled.
PATIENCE = 10.0

_turn: Any = threading.RLock()


def take_turn() -> Any:
    """The lock, to be released after the check; None after a wait that was too long."""
    turn = _turn  # a fork makes another one
    return turn if turn.acquire(timeout=PATIENCE) else None


@contextmanager
def in_turn() -> Iterator[None]:
    """For what has to run both ways: goes on after the wait in any case."""
    turn = take_turn()
    try:
        yield
    finally:
        if turn is not None:
            turn.release()


def _forget_other_threads() -> None:
    """After a fork: another thread of the parent may have had the turn, and would never give it back."""
    global _turn
    _turn = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
