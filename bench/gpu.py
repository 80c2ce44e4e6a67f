"""`python -m bench.gpu`: a step of a decoder with a static cache on a GPU, with `mode="reduce-overhead"`.

The caches are written in place by every step and marked with `torch._dynamo.mark_static_address`, as transformers marks
its static caches: CUDA graphs may use them where they are.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bench.systems import both


class Layer(nn.Module):
    """Attention over a static cache, and a gated MLP, each after a norm."""

    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor, cache: Cache, number: int, position: torch.Tensor) -> torch.Tensor:
        batch, count, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, count, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        keys, values = cache.keys[number], cache.values[number]
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        mask = torch.arange(keys.shape[2], device=x.device) <= position[:, None]
        attended = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, count, width))
        hidden = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(hidden)) * self.up(hidden))


class Cache:
    def __init__(self, layers: int, heads: int, length: int, width: int, **options: Any) -> None:
        def make() -> torch.Tensor:
            tensor = torch.zeros(1, heads, length, width // heads, **options)
            torch._dynamo.mark_static_address(tensor)
            return tensor

        self.keys = [make() for _ in range(layers)]
        self.values = [make() for _ in range(layers)]


class Decoder(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, length: int, vocabulary: int = 32000) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads, length) for _ in range(layers))
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, token: torch.Tensor, cache: Cache, position: torch.Tensor) -> torch.Tensor:
        x = self.embedding(token)
        for number, layer in enumerate(self.layers):
            x = layer(x, cache, number, position)
        return self.head(x)


def step_time(step: Callable[..., Any], token: torch.Tensor, cache: Cache, steps: int) -> tuple[float, float]:
    """Seconds for the first call, and for a step after it, the best of five runs."""

    def run(first: int, count: int) -> float:
        torch.cuda.synchronize()
        start = time.perf_counter()
        for number in range(first, first + count):
            step(token, cache, torch.tensor([number % cache.keys[0].shape[2]], device=token.device))
        torch.cuda.synchronize()
        return time.perf_counter() - start

    first = run(0, 1)
    run(1, 4)  # recordings
    return first, min(run(5, steps) for _ in range(5)) / steps


@torch.no_grad()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--mode", default="reduce-overhead")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("There is no CUDA device on this machine.")
    torch.manual_seed(0)
    where: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    model = Decoder(options.layers, options.width, options.heads, options.length).to(**where).eval()
    token = torch.randint(0, 32000, (1, 1), device="cuda")

    def new_cache() -> Cache:
        return Cache(options.layers, options.heads, options.length, options.width, **where)

    expected = model(token, new_cache(), torch.tensor([0], device="cuda"))
    _, uncompiled = step_time(model, token, new_cache(), options.steps)
    print(f"{'':16}{'first call':>12}{'step':>12}")
    print(f"{'uncompiled':16}{'':12}{uncompiled * 1e3:>9.2f} ms")
    steps = {}
    for system in both():
        system.reset()
        compiled = system.compile(model, backend="inductor", mode=options.mode, fullgraph=True)
        first, steps[system.name] = step_time(compiled, token, new_cache(), options.steps)
        found = compiled(token, new_cache(), torch.tensor([0], device="cuda"))
        torch.testing.assert_close(found, expected, rtol=0.1, atol=0.1)
        print(f"{system.name:16}{first:>10.1f} s{steps[system.name] * 1e3:>9.2f} ms", flush=True)
    print(f"step of Stator over that of torch._dynamo: {steps['stator'] / steps['torch._dynamo']:.3f}")


if __name__ == "__main__":
    main()
