"""The programs that are measured, each with the figures it has to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from demo.vision_transformer import VisionTransformer


@dataclass(frozen=True)
class Goal:
    """How many times better than torch._dynamo: the minimum and the target."""

    least: float
    aim: float


@dataclass(frozen=True)
class Program:
    """`make` gives what is compiled and its arguments, from a fixed seed."""

    name: str
    make: Callable[[], tuple[Any, tuple[Any, ...]]]
    capture: Goal | None = None
    cached: Goal | None = None


def thousand_adds(x: Tensor) -> Tensor:
    for _ in range(1000):
        x = torch.add(x, 1)
    return x


class Nested(nn.Module):
    """A chain of modules, one inside the other, each with a parameter and a buffer."""

    offset: Tensor

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))
        self.register_buffer("offset", torch.zeros(8))
        self.inner = Nested(depth - 1) if depth > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.weight + self.offset
        return x if self.inner is None else self.inner(x)


def linear_and_relu(pairs: int) -> nn.Sequential:
    return nn.Sequential(*(layer for _ in range(pairs) for layer in (nn.Linear(16, 16), nn.ReLU())))


PROGRAMS = (
    Program(
        "1000 torch.add in a loop",
        lambda: (thousand_adds, (torch.randn(8),)),
        capture=Goal(60, 150),
        cached=Goal(5, 15),
    ),
    Program(
        "50 pairs of Linear and ReLU",
        lambda: (linear_and_relu(50), (torch.randn(4, 16),)),
        capture=Goal(60, 150),
        cached=Goal(8, 20),
    ),
    Program("30 nested modules", lambda: (Nested(30), (torch.randn(4, 8),)), capture=Goal(60, 150), cached=Goal(8, 20)),
    Program("small vision transformer", lambda: (VisionTransformer().eval(), (torch.randn(2, 3, 32, 32),))),
)


def made(program: Program) -> tuple[Any, tuple[Any, ...]]:
    torch.manual_seed(0)
    return program.make()
