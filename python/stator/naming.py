"""Names of functions and models for messages, as the user knows them."""

from __future__ import annotations

import functools
import inspect
import sys
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import nn

# The frames of a module call: messages name the module instead.
_MODULE_CALLS = (nn.Module.__call__.__code__, nn.Module._call_impl.__code__)


def callee(function: FunctionType, first: Any) -> tuple[str, str, int]:
    """Name, file and line of a called function, given its first argument. A model is named by its class, at its
    `forward`; a decorated function by the function inside the decorators."""
    if function.__code__ in _MODULE_CALLS and isinstance(first, nn.Module):
        model: Any = type(first)
        inner = innermost(inspect.getattr_static(first, "forward", None))
        name = model.__qualname__
    else:
        inner = innermost(function)
        name = getattr(inner, "__qualname__", function.__qualname__)
    code = getattr(inner, "__code__", None) or function.__code__
    return name, code.co_filename, code.co_firstlineno


def code_of_callee(code: CodeType, first: Any) -> CodeType:
    """The code that torch's tools name for a frame, given its first argument: for a model that of its `forward`."""
    if code not in _MODULE_CALLS or not isinstance(first, nn.Module):
        return code
    return getattr(innermost(inspect.getattr_static(first, "forward", None)), "__code__", None) or code


def innermost(fn: Any) -> Any:
    """The function inside of methods, partials, decorators and compiled callables; None if there is no function."""
    for _ in range(100):
        if isinstance(fn, (staticmethod, classmethod)) or type(fn) is MethodType:
            fn = fn.__func__
        elif isinstance(fn, functools.partial):
            fn = fn.func
        elif callable(fn) and not isinstance(fn, type) and "__wrapped__" in getattr(fn, "__dict__", ()):
            fn = fn.__wrapped__
        else:
            break
    if type(fn) is FunctionType:
        return fn
    call = inspect.getattr_static(type(fn), "__call__", None)
    return call if type(call) is FunctionType else None


def imported_name(function: Any) -> str:
    """The name under which a program imports a C function that does not know its module, such as those of pybind11: the
    most public of all modules that have it."""
    name = function.__name__
    homes = [
        module_name
        for module_name, module in list(sys.modules.items())
        if type(module) is type(sys) and vars(module).get(name) is function
    ]
    home = min(homes, key=_privacy, default=getattr(function, "__module__", None))
    return f"{home}.{name}" if home else name


def _privacy(module_name: str) -> tuple[Any, ...]:
    parts = module_name.split(".")
    return any(part.startswith("_") for part in parts), parts[0] != "torch", len(parts), module_name
