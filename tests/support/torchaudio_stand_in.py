"""torchaudio's C++ library is built for CUDA, and torchaudio, and so transformers, can't be imported beside a torch for the CPU. Its models do without:
importing this module puts a stand-in in the library's place."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class StandIn(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return False if name.startswith("_IS") else lambda function: function


sys.modules.setdefault("torchaudio._extension", StandIn("torchaudio._extension"))
