"""`DistributedDataParallel` around a compiled model, and a compiled `DistributedDataParallel`."""

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
rank, how, splits = int(sys.argv[1]), sys.argv[3], sys.argv[4] == "split"
distributed.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
stator.install()
import torch._dynamo
torch._dynamo.config.optimize_ddp = splits
graphs = []

def backend(graph_module, inputs):
    graphs.append(graph_module)
    return torch._dynamo.lookup_backend("aot_eager")(graph_module, inputs)

def model():
    torch.manual_seed(0)
    return nn.Sequential(*[layer for _ in range(3) for layer in (nn.Linear(600, 600), nn.ReLU())])

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
print("same gradients,", len(graphs), "graphs")
distributed.destroy_process_group()
"""


@pytest.mark.parametrize("how", ["inside", "outside"])
def test_gradients_and_buckets(tmp_path, how):
    """The model has more gradients than a bucket holds: it is compiled in parts, or as a whole."""
    counts = {}
    for splits in ("split", "whole"):
        running = [Fresh(PROGRAM, str(rank), str(tmp_path / splits), how, splits) for rank in range(2)]
        printed = [rank.printed() for rank in running]
        assert all("same gradients" in text for text in printed), printed
        counts[splits] = {int(text.split()[-2]) for text in printed}
    assert min(counts["split"]) > max(counts["whole"])
