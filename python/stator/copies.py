"""Copies and pickles of compiled functions and methods.

They behave as the function or method in them: a function is copied and pickled by reference, a bound method together
with its object. A callable that can't be found by its name is compiled again where the pickle is loaded.

cloudpickle does not call `__reduce_ex__` on an instance of `types.FunctionType`, which a compiled function is to
`isinstance`. A function that it pickles by value (of `__main__`, or a local one) comes back uncompiled.
"""

from __future__ import annotations

import copy
import sys
from types import MethodType
from typing import Any


def reduce(compiled: Any, protocol: Any) -> str | tuple[Any, ...]:
    """`__reduce_ex__`: a name, or how to compile it again."""
    if _is_found_by_name(compiled):
        return compiled.__qualname__
    options = compiled._stator_options
    arguments = (options.get("given", compiled._stator_callable), options["arguments"])
    state = _own_attributes(compiled)
    return (compile_again, arguments, state) if state else (compile_again, arguments)


def deep_copy(compiled: Any, memo: dict[int, Any]) -> Any:
    """`__deepcopy__`: a method of the copied object, compiled again."""
    options = compiled._stator_options
    given = options.get("given", compiled._stator_callable)
    copied = copy.deepcopy(given, memo)
    if copied is given or (type(given) is MethodType and copied.__self__ is given.__self__):
        return compiled
    again = compile_again(copied, options["arguments"])
    vars(again).update(copy.deepcopy(_own_attributes(compiled), memo))
    return again


def compile_again(fn: Any, arguments: dict[str, Any]) -> Any:
    from stator.api import compile

    return compile(fn, **arguments)


def _is_found_by_name(compiled: Any) -> bool:
    """Whether pickle finds it by its name, as it does a decorated function of a module."""
    found: Any = sys.modules.get(getattr(compiled, "__module__", None) or "")
    for part in str(getattr(compiled, "__qualname__", "")).split("."):
        found = getattr(found, part, None)
    return found is compiled


def _own_attributes(compiled: Any) -> dict[str, Any]:
    """Attributes that the program has set on the compiled callable itself."""
    given = {*getattr(compiled._stator_callable, "__dict__", ()), *_TAKEN_OVER}
    return {name: value for name, value in vars(compiled).items() if name not in given}


_TAKEN_OVER = (
    "__module__",
    "__name__",
    "__qualname__",
    "__doc__",
    "__annotations__",
    "__wrapped__",
    "_torchdynamo_orig_callable",
    "_torchdynamo_wrapper_id",
    "_is_torch_compile",
    "aot_compile",
    "get_compiler_config",
)
