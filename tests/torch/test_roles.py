"""Which callables become nodes: the same ones as with torch._dynamo, determined without its lists."""

import types

import pytest
import torch
from torch._dynamo import trace_rules
from torch._dynamo.variables import TorchInGraphFunctionVariable

from stator import _testing

FUNCTIONS = [
    (f"{module.__name__}.{name}", function)
    for module in (torch.nn.functional, torch.functional)
    for name, function in vars(module).items()
    if isinstance(function, types.FunctionType) and function.__module__ == module.__name__
]
# torch._dynamo does not trace into these and has no rule for them either; nothing that is public calls them.
PRIVATE = {
    "torch.functional._unique_torch_function",
    "torch.functional._unique_consecutive_torch_function",
    "torch.functional._return_inverse_and_counts",
    "torch.functional._consecutive_return_inverse_and_counts",
}


@pytest.mark.parametrize("name, function", FUNCTIONS, ids=[name for name, _ in FUNCTIONS])
def test_functions_written_in_python(name, function):
    expected = trace_rules.lookup(function) is TorchInGraphFunctionVariable
    is_private = name.rpartition(".")[2].startswith("_")
    if expected and is_private:
        pytest.skip("private: what calls it is a node already")
    assert (_testing.role(function) == "in graph") == expected or name in PRIVATE


@pytest.mark.parametrize("holder", ["_nn", "_linalg", "_fft", "_special"])
def test_functions_written_in_c(holder):
    module = getattr(torch._C, holder)
    functions = [getattr(module, name) for name in dir(module)]
    functions = [function for function in functions if isinstance(function, types.BuiltinFunctionType)]
    assert functions
    assert {_testing.role(function) for function in functions} == {"in graph"}


@pytest.mark.parametrize("name", ["add", "matmul", "zeros", "cat", "relu", "where", "tensor", "arange", "dropout"])
def test_functions_of_torch(name):
    assert _testing.role(getattr(torch, name)) == "in graph"


def test_methods_of_tensors_written_in_python():
    assert _testing.role(torch.Tensor.split) == "tensor method"
    assert _testing.role(torch.Tensor.norm) == "tensor method"


def test_everything_else_is_the_programs_own():
    for function in (test_everything_else_is_the_programs_own, torch.nn.Linear.forward, torch.manual_seed, len):
        assert _testing.role(function) == "none"


def test_what_the_user_allows_and_forbids():
    @torch.compiler.allow_in_graph
    def allowed(x):
        return x

    assert _testing.role(allowed) == "in graph"
    assert _testing.role(torch.sub) == "in graph"
    torch._dynamo.disallow_in_graph(torch.sub)
    try:
        assert _testing.role(torch.sub) == "disallowed"
    finally:
        torch._dynamo.allow_in_graph(torch.sub)
    assert _testing.role(torch.sub) == "in graph"
    assert _testing.role(torch._dynamo.graph_break) == "disallowed"
    assert _testing.role(torch._dynamo.is_compiling) == "is compiling"
