"""Counts floating-point operations for each module, in forward and in backward: `python examples/count_flops.py`.

A dispatch mode sees every operation that PyTorch runs, the tracker knows for which module, and PyTorch's table of
formulas tells what it costs. `torch.utils.flop_counter.FlopCounterMode` works with this tracker too: set its
`mod_tracker`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

import stator


class FlopCounter(TorchDispatchMode):
    """`forward[name]` and `backward[name]`: operations of a module and its submodules; "Global" for all."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker = stator.ModuleTracker()
        self.forward: Counter[str] = Counter()
        self.backward: Counter[str] = Counter()

    def __enter__(self) -> FlopCounter:
        self.tracker.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.tracker.__exit__(*error)

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        formula = flop_registry.get(operation._overloadpacket)
        if formula is not None:
            counted = self.backward if self.tracker.is_bw else self.forward
            flops = formula(*args, **(kwargs or {}), out_val=result)
            counted.update(dict.fromkeys(self.tracker.parents, flops))
        return result

    def __str__(self) -> str:
        lines = [f"{'module':24}{'forward':>12}{'backward':>12}  class"]
        for name in ("Global", *self.tracker.modules):
            if name in self.forward or name in self.backward:
                module = self.tracker.modules.get(name)
                kind = type(module).__name__ if module is not None else ""
                label = "  " * name.count(".") + name.rpartition(".")[2]
                lines.append(f"{label:24}{self.forward[name]:12,}{self.backward[name]:12,}  {kind}".rstrip())
        return "\n".join(lines)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        self.head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(x).mean(1))


def main() -> None:
    model = Model()
    with FlopCounter() as counter:
        model(torch.randn(8, 16, 64)).sum().backward()
    print(counter)


if __name__ == "__main__":
    main()
