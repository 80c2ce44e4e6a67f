"""`torch._dynamo.reset()` and `torch.compiler.reset()` reset Stator too.

They call `reset()` of every backend that torch._dynamo has been given, and then forget these. So Stator is one of them,
again with every graph that it captures.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from stator import imports

_HOME = "torch._dynamo.eval_frame"


class _Stator:
    """What torch._dynamo takes for a backend."""

    def reset(self) -> None:
        from stator import api, observer

        api.reset()
        if (watching := observer.current()) is not None:
            watching.forget()


_stator = _Stator()


def follow() -> None:
    """From now on a reset of torch resets Stator, until the next one."""
    module: Any = sys.modules.get(_HOME)
    if module is not None and hasattr(module, "cached_backends"):
        _add(module)


def _add(eval_frame: ModuleType) -> None:
    eval_frame.cached_backends.setdefault(id(_stator), _stator)


imports.when_imported(_HOME, _add)
