"""PEFT: adapters that are added, merged, switched and disabled on a compiled model."""

from __future__ import annotations

import torch
from peft import LoraConfig, PeftModel, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from peft.helpers import rescale_adapter_scale
from torch import nn

from tests.integrations.scenario import Run, scenario


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.first, self.second, self.head = nn.Linear(16, 32), nn.Linear(32, 16), nn.Linear(16, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        return self.head(self.second(torch.relu(self.first(x))) + x)


def lora(**options: object) -> LoraConfig:
    return LoraConfig(**{"target_modules": ["first", "second"], "r": 4, "init_lora_weights": False, **options})


TOKENS = torch.arange(12).view(2, 6)


def adapted(**options: object) -> PeftModel:
    return get_peft_model(Model(), lora(**options)).eval()


@scenario("LoRA trains")
def trains(run: Run) -> None:
    original = get_peft_model(Model(), lora(lora_dropout=0.0))
    model = torch.compile(original, backend=run.backend)
    optimizer = torch.optim.SGD([p for p in original.parameters() if p.requires_grad], lr=0.1)

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(TOKENS).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        run.call(step)
    run.keep(get_peft_model_state_dict(original))


@scenario("merge_adapter and unmerge_adapter")
def merges(run: Run) -> None:
    original = adapted()
    model = torch.compile(original, backend=run.backend)
    call = lambda: model(TOKENS)  # noqa: E731
    run.call(call)
    original.merge_adapter()
    run.call(call)
    original.unmerge_adapter()
    run.call(call)
    original.merge_adapter()
    run.call(call)
    run.call(lambda: original.merge_and_unload()(TOKENS))


@scenario("adapters are added and switched")
def switches(run: Run) -> None:
    original = adapted()
    model = torch.compile(original, backend=run.backend)
    call = lambda: model(TOKENS)  # noqa: E731
    run.call(call)
    original.add_adapter("other", lora(r=2))
    run.call(call)
    original.set_adapter("other")
    run.call(call)
    original.set_adapter("default")
    run.call(call)
    original.delete_adapter("other")
    run.call(call)


@scenario("adapters are disabled by a context")
def disables(run: Run) -> None:
    original = adapted()
    model = torch.compile(original, backend=run.backend)
    for _ in range(2):
        run.call(lambda: model(TOKENS))
        with original.disable_adapter():
            run.call(lambda: model(TOKENS))


@scenario("several adapters at once, weighted, rescaled", backend="eager")
def several(run: Run) -> None:
    original = adapted()
    original.add_adapter("other", lora())
    original.add_weighted_adapter(["default", "other"], [0.3, 0.7], "both", combination_type="linear")
    model = torch.compile(original, backend=run.backend)
    for name in ("default", "other", "both", "default"):
        original.set_adapter(name)
        run.call(lambda: model(TOKENS))
    with rescale_adapter_scale(original, 0.5):
        run.call(lambda: model(TOKENS))
    run.call(lambda: model(TOKENS))


@scenario("a batch with an adapter for each row", backend="eager")
def mixed(run: Run) -> None:
    original = adapted()
    original.add_adapter("other", lora())
    model = torch.compile(original, backend=run.backend)
    for names in (["default", "other"], ["default", "other"], ["other", "__base__"]):
        run.call(lambda names=names: model(TOKENS, adapter_names=names))


@scenario("DoRA and dropout", backend="eager")
def dora(run: Run) -> None:
    original = get_peft_model(Model(), lora(use_dora=True, lora_dropout=0.1)).train()
    model = torch.compile(original, backend=run.backend)
    for _ in range(3):
        run.call(lambda: model(TOKENS))


@scenario("weights of an adapter are loaded")
def loads(run: Run) -> None:
    original = adapted()
    model = torch.compile(original, backend=run.backend)
    run.call(lambda: model(TOKENS))
    state = {name: value * 2 for name, value in get_peft_model_state_dict(original).items()}
    set_peft_model_state_dict(original, state)
    run.call(lambda: model(TOKENS))


@scenario("LoRA, merged", backend="inductor")
def merges_inductor(run: Run) -> None:
    original = adapted()
    model = torch.compile(original, backend=run.backend)
    run.call(lambda: model(TOKENS))
    original.merge_adapter()
    run.call(lambda: model(TOKENS))
