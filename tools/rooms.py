"""Checks the include rules of the folders under src/: python tools/rooms.py [FOLDER]

A room is a folder under src/. It includes itself and the rooms above it in ROOMS, none below; a subfolder is part of
its room. Only `cpython` knows a Python version, and only `torch` includes PyTorch's headers.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# From the ground up, as in docs/architecture.md.
ROOMS = (
    "base",
    "cpython",
    "number",
    "torch",
    "track",
    "bytecode",
    "source",
    "guard",
    "graph",
    "shape",
    "effect",
    "value",
    "trace",
    "capture",
    "run",
    "module",
    "testing",
)

# Violations that exist now, as they are printed. The list may only get shorter: a fixed one has to be removed.
KNOWN: frozenset[str] = frozenset()

SOURCES = {".h", ".cpp", ".c", ".def"}
INCLUDE = re.compile(r'\s*#\s*include\s*([<"])([^>"]+)[>"]')
COMMENT = re.compile(r"//.*|/\*.*?\*/")
KNOWS_A_VERSION = re.compile(
    r"\b(PY_VERSION_HEX|PY_(MAJOR|MINOR|MICRO|RELEASE)_VERSION|PY_VERSION|Py_Version|Py_GetVersion|Py_BUILD_CORE\w*|_PY_OPCODE\w*)\b"
)
CPYTHON_HEADERS = re.compile(r"internal/|cpython/|opcode\w*\.h|frameobject\.h|pycore_")
TORCH_HEADERS = re.compile(r"(ATen|c10|caffe2|torch|pybind11)/")


def check_include(folder: Path, room: str, bracket: str, name: str) -> str | None:
    """Why a file of this room may not include this header, or None."""
    if bracket == '"':
        other = name.split("/")[0]
        if other not in ROOMS or not (folder / name).is_file():
            return f'includes "{name}": a header is named by its path under src/'
        if ROOMS.index(other) > ROOMS.index(room):
            return f'includes "{name}": {other} is below {room}'
    elif room != "torch" and TORCH_HEADERS.match(name):
        return f"includes <{name}>: only torch includes PyTorch"
    elif room != "cpython" and CPYTHON_HEADERS.match(name):
        return f"includes <{name}>: only cpython knows a Python version"
    return None


def check_file(folder: Path, file: Path) -> Iterator[str]:
    path = file.relative_to(folder)
    room = path.parts[0]
    for line in file.read_text().splitlines():
        include = INCLUDE.match(line)
        wrong = check_include(folder, room, *include.groups()) if include else None
        if wrong:
            yield f"{path} {wrong}"
        version = KNOWS_A_VERSION.search(COMMENT.sub("", line))
        if version and room != "cpython":
            yield f"{path} names {version[0]}: only cpython knows a Python version"


def violations(folder: Path) -> list[str]:
    """All violations in this folder of sources."""
    found = []
    for file in sorted(file for file in folder.rglob("*") if file.suffix in SOURCES):
        if file.relative_to(folder).parts[0] not in ROOMS:
            found.append(f"{file.relative_to(folder)} is in no room: ROOMS in tools/rooms.py lists them")
        else:
            found.extend(check_file(folder, file))
    return found


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1] / "src"
    found = violations(folder)
    new, gone = [one for one in found if one not in KNOWN], KNOWN.difference(found)
    for one in new:
        print(f"src/{one}")
    for one in gone:
        print(f"{one}: this is no longer so, and goes from KNOWN in tools/rooms.py")
    return 1 if new or gone else 0


if __name__ == "__main__":
    sys.exit(main())
