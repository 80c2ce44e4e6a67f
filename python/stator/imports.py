"""Calls a function once a module has been imported, without importing it.

torch._dynamo takes seconds to import, and many programs never do. What has to happen beside it happens when the program
imports it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_waiting: dict[str, list[Callable[[ModuleType], None]]] = {}


def when_imported(name: str, callback: Callable[[ModuleType], None]) -> None:
    """Calls `callback(module)` now if the module is imported, otherwise right after its import."""
    module = sys.modules.get(name)
    if module is not None and not _is_being_imported(module):
        callback(module)
        return
    _waiting.setdefault(name, []).append(callback)
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def forget(name: str, callback: Callable[[ModuleType], None]) -> None:
    """The callback is not wanted any more."""
    callbacks = _waiting.get(name, [])
    if callback in callbacks:
        callbacks.remove(callback)
    if not callbacks:
        _waiting.pop(name, None)
    _leave_if_done()


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


def _leave_if_done() -> None:
    if not _waiting and _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


class _Finder:
    """First on `sys.meta_path` as long as a callback waits. The other finders do the work."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _waiting:
            return None
        spec = None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                break
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return spec
        spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    """Runs the callbacks after the module's own loader. The module keeps its own loader."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.own.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.own
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        self.own.exec_module(module)
        callbacks = _waiting.pop(module.__name__, [])
        _leave_if_done()
        for callback in callbacks:
            callback(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


_finder = _Finder()

__all__ = ["forget", "when_imported"]
