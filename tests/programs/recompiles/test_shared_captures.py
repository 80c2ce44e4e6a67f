"""Instances of one class that are compiled one by one share captures."""

import gc
import weakref

import pytest
import torch
import torch.nn as nn

from tests.support.engine import CAPTURES, ENGINE, Recorder, compile, reset

pytestmark = pytest.mark.skipif(ENGINE == "dynamo", reason="about Stator's own entries")


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


class Layer(nn.Module):
    def __init__(self, size=4, scale=2):
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.scale = scale
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.relu(self.linear(x)) * self.scale


def check(layers, recorder, graphs):
    compiled = [compile(layer, backend=recorder, fullgraph=True) for layer in layers]
    for _ in range(3):
        for layer, run in zip(layers, compiled, strict=True):
            x = torch.randn(2, 4, requires_grad=True)
            calls = layer.calls
            result = run(x)
            assert layer.calls == calls + 1
            assert torch.equal(result, torch.relu(layer.linear(x)) * layer.scale)
            result.sum().backward()
    assert all(layer.linear.weight.grad is not None for layer in layers)
    if CAPTURES:
        assert recorder.count == graphs
    return compiled


def test_equal_layers_are_captured_once():
    # Twice: by then the called function is a variable.
    check([Layer() for _ in range(10)], Recorder(), 2)


def test_other_constants_are_other_captures():
    check([Layer(), Layer(scale=5), Layer(), Layer(scale=5)], Recorder(), 4)


def test_a_change_of_one_is_no_change_of_the_other():
    one, other = Layer(), Layer()
    runs = check([one, other], Recorder(), 2)
    other.linear.register_forward_hook(lambda module, args, output: output + 1)
    x = torch.randn(2, 4)
    assert torch.equal(runs[0](x), one(x))
    assert torch.equal(runs[1](x), other(x))
    one.eval()
    assert torch.equal(runs[0](x), one(x))


def test_an_instance_goes_and_the_other_stays():
    recorder = Recorder()
    one, other = Layer(), Layer()
    runs = check([one, other], recorder, 2)
    gone = weakref.ref(one)
    del one, runs[0]
    gc.collect()
    assert gone() is None
    x = torch.randn(2, 4, requires_grad=True)
    assert torch.equal(runs[0](x), other(x))
    if CAPTURES:
        assert recorder.count == 2
    last = weakref.ref(other)
    del other, runs
    gc.collect()
    assert last() is None


def test_backends_are_not_mixed():
    first, second = Recorder(), Recorder()
    check([Layer()], first, 2)
    check([Layer()], second, 2)
