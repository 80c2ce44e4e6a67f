"""accelerate: `prepare` with a plugin for torch.compile, regions, saving and unwrapping."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import TorchDynamoPlugin, compile_regions, extract_model_from_parallel, has_compiled_regions
from torch import nn

from tests.integrations.scenario import Run, scenario


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(16), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.gelu(self.linear(self.norm(x)))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Layer() for _ in range(3)])
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def plain(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.replace("_orig_mod.", ""): value for name, value in state.items()}


def train(run: Run, plugin: TorchDynamoPlugin, precision: str = "no") -> None:
    accelerator = Accelerator(cpu=True, dynamo_plugin=plugin, mixed_precision=precision, gradient_accumulation_steps=2)
    model = Model()
    data = torch.utils.data.TensorDataset(torch.randn(16, 16), torch.randn(16, 4))
    loader = torch.utils.data.DataLoader(data, batch_size=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    def epoch() -> torch.Tensor:
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = torch.nn.functional.mse_loss(model(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        return loss

    for _ in range(3):
        run.call(epoch)
    model.eval()
    run.call(lambda: model(torch.ones(4, 16)))
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        before = plain(model.state_dict())
        model.train()
        run.call(epoch)
        accelerator.load_state(folder)
        run.keep({name: value - before[name] for name, value in plain(model.state_dict()).items()})
        accelerator.save_model(model, folder)
        run.keep(sorted(path.name for path in Path(folder).iterdir()))
    run.keep(accelerator.unwrap_model(model, keep_torch_compile=False).state_dict())
    run.keep(isinstance(extract_model_from_parallel(model, keep_torch_compile=False), Model))


@scenario("prepare with a plugin")
def prepare(run: Run) -> None:
    train(run, TorchDynamoPlugin(backend=run.backend, fullgraph=True))


@scenario("prepare with a plugin, bf16")
def prepare_bf16(run: Run) -> None:
    train(run, TorchDynamoPlugin(backend=run.backend), precision="bf16")


@scenario("prepare with a plugin, regions")
def prepare_regions(run: Run) -> None:
    train(run, TorchDynamoPlugin(backend=run.backend, use_regional_compilation=True))


@scenario("compile_regions", backend="eager")
def regions(run: Run) -> None:
    model = compile_regions(Model(), backend=run.backend)
    run.keep(has_compiled_regions(model))
    for size in (4, 4, 5, 6):
        run.call(lambda size=size: model(torch.ones(size, 16)))
