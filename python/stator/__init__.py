"""Stator captures the PyTorch operations of ordinary Python programs as graphs, in C++.

It takes the place of TorchDynamo, the front end of `torch.compile`, with the same backends and the same results:

    @stator.compile
    def f(x, w):
        return torch.relu(x @ w).sum(dim=-1)

Names are imported when they are first used: `import stator` adds little to `import torch`, and torch._dynamo is
imported only for its exceptions and its registered backends.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

# The only place that states the version: pyproject.toml reads it from here.
__version__ = "0.1.0"

from stator import _requirements

_requirements.check()

if TYPE_CHECKING:
    from stator.api import compile, reset
    from stator.backends import list_backends
    from stator.errors import BackendCompilerFailed, Mismatch, RecompileLimitHit, Unsupported
    from stator.installation import install, installed, is_installed, uninstall
    from stator.minification import Minified, minify
    from stator.module_tracker import ModuleTracker
    from stator.recordings import replay
    from stator.report import Report, explain, watch
    from stator.settings import config
    from stator.verification import verify

# Public name -> the module that defines it.
_PUBLIC = {
    "BackendCompilerFailed": "errors",
    "Mismatch": "errors",
    "Minified": "minification",
    "ModuleTracker": "module_tracker",
    "RecompileLimitHit": "errors",
    "Report": "report",
    "Unsupported": "errors",
    "compile": "api",
    "config": "settings",
    "explain": "report",
    "watch": "report",
    "install": "installation",
    "installed": "installation",
    "is_installed": "installation",
    "list_backends": "backends",
    "minify": "minification",
    "replay": "recordings",
    "reset": "api",
    "uninstall": "installation",
    "verify": "verification",
}

__all__ = [
    "BackendCompilerFailed",
    "Minified",
    "Mismatch",
    "ModuleTracker",
    "RecompileLimitHit",
    "Report",
    "Unsupported",
    "__version__",
    "compile",
    "config",
    "explain",
    "install",
    "installed",
    "is_installed",
    "list_backends",
    "minify",
    "replay",
    "reset",
    "uninstall",
    "verify",
    "watch",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        home = _PUBLIC.get(name)
        if home is None:
            raise AttributeError(f"module 'stator' has no attribute {name!r}")
        value = getattr(importlib.import_module(f"stator.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
