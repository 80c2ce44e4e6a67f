"""What communicates between processes and is compiled, with Stator and with torch._dynamo: the results are those of the
uncompiled program, and Stator has no more graph breaks and captures no fewer operations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.support.processes import Fresh, fresh

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(), reason="needs gloo"
)

START = """
import json, sys, torch
from torch import distributed, nn
rank, store, compiler = int(sys.argv[1]), sys.argv[2], sys.argv[3]
distributed.init_process_group("gloo", init_method="file://" + store, rank=rank, world_size=2)
if compiler == "stator":
    import stator
    stator.install()
import torch._dynamo
from torch._dynamo.utils import counters
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

def compile(model, backend="eager", **options):
    return torch.compile(model, backend=backend, **options)

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.last = Block(), Block(), nn.Linear(6, 3)

    def forward(self, x):
        x = self.first(torch.tanh(x)) * 2
        return self.last(self.second(x) * 3).cos()

class Normalized(Model):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)

    def forward(self, x):
        return super().forward(self.norm(x))

class Partial(Model):
    def forward(self, x):
        "Leaves parameters out."
        return {"result": self.last(self.first(x)), "number": 3}

def data(step):
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(rank + 10 * step))

def local(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor

def same_state(plain, compiled):
    for ours, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
        assert (ours.grad is None) == (theirs.grad is None)
        torch.testing.assert_close(local(ours), local(theirs))
        if ours.grad is not None:
            torch.testing.assert_close(local(ours.grad), local(theirs.grad))
    for ours, theirs in zip(compiled.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs)

def loss_of(result):
    return (result["result"] if isinstance(result, dict) else result).square().sum()

def train(plain, compiled, steps=3, around=None):
    optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in (plain, compiled)]
    for step in range(steps):
        losses = []
        for net, optimizer in zip((plain, compiled), optimizers, strict=True):
            optimizer.zero_grad()
            if around is not None:
                with around(net):
                    loss_of(net(data(step + 100))).backward()
            losses.append(loss_of(net(data(step))))
            losses[-1].backward()
            optimizer.step()
        torch.testing.assert_close(*losses)
        same_state(plain, compiled)
    for mode in (False, True):
        losses = [loss_of(net.train(mode)(data(9))) for net in (plain, compiled)]
        torch.testing.assert_close(*losses)
        for loss in losses:
            loss.backward()
        same_state(plain, compiled)
        with torch.no_grad():
            torch.testing.assert_close(*[loss_of(net(data(10))) for net in (plain, compiled)])

counts = {}

def count(name, program):
    torch._dynamo.reset()
    counters.clear()
    program()
    stats = counters["stats"]
    counts[name] = (sum(counters["graph_break"].values()), stats.get("unique_graphs", 0), stats.get("calls_captured", 0))
"""

END = """
print(json.dumps(counts))
distributed.destroy_process_group()
"""

Counts = dict[str, tuple[int, int, int]]


def counts_of(program: str, folder: Path, compiler: str) -> Counts:
    store = str(folder / compiler)
    running = [Fresh(START + program + END, str(rank), store, compiler) for rank in range(2)]
    first, second = (json.loads(rank.printed().splitlines()[-1]) for rank in running)
    assert first == second
    return first


def compare(program: str, folder: Path) -> Counts:
    ours, theirs = (counts_of(program, folder, compiler) for compiler in ("stator", "dynamo"))
    assert ours.keys() == theirs.keys()
    for name, (breaks, _, calls) in ours.items():
        assert breaks <= theirs[name][0], f"{name}: {ours[name]}, with torch._dynamo {theirs[name]}"
        assert calls >= theirs[name][2], f"{name}: {ours[name]}, with torch._dynamo {theirs[name]}"
    return ours


DATA_PARALLEL = """
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

def parallel(model=Model, hook=None, backend="eager", **options):
    nets = [DistributedDataParallel(model(), **options) for _ in range(2)]
    if hook is not None:
        for net in nets:
            net.register_comm_hook(None, hook)
    return nets[0], compile(nets[1], backend)

def halved(state, bucket):
    return default_hooks.allreduce_hook(state, bucket).then(lambda reduced: reduced.value() / 2)

count("plain", lambda: train(*parallel(backend="aot_eager")))
count("buffers", lambda: train(*parallel(Normalized)))
count("unused parameters", lambda: train(*parallel(Partial, find_unused_parameters=True)))
count("static graph", lambda: train(*parallel(static_graph=True)))
count("bucket views", lambda: train(*parallel(gradient_as_bucket_view=True)))
count("hook", lambda: train(*parallel(hook=halved)))
count("no_sync", lambda: train(*parallel(), around=lambda net: getattr(net, "_orig_mod", net).no_sync()))

def inside():
    train(DistributedDataParallel(Model()), DistributedDataParallel(compile(Model())))

def called():
    net = DistributedDataParallel(Model())
    step = compile(lambda x: net(x * 2).sin() + 1)
    for number in range(3):
        torch.testing.assert_close(step(data(number)), net(data(number) * 2).sin() + 1)

count("inside", inside)
count("called by a function", called)
try:
    compile(DistributedDataParallel(Model()), fullgraph=True)(data(0))
except torch._dynamo.exc.Unsupported:
    pass
else:
    raise AssertionError("one graph")
"""


def test_data_parallel(tmp_path):
    counts = compare(DATA_PARALLEL, tmp_path)
    assert counts["plain"][0] == 0
    assert counts["inside"][0] == 0
    assert counts["called by a function"][0] == 1


SHARDED = """
mesh = init_device_mesh("cpu", (2,))

def sharded(model):
    for layer in model.children():
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)

def with_compiled_layers(**options):
    model = Model()
    for layer in (model.first, model.second):
        layer.compile(backend="eager", **options)
    return sharded(model)

def with_wrapped_layers(**options):
    model = Model()
    model.first, model.second = compile(model.first, **options), compile(model.second, **options)
    return sharded(model)

def sequence():
    torch.manual_seed(0)
    return sharded(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)))

def alone():
    torch.manual_seed(0)
    return fully_shard(Block(), mesh=mesh)

def in_checkpoints():
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    model = Model()
    model.first, model.second = checkpoint_wrapper(model.first), checkpoint_wrapper(model.second)
    return sharded(model)

count("whole", lambda: train(sharded(Model()), compile(sharded(Model()), "aot_eager")))
count("layers", lambda: train(sharded(Model()), with_compiled_layers()))
count("layers in one graph", lambda: train(sharded(Model()), with_compiled_layers(fullgraph=True)))
count("wrapped layers in one graph", lambda: train(sharded(Model()), with_wrapped_layers(fullgraph=True)))
count("in one graph", lambda: train(alone(), compile(alone(), fullgraph=True)))
count("layers of a sequence", lambda: train(sequence(), compile(sequence())))
"""


def test_fully_sharded(tmp_path):
    counts = compare(SHARDED, tmp_path)
    assert counts["whole"][0] == 6  # a break for each layer, with gradients and without
    assert counts["layers"][0] == counts["layers in one graph"][0] == counts["in one graph"][0] == 0


COLLECTIVES = """
from torch.distributed import ReduceOp
from torch.distributed import _functional_collectives as functional
world = distributed.group.WORLD
mesh = init_device_mesh("cpu", (2,))
newer = hasattr(distributed, "all_gather_single")
gather_into = distributed.all_gather_single if newer else distributed.all_gather_into_tensor
scatter_into = distributed.reduce_scatter_single if newer else distributed.reduce_scatter_tensor

def reduced(x):
    y = x * 2
    nothing = distributed.all_reduce(y)
    return y + 1, nothing

def largest(x):
    y = x * 2
    distributed.all_reduce(y, op=ReduceOp.MAX, group=world)
    return y.sum()

def of_argument(x):
    distributed.all_reduce(x)
    return x + 1

def gathered(x):
    whole = torch.empty(2 * x.shape[0], x.shape[1])
    gather_into(whole, x.sin())
    return whole + 1

def listed(x):
    parts = [torch.empty_like(x) for _ in range(distributed.get_world_size())]
    distributed.all_gather(parts, x * 2)
    return torch.cat(parts) + 1

def exchanged(x):
    result = torch.empty_like(x)
    distributed.all_to_all_single(result, x + 1)
    return result

def sums(x):
    whole = functional.all_reduce(x * 2, "sum", world)
    return whole + functional.all_gather_tensor(x, 0, mesh).sum(0)

def asked(x):
    if distributed.is_initialized() and distributed.get_world_size() > 1:
        return x * distributed.get_rank() + distributed.get_world_size(world)
    return x

def synchronized(x):
    y = x * 2
    distributed.barrier()
    return y + 1

def broadcast(x):
    y = x * 2
    distributed.broadcast(y, 0)
    return y + 1

def later(x):
    y = x * 2
    work = distributed.all_reduce(y, async_op=True)
    work.wait()
    return y + 1

def check(function, **options):
    compiled = compile(function, **options)
    for rows in (4, 4, 6, 8):
        x, same = (torch.arange(rows * 3.0).reshape(rows, 3) + rank for _ in range(2))
        torch.testing.assert_close(compiled(x), function(same))
        torch.testing.assert_close(x, same)

for whole in (reduced, largest, of_argument, gathered, listed, sums, asked):
    # (With torch._dynamo a collective that writes returns None too.)
    count(whole.__name__, lambda: check(whole, fullgraph=True))
count("with a compiler", lambda: check(reduced, backend="aot_eager"))
count("exchanged", lambda: check(exchanged))
count("synchronized", lambda: check(synchronized))
count("broadcast", lambda: check(broadcast))
count("later", lambda: check(later))
"""


of_later_versions = pytest.mark.skipif(
    torch.torch_version.TorchVersion(torch.__version__) < (2, 13),
    reason="methods of process groups have other names",
)


@of_later_versions
def test_collectives(tmp_path):
    counts = compare(COLLECTIVES, tmp_path)
    assert [counts[name][0] for name in ("reduced", "gathered", "listed", "sums", "asked")] == [0] * 5


GRADIENTS = """
def reduced(x):
    y = x * 2
    distributed.all_reduce(y)
    return y * 3

results = []
for function in (reduced, compile(reduced), compile(reduced, "aot_eager")):
    x = torch.full((3,), rank + 1.0, requires_grad=True)
    result = function(x)
    result.sum().backward()
    results.append((result.detach(), x.grad))
for result in results[1:]:
    torch.testing.assert_close(result, results[0])

# Another group under the same name.
def asked(x):
    return x * distributed.get_world_size() + distributed.get_rank()

compiled = compile(asked, fullgraph=True)
assert compiled(torch.ones(2)).tolist() == [2 + rank] * 2
distributed.destroy_process_group()
distributed.init_process_group("gloo", init_method=f"file://{store}{rank}", rank=0, world_size=1)
assert compiled(torch.ones(2)).tolist() == [1, 1]
counts["groups"] = 0
"""


@of_later_versions
def test_what_a_collective_depends_on(tmp_path):
    """It has no gradient where it writes to a tensor, and its group may be replaced."""
    assert counts_of(GRADIENTS, tmp_path, "stator") == {"groups": 0}


HOOKS = """
import torch, stator
stator.install()
import torch._dynamo

class Model(torch.nn.Module):
    def forward(self, x):
        return x.cos()

calls = []

@torch.compiler.disable
def before(module, args):
    calls.append("before")
    return (args[0] + 1,)

def after(module, args, result):
    return result * 2

def hooked():
    model = Model()
    model.register_forward_pre_hook(before)
    model.register_forward_hook(after)
    return model

x = torch.ones(3)
for fullgraph in (False, True):
    plain, compiled, in_place = hooked(), torch.compile(hooked(), backend="eager", fullgraph=fullgraph), hooked()
    in_place.compile(backend="eager", fullgraph=fullgraph)
    for number in range(3):
        results = [model(x + number) for model in (plain, compiled, in_place)]
        torch.testing.assert_close(results[1], results[0])
        torch.testing.assert_close(results[2], results[0])
assert calls == ["before"] * 18

class Around(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = hooked()

    def forward(self, x):
        return self.inner(x) + 1

try:
    torch.compile(Around(), backend="eager", fullgraph=True)(x)
except torch._dynamo.exc.Unsupported as error:
    assert "before is marked torch.compiler.disable" in str(error)
else:
    raise AssertionError("a hook inside of the model is inside of the graph")
"""


def test_disabled_hooks_of_a_compiled_module():
    """They are around the graph, also with `fullgraph=True`; those of a module inside of it are graph breaks."""
    fresh(HOOKS)


ALIVE = """
import sys, torch, stator, weakref
from torch import distributed
distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], rank=0, world_size=1)

@stator.compile(backend="eager", fullgraph=True)
def program(x):
    return x * distributed.get_world_size() + distributed.get_rank()

assert program(torch.ones(2)).tolist() == program(torch.ones(2)).tolist() == [1, 1]
group = weakref.ref(distributed.group.WORLD)
distributed.destroy_process_group()
assert group() is None
"""


@of_later_versions
def test_a_process_group_is_not_kept_alive(tmp_path):
    fresh(ALIVE, str(tmp_path / "store"))
