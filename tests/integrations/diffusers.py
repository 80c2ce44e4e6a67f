"""diffusers: models, a pipeline of small random parts, repeated blocks, adapters."""

from __future__ import annotations

from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DDIMPipeline,
    DDIMScheduler,
    DiTTransformer2DModel,
    EulerDiscreteScheduler,
    FluxTransformer2DModel,
    UNet2DConditionModel,
    UNet2DModel,
)

from tests.integrations.scenario import Run, scenario


def unet() -> UNet2DModel:
    return UNet2DModel(
        sample_size=8,
        in_channels=3,
        out_channels=3,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    ).eval()


def conditioned() -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=8,
        in_channels=4,
        out_channels=4,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        attention_head_dim=4,
        cross_attention_dim=16,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    ).eval()


def flux() -> FluxTransformer2DModel:
    return FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=2,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=(4, 4, 8),
    ).eval()


def flux_inputs(side: int = 4) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(0)
    return {
        "hidden_states": torch.randn(1, side * side, 4, generator=generator),
        "encoder_hidden_states": torch.randn(1, 6, 32, generator=generator),
        "pooled_projections": torch.randn(1, 32, generator=generator),
        "timestep": torch.tensor([0.5]),
        "img_ids": torch.randn(side * side, 3, generator=generator),
        "txt_ids": torch.randn(6, 3, generator=generator),
    }


@scenario("a pipeline with a compiled UNet")
def pipeline(run: Run) -> None:
    made = DDIMPipeline(unet(), DDIMScheduler(num_train_timesteps=10))
    made.set_progress_bar_config(disable=True)
    made.unet = torch.compile(made.unet, backend=run.backend)
    for seed in (0, 1, 1):
        generator = torch.Generator().manual_seed(seed)
        run.call(lambda g=generator: torch.tensor(made(generator=g, num_inference_steps=4, output_type="np").images))


@scenario("a denoising loop with a conditioned UNet, guidance and an autoencoder", backend="eager")
def denoising(run: Run) -> None:
    model = torch.compile(conditioned(), backend=run.backend, fullgraph=True)
    autoencoder = AutoencoderKL(
        block_out_channels=(8, 16),
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    ).eval()
    autoencoder.decode = torch.compile(autoencoder.decode, backend=run.backend)
    scheduler = EulerDiscreteScheduler()

    @torch.no_grad()
    def sample(seed: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        scheduler.set_timesteps(4)
        latents = torch.randn(1, 4, 8, 8, generator=generator) * scheduler.init_noise_sigma
        text = torch.randn(2, 5, 16, generator=generator)
        for t in scheduler.timesteps:
            doubled = scheduler.scale_model_input(torch.cat([latents] * 2), t)
            free, told = model(doubled, t, encoder_hidden_states=text, return_dict=False)[0].chunk(2)
            latents = scheduler.step(free + 5.0 * (told - free), t, latents, return_dict=False)[0]
        return autoencoder.decode(latents, return_dict=False)[0]

    for seed in (0, 1, 2):
        run.call(lambda seed=seed: sample(seed))


@scenario("Flux: compile_repeated_blocks")
def repeated_blocks(run: Run) -> None:
    model = flux()
    model.compile_repeated_blocks(backend=run.backend, fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            run.call(lambda: model(**flux_inputs(), return_dict=False)[0])


@scenario("Flux: other sizes", backend="eager")
def sizes(run: Run) -> None:
    model = torch.compile(flux(), backend=run.backend)
    with torch.no_grad():
        for side in (4, 4, 5, 6, 7):
            run.call(lambda side=side: model(**flux_inputs(side), return_dict=False)[0])


@scenario("DiT trains")
def dit(run: Run) -> None:
    original = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        num_layers=2,
        sample_size=8,
        patch_size=2,
        norm_num_groups=4,
        num_embeds_ada_norm=10,
    )
    original.compile(backend=run.backend)
    optimizer = torch.optim.AdamW(original.parameters())

    def step() -> torch.Tensor:
        noise = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
        steps, labels = torch.tensor([1, 5]), torch.tensor([2, 3])
        torch.manual_seed(0)
        loss = original(noise, timestep=steps, class_labels=labels, return_dict=False)[0].square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    for _ in range(3):
        run.call(step)


@scenario("attention processors are set, and slices enabled, on a compiled UNet", backend="eager")
def processors(run: Run) -> None:
    original = conditioned()
    model = torch.compile(original, backend=run.backend)
    generator = torch.Generator().manual_seed(0)
    latents, text = torch.randn(2, 4, 8, 8, generator=generator), torch.randn(2, 5, 16, generator=generator)

    @torch.no_grad()
    def call() -> torch.Tensor:
        return model(latents, 3, encoder_hidden_states=text).sample

    run.call(call)
    original.set_default_attn_processor()
    run.call(call)
    original.set_attention_slice("auto")
    run.call(call)
    original.fuse_qkv_projections()
    run.call(call)
    original.unfuse_qkv_projections()
    run.call(call)
