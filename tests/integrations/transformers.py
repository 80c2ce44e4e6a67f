"""transformers: generation with its caches, compiled forward passes, the Trainer."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from transformers import (
    CompileConfig,
    Gemma2Config,
    Gemma2ForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    PreTrainedModel,
    Trainer,
    TrainingArguments,
)

from tests.integrations.scenario import Run, scenario

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": None,
}


def llama() -> PreTrainedModel:
    return LlamaForCausalLM(LlamaConfig(**SIZES)).eval()


def mistral() -> PreTrainedModel:
    return MistralForCausalLM(MistralConfig(**SIZES, sliding_window=6)).eval()


def gemma2() -> PreTrainedModel:
    return Gemma2ForCausalLM(Gemma2Config(**SIZES, sliding_window=6)).eval()


def gemma3() -> PreTrainedModel:
    return Gemma3ForCausalLM(Gemma3TextConfig(**SIZES, sliding_window=6)).eval()


def prompt(length: int = 5, batch: int = 2) -> torch.Tensor:
    return torch.randint(3, 64, (batch, length))


def generate(run: Run, model: PreTrainedModel, lengths: tuple[int, ...] = (5, 5, 7), **options: Any) -> None:
    options = {"max_new_tokens": 8, "do_sample": False, **options}
    for length in lengths:
        tokens = prompt(length)
        run.call(lambda tokens=tokens: model.generate(tokens, attention_mask=torch.ones_like(tokens), **options))


def generate_static(run: Run, model: PreTrainedModel, **options: Any) -> None:
    """`generate` compiles the forward pass itself for a cache of fixed size; on a CPU only if it is told to."""
    compiling = CompileConfig(backend=run.backend, fullgraph=False, mode=None)
    compiling._compile_all_devices = True
    generate(run, model, cache_implementation="static", compile_config=compiling, **options)


def generate_compiled_forward(run: Run, model: PreTrainedModel, **options: Any) -> None:
    model.forward = torch.compile(model.forward, backend=run.backend)
    generate(run, model, **options)


@scenario("Llama generates with a static cache, compiled by generate")
def llama_static(run: Run) -> None:
    generate_static(run, llama())


@scenario("Llama with a static cache and fullgraph", backend="eager")
def llama_static_fullgraph(run: Run) -> None:
    model = llama()
    compiling = CompileConfig(backend=run.backend, fullgraph=True, mode=None)
    compiling._compile_all_devices = True
    generate(run, model, cache_implementation="static", compile_config=compiling)


@scenario("Llama with a static cache samples", backend="eager")
def llama_samples(run: Run) -> None:
    generate_static(run, llama(), do_sample=True, top_k=8, temperature=0.7)


@scenario("Llama with a static cache, beams", backend="eager")
def llama_beams(run: Run) -> None:
    generate_static(run, llama(), num_beams=3)


@scenario("Llama, compiled forward, dynamic cache", backend="eager")
def llama_dynamic(run: Run) -> None:
    generate_compiled_forward(run, llama())


@scenario("Mistral, sliding window, static cache")
def mistral_static(run: Run) -> None:
    generate_static(run, mistral())


@scenario("Mistral, sliding window, compiled forward, dynamic cache", backend="eager")
def mistral_dynamic(run: Run) -> None:
    generate_compiled_forward(run, mistral())


@scenario("Gemma 2, hybrid static cache")
def gemma2_static(run: Run) -> None:
    generate_static(run, gemma2())


@scenario("Gemma 3, hybrid static cache")
def gemma3_static(run: Run) -> None:
    generate_static(run, gemma3())


@scenario("Gemma 3, compiled forward, dynamic cache", backend="eager")
def gemma3_dynamic(run: Run) -> None:
    generate_compiled_forward(run, gemma3())


@scenario("Llama with a static cache", backend="inductor")
def llama_inductor(run: Run) -> None:
    generate_static(run, llama())


@scenario("a compiled model: loss, gradients, a mask with padding, hidden states")
def compiled_forward(run: Run) -> None:
    original = llama().train()
    model = torch.compile(original, backend=run.backend)
    for length in (6, 6, 9, 12):
        tokens = prompt(length)
        mask = torch.ones_like(tokens)
        mask[0, :2] = 0

        def step(tokens: torch.Tensor = tokens, mask: torch.Tensor = mask) -> list[torch.Tensor]:
            original.zero_grad()
            output = model(tokens, attention_mask=mask, labels=tokens, output_hidden_states=True)
            output.loss.backward()
            gradients = [p.grad.clone() for p in original.parameters()]
            return [output.loss, output.logits, *output.hidden_states, *gradients]

        run.call(step)


@scenario("generate of a model compiled as a whole", backend="eager")
def compiled_model_generates(run: Run) -> None:
    model = torch.compile(llama(), backend=run.backend)
    generate(run, model, generation_config=GenerationConfig(pad_token_id=0))


class Tokens(torch.utils.data.Dataset):
    def __init__(self, lengths: tuple[int, ...]) -> None:
        self.items = [prompt(length, 1)[0] for length in lengths]

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.items[index], "labels": self.items[index]}


def train(run: Run, model: PreTrainedModel, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            torch_compile=True,
            torch_compile_backend=run.backend,
            per_device_train_batch_size=2,
            per_device_eval_batch_size=2,
            max_steps=4,
            report_to=[],
            use_cpu=True,
            disable_tqdm=True,
            **options,
        )
        trainer = Trainer(model, arguments, train_dataset=Tokens((8,) * 8), eval_dataset=Tokens((8,) * 4))
        run.call(lambda: trainer.train().training_loss)
        run.call(lambda: trainer.evaluate()["eval_loss"])
        run.call(lambda: trainer.predict(Tokens((8,) * 4)).predictions.sum().item())
        run.keep({name.removeprefix("_orig_mod."): value for name, value in trainer.model.state_dict().items()})


@scenario("Trainer with torch_compile")
def trainer(run: Run) -> None:
    train(run, llama())


@scenario("Trainer with torch_compile, accumulation, bf16", backend="eager")
def trainer_bf16(run: Run) -> None:
    train(run, llama(), gradient_accumulation_steps=2, bf16=True)


@scenario("Trainer with torch_compile and gradient checkpointing")
def trainer_checkpointing(run: Run) -> None:
    train(run, llama(), gradient_checkpointing=True)
