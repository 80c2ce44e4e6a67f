"""The reference for the decoder, computed slowly from the output of `dis`."""

import dis
import sys
from collections.abc import Iterator
from types import CodeType

VERSION = sys.version_info[:2]

# CPython's name -> ours, where the words differ.
RENAMED = {
    "LOAD_CLOSURE": "LoadFast",
    "LOAD_CLASSDEREF": "LoadClassDeref",
    "JUMP_FORWARD": "Jump",
    "JUMP_BACKWARD_NO_INTERRUPT": "Jump",
    "FORMAT_SIMPLE": "FormatValue",
    "FORMAT_WITH_SPEC": "FormatValue",
}
INTRINSICS_1 = {4: "AsyncGenWrap", 5: "UnaryPositive", 6: "ListToTuple"}
INTRINSICS_2 = {1: "PrepReraiseStar"}
PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LoadFast", "LoadFast"),
    "STORE_FAST_LOAD_FAST": ("StoreFast", "LoadFast"),
    "STORE_FAST_STORE_FAST": ("StoreFast", "StoreFast"),
}
COMPARISONS = {text: number for number, text in enumerate(("<", "<=", "==", "!=", ">", ">="))}


def our_name(name: str) -> str:
    if name in RENAMED:
        return RENAMED[name]
    if name.startswith("POP_JUMP_"):
        name = name.replace("_FORWARD", "").replace("_BACKWARD", "")
    if name == "LOAD_FAST" and VERSION == (3, 11):
        return "LoadFastCheck"
    return "".join(part.capitalize() for part in name.split("_"))


NAMES = {name: our_name(name) for name in dis.opmap}


def operands(name: str, arg: int, comparison: str | None) -> tuple[str, int, int]:
    """Our name, `arg` and `extra` of an instruction that does not jump."""
    ours = NAMES[name]
    if name == "LOAD_GLOBAL":
        return ours, arg >> 1, arg & 1
    if name == "LOAD_ATTR" and VERSION >= (3, 12):
        return ("LoadMethod" if arg & 1 else "LoadAttr"), arg >> 1, 0
    if name == "LOAD_SUPER_ATTR":
        return ours, arg >> 2, arg & 3
    if name == "COMPARE_OP":
        assert comparison is not None
        return ours, COMPARISONS[comparison.removeprefix("bool(").removesuffix(")")], 0
    if name == "UNPACK_EX":
        return ours, arg & 255, arg >> 8
    if name == "FORMAT_VALUE":
        return ours, arg & 3, arg >> 2
    if name == "FORMAT_SIMPLE":
        return ours, 0, 0
    if name == "FORMAT_WITH_SPEC":
        return ours, 0, 1
    if name == "CALL_INTRINSIC_1" and arg in INTRINSICS_1:
        return INTRINSICS_1[arg], 0, 0
    if name == "CALL_INTRINSIC_2" and arg in INTRINSICS_2:
        return INTRINSICS_2[arg], 0, 0
    return ours, arg, 0


def raw(code: CodeType) -> Iterator[tuple[int, str, int]]:
    """(offset, name, argument) of everything but caches, extended arguments on their own."""
    for offset, *_, op, arg in dis._unpack_opargs(code.co_code):
        if dis.opname[op] != "CACHE":
            yield offset, dis.opname[op], arg or 0


def caches(name: str) -> int:
    entries = dis._inline_cache_entries
    return entries.get(name, 0) if isinstance(entries, dict) else entries[dis.opmap[name]]


def comparison_text(arg: int) -> str:
    """As `dis` shows it."""
    if VERSION == (3, 11):
        return dis.cmp_op[arg]
    if VERSION == (3, 12):
        return dis.cmp_op[arg >> 4]
    return f"bool({dis.cmp_op[arg >> 5]})" if arg & 16 else dis.cmp_op[arg >> 5]


def normalised(code: CodeType) -> tuple[list[tuple], list[tuple]]:
    """(instructions, handlers) in the form of `_frames_decode` and `_frames_handlers`."""
    lines = {}
    for start, end, line in code.co_lines():
        for offset in range(start, end, 2):
            lines[offset] = -1 if line is None else line
    entries = dis._parse_exception_table(code)
    handler_at = {}
    for number, entry in enumerate(entries):
        for offset in range(entry.start, entry.end, 2):
            handler_at[offset] = number

    rows: list[list] = []
    index_at: dict[int, int] = {}
    start: int | None = None
    keyword_names = -1
    for offset, name, arg in raw(code):
        end = offset + 2 + 2 * caches(name)
        start = offset if start is None else start
        for covered in range(offset, end, 2):
            index_at[covered] = len(rows)
        if name in ("EXTENDED_ARG", "PRECALL"):
            continue
        if name == "KW_NAMES":
            keyword_names = arg
            continue
        place = [start, offset, end, lines.get(offset, -1), handler_at.get(offset, -1)]
        opcode = dis.opmap[name]
        if name in PAIRS:
            first, second = PAIRS[name]
            rows.append([first, arg >> 4, 0, -1, *place, 1])
            rows.append([second, arg & 15, 0, -1, *place, 0])
        elif opcode in dis.hasjrel:
            distance = -arg if "JUMP_BACKWARD" in name else arg
            if name == "FOR_ITER":
                distance += {(3, 11): 0, (3, 12): 1, (3, 13): 2}[VERSION]
            rows.append([NAMES[name], 0, 0, end + 2 * distance, *place, 1])
        else:
            assert opcode not in dis.hasjabs
            comparison = comparison_text(arg) if name == "COMPARE_OP" else None
            ours, our_arg, extra = operands(name, arg, comparison)
            if name == "CALL":
                extra, keyword_names = keyword_names, -1
            rows.append([ours, our_arg, extra, -1, *place, 1])
            if comparison is not None and comparison.startswith("bool("):
                rows.append(["ToBool", 0, 0, -1, *place, 0])
        start = None
    index_at[len(code.co_code)] = len(rows)
    for row in rows:
        if row[3] >= 0:
            row[3] = index_at[row[3]]
    handlers = [
        (index_at[each.start], index_at[each.end], index_at[each.target], each.depth, int(each.lasti))
        for each in entries
    ]
    return [tuple(row) for row in rows], handlers
