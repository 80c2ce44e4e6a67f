"""`stator.verify`: what both runs have to agree on, shown by backends and programs that do not."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

import stator


def wrong(change):
    """A backend whose graphs return what `change` makes of their results."""

    def backend(graph_module, example_inputs):
        return lambda *inputs: change(inputs, graph_module(*inputs))

    return backend


def mismatch(fn, change, *arguments, **options):
    with pytest.raises(stator.Mismatch) as raised:
        stator.verify(fn, backend=wrong(change), **options)(*arguments)
    return raised.value


def test_programs_that_agree():
    def program(x, items, n=2):
        x.add_(1)
        items.append(x * n)
        print(random.random(), torch.rand(()))
        return x, items, x[0]

    x, items = torch.ones(3), []
    result = stator.verify(program, exact=True)(x, items)
    assert len(result[1]) == 2 and result[0] is not x
    assert torch.equal(x, torch.ones(3)) and items == []


def test_a_model_in_training_is_left_as_it_was():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stator.verify(model, backend="aot_eager")(torch.randn(4, 3))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_wrong_contents_name_the_place_and_show_the_graph():
    error = mismatch(lambda x: {"a": [x + 1]}, lambda inputs, results: tuple(one + 1 for one in results), torch.ones(2))
    assert (error.place, error.call) == ("result['a'][0]", 1)
    assert "contents differs" in str(error) and "operator.add" in str(error)


def test_a_small_difference_counts_only_bit_for_bit():
    def change(inputs, results):
        return tuple(one * (1 + 1e-6) for one in results)

    x = torch.ones(2)
    stator.verify(lambda x: x + 1, backend=wrong(change))(x)
    assert mismatch(lambda x: x + 1, change, x, exact=True).place == "result"


def test_a_lost_write_to_an_argument():
    def program(x):
        x.add_(1)
        return x.sum()

    def change(inputs, results):
        for one in inputs:
            one.sub_(1)
        return results

    assert mismatch(program, change, torch.ones(2)).place == "L['x']"


def test_results_that_share_memory_by_mistake():
    error = mismatch(lambda x: (x + 1, x + 1), lambda inputs, results: (results[0], results[0][:]), torch.ones(2))
    assert "sharing of memory" in str(error)


def test_wrong_gradients():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def change(inputs, results):
        return tuple(Twice.apply(one) for one in results)

    x = torch.ones(2, requires_grad=True)
    assert mismatch(lambda x: x * 3, change, x).place == "L['x'].grad"


def test_random_numbers_drawn_in_excess():
    def change(inputs, results):
        torch.rand(3)
        return results

    assert mismatch(lambda x: x + 1, change, torch.ones(2)).place == "random state[0]"


def test_an_exception_of_one_run_alone():
    def backend(graph_module, example_inputs):
        raise ValueError("no such target")

    with pytest.raises(stator.Mismatch, match="no such target") as raised:
        stator.verify(lambda x: x + 1, backend=backend)(torch.ones(2))
    assert raised.value.place == "exception"


def test_an_exception_of_both_runs_is_raised():
    def program(x):
        raise KeyError(x.shape[0])

    with pytest.raises(KeyError, match="2"):
        stator.verify(program)(torch.ones(2))


def test_a_later_call_is_compared_too():
    seen = []

    def change(inputs, results):
        seen.append(None)
        return tuple(one + (len(seen) > 1) for one in results)

    assert mismatch(lambda x: x + 1, change, torch.ones(2)).call == 2


def test_closures_are_copied_and_compared():
    total = [0]

    def program(x):
        total[0] += 1
        return x + 1

    stator.verify(program)(torch.ones(2))
    assert total == [0]
