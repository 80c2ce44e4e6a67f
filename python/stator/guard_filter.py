"""What the function in `options={"guard_filter_fn": ...}` is shown of the guards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

# The names that torch._dynamo has for guards of these kinds.
_NAMES = {
    "Type": "TYPE_MATCH",
    "Identity": "ID_MATCH",
    "Constant": "EQUALS_MATCH",
    "Function": "CLOSURE_MATCH",
    "Length": "SEQUENCE_LENGTH",
    "Present": "HASATTR",
    "Absent": "NOT_PRESENT_IN_GENERIC_DICT",
    "HasNoKey": "DICT_NOT_CONTAINS",
    "Keys": "DICT_KEYS_MATCH",
    "Elements": "SET_CONTAINS",
    "Tensor": "TENSOR_MATCH",
    "Autograd": "TENSOR_MATCH",
    "Offset": "TENSOR_MATCH",
    "Subclass": "CLASS_MATCH",
    "Same": "DUPLICATE_INPUT",
    "Different": "OBJECT_ALIASING",
    "Expression": "SHAPE_ENV",
}


@dataclass(frozen=True)
class GuardedPlace:
    """Where the guarded object comes from: what torch's own filters ask the source of a guard."""

    name: str
    is_in_module: bool
    is_in_builtin_module: bool

    def is_unspecialized_nn_module(self) -> bool:
        return self.is_in_module

    def is_unspecialized_builtin_nn_module(self) -> bool:
        return self.is_in_builtin_module


@dataclass(frozen=True)
class GuardOfStator:
    """Stands for the `Guard` of torch in an entry."""

    name: str
    source: GuardedPlace
    kind: str

    def create_fn_name(self) -> str:
        return self.kind


def ask(filter_fn: Callable[[Sequence[Any]], Sequence[bool]], guards: list[tuple[Any, ...]]) -> list[bool]:
    """For each guard whether it is checked."""
    entries = [_entry(*guard) for guard in guards]
    answers = list(filter_fn(entries))
    if len(answers) != len(entries):
        raise ValueError(f"guard_filter_fn returned {len(answers)} answers for {len(entries)} guards")
    return [bool(answer) for answer in answers]


def _entry(
    place: str, kind: str, has_value: bool, value: Any, is_global: bool, is_in_module: bool, is_in_builtin_module: bool
) -> Any:
    from torch._dynamo.guards import strip_local_scope
    from torch._dynamo.types import GuardFilterEntry

    name = _NAMES[kind]
    if kind == "Constant" and (value is None or isinstance(value, bool)):
        name = "CONSTANT_MATCH"
    guard = GuardOfStator(place, GuardedPlace(place, is_in_module, is_in_builtin_module), name)
    return GuardFilterEntry(
        name=strip_local_scope(place),
        has_value=has_value,
        value=value,
        guard_type=name,
        derived_guard_types=(),
        is_global=is_global,
        orig_guard=guard,  # type: ignore[arg-type]
    )
