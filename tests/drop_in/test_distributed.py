"""`DistributedDataParallel` around a compiled model, a compiled `DistributedDataParallel`, and models with DTensors."""

from __future__ import annotations

import pytest
import torch

from tests.support.processes import Fresh

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(), reason="needs gloo"
)

PROGRAM = """
import sys, torch, stator
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
rank, how = int(sys.argv[1]), sys.argv[3]
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
stator.install()
import torch._dynamo
graphs = []

def backend(graph_module, inputs):
    graphs.append(graph_module)
    return torch._dynamo.lookup_backend("aot_eager")(graph_module, inputs)

def model():
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(600, 600), nn.ReLU())])

def graphs_of_training():
    graphs.clear()
    plain = DistributedDataParallel(model(), bucket_cap_mb=2)
    if how == "outside":
        compiled = torch.compile(DistributedDataParallel(model(), bucket_cap_mb=2), backend=backend)
    else:
        compiled = DistributedDataParallel(torch.compile(model(), backend=backend), bucket_cap_mb=2)
    for step in range(3):
        x = torch.randn(4, 600, generator=torch.Generator().manual_seed(rank + 10 * step))
        for net in (plain, compiled):
            net.zero_grad()
            net(x).sum().backward()
        for ours, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours.grad, theirs.grad)
    return len(graphs)

for splits in (True, False):
    torch.compiler.reset()
    torch._dynamo.config.optimize_ddp = splits
    print(graphs_of_training())
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("how", ["inside", "outside"])
def test_gradients_and_buckets(tmp_path, how):
    """The model has more gradients than a bucket holds: it is compiled in parts, or as a whole."""
    running = [Fresh(PROGRAM, str(rank), str(tmp_path / "store"), how) for rank in range(2)]
    for rank in running:
        in_parts, whole = map(int, rank.printed().splitlines()[-2:])
        assert in_parts > whole


TENSOR_PARALLEL = """
import sys, torch, stator
from torch import distributed, nn
rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
stator.install()
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

def model():
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block())

mesh = init_device_mesh("cpu", (2,))
graphs = []
def backend(graph_module, inputs):
    graphs.append(graph_module)
    return torch._dynamo.lookup_backend(name)(graph_module, inputs)

def with_parts():
    made = model()
    for block in made:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return made

for name in ("eager", "aot_eager"):
    plain, parts = with_parts(), with_parts()
    compiled = torch.compile(parts, backend=backend, fullgraph=True)
    for rows in (2, 2, 3, 5):
        x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(rows))
        for net in (plain, compiled):
            net.zero_grad()
        expected, result = plain(x), compiled(x)
        assert torch.equal(expected, result)
        expected.sum().backward()
        result.sum().backward()
        for ours, theirs in zip(parts.parameters(), plain.parameters(), strict=True):
            assert ours.grad.placements == theirs.grad.placements
            torch.testing.assert_close(ours.grad.full_tensor(), theirs.grad.full_tensor())
print(len(graphs))
distributed.destroy_process_group()
"""


PLACEMENTS = """
import os, torch, stator
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore
distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
mesh = init_device_mesh("cpu", (2,))

def made(x, d):
    return DTensor.from_local(x, mesh, [Shard(0)], run_check=False) * 2

def redistributed(x, d):
    return d.redistribute(placements=[Replicate()]).to_local() + 1

def with_gradients(x, d):
    return d.redistribute(mesh, [Shard(dim=1)]).to_local(grad_placements=[Shard(1)])

def asked(x, d):
    one = d.placements[0]
    if one == Shard(0) and one != Replicate() and one.is_shard() and one.is_shard(0) and not one.is_replicate():
        return x * (one.dim + 2), Partial("sum").reduce_op, Replicate().is_replicate(), Partial().is_partial()

def returned(x, d):
    return x + 1, Shard(x.dim() - 1), [Partial("max")]

def wrong(x, d):
    try:
        return Shard("a")
    except TypeError as error:
        return type(error), x + 1

def parts(value):
    if isinstance(value, DTensor):
        return value.placements, value.to_local().tolist()
    if isinstance(value, torch.Tensor):
        return value.tolist()
    return [parts(one) for one in value] if isinstance(value, (list, tuple)) else value

x = torch.arange(8.0).reshape(4, 2)
for program in (made, redistributed, with_gradients, asked, returned, wrong):
    for backend in ("eager", "aot_eager"):
        compiled = stator.compile(program, backend=backend, fullgraph=program is not wrong)
        for placements in ([Shard(0)], [Shard(0)], [Shard(1)]):
            if program is asked and placements != [Shard(0)]:
                continue
            d = DTensor.from_local(x, mesh, placements, run_check=False)
            assert parts(compiled(x, d)) == parts(program(x, d)), program
print("done", flush=True)
os._exit(0)
"""


def test_placements_made_in_the_program():
    assert Fresh(PLACEMENTS).printed().splitlines()[-1] == "done"


PIPELINE = """
import sys, torch, stator
from torch import distributed, nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
rank = int(sys.argv[1])
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
stator.install()
import torch._dynamo

def backend(graph_module, inputs):
    graphs.append(graph_module)
    return torch._dynamo.lookup_backend("aot_eager")(graph_module, inputs)

def parts():
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(6, 8), nn.Tanh()), nn.Sequential(nn.Linear(8, 3), nn.Dropout(0.0))]

graphs = []
whole = nn.Sequential(*parts())
part = parts()[rank]
compiled = torch.compile(part, backend=backend, fullgraph=True)
loss_of = nn.functional.mse_loss
schedule = ScheduleGPipe(PipelineStage(compiled, rank, 2, torch.device("cpu")), n_microbatches=4, loss_fn=loss_of)
for step in range(3):
    draws = torch.Generator().manual_seed(step)
    x, target = torch.randn(8, 6, generator=draws), torch.randn(8, 3, generator=draws)
    part.zero_grad()
    whole.zero_grad()
    losses = []
    if rank == 0:
        schedule.step(x)
    else:
        result = schedule.step(target=target, losses=losses)
        torch.testing.assert_close(result, whole(x))
        torch.testing.assert_close(sum(losses) / 4, loss_of(whole(x), target))
    loss_of(whole(x), target).backward()
    for ours, theirs in zip(part.parameters(), whole[rank].parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
print(len(graphs))
distributed.destroy_process_group()
"""


SHARDED = """
import sys, torch, stator
from torch import distributed, nn
rank, how = int(sys.argv[1]), sys.argv[3]
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
stator.install()
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (2,))

def model(is_compiled):
    torch.manual_seed(0)
    made = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
    if is_compiled and how == "inside":
        for layer in made:
            layer.compile(backend="aot_eager")
    for part in (made[0], made[2], made):
        fully_shard(part, mesh=mesh)
    return torch.compile(made, backend="aot_eager") if is_compiled and how == "outside" else made

plain, compiled = model(False), model(True)
optimizers = [torch.optim.SGD(net.parameters(), 0.1) for net in (plain, compiled)]
for step in range(3):
    x = torch.randn(4, 6, generator=torch.Generator().manual_seed(rank + 10 * step))
    losses = []
    for net, optimizer in zip((plain, compiled), optimizers, strict=True):
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    torch.testing.assert_close(*losses)
for ours, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
    torch.testing.assert_close(ours.full_tensor(), theirs.full_tensor())
counters = torch._dynamo.utils.counters
# PyTorch keeps weak references to such modules, with callbacks.
assert not [reason for reason in counters["graph_break"] if "weak reference" in reason]
print(counters["stats"]["unique_graphs"])
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("how", ["inside", "outside"])
def test_fully_sharded(tmp_path, how):
    """Its layers are compiled one by one, or the model as a whole. What is in graphs is between the hooks that gather
    parameters."""
    running = [Fresh(SHARDED, str(rank), str(tmp_path / "store"), how) for rank in range(2)]
    for rank in running:
        assert int(rank.printed().splitlines()[-1]) >= 1


def test_tensor_parallel(tmp_path):
    """One graph for the first size, and one for all others. The second backend knows at once that sizes change."""
    running = [Fresh(TENSOR_PARALLEL, str(rank), str(tmp_path / "store")) for rank in range(2)]
    for rank in running:
        assert rank.printed().splitlines()[-1] == "3"


def test_stages_of_a_pipeline(tmp_path):
    """Each rank trains a compiled part of the model, four parts of a batch at a time."""
    running = [Fresh(PIPELINE, str(rank), str(tmp_path / "store")) for rank in range(2)]
    for rank in running:
        # One graph with gradients, and one with the inputs that the schedule finds out shapes with.
        assert 1 <= int(rank.printed().splitlines()[-1]) <= 2
