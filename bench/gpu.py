"""`python -m bench.gpu`: models on a GPU with the backend `stator`, which records CUDA graphs, against uncompiled.

With `--inductor`, the step of the decoder with inductor and `mode="reduce-overhead"`, captured by both systems.

The decoder's caches are written in place by every step and marked with `torch._dynamo.mark_static_address`, as
transformers marks its static caches: CUDA graphs may use them where they are.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import stator
from bench.gpu_models import Bert, ResNet50
from bench.systems import both
from bench.tables import aligned, seconds
from stator.backends import prepared_calls


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


@dataclass
class Row:
    """One model and how it is used. Times in seconds for a call, memory in bytes at the peak."""

    name: str
    uncompiled: float
    stator: float
    first: float  # the first call of the compiled program
    until_fast: (
        float  # from the beginning of the first call until the first that takes no longer than 1.3 times the best
    )
    memory_uncompiled: int
    memory: int
    is_equal: bool
    replays: int
    reasons: list[str]

    @property
    def cells(self) -> list[str]:
        return [
            self.name,
            seconds(self.uncompiled),
            seconds(self.stator),
            f"{self.uncompiled / self.stator:.2f}x",
            seconds(self.first),
            seconds(self.until_fast),
            f"{self.memory / self.memory_uncompiled:.2f}x",
            "yes" if self.is_equal else "NO",
            str(self.replays),
        ]


HEAD = ["GPU", "uncompiled", "stator", "ratio", "first call", "fast after", "memory", "equal", "replays"]


def per_call(action: Callable[[], object], count: int) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(count):
        action()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / count


def peak(action: Callable[[], object]) -> int:
    """The memory that PyTorch takes from the device while the action runs some times, from an empty cache."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(6):
        action()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_reserved()


def until_fast(call: Callable[[], object], limit: float = 2.0) -> tuple[float, float]:
    """Seconds of the first call, and until the calls are as fast as they get."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    ends: list[float] = []
    times: list[float] = []
    while (not ends or ends[-1] < limit) and len(ends) < 200:
        times.append(per_call(call, 1))
        ends.append(time.perf_counter() - start)
    best = min(times)
    return times[0], next(end for end, took in zip(ends, times, strict=True) if took <= 1.3 * best)


def results_of(value: Any) -> list[torch.Tensor]:
    return list(value) if isinstance(value, tuple) else [value]


def measured(name: str, model: nn.Module, inputs: tuple[Any, ...], steps: int) -> Row:
    """In inference: each call gets new inputs at other addresses."""
    runners: list[Any] = []

    def backend(module: Any, examples: Any) -> Any:
        runners.append(prepared_calls(module, examples))
        return runners[-1]

    stator.reset()
    compiled = stator.compile(model, backend=backend)
    given = [tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in inputs) for _ in range(4)]
    turn = itertools.cycle(given)
    with torch.no_grad():
        expected = results_of(model(*inputs))
        memory_uncompiled = peak(lambda: model(*next(turn)))
        first, fast = until_fast(lambda: compiled(*next(turn)))
        pairs = [
            (per_call(lambda: model(*next(turn)), steps), per_call(lambda: compiled(*next(turn)), steps))
            for _ in range(5)
        ]
        found = results_of(compiled(*inputs))
        parts = [part for runner in runners for part in runner.recorded]
        runners.clear()
        stator.reset()
        compiled = stator.compile(model, backend=backend)
        memory = peak(lambda: compiled(*next(turn)))
    is_equal = all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    return Row(
        name,
        min(pair[0] for pair in pairs),
        min(pair[1] for pair in pairs),
        first,
        fast,
        memory_uncompiled,
        memory,
        is_equal,
        sum(part["replays"] for part in parts),
        [f"{part['name']}: {part['reason']}" for part in parts if part["reason"]],
    )


def trained(name: str, model: nn.Module, inputs: tuple[Any, ...], steps: int) -> Row:
    stator.reset()
    compiled = stator.compile(model, backend="stator")

    def step(call: Callable[..., Any]) -> torch.Tensor:
        result = results_of(call(*inputs))[0]
        result.float().mean().backward()
        model.zero_grad()
        return result.detach()

    expected = step(model)
    memory_uncompiled = peak(lambda: step(model))
    first, fast = until_fast(lambda: step(compiled))
    pairs = [(per_call(lambda: step(model), steps), per_call(lambda: step(compiled), steps)) for _ in range(5)]
    memory = peak(lambda: step(compiled))
    is_equal = expected.shape == step(compiled).shape
    best = [min(pair[number] for pair in pairs) for number in range(2)]
    return Row(name, best[0], best[1], first, fast, memory_uncompiled, memory, is_equal, 0, [])


def decoder_row(options: argparse.Namespace) -> Row:
    """Each step has another position, and writes to the cache."""
    where: dict[str, Any] = {"device": "cuda", "dtype": torch.bfloat16}
    model = Decoder(options.layers, options.width, options.heads, options.length).to(**where).eval()
    cache = Cache(options.layers, options.heads, options.length, options.width, **where)
    token = torch.randint(0, 32000, (1, 1), device="cuda")
    return measured("decoder, batch 1", model, (token, cache, torch.tensor([3], device="cuda")), options.steps)


def rows(options: argparse.Namespace) -> Iterator[Row]:
    torch.manual_seed(0)
    yield decoder_row(options)
    for batch, (words, dtype) in itertools.product((1, 32), (("", torch.float32), (", bfloat16", torch.bfloat16))):
        where: dict[str, Any] = {"device": "cuda", "dtype": dtype}
        images = torch.randn(batch, 3, 224, 224, **where)
        yield measured(f"resnet50{words}, batch {batch}", ResNet50().to(**where).eval(), (images,), options.steps)
        tokens = torch.randint(0, 30522, (batch, 128), device="cuda")
        attention = torch.ones(batch, 128, dtype=torch.int64, device="cuda")
        yield measured(f"bert{words}, batch {batch}", Bert().to(**where).eval(), (tokens, attention), options.steps)
    yield trained(
        "resnet50, training, batch 8",
        ResNet50().cuda(),
        (torch.randn(8, 3, 224, 224, device="cuda"),),
        options.steps // 2,
    )
    tokens = torch.randint(0, 30522, (8, 128), device="cuda")
    attention = torch.ones(8, 128, dtype=torch.int64, device="cuda")
    yield trained("bert, training, batch 8", Bert().cuda(), (tokens, attention), options.steps // 2)


def executor(options: argparse.Namespace) -> None:
    lines, notes = [HEAD], []
    for row in rows(options):
        print(" | ".join(row.cells), flush=True)
        lines.append(row.cells)
        notes += [f"{row.name}: {reason}" for reason in dict.fromkeys(row.reasons)]
        gc.collect()
    print("\n" + aligned(lines))
    print("\n".join(notes))


@torch.no_grad()
def inductor(options: argparse.Namespace) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu")
    parser.add_argument("--layers", type=int, default=28)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--mode", default="reduce-overhead")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("There is no CUDA device on this machine.")
    (inductor if options.inductor else executor)(options)


if __name__ == "__main__":
    main()
