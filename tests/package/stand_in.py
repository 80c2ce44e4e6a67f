"""A stand-in for `stator._C` in tests of the Python side alone: it captures with torch.fx, once, and guards nothing."""

from __future__ import annotations

import functools
import weakref
from types import MethodType, ModuleType
from typing import Any

import torch
from torch import fx

_callback = None
_all: weakref.WeakSet[Any] = weakref.WeakSet()


def real_engine() -> ModuleType | None:
    try:
        from stator import _C
    except ImportError:
        return None
    return _C if hasattr(_C, "Compiled") else None


def set_module_slots(cls: type) -> None:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._stator_call(*args, **kwargs)

    type.__setattr__(cls, "__call__", call)


class Compiled:
    def __init__(self, function: Any, backend: Any, options: dict[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.backend, self.options = function, backend, options
        self._stator_callable, self._stator_options = function, options
        self.entry = None
        _all.add(self)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.entry is None:
            self.entry = self.capture(args)
        return self.entry(*args, **kwargs)

    def capture(self, args: tuple[Any, ...]) -> Any:
        tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
        if len(tensors) != len(args):
            self.report([], [self.broken("an argument that is not a tensor")])
            return self.function
        owner = getattr(self.function, "__self__", None)
        traced = owner if isinstance(owner, torch.nn.Module) else self.function
        try:
            graph_module = fx.symbolic_trace(traced)
        except Exception as failure:
            broken = self.broken(str(failure))
            self.report([], [broken])
            if self.options["fullgraph"]:
                from stator import errors

                errors.raise_unsupported(broken)
            return self.function
        compiled = self.backend(graph_module, tensors)
        nodes = len(graph_module.graph.nodes)
        entry = {
            "graph": str(graph_module.graph),
            "nodes": nodes,
            "guards": ["x is a tensor"],
            "times": {"trace": 1e-3},
        }
        self.report([entry], [])
        return compiled

    def broken(self, reason: str) -> dict[str, Any]:
        code = self.function.__code__
        return {"kind": "stand-in", "reason": reason, "file": code.co_filename, "line": code.co_firstlineno}

    def report(self, entries: list[Any], breaks: list[Any]) -> None:
        if _callback is not None:
            _callback({"code": self.__name__, "entries": entries, "breaks": breaks})


def reset() -> None:
    for compiled in _all:
        compiled.entry = None


def collect(callback: Any) -> Any:
    global _callback
    before, _callback = _callback, callback
    return before


def as_module() -> ModuleType:
    module = ModuleType("stator._C")
    module.Compiled, module.reset, module.collect = Compiled, reset, collect
    module.set_module_slots = set_module_slots
    module.callables = list
    module.show_call = lambda cls, function: None
    return module
