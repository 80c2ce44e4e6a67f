"""`torch.utils.checkpoint`: recomputation in the backward pass, with the same random numbers."""

import gc

import pytest
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

from tests.support.engine import CAPTURES, Recorder, compile, reset
from tests.support.harness import Source, T, same, unrelated

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
from torch.utils.checkpoint import checkpoint, noop_context_fn
again = functools.partial(checkpoint, use_reentrant=False)
layer = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
dropping = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Tanh())
log = []
"""
WHOLE = {
    "a module": "def f(x): return again(layer, x) + 1",
    "a function": "def g(a, b, scale=1): return (a * b).sin() * scale\ndef f(x): return again(g, x, x + 1, scale=3)",
    "dropout": "def f(x): return again(dropping, x) * 2",
    "dropout, with other random numbers around": "def f(x): return again(dropping, x * torch.rand(4)) + torch.rand(4)",
    "one after the other": "def f(x):\n    for _ in range(3): x = again(dropping, x)\n    return x",
    "one in the other": "def g(x): return again(dropping, layer(x)).exp()\ndef f(x): return again(g, x)",
    "several results": "def g(x): return {'a': x.exp(), 'b': [x.sin(), 3, (x * 2, None)]}\ndef f(x):\n    r = again(g, x)\n    return r, r['a'] + r['b'][0]",
    "a result that is an argument": "def g(x, y): return y, x.exp(), x\ndef f(x):\n    y = x * 2\n    a, b, c = again(g, x, y)\n    return a + b, a is y, c is x",
    "a result that is a view": "def g(x): return x.exp().view(2, 2, 2).transpose(0, 1), x.t()\ndef f(x):\n    a, b = again(g, x)\n    return a * 2, b + 1",
    "an argument converted to what it is": "def g(x):\n    y = x.to(torch.float32).contiguous()\n    return y * 2\ndef f(x):\n    y = x + 1\n    return again(g, y) + y * y",
    "a closure": "def f(x):\n    w = x.sum()\n    def g(y): return (y * w).sigmoid()\n    return again(g, x) * w",
    "writes to its own": "def g(x):\n    y = x * 2\n    y.add_(1)\n    y[0] = 0\n    return y.tanh()\ndef f(x): return again(g, x)",
    "parts without gradients": "def g(x):\n    with torch.no_grad(): s = x.abs().max()\n    return x / s, s\ndef f(x): return again(g, x)",
    "no gradients": "def f(x):\n    with torch.no_grad(): return again(dropping, x)",
    "all options": "def f(x): return checkpoint(dropping, x, use_reentrant=False, preserve_rng_state=True, determinism_check='none', debug=False, early_stop=False, context_fn=noop_context_fn)",
    "a method, with what the module has": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.register_buffer('offset', torch.ones(4))
        self.training_scale = 2.0
    def block(self, layer, x, *, gain): return layer(x).relu() * gain + self.offset * self.training_scale
    def forward(self, x):
        for layer in self.layers: x = x + again(self.block, layer, x, gain=2)
        return x
f = Model()""",
    "hooks of modules": "layer[0].register_forward_hook(lambda m, a, o: o * 2)\nlayer.register_forward_pre_hook(lambda m, a: (a[0] + 1,))\ndef f(x): return again(layer, x)",
    "a module of several segments": "from torch.utils.checkpoint import checkpoint_sequential\ndef f(x): return checkpoint_sequential(dropping, 2, x, use_reentrant=False)",
    "an object as the result": "@dataclasses.dataclass\nclass Pair:\n    a: torch.Tensor\n    n: int\ndef g(x): return Pair(x * 2, 3)\ndef f(x):\n    pair = again(g, x)\n    return pair.a * pair.n, pair",
    "the other kind": "def f(x): return checkpoint(dropping, x, use_reentrant=True) + 1",
    "the other kind, with several arguments": "def g(x, y, n): return (x * y).sin() * n, y + 1\ndef f(x):\n    a, b = checkpoint(g, x, x * 2, 3, use_reentrant=True)\n    return a * b, a.requires_grad",
    "contexts": "def contexts(): return contextlib.nullcontext(), contextlib.nullcontext()\ndef f(x): return again(layer, x, context_fn=contexts) + 1",
    "a policy": """
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
def policy(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE
def contexts(): return create_selective_checkpoint_contexts(policy)
def f(x): return again(layer, x, context_fn=contexts) * 2""",
    "in autocast": "def f(x):\n    with torch.autocast('cpu', dtype=torch.bfloat16): return again(layer, x).float()",
    "questions about the result": "def f(x):\n    y = again(layer, x)\n    return y + 1, y.requires_grad, y.is_leaf, y.shape, y.dtype",
}


# Compilers take only contexts that mark operations.
FOR_EAGER = "contexts"


@pytest.mark.parametrize(
    "name, backend",
    [(name, backend) for name in WHOLE for backend in (None, "aot_eager") if name != FOR_EAGER or not backend],
)
def test_captured_whole(name, backend):
    same(
        Source(HEAD + WHOLE[name]), T(2, 4, grad=True), calls=3, backend=backend, compare_dynamo=False,
        tolerance=None if backend is None else 0.02 if "autocast" in name else 1e-5,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_hooks_left():
    """An exception that leaves a checkpointed function keeps PyTorch's hooks on saved tensors in force until it is freed."""
    yield
    gc.collect()


BREAKS = {
    "an effect": "def g(x):\n    log.append(1)\n    return x * 2\ndef f(x): return again(g, x) + 1",
    "a change of an object of the program": "def g(x):\n    layer.seen = x.detach()\n    return x * 2\ndef f(x): return again(g, x) + 1",
    "a change of something new": "def f(x):\n    kept = []\n    def g(y):\n        kept.append(y * 2)\n        return kept[-1]\n    return again(g, x) + 1, len(kept)",
    "a variable of the function around": "def f(x):\n    n = 0\n    def g(y):\n        nonlocal n\n        n += 1\n        return y * n\n    return again(g, x), n",
    "a write to an argument": "def g(x):\n    x.mul_(2)\n    return x.sin()\ndef f(x): return again(g, x * 1)",
    "a buffer that is written to": "norm = nn.BatchNorm1d(4)\ndef f(x): return again(norm, x) * 2",
    "an exception": "def g(x): raise ValueError('no')\ndef f(x):\n    try: return again(g, x)\n    except ValueError as error: return x + 1, str(error)",
    "an exception that is not caught": "def g(x): raise ValueError('no')\ndef f(x): return again(g, x)",
    "a break inside": "def g(x):\n    print('here')\n    return x * 2\ndef f(x): return again(g, x) + 1",
    "the other kind, with a view": "def g(x): return x.exp().view(4, 2)\ndef f(x): return checkpoint(g, x, use_reentrant=True) + 1",
    "the other kind, without gradients of its arguments": "def f(x): return checkpoint(layer, x.detach(), use_reentrant=True) + x",
    "the other kind, which reads the grad mode": "def g(x): return x * 2 if torch.is_grad_enabled() else x * 2 + 0\ndef f(x): return checkpoint(g, x, use_reentrant=True) + 1",
    "contexts that are made inside": "def f(x):\n    def contexts(): return contextlib.nullcontext(), contextlib.nullcontext()\n    return again(layer, x, context_fn=contexts) + 1",
    "an unknown check": "def f(x):\n    try: return again(layer, x, determinism_check='what')\n    except ValueError as error: return x + 1, str(error)",
    "an operation that fails": "def g(x): return x @ x\ndef f(x):\n    try: return again(g, x)\n    except RuntimeError as error: return x + 1, str(error)",
    "a failure for the values, behind random numbers": """
def g(x): return torch.linalg.cholesky(F.dropout(x.t() @ x) - 5 * torch.eye(4))
def f(x):
    z = torch.rand(4)
    try: return again(g, x) + z
    except RuntimeError: return x + torch.rand(4)""",
    "a write to a result": "def g(x): return x.exp().view(4, 2)\ndef f(x):\n    y = again(g, x)\n    y.mul_(2)\n    y[0] = 1\n    return y.sin()",
    "a write to a result that is a view of another": "def g(x):\n    y = x.exp()\n    return y, y.view(4, 2)\ndef f(x):\n    a, b = again(g, x)\n    a.mul_(2)\n    return a.sin(), b * 1",
    "a hook of a module on gradients inside": "layer[0].register_full_backward_hook(lambda m, i, o: log.append('backward'))\ndef f(x): return again(layer, x)",
    "a generator as the result": "def g(x): return (x * i for i in range(3))\ndef f(x): return sum(again(g, x))",
    "a function of autograd inside": """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 2
    @staticmethod
    def backward(ctx, g): return g * 2
def f(x): return again(Double.apply, x) + 1""",
}


# With other backends such an exception leaves where the captured part began.
FAILS = "a failure for the values, behind random numbers"


@pytest.mark.parametrize(
    "name, backend",
    [(name, backend) for name in BREAKS for backend in (None, "aot_eager") if name != FAILS or not backend],
)
def test_not_captured(name, backend):
    same(
        Source(HEAD + BREAKS[name]), T(2, 4, grad=True), calls=3, backend=backend, compare_dynamo=False, fullgraph=False,
        stateful=True, tolerance=None if backend is None else 1e-5,
    )  # fmt: skip


def test_after_changes():
    same(
        Source(HEAD + "def f(x): return again(dropping, x) + again(layer, x)"), T(2, 4, grad=True), compare_dynamo=False,
        mutate=[
            "dropping.eval()", "dropping.train()", "layer[0].weight = nn.Parameter(torch.ones(8, 4))", "dropping[1].p = 0.1",
            "layer[0].register_forward_hook(lambda m, a, o: o * 2)", "layer.requires_grad_(False)",
        ],
    )  # fmt: skip


def test_a_policy_that_is_made_anew():
    """What a policy is made of is guarded, not which object it is."""
    same(
        Source(HEAD + """
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts
def policy(saved, ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op in saved else CheckpointPolicy.PREFER_RECOMPUTE
saved = {torch.ops.aten.addmm.default}
def contexts_of(policy): return functools.partial(create_selective_checkpoint_contexts, policy)
contexts = contexts_of(functools.partial(policy, saved))
def f(x): return again(layer, x, context_fn=contexts) * 2"""), T(2, 4, grad=True), compare_dynamo=False,
        mutate=[
            unrelated("contexts = contexts_of(functools.partial(policy, set(saved)))"),
            "saved.add(torch.ops.aten.gelu.default)\ncontexts = contexts_of(functools.partial(policy, saved))",
            "contexts = contexts_of(functools.partial(lambda *args: CheckpointPolicy.MUST_SAVE, saved))",
            "contexts = contexts_of([torch.ops.aten.addmm.default])",
            unrelated("contexts = contexts_of([torch.ops.aten.addmm.default])"),
        ],
    )  # fmt: skip


def test_what_is_computed_again_is_not_kept():
    """The graph is computed twice, and its results are not kept in between."""
    if not CAPTURES:
        pytest.skip("counts what a captured graph does")
    reset()
    seen = []

    layer = nn.Sequential(nn.Linear(4, 6), nn.Sigmoid())
    recorder = Recorder()
    compiled = compile(lambda x: checkpoint(layer, x, use_reentrant=False).sum(), backend=recorder, fullgraph=True)
    x = torch.ones(2, 4, requires_grad=True)

    def keep(tensor):
        seen.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = compiled(x)
    assert recorder.count == 1
    assert (2, 6) not in seen, "only what the part reads is held"
    loss.backward()
    assert x.grad is not None and layer[0].weight.grad is not None
    reset()
