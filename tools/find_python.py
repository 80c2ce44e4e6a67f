"""Prints a Python of the given version that can build extensions, or nothing: find_python.py 3.12

Looked for on the PATH and among pyenv's versions. A pyenv shim on the PATH may stand for a Python that is not there,
so each one found is run.
"""

import subprocess
import sys
from pathlib import Path

PROBE = (
    "import ensurepip, os, sys, sysconfig, venv;"
    "os.stat(os.path.join(sysconfig.get_path('include'), 'Python.h'));"
    "print('%d.%d' % sys.version_info[:2])"
)


def candidates(version: str) -> list[str]:
    installed = Path.home() / ".pyenv" / "versions"
    return [f"python{version}", *map(str, sorted(installed.glob(f"{version}.*/bin/python{version}"), reverse=True))]


def works(python: str, version: str) -> bool:
    try:
        answer = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, check=False)
    except OSError:
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version


if __name__ == "__main__":
    print(next((python for python in candidates(sys.argv[1]) if works(python, sys.argv[1])), ""), end="")
