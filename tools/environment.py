"""Makes a virtual environment with the pinned packages of some requirements files: environment.py FOLDER FILE...

With --no-deps in front of the files, their packages alone.

Run by the Python that the environment is for. What is missing on the machine is said in one sentence, before anything
is downloaded. It has to parse on Pythons that Stator does not support, to be able to tell them so.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig

REQUIREMENTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "requirements")


def complaint():
    """Why this machine can't build Stator, or None."""
    version = "{}.{}".format(*sys.version_info[:2])
    other = "or choose another Python with PYTHON=..."
    if not (3, 11) <= sys.version_info[:2] <= (3, 13) or sys.implementation.name != "cpython":
        return f"Stator knows the frames of CPython 3.11, 3.12 and 3.13, and {sys.executable} is {version}."
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return f"The headers of {sys.executable} are missing: install python{version}-dev, {other}"
    if any(importlib.util.find_spec(name) is None for name in ("ensurepip", "venv")):
        return f"{sys.executable} can't make virtual environments: install python{version}-venv, {other}"
    if not any(shutil.which(name) for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if name):
        return "Stator is written in C++20 and no C++ compiler was found: install g++ 11 or clang++ 14 or later."
    return None


def install(folder, files):
    python = os.path.join(folder, "bin", "python")
    # An environment whose interpreter was removed (by an update of Python) is created again.
    if not os.path.exists(python) or subprocess.call([python, "-c", ""]) != 0:
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", folder])
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if files[0] == "--no-deps":
        command.append(files.pop(0))
    for name in files:
        command += ["-r", os.path.join(REQUIREMENTS, name + ".txt")]
    subprocess.check_call([*command, "-c", os.path.join(REQUIREMENTS, "constraints.txt")])


if __name__ == "__main__":
    reason = complaint()
    if reason is not None:
        sys.exit(reason)
    try:
        install(sys.argv[1], sys.argv[2:])
    except subprocess.CalledProcessError as failure:
        sys.exit(f"Setting up {sys.argv[1]} failed (its output is above): {failure}")
