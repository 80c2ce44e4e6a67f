"""`python -m stator doctor`: whether this installation works, and one line about it for a bug report."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import platform
import sys
import sysconfig
import time
from collections.abc import Callable
from typing import Any

import torch

import stator
from stator import _requirements, terminal
from stator._engine import engine

# Packages that evaluate frames themselves, or that follow every line.
_RIVALS = {
    "cinderx": "compiles frames itself",
    "pyston_lite_autoload": "evaluates frames itself",
    "pydevd": "a debugger: frames run uncompiled while it follows their lines",
    "viztracer": "a profiler: inlined calls are not in its traces",
}


def main(arguments: list[str]) -> int:
    """Prints what was found; 1 if something does not work. `--quick` leaves out backends that compile machine code."""
    versions, hook, conflicts = _versions(), _hook(), _conflicts()
    terminal.table("versions", ("", "", "fits"), versions)
    terminal.table("frame hook", ("", ""), [("held by", hook)])
    backends = _backends(is_quick="--quick" in arguments)
    terminal.table("backends", ("name", "", "time"), backends)
    terminal.table("caches", ("", "size", "folder"), _caches())
    terminal.table("conflicts", ("", ""), conflicts or [("none", "")])
    print("\nTo paste into a bug report:")
    print(_line(hook, backends, conflicts))
    needed = [words for name, words, _ in backends if name in ("eager", "stator")]
    fits = all(not answer.startswith("no") for *_, answer in versions)
    return 0 if fits and all(words == "works" for words in needed) else 1


def _versions() -> list[tuple[str, str, str]]:
    built = _requirements._torch_of_the_build()
    torch_fits = "yes" if built in (None, torch.__version__) else f"no: the engine was built for torch {built}"
    version = _requirements._numbers(torch.__version__)
    if not _requirements.OLDEST_TORCH <= version[:2] <= _requirements.NEWEST_TORCH:
        torch_fits = "no: not a tested version"
    python_fits = "yes" if (3, 11) <= sys.version_info[:2] <= (3, 13) else "no: 3.11 to 3.13 are supported"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        python_fits = "no: the free-threaded build is not supported"
    return [
        ("stator", stator.__version__, "yes"),
        ("torch", torch.__version__, torch_fits),
        ("Python", f"{platform.python_version()} ({platform.python_implementation()})", python_fits),
        ("system", platform.platform(), ""),
        ("engine", str(engine().__file__), ""),
        ("CUDA", torch.cuda.get_device_name() if torch.cuda.is_available() else "none", ""),
    ]


def _hook() -> str:
    found = engine().foreign_hook()
    if found is None:
        return "nobody: Stator sets it for each call"
    library, function = found
    return f"{function} of {library}, which Stator calls for frames that are not its own"


def _try(backend: str) -> tuple[str, str]:
    """Compiles a small function, forward and backward, and compares it with the uncompiled one."""

    def small(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w).sum(dim=-1)

    began = time.perf_counter()
    try:
        results = []
        for called in (small, stator.compile(small, backend=backend, isolate_recompiles=True)):
            torch.manual_seed(0)
            x, w = torch.randn(4, 3), torch.randn(3, 3, requires_grad=True)
            called(x, w).sum().backward()
            results.append(w.grad)
        torch.testing.assert_close(results[1], results[0])
        words = "works"
    except Exception as error:
        text = str(error.__cause__ or error).strip().splitlines()
        words = f"fails: {type(error.__cause__ or error).__name__}: {text[0][:150] if text else ''}"
    return words, f"{time.perf_counter() - began:.2f} s"


def _backends(is_quick: bool) -> list[tuple[str, str, str]]:
    names = ["eager", "stator", "aot_eager"] if is_quick else [*stator.list_backends(), "aot_eager"]
    names = sorted(set(names), key=lambda name: (name not in ("eager", "stator"), name))
    return [(name, *_try(name)) for name in names]


def _caches() -> list[tuple[str, str, str]]:
    folders = {
        "inductor": _guarded(_inductor_cache),
        "triton": os.environ.get("TRITON_CACHE_DIR", os.path.expanduser("~/.triton/cache")),
        "recorded errors": stator.config.record_errors,
        "reproductions": stator.config.reproduction_folder,
    }
    found = [(name, _size(folder), folder) for name, folder in folders.items() if folder]
    captures = [one for one in engine().callables() if one[1]]
    entries = sum(one[2] for one in captures)
    return [*found, ("this process", f"{entries} entries", f"of {len(captures)} compiled callables")]


def _inductor_cache() -> str:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    return os.environ.get("TORCHINDUCTOR_CACHE_DIR") or default_cache_dir()


def _size(folder: str) -> str:
    if not os.path.isdir(folder):
        return "none"
    total = 0
    for where, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):  # deleted meanwhile
                total += os.path.getsize(os.path.join(where, file))
    return f"{total / 2**20:.1f} MB"


def _guarded(read: Callable[..., Any], otherwise: Any = "") -> Any:
    try:
        return read()
    except Exception:
        return otherwise


def _conflicts() -> list[tuple[str, str]]:
    found = [(name, f"set to {os.environ[name]!r}: nothing is compiled")
             for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE")
             if os.environ.get(name, "0") not in ("", "0")]  # fmt: skip
    found += [
        (name, f"installed; {why}") for name, why in _RIVALS.items() if importlib.util.find_spec(name) is not None
    ]
    if sys.gettrace() is not None:
        found.append(("sys.settrace", "a trace function is set: frames whose lines it follows run uncompiled"))
    if sys.getprofile() is not None:
        found.append(("sys.setprofile", "a profile function is set: it sees no inlined calls"))
    if engine().foreign_hook() is not None:
        found.append(("frame hook", "another tool evaluates frames; calls are slower"))
    if stator.is_installed():
        found.append(("stator.install()", "torch.compile is Stator's in this process"))
    return found


def _line(hook: str, backends: list[tuple[str, str, str]], conflicts: list[tuple[str, str]]) -> str:
    working = " ".join(name for name, words, _ in backends if words == "works")
    failing = " ".join(name for name, words, _ in backends if words != "works") or "none"
    return (
        f"stator {stator.__version__} | torch {torch.__version__} | Python {platform.python_version()} | "
        f"{platform.system()} {platform.machine()} | hook: {hook.split(':')[0].split(',')[0]} | works: {working} | "
        f"fails: {failing} | conflicts: {', '.join(name for name, _ in conflicts) or 'none'}"
    )
