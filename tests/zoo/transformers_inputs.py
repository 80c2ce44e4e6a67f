"""The inputs that a model of transformers asks for by the names of its parameters, with sizes from its configuration."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

VOCABULARY = 64
TOKENS = 8
FRAMES = 64  # of sound
GRID = (1, 4, 4)  # patches of an image: frames, rows, columns

Made = dict[str, Callable[[], Any]]


@dataclass(frozen=True)
class Layout:
    """What signatures do not tell: which optional inputs are given, and the order of the dimensions of sound and of video."""

    everything: bool = False
    other_order: bool = False


LAYOUTS = tuple(Layout(everything, other_order) for other_order in (False, True) for everything in (False, True))

# What a model needs, though its signature has a default for it.
_NEEDED = (
    "decoder_input_ids",
    "input_features_mask",
    "grid_thw",
    "bbox",
    "actions",
    "rewards",
    "returns_to_go",
    "timesteps",
    "visual_feats",
    "visual_pos",
)


def inputs_of(model_class: Any, config: Any, layout: Layout) -> dict[str, Any]:
    """The model's main input and those that it needs, or all that the signature of `forward` names."""
    parameters = inspect.signature(model_class.forward).parameters
    made = {**_text(config), **_images(config, layout, parameters), **_sound(config, layout), **_series(config)}
    main = getattr(model_class, "main_input_name", "input_ids")
    mains = set(main) if isinstance(main, (list, tuple)) else {main}
    wanted = {name for name, one in parameters.items() if one.default is one.empty}
    wanted |= {*mains, *_NEEDED} | ({"input_ids"} if "pixel_values" in mains else set())
    if "input_ids" in parameters and "input_ids" in made:
        made.pop("inputs_embeds", None)  # one or the other
    return {name: make() for name, make in made.items() if name in parameters and (layout.everything or name in wanted)}


def _text(config: Any) -> Made:
    def ids() -> torch.Tensor:
        return torch.randint(3, VOCABULARY, (2, TOKENS))

    def ones() -> torch.Tensor:
        return torch.ones(2, TOKENS, dtype=torch.long)

    def embedded() -> torch.Tensor:
        return torch.randn(2, TOKENS, _number(config, "hidden_size", 32))

    return {
        **dict.fromkeys(("input_ids", "decoder_input_ids", "qformer_input_ids"), ids),
        **dict.fromkeys(("classes_input_ids", "tasks_input_ids", "task_inputs"), ids),
        **dict.fromkeys(("classes_attention_mask", "tasks_attention_mask"), ones),
        "inputs": lambda: torch.randn(2, TOKENS, _number(config, "d_model", 32)),
        "classes_structure": lambda: torch.tensor([1, 1]),
        "bbox": lambda: torch.tensor([1, 2, 5, 9]).repeat(2, TOKENS, 1),
        **dict.fromkeys(("query_embeds", "inputs_embeds", "noise_embeds", "context_hidden_states"), embedded),
    }


def _images(config: Any, layout: Layout, parameters: Any) -> Made:
    side = _number(config, "image_size", 32)
    own = getattr(config, "image_size", None)
    size = (int(own[0]), int(own[1])) if isinstance(own, (list, tuple)) and len(own) == 2 else (side, side)
    channels = _number(config, "num_channels", _number(config, "in_channels", 3))
    patch = _number(config, "patch_size", 8)
    frames = _number(config, "num_frames", _number(config, "frames_per_clip", 2))
    count = GRID[0] * GRID[1] * GRID[2]

    def patches() -> torch.Tensor:
        return torch.randn(count, channels * _number(config, "temporal_patch_size", 1) * patch * patch)

    def pixels() -> torch.Tensor:
        if "grid_thw" in parameters:
            return patches()
        if "spatial_shapes" in parameters or "pixel_position_ids" in parameters:
            return torch.randn(2, count, channels * patch * patch)
        return torch.randn(2, frames, channels, *size) if layout.other_order else torch.randn(2, channels, *size)

    return {
        **dict.fromkeys(("pixel_values", "prompt_pixel_values"), pixels),
        "prompt_masks": lambda: torch.rand(2, channels, side, side),
        "pixel_values_videos": lambda: torch.randn(2, frames, channels, side, side),
        "pixel_attention_mask": lambda: torch.ones(2, count, dtype=torch.long),
        "pixel_position_ids": lambda: torch.cartesian_prod(torch.arange(4), torch.arange(4)).repeat(2, 1, 1),
        "spatial_shapes": lambda: torch.tensor([GRID[1:]] * 2),
        **({"hidden_states": patches} if "grid_thw" in parameters else {}),
        "grid_thw": lambda: torch.tensor([GRID]),
        "visual_feats": lambda: torch.randn(2, 4, _number(config, "visual_feat_dim", 32)),
        "visual_pos": lambda: torch.rand(2, 4, 4),
        "merge_sizes": lambda: torch.tensor([2]),
    }


def _sound(config: Any, layout: Layout) -> Made:
    bins = _number(config, "num_mel_bins", 80)
    frames = 2 * _number(config, "max_source_positions", FRAMES // 2)

    def wave() -> torch.Tensor:
        """Sound as it is, or as a spectrogram."""
        if getattr(config, "num_mel_bins", None):
            return torch.randn(2, _number(config, "max_length", 128), bins)
        return torch.randn(2, 1, 6000) if layout.other_order else torch.randn(2, 6000)

    def features() -> torch.Tensor:
        """Frames of so many features, or the other way round."""
        if width := getattr(config, "feature_projection_input_dim", None):
            return torch.randn(2, 4 * TOKENS, width)
        return torch.randn(2, frames, bins) if layout.other_order else torch.randn(2, bins, frames)

    return {
        "input_values": wave,
        "input_features": features,
        "input_features_mask": lambda: torch.ones(2, frames, dtype=torch.long),
        "audio_mel": lambda: torch.randn(2, FRAMES, _number(config, "input_feat_size", 128)),
        "audio_mel_mask": lambda: torch.zeros(2, FRAMES, dtype=torch.bool),
        "latents": lambda: torch.randn(2, _number(config, "hidden_size", 32), TOKENS),
    }


def _series(config: Any) -> Made:
    """Of time, and of what an agent did."""
    lags = getattr(config, "lags_sequence", None)
    past = _number(config, "context_length", 32) + (max(lags) if lags else 0)
    future = _number(config, "prediction_length", 4)
    channels = getattr(config, "num_input_channels", None)
    shape = (2, past, channels) if channels else (2, past)
    times = _number(config, "num_time_features", 0)
    return {
        "past_values": lambda: torch.rand(shape),
        "past_observed_mask": lambda: torch.ones(shape),
        "past_time_features": lambda: torch.rand(2, past, times),
        "future_values": lambda: torch.rand(2, future),
        "future_time_features": lambda: torch.rand(2, future, times),
        "past_values_padding": lambda: torch.zeros(2, past, dtype=torch.long),
        "freq": lambda: torch.zeros(2, 1, dtype=torch.long),
        "states": lambda: torch.randn(2, TOKENS, _number(config, "state_dim", 17)),
        "actions": lambda: torch.randn(2, TOKENS, _number(config, "act_dim", 4)),
        "rewards": lambda: torch.randn(2, TOKENS, 1),
        "returns_to_go": lambda: torch.randn(2, TOKENS, 1),
        "timesteps": lambda: torch.arange(TOKENS).repeat(2, 1),
    }


def _number(config: Any, name: str, default: int) -> int:
    for one in (
        config,
        getattr(config, "vision_config", None),
        getattr(config, "audio_config", None),
        getattr(config, "encoder_config", None),
    ):
        value = getattr(one, name, None)
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, int):
            return value
    return default
