"""`module.to(...)` inside of the program, where nothing has to move or to be converted."""

import pytest
import torch
from torch import nn

from tests.support.counting import counted_calls
from tests.support.harness import T, same
from tests.support.scenarios import same_scenario


class Moving(nn.Module):
    def __init__(self, norm=nn.BatchNorm1d):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 3), norm(3))

    def forward(self, x):
        self.layers.to(x.device)
        return self.layers(x)


def test_nothing_has_to_move():
    same(lambda module, x: module(x), Moving, T(4, 3), compare_dynamo=False, grads=False)
    calls = counted_calls(Moving(nn.LayerNorm), lambda: (torch.randn(4, 3),), 3)
    assert [one.graphs_run for one in calls] == [1, 1, 1]
    assert calls[1].captures == 0


def test_training_and_conversions():
    def scenario(compile, note):
        model = Moving()
        compiled = compile(model)
        x = torch.randn(4, 3)
        for step in range(4):
            model.zero_grad()
            note.gradients(compiled(x).square(), *model.parameters())
            note.value([parameter._version for parameter in model.parameters()])
            if step == 1:
                model.double()
                x = x.double()
        note(compiled, x)

    same_scenario(scenario, "eager")


@pytest.mark.parametrize("convert", [lambda m, x: m.to(torch.float64), lambda m, x: m.double(), lambda m, x: m.to(x)])
def test_conversions_in_the_program(convert):
    def program(layer, x):
        y = layer(x)
        convert(layer, x)
        return y, layer.weight.dtype, layer.weight * 2

    same(program, lambda: nn.Linear(3, 3), T(4, 3), fullgraph=False, compare_dynamo=False)


def test_data_is_assigned_to_itself():
    def program(x, parameter):
        y = x * parameter
        parameter.data = parameter
        x.data = x
        return y + parameter * x

    same(program, T(3), lambda: nn.Parameter(torch.ones(3)), compare_dynamo=False)
