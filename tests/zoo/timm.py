"""The families of timm: a small model of each, on small images where the model takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import tests.support.torchvision_stand_in  # noqa: F401 - before timm

DISTRIBUTION = "timm"
_SMALL_WORDS = (
    "test",
    "atto",
    "femto",
    "pico",
    "zepto",
    "nano",
    "xxs",
    "xxt",
    "mini",
    "tiny",
    "_s0",
    "_b0",
    "small",
    "xs",
    "18",
    "10",
)
_MOST_PARAMETERS = 40_000_000


def names() -> list[str]:
    import timm

    return sorted(timm.list_modules())


def makers(name: str) -> Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]:
    import timm

    for model_name in sorted(timm.list_models(module=name), key=_size_by_name)[:4]:
        for side in (64, None):

            def make(model_name: str = model_name, side: int | None = side) -> tuple[torch.nn.Module, dict[str, Any]]:
                with torch.device("meta"):
                    count = sum(parameter.numel() for parameter in timm.create_model(model_name).parameters())
                if count > _MOST_PARAMETERS:
                    raise ValueError(f"{count} parameters are too many")
                model = timm.create_model(model_name, num_classes=5)
                channels, *own = model.default_cfg["input_size"]
                is_fixed = model.default_cfg.get("fixed_input_size", False)
                if side is not None and is_fixed:
                    model = timm.create_model(model_name, num_classes=5, img_size=side)
                height, width = own if side is None else (side, side)
                return model, {"x": torch.randn(2, channels, height, width)}

            yield make


def _size_by_name(name: str) -> tuple[int, int, str]:
    """Smaller for models that are called small."""
    rank = next((rank for rank, word in enumerate(_SMALL_WORDS) if word in name), len(_SMALL_WORDS))
    return rank, len(name), name
