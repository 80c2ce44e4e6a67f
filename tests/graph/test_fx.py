"""`torch.fx` graphs created from captured ones, compared with those that `torch.fx` creates itself."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.immutable_collections import immutable_dict, immutable_list
from torch.fx.passes.shape_prop import ShapeProp
from torch.utils._pytree import tree_leaves

from stator import _C, _testing
from stator.graph_module import GraphModule
from tests.graph.graph_programs import PROGRAMS
from tests.graph.graph_writing import thaw, write_copy

ROUTES = pytest.mark.parametrize("ordinary", [False, True], ids=["direct", "ordinary"])


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(4, 4, generator=generator), torch.randn(4, 4, generator=generator)


def traced(program: Callable[..., Any]) -> torch.fx.GraphModule:
    module = torch.fx.symbolic_trace(program)
    for node in module.graph.nodes:
        node.type = None  # what the tracer took from the annotations
    return module


def module_of(program: Callable[..., Any]) -> GraphModule:
    original = traced(program)
    attributes = {n.target: getattr(original, n.target) for n in original.graph.nodes if n.op == "get_attr"}
    return GraphModule.from_captured(write_copy(original.graph), attributes)


def assert_same_results(actual: Any, expected: Any) -> None:
    actual, expected = tree_leaves(actual), tree_leaves(expected)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def facts(graph: torch.fx.Graph) -> list[tuple[Any, ...]]:
    return [
        (
            n.op,
            n.target,
            n.name,
            repr(n.args),
            repr(n.kwargs),
            [u.name for u in n.users],
            [i.name for i in n.all_input_nodes],
        )
        for n in graph.nodes
    ]


def container_types(argument: Any) -> Any:
    if isinstance(argument, (list, tuple)):
        return type(argument), [container_types(item) for item in argument]
    if isinstance(argument, dict):
        return type(argument), [container_types(item) for item in argument.values()]
    return None


def without_unused(graph: torch.fx.Graph) -> torch.fx.Graph:
    for node in list(graph.find_nodes(op="placeholder")):
        if not node.users:
            graph.erase_node(node)
    return graph


@ROUTES
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_every_node_is_as_fx_would_make_it(program: Callable[..., Any], ordinary: bool) -> None:
    original = traced(program)
    graph = _C.fx_graph(write_copy(original.graph), original, ordinary)
    expected = without_unused(original.graph)
    assert facts(graph) == facts(expected)
    for node, other in zip(graph.nodes, expected.nodes, strict=True):
        assert container_types(node.args) == container_types(other.args)
        assert container_types(node.kwargs) == container_types(other.kwargs)
    assert str(graph) == str(expected)
    assert graph.python_code("self").src == expected.python_code("self").src
    graph.lint()


@ROUTES
def test_the_insides_are_as_fx_would_make_them(ordinary: bool) -> None:
    original = traced(PROGRAMS[0]).graph
    graph = _C.fx_graph(write_copy(original), None, ordinary)
    assert type(graph) is torch.fx.Graph
    assert len(graph.nodes) == len(original.nodes) == graph._len
    assert graph.owning_module is None
    assert [n._sort_key for n in graph.nodes] == [n._sort_key for n in original.nodes]
    assert [n.name for n in reversed(graph.nodes)] == [n.name for n in reversed(original.nodes)]
    assert graph._root.next is next(iter(graph.nodes)) and graph._root.prev is graph.output_node()
    for node in graph.nodes:
        assert type(node) is torch.fx.Node
        assert node.graph is graph and node.prev.next is node and node.next.prev is node
        assert not node._erased and node._repr_fn is None and node.type is None
        assert type(node.args) is tuple and type(node.kwargs) is immutable_dict
    names, other = graph._graph_namespace, original._graph_namespace
    assert names._used_names == other._used_names
    assert names._base_count == other._base_count
    assert [(n.name, name) for n, name in names._obj_to_name.items()] == [
        (n.name, name) for n, name in other._obj_to_name.items()
    ]
    table = graph._find_nodes_lookup_table.table
    found = {key: [n.name for n in nodes] for key, nodes in table.items()}
    assert found == {
        key: [n.name for n in nodes] for key, nodes in original._find_nodes_lookup_table.table.items() if nodes
    }


def test_this_torch_is_known() -> None:
    assert _testing.knows_fx_layout()


def test_a_program_cannot_change_arguments_in_place() -> None:
    graph = _C.fx_graph(write_copy(traced(PROGRAMS[3]).graph), None)
    (cat,) = graph.find_nodes(op="call_function", target=torch.stack)
    assert type(cat.args[0]) is immutable_list
    with pytest.raises(TypeError, match="does not support mutation"):
        cat.args[0].append(1)
    with pytest.raises(TypeError, match="does not support mutation"):
        cat.kwargs["dim"] = 1


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_interpreter_and_generated_code_run(program: Callable[..., Any]) -> None:
    module = module_of(program)
    x, y = inputs()
    expected = program(x, y)
    given = (x, y)[: len(module.forward.placeholders)]
    assert_same_results(module(*given), expected)
    assert_same_results(torch.fx.Interpreter(module).run(*given), expected)
    module.recompile()
    assert_same_results(module(*given), expected)


def test_nodes_can_be_inserted_replaced_and_erased() -> None:
    module = module_of(PROGRAMS[0])
    graph = module.graph
    (first,) = [n for n in graph.nodes if n.name == "mul"]
    with graph.inserting_after(first):
        doubled = graph.call_function(operator.mul, (first, 3))
    assert doubled.name == "mul_1"
    first.replace_all_uses_with(doubled, delete_user_cb=lambda user: user is not doubled)
    assert first < doubled < graph.output_node()
    (negated,) = graph.find_nodes(op="call_function", target=operator.neg)
    negated.replace_all_uses_with(doubled)
    graph.erase_node(negated)
    assert graph.find_nodes(op="call_function", target=operator.neg) == []
    graph.lint()
    module.recompile()
    x, y = inputs()
    z = x + y * 2 * 3 - 1
    assert_same_results(module(x, y), (z / (y.abs() + 1), y * 6, z @ x, x + x))


def test_dead_code_elimination_finds_what_became_dead() -> None:
    module = module_of(PROGRAMS[0])
    output = module.graph.output_node()
    output.args = ((output.args[0][3],),)
    assert module.graph.eliminate_dead_code()
    assert [n.op for n in module.graph.nodes] == ["placeholder", "placeholder", "call_function", "output"]
    module.graph.lint()


def test_shape_propagation_writes_into_meta() -> None:
    module = module_of(PROGRAMS[0])
    ShapeProp(module).propagate(*inputs())
    for node in module.graph.nodes:
        if node.op == "call_function":
            assert node.meta["tensor_meta"].shape == (4, 4)
            assert next(iter(node.meta)) == "source_fn_stack"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_copies_pickles_and_traces_run(program: Callable[..., Any]) -> None:
    x, y = inputs()
    expected = program(x, y)
    for transform in (copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m)), torch.fx.symbolic_trace):
        module = module_of(program)
        given = (x, y)[: len(module.forward.placeholders)]
        other = transform(module)
        assert isinstance(other, torch.fx.GraphModule)
        assert_same_results(other(*given), expected)
        assert_same_results(module(*given), expected)


def test_graph_module_submodules_of_fx() -> None:
    module = module_of(PROGRAMS[0])
    holder = torch.nn.Sequential(module)
    assert holder.get_submodule("0") is module
    other = torch.fx.GraphModule(holder, torch.fx.Graph())
    assert len(other.graph.nodes) == 0


def test_thawed_arguments_are_frozen_again() -> None:
    assert thaw(immutable_list([1, immutable_dict({"a": slice(0, 1)})])) == [1, {"a": slice(0, 1)}]
