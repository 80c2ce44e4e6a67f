"""The models of torchaudio, small, on noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import tests.support.torchaudio_stand_in  # noqa: F401 - before torchaudio

DISTRIBUTION = "torchaudio"
FRAMES = 24
MELS = 16
SAMPLES = 3200


def _models() -> Any:
    import torchaudio.models

    return torchaudio.models


def _lengths(length: int) -> torch.Tensor:
    return torch.tensor([length, length - 4])


def _wave() -> torch.Tensor:
    return torch.randn(2, SAMPLES)


_WAV2VEC2: dict[str, Any] = {
    "extractor_mode": "group_norm",
    "extractor_conv_layer_config": [(16, 10, 5), (16, 3, 2), (16, 3, 2)],
    "extractor_conv_bias": False,
    "encoder_embed_dim": 32,
    "encoder_projection_dropout": 0.1,
    "encoder_pos_conv_kernel": 8,
    "encoder_pos_conv_groups": 4,
    "encoder_num_layers": 2,
    "encoder_num_heads": 4,
    "encoder_attention_dropout": 0.1,
    "encoder_ff_interm_features": 64,
    "encoder_ff_interm_dropout": 0.1,
    "encoder_dropout": 0.1,
    "encoder_layer_norm_first": False,
    "encoder_layer_drop": 0.0,
    "aux_num_out": 8,
}
_WAVLM = {**_WAV2VEC2, "encoder_num_buckets": 16, "encoder_max_distance": 32}
_TRANSDUCER: dict[str, Any] = {
    "input_dim": MELS,
    "encoding_dim": 32,
    "num_symbols": 16,
    "segment_length": 8,
    "right_context_length": 2,
    "time_reduction_input_dim": 16,
    "time_reduction_stride": 2,
    "transformer_num_heads": 4,
    "transformer_ffn_dim": 64,
    "transformer_num_layers": 2,
    "transformer_dropout": 0.1,
    "transformer_activation": "gelu",
    "transformer_left_context_length": 4,
    "transformer_max_memory_size": 0,
    "transformer_weight_init_scale_strategy": "depthwise",
    "transformer_tanh_on_mem": True,
    "symbol_embedding_dim": 16,
    "num_lstm_layers": 1,
    "lstm_layer_norm": True,
    "lstm_layer_norm_epsilon": 1e-3,
    "lstm_dropout": 0.0,
}

Made = tuple[str, dict[str, Any], Callable[[], dict[str, Any]]]

_MODELS: dict[str, Made] = {
    "Conformer": (
        "Conformer",
        {"input_dim": 32, "num_heads": 4, "ffn_dim": 64, "num_layers": 2, "depthwise_conv_kernel_size": 7},
        lambda: {"input": torch.randn(2, FRAMES, 32), "lengths": _lengths(FRAMES)},
    ),
    "ConvTasNet": (
        "ConvTasNet",
        {
            "enc_num_feats": 32,
            "msk_num_feats": 16,
            "msk_num_hidden_feats": 32,
            "msk_num_layers": 2,
            "msk_num_stacks": 2,
        },
        lambda: {"input": torch.randn(2, 1, SAMPLES)},
    ),
    "DeepSpeech": (
        "DeepSpeech",
        {"n_feature": MELS, "n_hidden": 32, "n_class": 8},
        lambda: {"x": torch.randn(2, 1, FRAMES, MELS)},
    ),
    "Emformer": (
        "Emformer",
        {
            "input_dim": 32,
            "num_heads": 4,
            "ffn_dim": 64,
            "num_layers": 2,
            "segment_length": 4,
            "right_context_length": 1,
        },
        lambda: {"input": torch.randn(2, FRAMES + 1, 32), "lengths": _lengths(FRAMES)},
    ),
    "HDemucs": (
        "HDemucs",
        {"sources": ["one", "two"], "channels": 8},
        lambda: {"input": torch.randn(1, 2, 16384)},
    ),
    "Tacotron2": (
        "Tacotron2",
        {
            "n_mels": MELS,
            "symbol_embedding_dim": 32,
            "encoder_embedding_dim": 32,
            "decoder_rnn_dim": 32,
            "decoder_max_step": 20,
            "attention_rnn_dim": 32,
            "attention_hidden_dim": 16,
            "prenet_dim": 16,
            "postnet_embedding_dim": 16,
        },
        lambda: {
            "tokens": torch.randint(0, 100, (2, 8)),
            "token_lengths": torch.tensor([8, 6]),
            "mel_specgram": torch.randn(2, MELS, 12),
            "mel_specgram_lengths": torch.tensor([12, 10]),
        },
    ),
    "Wav2Letter": ("Wav2Letter", {"num_classes": 8}, lambda: {"x": torch.randn(2, 1, SAMPLES)}),
    "Wav2Vec2": ("wav2vec2_model", _WAV2VEC2, lambda: {"waveforms": _wave()}),
    "WavLM": ("wavlm_model", _WAVLM, lambda: {"waveforms": _wave()}),
    "WaveRNN": (
        "WaveRNN",
        {
            "upsample_scales": [2, 2, 2],
            "n_classes": 16,
            "hop_length": 8,
            "n_res_block": 2,
            "n_rnn": 16,
            "n_fc": 16,
            "n_freq": MELS,
            "n_hidden": 16,
            "n_output": 16,
        },
        lambda: {"waveform": torch.randn(2, 1, 16), "specgram": torch.randn(2, 1, MELS, 6)},
    ),
    "RNNT": (
        "emformer_rnnt_model",
        _TRANSDUCER,
        lambda: {
            "sources": torch.randn(2, FRAMES + 2, MELS),
            "source_lengths": _lengths(FRAMES),
            "targets": torch.randint(0, 16, (2, 6)),
            "target_lengths": torch.tensor([6, 4]),
        },
    ),
    "SquimObjective": ("squim_objective_base", {}, lambda: {"x": torch.randn(1, SAMPLES)}),
}


def names() -> list[str]:
    return sorted(_MODELS)


def makers(name: str) -> Iterator[Callable[[], tuple[torch.nn.Module, dict[str, Any]]]]:
    function, arguments, inputs = _MODELS[name]
    yield lambda: (getattr(_models(), function)(**arguments), inputs())
