"""How torch marks what its decorators of functions mean. The tracer reads these marks itself, so each is pinned here:
a torch that marks differently fails these tests before it gives wrong graphs. `docs/dynamo-map.md` lists them."""

from __future__ import annotations

import functools
import warnings

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo import decorators, trace_rules

import stator


def program(x):
    return x + 1


def test_disable_wraps_and_marks_the_wrapper():
    disabled = torch.compiler.disable(program, reason="because")
    assert disabled._torchdynamo_disable is True
    assert disabled._torchdynamo_disable_msg == "because"
    assert disabled._torchdynamo_disable_recursive is True
    assert disabled._torchdynamo_orig_callable is program
    assert disabled._torchdynamo_wrapper_id == id(disabled)
    assert disabled.__code__.co_qualname == "DisableContext.__call__.<locals>._fn"
    assert not hasattr(program, "_torchdynamo_disable")


def test_disable_without_recursion_differs_by_one_mark_and_its_code():
    disabled = torch.compiler.disable(program, recursive=False)
    assert disabled._torchdynamo_disable is True
    assert disabled._torchdynamo_disable_recursive is False
    assert disabled.__code__ is decorators._nonrecursive_disable_wrapper_code


def test_disable_of_a_module_marks_its_forward():
    disabled = torch.compiler.disable(nn.Linear(2, 2))
    assert type(disabled) is torch._dynamo.eval_frame.OptimizedModule
    assert disabled.forward._torchdynamo_disable is True
    assert "_torchdynamo_disable" not in vars(disabled)


def test_disable_of_a_class_replaces_its_methods():
    class Model(nn.Module):
        def forward(self, x):
            return x

    assert torch.compiler.disable(Model) is Model
    assert all(vars(Model)[name]._torchdynamo_disable for name in ("__init__", "__call__", "_call_impl"))


def test_functools_wraps_copies_the_mark_but_not_the_identity():
    disabled = torch.compiler.disable(program)

    @functools.wraps(disabled)
    def outer(x):
        return disabled(x)

    assert outer._torchdynamo_disable is True
    assert outer._torchdynamo_wrapper_id != id(outer)


@pytest.mark.parametrize("spelling", [torch.compiler.allow_in_graph, torch._dynamo.allow_in_graph])
def test_allow_in_graph_is_a_set_of_ids(spelling):
    def opaque(x):
        return x

    assert spelling(opaque) is opaque
    assert vars(opaque) == {}
    assert id(opaque) in trace_rules._allowed_callable_ids.function_ids
    torch._dynamo.disallow_in_graph(opaque)
    assert id(opaque) not in trace_rules._allowed_callable_ids.function_ids
    assert id(opaque) in trace_rules._disallowed_callable_ids.function_ids


def test_functions_that_break_are_disallowed_by_id():
    ids = trace_rules._disallowed_callable_ids.function_ids
    breaking = (torch._dynamo.graph_break, decorators.skip_frame, decorators.step_unsupported)
    assert all(id(function) in ids for function in breaking)


@pytest.mark.parametrize("spelling", [torch.compiler.assume_constant_result, torch._dynamo.assume_constant_result])
def test_assume_constant_result_is_an_attribute(spelling):
    def constant():
        return 3

    assert spelling(constant) is constant
    assert vars(constant) == {"_dynamo_marked_constant": True}


def test_the_sets_of_ids_are_plain_sets_made_when_first_used():
    assert trace_rules.FunctionIdSet.function_ids is None
    fresh = trace_rules.FunctionIdSet(dict)
    assert fresh.function_ids is None
    fresh.add(3)
    assert fresh.function_ids == {3}


def test_the_questions_whether_this_is_compiling_are_these_functions():
    import torch._utils

    assert torch._dynamo.is_compiling is torch._dynamo.external_utils.is_compiling
    questions = (
        torch.compiler.is_compiling,
        torch.compiler.is_dynamo_compiling,
        torch._dynamo.external_utils.is_compiling,
        torch._utils.is_compiling,
    )
    assert len({id(question) for question in questions}) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not any(question() for question in questions)


def test_torch_compile_leaves_what_to_inline():
    compiled = torch.compile(program, backend="eager")
    assert compiled._torchdynamo_inline is program


class Keeping:
    """A backend that keeps the graphs it gets."""

    def __init__(self) -> None:
        self.graphs = []

    def __call__(self, graph_module, example_inputs):
        self.graphs.append(graph_module)
        return graph_module


@pytest.mark.usefixtures("engine")
def test_compiling_what_is_disabled_compiles_it():
    backend = Keeping()
    stator.compile(torch.compiler.disable(program), backend=backend)(torch.zeros(2))
    stator.compile(torch.compiler.disable(nn.Sequential(nn.ReLU())), backend=backend)(torch.zeros(2))
    assert len(backend.graphs) == 2


@pytest.mark.usefixtures("engine")
def test_disabling_what_is_compiled_disables_it():
    backend = Keeping()
    disabled = torch.compiler.disable(stator.compile(program, backend=backend))
    assert torch.equal(disabled(torch.zeros(2)), torch.ones(2))
    assert backend.graphs == []
