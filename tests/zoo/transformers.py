"""Every configuration of transformers, made small: the base model of each model type, with inputs that its signature asks for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from tests.zoo.transformers_inputs import LAYOUTS, VOCABULARY, inputs_of

DISTRIBUTION = "transformers"

_LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers")

# What configurations call the same things. Only those that a configuration has are set.
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embed_dim", "word_embed_proj_dim"), 32),
    **dict.fromkeys(_LAYERS, 2),
    **dict.fromkeys(("num_encoder_layers", "num_decoder_layers", "num_blocks"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_local_experts", "num_experts", "n_routed_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk"), 2),
    **dict.fromkeys(("n_group", "num_group", "topk_group", "n_shared_experts"), 1),
    **dict.fromkeys(("intermediate_size", "d_ff", "ffn_dim", "encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim"), 64),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "embedding_size"), 32),
    **dict.fromkeys(("vocab_size",), VOCABULARY),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions"), 64),
    **dict.fromkeys(("image_size",), 32),
    **dict.fromkeys(("patch_size",), 8),
    **dict.fromkeys(("head_dim", "d_kv", "rotary_dim"), 8),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"), 8),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("mamba_n_heads", "mamba_num_heads"), 4),
    **dict.fromkeys(("mamba_d_head", "mamba_head_dim"), 16),
    **dict.fromkeys(("mamba_d_state", "ssm_state_size"), 16),
    **dict.fromkeys(("mamba_chunk_size",), 8),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("num_queries",), 4),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim"), 8),
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}  # fmt: skip

# Tried in this order: a configuration whose numbers depend on each other keeps more of its own.
_LESS: tuple[tuple[str, ...], ...] = (
    tuple(_SMALL),
    tuple(name for name in _SMALL if name not in ("head_dim", "d_kv", "image_size", "patch_size")),
    (*_LAYERS, "vocab_size", "num_local_experts", "num_experts", "n_routed_experts", "pad_token_id", "bos_token_id", "eos_token_id"),
    _LAYERS,
)  # fmt: skip
_MOST_PARAMETERS = 100_000_000

_BACKBONE = {
    "model_type": "resnet", "embedding_size": 16, "hidden_sizes": [16, 32, 64, 128], "depths": [1, 1, 1, 1], "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}  # fmt: skip

# What belongs to one type: numbers that depend on each other in a way of its own.
_OWN: dict[str, dict[str, Any]] = {
    "bamba": {"mamba_n_groups": 1, "attn_layer_indices": [1]},
    "big_bird": {"block_size": 4},
    "bigbird_pegasus": {"block_size": 4},
    "autoformer": {"prediction_length": 4, "context_length": 8},
    "informer": {"prediction_length": 4, "context_length": 8},
    "time_series_transformer": {"prediction_length": 4, "context_length": 8},
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "codegen": {"n_ctx": 64},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8}},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2},
    "esm": {"vocab_size": VOCABULARY},
    "deepseek_v2": {"num_experts_per_tok": 2, "first_k_dense_replace": 1},
    "mamba2": {"num_heads": 4, "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 8},
}


def names() -> list[str]:
    import transformers.modeling_utils  # noqa: F401 - most of what a model imports
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def makers(name: str) -> Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]:
    """Ways to make the model of this type with its inputs; the first that runs is taken."""
    import transformers

    # (Some models use timm. transformers looks for torchvision when it is imported, and is not to find this one.)
    import tests.support.torchvision_stand_in  # noqa: F401
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    classes = MODEL_MAPPING_NAMES[name]
    model_class = getattr(transformers, classes if isinstance(classes, str) else classes[0])
    config_class = CONFIG_MAPPING[name]
    for (chosen, keeps_layers), layout in itertools.product(itertools.product(_LESS, (False, True)), LAYOUTS):

        def make(
            chosen: tuple[str, ...] = chosen, keeps_layers: bool = keeps_layers, layout: Any = layout
        ) -> tuple[torch.nn.Module, dict[str, Any]]:
            config = config_class(**{**_choices(config_class, chosen, keeps_layers), **_OWN.get(name, {})})
            inputs = inputs_of(model_class, config, layout)
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in model_class(config).parameters())
            if count > _MOST_PARAMETERS:
                raise ValueError(f"{count} parameters are too many")
            return model_class(config), inputs

        yield make


def _choices(config_class: Any, chosen: tuple[str, ...], keeps_layers: bool) -> dict[str, Any]:
    default = config_class()
    choices = {name: _SMALL[name] for name in chosen if _has_number(default, name)}
    if not keeps_layers:
        choices.update(_of_each_layer(default))
    if hasattr(default, "backbone_config"):
        choices.update(backbone_config=_BACKBONE, use_timm_backbone=False)
        if hasattr(default, "encoder_in_channels"):
            choices.update(encoder_in_channels=[32, 64, 128])
    for name in getattr(config_class, "sub_configs", None) or {}:
        inner = getattr(default, name, None)
        if inner is not None and name != "backbone_config":
            choices[name] = {"model_type": inner.model_type, **_choices(type(inner), chosen, keeps_layers)}
    return choices


def _of_each_layer(default: Any) -> dict[str, Any]:
    """One layer of each type, and two at least."""
    types = getattr(default, "layer_types", None)
    kinds = list(dict.fromkeys(types)) if isinstance(types, (list, tuple)) else []
    if len(kinds) < 2:
        return {}
    return {"layer_types": kinds, "num_hidden_layers": len(kinds)}


def _has_number(config: Any, name: str) -> bool:
    value = getattr(config, name, None)
    return isinstance(value, int) and not isinstance(value, bool)
