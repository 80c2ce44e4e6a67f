"""The graph module in its three states, and with PyTorch's backends."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._guards import TracingContext, tracing
from torch._subclasses import FakeTensorMode

from stator import _C, _testing
from stator.graph_module import GraphModule


def linear_relu(mode: FakeTensorMode | None = None) -> GraphModule:
    """`relu(x @ w + 1).sum(-1)` and `x * 2`, with the weight as an input."""
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "L_x_", result=torch.ones(8, 4))
    w = b.add("placeholder", "L_self_parameters_w_", result=torch.nn.Parameter(torch.ones(4, 4)))
    product = b.add("call_function", operator.matmul, (x, w), result=torch.ones(8, 4))
    added = b.add("call_function", operator.add, (product, 1), result=torch.ones(8, 4))
    relu = b.add("call_function", torch.relu, (added,), result=torch.ones(8, 4))
    total = b.add("call_method", "sum", (relu,), {"dim": -1}, result=torch.ones(8))
    twice = b.add("call_function", operator.mul, (x, 2), result=torch.ones(8, 4))
    b.add("output", "output", ((total, twice),))
    return GraphModule.from_captured(b.finish(mode))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 4), torch.randn(4, 4, requires_grad=True)


def expected(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.relu(x @ w + 1).sum(dim=-1), x * 2


def is_native(module: GraphModule) -> bool:
    return type(module.forward) is _C.Runner


def assert_right(call: Callable[..., Any], tolerance: float = 0.0) -> None:
    x, w = inputs()
    for one, other in zip(call(x, w), expected(x, w), strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_it_runs_natively_until_someone_wants_code() -> None:
    module = linear_relu()
    assert isinstance(module, torch.fx.GraphModule) and is_native(module)
    assert "_graph" not in module.__dict__
    assert_right(module)
    graph = module.graph
    assert graph is module.graph and graph.owning_module is module and is_native(module)
    assert "_code" not in module.__dict__
    assert "torch.relu" in module.code and not is_native(module)
    assert module.graph is graph
    assert_right(module)


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.code,
        lambda m: m.recompile(),
        lambda m: str(m),
        lambda m: setattr(m, "graph", m.graph),
        lambda m: m._lineno_map,
        lambda m: m.real_recompile(),
        lambda m: torch.fx._lazy_graph_module._LazyGraphModule.force_recompile(m),
    ],
    ids=["code", "recompile", "str", "graph", "lines", "real_recompile", "force_recompile"],
)
def test_what_makes_it_ordinary(ask: Callable[[GraphModule], Any]) -> None:
    module, other = linear_relu(), linear_relu()
    ask(module)
    assert not is_native(module) and is_native(other)
    assert type(module) is not type(other) and isinstance(module, GraphModule)
    assert type(module).__name__ == "GraphModule"
    assert_right(module)
    assert_right(other)


def test_changes_take_effect_with_recompile() -> None:
    module = linear_relu()
    (relu,) = module.graph.find_nodes(op="call_function", target=torch.relu)
    relu.target = torch.neg
    assert_right(module)
    code = module.recompile()
    assert code is not None and "torch.neg" in code.src and "torch.neg" in module.code
    x, w = inputs()
    torch.testing.assert_close(module(x, w)[0], torch.neg(x @ w + 1).sum(dim=-1))


def test_recompile_waits_where_fx_is_lazy() -> None:
    module = linear_relu()
    with torch.fx._lazy_graph_module._use_lazy_graph_module(True):
        assert module.recompile() is None
        assert "_code" not in module.__dict__ and not is_native(module)
        assert_right(module)
        assert "_code" in module.__dict__


def test_another_graph_can_be_set() -> None:
    module = linear_relu()
    module.graph = torch.fx.symbolic_trace(lambda a, b: (a - 1,)).graph
    assert module(torch.ones(2), None)[0].tolist() == [0.0, 0.0]


def test_it_is_a_module() -> None:
    module = linear_relu()
    assert module.training and not module.eval().training and module.train().training
    assert list(module.parameters()) == [] and module.state_dict() == {} and list(module.modules()) == [module]
    calls = []
    module.register_forward_pre_hook(lambda m, args: calls.append("before"))
    module.register_forward_hook(lambda m, args, result: calls.append("after"))
    assert_right(module)
    assert calls == ["before", "after"]
    module.extra = torch.nn.Linear(2, 2)
    assert [name for name, _ in module.named_parameters()] == ["extra.weight", "extra.bias"]
    assert module.double().extra.weight.dtype is torch.float64
    assert module.meta == {} and module._boxed_call is False
    with pytest.raises(AttributeError, match="nothing_here"):
        module.nothing_here  # noqa: B018
    x, w = inputs()
    torch.testing.assert_close(module(L_self_parameters_w_=w, L_x_=x)[0], expected(x, w)[0])


def test_a_forward_of_somebodys_own_stays() -> None:
    module = linear_relu()
    module.forward = lambda x, w: "mine"  # type: ignore[method-assign]
    assert module(1, 2) == "mine"
    module.recompile()
    assert module(1, 2) == "mine"
    del module.forward
    assert_right(module)


def test_copies_are_their_own() -> None:
    module = linear_relu()
    module.meta["a"] = [1]
    other = copy.deepcopy(module)
    assert is_native(module) and other.meta == {"a": [1]} and other.meta["a"] is not module.meta["a"]
    for node in list(other.graph.find_nodes(op="call_function", target=torch.relu)):
        node.target = torch.neg
    other.recompile()
    again = copy.deepcopy(other)
    assert len({type(module), type(other), type(again)}) == 3
    assert_right(module)
    x, w = inputs()
    for copied in (other, again):
        torch.testing.assert_close(copied(x, w)[0], torch.neg(x @ w + 1).sum(dim=-1))


def test_it_prints() -> None:
    text = linear_relu().print_readable(print_output=False)
    assert "def forward(self, L_x_ : torch.Tensor, L_self_parameters_w_ : torch.nn.parameter.Parameter):" in text
    assert "relu = torch.relu(add)" in text
    text = linear_relu(FakeTensorMode()).print_readable(print_output=False)
    assert 'matmul: "f32[8, 4]"' in text


def test_example_values_are_fake_tensors_of_the_mode() -> None:
    mode = FakeTensorMode()
    nodes = {node.name: node for node in linear_relu(mode).graph.nodes}
    example = nodes["matmul"].meta["example_value"]
    assert isinstance(example, torch._subclasses.FakeTensor) and example.fake_mode is mode
    assert example.shape == (8, 4) and example.stride() == (4, 1) and example.device == torch.device("cpu")
    weight = nodes["l_self_parameters_w_"].meta["example_value"]
    assert isinstance(weight, torch.nn.Parameter) and weight.requires_grad


def compiled(compile: Callable[[GraphModule, list[Any]], Any]) -> tuple[Any, GraphModule]:
    """What a backend makes of the module, called as the front end calls it."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    module = linear_relu(mode)
    with tracing(TracingContext(mode)):
        examples = [node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder")]
        return compile(module, examples), module


def check_training(call: Callable[..., Any]) -> None:
    assert_right(call, tolerance=1e-5)
    x, w = inputs()
    (gradient,) = torch.autograd.grad(call(x, w)[0].sum(), w)
    (wanted,) = torch.autograd.grad(expected(x, w)[0].sum(), w)
    torch.testing.assert_close(gradient, wanted)


def test_aot_autograd_trains() -> None:
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.compilers import nop

    call, _ = compiled(lambda module, examples: aot_module_simplified(module, examples, fw_compiler=nop))
    check_training(call)


@pytest.mark.parametrize("name", ["eager", "aot_eager", "aot_eager_decomp_partition", "eager_noexcept"])
def test_registered_backends_train(name: str) -> None:
    from torch._dynamo.backends.registry import lookup_backend

    call, module = compiled(lookup_backend(name))
    check_training(call)
    if name == "eager":
        assert call is module.forward and is_native(module)


def test_inductor_trains() -> None:
    from torch._inductor.compile_fx import compile_fx

    call, _ = compiled(compile_fx)
    check_training(call)


def test_dynamo_helpers_take_it() -> None:
    from torch._dynamo import utils

    mode = FakeTensorMode()
    module = linear_relu(mode)
    assert utils.detect_fake_mode([n.meta["example_value"] for n in module.graph.find_nodes(op="placeholder")]) is mode
    assert utils.same(module(*[torch.ones(8, 4), torch.ones(4, 4)])[1], torch.full((8, 4), 2.0))
    assert "call_function" in utils.LazyString(lambda: str(module.graph)).func()
    disabled = torch._dynamo.disable(module.forward)
    x, w = inputs()
    torch.testing.assert_close(disabled(x, w)[0], expected(x, w)[0])


def test_dynamo_can_trace_it() -> None:
    module = linear_relu()
    module.recompile()
    assert_right(torch.compile(module, backend="eager", fullgraph=True))
