"""Operations on tensors of different dtypes: FakeTensor accepts most of them, the kernels do not."""

import pytest

from tests.support.harness import Source, T, same

PREPARED = """
import torch.nn.functional as F
B, W, K = torch.ones(3), torch.ones(3, 3), torch.tensor([0, 1])
SEEN = []
"""
# `x` is float64[2, 3] or float32[2, 3], the others are float32.
CALLS = [
    "F.linear(x, W)", "F.linear(x, W, B)", "F.linear(x, W * 2, B)", "x @ W", "torch.mm(x, W)", "torch.addmm(B, x, W)", "torch.bmm(x[None], W[None])", "torch.matmul(x[None], W)", "torch.einsum('ij,jk->ik', x, W)",
    "torch.mv(x, B)", "torch.dot(x[0], B)", "torch.inner(x, W)", "torch.outer(x[0], B)", "torch.addmv(B[:2], x, B)", "torch.tensordot(x, W, 1)", "torch.linalg.multi_dot([x, W, W])", "F.bilinear(x, W[:2], torch.ones(1, 3, 3))",
    "F.layer_norm(x, (3,), B, B)", "F.batch_norm(x, B * 0, B, B, B)", "F.group_norm(x, 3, B, B)", "F.instance_norm(x[None], weight=B[:2])", "F.rms_norm(x, (3,), B)", "F.prelu(x, B)",
    "F.conv1d(x[None], W[:2, :2, None])", "F.conv_transpose1d(x[None], W[:2, :2, None])", "F.conv2d(x[None, None], W[None, None, :2])", "F.scaled_dot_product_attention(x[None], W[None], W[None])",
    "x.index_add(0, K, W[:2])", "x.index_copy(0, K, W[:2])", "x.index_put((K,), W[:2])", "x.scatter(0, K[None], W)", "x.masked_scatter(x > 0, W)", "torch.gather(W, 0, x)", "x.clone().index_put_((K,), W[:2])",
    "F.binary_cross_entropy(x.sigmoid(), W[:2])", "F.mse_loss(x, W[:2])", "F.cross_entropy(x, W[:2])", "F.kl_div(x, W[:2], reduction='sum')", "F.smooth_l1_loss(x, W[:2])", "F.nll_loss(x, B[:2])", "F.cosine_similarity(x, W[:2])",
    "torch.cdist(x, W)", "torch.linalg.cross(x, W[:2])", "F.grid_sample(x[None, None], W[None, :2, :2, None].expand(1, 2, 2, 2), align_corners=False)", "torch.lerp(x, W[:2], 0.5)", "torch.where(x > 0, x, W[:2])", "torch.cat([x, W])", "x + W[:2]",
    "torch.clamp(x, B, B)", "torch.addcmul(x, B, B)", "torch.searchsorted(x[0], B)", "F.embedding(x, W)", "torch.kron(x, W)", "F.linear(K[None], W[:, :2])", "K @ W[:2]", "torch.addmm(B, K[None], W[:2])",
]  # fmt: skip


@pytest.mark.parametrize("use", ["return {}", "try:\n        {}\n    except Exception as error:\n        SEEN.append(type(error))\n    return x + 1"], ids=["used", "unused"])  # fmt: skip
@pytest.mark.parametrize("call", CALLS)
def test_as_uncompiled(call, use):
    program = f"{PREPARED}\ndef f(x):\n    SEEN.append(1)\n    {use.format(call)}"
    same(Source(program), T(2, 3), mutate=["ARGS[0] = torch.ones(2, 3, dtype=torch.float64)", "ARGS[0] = torch.ones(2, 3)"],
         fullgraph=False, compare_dynamo=False)  # fmt: skip


# Kernels that exist for some dtypes only.
KERNELS = ["torch.linalg.inv({})", "torch.linalg.det({})", "F.conv1d({}[None], {}[:, :, None])", "torch.cholesky_inverse({})", "F.avg_pool1d({}, 2)", "torch.sinc({})", "torch.fft.fft({})", "torch.erfinv({})",
           "torch.trapezoid({})", "F.layer_norm({}, (3,))", "torch.std({})", "torch.multinomial({}, 1)", "torch.poisson({})", "torch.bernoulli({})", "torch.quantile({}, 0.5)", "torch.median({})", "torch.logcumsumexp({}, 0)",
           "F.interpolate({}[None], 6)", "torch.histc({})", "torch.cdist({}, {})", "torch.triu({})", "F.pad({}, (1, 1), mode='reflect')", "torch.special.i0({})", "torch.renorm({}, 1, 0, 1.0)", "torch.polygamma(1, {})"]  # fmt: skip


@pytest.mark.parametrize("call", KERNELS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "bool", "complex64"])
def test_kernels(call, dtype):
    given = f"torch.eye(3, dtype=torch.{dtype})"
    program = f"{PREPARED}\ndef f(x):\n    a = x.to(torch.{dtype}) if x.shape[0] == 2 else {given}\n    {call.replace('{}', 'a')}\n    return x + 1"
    same(Source(program), T(3, 3), fullgraph=False, compare_dynamo=False)
