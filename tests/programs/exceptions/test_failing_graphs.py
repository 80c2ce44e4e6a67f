"""Operations that raise because of their data in the middle of a graph: as uncompiled, whatever the graph did
before."""

import pytest
import torch

from tests.support.harness import Source, T, same

PREPARED = """
import torch.nn.functional as F
TABLE = torch.arange(12.0).reshape(4, 3)
SEEN, COUNT = [], torch.zeros(())
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.steps, self.log = nn.BatchNorm1d(3), 0, []
        self.register_buffer('calls', torch.zeros((), dtype=torch.long))
    def forward(self, x):
        self.steps += 1
        self.calls.add_(1)
        x = self.norm(x)
        self.log.append(x)
        return x
net = Counter()
"""
# `k` is an index that is too large in the second call.
PROGRAMS = {
    "nothing written": "def f(x, k):\n    y = x + 1\n    z = F.embedding(k, TABLE)\n    return y + z",
    "a write before": "def f(x, k):\n    y = x + 1\n    COUNT.add_(1)\n    z = F.embedding(k, TABLE)\n    return y + z",
    "a write to an argument": "def f(x, k):\n    y = x * 2\n    x.add_(1)\n    z = F.embedding(k, TABLE)\n    return y + z + x",
    "caught": """
def f(x, k):
    y = x + 1
    x.add_(1)
    SEEN.append(1)
    try:
        y = y * 2
        z = F.embedding(k, TABLE)
        SEEN.append(2)
    except IndexError as error:
        SEEN.append(str(error))
        return y - 1, x
    finally:
        SEEN.append(3)
    return y + z
""",
    "caught around a call": """
def inner(y, k):
    w = y * 3
    COUNT.add_(2)
    SEEN.append(w)
    z = F.embedding(k, TABLE)
    return z + w
def f(x, k):
    y = x + 1
    try:
        return inner(y, k)
    except IndexError:
        return y, SEEN
""",
    "not caught, three frames down": """
def first(y, k):
    COUNT.mul_(2).add_(1)
    return F.embedding(k, TABLE) * y
def second(y, k):
    SEEN.append('second')
    return first(y + 1, k) + 1
def f(x, k):
    SEEN.append('f')
    return second(x * 2, k) - 1
""",
    "in a loop": """
def f(x, k):
    for i in range(3):
        x.mul_(2)
        SEEN.append(i)
        x = x + F.embedding(k * i, TABLE)
    return x
""",
    "a module in training": """
def f(x, k):
    y = net(x)
    z = y * 2
    return F.cross_entropy(z, k), z
""",
    "a module in training, caught": """
def f(x, k):
    y = net(x)
    try:
        return F.cross_entropy(y * 2, k)
    except IndexError as error:
        net.log.append(str(error))
        return y
""",
    "random numbers before": """
def f(x, k):
    y = F.dropout(x, 0.5)
    try:
        return y + F.embedding(k, TABLE)
    except IndexError:
        return y, torch.rand(2)
""",
    "what is not needed any more": """
def f(x, k):
    a = x + 1
    b = a * 2
    c = b.sum()
    COUNT.add_(1)
    try:
        return c + F.embedding(k, TABLE)
    except IndexError:
        return a, b
""",
    "without gradients": """
def f(x, k):
    with torch.no_grad():
        y = x + 1
        COUNT.add_(1)
        try:
            z = F.embedding(k, TABLE)
        except IndexError:
            z = torch.is_grad_enabled()
    return y, z, torch.is_grad_enabled()
""",
    "under autocast": """
def f(x, k):
    with torch.autocast('cpu', dtype=torch.bfloat16):
        y = x @ x.t()
        COUNT.add_(1)
        z = F.embedding(k, TABLE)
    return y, z
""",
    "in a generator": """
def produce(x, k):
    yield x + 1
    COUNT.add_(1)
    yield F.embedding(k, TABLE)
def f(x, k):
    out = []
    try:
        for y in produce(x, k):
            out.append(y)
    except IndexError:
        out.append(COUNT)
    return out
""",
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_fails_as_uncompiled(name):
    bad, good = "ARGS[1] = torch.tensor([9, 9, 9])", "ARGS[1] = torch.tensor([1, 0, 1])"
    same(Source(PREPARED + PROGRAMS[name]), T(3, 3), lambda: torch.tensor([0, 1, 2]), mutate=[bad, good, bad],
         fullgraph=False, compare_dynamo=False, calls=2, stateful=True)  # fmt: skip


def test_another_backend_fails_before_anything_is_seen():
    same(Source(PREPARED + PROGRAMS["nothing written"]), T(3, 3), lambda: torch.tensor([0, 1, 2]),
         mutate=["ARGS[1] = torch.tensor([9, 9, 9])"], fullgraph=False, compare_dynamo=False, backend="aot_eager",
         tolerance=1e-5)  # fmt: skip


# The results of these are not used. `k` holds zeros and small numbers in one call, and 9 or 0 in another.
UNUSED = {
    "gather": "x.gather(0, k.expand(3, 3))", "take": "torch.take(x, k * 3)", "index": "x[k]", "index behind": "x[:, k]",
    "index_select": "x.index_select(0, k)", "embedding": "F.embedding(k, TABLE)", "one_hot": "F.one_hot(k, 4)",
    "cross_entropy": "F.cross_entropy(x, k)", "nll_loss": "F.nll_loss(x, k)", "scatter": "x.scatter(0, k[None], 1.0)",
    "index_fill": "x.index_fill(1, k, 2.0)", "index_put": "x.index_put((k,), x)", "take_along_dim": "torch.take_along_dim(x, k[None], 0)",
    "floor": "10 // (9 - k)", "remainder": "torch.tensor([7]) % (9 - k)", "divided": "torch.div(k, 9 - k, rounding_mode='floor')",
    "behind another": "x[k].sum().sin()", "probabilities": "F.binary_cross_entropy(x[0].sigmoid() * k, x[1].sigmoid())",
}  # fmt: skip


@pytest.mark.parametrize("after", ["x + 1", "1"])
@pytest.mark.parametrize("name", UNUSED)
def test_what_nobody_uses_fails_too(name, after):
    program = f"{PREPARED}\ndef f(x, k):\n    SEEN.append(len(SEEN))\n    {UNUSED[name]}\n    return {after}"
    bad, good = "ARGS[1] = torch.tensor([9, 9, 9])", "ARGS[1] = torch.tensor([1, 0, 1])"
    same(Source(program), T(3, 3), lambda: torch.tensor([0, 1, 2]), mutate=[bad, good, bad], fullgraph=False,
         compare_dynamo=False, calls=2)  # fmt: skip
