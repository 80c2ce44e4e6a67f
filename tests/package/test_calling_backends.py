"""Backends receive what torch.compile would pass them, and their side effects are not visible to the program."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from torch import fx, nn
from torch._guards import TracingContext

import stator
from stator import backends
from tests.support.processes import fresh


def resolved(backend, **arguments):
    return backends.resolve(backend, **{"dynamic": None, "options": None, "mode": None, **arguments})


def block(x, weight, bias):
    hidden = torch.nn.functional.linear(x, weight, bias)
    return (torch.relu(hidden).sum(dim=-1), hidden)


def inputs(training: bool = True) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=training) for shape in ((5, 4), (3, 4), (3,))]


@pytest.mark.parametrize("name", ["eager", "aot_eager", "inductor"])
def test_forward_and_gradients_equal_the_uncompiled_ones(name):
    compiled = resolved(name)(fx.symbolic_trace(block), inputs())
    ours, theirs = inputs(), inputs()
    result, expected = compiled(*ours), block(*theirs)
    torch.testing.assert_close(tuple(result), expected)
    result[0].sum().backward()
    expected[0].sum().backward()
    torch.testing.assert_close([x.grad for x in ours], [x.grad for x in theirs])


@pytest.mark.parametrize("name", ["aot_eager", "inductor"])
def test_without_gradients_and_in_inference_mode(name):
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            given = inputs(training=False)
            compiled = resolved(name)(fx.symbolic_trace(block), given)
            torch.testing.assert_close(tuple(compiled(*given)), block(*given))
            assert torch.is_inference_mode_enabled() == (context is torch.inference_mode)
            assert not torch.is_grad_enabled()
        assert torch.is_grad_enabled()


@pytest.mark.parametrize("name", ["aot_eager", "inductor"])
def test_a_module_with_registered_parameters(name):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0), nn.BatchNorm1d(4))
    x = torch.randn(6, 4)
    graph_module = fx.symbolic_trace(model)
    output = next(node for node in graph_module.graph.nodes if node.op == "output")
    output.args = (output.args,)  # aot_autograd takes only graphs that return a tuple.
    graph_module.recompile()
    compiled = resolved(name)(graph_module, [x])
    before = model[2].running_mean.clone()
    (result,) = compiled(x)
    result.square().sum().backward()
    assert model[0].weight.grad is not None
    assert not torch.equal(model[2].running_mean, before)


def test_sizes_are_fixed_where_nothing_else_is_said():
    seen = []

    def compiler(graph_module, example_inputs):
        mode = TracingContext.get().fake_mode
        seen.append(mode.from_tensor(example_inputs[0], static_shapes=False).shape)
        return graph_module

    resolved(compiler)(fx.symbolic_trace(lambda x: x + 1), [torch.randn(7, 3)])
    assert seen == [(7, 3)]
    assert all(type(size) is int for size in seen[0])


def test_the_context_is_that_of_a_compilation():
    seen = {}

    def compiler(graph_module, example_inputs):
        context = TracingContext.get()
        seen["mode"] = context.fake_mode
        seen["shapes"] = context.fake_mode.shape_env
        seen["again"] = context.fake_mode is torch._guards.detect_fake_mode(example_inputs)
        seen["compiling"] = torch.compiler.is_compiling()
        return graph_module

    resolved(compiler)(fx.symbolic_trace(lambda x: x + 1), [torch.randn(2)])
    assert isinstance(seen["mode"], torch._subclasses.FakeTensorMode)
    assert seen["shapes"] is not None
    assert seen["again"]
    assert seen["compiling"]
    assert not torch.compiler.is_compiling()
    assert TracingContext.try_get() is None


def test_random_numbers_are_not_disturbed():
    def compiler(graph_module, example_inputs):
        torch.randn(10)
        random.random()
        return graph_module

    torch.manual_seed(1)
    random.seed(1)
    expected = torch.randn(3), random.random()
    torch.manual_seed(1)
    random.seed(1)
    resolved(compiler)(fx.symbolic_trace(lambda x: x + 1), [torch.zeros(2)])
    torch.testing.assert_close(torch.randn(3), expected[0])
    assert random.random() == expected[1]


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"no backend 'nonsense'.*aot_eager.*eager.*inductor"):
        stator.compile(lambda x: x, backend="nonsense")


def test_a_raising_backend_is_named_with_its_graph_and_cause():
    def hopeless(graph_module, example_inputs):
        raise ArithmeticError("out of numbers")

    graph_module = fx.symbolic_trace(lambda x: x + 1)
    with pytest.raises(stator.BackendCompilerFailed, match=r"hopeless.*\nArithmeticError: out of numbers") as raised:
        resolved(hopeless)(graph_module, [torch.zeros(2)])
    assert isinstance(raised.value, torch._dynamo.exc.BackendCompilerFailed)
    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert raised.value.backend_name == "hopeless"
    assert raised.value.graph_module is graph_module


def test_a_backend_has_to_return_a_callable():
    with pytest.raises(stator.BackendCompilerFailed, match="returned 3, which can't be called"):
        resolved(lambda graph_module, example_inputs: 3)(fx.symbolic_trace(lambda x: x + 1), [torch.zeros(2)])


def test_options_and_mode_reach_the_backend():
    seen = []

    def compiler(graph_module, example_inputs, **arguments):
        seen.append(arguments)
        return graph_module

    graph_module = fx.symbolic_trace(lambda x: x + 1)
    resolved(compiler, options={"level": 3})(graph_module, [torch.zeros(2)])
    resolved(compiler, mode="fast")(graph_module, [torch.zeros(2)])
    resolved(compiler, mode="default")(graph_module, [torch.zeros(2)])
    assert seen == [{"options": {"level": 3}}, {"mode": "fast"}, {}]
    with pytest.raises(RuntimeError, match="Unexpected optimization option nonsense"):
        resolved("inductor", options={"nonsense": 3})


def test_backends_registered_with_torch_are_known():
    from torch._dynamo.backends.registry import _BACKENDS, _COMPILER_FNS, register_backend

    register_backend(lambda graph_module, example_inputs: graph_module, name="stator_test_backend")
    try:
        assert "stator_test_backend" in stator.list_backends()
        assert resolved("stator_test_backend").name == "stator_test_backend"
    finally:
        del _BACKENDS["stator_test_backend"], _COMPILER_FNS["stator_test_backend"]


PROGRAM_WITHOUT_DYNAMO = """
import sys, torch
from torch import fx
from stator import backends
def own(graph_module, example_inputs):
    return graph_module
for backend in ("eager", own):
    chosen = backends.resolve(backend, dynamic=None, options=None, mode=None)
    chosen(fx.symbolic_trace(lambda x: x + 1), [torch.zeros(2)])
print("torch._dynamo" in sys.modules)
"""


def test_eager_and_own_backends_do_not_import_dynamo():
    assert fresh(PROGRAM_WITHOUT_DYNAMO) == "False"


def test_the_trace_log_is_open_before_compilers_print_graphs_for_it():
    program = """
import logging, torch, stator
def backend(module, inputs):
    print(bool(logging.getLogger("torch.__trace").handlers))
    return module.forward
stator.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
"""
    assert fresh(program) == "False"


@pytest.mark.parametrize("guard", [False, True])
def test_inputs_with_a_static_address_are_marked(guard: bool):
    """As torch._dynamo marks them: inductor's CUDA graphs use such inputs where they are."""
    types: list[list[Any]] = []

    def backend(graph_module, example_inputs):
        placeholders = graph_module.graph.find_nodes(op="placeholder")
        types.append([node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") for node in placeholders])
        return graph_module

    class Cache:
        def __init__(self):
            self.keys = torch.zeros(4)
            torch._dynamo.mark_static_address(self.keys, guard=guard)

    def step(cache, x):
        cache.keys.add_(x)
        return cache.keys * 2

    compiled = stator.compile(step, backend=backend)
    cache, x = Cache(), torch.ones(4)
    for count in (1, 2):
        assert torch.equal(compiled(cache, x), torch.full((4,), 2.0 * count))
    assert types == [["guarded" if guard else "unguarded", None]]
    assert torch.equal(compiled(Cache(), x), torch.full((4,), 2.0))
    assert len(types) == (2 if guard else 1)


def test_parameters_and_state_of_an_optimizer_are_marked_as_static():
    """Their memory does not move; that of gradients does."""
    marked: dict[str, str | None] = {}

    def backend(graph_module, example_inputs):
        for node in graph_module.graph.find_nodes(op="placeholder"):
            marked[node.target] = node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type")
        return graph_module

    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([parameter])
    step = stator.compile(optimizer.step, backend=backend)
    for _ in range(2):
        parameter.grad = torch.ones(3)
        step()
    # The parameter, its gradient, `exp_avg`, `exp_avg_sq` and `step`.
    assert len(marked) == 5
    assert {name: kind for name, kind in marked.items() if kind != "unguarded"} == {
        name: None for name in marked if name.endswith("grad")
    }
    assert sum(name.endswith("grad") for name in marked) == 1


def test_aot_autograd_knows_the_inputs_with_a_static_address():
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    found: list[list[int]] = []

    def compiler(graph_module, example_inputs):
        found.append(TracingContext.get().fw_metadata.static_input_indices)
        return make_boxed_func(graph_module.forward)

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("offset", torch.ones(4))

        def forward(self, keys, x):
            keys.add_(x)
            return self.linear(keys + self.offset) + x

    for compile in (stator.compile, torch.compile):
        keys, x = torch.zeros(4), torch.ones(4)
        torch._dynamo.mark_static_address(keys)
        with torch.no_grad():
            compile(Step(), backend=aot_autograd(fw_compiler=compiler))(keys, x)
    ours, theirs = found
    assert ours == theirs
    assert len(ours) == 4


def test_the_code_that_was_traced():
    """Caches of compiled code look at its files. It is what torch.compile tells the same backend."""

    def without_operations():
        return 2

    def helper(x, by):
        return x * by

    def program(x):
        y = helper(x, without_operations())
        return helper(y, 3)

    def backend(graph_module, inputs):
        traced.append(TracingContext.get_traced_code())
        return graph_module

    traced: list[Any] = []
    for compile in (stator.compile, torch.compile):
        assert compile(program, backend=backend)(torch.ones(2)).tolist() == [6.0, 6.0]
    ours, theirs = traced
    assert ours == [function.__code__ for function in (program, without_operations, helper)]
    assert set(theirs) == set(ours)
