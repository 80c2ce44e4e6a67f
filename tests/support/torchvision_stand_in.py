"""torchvision names a torch of its own and is not installed. timm takes one layer and its transforms from it, and its models can do without:
importing this module puts a stand-in in its place."""

from __future__ import annotations

import sys
from enum import Enum
from types import ModuleType
from typing import Any

from torch import nn


class StandIn(ModuleType):
    __path__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (nn.Module,), {})


for _name in ("", ".ops", ".ops.misc", ".transforms", ".transforms.functional", ".datasets"):
    _module = sys.modules["torchvision" + _name] = StandIn("torchvision" + _name)
    _parent, _, _last = _module.__name__.rpartition(".")
    if _parent:
        setattr(sys.modules[_parent], _last, _module)
_modes = Enum("InterpolationMode", "NEAREST BILINEAR BICUBIC BOX HAMMING LANCZOS")
sys.modules["torchvision.transforms.functional"].InterpolationMode = _modes
