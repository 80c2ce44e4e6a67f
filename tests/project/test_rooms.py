"""The include rules under src/ are those of docs/architecture.md; `make lint` checks the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.rooms import KNOWN, ROOMS, violations

PROJECT = Path(__file__).resolve().parents[2]


def test_every_file_includes_what_is_above_it():
    found = violations(PROJECT / "src")
    assert [one for one in found if one not in KNOWN] == []
    assert KNOWN.difference(found) == set(), "these are no longer so, and go from KNOWN in tools/rooms.py"


def test_the_order_is_the_one_of_the_architecture():
    page = (PROJECT / "docs" / "architecture.md").read_text()
    table = page[page.index("| room | holds |") :].split("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    there = [room for room in ROOMS if (PROJECT / "src" / room).is_dir()]
    assert listed == there


def test_the_drawing_has_the_rooms_in_order():
    drawing = (PROJECT / "docs" / "assets" / "rooms.svg").read_text()
    assert re.findall(r'<text class="r"[^>]*>(\w+)<', drawing) == list(ROOMS)


def test_the_rooms_of_the_path_of_a_call_are_there():
    drawing = (PROJECT / "docs" / "assets" / "call.svg").read_text()
    named = {room for text in re.findall(r'<text class="r"[^>]*>([\w, ]+)<', drawing) for room in text.split(", ")}
    assert named - {"backend", "Python"} <= set(ROOMS)


@pytest.mark.parametrize(
    "path, text, words",
    [
        ("graph/a.h", '#include "graph/b.h"\n#include "base/kinds/c.h"\n#include <vector>', []),
        ("graph/deep/a.h", '#include "value/kinds/d.h"', ["value is below graph"]),
        ("graph/a.h", '#include "b.h"', ["named by its path"]),
        ("graph/a.h", '#include "graph/gone.h"', ["named by its path"]),
        ("graph/a.h", "#  include <ATen/core/Tensor.h>", ["only torch"]),
        ("torch/a.h", "#include <ATen/core/Tensor.h>", []),
        ("graph/a.cpp", "#if PY_VERSION_HEX < 0x030c0000", ["only cpython"]),
        ("graph/a.cpp", "// not PY_VERSION_HEX", []),
        ("graph/a.cpp", "#include <internal/pycore_frame.h>", ["only cpython"]),
        ("cpython/a.c", "#include <internal/pycore_frame.h>\n#if PY_VERSION_HEX < 0x030c0000", []),
        ("elsewhere/a.cpp", "", ["in no room"]),
    ],
)
def test_what_is_in_the_wrong_place_is_found(tmp_path, path, text, words):
    for name, content in {"graph/b.h": "", "base/kinds/c.h": "", "value/kinds/d.h": "", path: text}.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    found = violations(tmp_path)
    assert len(found) == len(words)
    for one, word in zip(found, words):
        assert one.startswith(path) and word in one
