"""Finds operations of real models that have no shape rule, and how long the answers take.

python bench/model_operations.py [MODEL ...]     needs transformers and pytorchcv beside torch
"""

from __future__ import annotations

import collections
import importlib
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from stator import _testing

Call = tuple[Any, tuple, dict]


class Recorder(TorchFunctionMode):
    """Asks the shape room about each operation before it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.without_rule: collections.Counter[str] = collections.Counter()
        self.nanoseconds = 0.0

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if is_operation(function):
            self.ask(function, args, kwargs)
        return function(*args, **kwargs)

    def ask(self, function: Any, args: tuple, kwargs: dict) -> None:
        self.total += 1
        with torch._C.DisableTorchFunction():
            nanoseconds = _testing.shape_time(function, args, kwargs, "rule", 20, 3)
        if nanoseconds is None:
            self.without_rule[describe(function, args, kwargs)] += 1
        else:
            self.nanoseconds += nanoseconds


def is_operation(function: Any) -> bool:
    """Attributes are not operations: tracers read them from metadata."""
    name = getattr(function, "__name__", "")
    return name not in ("__get__", "__set__", "__delete__") and not name.startswith("_set_grad_enabled")


def describe(function: Any, args: tuple, kwargs: dict) -> str:
    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            return f"{str(value.dtype)[6:]}{list(value.shape)}"
        if isinstance(value, (tuple, list)):
            return "(" + ", ".join(map(text, value)) + ")"
        return repr(value)[:60]

    parts = [text(arg) for arg in args] + [f"{key}={text(value)}" for key, value in kwargs.items()]
    return f"{resolve_name(function)}({', '.join(parts)})"


def transformers_model(name: str, **options: Any) -> Callable[[], tuple[torch.nn.Module, dict]]:
    def make() -> tuple[torch.nn.Module, dict]:
        transformers = importlib.import_module("transformers")
        config = getattr(transformers, name.replace("Model", "Config"))(**options)
        model = getattr(transformers, name)(config)
        if name.startswith(("ViT", "Swin", "Deit", "ConvNext")):
            return model, {"pixel_values": torch.randn(2, 3, config.image_size, config.image_size)}
        ids = torch.randint(0, 90, (2, 16))
        if name.startswith(("T5", "Bart")):
            return model, {"input_ids": ids, "decoder_input_ids": ids}
        return model, {"input_ids": ids, "attention_mask": torch.ones(2, 16, dtype=torch.long)}

    return make


def image_model(name: str) -> Callable[[], tuple[torch.nn.Module, dict]]:
    def make() -> tuple[torch.nn.Module, dict]:
        provider = importlib.import_module("pytorchcv.model_provider")
        return provider.get_model(name, pretrained=False), {"x": torch.randn(2, 3, 224, 224)}

    return make


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99}

MODELS: dict[str, Callable[[], tuple[torch.nn.Module, dict]]] = {
    "BertModel": transformers_model("BertModel", **SMALL),
    "GPT2Model": transformers_model("GPT2Model", n_embd=32, n_layer=2, n_head=4, vocab_size=99),
    "LlamaModel": transformers_model("LlamaModel", num_key_value_heads=2, **SMALL),
    "ViTModel": transformers_model(
        "ViTModel", image_size=32, patch_size=8, **{k: v for k, v in SMALL.items() if k != "vocab_size"}
    ),
    "DistilBertModel": transformers_model(
        "DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=99
    ),
    "RobertaModel": transformers_model("RobertaModel", **SMALL),
    "T5Model": transformers_model("T5Model", d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, vocab_size=99),
    "MistralModel": transformers_model("MistralModel", num_key_value_heads=2, **SMALL),
    "resnet50": image_model("resnet50"),
    "mobilenetv2_w1": image_model("mobilenetv2_w1"),
    "densenet121": image_model("densenet121"),
    "efficientnet_b0": image_model("efficientnet_b0"),
}


def record(make: Callable[[], tuple[torch.nn.Module, dict]], training: bool) -> Recorder:
    torch.manual_seed(0)
    model, inputs = make()
    model.train(training)
    recorder = Recorder()
    with recorder:
        model(**inputs)
    return recorder


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    print(f"{'model':18}{'mode':8}{'calls':>7}{'without rule':>14}{'share':>8}{'ns each':>9}")
    without: collections.Counter[str] = collections.Counter()
    for name in names or MODELS:
        for training in (False, True):
            try:
                recorder = record(MODELS[name], training)
            except ImportError as error:
                print(f"{name:18}not measured: {error}")
                break
            missing = recorder.without_rule.total()
            without.update(recorder.without_rule)
            print(
                f"{name:18}{'train' if training else 'eval':8}{recorder.total:7}{missing:14}"
                f"{missing / recorder.total:8.1%}{recorder.nanoseconds / max(recorder.total - missing, 1):9.0f}"
            )
    for text, count in without.most_common():
        print(f"{count:5}  {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
