"""`options={"guard_filter_fn": ...}` of `torch.compile`: the program decides which guards are checked.

The filter sees each guard as torch's `GuardFilterEntry`, with torch's names for the kinds of guards. Two entries stand
for what Stator keeps apart from the guards of an entry: `SHAPE_ENV` for relations between numbers, `GLOBAL_STATE` for
the modes of PyTorch. What Stator guards without such an entry (that inputs do not alias) stays.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

_WITHOUT_SOURCE = ("SHAPE_ENV", "GLOBAL_STATE")


def kept(filter_fn: Callable[[Sequence[Any]], Sequence[bool]], guards: list[tuple[Any, ...]]) -> list[bool]:
    """Called by the engine. `guards` are (type, name, has value, value, is global, module or class of
    modules that holds it, or None). One
    answer for each, then one for each of `_WITHOUT_SOURCE`."""
    import torch

    entries = [_entry(*guard) for guard in guards]
    entries += [_entry(kind, "", False, None, False, None) for kind in _WITHOUT_SOURCE]
    with torch._C.DisableTorchFunction():
        answers = list(filter_fn(entries))
    if len(answers) != len(entries):
        raise AssertionError(f"guard_filter_fn returned {len(answers)} answers for {len(entries)} guards")
    if not all(type(answer) is bool for answer in answers):
        raise AssertionError("guard_filter_fn returns bools")
    return answers


def _entry(kind: str, name: str, has_value: bool, value: Any, is_global: bool, module: Any) -> Any:
    from torch._dynamo.guards import strip_local_scope
    from torch._dynamo.types import GuardFilterEntry

    guard = _guard(kind, name, is_global, module)
    derived = _derived(kind, value)
    guard.guard_types = list(derived) or None
    return GuardFilterEntry(
        strip_local_scope(name), has_value, value if has_value else _MISSING, kind, derived, is_global, guard
    )


_MISSING: Any = object()


def _derived(kind: str, value: Any) -> tuple[str, ...]:
    """The guards that torch checks for one of this kind."""
    if kind == "CONSTANT_MATCH":
        return ("NONE_MATCH",) if value is None else ("BOOL_MATCH",) if type(value) is bool else ("EQUALS_MATCH",)
    if kind in ("CLASS_MATCH", "MODULE_MATCH", "BUILTIN_MATCH", "CLOSURE_MATCH"):
        return (kind, "ID_MATCH")
    return (kind,)


def _guard(kind: str, name: str, is_global: bool, module: Any) -> Any:
    from torch._dynamo.guards import GuardBuilder
    from torch._guards import Guard

    create = getattr(GuardBuilder, kind, None) or functools.partial(_created_by_stator)
    return Guard(_source_class()(name, _guard_source(kind, is_global, module)), create)


def _created_by_stator(builder: Any, guard: Any) -> None: ...


def _guard_source(kind: str, is_global: bool, module: Any) -> Any:
    from torch._guards import GuardSource

    if kind == "SHAPE_ENV":
        return GuardSource.SHAPE_ENV
    home = str((module if isinstance(module, type) else type(module)).__module__)
    built_in = "BUILTIN_" if home.startswith(("torch.nn.", "torch.ao.")) else ""
    of_module = f"_UNSPECIALIZED_{built_in}NN_MODULE" if module is not None else ""
    return GuardSource[("GLOBAL" if is_global else "LOCAL") + of_module]


@functools.cache
def _source_class() -> Any:
    from torch._guards import Source

    class GuardedSource(Source):
        """Where a guarded object was found, as far as a filter can ask."""

        def __init__(self, name: str, guard_source: Any) -> None:
            self.__dict__.update(name=name, guard_source=guard_source)

    if not isinstance(vars(Source).get("name"), functools.cached_property):
        # Methods, in older versions of torch.
        for method in ("name", "guard_source"):
            setattr(GuardedSource, method, lambda self, method=method: self.__dict__[method])
    return GuardedSource
