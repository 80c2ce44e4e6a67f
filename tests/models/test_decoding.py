"""A cache that is passed in and grows from call to call."""

import copy
from unittest import mock

import pytest
import torch

import stator
from bench.models import gpt2, installed, llama

pytestmark = pytest.mark.skipif(not installed("transformers"), reason="transformers is not installed")


def decoded(model, cache, first: torch.Tensor, steps: int) -> list[torch.Tensor]:
    logits, tokens = [], first
    for _ in range(steps):
        logits.append(model(input_ids=tokens, past_key_values=cache, use_cache=True).logits)
        tokens = logits[-1][:, -1:].argmax(-1)
    return logits


@pytest.mark.parametrize("make", [llama, gpt2])
@pytest.mark.parametrize("kind", ["DynamicCache", "StaticCache"])
@torch.no_grad()
def test_decoding(make, kind: str) -> None:
    import transformers

    torch.manual_seed(0)
    model, (tokens,) = make(use_cache=True)
    uncompiled = copy.deepcopy(model.eval())
    compiled = stator.compile(model, fullgraph=True)

    def cache():
        options = {"max_cache_len": 16} if kind == "StaticCache" else {}
        return getattr(transformers, kind)(config=model.config, **options)

    stator.reset()
    # Some versions of transformers ask whether they are compiled, and then mask in another way.
    with mock.patch("torch.compiler.is_compiling", return_value=True):
        expected = decoded(uncompiled, cache(), tokens[:, :4], 6)
    with stator.watch() as report:
        actual = decoded(compiled, cache(), tokens[:, :4], 6)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    if kind == "StaticCache":  # its sizes do not change: the first tokens, then those that come one by one
        assert len(report.captures) <= 3, report
    stator.reset()


@torch.no_grad()
def test_generate() -> None:
    torch.manual_seed(0)
    model, (tokens,) = llama(use_cache=True)
    uncompiled = copy.deepcopy(model.eval())
    compiled = stator.compile(model)
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    torch.testing.assert_close(compiled.generate(tokens, **options), uncompiled.generate(tokens, **options))
