"""torchao: quantized linear layers, whose weights are tensor subclasses with `__torch_dispatch__`."""

from __future__ import annotations

import torch
from torch import nn
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_
from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

from tests.integrations.scenario import Run, scenario


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).eval()


def run_quantized(run: Run, config: object) -> None:
    original = model()
    quantize_(original, config)
    compiled = torch.compile(original, backend=run.backend)
    with torch.no_grad():
        for size in (4, 4, 6):
            run.call(lambda size=size: compiled(torch.ones(size, 32)))


@scenario("int8 weights")
def weights(run: Run) -> None:
    run_quantized(run, Int8WeightOnlyConfig())


@scenario("int8 weights and activations", backend="eager")
def activations(run: Run) -> None:
    run_quantized(run, Int8DynamicActivationInt8WeightConfig())


@scenario("training that is aware of quantization", backend="eager")
def aware(run: Run) -> None:
    original = model().train()
    quantize_(original, QATConfig(weight_config=IntxFakeQuantizeConfig(torch.int8, "per_channel"), step="prepare"))
    compiled = torch.compile(original, backend=run.backend)
    optimizer = torch.optim.SGD(original.parameters(), lr=0.1)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = compiled(torch.ones(4, 32)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        run.call(step)
