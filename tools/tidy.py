"""Runs clang-tidy on the sources under src/: python tools/tidy.py BUILD_FOLDER [--jobs N] [FILE]...

A file that passed is not looked at again until it changes, or a header of src/ that it includes, or the checks in
.clang-tidy, or the version of clang-tidy. The marks of what passed are in BUILD_FOLDER/tidy.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
SOURCES = PROJECT / "src"
CLANG_TIDY = Path(sys.executable).with_name("clang-tidy")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def included(file: Path, seen: set[Path]) -> set[Path]:
    """Adds this file and all headers of src/ that it includes, directly or through others."""
    if file not in seen and file.is_file():
        seen.add(file)
        for name in INCLUDE.findall(file.read_text()):
            included(SOURCES / name, seen)
    return seen


@functools.cache
def digest(file: Path) -> bytes:
    return hashlib.sha256(file.read_bytes()).digest()


def fingerprint(file: Path, version: str) -> str:
    """Changes with everything in this project that the findings for this file depend on."""
    whole = hashlib.sha256(version.encode() + digest(PROJECT / ".clang-tidy"))
    for one in sorted(included(file, set())):
        whole.update(str(one.relative_to(SOURCES)).encode() + digest(one))
    return whole.hexdigest()


def check(file: Path, build: Path, version: str) -> str | None:
    """The findings in this file: an empty text if there are none, None if it had none before and has not changed."""
    mark = build / "tidy" / file.relative_to(SOURCES)
    now = fingerprint(file, version)
    if mark.is_file() and mark.read_text() == now:
        return None
    command = [CLANG_TIDY, "--quiet", "--warnings-as-errors=*", "-p", build, file]
    answer = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        return answer.stdout or answer.stderr
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.write_text(now)
    return ""


def compiled(build: Path) -> list[Path]:
    """The C++ sources of this build."""
    commands = json.loads((build / "compile_commands.json").read_text())
    files = (Path(command["file"]) for command in commands)
    return sorted(file for file in files if file.suffix == ".cpp" and file.is_relative_to(SOURCES))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_intermixed_args()
    files = compiled(options.build)
    if options.files:
        chosen = {file.resolve() for file in options.files}
        files = [file for file in files if file in chosen]
    version = subprocess.run([str(CLANG_TIDY), "--version"], capture_output=True, text=True, check=True).stdout
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        answers = list(pool.map(lambda file: check(file, options.build, version), files))
    found = [answer for answer in answers if answer]
    # A finding in a header comes with each file that includes it.
    for text in dict.fromkeys(found):
        print(text, end="")
    new = sum(answer is not None for answer in answers)
    print(f"clang-tidy: {len(files)} files, {new} of them new or changed, {len(found)} with findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
