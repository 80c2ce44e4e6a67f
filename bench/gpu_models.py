"""Models for `python -m bench.gpu` that need nothing but torch: shaped as ResNet-50 and BERT."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.shortcut = None
        if stride != 1 or inputs != 4 * width:
            conv = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)
            self.shortcut = nn.Sequential(conv, nn.BatchNorm2d(4 * width))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        blocks, inputs = [], 64
        for stage, (count, width) in enumerate(((3, 64), (4, 128), (6, 256), (3, 512))):
            for number in range(count):
                blocks.append(Bottleneck(inputs, width, 2 if stage and number == 0 else 1))
                inputs = 4 * width
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(inputs, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn(self.conv(x))), 3, 2, 1)
        return self.head(self.blocks(x).mean((2, 3)))


class BertLayer(nn.Module):
    def __init__(self, width: int = 768, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            each(x).view(batch, length, self.heads, -1).transpose(1, 2) for each in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm1(x + self.out(mixed.transpose(1, 2).reshape(batch, length, width)))
        return self.norm2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, layers: int = 12, width: int = 768, vocabulary: int = 30522) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(BertLayer(width) for _ in range(layers))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: Tensor, attention: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device)))
        mask = attention[:, None, None, :].to(torch.bool)
        for layer in self.layers:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))
