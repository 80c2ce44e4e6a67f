"""More models of libraries: by library, name and a function that creates the model with its inputs."""

import importlib
from collections.abc import Callable
from typing import Any

import torch

from bench.models import VOCABULARY, Made, from_transformers, image, tokens

LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
TEXT = {"vocab_size": VOCABULARY, **LAYERS}
DECODER = {**TEXT, "num_key_value_heads": 2, "max_position_embeddings": 64}
ENCODER_DECODER = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64,
}  # fmt: skip


def text(model: str, config: str, **choices: Any) -> Callable[[], Made]:
    return lambda: from_transformers(model, config, lambda: (torch.randint(2, VOCABULARY, (2, 8)),), **choices)


def vision(model: str, config: str, **choices: Any) -> Callable[[], Made]:
    return lambda: from_transformers(model, config, lambda: (image(32),), **choices)


def t5() -> Made:
    return from_transformers(
        "T5Model", "T5Config", lambda: (tokens(), None, tokens()), vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64,
        num_layers=2, num_heads=4, decoder_start_token_id=0,
    )  # fmt: skip


def clip() -> Made:
    text_config = {**TEXT, "max_position_embeddings": 32, "eos_token_id": 63, "bos_token_id": 1, "pad_token_id": 0}
    vision_config = {**LAYERS, "image_size": 32, "patch_size": 8}
    return from_transformers(
        "CLIPModel", "CLIPConfig", lambda: (tokens(), image(32)), text_config=text_config,
        vision_config=vision_config, projection_dim=16,
    )  # fmt: skip


def whisper_encoder() -> Made:
    model, inputs = from_transformers(
        "WhisperModel", "WhisperConfig", lambda: (torch.randn(2, 8, 40),), **ENCODER_DECODER, vocab_size=VOCABULARY,
        max_source_positions=20, max_target_positions=32, num_mel_bins=8, pad_token_id=0, bos_token_id=1,
        eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    return model.get_encoder(), inputs


def unet() -> Made:
    model = importlib.import_module("diffusers").UNet2DModel(
        sample_size=16, layers_per_block=1, block_out_channels=(32, 32), norm_num_groups=8,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    return model, (torch.randn(2, 3, 16, 16), 5)


def conditional_unet() -> Made:
    model = importlib.import_module("diffusers").UNet2DConditionModel(
        sample_size=16, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=8, cross_attention_dim=16,
        attention_head_dim=4, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )  # fmt: skip
    return model, (torch.randn(1, 4, 16, 16), torch.tensor(3), torch.randn(1, 5, 16))


def autoencoder() -> Made:
    model = importlib.import_module("diffusers").AutoencoderKL(
        block_out_channels=(16, 32), norm_num_groups=8, layers_per_block=1, latent_channels=4,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return model, (image(16, 1),)


def detr() -> Made:
    backbone = {
        "model_type": "resnet", "embedding_size": 8, "hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1],
        "out_features": ["stage4"],
    }  # fmt: skip
    return from_transformers(
        "DetrModel", "DetrConfig", lambda: (image(64),), **ENCODER_DECODER, backbone_config=backbone,
        use_timm_backbone=False, use_pretrained_backbone=False, num_queries=5,
    )  # fmt: skip


def wav2vec2() -> Made:
    return from_transformers(
        "Wav2Vec2Model", "Wav2Vec2Config", lambda: (torch.randn(2, 400),), **LAYERS, conv_dim=(16, 16, 16),
        conv_stride=(2, 2, 2), conv_kernel=(4, 3, 2), num_feat_extract_layers=3, num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2, mask_time_length=2,
    )  # fmt: skip


def mamba() -> Made:
    return from_transformers(
        "MambaForCausalLM", "MambaConfig", lambda: (tokens(),), vocab_size=VOCABULARY, hidden_size=32,
        num_hidden_layers=2, state_size=8,
    )  # fmt: skip


def all_outputs() -> Made:
    """Hidden states and attentions are collected by hooks, which the first call installs behind a lock."""
    return from_transformers(
        "BertModel", "BertConfig", lambda: (tokens(),), **TEXT, output_hidden_states=True, output_attentions=True,
        attn_implementation="eager",
    )  # fmt: skip


def sd3() -> Made:
    model = importlib.import_module("diffusers").SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=2,
        joint_attention_dim=16, caption_projection_dim=16, pooled_projection_dim=16, out_channels=4,
        pos_embed_max_size=8,
    )  # fmt: skip
    return model, (torch.randn(2, 4, 8, 8), torch.randn(2, 5, 16), torch.randn(2, 16), torch.full((2,), 3))


def flux() -> Made:
    model = importlib.import_module("diffusers").FluxTransformer2DModel(
        patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=16, pooled_projection_dim=16, axes_dims_rope=(4, 4, 8),
    )  # fmt: skip
    places = torch.zeros(16, 3), torch.zeros(5, 3)
    return model, (torch.randn(2, 16, 4), torch.randn(2, 5, 16), torch.randn(2, 16), torch.full((2,), 0.5), *places)


def classifier(file: str, name: str, size: int = 64) -> Callable[[], Made]:
    """One of pytorchcv's, on smaller images than it is meant for where it takes them."""
    return lambda: (getattr(importlib.import_module(f"pytorchcv.models.{file}"), name)(), (image(size),))


def with_labels() -> Made:
    """A model that computes its own loss: the tokens are its labels too."""
    model, (ids,) = from_transformers("LlamaForCausalLM", "LlamaConfig", lambda: (tokens(),), **DECODER)
    return model, (ids, torch.tensor([[1] * 8, [0] * 3 + [1] * 5]), None, None, None, ids)


def graph_network(kind: str) -> Callable[[], Made]:
    def make() -> Made:
        edges = torch.tensor([[0, 1, 2, 3, 4, 5, 0], [1, 2, 3, 4, 5, 0, 3]])
        model = getattr(importlib.import_module("torch_geometric.nn"), kind)(8, 16, 2, 4)
        return model, (torch.randn(6, 8), edges)

    return make


# library -> name -> what makes it
WHOLE: dict[str, dict[str, Callable[[], Made]]] = {
    "transformers": {
        "DistilBERT": text("DistilBertModel", "DistilBertConfig", vocab_size=VOCABULARY, dim=32, n_layers=2, n_heads=4,
                           hidden_dim=64, max_position_embeddings=32),
        "RoBERTa": text("RobertaModel", "RobertaConfig", **TEXT, max_position_embeddings=64),
        "Mistral": text("MistralForCausalLM", "MistralConfig", **DECODER, sliding_window=4),
        "Qwen2": text("Qwen2ForCausalLM", "Qwen2Config", **DECODER),
        "Gemma": text("GemmaForCausalLM", "GemmaConfig", **DECODER, head_dim=8),
        "Gemma2": text("Gemma2ForCausalLM", "Gemma2Config", **DECODER, head_dim=8),
        "Phi": text("PhiForCausalLM", "PhiConfig", **DECODER),
        "OPT": text("OPTForCausalLM", "OPTConfig", vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2,
                    num_attention_heads=4, ffn_dim=64, max_position_embeddings=64, word_embed_proj_dim=32),
        "ALBERT": text("AlbertModel", "AlbertConfig", **TEXT, embedding_size=16),
        "ELECTRA": text("ElectraModel", "ElectraConfig", **TEXT, embedding_size=16),
        "Mixtral": text("MixtralForCausalLM", "MixtralConfig", **DECODER, num_local_experts=4),
        "Llama with labels and a mask": with_labels,
        "Falcon": text("FalconForCausalLM", "FalconConfig", vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2,
                       num_attention_heads=4, alibi=True),
        "GPT-NeoX": text("GPTNeoXForCausalLM", "GPTNeoXConfig", **TEXT, max_position_embeddings=64),
        "DeepSeek-V3": text("DeepseekV3ForCausalLM", "DeepseekV3Config", **{**DECODER, "num_key_value_heads": 4},
                            n_routed_experts=4, num_experts_per_tok=2, n_group=2, topk_group=1, moe_intermediate_size=16,
                            kv_lora_rank=8, q_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8,
                            first_k_dense_replace=1),
        "BART": text("BartModel", "BartConfig", vocab_size=VOCABULARY, max_position_embeddings=64, **ENCODER_DECODER),
        "T5": t5,
        "CLIP": clip,
        "Whisper's encoder": whisper_encoder,
        "Swin": vision("SwinModel", "SwinConfig", image_size=32, patch_size=4, embed_dim=16, depths=[2, 2],
                       num_heads=[2, 4], window_size=4),
        "ConvNext": vision("ConvNextModel", "ConvNextConfig", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2),
        "DeBERTa-v2": text("DebertaV2Model", "DebertaV2Config", **TEXT, relative_attention=True,
                           pos_att_type=["p2c", "c2p"]),
        "XLNet": text("XLNetModel", "XLNetConfig", vocab_size=VOCABULARY, d_model=32, n_layer=2, n_head=4, d_inner=64),
        "CTRL": text("CTRLModel", "CTRLConfig", vocab_size=VOCABULARY, n_embd=32, dff=64, n_layer=2, n_head=4,
                     n_positions=32),
        "DINOv3": vision("DINOv3ViTModel", "DINOv3ViTConfig", **LAYERS, image_size=32, patch_size=8),
        "OLMo": text("OlmoForCausalLM", "OlmoConfig", **DECODER),
        "GPT-OSS": text("GptOssForCausalLM", "GptOssConfig", **DECODER, head_dim=8, num_local_experts=4,
                        num_experts_per_tok=2, sliding_window=4),
        "BEiT": vision("BeitModel", "BeitConfig", **LAYERS, image_size=32, patch_size=8),
        "SegFormer": vision("SegformerModel", "SegformerConfig", hidden_sizes=[8, 16, 16, 32], depths=[1, 1, 1, 1],
                            num_attention_heads=[1, 2, 2, 4]),
        "DETR": detr,
        "wav2vec 2.0": wav2vec2,
    },
    "pytorchcv": {
        "ShuffleNet": classifier("shufflenet", "shufflenet_g1_wd4", 224),
        "MobileNetV3": classifier("mobilenetv3", "mobilenetv3_small_wd2", 224),
        "SqueezeNet": classifier("squeezenet", "squeezenet_v1_1", 224),
        "ResNet for CIFAR": classifier("resnet_cifar", "resnet20_cifar10", 32),
        "IGCV3": classifier("igcv3", "igcv3_wd4", 224),
    },
    "diffusers": {
        "UNet2DModel": unet, "UNet2DConditionModel": conditional_unet, "AutoencoderKL": autoencoder,
        "SD3": sd3, "Flux": flux,
    },
    "torch_geometric": {kind: graph_network(kind) for kind in ("GraphSAGE", "GIN", "EdgeCNN")},
}  # fmt: skip

# In training these draw a number for each layer and ask whether to skip it: a tensor decides, so the graph breaks.
RANDOM_LAYERS = {"DETR", "wav2vec 2.0"}

# Captured with graph breaks: for each model the largest number of breaks, and the reason.
BROKEN: dict[str, dict[str, tuple[Callable[[], Made], int]]] = {
    "transformers": {
        # (In one graph. It computes in another way where it is compiled, so that its numbers differ.)
        "Mamba": (mamba, 0),
        # The data of a mask decides whether any token attends to all others.
        "Longformer": (
            text("LongformerModel", "LongformerConfig", **TEXT, max_position_embeddings=64, attention_window=[4, 4]),
            1,
        ),
    },
    "torch_geometric": {
        # Self-loops are removed by a mask: the shape of the result depends on the contents of a tensor.
        "GCN": (graph_network("GCN"), 2),
        "GAT": (graph_network("GAT"), 2),
    },
}
