"""Models of libraries, small and with random weights, as programs to be measured.

Which of them there are depends on which libraries are installed (`requirements/models.txt`). Each takes its inputs by
position; what is a choice of the model stands in its configuration.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import torch

from bench.programs import Goal, Program

Made = tuple[Any, tuple[Any, ...]]

VOCABULARY = 64


def tokens(count: int = 8) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (2, count))


def image(size: int, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def from_transformers(model: str, config: str, inputs: Callable[[], tuple[Any, ...]], **choices: Any) -> Made:
    library = importlib.import_module("transformers")
    return getattr(library, model)(getattr(library, config)(**choices)), inputs()


def bert() -> Made:
    return from_transformers(
        "BertModel", "BertConfig", lambda: (tokens(), torch.ones(2, 8, dtype=torch.long)), vocab_size=VOCABULARY,
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, max_position_embeddings=32,
    )  # fmt: skip


def gpt2(use_cache: bool = False) -> Made:
    return from_transformers(
        "GPT2LMHeadModel", "GPT2Config", lambda: (tokens(),), vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=2,
        n_positions=32, bos_token_id=0, eos_token_id=0, use_cache=use_cache,
    )  # fmt: skip


def llama(use_cache: bool = False) -> Made:
    return from_transformers(
        "LlamaForCausalLM", "LlamaConfig", lambda: (tokens(),), vocab_size=VOCABULARY, hidden_size=32,
        num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        max_position_embeddings=64, use_cache=use_cache,
    )  # fmt: skip


def vit() -> Made:
    return from_transformers(
        "ViTModel", "ViTConfig", lambda: (image(32),), hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=64, image_size=32, patch_size=8,
    )  # fmt: skip


def from_pytorchcv(file: str, model: str) -> Made:
    # Its list of all models imports torchvision for some of them; the file of one model does not.
    return getattr(importlib.import_module(f"pytorchcv.models.{file}"), model)(), (image(224, batch=1),)


def installed(library: str) -> bool:
    return importlib.util.find_spec(library) is not None


def in_eval(make: Callable[[], Made]) -> Callable[[], Made]:
    def made() -> Made:
        model, inputs = make()
        return model.eval(), inputs

    return made


BY_LIBRARY: dict[str, dict[str, Callable[[], Made]]] = {
    "transformers": {
        "BertModel": bert,
        "GPT2LMHeadModel": gpt2,
        "LlamaForCausalLM": llama,
        "LlamaForCausalLM with a cache": lambda: llama(use_cache=True),
        "ViTModel": vit,
    },
    "pytorchcv": {
        "resnet50": lambda: from_pytorchcv("resnet", "resnet50"),
        "mobilenetv2_w1": lambda: from_pytorchcv("mobilenetv2", "mobilenetv2_w1"),
    },
}

PROGRAMS = tuple(
    Program(name, in_eval(make), capture=Goal(25, 50), cached=Goal(5, 10))
    for library, models in BY_LIBRARY.items()
    if installed(library)
    for name, make in models.items()
)
