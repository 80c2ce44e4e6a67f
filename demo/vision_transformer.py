"""A small vision transformer, made of torch.nn layers only."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Attention, then a perceptron, each on normalized input and added to the input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.perceptron_norm = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        normal = self.attention_norm(x)
        attended, _ = self.attention(normal, normal, normal, need_weights=False)
        x = x + attended
        return x + self.perceptron(self.perceptron_norm(x))


class VisionTransformer(nn.Module):
    """Cuts an image into patches, puts a class token in front of them, and classifies by what becomes of that token."""

    def __init__(
        self,
        *,
        image: int = 32,
        patch: int = 8,
        width: int = 64,
        heads: int = 4,
        depth: int = 6,
        classes: int = 10,
    ) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.class_token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embed(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(images.shape[0], -1, -1), patches), dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])
