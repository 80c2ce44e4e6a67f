"""`make sanitize` detects errors: the extension is instrumented, and a use after free ends the process with a
report."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import HANGS

pytestmark = pytest.mark.skipif("STATOR_SANITIZED" not in os.environ, reason="runs under `make sanitize`")

SOURCE = """
#include <cstdlib>
extern "C" int use_after_free() {
    volatile int* number = new int(3);
    delete number;
    return *number;
}
extern "C" int shift_too_far(int by) { return 1 << by; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = os.environ.get("CXX") or shutil.which("c++")
    assert compiler is not None
    folder = tmp_path_factory.mktemp("sanitizer")
    source = folder / "wrong.cpp"
    source.write_text(SOURCE)
    target = folder / "wrong.so"
    flags = ["-fsanitize=address,undefined", "-g", "-O0", "-fPIC", "-shared"]
    # The compiler itself is not to run under the sanitizer's preloaded library.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([compiler, *flags, str(source), "-o", str(target)], check=True, env=environment, timeout=HANGS)
    return target


def call(library: Path, expression: str) -> subprocess.CompletedProcess[str]:
    program = f"import ctypes; library = ctypes.CDLL({str(library)!r}); print(library.{expression})"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=HANGS)


def test_a_use_after_free_is_caught(library):
    answer = call(library, "use_after_free()")
    assert answer.returncode == 99
    assert "heap-use-after-free" in answer.stderr


def test_undefined_behaviour_is_caught(library):
    answer = call(library, "shift_too_far(40)")
    assert answer.returncode != 0
    assert "shift exponent 40 is too large" in answer.stderr


def test_the_extension_is_instrumented():
    from stator._engine import engine

    path = Path(engine().__file__)
    assert "sanitize" in str(path)
    assert b"__asan_report_load" in path.read_bytes()
    assert ctypes.CDLL(None).__asan_init is not None
