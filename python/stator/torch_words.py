"""Reasons for a recompile in the words of TorchDynamo, which people search for in logs, with Stator's as a comment.

tensor 'x' size mismatch at index 0. expected 3, actual 4  # L['x']: size of dimension 0 is 4, was 3
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence

# The calls that lead to a line of the program, outermost first.
Stack = list[traceback.FrameSummary]

_SCALARS = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


def _at_index(what: str) -> Callable[[str, re.Match[str]], str]:
    return lambda place, found: (
        f"tensor '{place}' {what} mismatch at index {found[2]}. expected {found[4]}, actual {found[3]}"
    )


def _of_tensor(what: str) -> Callable[[str, re.Match[str]], str]:
    return lambda place, found: f"tensor '{place}' {what} mismatch. expected {found[3]}, actual {found[2]}"


def _dtype(place: str, found: re.Match[str]) -> str:
    now, before = (_SCALARS.get(name.removeprefix("torch."), name) for name in (found[2], found[3]))
    return f"tensor '{place}' dtype mismatch. expected {before}, actual {now}"


def _requires_grad(place: str, found: re.Match[str]) -> str:
    return f"tensor '{place}' requires_grad mismatch. expected requires_grad={int(found[3] == 'True')}"


def _state(place: str, found: re.Match[str]) -> str:
    """Modes and settings that TorchDynamo guards too."""
    names = {
        "grad mode": "grad_mode",
        "default dtype": "default_dtype",
        "__torch_function__": "torch_function",
        "deterministic algorithms": "deterministic_algorithms",
        "number of threads": "num_threads",
    }
    return f"GLOBAL_STATE changed: {names.get(found[1]) or 'autocast'} "


def _type(place: str, found: re.Match[str]) -> str:
    return f"expected type of '{place}' to be a tensor type, ' but found <class '{found[2]}'>"


# By the form of a reason (src/guard/explain.cpp): the first group is the place.
_FORMS: list[tuple[re.Pattern[str], Callable[[str, re.Match[str]], str]]] = [
    (re.compile(form), say)
    for form, say in (
        (r"(.+): size of dimension (\d+) is (\d+), was (\d+)", _at_index("size")),
        (r"(.+): stride of dimension (\d+) is (\d+), was (\d+)", _at_index("stride")),
        (r"(.+): number of dimensions is (\d+), was (\d+)", _of_tensor("rank")),
        (r"(.+): device is (\S+), was (\S+)", _of_tensor("dispatch key set")),
        (r"(.+): dtype is (\S+), was (\S+)", _dtype),
        (r"(.+): requires_grad is (\w+), was (\w+)", _requires_grad),
        (r"(.+): type is (\S+), was (\S+)", _type),
        (
            r"(.+) is not (.+), was the same object",
            lambda place, found: f"{_without_scope(found[2])} is {place}",
        ),
        (r"(.+) has (\d+) items?, had (\d+)", lambda place, found: f"len({place}) == {found[3]}"),
        (
            r"type of (.+) is (\S+), was (\S+)",
            lambda place, found: f"___check_type_id({place}), type=<class '{found[3]}'>",
        ),
        (
            r"(grad mode|default dtype|__torch_function__|deterministic algorithms|number of threads|autocast of \S+)"
            r" is (.+), was (.+)",
            _state,
        ),
        (r"(.+?) is (.+), was None", lambda place, found: f"{place} is None"),
        (
            r"(.+?) is (.+), was (-?\d[\w.+-]*|'.*'|\".*\"|True|False)",
            lambda place, found: f"{place} == {found[3]}",
        ),
        (
            r"(.+) is another (\w+) than before",
            lambda place, found: f"___check_obj_id({place}), type=<class '{found[2]}'>",
        ),
        (
            r"(.+?) is (.+), was <(.+)>",
            lambda place, found: f"___check_obj_id({place}), type=<class '{found[3]}'>",
        ),
        (r"(.+?) is (.+), was the function (.+)", lambda place, found: f"___check_obj_id({place}.__code__)"),
        (
            r"keys of (.+) are (.+), were \((.*?),?\)",
            lambda place, found: f"list(dict.keys({place})) == [{found[3]}]",
        ),
        (r"(.+ (?:==|!=|<=|>=|<|>) .+) is not true any more: .+", lambda place, found: place),
    )
]


def in_torchs_words(reason: str, parameters: Sequence[str] = (), stack: Stack | None = None) -> str:
    """The guard that failed as TorchDynamo writes it, with the line that needs it if that is known, and the reason as a
    comment; else the reason alone.

    A module is captured from its `__call__(*args, **kwargs)` on, and TorchDynamo's words are about `forward`, whose
    parameters may be given."""
    reason = _in_terms_of_forward(reason, parameters) if parameters else reason
    variable = re.search(r" \(closure variable (\w+)(.*)\)$", reason)
    hint = f' (HINT: guard on "{variable[1]}"{variable[2]})' if variable else ""
    bare = reason[: variable.start()] if variable else reason
    for form, say in _FORMS:
        if (found := form.fullmatch(bare)) is not None:
            words = say(_without_scope(found[1]), found)
            # (TorchDynamo's texts about tensors have no line.)
            line = "" if words.startswith(_WITHOUT_LINE) else line_in_torchs_words(say(found[1], found), stack)
            return f"{words}{line}{hint}  # {reason}"
    return reason


_WITHOUT_LINE = ("tensor '", "expected type of", "GLOBAL_STATE")


def line_in_torchs_words(code: str, stack: Stack | None, column: int = 60) -> str:
    """What follows the code of a guard: `  # return x + y  # model.py:12 in forward`, in a column of its own."""
    if not stack:
        return ""
    from torch.utils._traceback import format_frame

    return f"{' ' * max(0, column - len(code))}  # {format_frame(stack[-1], line=True)}"


def line_that_reads(place: str, needed: Mapping[str, Stack]) -> Stack | None:
    """Where the program first reads the tensor or number at a place, of which a symbol may be made."""
    tensor = tensor_of(place)
    about = (f"{tensor} ", f"type of {tensor} ")
    return next((stack for guard, stack in needed.items() if guard.startswith(about)), None)


def tensor_of(place: str) -> str:
    """`L['x']` for `L['x'].size()[0]`."""
    return re.sub(r"\.(size|stride|storage_offset)\(\).*", "", place)


def guard_of(reason: str, guards: Iterable[str]) -> str | None:
    """Which of the guards has failed for this reason."""
    bare = re.sub(r" \(closure variable .*\)$", "", reason)
    place = next((found[1] for form, _ in _FORMS if (found := form.fullmatch(bare)) is not None), None)
    if place is None:
        return None
    # ("type of x is A, was B" fails "type of x is B", "x has 1 item, had 3" fails "x has 3 items")
    was = bare.rpartition(", was " if ", was " in bare else ", had ")[2]
    about = [guard for guard in guards if guard == place or guard.startswith((f"{place} ", f"type of {place} "))]
    exact = [guard for guard in about if f" {was} item" in guard or guard.endswith(f" is {was}")]
    return next(iter(exact or about), None)


def _in_terms_of_forward(reason: str, parameters: Sequence[str]) -> str:
    """`L['x']` for `L['args'][0]`."""

    def name(found: re.Match[str]) -> str:
        position = int(found[1])
        return f"L['{parameters[position]}']" if position < len(parameters) else found[0]

    return re.sub(r"L\['kwargs'\]\['([^']*)'\]", r"L['\1']", re.sub(r"L\['args'\]\[(\d+)\]", name, reason))


def _without_scope(place: str) -> str:
    """`x.y` for `L['x'].y`."""
    return re.sub(r"L\['([^']*)'\]", r"\1", place)
