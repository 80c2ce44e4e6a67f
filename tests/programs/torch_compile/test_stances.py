"""`torch.compiler.set_stance`: a stance is respected, and ends when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator


class Counting:
    """A backend that counts the graphs it gets, and how often they run."""

    def __init__(self) -> None:
        self.graphs = 0
        self.runs = 0

    def __call__(self, graph_module: Any, example_inputs: Any) -> Any:
        self.graphs += 1

        def run(*inputs: Any) -> Any:
            self.runs += 1
            return graph_module(*inputs)

        return run


@pytest.fixture(autouse=True)
def default_stance() -> Iterator[None]:
    yield
    torch.compiler.set_stance("default")


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


X, Y = torch.ones(3), torch.ones(4)


def test_force_eager() -> None:
    backend = Counting()
    compiled = stator.compile(doubled, backend=backend)
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(compiled(X), doubled(X))
        assert (backend.graphs, backend.runs) == (0, 0)
    compiled(X)
    assert (backend.graphs, backend.runs) == (1, 1)
    with torch.compiler.set_stance("force_eager"):
        compiled(X)
    assert (backend.graphs, backend.runs) == (1, 1)
    compiled(X)
    assert (backend.graphs, backend.runs) == (1, 2)


def test_as_a_decorator_and_as_a_function() -> None:
    backend = Counting()
    compiled = stator.compile(doubled, backend=backend)

    @torch.compiler.set_stance("force_eager")
    def uncompiled(x: torch.Tensor) -> torch.Tensor:
        return compiled(x)

    assert torch.equal(uncompiled(X), doubled(X))
    assert backend.graphs == 0
    torch.compiler.set_stance("force_eager")
    compiled(X)
    assert backend.graphs == 0
    torch.compiler.set_stance("default")
    compiled(X)
    assert backend.graphs == 1
    uncompiled(X)
    assert backend.runs == 1


def test_a_module() -> None:
    backend = Counting()
    model = torch.nn.Linear(3, 3)
    compiled = stator.compile(model, backend=backend)
    with torch.compiler.set_stance("force_eager"):
        assert torch.equal(compiled(X), model(X))
    assert backend.graphs == 0
    compiled(X)
    assert backend.graphs == 1


def test_eager_on_recompile() -> None:
    backend = Counting()
    compiled = stator.compile(doubled, backend=backend)
    compiled(X)
    with torch.compiler.set_stance("eager_on_recompile"):
        compiled(X)
        assert (backend.graphs, backend.runs) == (1, 2)
        assert torch.equal(compiled(Y), doubled(Y))
        assert (backend.graphs, backend.runs) == (1, 2)
    compiled(Y)
    assert (backend.graphs, backend.runs) == (2, 3)


def test_eager_on_recompile_behind_a_break() -> None:
    seen: list[float] = []

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x = x + 1
        seen.append(float(x.sum()))
        return x * y.sum()

    backend = Counting()
    compiled = stator.compile(program, backend=backend)
    compiled(X, X)
    graphs = backend.graphs
    with torch.compiler.set_stance("eager_on_recompile"):
        assert torch.equal(compiled(X, Y), program(X, Y))
    assert backend.graphs == graphs
    assert seen == [6.0] * 3


def test_fail_on_recompile() -> None:
    backend = Counting()
    compiled = stator.compile(doubled, backend=backend)
    with torch.compiler.set_stance("fail_on_recompile"):
        with pytest.raises(RuntimeError, match="fail_on_recompile.*nothing was captured yet"):
            compiled(X)
    compiled(X)
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(X), doubled(X))
        with pytest.raises(RuntimeError, match="(?s)doubled.*test_stances.py.*size of dimension 0 is 4, was 3"):
            compiled(Y)
        assert torch.equal(compiled(X), doubled(X))
    assert backend.graphs == 1
    assert torch.equal(compiled(Y), doubled(Y))


def test_a_program_may_catch_the_failure() -> None:
    compiled = stator.compile(doubled, backend=Counting())

    def program() -> str:
        try:
            compiled(X)
        except RuntimeError as error:
            return str(error)
        return "none"

    with torch.compiler.set_stance("fail_on_recompile"):
        assert "Detected recompile when torch.compile stance is 'fail_on_recompile'" in program()
    assert program() == "none"


def test_eager_then_compile() -> None:
    backend = Counting()
    compiled = stator.compile(doubled, backend=backend)
    with torch.compiler.set_stance("eager_then_compile"):
        results = [compiled(X) for _ in range(3)]
    assert all(torch.equal(result, doubled(X)) for result in results)
    assert (backend.graphs, backend.runs) == (1, 2)


def test_aot_eager_then_compile() -> None:
    backend = Counting()
    compiled = stator.compile(doubled, backend=backend)
    x = X.clone().requires_grad_()
    with torch.compiler.set_stance("aot_eager_then_compile"):
        results = [compiled(x) for _ in range(3)]
    assert all(torch.equal(result, doubled(X)) for result in results)
    results[0].sum().backward()
    assert torch.equal(x.grad, X.cos() * 2)
    assert (backend.graphs, backend.runs) == (1, 2)


def test_force_backend() -> None:
    own, forced = Counting(), Counting()
    compiled = stator.compile(doubled, backend=own)
    for _ in range(2):
        compiled(X)
        with torch.compiler.set_stance(force_backend=forced):
            assert torch.equal(compiled(X), doubled(X))
    assert (own.graphs, own.runs) == (1, 2)
    assert (forced.graphs, forced.runs) == (1, 2)
    with torch.compiler.set_stance(force_backend="eager"):
        assert torch.equal(compiled(X), doubled(X))
    assert (own.runs, forced.runs) == (2, 2)


def test_a_stance_that_there_is_not() -> None:
    compiled = stator.compile(doubled, backend="eager")
    with torch.compiler.set_stance("eager_sometimes"), pytest.raises(RuntimeError, match="eager_sometimes"):
        compiled(X)
    assert torch.equal(compiled(X), doubled(X))


def test_with_all_graphs_there() -> None:
    """The program promises that no call needs another graph: guards choose between those there are, and a call that none
    fits raises, also the first one."""
    backend = Counting()
    compiled = stator.compile(doubled, backend=backend, dynamic=False)
    missed = "Recompilation triggered with skip_guard_eval_unsafe stance"
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        with pytest.raises(RuntimeError, match=missed):
            compiled(X)
    compiled(X), compiled(Y)
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        for x in (X, Y, X):
            assert torch.equal(compiled(x), doubled(x))
        with pytest.raises(RuntimeError, match=missed + r"(.|\n)*size of dimension 0 is 5, was"):
            compiled(torch.ones(5))
    assert torch.equal(compiled(torch.ones(5)), doubled(torch.ones(5)))
    assert (backend.graphs, backend.runs) == (3, 6)


def test_with_all_graphs_there_after_a_break() -> None:
    def program(x: torch.Tensor, scale: int) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * scale if scale < 3 else y

    compiled = stator.compile(program, backend="eager")
    compiled(X, 2)
    with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
        assert torch.equal(compiled(X, 2), program(X, 2))
        with pytest.raises(RuntimeError, match="skip_guard_eval_unsafe stance"):
            compiled(X, 5)
    with torch.compiler.set_stance("force_eager", skip_guard_eval_unsafe=True):
        assert torch.equal(compiled(X, 5), program(X, 5))


def test_set_inside() -> None:
    """An error, as PyTorch documents it."""

    def program(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        with torch.compiler.set_stance("force_eager"):
            return x - 1

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        with pytest.raises(AssertionError, match="Attempt to trace forbidden callable"):
            compiled(X)
    assert torch._dynamo.eval_frame._stance.stance == "default"
