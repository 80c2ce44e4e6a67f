"""The harness detects errors: a compiled program that is wrong in one respect fails."""

import collections
import random

import pytest
import torch

from tests.support import harness
from tests.support.compare import Comparison, Difference
from tests.support.engine import Node, captured_by_dynamo, describe, graph_difference
from tests.support.harness import Source, T, same


class Shared:
    pass


def wrong(monkeypatch: pytest.MonkeyPatch, program: object) -> None:
    """Makes every compilation return this program."""
    monkeypatch.setattr(harness, "compile", lambda original, backend, fullgraph: program)
    monkeypatch.setattr(harness, "CAPTURES", False)


def test_an_equal_program_passes(monkeypatch):
    wrong(monkeypatch, lambda x: x + 1)
    same(lambda x: x + 1, T(3))


def prints(x):
    print("hello")
    return x + 1


def draws(x):
    random.random()
    return x + 1


def draws_torch(x):
    torch.rand(1)
    return x + 1


def turns_off_grad(x):
    torch.set_grad_enabled(False)
    return x + 1


def raises(x):
    raise ValueError("no")


def changes(x):
    y = x + 1
    x.zero_()
    return y


@pytest.mark.parametrize(
    "program",
    [
        prints, draws, draws_torch, raises, changes, turns_off_grad,
        lambda x: x + 2,
        lambda x: (x + 1).double(),
        lambda x: (x + 1).detach(),
        lambda x: (x + 1).unsqueeze(0),
        lambda x: [x + 1],
        lambda x: (x * 2 - x.detach() + 1),
    ],
)  # fmt: skip
def test_a_wrong_program_fails(monkeypatch, program):
    wrong(monkeypatch, program)
    try:
        with pytest.raises(Difference):
            same(lambda x: x + 1, T(3, grad=True))
    finally:
        torch.set_grad_enabled(True)


def test_exceptions_are_compared_by_type_text_and_line(monkeypatch):
    def original(x):
        raise ValueError("no")

    def other_type(x):
        raise TypeError("no")

    def other_text(x):
        raise ValueError("yes")

    def other_cause(x):
        raise ValueError("no") from KeyError()

    for program in (other_type, other_text, other_cause, raises, lambda x: x):
        wrong(monkeypatch, program)
        with pytest.raises(Difference):
            same(original, T(3), fullgraph=False)
    wrong(monkeypatch, original)
    same(original, T(3), fullgraph=False)


def test_identity_and_aliasing_are_compared():
    shared, list_of = torch.ones(2), [1]
    pairs = [
        ((shared, shared), (torch.ones(2), torch.ones(2))),
        ((list_of, list_of), ([1], [1])),
        (([1], [1]), (list_of, list_of)),
        ((shared, shared[:]), (shared, shared.clone()[:])),
    ]
    for expected, actual in pairs:
        with pytest.raises(Difference):
            Comparison().same(expected, actual, "value")
    other = [1]
    Comparison().same((list_of, [2], list_of), (other, [2], other), "value")


@pytest.mark.parametrize(
    "expected, actual",
    [
        (1, True), (1, 1.0), (0.0, -0.0), ((1,), [1]), ("a", "b"), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1}, {2}),
        (collections.OrderedDict(a=1), {"a": 1}), (collections.deque([1]), collections.deque([1], 3)),
        (collections.defaultdict(int), collections.defaultdict(list)), (iter([1, 2]), iter([1, 3])),
        (range(3), range(4)), (slice(1), slice(2)), (len, sum), (int, bool), ([].append, [1].append),
        (torch.ones(2, 3), torch.ones(3, 2).t()), (torch.ones(2), torch.ones(2, dtype=torch.float64)),
        (torch.ones(2), torch.nn.Parameter(torch.ones(2))), (torch.ones(2), torch.ones(2, requires_grad=True)),
        (ValueError("a"), ValueError("b")), (lambda: 1, lambda: 2), (lambda a=1: 1, lambda a=2: 1),
    ],
)  # fmt: skip
def test_values_that_differ_are_found(expected, actual):
    with pytest.raises(Difference):
        Comparison().same(expected, actual, "value")


def test_nan_equals_nan_and_objects_compare_by_attributes():
    one, other = Shared(), Shared()
    one.a = other.a = float("nan")
    Comparison().same(one, other, "value")
    Comparison().same(torch.tensor([float("nan")]), torch.tensor([float("nan")]), "value")
    other.b = 1
    with pytest.raises(Difference):
        Comparison().same(one, other, "value")


def test_worlds_of_a_source_are_apart_and_mutations_reach_both(monkeypatch):
    stale = []

    def compile_once(original, backend, fullgraph):
        def entry(x):
            stale.append(stale[0] if stale else original(x).detach().clone())
            return stale[0]

        return entry

    monkeypatch.setattr(harness, "compile", compile_once)
    monkeypatch.setattr(harness, "CAPTURES", False)
    with pytest.raises(Difference, match="after mutation 1: result"):
        same(Source("SCALE = 2\ndef f(x): return x * SCALE"), T(3), fresh=False, mutate=["SCALE = 3"])


def test_a_second_compilation_is_noticed(monkeypatch):
    def compile_each_time(original, backend, fullgraph):
        def entry(x):
            backend(torch.fx.symbolic_trace(original), [x])
            return original(x)

        return entry

    monkeypatch.setattr(harness, "compile", compile_each_time)
    monkeypatch.setattr(harness, "CAPTURES", True)
    with pytest.raises(Difference, match="call 2: 1 graphs compiled, 0 expected"):
        same(lambda x: x + 1, T(3), compare_dynamo=False)


def test_dead_nodes_do_not_count_but_effects_do():
    def program(x, y, unused):
        unused * 2
        z = x + 1
        z.add_(y)
        x[0] = 1
        return z

    graphs = captured_by_dynamo(program, torch.ones(2), torch.ones(2), torch.ones(2))
    texts = [node.text for node in describe(graphs[0], live_only=True)]
    assert texts == [
        "placeholder l_x_",
        "placeholder l_y_",
        "call_function _operator.add",
        "call_method add_",
        "call_function _operator.setitem",
        "output of 1",
    ]
    assert len(describe(graphs[0])) == 8


def test_another_graph_than_dynamo_s_fails(monkeypatch):
    def capture(other):
        return lambda program, *args, **kwargs: captured_by_dynamo(other, *args, **kwargs)

    monkeypatch.setattr(harness, "CAPTURES", True)
    monkeypatch.setattr(harness, "captured_graphs", capture(lambda x: torch.relu(x) + 1))
    harness.same_graph_as_dynamo(lambda x: torch.relu(x) + 1, T(3))
    for wrong_graph in (lambda x: x.relu() + 1, lambda y: torch.relu(y) + 1, lambda x: (torch.relu(x) + 1, x * 2)):
        monkeypatch.setattr(harness, "captured_graphs", capture(wrong_graph))
        with pytest.raises(Difference, match="the graph differs"):
            harness.same_graph_as_dynamo(lambda x: torch.relu(x) + 1, T(3))


def test_graphs_differ_readably():
    one = [
        Node("placeholder", "l_x_", "placeholder l_x_"),
        Node("call_function", torch.relu, "call_function torch.relu"),
    ]
    other = [one[0], Node("call_function", torch.abs, "call_function torch.abs")]
    assert graph_difference(one, list(one)) is None
    assert "-call_function torch.relu\n+call_function torch.abs" in graph_difference(one, other)
