"""`register_attributes`: parameters and buffers as attributes of the graph module instead of inputs."""

import pytest
import torch
from torch import nn

import stator


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.again = self.first
        self.norm = nn.BatchNorm1d(4)
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.first.weight
        self.plain = torch.ones(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tied(self.norm(self.again(self.first(x)))) + self.plain


class Backend:
    def __init__(self, inner: str = "eager") -> None:
        self.modules: list[torch.fx.GraphModule] = []
        self.inputs: list[int] = []
        self.inner = inner

    def __call__(self, module: torch.fx.GraphModule, inputs: list) -> object:
        self.modules.append(module)
        self.inputs.append(len(inputs))
        return torch._dynamo.lookup_backend(self.inner)(module, inputs)


@pytest.fixture(autouse=True)
def clean():
    yield
    stator.reset()


def compiled(model: nn.Module, backend: Backend) -> nn.Module:
    return stator.compile(model, backend=backend, fullgraph=True, options={"register_attributes": True})


@pytest.mark.parametrize("inner", ["eager", "aot_eager"])
def test_results_and_gradients(inner: str) -> None:
    torch.manual_seed(0)
    plain = Model()
    torch.manual_seed(0)
    model = Model()
    run = compiled(model, Backend(inner))
    x = torch.randn(3, 4)
    for _ in range(2):
        expected, result = plain(x), run(x)
        torch.testing.assert_close(result, expected)
        expected.sum().backward()
        result.sum().backward()
    for (name, ours), theirs in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, msg=name)
    torch.testing.assert_close(model.norm.running_mean, plain.norm.running_mean)


def test_graph_module_holds_each_tensor_once() -> None:
    model, backend = Model(), Backend()
    compiled(model, backend)(torch.randn(3, 4))
    [module] = backend.modules
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    assert len({id(tensor) for tensor in held.values()}) == len(held)
    of_model = [*model.parameters(), *model.buffers()]
    assert {id(tensor) for tensor in held.values()} == {id(tensor) for tensor in of_model}
    assert {"L_self_modules_again_parameters_bias", "L_self_modules_norm_buffers_running_mean"} <= set(held)
    assert all(name.isidentifier() for name in held)
    assert {node.target for node in module.graph.nodes if node.op == "get_attr"} == set(held)
    # The input, and a tensor that the module has not registered.
    assert sum(node.op == "placeholder" for node in module.graph.nodes) == 2 == backend.inputs[0]
    assert "self.L_" in module.code


def test_another_tensor_is_another_capture() -> None:
    model, backend = Model(), Backend()
    run = compiled(model, backend)
    x = torch.randn(3, 4)
    run(x)
    with torch.no_grad():
        model.first.weight.mul_(2)
    torch.testing.assert_close(run.eval()(x), model.eval()(x))
    count = len(backend.modules)
    model.first.bias = nn.Parameter(torch.ones(4))
    torch.testing.assert_close(run(x), model(x))
    assert len(backend.modules) == count + 1
    run(x)
    assert len(backend.modules) == count + 1


def test_for_the_whole_process() -> None:
    backend = Backend()
    with stator.config.patch(register_attributes=True):
        run = stator.compile(nn.Linear(4, 4), backend=backend, fullgraph=True)
    run(torch.randn(2, 4))
    assert len(dict(backend.modules[0].named_parameters())) == 2
    backend = Backend()
    stator.compile(nn.Linear(4, 4), backend=backend, fullgraph=True)(torch.randn(2, 4))
    assert not dict(backend.modules[0].named_parameters())
