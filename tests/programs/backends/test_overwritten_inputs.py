"""Graphs that write to their inputs, with PyTorch's compilers: a backward pass recomputes much from the inputs, and
must not do so from those that were overwritten."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator

X = [[0.3, -1.2, 0.8], [1.5, 0.2, -0.7]]


def read_then_overwritten(x, w, b):
    t = torch.exp(b) * w
    b.copy_(x.mean(0))
    return torch.sin(t * x) * torch.exp(b)


def read_then_changed(x, w, b):
    t = torch.exp(b) * w
    b.mul_(0.5).add_(1)
    return torch.sin(t * x)


def through_a_view(x, w, b):
    t = torch.exp(b[1:].expand(2)) * w[:2]
    b[0].fill_(3)
    b[1:].mul_(2)
    return torch.sin(t).sum() * x


def by_items(x, w, b):
    t = torch.exp(b).sin() * w
    b[0] = x.sum()
    return torch.cos(t)


def parts(x, w, b):
    first, *rest = b.split(1)
    t = torch.exp(first) * w + torch.tanh(rest[0])
    b.zero_()
    return torch.sin(t * w)


def a_parameter(x, w, b):
    t = torch.sin(w * x)
    with torch.no_grad():
        w.copy_(torch.ones(3))
    return t * torch.exp(x)


def a_parameter_in_between(x, w, b):
    t = x * w
    with torch.no_grad():
        w.mul_(1.5)
    return torch.sin((t + w) * torch.exp(b))


def statistics(x, w, b):
    y = x * w
    loss = (torch.exp(b).detach() - y).square().mean()
    with torch.no_grad():
        b.mul_(0.9).add_(0.1 * y.mean(0))
    return y + (torch.exp(b) - y).detach() + loss


PROGRAMS = [read_then_overwritten, read_then_changed, through_a_view, by_items, parts, a_parameter, a_parameter_in_between,
            statistics]  # fmt: skip


def gradients(program, calls):
    """Of several calls together: tensors that one call has saved are not changed by writes of the others."""
    x, w, b = torch.tensor(X), nn.Parameter(torch.tensor([1.0, 2.0, -1.0])), torch.tensor([0.5, 0.3, -1.0])
    results = [program(x, w, b).sum() for _ in range(calls)]
    sum(results).backward()
    return results, w.grad, w, b


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients(program, backend, calls):
    expected = gradients(program, calls)
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    torch.testing.assert_close(gradients(compiled, calls), expected)
    torch.testing.assert_close(gradients(compiled, calls), expected)


class Codebook(nn.Module):
    """As in vector quantizers: the codes are updated by the inputs."""

    def __init__(self):
        super().__init__()
        self.into = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("codes", torch.arange(8.0).reshape(2, 4) / 8)

    def forward(self, x):
        x = self.norm(self.into(x))
        nearest = torch.cdist(x, self.codes).argmin(1)
        found = F.embedding(nearest, self.codes)
        loss = (found.exp() * x).square().mean()
        if self.training:
            with torch.no_grad():
                self.codes.mul_(0.5).add_(x.mean(0) * 0.5)
        return x + (found - x).detach(), loss


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_codebook(backend):
    def trained(compile):
        torch.manual_seed(0)
        model = Codebook()
        call = stator.compile(model, backend=backend, fullgraph=True) if compile else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(3):
            optimizer.zero_grad()
            results = [call(torch.randn(5, 3)) for _ in range(2)]
            sum(out.sum() + loss for out, loss in results).backward()
            optimizer.step()
        return model.state_dict(), [parameter.grad for parameter in model.parameters()]

    torch.testing.assert_close(trained(True), trained(False))


def tags(program, *inputs):
    """The operations that are to be saved."""
    found = []

    def backend(graph_module, example_inputs):
        found.extend(str(node.target if node.op == "call_method" else node.target.__name__)
                     for node in graph_module.graph.nodes if "recompute" in node.meta)  # fmt: skip
        return graph_module.forward

    stator.compile(program, backend=backend)(*inputs)
    return found


def test_what_is_saved():
    x, w, b = torch.tensor(X), nn.Parameter(torch.ones(3)), torch.ones(3)
    assert tags(read_then_changed, x, w, b) == ["exp", "mul_", "add_"]
    assert tags(lambda x, w, b: torch.exp(b) * w, x, w, b) == []
    with torch.no_grad():
        assert tags(read_then_changed, x, w, b) == []
    # The statistics of a batch normalization are not saved, which would take memory.
    assert tags(nn.BatchNorm1d(3), x) == ["add_"]
