"""Checks the versions of Python and torch before the extension is loaded."""

from __future__ import annotations

import importlib
import os
import platform
import sys

OLDEST_TORCH = (2, 11)
# The newest version that the tests have passed with. cmake/find_torch.py has the same two constants.
NEWEST_TORCH = (2, 15)


def check() -> None:
    """Raises ImportError if this Python or this torch is not supported."""
    if not (3, 11) <= sys.version_info[:2] <= (3, 13) or sys.implementation.name != "cpython":
        raise ImportError(
            f"Stator knows the frames of CPython 3.11, 3.12 and 3.13, and this is "
            f"{platform.python_implementation()} {platform.python_version()}."
        )
    try:
        import torch
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise ImportError("Stator needs PyTorch, and there is none: pip install torch==2.13.0.") from None
    version = str(torch.__version__)
    if _numbers(version) < OLDEST_TORCH:
        raise ImportError(f"Stator needs torch 2.11 or later, and this is torch {version}.")
    if _numbers(version) > NEWEST_TORCH and os.environ.get("STATOR_ALLOW_UNTESTED_TORCH") != "1":
        raise ImportError(
            f"Stator was tested with torch 2.11 to 2.15, and this is torch {version}: "
            "set STATOR_ALLOW_UNTESTED_TORCH=1 to use it all the same."
        )
    built_with = _torch_of_the_build()
    if built_with is not None and built_with != version:
        raise ImportError(
            f"This Stator was built against torch {built_with}, and torch {version} is installed: build it again."
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("+")[0].split(".")[:2])


def _torch_of_the_build() -> str | None:
    """None if the extension is not built: the Python files can be imported without it, until something is compiled."""
    try:
        built_with = importlib.import_module("stator._built_with")
    except ImportError:
        return None
    return str(built_with.TORCH)
