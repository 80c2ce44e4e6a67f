"""Graphs that run natively, compared with the code that `torch.fx` generates for them."""

from __future__ import annotations

import collections
import gc
import inspect
import operator
import weakref
from typing import Any

import pytest
import torch

from stator import _C, _testing
from stator.graph_module import GraphModule
from tests.graph.graph_writing import chain

Pair = collections.namedtuple("Pair", ["first", "second"])


def same_both(captured: Any, *inputs: Any) -> tuple[Any, Any]:
    module = GraphModule.from_captured(captured)
    native = module.forward(*inputs)
    assert type(module.forward) is _C.Runner
    module.recompile()
    assert type(module.forward) is not _C.Runner
    return native, module.forward(*inputs)


class Thing:
    """An object whose deallocation is logged."""


def test_values_are_released_after_their_last_use() -> None:
    alive: list[int] = []
    things: list[weakref.ref[Thing]] = []

    def make(*inputs: Any) -> Thing:
        alive.append(sum(thing() is not None for thing in things))
        thing = Thing()
        things.append(weakref.ref(thing))
        return thing

    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x")
    first = b.add("call_function", make, (x,))
    second = b.add("call_function", make, (first,))
    third = b.add("call_function", make, ([second, (second,)],), {})
    b.add("call_function", make, (), effect=True)  # its result is not used at all
    fourth = b.add("call_function", make, (third,))
    b.add("output", "output", ((fourth, third),))
    runner = _C.make_runner(b.finish())
    results = runner(None)
    assert alive == [0, 1, 1, 1, 1]
    assert [thing() is not None for thing in things] == [False, False, True, False, True]
    assert results[0] is things[4]() and results[1] is things[2]()


def test_containers_are_built_anew_for_each_call() -> None:
    seen = []
    b = _testing.GraphBuilder()
    x, y = b.add("placeholder", "x"), b.add("placeholder", "y")
    arguments = ([x, (y, {"k": [x]})], Pair(x, 1), slice(x, None, y), {"a": x, "b": (y,)})
    call = b.add("call_function", lambda *args, **kwargs: seen.append((args, kwargs)) or 5, arguments, {"key": [y]})
    b.add("output", "output", (({"result": call}, [x], x, 7),))
    runner = _C.make_runner(b.finish())
    assert runner(1, 2) == ({"result": 5}, [1], 1, 7)
    assert runner(3, 4) == ({"result": 5}, [3], 3, 7)
    (first, first_keywords), (second, second_keywords) = seen
    assert first == ([1, (2, {"k": [1]})], Pair(1, 1), slice(1, None, 2), {"a": 1, "b": (2,)})
    assert type(first[1]) is Pair and first_keywords == {"key": [2]} and second_keywords == {"key": [4]}
    assert second[0] == [3, (4, {"k": [3]})] and first[0] is not second[0]


def test_a_size_of_its_own_class_is_rebuilt() -> None:
    b = _testing.GraphBuilder()
    x, n = b.add("placeholder", "x"), b.add("placeholder", "n")
    dims = [b.add("call_function", operator.add, (n, i)) for i in range(2)]
    view = b.add("call_method", "expand", (x, (dims[0], dims[1])))
    b.add("output", "output", ((view,),))
    (result,) = _C.make_runner(b.finish())(torch.ones(1), 2)
    assert result.shape == (2, 3)


def test_many_arguments_and_many_registers() -> None:
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x")
    nodes = [b.add("call_function", operator.add, (x, i)) for i in range(500)]
    lists = [[node] for node in nodes[:9]]
    total = b.add("call_function", lambda *args: args, (*nodes, *lists))
    b.add("output", "output", ((total, nodes[3]),))
    results, third = _C.make_runner(b.finish())(1)
    assert results == (*range(1, 501), *([i] for i in range(1, 10))) and third == 4


def test_exceptions_are_the_operations_own() -> None:
    class Unhappy(Exception):
        pass

    error = Unhappy("as it was")
    released = []

    def fail(thing: Any) -> Any:
        released.append(weakref.ref(thing))
        raise error

    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x")
    made = b.add("call_function", lambda _: Thing(), (x,))
    b.add("output", "output", ((b.add("call_function", fail, (made,)),),))
    runner = _C.make_runner(b.finish())
    with pytest.raises(Unhappy) as caught:
        runner(1)
    assert caught.value is error and error.args == ("as it was",) and error.__cause__ is None
    error.__traceback__ = None
    del caught
    assert released[0]() is None


def test_missing_methods_and_wrong_shapes_say_what_torch_says() -> None:
    b = _testing.GraphBuilder()
    x, y = b.add("placeholder", "x"), b.add("placeholder", "y")
    b.add("output", "output", ((b.add("call_method", "matmul", (x, y)),),))
    runner = _C.make_runner(b.finish())
    with pytest.raises(RuntimeError) as expected:
        torch.ones(2, 3).matmul(torch.ones(2, 3))
    with pytest.raises(RuntimeError) as caught:
        runner(torch.ones(2, 3), torch.ones(2, 3))
    assert str(caught.value) == str(expected.value)
    with pytest.raises(AttributeError, match="'int' object has no attribute 'matmul'"):
        runner(1, 2)


def test_inputs_by_position_and_by_name() -> None:
    b = _testing.GraphBuilder()
    x, y = b.add("placeholder", "L_x_"), b.add("placeholder", "L_y_")
    b.add("output", "output", ((b.add("call_function", operator.sub, (x, y)),),))
    runner = _C.make_runner(b.finish())
    assert runner.placeholders == ("L_x_", "L_y_")
    assert str(inspect.signature(runner)) == "(L_x_, L_y_)"
    assert runner(5, 3) == runner(5, L_y_=3) == runner(L_y_=3, L_x_=5) == (2,)
    for arguments, keywords, message in [
        ((1,), {}, "takes 2 positional arguments but 1"),
        ((1, 2, 3), {}, "takes 2 positional arguments but 3"),
        ((1,), {"z": 1}, "unexpected keyword argument 'z'"),
        ((1,), {"L_x_": 1}, "multiple values for argument 'L_x_'"),
        ((), {"L_y_": 1}, "missing 1 required positional argument: 'L_x_'"),
    ]:
        with pytest.raises(TypeError, match=message):
            runner(*arguments, **keywords)


def test_gradients_flow() -> None:
    b = _testing.GraphBuilder()
    x, w = b.add("placeholder", "x"), b.add("placeholder", "w")
    y = b.add("call_function", torch.tanh, (b.add("call_function", torch.nn.functional.linear, (x, w)),))
    b.add("output", "output", ((b.add("call_method", "sum", (y,)),),))
    x, w = torch.randn(3, 4), torch.randn(5, 4, requires_grad=True)
    native, generated = same_both(b.finish(), x, w)
    torch.testing.assert_close(native, generated, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(native[0], w)
    (expected,) = torch.autograd.grad(torch.tanh(torch.nn.functional.linear(x, w)).sum(), w)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=0)


def test_attributes_are_read_at_each_call() -> None:
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x")
    weight, scale = b.add("get_attr", "inner.weight"), b.add("get_attr", "scale")
    b.add("output", "output", ((b.add("call_function", lambda a, b, c: a * b + c, (x, weight, scale)),),))
    attributes = {"inner.weight": torch.nn.Parameter(torch.ones(2)), "scale": torch.full((2,), 3.0)}
    module = GraphModule.from_captured(b.finish(), attributes)
    assert dict(module.named_parameters()) == {"inner.weight": attributes["inner.weight"]}
    assert list(module.state_dict()) == ["scale", "inner.weight"]
    (result,) = module(torch.ones(2))
    assert result.tolist() == [4.0, 4.0]
    module.scale = torch.zeros(2)
    (result,) = module(torch.ones(2))
    assert result.tolist() == [1.0, 1.0]


def test_a_runner_calls_itself() -> None:
    runners: list[Any] = []
    b = _testing.GraphBuilder()
    n = b.add("placeholder", "n")
    b.add("output", "output", ((b.add("call_function", lambda n: n and runners[0](n - 1)[0] + n, (n,)),),))
    runners.append(_C.make_runner(b.finish()))
    assert runners[0](20) == (210,)


def test_long_graphs_need_no_deep_stack() -> None:
    x, y = torch.zeros(2), torch.ones(2)
    (result,) = _C.make_runner(chain(20_000))(x, y)
    assert result.tolist() == [20_000.0, 20_000.0]


def test_an_unreachable_runner_is_collected() -> None:
    class Owner:
        pass

    owner = Owner()
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x")
    b.add("output", "output", ((b.add("call_function", lambda x, o=owner: x, (x,)),),))
    owner.runner = _C.make_runner(b.finish())  # type: ignore[attr-defined]
    assert owner.runner(1) == (1,)  # type: ignore[attr-defined]
    end = weakref.ref(owner)
    del owner, b, x
    gc.collect()
    assert end() is None
