"""The command line.

python -m stator                      versions and settings, for a bug report
python -m stator run SCRIPT ARGS...   runs a script with Stator behind torch.compile
python -m stator run -m MODULE ARGS...
python -m stator report [-o FILE] SCRIPT ARGS...   the same, and writes what was captured to stator-report.html
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


def report(arguments: list[str]) -> None:
    """Runs a script as `run` does and writes a report of the main thread, also if the script ends with an exception."""
    path = "stator-report.html"
    if arguments[0] == "-o":
        path, arguments = arguments[1], arguments[2:]
    path = os.path.abspath(path)  # the script may change the folder
    try:
        with stator.watch(path):
            run(arguments)
    finally:
        print(f"stator: the report is in {path}", file=sys.stderr)


def _takes_script(arguments: list[str]) -> bool:
    if arguments[:1] == ["-o"]:
        arguments = arguments[2:]
    return len(arguments) > (1 if arguments[:1] == ["-m"] else 0)


def _add_to_path(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments:
        show()
    elif arguments[0] in ("run", "report") and _takes_script(arguments[1:]):
        if not sys.flags.safe_path:
            del sys.path[0]  # the current folder, for `python -m stator` itself
        {"run": run, "report": report}[arguments[0]](arguments[1:])
    else:
        raise SystemExit((__doc__ or "").strip())


if __name__ == "__main__":
    main()
