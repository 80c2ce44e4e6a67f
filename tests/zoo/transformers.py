"""Every configuration of transformers, made small: the base model of each model type, with inputs that its signature asks for."""

from __future__ import annotations

import copy
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

_HEAD = {"head_dim": 8}
# Sections of the rotated half of a head, and of a quarter.
_SECTIONS = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}}
_SECTIONS_OF_TEXT = {"text_config": _SECTIONS}
_SECTIONS_OF_QUARTER = {
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [2, 0, 0]}
}  # fmt: skip
_ROPE_OF_TYPES = {
    "rope_parameters": {
        one: {"rope_type": "default", "rope_theta": 10000.0} for one in ("full_attention", "sliding_attention")
    }
}  # fmt: skip

# What belongs to one type: numbers that depend on each other in a way of its own.
_OWN: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_v1_moe", "ministral"), _HEAD),
    **dict.fromkeys(("qwen2_vl_text", "qwen2_5_vl_text", "glm4v_text", "glm_image_text"), _SECTIONS),
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "glm4v", "glm46v", "glm_image", "glm_ocr", "glmga"), _SECTIONS_OF_TEXT),
    "qwen2_5_omni_thinker": {"text_config": _SECTIONS},
    "glm4v_moe": {"text_config": _SECTIONS_OF_QUARTER},
    "glm4v_moe_text": _SECTIONS_OF_QUARTER,
    "cohere_compass_text": _ROPE_OF_TYPES,
    "cohere_compass": {"text_config": _ROPE_OF_TYPES},
    "nemotron": {"num_key_value_heads": 4},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "gemma3n_text": {"num_kv_shared_layers": 0, "vocab_size_per_layer_input": VOCABULARY},
    "gemma4_text": {"head_dim": 8, "global_head_dim": 8, "vocab_size_per_layer_input": VOCABULARY},
    "gemma4": {"text_config": {"head_dim": 8, "global_head_dim": 8, "vocab_size_per_layer_input": VOCABULARY}},
    "granite_speech5_ctc": {"encoder_config": {"context_size": 8, "input_dim": 80}},
    "sam2_vision_model": {"backbone_config": {"hidden_size": 96}},
    "sam2": {"vision_config": {"backbone_config": {"hidden_size": 96}}},
    "gemma3n": {"text_config": {"num_kv_shared_layers": 0, "vocab_size_per_layer_input": VOCABULARY}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", "sparse"], "num_experts_per_tok": 2}},
    "granite_speech5_encoder": {"context_size": 8, "input_dim": 80},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"], "mamba_n_groups": 1},
    "jamba": {
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "use_mamba_kernels": False,
    },
    "luke": {"entity_vocab_size": VOCABULARY, "entity_emb_size": 16},
    "mgp-str": {"image_size": [32, 128]},
    "mimo_v2_flash": {
        "swa_num_attention_heads": 4,
        "swa_num_key_value_heads": 4,
        "swa_head_dim": 8,
        "swa_v_head_dim": 8,
    },
    "reformer": {
        "axial_pos_shape": [4, 2],
        "axial_pos_embds_dim": [16, 16],
        "attention_head_size": 8,
        "feed_forward_size": 64,
    },
    "funnel": {"block_sizes": [1, 1]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "num_layers": 2},
    "perceiver": {
        "d_latents": 32,
        "d_model": 32,
        "num_latents": 16,
        "num_self_attends_per_block": 2,
        "num_cross_attention_heads": 4,
        "num_self_attention_heads": 4,
    },
    "nemotron_h": {"n_groups": 1},
    "falcon_h1": {"mamba_d_ssm": 64, "mamba_n_groups": 1},
    "xlstm": {"num_blocks": 2, "num_heads": 4, "hidden_size": 32},
    "xmod": {"default_language": "en_XX"},
    "timm_backbone": {"backbone": "resnet10t", "use_pretrained_backbone": False},
    "zamba": {"layer_types": ["mamba", "hybrid"], "layers_block_type": ["mamba", "hybrid"], "use_mamba_kernels": False},
    "zamba2": {
        "layer_types": ["mamba", "hybrid"],
        "layers_block_type": ["mamba", "hybrid"],
        "use_mamba_kernels": False,
    },
    "bamba": {"mamba_n_groups": 1, "attn_layer_indices": [1]},
    "big_bird": {"block_size": 4},
    "bigbird_pegasus": {"block_size": 4},
    "autoformer": {"prediction_length": 4, "context_length": 8},
    "informer": {"prediction_length": 4, "context_length": 8},
    "time_series_transformer": {"prediction_length": 4, "context_length": 8},
    "chameleon": {"vocabulary_map": {"<image>": 5}},
    "codegen": {"n_ctx": 64},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0, "clip_qkv": 8}},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "esm": {"vocab_size": VOCABULARY},
    "deepseek_v2": {"num_experts_per_tok": 2, "first_k_dense_replace": 1},
    "mamba2": {"num_heads": 4, "head_dim": 16, "state_size": 16, "n_groups": 1, "chunk_size": 8},
}

# Configurations that refuse a number which follows from others.
_REFUSED = {
    "funnel": ("num_hidden_layers", "num_blocks"),
    "prophetnet": ("num_hidden_layers",),
    "xlstm": ("v_head_dim", "qk_head_dim"),
}


def names() -> list[str]:
    import transformers.modeling_utils  # noqa: F401 - most of what a model imports
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def makers(name: str) -> Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]:
    """Ways to make the model of this type with its inputs; the first that runs is taken."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    # (Some models use timm. transformers looks for torchvision when it is imported, and is not to find this one.)
    import tests.support.torchvision_stand_in  # noqa: F401

    classes = MODEL_MAPPING_NAMES[name]
    model_class = getattr(transformers, classes if isinstance(classes, str) else classes[0])
    config_class = CONFIG_MAPPING[name]
    for (chosen, keeps_layers), layout in itertools.product(itertools.product(_LESS, (False, True)), LAYOUTS):

        def make(
            chosen: tuple[str, ...] = chosen, keeps_layers: bool = keeps_layers, layout: Any = layout
        ) -> tuple[torch.nn.Module, dict[str, Any]]:
            choices = _choices(config_class, chosen, keeps_layers)
            for refused in _REFUSED.get(name, ()):
                choices.pop(refused, None)
            config = config_class(**_merged(choices, copy.deepcopy(_OWN.get(name, {}))))
            inputs = inputs_of(model_class, config, layout)
            with torch.device("meta"):
                count = sum(parameter.numel() for parameter in model_class(config).parameters())
            if count > _MOST_PARAMETERS:
                raise ValueError(f"{count} parameters are too many")
            return model_class(config), inputs

        yield make


def _merged(choices: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    inner = {
        name: _merged(choices[name], value)
        for name, value in own.items()
        if name.endswith("_config") and isinstance(choices.get(name), dict)
    }
    return {**choices, **own, **inner}


def _choices(config_class: Any, chosen: tuple[str, ...], keeps_layers: bool) -> dict[str, Any]:
    default = config_class()
    choices = {name: _SMALL[name] for name in chosen if _has_number(default, name)}
    if not keeps_layers:
        choices.update(_of_each_layer(default))
    if _has_backbone_of_others(default):
        choices.update(backbone_config=_BACKBONE, use_timm_backbone=False)
        if hasattr(default, "encoder_in_channels"):
            choices.update(encoder_in_channels=[32, 64, 128])
    for name in getattr(config_class, "sub_configs", None) or {}:
        inner = getattr(default, name, None)
        if inner is not None and choices.get(name) is not _BACKBONE:
            choices[name] = {"model_type": inner.model_type, **_choices(type(inner), chosen, keeps_layers)}
    return choices


def _has_backbone_of_others(default: Any) -> bool:
    """A backbone that the library has for this model alone is made small like any part of it."""
    if not hasattr(default, "backbone_config"):
        return False
    package, inner = type(default).__module__.rpartition(".")[0], default.backbone_config
    return inner is None or type(inner).__module__.rpartition(".")[0] != package


def _of_each_layer(default: Any) -> dict[str, Any]:
    """One layer of each type, and two at least."""
    if isinstance(getattr(type(default), "layer_types", None), property):
        return {}
    types = getattr(default, "layer_types", None)
    kinds = list(dict.fromkeys(types)) if isinstance(types, (list, tuple)) else []
    if len(kinds) < 2:
        return {}
    return {"layer_types": kinds, "num_hidden_layers": len(kinds)}


def _has_number(config: Any, name: str) -> bool:
    try:
        value = getattr(config, name, None)
    except Exception:  # noqa: BLE001 - where it belongs to a layer, the library raises an exception of its own
        return False
    return isinstance(value, int) and not isinstance(value, bool)
