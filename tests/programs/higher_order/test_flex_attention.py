"""`flex_attention`: the functions for scores and masks are subgraphs, what they read are operands."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import stator
from tests.support.harness import Source, T, same

pytestmark = pytest.mark.filterwarnings("ignore")

# (Uncompiled, PyTorch compiles the functions, and imports the module of their globals.)
HEAD = f"""
__name__ = {__name__!r}
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
bias = torch.linspace(0, 1, 16).reshape(2, 8)
documents = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2])
def causal(b, h, q, k): return q >= k
def same_document(b, h, q, k): return documents[q] == documents[k]
mask = create_block_mask(causal, None, None, 8, 8, device="cpu", BLOCK_SIZE=4)
"""
bias = torch.linspace(0, 1, 16).reshape(2, 8)
documents = torch.tensor([0, 0, 0, 1, 1, 1, 1, 2])
PROGRAMS = {
    "without functions": "def f(q, k, v): return flex_attention(q, k, v)",
    "a score": "def f(q, k, v):\n    scale = 0.5\n    return flex_attention(q, k, v, lambda s, b, h, i, j: torch.tanh(s / scale) + (i - j), scale=0.3)",
    "tensors of a closure": "def f(q, k, v):\n    w = bias * 2\n    return flex_attention(q, k, v, lambda s, b, h, i, j: s + bias[h, j] * w[h][i])",
    "a mask": "def f(q, k, v): return flex_attention(q, k, v, block_mask=mask)",
    "a mask that is made inside": "def f(q, k, v):\n    made = create_block_mask(same_document, None, None, 8, 8, device='cpu', BLOCK_SIZE=4)\n    return flex_attention(q, k, v, block_mask=made), made.kv_num_blocks, made.sparsity()",
    "other results, and another layout": "def f(q, k, v):\n    out, aux = flex_attention(q.transpose(1, 2).contiguous().transpose(1, 2), k, v, block_mask=mask, return_aux=AuxRequest(lse=True))\n    return out.stride(), out, aux.lse",
    "groups of heads": "def f(q, k, v): return flex_attention(q, k[:, :1], v[:, :1], block_mask=mask, enable_gqa=True)",
    "autocast": "def f(q, k, v):\n    with torch.autocast('cpu', torch.bfloat16):\n        out = flex_attention(q, k, v, lambda s, b, h, i, j: s * 2, mask)\n        return out.dtype, out, flex_attention(q.double(), k.double(), v.double())",
    "what PyTorch refuses": "def f(q, k, v): return flex_attention(q, k[:, :, :4], v[:, :, :4], block_mask=mask)",
}  # fmt: skip
SHAPE = T(2, 2, 8, 4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    # (Inside of create_mask, torch._dynamo applies an autograd function where the graph has `aten.index`.)
    same(Source(HEAD + PROGRAMS[name]), SHAPE, SHAPE, SHAPE, compare_dynamo="inside" not in name)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    def program(q, k, v, scores):
        return flex_attention(q, k, v, lambda s, b, h, i, j: s * scores[h] + bias[h, j] + (i - j) * 0.1)

    # (PyTorch has no backward pass for queries, keys and values on this device.)
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 8, 4) for _ in range(3))
    gradients = []
    for run in (program, stator.compile(program, backend=backend, fullgraph=True)):
        scores = torch.tensor([0.5, 2.0], requires_grad=True)
        for _ in range(2):
            run(q, k, v, scores).square().sum().backward()
        gradients.append(scores.grad)
    torch.testing.assert_close(gradients[0], gradients[1])


def test_a_backward_pass_that_torch_does_not_have():
    grad = T(1, 2, 8, 4, grad=True)
    same(Source(HEAD + PROGRAMS["without functions"]), grad, grad, grad, compare_dynamo=False)


def test_what_it_depends_on_is_guarded():
    state = {"shift": 1.0, "window": 2}

    def score(s, b, h, i, j):
        return s + state["shift"] * (i - j)

    def window(b, h, i, j):
        return (i - j).abs() <= state["window"]

    def program(q, mask):
        return flex_attention(q, q, q, score, mask)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    q = torch.randn(1, 2, 8, 4)
    masks = [create_block_mask(window, None, None, 8, 8, device="cpu", BLOCK_SIZE=size) for size in (4, 8)]
    changes = [("shift", 1.0), ("shift", 2.5), ("window", 1), ("window", 3)]
    for key, value in changes:
        state[key] = value
        for mask in masks:
            places = torch.arange(8)[:, None] - torch.arange(8)
            scores = q @ q.transpose(-2, -1) / 2 + state["shift"] * places
            scores = scores.masked_fill(places.abs() > state["window"], float("-inf"))
            torch.testing.assert_close(compiled(q, mask), scores.softmax(-1) @ q)


def test_lengths_that_change():
    def program(q, k, v, lengths):
        made = create_block_mask(
            lambda b, h, i, j: j < lengths[b], 2, None, q.shape[2], k.shape[2], device="cpu", BLOCK_SIZE=4
        )
        return flex_attention(q, k, v, block_mask=made)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for length in (8, 12, 16):
        q, k, v = (torch.randn(2, 2, length, 4) for _ in range(3))
        lengths = torch.tensor([length - 3, 2])
        scores = (q @ k.transpose(-2, -1) / 2).masked_fill(
            torch.arange(length) >= lengths[:, None, None, None], float("-inf")
        )
        torch.testing.assert_close(compiled(q, k, v, lengths), scores.softmax(-1) @ v)


SEEN: list[int] = []


@pytest.mark.parametrize(
    "score",
    [
        lambda s, b, h, i, j: SEEN.append(1) or s,
        lambda s, b, h, i, j: s.add_(bias.add_(1)[0, 0]),
        lambda s, b, h, i, j: s if s > 0 else -s,
        lambda s, b, h, i, j: (s, s),
    ],
)
def test_what_is_not_captured(score):
    q = torch.randn(1, 2, 8, 4)
    with pytest.raises(stator.Unsupported):
        stator.compile(lambda q: flex_attention(q, q, q, score), backend="eager", fullgraph=True)(q)
    assert not SEEN


def test_a_call_of_a_container_type():
    same(lambda x: (dict[str, int](a=1), list[int]((1, 2)), tuple[int, ...](), set[int](), x + 1), T(2))
