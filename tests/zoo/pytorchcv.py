"""The families of pytorchcv: the first model of each of its files, on images of the size that it is made for."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import torch

DISTRIBUTION = "pytorchcv"
_MOST_PARAMETERS = 100_000_000


def names() -> list[str]:
    import pytorchcv.models

    return [one.name for one in pkgutil.iter_modules(pytorchcv.models.__path__) if not one.ispkg]


def makers(name: str) -> Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]:
    # (Its list of all models imports torchvision for some of them; the file of one model does not.)
    file = importlib.import_module(f"pytorchcv.models.{name}")
    functions = [getattr(file, one) for one in file.__all__ if one.islower() and not one.startswith("get_")]
    for function, batch in ((function, batch) for function in functions for batch in (2, 1)):

        def make(
            function: Callable[..., torch.nn.Module] = function, batch: int = batch
        ) -> tuple[torch.nn.Module, dict[str, Any]]:
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in function().parameters())
            if count > _MOST_PARAMETERS:
                raise ValueError(f"{count} parameters are too many")
            model = function()
            height, width = getattr(model, "in_size", (224, 224))
            return model, {"x": torch.randn(batch, getattr(model, "in_channels", 3), height, width)}

        yield make
