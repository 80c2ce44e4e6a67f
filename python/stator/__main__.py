"""`python -m stator` prints versions and settings, for a bug report."""

from __future__ import annotations

import platform

import torch

import stator
from stator._engine import engine


def main() -> None:
    print(f"stator {stator.__version__}")
    print(f"torch  {torch.__version__}")
    print(f"python {platform.python_version()} on {platform.platform()}")
    print(f"engine {engine().__file__}")
    print(f"\n{stator.config!r}")


if __name__ == "__main__":
    main()
