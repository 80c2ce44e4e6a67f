"""The convolutions of torch_geometric, on a small graph: arguments and inputs by the names that their signatures have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

DISTRIBUTION = "torch-geometric"
NODES = 6
WIDTH = 8
_EDGES = ((0, 1, 2, 3, 4, 5, 1, 2), (1, 2, 3, 4, 5, 0, 0, 0))
_RELATION = ("one", "to", "one")


def names() -> list[str]:
    from torch_geometric.nn import conv

    return [name for name in conv.__all__ if name not in ("MessagePassing", "HeteroConv") and "CuGraph" not in name]


def makers(name: str) -> Iterator[Callable[[], tuple[nn.Module, dict[str, Any]]]]:
    from torch_geometric.nn import conv

    layer_class = getattr(conv, name)
    given = _choices(nn.Sequential, conv.SAGEConv)
    # (A layer that may have features of edges is first tried with them.)
    for extra in ({"edge_dim": WIDTH}, {}):
        for everything in (True, False):

            def make(extra: dict[str, Any] = extra, everything: bool = everything) -> tuple[nn.Module, dict[str, Any]]:
                constructor, forward = _parameters(layer_class.__init__), _parameters(layer_class.forward)
                if missing := set(extra) - set(constructor):
                    raise ValueError(f"has no {missing}")
                chosen = {one: given[one]() for one, required in constructor.items() if one in given and required}
                layer = layer_class(**chosen, **extra)
                inputs = _inputs()
                return layer, {
                    one: inputs[one] for one, required in forward.items() if one in inputs and (everything or required)
                }

            yield make


def _parameters(function: Callable[..., Any]) -> dict[str, bool]:
    """The names of the parameters, and whether they have to be given."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return {one.name: one.default is one.empty for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD}


def _choices(sequential: type[nn.Module], convolution: type[nn.Module]) -> dict[str, Callable[[], Any]]:
    def perceptron(inner: int, outer: int = WIDTH) -> nn.Module:
        return sequential(nn.Linear(inner, outer), nn.ReLU(), nn.Linear(outer, outer))

    return {
        **dict.fromkeys(("in_channels", "out_channels", "channels", "hidden_channels", "edge_dim"), lambda: WIDTH),
        **dict.fromkeys(("K", "k", "num_layers", "dim", "kernel_size", "filter_size", "num_relations"), lambda: 2),
        **dict.fromkeys(("num_node_types", "num_edge_types", "space_dimensions", "propagate_dimensions"), lambda: 2),
        **dict.fromkeys(("edge_type_emb_dim", "edge_attr_emb_dim"), lambda: WIDTH),
        "alpha": lambda: 0.5,
        "first_aggr": lambda: True,
        "nn": lambda: nn.LazyLinear(WIDTH),
        "conv": lambda: convolution(WIDTH, WIDTH),
        "aggregators": lambda: ["mean", "max"],
        "scalers": lambda: ["identity", "amplification"],
        "deg": lambda: torch.tensor([1, 3, 2]),
        "metadata": lambda: (["one"], [_RELATION]),
        "mlp_h": lambda: perceptron(WIDTH, 3),
        "mlp_f": lambda: perceptron(WIDTH + 3),
        "mlp_g": lambda: perceptron(WIDTH),
    }


def _inputs() -> dict[str, Any]:
    x = torch.randn(NODES, WIDTH, requires_grad=True)
    edges = torch.tensor(_EDGES)
    count = edges.shape[1]
    return {
        **dict.fromkeys(("x", "x_0"), x),
        **dict.fromkeys(("edge_index", "pos_edge_index", "neg_edge_index", "hyperedge_index"), edges),
        "edge_weight": torch.rand(count),
        "edge_attr": torch.rand(count, WIDTH),
        "edge_type": torch.arange(count) % 2,
        "node_type": torch.arange(NODES) % 2,
        **dict.fromkeys(("pos", "normal"), torch.randn(NODES, 3)),
        "batch": torch.zeros(NODES, dtype=torch.long),
        "x_dict": {"one": x},
        "edge_index_dict": {_RELATION: edges},
    }
