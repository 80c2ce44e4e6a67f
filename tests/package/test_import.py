"""`import stator` costs little, and says in one sentence what is missing."""

from __future__ import annotations

import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import stator
from tests.support.processes import HANGS, fresh

PACKAGE = Path(stator.__file__).resolve().parent


def run(program: str, *, path: list[Path]) -> subprocess.CompletedProcess[str]:
    # Without site-packages, so that the torch and the stator found are those of `path`.
    lines = f"import sys; sys.path[:0] = {[str(folder) for folder in path]!r}\n" + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-S", "-c", lines], capture_output=True, text=True, check=False, timeout=HANGS, env={}
    )


def last_line(answer: subprocess.CompletedProcess[str]) -> str:
    assert answer.returncode != 0
    return answer.stderr.strip().splitlines()[-1]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The Python files alone, as before any build."""
    folder = tmp_path / "stator"
    folder.mkdir()
    for file in PACKAGE.glob("*.py"):
        if file.name != "_built_with.py":
            (folder / file.name).symlink_to(file)
    return tmp_path


def with_torch(folder: Path, version: str) -> Path:
    (folder / "torch").mkdir()
    (folder / "torch" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    return folder


def test_import_brings_in_neither_dynamo_nor_the_engine():
    program = """
        import sys, torch
        before = set(sys.modules)
        import stator
        print(sorted(set(sys.modules) - before - {"stator._built_with"}))
    """
    assert fresh(program) == "['stator', 'stator._requirements']"


def test_no_torch(package):
    assert last_line(run("import stator", path=[package])) == (
        "ImportError: Stator needs PyTorch, and there is none: pip install torch==2.13.0."
    )


def test_a_torch_too_old(package):
    answer = run("import stator", path=[with_torch(package, "2.10.1+cpu")])
    assert last_line(answer) == "ImportError: Stator needs torch 2.11 or later, and this is torch 2.10.1+cpu."


def test_a_torch_that_was_not_tested(package):
    with_torch(package, "2.16.0.dev20270101")
    assert last_line(run("import stator", path=[package])) == (
        "ImportError: Stator was tested with torch 2.11 to 2.15, and this is torch 2.16.0.dev20270101: "
        "set STATOR_ALLOW_UNTESTED_TORCH=1 to use it all the same."
    )
    allowed = "import os; os.environ['STATOR_ALLOW_UNTESTED_TORCH'] = '1'; import stator"
    assert run(allowed, path=[package]).returncode == 0


def test_the_build_and_the_import_want_the_same_torch():
    from stator import _requirements

    script = PACKAGE.parents[1] / "cmake" / "find_torch.py"
    if not script.is_file():
        pytest.skip("the files of the build are not here")
    found = runpy.run_path(str(script))
    assert (found["OLDEST"], found["NEWEST"]) == (_requirements.OLDEST_TORCH, _requirements.NEWEST_TORCH)


def test_another_torch_than_the_one_built_against(package):
    (package / "stator" / "_built_with.py").write_text("TORCH = '2.13.0+cpu'\n")
    answer = run("import stator", path=[with_torch(package, "2.11.0")])
    assert last_line(answer) == (
        "ImportError: This Stator was built against torch 2.13.0+cpu, and torch 2.11.0 is installed: build it again."
    )


@pytest.mark.parametrize("version", ["(3, 10, 13)", "(3, 14, 0)"])
def test_an_unsupported_python(package, version):
    program = f"""
        import platform
        sys.version_info = {version}
        platform.python_version = lambda: ".".join(map(str, {version}))
        import stator
    """
    words = last_line(run(program, path=[with_torch(package, "2.13.0")]))
    assert words.startswith(
        "ImportError: Stator knows the frames of CPython 3.11, 3.12 and 3.13, and this is CPython 3.1"
    )


def test_files_without_the_extension(package):
    words = last_line(run("from stator._engine import engine; engine()", path=[with_torch(package, "2.13.0")]))
    assert words == (
        "ImportError: Stator's C++ extension is not built for this Python: "
        "run `make build`, or `pip install .` beside torch."
    )


def test_names_are_listed_and_unknown_ones_refused():
    assert set(stator.__all__) <= set(dir(stator))
    assert all(getattr(stator, name) is not None for name in stator.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = stator.nonsense
