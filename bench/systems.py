"""The two systems, behind one interface."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class System:
    name: str
    compile: Callable[..., Any]
    reset: Callable[[], None]


def dynamo() -> System:
    import torch._dynamo

    return System("torch._dynamo", torch.compile, torch._dynamo.reset)


def stator() -> System:
    import stator

    return System("stator", stator.compile, stator.reset)


def both() -> tuple[System, System]:
    return stator(), dynamo()
