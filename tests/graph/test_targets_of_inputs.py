"""Targets of placeholders are the parameters of the code that `torch.fx` generates: no two are the same."""

import copy

import torch

import stator


def program(x, table):
    unused = table["a b"]  # noqa: F841
    return x + table["a.b"] * 2 + table["a_b"] * 3 - table["a-b"] + table["a_b_0"]


def arguments():
    names = ("a b", "a.b", "a_b", "a-b", "a_b_0")
    return torch.ones(2), {name: torch.full((2,), float(number)) for number, name in enumerate(names, 1)}


class Written:
    """A backend that runs the code of `torch.fx`."""

    def __init__(self):
        self.modules = []

    def __call__(self, graph_module, inputs):
        self.modules.append(graph_module)
        return torch.fx.GraphModule(graph_module, copy.deepcopy(graph_module.graph)).forward

    def inputs(self):
        return [[n.target for n in gm.graph.nodes if n.op == "placeholder"] for gm in self.modules]


def test_paths_with_one_identifier():
    backend, of_dynamo = Written(), Written()
    expected = program(*arguments())
    assert torch.equal(stator.compile(program, backend=backend)(*arguments()), expected)
    assert torch.equal(torch.compile(program, backend=of_dynamo)(*arguments()), expected)
    assert backend.inputs() == of_dynamo.inputs()
    assert backend.inputs()[0] == ["L_table_a_b_", "L_x_", "L_table_a_b__0", "L_table_a_b__1", "L_table_a_b_0_"]


def test_inputs_by_name():
    calls = []

    def backend(graph_module, inputs):
        names = [n.target for n in graph_module.graph.nodes if n.op == "placeholder"]
        calls.append(names)
        return lambda *given: graph_module.forward(**dict(zip(names, given, strict=True)))

    compiled = stator.compile(program, backend=backend)
    for _ in range(2):
        assert torch.equal(compiled(*arguments()), program(*arguments()))
    assert len(calls) == 1


def test_the_state_of_an_optimizer():
    """It is a dict whose keys are parameters."""

    def train(compile):
        parameters = [torch.ones(3, requires_grad=True) for _ in range(3)]
        optimizer = torch.optim.Adam(parameters, lr=0.1)
        step = compile(optimizer.step)
        for number in range(3):
            for place, parameter in enumerate(parameters):
                parameter.grad = torch.full((3,), number + place + 1.0)
            step()
        return parameters

    backend = Written()
    for ours, uncompiled in zip(
        train(lambda step: stator.compile(step, backend=backend)), train(lambda step: step), strict=True
    ):
        assert torch.allclose(ours, uncompiled)
    assert all(len(names) == len(set(names)) for names in backend.inputs())
    assert any("exp_avg__0" in name for names in backend.inputs() for name in names)
