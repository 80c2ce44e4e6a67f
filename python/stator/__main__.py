"""The command line.

python -m stator                      versions and settings, for a bug report
python -m stator doctor [--quick]     whether this installation works, and a line for a bug report
python -m stator explain MODULE:FUNCTION EXPRESSIONS...   calls the function with these arguments, and shows its graphs
python -m stator run SCRIPT ARGS...   runs a script with Stator behind torch.compile
python -m stator run -m MODULE ARGS...
python -m stator run --report SCRIPT ARGS...   the same, and shows what was captured
python -m stator report [-o FILE] [--compare] SCRIPT ARGS...   the same, and writes that to stator-report.html;
                                      with --compare some calls run uncompiled, to tell the time saved
"""

from __future__ import annotations

import importlib
import os
import platform
import runpy
import sys
from typing import Any

import torch

import stator
from stator import doctor, terminal
from stator._engine import engine


def show() -> None:
    print(f"stator {stator.__version__}")
    print(f"torch  {torch.__version__}")
    print(f"python {platform.python_version()} on {platform.platform()}")
    print(f"engine {engine().__file__}")
    print(f"\n{stator.config!r}")


def run(arguments: list[str]) -> None:
    """Runs a script or a module as Python does, with Stator installed. Processes that it starts have it, too."""
    if arguments[0] == "--report":
        with stator.watch() as seen:
            try:
                run(arguments[1:])
            finally:
                terminal.show_report(seen)
        return
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
    path, compare = "stator-report.html", False
    while arguments[0] in ("-o", "--compare"):
        if arguments[0] == "-o":
            path, arguments = arguments[1], arguments[2:]
        else:
            compare, arguments = True, arguments[1:]
    path = os.path.abspath(path)  # the script may change the folder
    try:
        with stator.watch(path, compare=compare):
            run(arguments)
    finally:
        print(f"stator: the report is in {path}", file=sys.stderr)


def explain(arguments: list[str]) -> None:
    """Calls a function with arguments that are Python expressions; they may use torch and the names of its module."""
    name, _, path = arguments[0].partition(":")
    _add_to_path(os.getcwd())
    module = importlib.import_module(name)
    function: Any = module
    for part in path.split("."):
        function = getattr(function, part)
    given = [eval(text, {"torch": torch, **vars(module)}) for text in arguments[1:]]
    explained = stator.explain(function)(*given)
    terminal.show_report(explained)
    for number, capture in enumerate(explained.graphs, 1):
        print(f"\ngraph {number}: {capture}")


def _takes_script(arguments: list[str]) -> bool:
    while arguments[:1] in (["-o"], ["--compare"], ["--report"]):
        arguments = arguments[2:] if arguments[0] == "-o" else arguments[1:]
    return len(arguments) > (1 if arguments[:1] == ["-m"] else 0)


def _add_to_path(folder: str) -> None:
    if not sys.flags.safe_path:
        sys.path.insert(0, folder)


def main() -> None:
    arguments = sys.argv[1:]
    if not arguments:
        show()
    elif arguments[0] == "doctor":
        raise SystemExit(doctor.main(arguments[1:]))
    elif arguments[0] == "explain" and ":" in "".join(arguments[1:2]):
        explain(arguments[1:])
    elif arguments[0] in ("run", "report") and _takes_script(arguments[1:]):
        if not sys.flags.safe_path:
            del sys.path[0]  # the current folder, for `python -m stator` itself
        {"run": run, "report": report}[arguments[0]](arguments[1:])
    else:
        raise SystemExit((__doc__ or "").strip())


if __name__ == "__main__":
    main()
