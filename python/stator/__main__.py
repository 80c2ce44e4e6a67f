"""The command line.

python -m stator                      versions and settings, for a bug report
python -m stator run SCRIPT ARGS...   runs a script with Stator behind torch.compile
python -m stator run -m MODULE ARGS...
"""

from __future__ import annotations

import os
import platform
import runpy
import sys

import torch

import stator
from stator._engine import engine


def show() -> None:
    print(f"stator {stator.__version__}")
    print(f"torch  {torch.__version__}")
    print(f"python {platform.python_version()} on {platform.platform()}")
    print(f"engine {engine().__file__}")
    print(f"\n{stator.config!r}")


def run(arguments: list[str]) -> None:
    """Runs a script or a module as Python does, with Stator installed. Processes that it starts have it, too."""
    stator.install()
    os.environ["STATOR_INSTALL"] = "1"
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        _add_to_path(os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    sys.argv = arguments
    _add_to_path(os.path.dirname(os.path.abspath(arguments[0])))
    runpy.run_path(arguments[0], run_name="__main__")


def _add_to_path(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments:
        show()
    elif arguments[0] == "run" and len(arguments) > (2 if arguments[1:2] == ["-m"] else 1):
        if not sys.flags.safe_path:
            del sys.path[0]  # the current folder, for `python -m stator` itself
        run(arguments[1:])
    else:
        raise SystemExit((__doc__ or "").strip())


if __name__ == "__main__":
    main()
