"""`STATOR_INSTALL=1`: imported when Python starts, by stator_install.pth. Waits for torch, and then installs Stator.

Not part of the package, because importing that imports torch. Without the variable this file is not read.
"""

from __future__ import annotations

import importlib.util
import warnings
from pathlib import Path
from types import ModuleType


def _imports() -> ModuleType:
    """`stator.imports`, without importing the package."""
    spec = importlib.util.spec_from_file_location("_stator_imports", Path(__file__).parent / "stator" / "imports.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _install(torch: ModuleType) -> None:
    try:
        import stator

        stator.install()
    except Exception as reason:  # the program runs all the same, on TorchDynamo
        warnings.warn(f"STATOR_INSTALL has no effect: {reason}", RuntimeWarning, stacklevel=2)


_imports().when_imported("torch", _install)
