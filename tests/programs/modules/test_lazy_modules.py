"""Modules that create their parameters in their first call."""

import pytest
import torch
import torch.nn as nn
from torch.nn.modules.lazy import LazyModuleMixin

from tests.support.engine import CAPTURES, Recorder, compile, reset
from tests.support.harness import Built, Source, T, same


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.LazyLinear(5)
        self.norm = nn.LazyBatchNorm1d()
        self.second = nn.Sequential(nn.LazyLinear(3), nn.ReLU())

    def forward(self, x):
        return self.second(self.norm(self.first(x)))


class Scale(LazyModuleMixin, nn.Module):
    cls_to_become = None

    def __init__(self):
        super().__init__()
        self.weight = nn.UninitializedParameter()
        self.calls = 0

    def initialize_parameters(self, pair):
        self.calls += 1
        self.weight.materialize(pair[0].shape)
        with torch.no_grad():
            self.weight.copy_(torch.rand(pair[0].shape))

    def forward(self, pair):
        return pair[0] * self.weight + pair[1]


class FromData(Scale):
    def initialize_parameters(self, pair):
        self.weight.materialize(pair[0].shape)
        with torch.no_grad():
            self.weight.copy_(pair[0].abs() + 1)


@pytest.mark.parametrize("compiled_at", ["module", "function"])
def test_initialised_then_captured_whole(compiled_at):
    torch.manual_seed(0)
    plain = Outer()
    torch.manual_seed(0)
    lazy = Outer()
    recorder = Recorder()
    target = lazy if compiled_at == "module" else lambda x: lazy(x)
    compiled = compile(target, backend=recorder, fullgraph=True)
    x = torch.randn(4, 7)
    for _ in range(2):
        torch.manual_seed(1)
        expected = plain(x)
        torch.manual_seed(1)
        assert torch.equal(compiled(x), expected)
    assert type(lazy.first) is nn.Linear and type(lazy.norm) is nn.BatchNorm1d
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), lazy.parameters(), strict=True))
    if CAPTURES:
        assert recorder.count == 1


def test_the_lazy_module_itself():
    module = nn.LazyLinear(3)
    x = torch.randn(2, 5)
    result = compile(module, fullgraph=True)(x)
    assert module.weight.shape == (3, 5) and not module._forward_pre_hooks
    assert torch.equal(result, module(x))


def test_module_of_the_program():
    same(Built(Scale), lambda: [torch.ones(3), torch.zeros(3)], compare_dynamo=False, fresh=False)


def test_parameters_made_of_data():
    # It needs real data: the graph breaks, and the result is that of the uncompiled program.
    same(
        Built(FromData), lambda: [torch.ones(3) * 4, torch.zeros(3)], fullgraph=False, compare_dynamo=False, fresh=False
    )


def test_reads_the_state_that_it_loads():
    trained = nn.Linear(5, 3)
    module = nn.LazyLinear(3)
    compiled = compile(module, fullgraph=True)
    compiled.load_state_dict(trained.state_dict())
    x = torch.randn(2, 5)
    assert torch.equal(compiled(x), trained(x))


def test_runs_after_breaks():
    class Breaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.LazyLinear(3)

        def forward(self, x):
            x = x + 1
            print("break")
            return self.inner(x) * 2

    same(Built(Breaks), T(2, 5), fullgraph=False, compare_dynamo=False)


def test_drawn_in_the_order_of_the_program() -> None:
    """The parameters are drawn at random, after the random numbers that the program draws before."""
    program = """
import torch
from torch import nn
torch.manual_seed(0)
first, second = nn.LazyLinear(3), nn.LazyLinear(2)
def f(x):
    x = torch.nn.functional.dropout(x)
    x = first(x) * torch.rand(3)
    return second(x)
"""
    same(Source(program), T(4, 3), fullgraph=False, compare_dynamo=False, stateful=True)
