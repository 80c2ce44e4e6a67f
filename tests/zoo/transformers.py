"""Every configuration of transformers, made small: the base model of each model type, with inputs that its signature asks for."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

VOCABULARY = 64
TOKENS = 8

# What configurations call the same things. Only those that a configuration has are set.
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "word_embed_proj_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "num_blocks"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "embedding_size"), 32),
    **dict.fromkeys(("vocab_size",), VOCABULARY),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"), 64),
    **dict.fromkeys(("image_size",), 32),
    **dict.fromkeys(("patch_size",), 8),
    **dict.fromkeys(("head_dim", "d_kv"), 8),
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip

# Tried in this order: a configuration whose numbers depend on each other keeps more of its own.
_LESS: tuple[tuple[str, ...], ...] = (
    tuple(_SMALL),
    tuple(name for name in _SMALL if name not in ("head_dim", "d_kv", "image_size", "patch_size")),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "vocab_size",
     "num_local_experts", "num_experts", "n_routed_experts", "pad_token_id", "bos_token_id", "eos_token_id"),
    ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers"),
)  # fmt: skip
_MOST_PARAMETERS = 100_000_000


def names() -> list[str]:
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def makers(name: str) -> Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]:
    """Ways to make the model of this type with its inputs; the first that runs is taken."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    classes = MODEL_MAPPING_NAMES[name]
    model_class = getattr(transformers, classes if isinstance(classes, str) else classes[0])
    config_class = CONFIG_MAPPING[name]
    for chosen, everything in itertools.product(_LESS, (False, True)):

        def make(
            chosen: tuple[str, ...] = chosen, everything: bool = everything
        ) -> tuple[torch.nn.Module, dict[str, Any]]:
            config = config_class(**_choices(config_class, chosen))
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in model_class(config).parameters())
            if count > _MOST_PARAMETERS:
                raise ValueError(f"{count} parameters are too many")
            return model_class(config), inputs_of(model_class, config, everything)

        yield make


def _choices(config_class: Any, chosen: tuple[str, ...]) -> dict[str, Any]:
    default = config_class()
    choices = {name: _SMALL[name] for name in chosen if _has_number(default, name)}
    for name in getattr(config_class, "sub_configs", None) or {}:
        inner = getattr(default, name, None)
        if inner is not None:
            choices[name] = {"model_type": inner.model_type, **_choices(type(inner), chosen)}
    return choices


def _has_number(config: Any, name: str) -> bool:
    value = getattr(config, name, None)
    return isinstance(value, int) and not isinstance(value, bool)


def inputs_of(model_class: Any, config: Any, everything: bool) -> dict[str, Any]:
    """The model's main input and what goes with it, or all that the signature of `forward` names."""
    parameters = inspect.signature(model_class.forward).parameters
    main = getattr(model_class, "main_input_name", "input_ids")
    size = _number(config, "image_size", 32)
    channels = _number(config, "num_channels", 3)
    made = {
        "input_ids": lambda: torch.randint(3, VOCABULARY, (2, TOKENS)),
        "pixel_values": lambda: torch.randn(2, channels, size, size),
        "input_values": lambda: _wave(config),
        "input_features": lambda: _features(config),
        "decoder_input_ids": lambda: torch.randint(3, VOCABULARY, (2, TOKENS)),
    }  # fmt: skip
    if everything:
        return {name: make() for name, make in made.items() if name in parameters}
    wanted = [main]
    if main == "pixel_values" and "input_ids" in parameters:
        wanted.append("input_ids")
    if "decoder_input_ids" in parameters:
        wanted.append("decoder_input_ids")
    return {name: made[name]() for name in wanted}


def _wave(config: Any) -> torch.Tensor:
    """Sound: as it is, or as a spectrogram."""
    if bins := getattr(config, "num_mel_bins", None):
        return torch.randn(2, _number(config, "max_length", 128), bins)
    return torch.randn(2, 6000)


def _features(config: Any) -> torch.Tensor:
    """Of sound: frames of so many features, or the other way round."""
    if width := getattr(config, "feature_projection_input_dim", None):
        return torch.randn(2, 4 * TOKENS, width)
    return torch.randn(2, _number(config, "num_mel_bins", 80), 2 * _number(config, "max_source_positions", 64))


def _number(config: Any, name: str, default: int) -> int:
    for one in (config, getattr(config, "vision_config", None), getattr(config, "audio_config", None)):
        value = getattr(one, name, None)
        if isinstance(value, (list, tuple)) and value:
            value = value[0]
        if isinstance(value, int):
            return value
    return default
