"""Initializes lazy modules (`torch.nn.LazyLinear`, ...) when the tracer reaches them, as a call would."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn


def initialise(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Has a lazy module create its parameters for these arguments, whose tensors are fake. False if it needs real
    tensors; the module is then unchanged."""
    if not type(module).initialize_parameters.__module__.startswith("torch.nn.modules."):
        # A user-defined module may need real tensors: try it on a copy first.
        state = torch.random.get_rng_state()
        try:
            trial = copy.deepcopy(module)
            trial._infer_parameters(trial, args, kwargs)
            if _is_fake(trial):
                return False
        except Exception:
            return False
        finally:
            torch.random.set_rng_state(state)
    module._infer_parameters(module, args, kwargs)
    return True


def _is_fake(module: nn.Module) -> bool:
    from torch._subclasses.fake_tensor import FakeTensor

    held = [
        *module.parameters(),
        *module.buffers(),
        *(value for one in module.modules() for value in vars(one).values()),
    ]
    return any(isinstance(value, FakeTensor) for value in held)
