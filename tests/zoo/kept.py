"""What was measured so far, in a file: a run that was cut off goes on there."""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

Row = dict[str, Any]


class Kept:
    """The rows of each library's models, and the versions of Python and PyTorch that they belong to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        running = {"python": platform.python_version(), "torch": str(torch.__version__)}
        kept = json.loads(path.read_text()) if path.exists() else {**running, "libraries": {}}
        self.python: str = kept["python"]
        self.torch: str = kept["torch"]
        self.libraries: dict[str, dict[str, Any]] = kept["libraries"]
        self.is_of_this_python = running == {"python": self.python, "torch": self.torch}

    def rows(self, library: str, distribution: str) -> dict[str, Row]:
        """Of the library's models; those of another version of it are forgotten."""
        version = metadata.version(distribution)
        if self.libraries.get(library, {}).get("version") != version:
            self.libraries[library] = {"version": version, "models": {}}
        return self.libraries[library]["models"]

    def save(self) -> None:
        self._path.parent.mkdir(exist_ok=True)
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({"python": self.python, "torch": self.torch, "libraries": self.libraries}, indent=1))
        os.replace(new, self._path)
