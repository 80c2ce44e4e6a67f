"""Compares a compiled model with the uncompiled one."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy
import torch

import stator


def tensors(value: Any) -> list[torch.Tensor]:
    """Every tensor in a result, in order: outputs of models are dicts, tuples and objects such as caches."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [found for one in value.values() for found in tensors(one)]
    if isinstance(value, (list, tuple)):
        return [found for one in value for found in tensors(one)]
    if hasattr(value, "__dict__") and not isinstance(value, (type, torch.nn.Module)):
        return tensors(vars(value))
    return []


def shape_of(value: Any) -> Any:
    """The classes of a result and of its items."""
    if isinstance(value, dict):
        return type(value), {key: shape_of(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [shape_of(one) for one in value]
    return type(value)


@dataclasses.dataclass
class Run:
    result: Any
    gradients: dict[str, torch.Tensor | None]
    buffers: dict[str, torch.Tensor]


def run(model: torch.nn.Module, inputs: tuple[Any, ...], training: bool) -> Run:
    torch.manual_seed(7)
    numpy.random.seed(7)
    model.zero_grad()
    if not training:
        with torch.no_grad():
            return Run(model(*inputs), {}, {})
    result = model(*inputs)
    sum(one.float().square().sum() for one in tensors(result) if one.requires_grad).backward()
    return Run(
        result,
        {name: parameter.grad for name, parameter in model.named_parameters()},
        dict(model.named_buffers()),
    )


def same_model(
    make: Callable[[], tuple[Any, tuple[Any, ...]]],
    training: bool,
    backend: str,
    fullgraph: bool = True,
    is_exact: bool = True,
) -> stator.Report:
    """Two calls of a model, each compared with an uncompiled copy: results, classes, gradients, buffers."""
    torch.manual_seed(0)
    model, inputs = make()
    model.train(training)
    uncompiled = copy.deepcopy(model)
    stator.reset()
    compiled = stator.compile(model, backend=backend, fullgraph=fullgraph)
    with stator.watch() as report:
        for _ in range(2):
            expected, actual = run(uncompiled, inputs, training), run(compiled, inputs, training)
            assert shape_of(actual.result) == shape_of(expected.result)
            assert tensors(expected.result), "a model without a result shows nothing"
            # aot_autograd orders and fuses operations in its own way.
            bound = 0 if is_exact and backend == "eager" else 1e-4
            tolerance = {"rtol": bound, "atol": bound}
            torch.testing.assert_close(tensors(actual.result), tensors(expected.result), **tolerance)
            torch.testing.assert_close(actual.buffers, expected.buffers, **tolerance)
            # Autograd adds up the parts of a gradient in the order in which they arrive.
            torch.testing.assert_close(actual.gradients, expected.gradients, rtol=1e-4, atol=1e-4)
    stator.reset()
    return report
