#!/bin/sh
# Builds the rooms that need no PyTorch for each Python given, and runs their tests there:
#   tests/frames/run_all.sh python3.11 /path/to/python3.12 ...
# Further arguments for pytest can be given in PYTEST_ARGUMENTS.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ $# -eq 0 ]; then
    echo "usage: $0 PYTHON..." >&2
    exit 2
fi
for python in "$@"; do
    tag=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    build="$root/build/frames-$tag"
    echo "== Python $tag"
    cmake -G Ninja -S "$root" -B "$build" -DSTATOR_FRAMES_ONLY=ON -DPython_EXECUTABLE="$(command -v "$python")" \
        -DSTATOR_OUTPUT="$build/extension" ${CMAKE_ARGUMENTS:-} >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
    cmake --build "$build" >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
    if ! "$build/venv/bin/python" -c 'import pytest' 2>/dev/null; then
        "$python" -m venv "$build/venv"
        "$build/venv/bin/python" -m pip install --quiet --disable-pip-version-check pytest
    fi
    STATOR_FRAMES=$(ls "$build"/extension/_frames.*.so) "$build/venv/bin/python" -m pytest -q -p no:cacheprovider \
        ${PYTEST_ARGUMENTS:-} "$root/tests/frames" "$root/tests/bytecode"
done
