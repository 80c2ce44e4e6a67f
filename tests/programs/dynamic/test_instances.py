"""What was learned of sizes and numbers belongs to the code and the place: instances of a class share it."""

from __future__ import annotations

import torch
from torch import nn

import stator
from tests.support import engine

T = torch.randn


class Net(nn.Module):
    def __init__(self, width=4, heads=2):
        super().__init__()
        self.linear = nn.Linear(4, width)
        self.heads = heads
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x).view(x.shape[0], self.heads, -1).sum(1) * self.calls


def captured(compiled, module, *lengths):
    """How many captures the calls need, each compared with uncompiled."""
    before = engine.captures()
    for length in lengths:
        x = T(length, 4)
        count = module.calls
        expected = module(x)
        module.calls = count
        assert torch.equal(expected, compiled(x))
    return engine.captures() - before


def test_the_second_instance_starts_with_what_the_first_learned():
    engine.reset()
    first, second = Net(), Net(width=8)
    compiled = stator.compile(first)
    assert captured(compiled, first, 3, 5, 7, 9) == 2
    # Other sizes of parameters are another graph, but its batch is dynamic at once.
    other = stator.compile(second)
    assert captured(other, second, 3, 5, 7, 9) == 1


def test_an_equal_instance_needs_no_capture():
    engine.reset()
    first, second = Net(), Net()
    compiled, other = stator.compile(first), stator.compile(second)
    assert captured(compiled, first, 3, 5, 7) == 2
    second.calls = 5
    assert captured(other, second, 4, 6) == 0


def test_numbers_that_differ_between_instances_stay_constants():
    engine.reset()
    nets = [Net(width=8, heads=heads) for heads in (2, 4, 8)]
    with stator.watch() as report:
        for net in nets:
            captured(stator.compile(net), net, 3)
            compiled = stator.compile(net)
            captured(compiled, net, 5, 6)
    assert not any("heads" in symbol for capture in report.captures for symbol in capture.symbols)


def test_other_options_learn_for_themselves():
    engine.reset()
    net = Net()
    dynamic, static = stator.compile(net), stator.compile(net, dynamic=False)
    assert captured(dynamic, net, 3, 5, 7) == 2
    net.calls = 0
    with stator.watch() as report:
        captured(static, net, 3)
    assert report.captures[0].symbols == []


def test_functions_made_by_one_def():
    engine.reset()

    def make(scale):
        return lambda x: x * scale

    first, second = make(2), make(3)
    one, other = stator.compile(first), stator.compile(second)
    for function, compiled, expected in ((first, one, 2), (second, other, 1)):
        before = engine.captures()
        for length in (3, 5, 7):
            x = T(length)
            assert torch.equal(function(x), compiled(x))
        assert engine.captures() - before == expected
