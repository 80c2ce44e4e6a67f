"""Prints the folder and the version of the torch to build against, or says in one sentence why there is none.

Torch is found by looking, not by importing: inside an isolated build environment it can't be imported, and its import
takes seconds.
"""

import importlib.util
import os
import re
import site
import sys
import sysconfig
from pathlib import Path

OLDEST = (2, 11)
NEWEST = (2, 15)  # as in python/stator/_requirements.py


def torch_folder() -> Path | None:
    # An isolated build environment hides the interpreter's site-packages from sys.path, but not where they are.
    likely = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()]
    for folder in likely:
        if (Path(folder) / "torch" / "include").is_dir():
            return Path(folder) / "torch"
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin:
        return Path(spec.origin).parent
    # A virtual environment that sees the packages of the interpreter it was made from.
    base = Path(sysconfig.get_path("purelib", vars={"base": sys.base_prefix})) / "torch"
    return base if (base / "include").is_dir() else None


def torch_version(folder: Path) -> str:
    found = re.search(r"__version__ = '([^']+)'", (folder / "version.py").read_text())
    return found.group(1) if found else "0"


def main() -> None:
    folder = torch_folder()
    if folder is None:
        sys.exit("Stator is built against an installed PyTorch, and there is none: pip install torch==2.13.0 first.")
    version = torch_version(folder)
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if numbers < OLDEST:
        sys.exit(f"Stator needs torch 2.11 or later and found {version}: pip install torch==2.13.0 first.")
    if numbers > NEWEST and os.environ.get("STATOR_ALLOW_UNTESTED_TORCH") != "1":
        sys.exit(
            f"Stator was tested with torch 2.11 to 2.15 and found {version}: "
            "set STATOR_ALLOW_UNTESTED_TORCH=1 to build against it all the same."
        )
    print(f"{folder};{version}", end="")


if __name__ == "__main__":
    main()
