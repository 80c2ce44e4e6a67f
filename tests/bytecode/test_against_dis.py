"""The decoder against `dis`: every code object of the standard library, and code that CPython has specialised.

By default a third of the library's files, each Python another third; STATOR_LONG_TESTS=1 takes all.
"""

import dis
import importlib.util
import itertools
import marshal
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

from tests.bytecode.normalised_dis import normalised, raw
from tests.support.frames_extension import extension
from tests.support.long import LONG, every

FOLDER = Path(sysconfig.get_path("stdlib"))


def nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested(constant)


def compiled(path: Path) -> CodeType | None:
    """As the interpreter would have it: from its cache of compiled files where there is one."""
    cached = Path(importlib.util.cache_from_source(str(path)))
    if cached.exists() and cached.stat().st_mtime >= path.stat().st_mtime:
        content = cached.read_bytes()
        if content[:4] == importlib.util.MAGIC_NUMBER:
            return marshal.loads(content[16:])
    try:
        return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # files that are wrong on purpose
        return None


def standard_library() -> Iterator[Path]:
    for folder, folders, files in os.walk(FOLDER):
        folders[:] = sorted(set(folders) - {"site-packages", "__pycache__"})
        for file in sorted(files):
            if file.endswith(".py"):
                yield Path(folder) / file


def difference(code: CodeType) -> str | None:
    expected, expected_handlers = normalised(code)
    decoded = extension._frames_decode(code)
    if decoded != expected:
        for ours, theirs in itertools.zip_longest(decoded, expected):
            if ours != theirs:
                return f"{code}: decoded {ours}, dis says {theirs}"
    if extension._frames_handlers(code) != expected_handlers:
        return f"{code}: handlers {extension._frames_handlers(code)}, dis says {expected_handlers}"
    return None


PARTS = 12 if LONG else 4
FILES = every(3, standard_library(), sys.version_info.minor)


@pytest.mark.parametrize("part", range(PARTS))
def test_every_code_object_of_the_standard_library(part: int) -> None:
    warnings.simplefilter("ignore", SyntaxWarning)  # some files are odd on purpose
    differences = []
    instructions = 0
    for path in FILES[part::PARTS]:
        module = compiled(path)
        if module is None:
            continue
        for code in nested(module):
            instructions += len(code.co_code) // 2
            if found := difference(code):
                differences.append(found)
    assert not differences, "\n".join(differences[:10])
    assert instructions > 1_000_000 / PARTS / (2 if LONG else 8), "the standard library was not found"


def test_no_opcode_is_unknown() -> None:
    never_in_code = {"CACHE", "RESERVED", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "ENTER_EXECUTOR"}
    for name, number in dis.opmap.items():
        if number < 256 and not name.startswith("INSTRUMENTED_") and name not in never_in_code:
            assert extension._frames_is_known_opcode(number), name


def test_specialised_code_decodes_the_same() -> None:
    class Point:
        def __init__(self) -> None:
            self.x = 1

    def hot(point: Point, items: list[int], table: dict[str, int]) -> int:
        total = 0
        for item in items:
            total += item + point.x + table["a"] + len(items)
            if item > 3:
                total -= items[0]
        return total

    source = hot.__code__.replace()
    for _ in range(200):
        hot(Point(), [1, 2, 3, 4, 5], {"a": 1})
    adaptive = {each.opname for each in dis.get_instructions(hot, adaptive=True)}
    assert any(name not in dis.opmap for name in adaptive), "CPython did not specialise anything"
    assert extension._frames_decode(hot.__code__) == extension._frames_decode(source)
    assert difference(hot.__code__) is None


def test_extended_arguments_and_long_jumps() -> None:
    body = "".join(f"        x = [{n}.5, 'text {n}']\n" for n in range(600))
    source = f"def f(xs):\n  for x in xs:\n    try:\n{body}        continue\n    finally:\n{body}  return x\n"
    code = list(nested(compile(source, "<test>", "exec")))[1]
    assert sum(name == "EXTENDED_ARG" for _, name, _ in raw(code)) > 1000
    assert difference(code) is None
    starts = [row for row in extension._frames_decode(code) if row[4] != row[5]]
    assert len(starts) > 600, "no instruction starts at its prefix"


def test_the_decoded_form_goes_with_the_code_object() -> None:
    import gc

    def make_and_drop() -> None:
        for _ in range(200):
            code = compile("def f(a):\n  return [a + i for i in range(a)]\n", "<test>", "exec")
            for each in nested(code):
                extension._frames_decode(each)

    make_and_drop()
    gc.collect()
    before = sys.getallocatedblocks()
    make_and_drop()
    gc.collect()
    assert sys.getallocatedblocks() - before < 50
