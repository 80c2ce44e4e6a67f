"""Attention on tensors of every layout: the kernel depends on the version of PyTorch."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from tests.shape import against_fake

OPTIONS = {
    "plain": {},
    "causal": {"is_causal": True},
    "scaled": {"scale": 0.5},
    "mask": {"attn_mask": torch.zeros(5, 5)},
    "mask of each": {"attn_mask": torch.zeros(3, 5, 5)},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("shape", [(3, 5, 4), (1, 5, 8), (2, 3, 5, 4)], ids=str)
def test_layouts(shape: tuple[int, ...], name: str) -> None:
    if name == "mask of each" and shape[-3] != 3:
        pytest.skip("another number of heads")
    for order, grad in itertools.product(itertools.permutations(range(len(shape))), (False, True)):
        laid_out = torch.randn([shape[i] for i in order]).permute([order.index(i) for i in range(len(shape))])
        x = laid_out.requires_grad_(grad)
        verdict = against_fake.compare(F.scaled_dot_product_attention, (x, x, x), OPTIONS[name])
        assert verdict.kind in ("agrees", "no rule"), (x.stride(), verdict)
