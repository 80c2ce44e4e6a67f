"""Makes a virtual environment with the pinned packages of some requirements files: environment.py FOLDER FILE...

Run by the Python that the environment is for. What is missing on the machine is said in one sentence, before anything
is downloaded. It has to parse on Pythons that Stator does not support, to be able to tell them so.
"""

import os
import shutil
import subprocess
import sys
import sysconfig

REQUIREMENTS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "requirements")


def complaint():
    """What keeps this machine from building Stator, or None."""
    version = "%d.%d" % sys.version_info[:2]
    if not (3, 11) <= sys.version_info[:2] <= (3, 13) or sys.implementation.name != "cpython":
        return "Stator knows the frames of CPython 3.11, 3.12 and 3.13, and %s is %s %s: choose another with PYTHON=..." % (
            sys.executable,
            sys.implementation.name,
            version,
        )
    if not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")):
        return "The headers of %s are missing: install python%s-dev, or choose another Python with PYTHON=..." % (
            sys.executable,
            version,
        )
    try:
        import ensurepip
        import venv
    except ImportError:
        return "%s can't make virtual environments: install python%s-venv, or choose another Python with PYTHON=..." % (
            sys.executable,
            version,
        )
    assert ensurepip and venv
    if not any(shutil.which(name) for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if name):
        return "Stator is written in C++20 and no C++ compiler was found: install g++ 11 or clang++ 14 or later."
    return None


def install(folder, files):
    python = os.path.join(folder, "bin", "python")
    # An environment whose interpreter went away (a Python that was updated) is made anew.
    if not os.path.exists(python) or subprocess.call([python, "-c", ""]) != 0:
        subprocess.check_call([sys.executable, "-m", "venv", "--clear", folder])
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
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
        sys.exit("Setting up %s failed (its output is above): %s" % (sys.argv[1], failure))
