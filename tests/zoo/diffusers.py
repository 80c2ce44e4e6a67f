"""The transformers and UNets of diffusers, made small: arguments and inputs by the names that their signatures have."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.zoo.diffusers_own import FRAMES, OWN, SIDE, TOKENS, WIDTH

DISTRIBUTION = "diffusers"

# Those that a constructor has are set, in the first ways to make a model; in the last one it keeps its own.
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("num_layers", "n_layers", "nlayers", "num_mmdit_layers", "num_hidden_layers", "depth", "mmdit_layers"), 2),
    **dict.fromkeys(("num_single_layers", "num_single_dit_layers", "n_refiner_layers", "num_refiner_layers"), 1),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_heads", "num_cross_attention_heads"), 2),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "n_kv_heads", "num_key_value_attention_heads"), 2),
    **dict.fromkeys(("attention_head_dim", "cross_attention_head_dim", "head_dim"), 16),
    **dict.fromkeys(("joint_attention_dim", "caption_projection_dim", "cross_attention_dim", "caption_channels"), WIDTH),
    **dict.fromkeys(("text_dim", "text_embed_dim", "text_in_dim", "text_encoder_dim", "context_in_dim", "cap_feat_dim"), WIDTH),
    **dict.fromkeys(("pooled_projection_dim", "time_embed_dim", "freq_dim", "hidden_size", "dim", "embed_dim"), WIDTH),
    **dict.fromkeys(("encoder_hidden_size", "cond_embed_dim", "condition_dim", "time_proj_dim"), WIDTH),
    **dict.fromkeys(("ffn_dim", "intermediate_size", "ffn_hidden_size", "ff_inner_dim"), 2 * WIDTH),
    **dict.fromkeys(("sample_size", "sample_height", "sample_width"), SIDE),
    **dict.fromkeys(("pos_embed_max_size",), 2 * SIDE),
    **dict.fromkeys(("norm_num_groups", "groups", "motion_norm_num_groups"), 8),
    **dict.fromkeys(("layers_per_block",), 1),
    **dict.fromkeys(("sample_frames",), FRAMES),
    **dict.fromkeys(("axes_dims_rope", "axes_dim", "axes_dims", "rope_axes_dim"), (4, 4, 8)),
}  # fmt: skip
_MOST_PARAMETERS = 100_000_000

# What signatures do not tell: the dimensions of what is denoised.
_LAYOUTS = ("image", "tokens", "video", "frames first")


def names() -> list[str]:
    return sorted(_classes())


def _classes() -> dict[str, type[torch.nn.Module]]:
    found = {}
    for package in ("transformers", "unets"):
        path = importlib.import_module(f"diffusers.models.{package}").__path__
        for one in pkgutil.iter_modules(path):
            module = importlib.import_module(f"diffusers.models.{package}.{one.name}")
            found.update({name: value for name, value in vars(module).items() if _is_model(value, module.__name__)})
    return found


def _is_model(value: Any, module: str) -> bool:
    return (
        isinstance(value, type)
        and value.__module__ == module
        and issubclass(value, torch.nn.Module)
        and hasattr(value, "config_name")
    )


def makers(name: str) -> Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]:
    model_class = _classes()[name]
    if own := OWN.get(name):
        yield lambda: (model_class(**own.arguments), own.inputs())
    for is_small, channels, layout in itertools.product((True, False), (4, None), _LAYOUTS):

        def make(
            is_small: bool = is_small, channels: int | None = channels, layout: str = layout
        ) -> tuple[torch.nn.Module, dict[str, Any]]:
            choices = _choices(model_class, is_small, channels)
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in model_class(**choices).parameters())
            if count > _MOST_PARAMETERS:
                raise ValueError(f"{count} parameters are too many")
            model = model_class(**choices)
            made, parameters = _inputs(model.config, layout), inspect.signature(model_class.forward).parameters
            return model, {one: value() for one, value in made.items() if one in parameters}

        yield make


def _choices(model_class: Any, is_small: bool, channels: int | None) -> dict[str, Any]:
    parameters = inspect.signature(model_class.__init__).parameters
    choices = {name: value for name, value in _SMALL.items() if name in parameters} if is_small else {}
    for name in ("in_channels", "out_channels"):
        if channels is not None and name in parameters:
            choices[name] = channels
    if is_small and "block_out_channels" in parameters:
        choices["block_out_channels"] = (WIDTH,) * len(parameters["block_out_channels"].default)
    return choices


def _inputs(config: Any, layout: str) -> dict[str, Callable[[], Any]]:
    channels = config.get("in_channels") or 4

    def denoised() -> torch.Tensor:
        shapes = {
            "image": (2, channels, SIDE, SIDE),
            "tokens": (2, 16, channels),
            "video": (2, channels, FRAMES, SIDE, SIDE),
            "frames first": (2, FRAMES, channels, SIDE, SIDE),
        }
        return torch.randn(shapes[layout])

    def of_width(*shape: int) -> Callable[[], torch.Tensor]:
        return lambda: torch.randn(*shape, WIDTH)

    def pairs() -> torch.Tensor:
        return torch.tensor([[SIDE, SIDE]] * 2)

    def ones() -> torch.Tensor:
        return torch.ones(2, TOKENS, dtype=torch.bool)

    return {
        **dict.fromkeys(("hidden_states", "sample", "x"), denoised),
        **dict.fromkeys(("timestep", "timesteps", "timestep_r", "r_timestep", "t", "timestep_ratio"), lambda: torch.tensor([0.5, 0.25])),
        **dict.fromkeys(("encoder_hidden_states", "text_bth", "cap_feats", "encoder_hidden_states_t5"), of_width(2, TOKENS)),
        **dict.fromkeys(("pooled_projections", "pooled_embeds", "pooled_text_emb"), of_width(2)),
        **dict.fromkeys(("encoder_attention_mask", "encoder_hidden_states_mask", "encoder_mask"), ones),
        **dict.fromkeys(("original_size", "target_size", "crop_coords"), pairs),
        "img_ids": lambda: torch.cartesian_prod(torch.tensor([0]), torch.arange(4), torch.arange(4)).float(),
        "txt_ids": lambda: torch.zeros(TOKENS, 3),
        "img_shapes": lambda: [[(1, 4, 4)]] * 2,
        "class_labels": lambda: torch.tensor([1, 2]),
        "text_lens": lambda: torch.tensor([TOKENS, TOKENS]),
        "return_dict": lambda: False,
    }  # fmt: skip
