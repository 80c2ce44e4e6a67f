"""torch_geometric: message passing over graphs that change."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GAT, GCN, GIN, GraphSAGE, global_add_pool, global_mean_pool
from torch_geometric.nn.models.basic_gnn import BasicGNN

from tests.integrations.scenario import Run, scenario

SIZES = ((6, 14), (6, 14), (8, 20), (9, 17), (5, 12))


def graph(nodes: int, edges: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(nodes, 8), torch.randint(nodes, (2, edges))


def train(run: Run, make: Callable[..., BasicGNN]) -> None:
    original = make(8, 16, num_layers=2, out_channels=4)
    model = torch.compile(original, backend=run.backend)
    optimizer = torch.optim.Adam(original.parameters(), lr=0.01)

    def step(x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x, edges).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for size in SIZES:
        x, edges = graph(*size)
        run.call(lambda x=x, edges=edges: step(x, edges))
    run.keep(original.state_dict())


@scenario("GCN trains, graphs of other sizes", backend="eager")
def gcn(run: Run) -> None:
    train(run, GCN)


@scenario("GAT trains, graphs of other sizes", backend="eager")
def gat(run: Run) -> None:
    train(run, GAT)


@scenario("GraphSAGE trains, graphs of other sizes")
def sage(run: Run) -> None:
    train(run, GraphSAGE)


@scenario("GIN trains, graphs of other sizes")
def gin(run: Run) -> None:
    train(run, GIN)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gnn = GIN(8, 16, num_layers=2)
        self.head = nn.Linear(16, 3)

    def forward(self, batch: Data) -> torch.Tensor:
        x = self.gnn(batch.x, batch.edge_index)
        return self.head(global_mean_pool(x, batch.batch) + global_add_pool(x, batch.batch))


@scenario("batches of graphs as Data objects", backend="eager")
def batches(run: Run) -> None:
    model = torch.compile(Classifier(), backend=run.backend)
    for sizes in (SIZES[:3], SIZES[:3], SIZES[1:4], SIZES[2:]):
        items = [Data(x=x, edge_index=edges) for x, edges in (graph(*size) for size in sizes)]
        batch = Batch.from_data_list(items)
        run.call(lambda batch=batch: model(batch))
