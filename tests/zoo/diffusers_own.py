"""Models of diffusers whose sizes depend on each other in a way of their own: all arguments of the constructor, and the inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

WIDTH = 32  # of everything that is added to or attends to something else
TOKENS = 8
SIDE = 8
FRAMES = 4

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Own:
    arguments: dict[str, Any]
    inputs: Callable[[], Inputs]


def _image(channels: int = 4, **more: Any) -> Inputs:
    return {"sample": torch.randn(2, channels, SIDE, SIDE), "timestep": torch.tensor([3, 5]), **more}


def _video(channels: int = 4, **more: Any) -> Inputs:
    return {"sample": torch.randn(2, channels, FRAMES, SIDE, SIDE), "timestep": torch.tensor([3, 5]), **more}


def _text(width: int = WIDTH) -> torch.Tensor:
    return torch.randn(2, TOKENS, width)


def _ones(*shape: int) -> torch.Tensor:
    return torch.ones(*(shape or (2, TOKENS)), dtype=torch.bool)


def _latents(*shape: int, **more: Any) -> Inputs:
    return {"hidden_states": torch.randn(2, *shape), "timestep": torch.tensor([3, 5]), "return_dict": False} | more


_HEADS = {"num_attention_heads": 2, "attention_head_dim": 16, "num_layers": 2}
_TWO = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
_CROSS = {**_TWO, "sample_size": SIDE, "cross_attention_dim": WIDTH}

OWN: dict[str, Own] = {
    # --- UNets
    "UNet1DModel": Own(
        {"sample_size": 64, "in_channels": 2, "out_channels": 2, "extra_in_channels": 64},
        lambda: {"sample": torch.randn(2, 2, 64), "timestep": torch.tensor([3, 5])},
    ),
    "UNet2DModel": Own(
        {
            **_TWO,
            "sample_size": 16,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        },
        lambda: _image(3),
    ),
    "UNet2DConditionModel": Own(
        {
            **_CROSS,
            "attention_head_dim": 8,
            "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
            "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        },
        lambda: _image(encoder_hidden_states=_text()),
    ),
    "UNet3DConditionModel": Own(
        {
            **_CROSS,
            "attention_head_dim": 8,
            "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
            "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
        },
        lambda: _video(encoder_hidden_states=_text()),
    ),
    "UNetMotionModel": Own(
        {
            **_CROSS,
            "num_attention_heads": 2,
            "motion_num_attention_heads": 2,
            "down_block_types": ("CrossAttnDownBlockMotion", "DownBlockMotion"),
            "up_block_types": ("UpBlockMotion", "CrossAttnUpBlockMotion"),
        },
        lambda: _video(encoder_hidden_states=_text()),
    ),
    "UNetSpatioTemporalConditionModel": Own(
        {
            "sample_size": SIDE,
            "block_out_channels": (32, 64),
            "layers_per_block": 1,
            "cross_attention_dim": WIDTH,
            "num_attention_heads": 2,
            "addition_time_embed_dim": 8,
            "projection_class_embeddings_input_dim": 24,
            "down_block_types": ("CrossAttnDownBlockSpatioTemporal", "DownBlockSpatioTemporal"),
            "up_block_types": ("UpBlockSpatioTemporal", "CrossAttnUpBlockSpatioTemporal"),
        },
        lambda: {
            "sample": torch.randn(2, FRAMES, 8, SIDE, SIDE),
            "timestep": torch.tensor([3.0, 5.0]),
            "encoder_hidden_states": torch.randn(2, 1, WIDTH),
            "added_time_ids": torch.tensor([[6.0, 127.0, 0.02]] * 2),
        },
    ),
    "I2VGenXLUNet": Own(
        {
            **_CROSS,
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "down_block_types": ("CrossAttnDownBlock3D", "DownBlock3D"),
            "up_block_types": ("UpBlock3D", "CrossAttnUpBlock3D"),
        },
        lambda: _video(
            fps=torch.tensor([8, 8]),
            image_latents=torch.randn(2, 4, FRAMES, SIDE, SIDE),
            image_embeddings=torch.randn(2, WIDTH),
            encoder_hidden_states=_text(),
        ),
    ),
    "UVit2DModel": Own(
        {
            "hidden_size": 32,
            "cond_embed_dim": 32,
            "micro_cond_encode_dim": 2,
            "micro_cond_embed_dim": 10,
            "encoder_hidden_size": 32,
            "vocab_size": 32,
            "codebook_size": 32,
            "in_channels": 32,
            "block_out_channels": 32,
            "num_res_blocks": 1,
            "block_num_heads": 4,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "intermediate_size": 64,
            "sample_size": 4,
        },
        lambda: {
            "input_ids": torch.randint(0, 32, (2, 4, 4)),
            "encoder_hidden_states": _text(),
            "pooled_text_emb": torch.randn(2, 32),
            "micro_conds": torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]] * 2),
        },
    ),
    "Kandinsky3UNet": Own(
        {
            "time_embedding_dim": 32,
            "groups": 8,
            "attention_head_dim": 8,
            "layers_per_block": 3,
            "block_out_channels": (32, 64),
            "cross_attention_dim": WIDTH,
            "encoder_hid_dim": WIDTH,
        },
        lambda: _image(encoder_hidden_states=_text(), encoder_attention_mask=_ones()),
    ),
    "StableCascadeUNet": Own(
        {
            "in_channels": 4,
            "out_channels": 4,
            "conditioning_dim": 32,
            "block_out_channels": (32, 64),
            "num_attention_heads": (2, 2),
            "down_num_layers_per_block": (1, 1),
            "up_num_layers_per_block": (1, 1),
            "clip_text_pooled_in_channels": 32,
        },
        lambda: {
            "sample": torch.randn(2, 4, SIDE, SIDE),
            "timestep_ratio": torch.tensor([0.5, 0.25]),
            "clip_text_pooled": torch.randn(2, 1, 32),
        },
    ),
    # --- transformers for images
    "PriorTransformer": Own(
        {**_HEADS, "embedding_dim": WIDTH, "num_embeddings": 7, "additional_embeddings": 4},
        lambda: _latents(WIDTH, proj_embedding=torch.randn(2, WIDTH), encoder_hidden_states=torch.randn(2, 7, WIDTH)),
    ),
    "Transformer2DModel": Own(
        {**_HEADS, "in_channels": 32, "norm_num_groups": 8, "cross_attention_dim": WIDTH},
        lambda: {"hidden_states": torch.randn(2, 32, SIDE, SIDE), "encoder_hidden_states": _text()},
    ),
    "DreamLiteTransformer2DModel": Own(
        {**_HEADS, "in_channels": 32, "norm_num_groups": 8, "cross_attention_dim": WIDTH},
        lambda: {"hidden_states": torch.randn(2, 32, SIDE, SIDE), "encoder_hidden_states": _text()},
    ),
    "TransformerTemporalModel": Own(
        {**_HEADS, "in_channels": 32, "norm_num_groups": 8},
        lambda: {"hidden_states": torch.randn(2 * FRAMES, 32, SIDE, SIDE), "num_frames": FRAMES},
    ),
    "HunyuanDiT2DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "patch_size": 2,
            "sample_size": SIDE,
            "hidden_size": 32,
            "cross_attention_dim": WIDTH,
            "cross_attention_dim_t5": WIDTH,
            "pooled_projection_dim": WIDTH,
            "text_len": TOKENS,
            "text_len_t5": TOKENS,
            "use_style_cond_and_image_meta_size": False,
        },
        lambda: _latents(
            4,
            SIDE,
            SIDE,
            encoder_hidden_states=_text(),
            text_embedding_mask=_ones(),
            encoder_hidden_states_t5=_text(),
            text_embedding_mask_t5=_ones(),
            timestep=torch.tensor([3.0, 5.0]),
            image_rotary_emb=(torch.randn(16, 16), torch.randn(16, 16)),
        ),
    ),
    "ChromaTransformer2DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "num_single_layers": 1,
            "joint_attention_dim": WIDTH,
            "axes_dims_rope": (4, 4, 8),
            "approximator_num_channels": 8,
            "approximator_hidden_dim": 16,
            "approximator_layers": 1,
        },
        lambda: _latents(
            16,
            4,
            encoder_hidden_states=_text(),
            img_ids=torch.zeros(16, 3),
            txt_ids=torch.zeros(TOKENS, 3),
            attention_mask=_ones(2, TOKENS + 16),
        ),
    ),
    "BriaFiboTransformer2DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "num_single_layers": 1,
            "joint_attention_dim": WIDTH,
            "text_encoder_dim": WIDTH // 2,
            "axes_dims_rope": [4, 4, 8],
        },
        lambda: _latents(
            16,
            4,
            encoder_hidden_states=_text(),
            text_encoder_layers=[_text(WIDTH // 2) for _ in range(3)],
            img_ids=torch.zeros(16, 3),
            txt_ids=torch.zeros(TOKENS, 3),
        ),
    ),
    "Lumina2Transformer2DModel": Own(
        {
            "sample_size": SIDE,
            "in_channels": 4,
            "hidden_size": 24,
            "num_layers": 2,
            "num_refiner_layers": 1,
            "num_attention_heads": 3,
            "num_kv_heads": 1,
            "multiple_of": 2,
            "axes_dim_rope": (4, 2, 2),
            "axes_lens": (32, 32, 32),
            "cap_feat_dim": WIDTH,
        },
        lambda: _latents(4, SIDE, SIDE, encoder_hidden_states=_text(), encoder_attention_mask=_ones()),
    ),
    "LuminaNextDiT2DModel": Own(
        {
            "sample_size": SIDE,
            "hidden_size": 24,
            "num_layers": 2,
            "num_attention_heads": 3,
            "num_kv_heads": 1,
            "multiple_of": 16,
            "cross_attention_dim": WIDTH,
        },
        lambda: _latents(
            4,
            SIDE,
            SIDE,
            encoder_hidden_states=_text(),
            encoder_mask=_ones(),
            image_rotary_emb=torch.randn(384, 384, 4),
            cross_attention_kwargs={},
        ),
    ),
    "GlmImageTransformer2DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "text_embed_dim": WIDTH,
            "time_embed_dim": 16,
            "condition_dim": 8,
            "prior_vq_quantizer_codebook_size": 64,
        },
        lambda: _latents(
            4,
            SIDE,
            SIDE,
            encoder_hidden_states=_text(),
            prior_token_id=torch.randint(0, 64, (2, 16)),
            prior_token_drop=torch.tensor([False, False]),
            target_size=torch.tensor([[8.0, 8.0]] * 2),
            crop_coords=torch.zeros(2, 2),
        ),
    ),
    "PRXTransformer2DModel": Own(
        {"in_channels": 4, "context_in_dim": WIDTH, "hidden_size": 16, "num_heads": 2, "depth": 2, "axes_dim": [4, 4]},
        lambda: _latents(4, SIDE, SIDE, encoder_hidden_states=_text()),
    ),
    "HunyuanImageTransformer2DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "num_single_layers": 1,
            "num_refiner_layers": 1,
            "text_embed_dim": WIDTH,
            "rope_axes_dim": (8, 8),
        },
        lambda: _latents(
            4,
            SIDE,
            SIDE,
            timestep=torch.tensor([3.0, 5.0]),
            encoder_hidden_states=_text(),
            encoder_attention_mask=_ones(),
        ),
    ),
    "HiDreamImageTransformer2DModel": Own(
        {
            "patch_size": 2,
            "in_channels": 4,
            "out_channels": 4,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 8,
            "num_attention_heads": 4,
            "caption_channels": [32, 16],
            "text_emb_dim": 64,
            "axes_dims_rope": (4, 2, 2),
            "max_resolution": (32, 32),
            "llama_layers": (0, 1),
            "force_inference_output": True,
        },
        lambda: {
            "hidden_states": torch.randn(2, 4, 32, 32),
            "timesteps": torch.tensor([3, 5]),
            "encoder_hidden_states_t5": torch.randn(2, TOKENS, 32),
            "encoder_hidden_states_llama3": torch.randn(2, 2, TOKENS, 16),
            "pooled_embeds": torch.randn(2, 64),
        },
    ),
    # --- transformers for video and sound
    "LatteTransformer3DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 8,
            "sample_size": SIDE,
            "patch_size": 2,
            "cross_attention_dim": WIDTH,
            "num_embeds_ada_norm": 1000,
            "norm_type": "ada_norm_single",
            "norm_elementwise_affine": False,
            "caption_channels": WIDTH,
            "video_length": 1,
            "attention_bias": True,
        },
        lambda: _latents(4, 1, SIDE, SIDE, encoder_hidden_states=_text(), enable_temporal_attentions=True),
    ),
    "CogVideoXTransformer3DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "time_embed_dim": 8,
            "text_embed_dim": WIDTH,
            "sample_width": SIDE,
            "sample_height": SIDE,
            "sample_frames": 8,
            "max_text_seq_length": TOKENS,
        },
        lambda: _latents(2, 4, SIDE, SIDE, encoder_hidden_states=_text()),
    ),
    "ConsisIDTransformer3DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "time_embed_dim": 2,
            "text_embed_dim": WIDTH,
            "sample_width": SIDE,
            "sample_height": SIDE,
            "sample_frames": 8,
            "max_text_seq_length": TOKENS,
            "is_train_face": False,
        },
        lambda: _latents(2, 4, SIDE, SIDE, encoder_hidden_states=_text()),
    ),
    "LTXVideoTransformer3DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "cross_attention_dim": 32,
            "caption_channels": WIDTH,
        },
        lambda: _latents(
            2 * 4 * 4, 4, encoder_hidden_states=_text(), encoder_attention_mask=_ones(), num_frames=2, height=4, width=4
        ),
    ),
    "HunyuanVideoTransformer3DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "num_single_layers": 1,
            "num_refiner_layers": 1,
            "text_embed_dim": WIDTH,
            "pooled_projection_dim": 8,
            "rope_axes_dim": (4, 4, 8),
        },
        lambda: _latents(
            4,
            1,
            SIDE,
            SIDE,
            encoder_hidden_states=_text(),
            encoder_attention_mask=_ones(),
            pooled_projections=torch.randn(2, 8),
            guidance=torch.tensor([100, 200], dtype=torch.int32),
        ),
    ),
    "CosmosTransformer3DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "text_embed_dim": WIDTH,
            "adaln_lora_dim": 4,
            "max_size": (4, 32, 32),
            "rope_scale": (2.0, 1.0, 1.0),
            "concat_padding_mask": False,
        },
        lambda: _latents(4, 1, SIDE, SIDE, encoder_hidden_states=_text(), attention_mask=_ones(), fps=30),
    ),
    "WanVACETransformer3DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": WIDTH,
            "freq_dim": 64,
            "ffn_dim": 64,
            "rope_max_seq_len": 32,
            "vace_layers": [0],
            "vace_in_channels": 6,
        },
        lambda: _latents(
            4, 2, SIDE, SIDE, encoder_hidden_states=_text(), control_hidden_states=torch.randn(2, 6, 2, SIDE, SIDE)
        ),
    ),
    "AnyFlowTransformer3DModel": Own(
        {
            **_HEADS,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": WIDTH,
            "freq_dim": 64,
            "ffn_dim": 64,
            "rope_max_seq_len": 32,
        },
        lambda: {
            "hidden_states": torch.randn(2, FRAMES, 4, SIDE, SIDE),
            "timestep": torch.rand(2, FRAMES),
            "r_timestep": torch.rand(2, FRAMES),
            "encoder_hidden_states": _text(),
            "return_dict": False,
        },
    ),
    "Kandinsky5Transformer3DModel": Own(
        {
            "in_visual_dim": 4,
            "in_text_dim": WIDTH,
            "in_text_dim2": WIDTH,
            "time_dim": 16,
            "out_visual_dim": 4,
            "model_dim": 32,
            "ff_dim": 64,
            "num_text_blocks": 1,
            "num_visual_blocks": 2,
            "axes_dims": (4, 6, 6),
        },
        lambda: {
            "hidden_states": torch.randn(1, 2, SIDE, SIDE, 4),
            "encoder_hidden_states": torch.randn(1, TOKENS, WIDTH),
            "timestep": torch.tensor([3.0]),
            "pooled_projections": torch.randn(1, WIDTH),
            "visual_rope_pos": [torch.arange(2), torch.arange(4), torch.arange(4)],
            "text_rope_pos": torch.arange(TOKENS),
            "return_dict": False,
        },
    ),
    "StableAudioDiTModel": Own(
        {
            **_HEADS,
            "sample_size": 4,
            "in_channels": 4,
            "out_channels": 4,
            "num_key_value_attention_heads": 2,
            "cross_attention_dim": WIDTH,
            "time_proj_dim": 16,
            "global_states_input_dim": 8,
            "cross_attention_input_dim": WIDTH,
        },
        lambda: {
            "hidden_states": torch.randn(2, 4, TOKENS),
            "timestep": torch.tensor([0.5, 0.25]),
            "encoder_hidden_states": _text(),
            "global_hidden_states": torch.randn(2, 1, 8),
            "rotary_embedding": (torch.randn(TOKENS + 1, 8), torch.randn(TOKENS + 1, 8)),
            "return_dict": False,
        },
    ),
    "T5FilmDecoder": Own(
        {
            "input_dims": 16,
            "targets_length": TOKENS,
            "d_model": 32,
            "num_layers": 2,
            "num_heads": 2,
            "d_kv": 16,
            "d_ff": 64,
        },
        lambda: {
            "encodings_and_masks": [(torch.randn(2, TOKENS, 32), torch.ones(2, TOKENS))],
            "decoder_input_tokens": torch.randn(2, TOKENS, 16),
            "decoder_noise_time": torch.tensor([0.5, 0.25]),
        },
    ),
}
