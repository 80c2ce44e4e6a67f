"""One compilation at a time.

PyTorch's compilers keep what they work on in the process and not in the thread: patched configurations, levels of
nesting, whether somebody is compiling. torch.compile therefore compiles under a lock, and so does Stator, under the
same one as soon as it is there. Waiting for it lets other threads run.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Depth(threading.local):
    """How many compilations of this thread are under way, one inside of the other."""

    value = 0


_depth = _Depth()
# For as long as torch._dynamo is not imported, which backends that users write may never need.
_own: Any = threading.RLock()


def _lock_of_dynamo() -> Any:
    return getattr(sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None)


@contextmanager
def compiling_alone() -> Iterator[None]:
    """No other thread compiles meanwhile. A compilation inside of a compilation is possible."""
    own, dynamo = _own, _lock_of_dynamo()
    if _depth.value > 0:
        # Others are kept out already. To wait for the other lock could be to wait for a thread that waits for ours.
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
    """Whether there are two."""
    if dynamo is None:
        own.acquire()
        return False
    while True:
        dynamo.acquire()
        if own.acquire(blocking=False):
            return True
        # It belongs to a compilation that began before torch._dynamo was there, and that may want its lock too.
        dynamo.release()
        with own:
            pass


def _forget_other_threads() -> None:
    """In the child of a fork there is one thread: what others held at that moment nobody will ever release."""
    global _own
    _own = threading.RLock()
    dynamo = _lock_of_dynamo()
    if dynamo is not None and not dynamo._is_owned():
        dynamo._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
