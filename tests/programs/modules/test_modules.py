"""Modules: layers of torch.nn, containers, user-defined modules, state that changes between calls."""

import collections
import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from tests.support.engine import CAPTURES, Recorder, compile, reset
from tests.support.harness import Built, T, captured, same, unrelated


class MLP(nn.Module):
    def __init__(self, size=4, hidden=5, activation="relu"):
        super().__init__()
        self.first = nn.Linear(size, hidden)
        self.second = nn.Linear(hidden, size)
        self.activation = activation
        self.scale = 2

    def act(self, x):
        return getattr(torch, self.activation)(x)

    def forward(self, x, residual=True, *, scale=None):
        y = self.second(self.act(self.first(x)))
        y = y * (self.scale if scale is None else scale)
        return x + y if residual else y


class WithState(nn.Module):
    factor = 3

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))
        self.register_buffer("offset", torch.arange(4.0))
        self.register_buffer("absent", None)
        self.register_buffer("temporary", torch.ones(4), persistent=False)
        self.register_parameter("bias", None)
        self.plain = torch.ones(4) * 3
        self.shapes = [4, 5]
        self.table = {"k": 2.0}

    @property
    def doubled(self):
        return self.weight * 2

    def forward(self, x):
        y = x * self.weight + self.offset + self.temporary * self.factor + self.plain
        if self.bias is not None:
            y = y + self.bias
        if self.absent is None and self.training:
            y = y * self.table["k"]
        return y + self.doubled + self.shapes[0]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, i):
        return self.head(self.embedding(i))


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.named = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4) * k) for k in range(2)])
        self.by_name = nn.ParameterDict({"a": nn.Parameter(torch.ones(4))})
        self.steps = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(nn.Linear(4, 4)))

    def forward(self, x):
        for k, layer in enumerate(self.layers):
            x = layer(x) * (k + 1)
        for layer in self.layers[1:]:
            x = layer(x)
        x = self.layers[-1](x) + len(self.layers)
        for name, module in self.named.items():
            x = module(x) + len(name)
        x = self.named["relu"](x) if "relu" in self.named else x
        for weight in self.weights:
            x = x * weight
        x = x + self.by_name["a"] + self.weights[0]
        x = self.steps(x)
        for step in self.steps:
            x = step(x)
        return self.steps[0](x) + self.steps[2][0](x) + len(self.steps)


class Walks(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = MLP()
        self.other = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))

    def forward(self, x):
        total = sum(p.sum() for p in self.parameters())
        names = [name for name, _ in self.named_parameters()]
        children = [name for name, _ in self.named_children()]
        modules = sum(1 for _ in self.modules())
        buffers = list(self.buffers())
        x = x + total + len(names) + modules + len(buffers)
        for child in self.children():
            x = child(x)
        return x + self.get_submodule("mlp.first")(x).sum() + self.get_parameter("mlp.second.bias"), names, children


class Attention(nn.Module):
    def __init__(self, width=8, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, width * 3)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(y)


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, width))

    def forward(self, x, mask=None):
        x = x + self.attention(self.norm1(x), mask=mask)
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, layers=2, width=8):
        super().__init__()
        self.tokens = nn.Embedding(10, width)
        self.positions = nn.Parameter(torch.randn(6, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)))

    def forward(self, i):
        length = i.size(1)
        x = self.tokens(i) + self.positions[:length]
        for block in self.blocks:
            x = block(x, mask=self.mask[:length, :length])
        return {"hidden": x, "logits": self.norm(x) @ self.tokens.weight.t()}


class Nested(nn.Module):
    """A chain of modules, each calling the next."""

    def __init__(self, depth):
        super().__init__()
        self.depth = depth
        self.weight = nn.Parameter(torch.ones(2))
        self.inner = Nested(depth - 1) if depth else None

    def forward(self, x):
        x = x + self.weight
        return x if self.inner is None else self.inner(x)


class OwnCall(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def __call__(self, x, **kwargs):
        return super().__call__(x, **kwargs) * 2

    def forward(self, x, shift=1):
        return self.linear(x) + shift


class OwnGetattr(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def __getattr__(self, name):
        if name == "magic":
            return 5
        return super().__getattr__(name)

    def forward(self, x):
        missing = getattr(self, "nothing", None)
        return self.linear(x) * self.magic, hasattr(self, "linear"), hasattr(self, "absent"), missing


LAYERS = {
    "linear": (lambda: nn.Linear(4, 3), T(2, 4)),
    "linear without bias": (lambda: nn.Linear(4, 3, bias=False), T(2, 4)),
    "relu": (nn.ReLU, T(2, 4)),
    "inplace relu": (lambda: nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True)), T(2, 4)),
    "gelu": (nn.GELU, T(2, 4)),
    "sequential": (lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), T(2, 4)),
    "named sequential": (lambda: nn.Sequential(collections.OrderedDict(a=nn.Linear(4, 4), b=nn.Tanh())), T(2, 4)),
    "nested sequential": (lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Sequential()), T(2, 4)),
    "one module twice": (lambda: (lambda layer: nn.Sequential(layer, nn.ReLU(), layer))(nn.Linear(4, 4)), T(2, 4)),
    "layer norm": (lambda: nn.LayerNorm(4), T(2, 4)),
    "batch norm": (lambda: nn.BatchNorm1d(4), T(3, 4)),
    "group norm": (lambda: nn.GroupNorm(2, 4), T(2, 4, 3)),
    "dropout": (lambda: nn.Dropout(0.5), T(4, 4)),
    "conv1d": (lambda: nn.Conv1d(2, 3, 3, padding=1), T(2, 2, 5)),
    "conv2d": (lambda: nn.Conv2d(2, 3, 3, stride=2), T(1, 2, 7, 7)),
    "conv same padding": (lambda: nn.Conv2d(2, 2, 3, padding="same", padding_mode="reflect"), T(1, 2, 5, 5)),
    "conv transpose": (lambda: nn.ConvTranspose2d(2, 3, 2), T(1, 2, 3, 3)),
    "max pool": (lambda: nn.MaxPool2d(2), T(1, 2, 4, 4)),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d(1), T(1, 2, 4, 4)),
    "embedding": (lambda: nn.Embedding(5, 4), T(3, dtype=torch.int64)),
    "embedding with padding": (lambda: nn.Embedding(5, 4, padding_idx=0), T(2, 3, dtype=torch.int64)),
    "flatten": (lambda: nn.Flatten(), T(2, 3, 4)),
    "identity": (nn.Identity, T(2)),
    "softmax": (lambda: nn.Softmax(dim=-1), T(2, 4)),
    "upsample": (lambda: nn.Upsample(scale_factor=2), T(1, 2, 3, 3)),
    "attention": (lambda: Attention(), T(2, 3, 8)),
    "block": (lambda: Block(), T(2, 3, 8)),
    "transformer": (lambda: Transformer(), T(2, 5, dtype=torch.int64)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), T(2, 3, 8)),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.0), 2, enable_nested_tensor=False), T(3, 2, 8)),
    "mlp": (MLP, T(2, 4)),
    "with state": (WithState, T(2, 4)),
    "tied": (Tied, T(3, dtype=torch.int64)),
    "containers": (Containers, T(2, 4)),
    "walks": (Walks, T(2, 4)),
    "own __call__": (OwnCall, T(2, 4)),
    "own __getattr__": (OwnGetattr, T(2, 4)),
    "cosine similarity": (lambda: Fixed(nn.CosineSimilarity(), torch.ones(2, 4)), T(2, 4)),
    "cross entropy": (lambda: Fixed(nn.CrossEntropyLoss(), torch.tensor([0, 1])), T(2, 4)),
    "bilinear": (lambda: Fixed(nn.Bilinear(4, 4, 2), torch.ones(2, 4)), T(2, 4)),
}  # fmt: skip

NO_GRAPH = {"identity"}
# The placeholders are named after the way to them, and torch._dynamo writes this one as `self.__dict__["_modules"]`.
OTHER_NAMES = {"own __getattr__"}
CHANGES_BUFFERS = {"batch norm"}


class Fixed(nn.Module):
    """Calls a module of two arguments with one of them fixed."""

    def __init__(self, module, second):
        super().__init__()
        self.module = module
        self.register_buffer("second", second)

    def forward(self, x):
        return self.module(x, self.second)


def mode_of(make, training):
    return Built(lambda: make().train(training))


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", LAYERS)
def test_layer(name, training):
    make, argument = LAYERS[name]
    compare_dynamo = name not in NO_GRAPH and name not in OTHER_NAMES
    same(mode_of(make, training), argument, graphs=None if name in NO_GRAPH else 1, compare_dynamo=compare_dynamo)


@pytest.mark.parametrize("name", ["sequential", "mlp", "with state", "block", "tied", "containers"])
def test_called_from_a_function(name):
    make, argument = LAYERS[name]
    same(lambda x, module: module(x), argument, make)


def test_attention_layer_of_torch():
    same(Built(lambda: nn.MultiheadAttention(8, 2, batch_first=True)), T(2, 3, 8), T(2, 3, 8), T(2, 3, 8))
    same(
        Built(lambda: nn.MultiheadAttention(8, 2).eval()),
        T(3, 2, 8),
        T(3, 2, 8),
        T(3, 2, 8),
        kwargs={"need_weights": False},
    )


def test_arguments_of_forward():
    same(Built(MLP), T(2, 4), False)
    same(Built(MLP), T(2, 4), kwargs={"residual": False, "scale": 5})
    same(Built(MLP), kwargs={"x": T(2, 4)})
    same(Built(Attention), T(1, 3, 8), kwargs={"mask": lambda: torch.tril(torch.ones(3, 3))})
    same(Built(OwnCall), T(2, 4), kwargs={"shift": 3})


def test_method_of_a_module():
    same(lambda module, x: module.act(module.first(x)), MLP, T(2, 4))
    same(Built(lambda: MLP().forward), T(2, 4))


def test_module_in_closure_and_global():
    layer = nn.Linear(4, 4)
    same(lambda x: layer(x) + SHARED(x), T(2, 4))


SHARED = nn.Linear(4, 4)


def test_functions_of_modules_inside():
    def program(module, x):
        names = sorted(name for name, _ in module.named_modules())
        shapes = [tuple(p.shape) for p in module.parameters()]
        return x + len(names), names, shapes, module.training, list(module.state_dict()), type(module).__name__

    same(program, MLP, T(2, 4), fullgraph=False)


def test_isinstance_dispatch():
    def program(modules, x):
        for module in modules:
            if isinstance(module, nn.Linear):
                x = module(x) * module.in_features
            elif isinstance(module, (nn.ReLU, nn.Tanh)):
                x = module(x)
            else:
                x = x + 1
        return x

    same(program, lambda: nn.ModuleList([nn.Linear(4, 4), nn.ReLU(), nn.Identity()]), T(2, 4))
    same(program, lambda: [nn.Linear(4, 4), nn.Tanh()], T(2, 4))


@pytest.mark.parametrize("depth", [5, 40])
def test_nested_modules(depth):
    same(Built(lambda: Nested(depth)), T(2))


@pytest.mark.skipif(not CAPTURES, reason="about capture alone")
def test_a_hundred_nested_modules_are_captured_whole():
    module, x = Nested(100), torch.ones(2)
    expected = module(x)
    nodes = captured(module, x)
    assert sum(node.op == "call_function" for node in nodes) == 101
    reset()
    assert torch.equal(compile(module, backend="eager", fullgraph=True)(x), expected)
    reset()


def add_hook(world):
    world.program.first.register_forward_hook(lambda module, args, output: output * 3)


def add_pre_hook(world):
    world.program.register_forward_pre_hook(lambda module, args: (args[0] + 1,))


class Logged(nn.Linear):
    def forward(self, x):
        return super().forward(x) + 10


MUTATIONS = {
    "training mode": [lambda w: w.program.eval(), lambda w: w.program.train(), unrelated(lambda w: w.program.eval())],
    "attribute": [lambda w: setattr(w.program, "scale", 7), lambda w: setattr(w.program, "activation", "tanh")],
    "new attribute": [lambda w: setattr(w.program, "unused", 7)],
    "parameter in place": [unrelated("PROGRAM.first.weight.data.mul_(2)"), unrelated("PROGRAM.second.bias.data.zero_()")],
    "parameter replaced": ["PROGRAM.first.weight = nn.Parameter(torch.ones(5, 4))", "PROGRAM.first.bias = None"],
    "parameter of another dtype": ["PROGRAM.double(); ARGS[0] = ARGS[0].double()"],
    "requires_grad": ["PROGRAM.first.weight.requires_grad_(False)", "PROGRAM.requires_grad_(False)"],
    "loaded state": [unrelated("PROGRAM.load_state_dict({k: v * 2 for k, v in PROGRAM.state_dict().items()})")],
    "submodule replaced": ["PROGRAM.first = nn.Linear(4, 5, bias=False)", "PROGRAM.second = nn.Sequential(nn.Linear(5, 4))"],
    "submodule of another class": [lambda w: setattr(w.program, "first", Logged(4, 5))],
    "class of submodule": [lambda w: setattr(w.program.first, "__class__", Logged)],
    "hook added": [add_hook, add_pre_hook],
    "hook removed": [lambda w: setattr(w, "handle", w.program.first.register_forward_hook(lambda m, a, o: o * 3)), lambda w: w.handle.remove()],
    "forward of the instance": ["PROGRAM.forward = lambda x: x * 5"],
    "forward of a submodule's instance": ["PROGRAM.first.forward = lambda x: torch.ones(2, 5)"],
    "method of the instance": ["PROGRAM.act = torch.neg"],
    "input size": ["ARGS[0] = torch.ones(7, 4)", unrelated("ARGS[0] = torch.zeros(2, 4)")],
    "argument": ["ARGS.append(False)"],
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_change_between_calls(name):
    same(Built(MLP), T(2, 4), mutate=MUTATIONS[name], compare_dynamo=False)


STATE_MUTATIONS = {
    "buffer replaced": ["PROGRAM.offset = torch.ones(4)", "PROGRAM.absent = torch.ones(4)"],
    "bias appears": ["PROGRAM.bias = nn.Parameter(torch.ones(4))"],
    "list attribute": ["PROGRAM.shapes[0] = 9", "PROGRAM.shapes = [1]"],
    "dict attribute": ["PROGRAM.table['k'] = 5.0"],
    "class attribute": [],
    "plain tensor": ["PROGRAM.plain = torch.zeros(4)", "PROGRAM.plain.add_(1)"],
    "instance over class attribute": ["PROGRAM.factor = 9"],
}


@pytest.mark.parametrize("name", [name for name, changes in STATE_MUTATIONS.items() if changes])
def test_state_changes_between_calls(name):
    same(Built(WithState), T(2, 4), mutate=STATE_MUTATIONS[name], compare_dynamo=False)


def test_containers_change_between_calls():
    same(Built(Containers), T(2, 4), compare_dynamo=False, mutate=[
        "PROGRAM.layers.append(nn.Linear(4, 4))",
        "del PROGRAM.named['tanh']",
        "PROGRAM.layers[0] = nn.Identity()",
        "PROGRAM.steps[1] = nn.Tanh()",
        "PROGRAM.weights.append(nn.Parameter(torch.ones(4)))",
    ])  # fmt: skip


def test_two_instances_of_one_class():
    recorder = Recorder()
    reset()
    one, other = MLP(), MLP(activation="tanh")
    compiled = [compile(module, backend=recorder, fullgraph=True) for module in (one, other)]
    x = torch.ones(2, 4)
    for _ in range(2):
        assert torch.equal(compiled[0](x), one(x))
        assert torch.equal(compiled[1](x), other(x))
    if CAPTURES:
        assert recorder.count == 2
    reset()


def test_compiled_module_is_the_module():
    reset()
    module = MLP()
    compiled = compile(module, backend="eager", fullgraph=True)
    assert isinstance(compiled, MLP)
    assert list(compiled.state_dict()) == list(module.state_dict())
    assert compiled.first.weight is module.first.weight
    compiled.eval()
    assert not module.training
    module.scale = 11
    x = torch.ones(2, 4)
    assert torch.equal(compiled(x), module(x))
    reset()


# State that modules keep for themselves.


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.log = []
        self.register_buffer("average", torch.zeros(4))
        self.cache = None

    def forward(self, x):
        self.calls += 1
        self.log.append(self.calls)
        self.average.mul_(0.9).add_(x.mean(0) * 0.1)
        self.cache = x if self.cache is None else torch.cat([self.cache, x])
        return self.cache.sum() + self.average


class HookLog(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.log = []
        self.linear.register_forward_pre_hook(lambda module, args: self.log.append("pre"))
        self.linear.register_forward_hook(lambda module, args, output: self.log.append(tuple(output.shape)))

    def forward(self, x):
        return self.linear(x) + len(self.log)


class Prints(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)
        print("in", type(self).__name__)
        return self.linear(x)


class BufferAssigned(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.tensor(0))
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.steps = self.steps + 1
        return x * self.weight * self.steps


LATER = {
    "counting": (Counting, T(2, 4)),
    "hooks with effects": (HookLog, T(2, 4)),
    "prints": (Prints, T(2, 4)),
    "prints in sequential": (lambda: nn.Sequential(nn.Linear(4, 4), Prints(), nn.ReLU()), T(2, 4)),
    "buffer assigned": (BufferAssigned, T(2, 4)),
    "lstm": (lambda: nn.LSTM(4, 3), T(2, 1, 4)),
    "gru": (lambda: nn.GRU(4, 3, batch_first=True), T(1, 2, 4)),
    "lazy": (lambda: nn.LazyLinear(3), T(2, 4)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), T(2, 4)),
    "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(4, 3)), T(2, 4)),
    "backward hook": (lambda: backward_hooked(nn.Linear(4, 3)), T(2, 4, grad=True)),
}


def backward_hooked(module):
    module.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 2,))
    return module


@pytest.mark.parametrize("name", LATER)
def test_module_with_effects(name):
    make, argument = LATER[name]
    same(Built(make), argument, fullgraph=False, calls=3)


def test_module_raises():
    same(Built(MLP), T(2, 3), fullgraph=False)
    same(Built(lambda: nn.Linear(4, 3)), fullgraph=False)
    same(Built(lambda: nn.Module()), T(2), fullgraph=False)


def test_global_hooks():
    from torch.nn.modules import module as registry

    def program(x, layer):
        return layer(x)

    def change(world):
        world.handle = registry.register_module_forward_hook(lambda module, args, output: output + 1)

    def undo(world):
        world.handle.remove()

    same(program, T(2, 4), lambda: nn.Linear(4, 4), fullgraph=False)
    handle = registry.register_module_forward_hook(lambda module, args, output: output + 1)
    try:
        same(program, T(2, 4), lambda: nn.Linear(4, 4), fullgraph=False)
    finally:
        handle.remove()


def test_deepcopy_of_a_compiled_module():
    reset()
    module = MLP()
    compiled = compile(module, backend="eager", fullgraph=False)
    x = torch.ones(2, 4)
    compiled(x)
    copied = copy.deepcopy(compiled)
    with torch.no_grad():
        module.first.weight.zero_()
    assert not torch.equal(copied(x), compiled(x))
    assert torch.equal(F.relu(compiled.first(x)), F.relu(module.first(x)))
    reset()
