"""Functions marked with `leaf_function`: a graph calls them, and no compiler looks into them."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch._dynamo.decorators import leaf_function

import stator
from tests.support.scenarios import same_scenario

if "mutates_args" not in inspect.signature(leaf_function).parameters:
    pytest.skip("torch 2.11 has leaf functions of another kind", allow_module_level=True)

SEEN: list[Any] = []


@leaf_function
def seen(module: Any, x: Any, scale: float = 1.0) -> Any:
    SEEN.append((x.sum().item(), scale, module.training))
    return {"out": module(x) * scale, "rows": x.mean(1)}


@seen.register_fake
def seen_fake(module: Any, x: Any, scale: float = 1.0) -> Any:
    return {"out": module(x) * scale, "rows": x.new_empty(x.shape[0])}


class Layers(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.scale = 2.0

    def forward(self, x: Any) -> Any:
        result = seen(self.linear, x + 1, scale=self.scale)
        return torch.sin(result["out"]) + result["rows"][:, None], x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_leaf_function(backend):
    """It runs once for each call, with the module that it gets, and gradients go through it."""

    def scenario(compile, note):
        SEEN.clear()
        torch.manual_seed(0)
        model = Layers()
        compiled = compile(model)
        x = torch.arange(6.0).view(2, 3).requires_grad_()
        for change in (
            lambda: None,
            lambda: None,
            model.eval,
            lambda: setattr(model, "scale", 3.0),
            lambda: model.linear.weight.data.mul_(2),
        ):
            change()
            x.grad = None
            model.zero_grad()
            out, doubled = note(compiled, x)
            (out.sum() + doubled.sum()).backward()
            note.gradients(out, x, model.linear.weight, model.linear.bias)
            note(lambda: list(SEEN))

    same_scenario(scenario, backend)


@leaf_function(mutates_args={"total"})
def add_to(total: Any, x: Any) -> Any:
    total.add_(x)
    return x * 2


@add_to.register_fake
def add_to_fake(total: Any, x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_leaf_function_that_writes_to_an_argument(backend):
    def program(total, x):
        before = total * 1
        doubled = add_to(total, x)
        return before, doubled, total * 1

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for _ in range(2):
        outcomes = []
        for run in (program, compiled):
            total = torch.ones(3)
            outcomes.append([one.tolist() for one in (*run(total, torch.arange(3.0)), total)])
        assert outcomes[0] == outcomes[1]


def test_a_leaf_function_with_a_false_description():
    """Its fake implementation returns something else: that is an error, not another result."""

    @leaf_function
    def wrong(x):
        return {"a": x}

    @wrong.register_fake
    def wrong_fake(x):
        return (x,)

    with pytest.raises(AssertionError, match="leaf_function output structure mismatch"):
        stator.compile(lambda x: wrong(x), backend="eager")(torch.ones(2))


def test_a_leaf_function_without_a_description_breaks_the_graph():
    @leaf_function
    def unknown(x):
        return x

    with pytest.raises(stator.Unsupported, match="requires a fake implementation"):
        stator.compile(lambda x: unknown(x) + 1, fullgraph=True)(torch.ones(2))
