"""State of modules and changes of it between calls: counters, caches, loaded state, copies, other dtypes."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn as nn

from tests.support.engine import CAPTURES, ENGINE, Recorder, compile, reset
from tests.support.harness import Built, Source, T, same, unrelated


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


# Each is called many times with equal shapes; `most` graphs do for all calls.
KEPT = {
    "counter": (2, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
    def forward(self, x):
        self.steps += 1
        return x * 2
"""),
    "counter that takes part": (3, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
    def forward(self, x):
        self.steps += 1
        return x * self.steps
"""),
    "counter that decides now and then": (4, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
    def forward(self, x):
        self.steps += 1
        return x * 2 if self.steps > 4 else x
"""),
    "counter in a submodule, a dict and an object": (3, """
class Counts:
    def __init__(self): self.calls = 0
    def up(self): self.calls += 1
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0
    def forward(self, x):
        self.seen = self.seen + x.shape[0]
        return x + 1
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.counts, self.table = Inner(), Counts(), {"n": 0}
    def forward(self, x):
        self.counts.up()
        self.table["n"] += 2
        return self.inner(x)
"""),
    "list of losses": (1, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.losses = []
        self.layer = nn.Linear(4, 4)
    def forward(self, x):
        y = self.layer(x)
        self.losses.append(y.square().mean())
        return y
"""),
    "last output": (2, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None
    def forward(self, x):
        y = x if self.last is None else x + self.last.detach()
        self.last = y
        return y
"""),
    "moving average": (1, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.zeros(4))
        self.register_buffer("count", torch.tensor(0))
    def forward(self, x):
        self.count += 1
        with torch.no_grad():
            self.average.lerp_(x.mean(0), 0.1)
        return x - self.average + self.count
"""),
    "float that decays": (4, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 1.0
    def forward(self, x):
        self.rate *= 0.9
        return x * self.rate
"""),
    "cache with a position": (4, """
class Cache:
    def __init__(self):
        self.keys, self.position = torch.zeros(16, 4), 0
    def update(self, k):
        self.keys[self.position:self.position + k.shape[0]] = k
        self.position += k.shape[0]
        return self.keys
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache, self.k = Cache(), nn.Linear(4, 4)
        self.k.requires_grad_(False)
    def forward(self, x):
        return x @ self.cache.update(self.k(x)).t()
"""),
    "memo by key": (2, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = {}
    def table(self, size):
        if size not in self.tables:
            self.tables[size] = torch.arange(size).float()
        return self.tables[size]
    def forward(self, x):
        return x + self.table(x.shape[1])
"""),
    "last ones in a deque": (9, """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.recent = collections.deque(maxlen=3)
    def forward(self, x):
        self.recent.append(x)
        return sum(self.recent)
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_kept_without_compiling_for_every_value(name):
    most, text = KEPT[name]
    source = Source(text + "f = Model()\n")
    same(source, T(2, 4), fullgraph=name != "last ones in a deque", calls=3, compare_dynamo=False, stateful=True)
    if CAPTURES and ENGINE == "stator":
        recorder = Recorder()
        plain, module = source.namespace()["f"], source.namespace()["f"]
        module.load_state_dict(plain.state_dict())
        compiled = compile(module, backend=recorder, fullgraph=False)
        for call in range(7):
            x = torch.full((2, 4), float(call))
            torch.testing.assert_close(compiled(x), plain(x))
        assert recorder.count <= most, [str(graph.graph) for graph in recorder.graphs]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(2, 4, 3, padding=1)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.conv(x)).relu()).mean(-1))


CHANGES = {
    "train and eval": ["PROGRAM.eval()", unrelated("PROGRAM.train()"), unrelated("PROGRAM.eval()"), "PROGRAM.drop.train()"],
    "requires_grad_": ["PROGRAM.requires_grad_(False)", unrelated("PROGRAM.requires_grad_(True)"), "PROGRAM.head.bias.requires_grad_(False)"],
    "to(dtype)": ["PROGRAM.to(torch.float64); ARGS[0] = ARGS[0].double()", "PROGRAM.float(); ARGS[0] = ARGS[0].float()"],
    "to(bfloat16)": ["PROGRAM.bfloat16(); ARGS[0] = ARGS[0].bfloat16()"],
    "load_state_dict": [unrelated("PROGRAM.load_state_dict({k: v + 1 for k, v in PROGRAM.state_dict().items()})")],
    "load_state_dict, assigned": [unrelated("PROGRAM.load_state_dict({k: v.clone() for k, v in PROGRAM.state_dict().items()}, assign=True); PROGRAM.requires_grad_()")],
    "parameter replaced": [unrelated("PROGRAM.head.weight = nn.Parameter(torch.ones(3, 4))"), "PROGRAM.head = nn.Linear(4, 5)", "PROGRAM.head.bias = None"],
    "gradients set to none, frozen by no_grad": ["PROGRAM.zero_grad()", "PROGRAM.norm.momentum = 0.5", "PROGRAM.norm.track_running_stats = False"],
    "apply and modules": ["PROGRAM.apply(lambda m: setattr(m, 'p', 0.9) if isinstance(m, nn.Dropout) else None)"],
    "to_empty and reset": ["PROGRAM.head.reset_parameters()", "PROGRAM.norm.reset_running_stats()"],
    "memory format": ["PROGRAM.conv.weight.data = PROGRAM.conv.weight.data.transpose(0, 2).contiguous().transpose(0, 2)"],
    "share_memory and data": [unrelated("PROGRAM.head.weight.data = torch.ones(3, 4)")],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_model(name):
    same(Built(Net), T(2, 2, 5), mutate=CHANGES[name], tolerance=1e-6)


def by_pickle(module):
    return pickle.loads(pickle.dumps(module))


def by_file(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.skipif(ENGINE == "dynamo", reason="torch.compile wraps modules in a class of its own")
@pytest.mark.parametrize("copied", [copy.deepcopy, by_pickle, by_file, copy.copy])
@pytest.mark.parametrize("called_before", [True, False])
def test_copies_run_and_learn_on_their_own(copied, called_before):
    torch.manual_seed(0)
    module = Net().eval()
    compiled = compile(module)
    x = torch.randn(2, 2, 5)
    if called_before:
        compiled(x)
    twin = copied(compiled)
    assert isinstance(twin, Net) and list(twin.state_dict()) == list(module.state_dict())
    assert torch.equal(twin(x), module(x))
    twin(x).sum().backward()
    shared = copied is copy.copy
    assert (module.head.weight.grad is not None) == shared and twin.head.weight.grad is not None
    twin.train()
    assert twin.training and not module.training
    twin.load_state_dict(Net().state_dict())
    assert torch.equal(twin.head.weight, module.head.weight) == shared


def test_a_compiled_module_inside_another():
    torch.manual_seed(0)
    plain = nn.Sequential(Net().eval(), nn.ReLU())
    model = copy.deepcopy(plain)
    model[0] = compile(model[0])
    x = torch.randn(2, 2, 5)
    assert torch.equal(model(x), plain(x))
    recorder = Recorder()
    outer = compile(model, backend=recorder)
    assert torch.equal(outer(x), plain(x)) and list(outer.state_dict()) == list(plain.state_dict())
    if CAPTURES:
        assert recorder.count == 1


@pytest.mark.parametrize("optimiser", [torch.optim.SGD, torch.optim.Adam])
def test_training_steps(optimiser):
    torch.manual_seed(0)
    plain = Net()
    module = copy.deepcopy(plain)
    recorder = Recorder()
    compiled = compile(module, backend=recorder)
    optimisers = [(one, optimiser(one.parameters(), lr=0.1)) for one in (plain, compiled)]
    for step in range(4):
        x = torch.randn(3, 2, 5)
        losses = []
        for one, steps in optimisers:
            torch.manual_seed(step)
            steps.zero_grad()
            loss = nn.functional.cross_entropy(one(x), torch.tensor([0, 1, 2]))
            loss.backward()
            steps.step()
            losses.append(loss.detach())
        assert torch.equal(*losses)
    for (name, ours), theirs in zip(module.state_dict().items(), plain.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name
    if CAPTURES:
        assert recorder.count == 1


@pytest.mark.skipif(ENGINE == "dynamo", reason="torch.compile wraps modules in a class of its own")
def test_lazy_module_becomes_what_it_initialises():
    for make, argument in (
        (lambda: nn.LazyLinear(3), torch.randn(2, 5)),
        (lambda: nn.LazyConv1d(3, 2), torch.randn(2, 5, 4)),
    ):
        plain, lazy = make(), make()
        compiled = compile(lazy)
        plain(argument), compiled(argument)
        assert type(lazy) is type(plain)
        assert isinstance(compiled, type(plain)) and not isinstance(compiled, nn.modules.lazy.LazyModuleMixin)
        assert type(compiled).__name__ == type(plain).__name__ and repr(compiled) == repr(plain)
        assert torch.equal(compiled(argument), lazy(argument))
        assert list(compiled.state_dict()) == list(plain.state_dict())
