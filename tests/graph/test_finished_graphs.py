"""Names, removal of unused nodes, truncation, and the text of a graph."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from stator import _C, _testing


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def test_unused_nodes_and_placeholders_go_and_names_stay() -> None:
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "L_x_", result=torch.ones(4))
    unused = b.add("placeholder", "L_unused_")
    one = b.add("call_function", operator.add, (x, 1), result=torch.ones(4))
    dead = b.add("call_function", operator.add, (one, unused))
    b.add("call_function", torch.relu, (dead,))
    two = b.add("call_function", operator.add, (one, [x, {"k": one}], slice(0, 2)), {"alpha": 2.5})
    b.add("call_method", "zero_", (x,), effect=True)
    late = b.add("placeholder", "L_self_modules_layerNorm_parameters_weight_")
    b.add("output", "output", ((two, late, None),))
    assert lines(repr(b.finish())) == lines("""
        %l_x_ = placeholder L_x_ -> f32[4]
        %l_self_modules_layer_norm_parameters_weight_ = placeholder L_self_modules_layerNorm_parameters_weight_
        %add = call_function operator.add(%l_x_, 1) -> f32[4]
        %add_2 = call_function operator.add(%add, [%l_x_, {'k': %add}], slice(0, 2, None), alpha=2.5)
        %zero_ = call_method zero_(%l_x_)
        output (%add_2, %l_self_modules_layer_norm_parameters_weight_, None)
    """)


def test_the_text_names_targets_and_constants() -> None:
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x")
    nodes = [
        b.add("call_function", torch.nn.functional.linear, (x, x)),
        b.add("call_function", torch.nn.functional.dropout, (x,), {"p": 0.5, "training": False}),
        b.add("call_function", torch.Tensor.add, (x, (1, "a"), {"b": [2]})),
        b.add("call_function", getattr, (x, "T")),
        b.add("get_attr", "layer.weight", result=(torch.ones(2), 3)),
        b.add("call_function", torch.zeros, (2,), {"dtype": torch.float32, "device": torch.device("cpu")}),
    ]
    b.add("output", "output", (tuple(nodes),))
    assert lines(repr(b.finish())) == lines("""
        %x = placeholder x
        %linear = call_function torch._C._nn.linear(%x, %x)
        %dropout = call_function torch.nn.functional.dropout(%x, p=0.5, training=False)
        %add = call_function torch._C.TensorBase.add(%x, (1, 'a'), {'b': [2]})
        %getattr_1 = call_function getattr(%x, 'T')
        %layer_weight = get_attr layer.weight -> (f32[2], 3)
        %zeros = call_function torch.zeros(2, dtype=<torch.dtype>, device=<torch.device>)
        output (%linear, %dropout, %add, %getattr_1, %layer_weight, %zeros)
    """)


def test_a_variable_of_the_program_names_its_node_once() -> None:
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "L_x_")
    b.name_after(x, "ignored")
    first = b.add("call_function", operator.add, (x, 1))
    b.name_after(first, "y")
    b.name_after(first, "z")
    second = b.add("call_function", operator.add, (first, 1))
    third = b.add("call_function", operator.add, (second, 1))
    b.name_after(third, "y")
    fourth = b.add("call_function", operator.add, (third, 1))
    b.name_after(fourth, "input")
    b.add("output", "output", ((fourth,),))
    graph = _C.fx_graph(b.finish(), None)
    assert [n.name for n in graph.nodes] == ["l_x_", "y", "add_1", "y_1", "input_1", "output"]
    assert [n.meta["source_fn_stack"][0][0] for n in graph.nodes if n.op == "call_function"] == [
        "add",
        "add_1",
        "add_2",
        "add_3",
    ]


def test_names_are_those_of_dynamo() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = x @ w + 1
        input = torch.relu(y)
        for _ in range(2):
            y = y + input.sum()
        return y.max(), torch.sum(y)

    seen = []

    def backend(module: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        seen.append([n.name for n in module.graph.nodes])
        return module.forward

    torch.compile(program, backend=backend)(torch.ones(2, 2), torch.ones(2, 2))
    b = _testing.GraphBuilder()
    x, w = b.add("placeholder", "L_x_"), b.add("placeholder", "L_w_")
    y = b.add("call_function", operator.add, (b.add("call_function", operator.matmul, (x, w)), 1))
    b.name_after(y, "y")
    i = b.add("call_function", torch.relu, (y,))
    b.name_after(i, "input")
    for _ in range(2):
        y = b.add("call_function", operator.add, (y, b.add("call_method", "sum", (i,))))
        b.name_after(y, "y")
    results = (b.add("call_method", "max", (y,)), b.add("call_function", torch.sum, (y,)))
    b.add("output", "output", (results,))
    assert [n.name for n in _C.fx_graph(b.finish(), None).nodes] == seen[0]


word = st.text(alphabet=st.sampled_from("abAB_01. -é"), max_size=5) | st.sampled_from(
    ["add", "add_1", "add_1_1", "sum", "input", "None", "torch", "__add__", "__", "x_01", "_1", "1a", "myName", "L_x_"]
)


@pytest.mark.skipif(
    torch.torch_version.TorchVersion(torch.__version__) < (2, 12), reason="fx numbers `x_1` and `x_1` in another way"
)
@settings(max_examples=300, deadline=None)
@given(st.lists(word, max_size=8))
def test_names_are_those_of_fx(targets: list[str]) -> None:
    graph, b = torch.fx.Graph(), _testing.GraphBuilder()
    nodes = []
    for target in targets:
        graph.create_node("placeholder", target)
        nodes.append(b.add("placeholder", target))
    b.add("output", "output", (tuple(nodes),))
    made = _C.fx_graph(b.finish(), None)
    assert [n.name for n in made.nodes][:-1] == [n.name for n in graph.nodes]
    assert [made.create_node("placeholder", t).name for t in targets] == [
        graph.create_node("placeholder", t).name for t in targets
    ]


def test_truncation_forgets_nodes_uses_and_names() -> None:
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x")
    one = b.add("call_function", operator.neg, (x,))
    mark = len(b)
    failed = b.add("call_function", operator.add, (x, one))
    b.name_after(failed, "y")
    b.name_after(one, "wrong")
    b.truncate(mark)
    assert len(b) == mark
    two = b.add("call_function", operator.mul, (x, x))
    b.name_after(two, "y")
    b.add("output", "output", ((two,),))
    assert lines(repr(b.finish())) == lines("""
        %x = placeholder x
        %y = call_function operator.mul(%x, %x)
        output (%y,)
    """)


def test_a_finished_builder_is_empty() -> None:
    b = _testing.GraphBuilder()
    with pytest.raises(RuntimeError, match="a graph ends with its output"):
        b.finish()
    b = _testing.GraphBuilder()
    b.add("output", "output", ((),))
    assert len(b.finish()) == 1
    with pytest.raises(RuntimeError, match="already taken"):
        b.add("placeholder", "x")
