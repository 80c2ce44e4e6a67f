"""One compilation at a time.

PyTorch's compilers have process-wide state: patched configurations, nesting levels, whether a compilation is running.
torch.compile therefore compiles under a lock. Stator takes the same lock once torch._dynamo is imported. Waiting for
it releases the GIL.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Depth(threading.local):
    """How many nested compilations this thread is running."""

    value = 0


_depth = _Depth()
# Used while torch._dynamo is not imported; backends written by users may never import it.
_own: Any = threading.RLock()


def _lock_of_dynamo() -> Any:
    return getattr(sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None)


@contextmanager
def compiling_alone() -> Iterator[None]:
    """Keeps other threads from compiling. Compilations may nest."""
    own, dynamo = _own, _lock_of_dynamo()
    if _depth.value > 0:
        # Other threads are locked out already. Waiting for the second lock could deadlock.
        has_dynamo = dynamo is not None and dynamo.acquire(blocking=False)
        own.acquire()
    else:
        has_dynamo = _acquire_both(own, dynamo)
    _depth.value += 1
    try:
        yield
    finally:
        _depth.value -= 1
        own.release()
        if has_dynamo:
            dynamo.release()


def _acquire_both(own: Any, dynamo: Any) -> bool:
    """Returns whether torch._dynamo's lock exists and was acquired too."""
    if dynamo is None:
        own.acquire()
        return False
    while True:
        dynamo.acquire()
        if own.acquire(blocking=False):
            return True
        # A compilation that began before torch._dynamo was imported holds it, and may need the other lock too.
        dynamo.release()
        with own:
            pass


def _forget_other_threads() -> None:
    """After a fork: locks that other threads of the parent held would never be released."""
    global _own
    _own = threading.RLock()
    dynamo = _lock_of_dynamo()
    if dynamo is not None and not dynamo._is_owned():
        dynamo._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
