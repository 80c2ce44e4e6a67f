"""Parameters that are computed: parametrizations, weight norm, spectral norm, pruning, old and new."""

import pytest

from tests.support.harness import Source, T, same, unrelated

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
import warnings
import torch.nn.utils.parametrize as parametrize
import torch.nn.utils.prune as prune
from torch.nn.utils import parametrizations
class Symmetric(nn.Module):
    def forward(self, w): return w.triu() + w.triu(1).transpose(-1, -2)
    def right_inverse(self, w): return w.triu()
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0))
    def forward(self, w): return w * self.scale
class Pair(nn.Module):
    def forward(self, a, b): return a @ b
    def right_inverse(self, w): return w.clone(), torch.eye(4)
"""

MODELS = {
    "parametrization": "f = nn.Linear(4, 4); parametrize.register_parametrization(f, 'weight', Symmetric())",
    "two parametrizations": """
f = nn.Linear(4, 4)
parametrize.register_parametrization(f, 'weight', Symmetric())
parametrize.register_parametrization(f, 'weight', Scaled())
parametrize.register_parametrization(f, 'bias', Scaled())""",
    "of several tensors": "f = nn.Linear(4, 4); parametrize.register_parametrization(f, 'weight', Pair())",
    "of a buffer": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('table', torch.randn(4, 4))
    def forward(self, x): return x @ self.table
f = Model(); parametrize.register_parametrization(f, 'table', Symmetric())""",
    "inside a model": """
f = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
parametrize.register_parametrization(f[0], 'weight', Symmetric())""",
    "tied": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        parametrize.register_parametrization(self.a, 'weight', Symmetric())
        self.b.parametrizations = self.a.parametrizations
    def forward(self, x): return self.b(self.a(x)) + parametrize.is_parametrized(self.a, 'weight')
f = Model()""",
    "cached": """
m = nn.Linear(4, 4); parametrize.register_parametrization(m, 'weight', Symmetric())
def f(x):
    with parametrize.cached():
        return m(m(x))""",
    "weight norm": "f = parametrizations.weight_norm(nn.Linear(4, 3))",
    "weight norm, other dim": "f = parametrizations.weight_norm(nn.Conv1d(4, 3, 1), dim=1)",
    "weight norm, old": "f = nn.utils.weight_norm(nn.Linear(4, 3))",
    "weight norm, old, inside": "f = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 3)), nn.ReLU())",
    "spectral norm": "f = parametrizations.spectral_norm(nn.Linear(4, 3))",
    "spectral norm, old": "f = nn.utils.spectral_norm(nn.Linear(4, 3))",
    "orthogonal": "f = parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map='cayley')",
    "orthogonal, householder": "f = parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map='householder', use_trivialization=False)",
    "pruned": "f = nn.Linear(4, 3); prune.l1_unstructured(f, 'weight', 0.5)",
}
INPUT = {"weight norm, other dim": T(2, 4, 5)}
# The old forms assign what they compute to the module from a hook.
STATEFUL = {"weight norm, old", "weight norm, old, inside", "spectral norm, old", "pruned"}


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODELS)
def test_parametrized(name, training):
    mode = "" if training or "def f" in MODELS[name] else "\nf.eval()"
    same(
        Source(HEAD + MODELS[name] + mode), INPUT.get(name, T(2, 4)), calls=3,
        compare_dynamo=name not in STATEFUL,
    )  # fmt: skip


CHANGES = {
    "parametrization": [
        unrelated("f.parametrizations.weight.original.data.mul_(2)"), "f.weight = torch.eye(4)",
        "parametrize.register_parametrization(f, 'weight', Scaled())", "parametrize.remove_parametrizations(f, 'weight')",
    ],
    "inside a model": ["parametrize.register_parametrization(f[2], 'weight', Scaled())", "parametrize.remove_parametrizations(f[0], 'weight', leave_parametrized=False)"],
    "weight norm": ["f.parametrizations.weight.original0.data.mul_(2)", "parametrize.remove_parametrizations(f, 'weight')"],
    "weight norm, old": ["f.weight_g.data.mul_(2)", "nn.utils.remove_weight_norm(f)"],
    "spectral norm": ["f.eval()", "f.train()", "parametrize.remove_parametrizations(f, 'weight')"],
    "spectral norm, old": ["f.eval()", "f.train()", "nn.utils.remove_spectral_norm(f)"],
    "pruned": ["prune.random_unstructured(f, 'weight', 0.3)", "prune.remove(f, 'weight')"],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_parametrized_after_changes(name):
    same(Source(HEAD + MODELS[name]), T(2, 4), mutate=CHANGES[name], compare_dynamo=False, fullgraph=False)


@pytest.mark.parametrize("name", ["orthogonal", "orthogonal, householder", "spectral norm", "weight norm", "cached"])
def test_parametrized_with_a_backend(name):
    same(
        Source(HEAD + MODELS[name]), T(2, 4, grad=True), calls=3, compare_dynamo=False, fullgraph=False,
        backend="aot_eager", tolerance=1e-5,
    )  # fmt: skip
