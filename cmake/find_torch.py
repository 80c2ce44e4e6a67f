"""Prints the folder of the torch that Stator is built against, or says in one sentence why there is none."""

import importlib.util
import sys
import sysconfig
from pathlib import Path


def torch_folder() -> Path | None:
    # An isolated build environment hides the site-packages of the interpreter, but not where they are.
    for folder in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        if (Path(folder) / "torch" / "include").is_dir():
            return Path(folder) / "torch"
    spec = importlib.util.find_spec("torch")
    return Path(spec.origin).parent if spec and spec.origin else None


folder = torch_folder()
if folder is None:
    sys.exit("Stator is built against an installed PyTorch, and there is none: pip install torch==2.13.0 first.")
print(folder)
