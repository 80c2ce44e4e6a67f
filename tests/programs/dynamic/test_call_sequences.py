"""Sizes that change between calls: the same results as uncompiled, from few captures."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import stator
from tests.support import engine
from tests.support.changing_sizes import captures_of
from tests.support.compare import assert_same

LENGTHS = random.Random(7).sample(range(17, 200), 12)


def sequences(*shape, lengths=LENGTHS):
    """One tensor for each length, which takes the place of `None` in the shape."""
    return [(torch.randn([length if size is None else size for size in shape]),) for length in lengths]


PROGRAMS = {
    "elementwise": (lambda x: torch.relu(x) * 2 + 1, (None, 4)),
    "reduction": (lambda x: x.sum(0) + x.mean(dim=(0, 1)), (None, 4)),
    "softmax": (lambda x: x.softmax(0).log(), (None, 4)),
    "matmul": (lambda x: x @ x.transpose(-1, -2), (2, None, 4)),
    "view": (lambda x: x.view(x.shape[0] * 2, -1).sum(1), (None, 4)),
    "reshape": (lambda x: x.reshape(x.size(0), 2, -1).transpose(1, 2).contiguous().flatten(1), (None, 8)),
    "flatten": (lambda x: x.flatten(0, 1) + 1, (3, None, 4)),
    "permute": (lambda x: x.permute(2, 0, 1).reshape(x.shape[2], -1), (None, 5, 3)),
    "expand": (lambda x: x.unsqueeze(0).expand(3, -1, -1) * 2, (None, 4)),
    "cat": (lambda x: torch.cat([x, x[:3]]).cumsum(0), (None, 3)),
    "stack": (lambda x: torch.stack([x, x + 1]).amax(0), (None, 3)),
    "split": (lambda x: torch.cat([part * 2 for part in x.split(x.shape[0] // 2 + 1)]), (None, 3)),
    "chunks": (lambda x: torch.cat([part * 2 for part in x.chunk(2)]), (None, 3)),
    "chunk of features": (lambda x: x.chunk(2, -1)[0] * x.chunk(2, -1)[1], (None, 6)),
    "slices": (lambda x: x[: x.shape[0] // 2] + x[-(x.shape[0] // 2) :], (None, 3)),
    "first and last": (lambda x: x[0] + x[-1] + x[1:-1].sum(0), (None, 3)),
    "steps": (lambda x: x[1:-1:1] * 2, (None, 3)),
    "arange": (lambda x: x + torch.arange(x.shape[0]).unsqueeze(1), (None, 3)),
    "zeros": (lambda x: torch.zeros(x.shape[0], 2) + x[:, :2], (None, 3)),
    "ones_like": (lambda x: torch.ones_like(x) * x.new_zeros(x.shape), (None, 3)),
    "tril": (lambda x: torch.ones(x.shape[0], x.shape[0]).tril() @ x, (None, 3)),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 1.0), (None, 3)),
    "where": (lambda x: torch.where(x > 0, x, -x), (None, 3)),
    "norm": (lambda x: F.layer_norm(x, (8,)) + F.normalize(x, dim=0), (None, 8)),
    "numel": (lambda x: x / x.numel(), (None, 3)),
    "returns ints": (lambda x: (x.shape[0] * 2 + 1, x.numel(), tuple(x.stride())), (None, 3)),
    "returns a size": (lambda x: (x + 1).shape, (None, 3)),
    "interpolate": (lambda x: F.interpolate(x, size=(16, 16)), (1, 2, None, 32)),
    "pad": (lambda x: F.pad(x, (1, 2)), (3, None)),
    "einsum": (lambda x: torch.einsum("bld,bmd->blm", x, x), (2, None, 4)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x), (2, 2, None, 8)),
    "in place": (lambda x: x.add_(1).mul_(2), (None, 3)),
    "gather": (lambda x: x.gather(0, torch.zeros(1, 3, dtype=torch.long)), (None, 3)),
    "topk": (lambda x: x.topk(3, 0)[0], (None, 3)),
    "sort": (lambda x: x.sort(0)[0], (None, 3)),
    "roll": (lambda x: x.roll(1, 0), (None, 3)),
    "dropout": (lambda x: F.dropout(x, 0.5), (None, 3)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_captures_serve_all_lengths(name):
    program, shape = PROGRAMS[name]
    assert captures_of(program, sequences(*shape)) == 2


@pytest.mark.parametrize("name", ["elementwise", "reshape", "cat", "slices", "attention", "norm", "einsum", "expand"])
def test_gradients(name):
    program, shape = PROGRAMS[name]
    assert captures_of(program, sequences(*shape), backward=True) == 2


def test_two_dimensions_at_once():
    calls = [(torch.randn(a, b, 3),) for a, b in zip(LENGTHS, LENGTHS[::-1], strict=True)]
    assert captures_of(lambda x: x.permute(2, 0, 1).reshape(x.shape[2], -1).mean(0), calls) == 2


def test_a_smaller_last_batch():
    assert captures_of(lambda x: (x @ x.T).sum(1), sequences(None, 4, lengths=[32, 32, 32, 7, 32, 5])) == 2


def test_sizes_of_zero_and_one_are_captured_by_themselves():
    lengths = [8, 1, 5, 1, 7, 0, 9, 0, 1, 4]
    assert captures_of(lambda x: x.relu().sum(0), sequences(None, 4, lengths=lengths)) == 4


def test_tensors_that_share_a_size():
    calls = [(torch.randn(length, 3), torch.randn(length, 3)) for length in LENGTHS]
    assert captures_of(lambda x, y: x * y, calls) == 2
    # Where the two sizes differ it is another program.
    calls += [(torch.randn(5, 3), torch.randn(1, 3)), (torch.randn(9, 3), torch.randn(1, 3))]
    assert captures_of(lambda x, y: x * y, calls) == 3


def test_tensors_with_sizes_of_their_own():
    calls = [(torch.randn(a, 3), torch.randn(b, 3)) for a, b in zip(LENGTHS, LENGTHS[::-1], strict=True)]
    assert captures_of(lambda x, y: torch.cat([x, y]) + 1, calls) <= 3


def test_a_branch_is_captured_once_for_each_side():
    assert captures_of(lambda x: x + 1 if x.shape[0] > 100 else x - 1, sequences(None, 3)) == 3


def test_a_number_that_is_needed_specializes():
    assert captures_of(lambda x: f"{x.shape[0]}", sequences(None, 3, lengths=[5, 6, 5, 6, 6])) == 2


def test_range_over_a_size():
    def program(x):
        total = x.sum()
        for number in range(x.shape[0]):
            total = total + number
        return total

    assert captures_of(program, sequences(None, 3, lengths=[3, 4, 3, 4])) == 2


def test_mlp_and_encoder():
    mlp = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 8))
    assert captures_of(mlp, sequences(None, 8)) == 2
    encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    assert captures_of(encoder, sequences(3, None, 16)) == 2


def test_images_of_several_resolutions():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    ).eval()
    sizes = [(32, 32), (48, 48), (64, 64), (40, 40), (33, 33), (47, 47)]
    assert captures_of(net, [(torch.randn(2, 3, *size),) for size in sizes]) <= 3


def test_channels_last():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()).to(memory_format=torch.channels_last)
    calls = [(torch.randn(2, 3, n, n).to(memory_format=torch.channels_last),) for n in (8, 12, 16, 20)]
    compiled = stator.compile(net)
    for (x,) in calls:
        assert_same(net(x), compiled(x))


def test_embedding_of_tokens():
    embedding = nn.Embedding(50, 8)
    calls = [(torch.randint(50, (2, length)),) for length in LENGTHS]
    assert captures_of(lambda tokens: embedding(tokens).mean(1), calls) == 2


def test_ints_as_sizes():
    x = torch.randn(300, 3)
    assert captures_of(lambda x, n: x[:n] * n, [(x, length) for length in LENGTHS]) == 2
    assert captures_of(lambda n: torch.arange(n) + 1, [(length,) for length in LENGTHS]) == 2
    assert captures_of(lambda n: torch.zeros(n, 2).sum(1), [(length,) for length in LENGTHS]) == 2


def test_dynamic_true_makes_symbols_in_the_first_call():
    calls = [(torch.randn(a, b), torch.randn(b, a)) for a, b in [(3, 5), (4, 7), (9, 2), (2, 6)]]
    assert captures_of(lambda x, y: x @ y, calls, dynamic=True) == 1


def test_dynamic_false_specializes():
    assert captures_of(lambda x: x + 1, sequences(None, lengths=[3, 4, 5]), dynamic=False) == 3


def test_parameters_are_static():
    layers = [nn.Linear(4, n) for n in (3, 5, 7)]
    compiled = stator.compile(lambda layer, x: layer(x))
    for layer in layers:
        x = torch.randn(2, 4)
        assert_same(layer(x), compiled(layer, x))


def test_changed_layout_is_another_capture():
    program = lambda x: x.reshape(-1) + 1  # noqa: E731
    engine.reset()
    compiled = stator.compile(program, fullgraph=True)
    for x in (torch.randn(4, 6), torch.randn(5, 6), torch.randn(6, 7).T, torch.randn(8, 9)[:, :6], torch.randn(9, 6)):
        assert_same(program(x), compiled(x))


@pytest.mark.parametrize("length", [2**31 - 1, 2**31, 2**31 + 1])
def test_sizes_beyond_32_bits(length):
    program = lambda x: x[: x.shape[0] - 1].stride() + (x.shape[0] * x.shape[0],)  # noqa: E731
    compiled = stator.compile(program)
    for size in (4, 5, length):
        x = torch.zeros(1).expand(size)
        assert program(x) == compiled(x)
