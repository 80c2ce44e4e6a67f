"""The stance of `torch.compiler.set_stance` for each thread.

torch._dynamo keeps one stance for the process: a thread that runs `with torch.compiler.set_stance("force_eager")` for
one request changes what all others do, and two such blocks that overlap leave each other's stance behind. Compiled
functions of Stator follow the stance that their own thread has set, or that of the main thread if it has set none.
torch._dynamo itself goes on as before.
"""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any

from stator._engine import engine


class _Own(threading.local):
    stance: Any = None
    before: Any = None  # what the thread followed when it had none


class _Stances:
    """What was set, and by whom."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.original = module._set_stance
        self.own = _Own()
        # Between setting a stance and noting it, another thread would take it for one that was set behind our back.
        self.lock = threading.RLock()
        self.common = module._stance
        # What was last set through this object. A stance of before may belong to a block that is still running, and
        # whose end is then for all threads, too.
        is_default = self.common.stance == "default" and self.common.backend is None
        self.last = self.common if is_default else None
        engine().follow_stance(self.common, False)

    def set(self, stance: Any) -> Any:
        """Returns the thread's stance until now."""
        with self.lock:
            is_known = self.module._stance is self.last
            if not is_known:
                self.common = self.module._stance
            prior = self.own.stance or self.common
            self.original(stance)
            self.last = stance
            if not is_known or threading.current_thread() is threading.main_thread():
                self.common, self.own.stance = stance, None
                engine().follow_stance(stance, False)
            elif stance is self.common or stance is self.own.before:
                self.own.stance = self.own.before = None
            else:
                self.own.before = self.own.before or prior
                self.own.stance = stance
            engine().follow_stance(self.own.stance, True)
            return prior


def follow() -> None:
    """Called by the engine, once torch._dynamo is imported."""
    module: Any = sys.modules["torch._dynamo.eval_frame"]
    stances = _Stances(module)

    @functools.wraps(stances.original)
    def set_stance(stance: Any) -> Any:
        return stances.set(stance)

    for name in ("torch._dynamo.eval_frame", "torch._dynamo.decorators"):
        user: Any = sys.modules.get(name)
        if user is not None and getattr(user, "_set_stance", None) is stances.original:
            user._set_stance = set_stance
