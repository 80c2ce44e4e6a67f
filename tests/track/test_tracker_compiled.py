"""Compiled modules: the parents are the user's modules, in names without a trace of the compiler."""

import warnings

import pytest
import torch
from torch import nn
from watching import Block, Net, lines, watch

import stator

X = torch.ones(3, 4)
COMPILERS = {
    "torch.compile": lambda model: torch.compile(model, backend="eager"),
    "stator.compile": lambda model: stator.compile(model, backend="eager"),
}
OPERATIONS = ("addmm", "mm", "relu", "threshold_backward", "tanh", "tanh_backward")


@pytest.fixture(params=COMPILERS)
def compiler(request):
    torch._dynamo.reset()
    stator.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using `torch.compile\\(module\\)` when there are global hooks")
        yield COMPILERS[request.param]


def step(model):
    return lambda: model(X).sum().backward()


def test_a_compiled_model(compiler):
    expected = lines(watch(step(Net())), *OPERATIONS)
    compiled = compiler(Net())
    for _ in range(3):
        assert lines(watch(step(compiled)), *OPERATIONS) == expected


def test_a_model_that_was_compiled_and_run_before(compiler):
    """The graph that was captured without the tracker's hooks is not used with them."""
    expected = lines(watch(step(Net())), *OPERATIONS)
    compiled = compiler(Net())
    step(compiled)()
    compiled.zero_grad()
    assert lines(watch(step(compiled)), *OPERATIONS) == expected
    assert all(parameter.grad is not None for parameter in compiled.parameters())


def test_a_compiled_part(compiler):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = Block(), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.block(x))

    expected = lines(watch(step(Model())), *OPERATIONS)
    model = Model()
    model.block = compiler(model.block)
    assert lines(watch(step(model)), *OPERATIONS) == expected
    assert "Model.block.first" in expected
    with stator.ModuleTracker() as tracker:
        model(X)
        assert list(tracker.modules) == [
            "Model",
            "Model.block",
            "Model.block.first",
            "Model.block.second",
            "Model.head",
        ]


@pytest.mark.parametrize("name", COMPILERS)
def test_a_compiled_function_that_calls_modules(name):
    model = Block()
    function = COMPILERS[name](lambda x: model(x).cos())
    assert lines(watch(lambda: function(X)), "addmm", "cos") == "\n".join(
        ["> addmm: Block Block.first", "> addmm: Block Block.second", "> cos:"]
    )


def test_results_without_a_dispatch_mode(compiler):
    """As in training: nobody asks at each operation, and hooks in the model read the tracker."""
    model, told = Net(blocks=1), []
    expected = model(X)
    compiled = compiler(model)
    model.layers[0].first.register_forward_pre_hook(lambda *_: told.append(tracker.path))
    with stator.ModuleTracker() as tracker:
        for _ in range(2):
            result = compiled(X)
            result.sum().backward()
    assert torch.equal(result, expected) and told == ["Net.layers.0.first"] * 2
    assert tracker.parents == {"Global"}


def test_scripted_and_traced_modules():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(model, X)
    with stator.ModuleTracker() as tracker:
        assert torch.equal(traced(X), model(X))
        assert len(tracker.modules) > 3 and tracker.parents == {"Global"}


def test_fx_tracing_under_a_tracker():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with stator.ModuleTracker() as tracker:
        graph = torch.fx.symbolic_trace(model)
        assert tracker.parents == {"Global"}
    assert torch.equal(graph(X), model(X))
