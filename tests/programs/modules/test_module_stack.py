"""`nn_module_stack`: the modules around each node, as torch._dynamo's consumers read it."""

import pytest
import torch
import torch.nn as nn

from tests.support.engine import CAPTURES, ENGINE, Recorder, compile, reset

pytestmark = pytest.mark.skipif(not CAPTURES, reason="about captured graphs")


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.linear(x)) + 1


class Root(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Inner(), Inner()])
        self.steps = nn.Sequential(nn.Linear(4, 4), Inner())
        self.named = nn.ModuleDict({"a": Inner()})
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = self.named["a"](self.steps(x))
        return self.norm(self.layers[0](x)) * 2


def stacks(recorder):
    """For each operation: name, stack, source function."""
    [module] = recorder.graphs
    return [
        (
            node.op,
            [(key.partition("@")[2], path, kind) for key, (path, kind) in node.meta.get("nn_module_stack", {}).items()],
            node.meta["source_fn_stack"][-1][1] if node.op != "output" else None,
        )
        for node in module.graph.nodes
        if node.op not in ("placeholder", "get_attr")
    ]


ROOT = Root()


def in_function(x):
    return ROOT(x) + 1


@pytest.mark.skipif(ENGINE != "stator", reason="compares with torch._dynamo")
@pytest.mark.parametrize("program", [ROOT, in_function], ids=["module", "function"])
def test_same_as_torch_dynamo(program):
    x = torch.randn(2, 4)
    ours, theirs = Recorder(), Recorder()
    compile(program, backend=ours, fullgraph=True)(x)
    torch.compile(program, backend=theirs, fullgraph=True)(x)
    assert len(stacks(ours)) > 15
    assert stacks(ours) == stacks(theirs)
    reset()
    torch._dynamo.reset()


def test_keys_tell_modules_and_calls_apart():
    recorder = Recorder()
    module = Inner()

    def program(x):
        return module(module(x))

    compile(program, backend=recorder, fullgraph=True)(torch.randn(2, 4))
    [graph] = recorder.graphs
    keys = [list(node.meta["nn_module_stack"]) for node in graph.graph.nodes if node.op == "call_function"]
    outer, linear = str(id(module)), str(id(module.linear))
    assert keys[0] == [outer, linear] and keys[3] == [f"{outer}@1", f"{linear}@1"]
    reset()


def test_after_a_break():
    class Breaks(nn.Module):
        def forward(self, x):
            x = x * 2
            print("break")
            return x * 3

    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Breaks()
            self.last = nn.ReLU()

        def forward(self, x):
            return self.last(self.inner(x) + 1)

    recorder = Recorder()
    compile(Holds(), backend=recorder, fullgraph=False)(torch.randn(3))
    found = [
        (getattr(node.target, "__name__", node.target), [kind.__name__ for _, kind in stack.values()])
        for graph in recorder.graphs
        for node in graph.graph.nodes
        if node.op == "call_function" and (stack := node.meta.get("nn_module_stack", {})) is not None
    ]
    assert found[0] == ("mul", ["Breaks"])
    assert found[-1][1][-1:] == ["ReLU"]
    reset()
