"""The guards of an entry as torch logs them with `TORCH_LOGS="guards"`: a tree of the places that are guarded.

    +- RootGuardManager
    | +- GLOBAL_STATE: ___check_global_state() against {...}
    | +- GuardManager: source=L['x'], accessed_by=FrameLocalsGuardAccessor(key='x')
    | | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, ..., size=[3], stride=[1])  # return x + 1  # model.py:12 in f
    +- LAMBDA_GUARD: L['x'].size()[0] == L['y'].size()[0]  # ...

Kinds, accessors and the code of a guard are those of TorchDynamo. What TorchDynamo has no guard for is a LAMBDA_GUARD
in Stator's words.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch

from stator.torch_words import Stack, line_in_torchs_words, line_that_reads

# A place is a variable, a global or the name of something in a module, followed by accesses.
_ROOT = re.compile(r"[LG]\[[^\]]*\]|builtins(?=\[)|<[^>]*>|[\w.]+(?:<locals>[\w.]*)*")
_ACCESS = re.compile(r"\.\w+|\[(?:'[^']*'|\"[^\"]*\"|[^\]'\"]+)*\]|\(\)")


@dataclass
class _Place:
    """A guarded place, its guards, and the places that are reached through it."""

    source: str
    accessor: str = ""
    guards: list[str] = field(default_factory=list)
    inner: dict[str, _Place] = field(default_factory=dict)

    def lines(self, depth: int) -> list[str]:
        accessed_by = f", accessed_by={self.accessor}" if self.accessor else ""
        indent = "| " * depth
        lines = [f"{indent}+- GuardManager: source={self.source}{accessed_by}"]
        lines += [f"{indent}| +- {guard}" for guard in self.guards]
        for place in self.inner.values():
            lines += place.lines(depth + 1)
        return lines


def guard_tree(guards: Sequence[str], symbols: Sequence[str], needed: Mapping[str, Stack]) -> str:
    """The lines of the tree. `needed` has the calls that lead to where each guard is first needed. A size that is a
    symbol is at least 2, which is part of the guard on its tensor, and a guard of its own in torch."""
    state = torch._C._dynamo.guards.GlobalStateGuard().__getstate__()  # type: ignore[attr-defined]
    root = _Place("")
    conditions = []
    for guard in guards:
        place, text = guard_in_torchs_words(guard)
        stack = needed.get(guard)
        if place:
            code = text.partition(": ")[2]
            _find(root, place).guards.append(text + line_in_torchs_words(code, stack))
        else:
            conditions.append(f"+- {text}{line_in_torchs_words(text, stack, 0)}")
    conditions += [line for symbol in symbols if (line := _at_least_2(symbol, needed))]
    # The modes and settings of torch that TorchDynamo guards are those that Stator guards.
    lines = ["+- RootGuardManager", f"| +- GLOBAL_STATE: ___check_global_state() against {state}"]
    for inner in root.inner.values():
        lines += inner.lines(1)
    return "".join(f"{line}\n" for line in [*lines, *conditions])


_WHY_2 = (
    " (user code shown is first use of this value--the guard itself is not due user code but due to 0/1 specialization "
    "in the framework; to avoid specialization try torch._dynamo.decorators.mark_unbacked(tensor, dim))"
)


def _at_least_2(symbol: str, needed: Mapping[str, Stack]) -> str:
    """For `s0 is L['x'].size()[0]: 5 in this call, at least 2; changed between calls`."""
    found = re.fullmatch(r"\w+ is (.+\.size\(\)\[\d+\]): \d+ in this call, at least 2(?:,.*)?;.*", symbol)
    if found is None:
        return ""
    line = line_in_torchs_words("", line_that_reads(found[1], needed), 0)
    return f"+- LAMBDA_GUARD: 2 <= {found[1]}{line}{_WHY_2 if line else ''}"


def _find(root: _Place, place: str) -> _Place:
    """The node of a place, made with those on the way to it."""
    start = _ROOT.match(place)
    if start is None:
        return root.inner.setdefault(place, _Place(place))
    name = start[0]
    at = root
    if name.startswith("G["):
        at = at.inner.setdefault("G", _Place("G", "GlobalsGuardAccessor"))
    at = at.inner.setdefault(name, _Place(name, _accessor_of_root(name)))
    end = start.end()
    while (access := _ACCESS.match(place, end)) is not None:
        end = access.end()
        at = at.inner.setdefault(place[:end], _Place(place[:end], _accessor(access[0])))
    return at if end == len(place) else at.inner.setdefault(place, _Place(place))


def _accessor_of_root(name: str) -> str:
    if name.startswith("L["):
        return f"FrameLocalsGuardAccessor(key={name[2:-1]})"
    return f"DictGetItemGuardAccessor({name[2:-1]})" if name.startswith("G[") else ""


def _accessor(access: str) -> str:
    if access == "()":
        return "WeakRefCallGuardAccessor"
    if access.startswith("."):
        return f"GetAttrGuardAccessor({access[1:]})"
    kind = "DictGetItem" if access[1] in "'\"" else "GetItem"
    return f"{kind}GuardAccessor({access[1:-1]})"


def guard_in_torchs_words(guard: str) -> tuple[str, str]:
    """The place of a guard, and its kind and code in TorchDynamo's words; no place if it is about several."""
    for form, say in _FORMS:
        if (found := form.fullmatch(guard)) is not None:
            return found[1], say(found)
    if re.fullmatch(r".+ (?:==|!=|<=|>=|<|>) .+", guard):
        # torch writes `2*x` for `x * 2`.
        return "", "LAMBDA_GUARD: " + re.sub(r"([LG]\[[^ ]+) \* (\d+)(?![\w.])", r"\2*\1", guard)
    start = _ROOT.match(guard)
    return (start[0] if start else ""), f"LAMBDA_GUARD: {guard}"


def _tensor(found: re.Match[str]) -> str:
    """`L['x'] is torch.Tensor f32[3, ?] strides [4, 1] cpu requires_grad`."""
    # TorchDynamo writes the number of a device, and in a set of dispatch keys its kind.
    device = "None" if ":" not in found[6] else found[6].partition(":")[2]
    details = [
        found[2].rpartition(".")[2],
        _dtypes().get(found[3], found[3]),
        f"device={device}",
        f"requires_grad={found[7] is not None}",
        f"size={_numbers(found[4])}",
        f"stride={_numbers(found[5] or '')}",
    ]
    return f"TENSOR_MATCH: check_tensor({found[1]}, {', '.join(details)})"


@cache
def _dtypes() -> dict[str, str]:
    from torch.utils._dtype_abbrs import dtype_abbrs

    return {short: str(dtype) for dtype, short in dtype_abbrs.items()}


def _numbers(text: str) -> str:
    return f"[{text.replace('?', 'None')}]"


def _exists(found: re.Match[str]) -> str:
    outer, access = _split(found[1])
    if access.startswith("."):
        return f"HASATTR: hasattr({outer}, {access[1:]!r})"
    return f"DICT_CONTAINS: ___dict_contains({access[1:-1]}, {outer})" if access else f"LAMBDA_GUARD: {found[0]}"


def _does_not_exist(found: re.Match[str]) -> str:
    outer, access = _split(found[1])
    if access.startswith("."):
        return f"NOT_PRESENT_IN_GENERIC_DICT: not ___dict_contains({access[1:]!r}, {outer}.__dict__)"
    return f"DICT_CONTAINS: not ___dict_contains({access[1:-1]}, {outer})" if access else f"LAMBDA_GUARD: {found[0]}"


def _split(place: str) -> tuple[str, str]:
    """The object that has an attribute or item, and the access."""
    if re.fullmatch(r"G\[[^\]]*\]", place):
        return "G", place[1:]
    accesses = list(_ACCESS.finditer(place))
    return (place[: accesses[-1].start()], accesses[-1][0]) if accesses else (place, "")


def _constant(found: re.Match[str]) -> str:
    if found[2] == "None":
        return f"NONE_MATCH: {found[1]} is None"
    kind = "BOOL_MATCH" if found[2] in ("True", "False") else "EQUALS_MATCH"
    return f"{kind}: {found[1]} == {found[2]}"


def _keys(found: re.Match[str]) -> str:
    try:
        keys: Any = list(ast.literal_eval(found[2]))
    except (ValueError, SyntaxError):
        keys = found[2]
    return f"DICT_KEYS_MATCH: list(dict.keys({found[1]})) == {keys}"


# By the form of a guard's text (src/guard/guard.cpp): the first group is the place.
_FORMS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (re.compile(form), say)
    for form, say in (
        (
            r"(.+) is ([\w.]+) (\w+)\[([^\]]*)\](?: strides \[([^\]]*)\])? (\S+)( requires_grad)?",
            _tensor,
        ),
        (
            r"type of (.+) is (\S+)",
            lambda found: f"TYPE_MATCH: ___check_type_id({found[1]}), type=<class '{found[2]}'>",
        ),
        (r"(.+) has (\d+) items?", lambda found: f"LENGTH_CHECK: len({found[1]}) == {found[2]}"),
        (r"(.+?) is (-?\d[\w.+-]*|-?inf|nan|'.*'|\".*\"|True|False|None)", _constant),
        (
            r"(.+) is the same (\w+)",
            lambda found: f"ID_MATCH: ___check_obj_id({found[1]}), type=<class '{found[2]}'>",
        ),
        (
            r"(.+) is a function with the code of (.+)",
            lambda found: f"ID_MATCH: ___check_obj_id({found[1]}.__code__), type=<class 'code'>",
        ),
        (r"(.+) does not exist", _does_not_exist),
        (r"(.+) exists", _exists),
        (
            r"(.+) has no key (.+)",
            lambda found: f"DICT_CONTAINS: not ___dict_contains({found[2]}, {found[1]})",
        ),
        (r"(.+) has the (?:very )?keys (.+)", _keys),
        (
            r"([LG]\[.+) is not ([LG]\[.+)",
            lambda found: f"NO_TENSOR_ALIASING: check_no_aliasing({found[1]}, {found[2]})",
        ),
        (r"([LG]\[.+) is ([LG]\[.+)", lambda found: f"OBJECT_ALIASING: {found[2]} is {found[1]}"),
    )
]
