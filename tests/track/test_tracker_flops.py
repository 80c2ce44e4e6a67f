"""Counting floating-point operations for each module."""

import os

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import stator
from tests.support.processes import python

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MATMUL = 2 * 3 * 4 * 4  # of a batch of three through a layer of four


def counter():
    counter = FlopCounterMode(display=False)
    counter.mod_tracker = stator.ModuleTracker()
    return counter


def counts(mode) -> dict[str, int]:
    return {name: sum(each.values()) for name, each in mode.get_flop_counts().items() if each}


def test_torchs_counter_with_this_tracker():
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    with counter() as ours:
        model(torch.ones(3, 4)).sum().backward()
    with FlopCounterMode(display=False) as theirs:
        model(torch.ones(3, 4)).sum().backward()
    assert ours.get_total_flops() == theirs.get_total_flops() == 5 * MATMUL
    assert counts(ours) == {
        "Global": 5 * MATMUL,
        "Sequential": 5 * MATMUL,
        "Sequential.0": 2 * MATMUL,  # its input needs no gradient
        "Sequential.2": 3 * MATMUL,
    }


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpointed_model_is_counted_right(use_reentrant):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Tanh()), nn.Linear(4, 4)

        def forward(self, x):
            return self.head(checkpoint(self.body, x, use_reentrant=use_reentrant))

    model = Model()
    with counter() as counted:
        model(torch.ones(3, 4, requires_grad=True)).sum().backward()
    assert counts(counted) == {
        "Global": 11 * MATMUL,
        "Model": 11 * MATMUL,
        "Model.body": 8 * MATMUL,  # forward, forward again, two products for each gradient
        "Model.body.0": 4 * MATMUL,
        "Model.body.1": 4 * MATMUL,
        "Model.head": 3 * MATMUL,
    }


def test_the_example():
    printed = python(os.path.join(ROOT, "examples", "count_flops.py"))
    rows = {line.split()[0]: line.split()[1:3] for line in printed.splitlines()}
    assert rows["Global"] == rows["Model"] and rows["head"] == ["37,888", "75,776"]
