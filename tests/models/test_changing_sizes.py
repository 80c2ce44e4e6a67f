"""Models called with sizes that change from call to call, as in real use: the results of uncompiled, from no more captures
than torch._dynamo takes for the same calls."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest
import torch
import torch._inductor.config

import stator
from bench.models import VOCABULARY, from_transformers, image, installed
from tests.models.comparing import tensors
from tests.models.more_models import DECODER, unet
from tests.support import engine
from tests.support.changing_sizes import BACKENDS, counted_by_dynamo
from tests.support.long import LONG

Calls = Iterator[tuple]
LENGTHS = random.Random(3).sample(range(17, 200), 7)
LONG_TEXT = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


@dataclass
class Case:
    """A model and the arguments of the calls, each time it is made the same."""

    library: str
    make: Callable[[], torch.nn.Module]
    calls: Callable[[], Calls]
    training: bool = False
    fullgraph: bool = True
    fixed_by_inductor: int = 0  # captures more, for sizes that inductor fixes: torch._dynamo has as many


def bert() -> torch.nn.Module:
    config = {**LONG_TEXT, "intermediate_size": 64, "max_position_embeddings": 256}
    return from_transformers("BertModel", "BertConfig", tuple, **config)[0]


def gpt2() -> torch.nn.Module:
    choices = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 256, "bos_token_id": 0, "eos_token_id": 0}
    return from_transformers("GPT2LMHeadModel", "GPT2Config", tuple, vocab_size=VOCABULARY, use_cache=False, **choices)[
        0
    ]


def llama(use_cache: bool = False) -> torch.nn.Module:
    config = {**DECODER, "max_position_embeddings": 256, "use_cache": use_cache}
    return from_transformers("LlamaForCausalLM", "LlamaConfig", tuple, **config)[0]


def mixtral() -> torch.nn.Module:
    config = {**DECODER, "max_position_embeddings": 256, "num_local_experts": 4, "num_experts_per_tok": 2}
    return from_transformers("MixtralForCausalLM", "MixtralConfig", tuple, **config, use_cache=False)[0]


def resnet() -> torch.nn.Module:
    return importlib.import_module("pytorchcv.models.resnet").resnet50()


def graph_network(name: str, **choices: Any) -> Callable[[], torch.nn.Module]:
    return lambda: getattr(importlib.import_module("torch_geometric.nn"), name)(5, 8, 2, 3, **choices)


def ids(batch: int, length: int) -> torch.Tensor:
    return torch.randint(2, VOCABULARY, (batch, length))


def lengths() -> Calls:
    return ((ids(2, length),) for length in LENGTHS)


def batches() -> Calls:
    return ((ids(batch, 24),) for batch in (8, 8, 8, 3, 8, 8, 5))


def batches_with_one() -> Calls:
    return ((ids(batch, 24),) for batch in (4, 1, 6, 1, 3, 5))


def two_dimensions() -> Calls:
    return ((ids(2 + number, length),) for number, length in enumerate(LENGTHS))


def padded() -> Calls:
    """Padding to the longest sequence of each batch."""
    for length in LENGTHS[:5]:
        tokens, mask = ids(3, length), torch.ones(3, length, dtype=torch.long)
        for row, end in enumerate((length, length - 5, length // 2)):
            tokens[row, end:], mask[row, end:] = 0, 0
        yield tokens, mask


def images() -> Calls:
    return ((image(size, 1),) for size in (224, 200, 216, 208))


def noisy_images() -> Calls:
    return ((torch.randn(2, 3, size, size), 5) for size in (16, 24, 32, 48))


def graphs() -> Calls:
    for nodes, edges in ((10, 24), (13, 40), (8, 15), (30, 61), (21, 44), (17, 33)):
        yield torch.randn(nodes, 5), torch.randint(nodes, (2, edges))


CASES = {
    "BERT, lengths": Case("transformers", bert, lengths),
    "GPT2, lengths": Case("transformers", gpt2, lengths),
    "Llama, lengths": Case("transformers", llama, lengths),
    "BERT, a smaller last batch": Case("transformers", bert, batches),
    "Llama, batch 1 among others": Case("transformers", llama, batches_with_one),
    "BERT, two dimensions": Case("transformers", bert, two_dimensions),
    "Llama, two dimensions": Case("transformers", llama, two_dimensions),
    "BERT, training with padding": Case("transformers", bert, padded, training=True),
    "Llama, training": Case("transformers", llama, two_dimensions, training=True),
    "Mixtral": Case("transformers", mixtral, lengths),
    "UNet, resolutions": Case("diffusers", lambda: unet()[0], noisy_images),
    "UNet, training": Case("diffusers", lambda: unet()[0], noisy_images, training=True, fixed_by_inductor=2),
    "resnet50, resolutions": Case("pytorchcv", resnet, images),
    "GCN": Case("torch_geometric", graph_network("GCN"), graphs, fullgraph=False),
    "GAT": Case("torch_geometric", graph_network("GAT"), graphs, fullgraph=False),
    "SAGE": Case("torch_geometric", graph_network("GraphSAGE"), graphs, fullgraph=False),
    "GIN": Case("torch_geometric", graph_network("GIN"), graphs, fullgraph=False),
    "GCN, training": Case("torch_geometric", graph_network("GCN"), graphs, fullgraph=False, training=True),
}


def results(case: Case, compile: Callable[[torch.nn.Module], Callable]) -> list[Any]:
    """What each call returned, with gradients and buffers in training."""
    torch.manual_seed(0)
    model = case.make().train(case.training)
    compiled = compile(model)
    found = []
    torch.manual_seed(1)
    for number, arguments in enumerate(case.calls()):
        torch.manual_seed(number)
        model.zero_grad()
        with torch.set_grad_enabled(case.training):
            outputs = tensors(compiled(*arguments))
        if case.training:
            sum(one.float().square().sum() for one in outputs if one.requires_grad).backward()
            outputs += [one.grad for one in model.parameters() if one.grad is not None]
            outputs += [one.clone() for one in model.buffers()]
        found.append([one.detach() for one in outputs])
    return found


def compare(expected: list, actual: list, backend: str) -> None:
    exactly = {"rtol": 0, "atol": 0} if backend == "eager" else {"rtol": 1e-3, "atol": 1e-4}
    for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
        torch.testing.assert_close(
            other, one, equal_nan=True, msg=lambda text, n=number: f"call {n}: {text}", **exactly
        )


def captures_of(case: Case, backend: str, **options: Any) -> int:
    # Some models ask whether they are compiled, and then mask in another way.
    with mock.patch("torch.compiler.is_compiling", return_value=True):
        expected = results(case, lambda model: model)
    stator.reset()
    before = engine.captures()
    # By default inductor draws its random numbers in another way than uncompiled code.
    with torch._inductor.config.patch(fallback_random=True):
        compare(
            expected,
            results(case, lambda model: stator.compile(model, backend=backend, fullgraph=case.fullgraph, **options)),
            backend,
        )
    return engine.captures() - before


def captures_of_dynamo(case: Case, **options: Any) -> int:
    with counted_by_dynamo() as counts:
        results(case, lambda model: torch.compile(model, backend="eager", fullgraph=case.fullgraph, **options))
    return counts["captures"]


def cases() -> list:
    return [
        pytest.param(
            case,
            id=name,
            marks=() if installed(case.library) else pytest.mark.skip(reason=f"{case.library} is not installed"),
        )
        for name, case in CASES.items()
    ]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", cases())
def test_as_uncompiled(case: Case, backend: str, dynamic: bool | None) -> None:
    count = captures_of(case, backend, dynamic=dynamic)
    if case.fullgraph:
        # One for fixed sizes, one for all others, and one for a size of 1.
        fixed = case.fixed_by_inductor if backend == "inductor" and dynamic is None else 0
        assert count <= (2 if dynamic is None else 1) + (case.calls is batches_with_one) + fixed


@pytest.mark.skipif(not LONG, reason="torch._dynamo takes a minute for all of them")
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("case", cases())
def test_no_more_captures_than_dynamo(case: Case, dynamic: bool | None) -> None:
    assert captures_of(case, "eager", dynamic=dynamic) <= captures_of_dynamo(case, dynamic=dynamic)


def generated(model: Any, prompts: list[torch.Tensor], **options: Any) -> list[torch.Tensor]:
    fixed = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    return [model.generate(prompt, **fixed, **options) for prompt in prompts]


@pytest.mark.skipif(not installed("transformers"), reason="transformers is not installed")
@pytest.mark.parametrize("cache", [None, "static"])
@torch.no_grad()
def test_generate_at_several_prompt_lengths(cache: str | None) -> None:
    """A cache that grows with each token, and one of fixed size: the number of captures does not grow with the prompts."""
    torch.manual_seed(0)
    model = llama(use_cache=True).eval()
    prompts = [ids(2, length) for length in (7, 9, 12, 5, 17)]
    options = {"cache_implementation": cache} if cache else {}
    expected = generated(model, prompts, **options)
    stator.reset()
    before = engine.captures()
    model.forward = stator.compile(model.forward)
    captures = []
    for prompt, wanted in zip(prompts, expected, strict=True):
        torch.testing.assert_close(generated(model, [prompt], **options), [wanted])
        captures.append(engine.captures() - before)
    assert captures[-1] == captures[2], captures
