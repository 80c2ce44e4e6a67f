"""Messages of the build if something is missing: one sentence each."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import HANGS

PROJECT = Path(__file__).resolve().parents[2]
TOOLS = Path(sys.executable).parent

needs_cmake = pytest.mark.skipif(not (TOOLS / "cmake").exists(), reason="cmake is not in this environment")


def configure(build: Path, *options: str, path: str) -> str:
    """What CMake complains of, as one line."""
    command = [TOOLS / "cmake", "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}", "-S", PROJECT, "-B", build]
    answer = subprocess.run(
        [*map(str, command), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
        env={"PATH": path, "HOME": os.environ.get("HOME", "/")},
    )
    assert answer.returncode != 0
    return " ".join(answer.stderr.split())


def find_torch(site_packages: Path) -> subprocess.CompletedProcess[str]:
    program = PROJECT / "cmake" / "find_torch.py"
    # -S and -I keep the torch of this environment out of sight.
    code = f"""
import runpy, site, sys, sysconfig
sysconfig.get_path = lambda *args, **kwargs: {str(site_packages)!r}
site.getusersitepackages = lambda: {str(site_packages)!r}
runpy.run_path({str(program)!r}, run_name="__main__")
"""
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False, timeout=HANGS
    )


@needs_cmake
def test_no_compiler(tmp_path):
    words = configure(tmp_path, path="")
    assert "Stator is written in C++20 and no C++ compiler was found: install g++ 11 or clang++ 14 or later." in words


@needs_cmake
def test_an_unsupported_python(tmp_path):
    finder = [sys.executable, str(PROJECT / "tools" / "find_python.py"), "3.10"]
    other = subprocess.run(finder, capture_output=True, text=True, check=True, timeout=HANGS).stdout
    if not other or shutil.which("c++") is None:
        pytest.skip("needs a Python 3.10 and a compiler")
    path = subprocess.run(
        [other, "-c", "import sys; print(sys.executable)"], capture_output=True, text=True, check=True, timeout=HANGS
    ).stdout.strip()
    words = configure(tmp_path, f"-DPython_EXECUTABLE={path}", path=os.environ["PATH"])
    assert f"Stator knows the frames of CPython 3.11, 3.12 and 3.13, and {path} is 3.10." in words


def test_torch_is_found_without_importing_it(tmp_path):
    folder = tmp_path / "torch"
    (folder / "include").mkdir(parents=True)
    (folder / "version.py").write_text("__version__ = '2.13.0+cpu'\nraise ImportError\n")
    answer = find_torch(tmp_path)
    assert (answer.returncode, answer.stdout) == (0, f"{folder};2.13.0+cpu")


def test_a_torch_too_old(tmp_path):
    (tmp_path / "torch" / "include").mkdir(parents=True)
    (tmp_path / "torch" / "version.py").write_text("__version__ = '2.10.0'\n")
    answer = find_torch(tmp_path)
    assert answer.returncode != 0
    assert (
        answer.stderr.strip() == "Stator needs torch 2.11 or later and found 2.10.0: pip install torch==2.13.0 first."
    )


def test_no_torch(tmp_path):
    answer = find_torch(tmp_path)
    assert answer.returncode != 0
    assert answer.stderr.strip() == (
        "Stator is built against an installed PyTorch, and there is none: pip install torch==2.13.0 first."
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("sys.version_info = (3, 10, 0)", "Stator knows the frames of CPython 3.11, 3.12 and 3.13"),
        ("sysconfig.get_path = lambda name: '/nowhere'", "The headers of"),
        ("environment.importlib.util.find_spec = lambda name: None", "can't make virtual environments"),
        ("shutil.which = lambda name: None", "no C++ compiler was found"),
    ],
)
def test_the_environment_says_what_the_machine_lacks(change, words):
    program = f"""
import shutil, sys, sysconfig
from tools import environment
{change}
print(environment.complaint())
"""
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANGS, cwd=PROJECT
    )
    assert words in answer.stdout
    assert answer.stdout.count("\n") == 1
