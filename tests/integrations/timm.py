"""timm: models of several families, in eval and in training."""

from __future__ import annotations

from typing import Any

import torch

import tests.support.torchvision_stand_in  # noqa: F401 - before timm
from tests.integrations.scenario import Run, scenario

import timm  # isort: skip

MODELS = (
    ("resnet10t", {}),
    ("convnext_atto", {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}),
    ("vit_tiny_patch16_224", {"img_size": 64, "depth": 2, "embed_dim": 48}),
    ("swin_tiny_patch4_window7_224", {"img_size": 56, "depths": (1, 2), "num_heads": (2, 4), "embed_dim": 16}),
    ("mobilenetv3_small_050", {}),
    ("mixer_s32_224", {"img_size": 64}),
    ("efficientnet_b0", {}),
    ("regnetx_002", {}),
)


def register(name: str, options: dict[str, Any]) -> None:
    def program(run: Run) -> None:
        original = timm.create_model(name, num_classes=5, **options)
        model = torch.compile(original, backend=run.backend)
        side = options.get("img_size", 64)
        images = torch.randn(2, 3, side, side)

        def step() -> list[torch.Tensor]:
            original.zero_grad()
            torch.manual_seed(0)
            loss = model(images).square().mean()
            loss.backward()
            return [loss, *(p.grad for p in original.parameters() if p.grad is not None)]

        run.call(step)
        run.call(step)
        model.eval()
        with torch.no_grad():
            run.call(lambda: model(images))
            run.call(lambda: original.forward_features(images))

    scenario(f"{name} in training and eval", backend="eager")(program)


for _model, _options in MODELS:
    register(_model, _options)


@scenario("vit_tiny_patch16_224, features only, with dropped paths")
def features(run: Run) -> None:
    original = timm.create_model(
        "vit_tiny_patch16_224",
        img_size=64,
        depth=2,
        embed_dim=48,
        features_only=True,
        out_indices=2,
        drop_path_rate=0.2,
    )
    model = torch.compile(original, backend=run.backend)
    for _ in range(3):
        torch.manual_seed(0)
        run.call(lambda: model(torch.ones(4, 3, 64, 64)))
