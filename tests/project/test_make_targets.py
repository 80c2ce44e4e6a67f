"""CONTRIBUTING.md lists what `make` can do, and the versions that are stated twice agree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]

# Run by other targets.
PARTS = {"guided-build", "races-build", "sanitize-build", "test-frames-on"}


def test_every_target_is_in_the_table() -> None:
    makefile = (PROJECT / "Makefile").read_text()
    targets = {name for line in re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE) for name in line.split()}
    assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in targets)
    table = re.findall(r"^\| (`make .+?) \|", (PROJECT / "CONTRIBUTING.md").read_text(), re.MULTILINE)
    assert {name for row in table for name in re.findall(r"`make ([\w-]+)`", row)} == targets - PARTS


def test_all_requirements_are_pinned() -> None:
    lines = [line for file in (PROJECT / "requirements").glob("*.txt") for line in file.read_text().splitlines()]
    assert [line for line in lines if line and not line.startswith("#") and "==" not in line] == []


def test_wheels_are_tried_beside_the_torch_they_are_built_with() -> None:
    wheels = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    pinned = re.findall(r"^[^#\n].*", (PROJECT / "requirements" / "torch.txt").read_text(), re.MULTILINE)
    assert wheels["test-requires"] == pinned
