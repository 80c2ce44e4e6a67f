"""The backends `eager` and `stator` get no graph module where nobody reads the graph."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.backends import prepared_calls
from stator.graph_module import GraphModule
from tests.support import engine

BACKENDS: list[Any] = ["eager", "stator"]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    modules: list[Any] = []
    create = GraphModule.from_captured

    def noted(*arguments: Any) -> GraphModule:
        modules.append(create(*arguments))
        return modules[-1]

    monkeypatch.setattr(GraphModule, "from_captured", noted)
    stator.reset()
    return modules


def program(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_module_is_made(backend: Any, made: list[Any]) -> None:
    model, x = nn.Sequential(nn.Linear(3, 3), nn.ReLU()), torch.ones(2, 3)
    function, module = stator.compile(program, backend=backend), stator.compile(model, backend=backend)
    for _ in range(3):
        assert torch.equal(function(x), program(x))
        assert torch.equal(module(x), model(x))
    assert made == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_whoever_reads_the_graph_gets_a_module(backend: Any, made: list[Any]) -> None:
    report = stator.explain(program, backend=backend)(torch.ones(2))
    assert len(report.captures) == len(made) == 1
    called: list[Any] = []

    def own(module: Any, examples: Any) -> Any:
        called.append(module)
        return prepared_calls(module, examples)

    assert stator.compile(program, backend=own)(torch.ones(2)).tolist() == [2, 2]
    assert called == made[1:]


@pytest.mark.parametrize("backend", BACKENDS)
def test_symbols_and_subgraphs_need_a_module(backend: Any, made: list[Any]) -> None:
    def with_branch(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    for sign in (1.0, -1.0):
        assert torch.equal(
            stator.compile(with_branch, backend=backend)(torch.full((2,), sign)), torch.full((2,), 2 * sign)
        )
    branches = len(made)
    function = stator.compile(program, backend=backend, dynamic=True)
    for size in (3, 4, 5):
        assert torch.equal(function(torch.ones(size)), program(torch.ones(size)))
    assert 0 < branches < len(made)


def test_a_graph_of_which_nothing_is_used(made: list[Any]) -> None:
    def unused(x: torch.Tensor) -> int:
        x + 1
        return 3

    function = stator.compile(unused, backend="stator")
    assert [function(torch.ones(2)) for _ in range(2)] == [3, 3]


def test_an_error_is_that_of_the_program(made: list[Any]) -> None:
    def fails(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        return (x + 1)[index] * 2

    function, x = stator.compile(fails, backend="stator"), torch.ones(3)
    for index in ([0, 1], [2, 2], [1, 7], [0, 2]):
        seen = []
        for each in (fails, function):
            try:
                seen.append(each(x, torch.tensor(index)).tolist())
            except IndexError as error:
                seen.append(str(error))
        assert seen[0] == seen[1]
    assert made == []


def test_each_graph_is_reset_with_torch() -> None:
    """`torch._dynamo.reset()` forgets who has asked to be reset: each new graph asks again."""
    import torch._dynamo

    function, x = stator.compile(program, backend="stator"), torch.ones(2)
    function(x)
    for _ in range(3):
        before = engine.captures()
        function(x)
        assert engine.captures() == before
        torch._dynamo.reset()
        function(x)
        assert engine.captures() == before + 1
