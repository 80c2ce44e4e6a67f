"""`x[mask] = values` with a value for each selected element: how many these are is known when the graph runs."""

import pytest
import torch

from tests.support.corpus import Corpus
from tests.support.harness import T, same
from tests.support.scenarios import same_scenario

corpus = Corpus()
MASK = torch.tensor([True, False, True])


@corpus.core
def one_for_each(x):
    y = x * 1
    y[MASK] = torch.ones(2, x.shape[1])
    return y


@corpus.core
def broadcast(x):
    y = x * 1
    y[MASK] = torch.arange(2.0)[:, None]
    y[MASK] = torch.ones(1, 1, x.shape[1]) * 2
    return y


@corpus.core
def in_other_dimensions(x):
    y = torch.zeros(2, 3, 2)
    y[:, MASK] = torch.ones(2, 2, 2)
    y[0, MASK, 1:] = torch.full((2, 1), 3.0)
    y[..., MASK[:2]] = torch.arange(3.0)[:, None]
    return y + x.sum()


@corpus.core
def in_several_dimensions(x):
    y = torch.zeros(3, 3, 2)
    y[torch.eye(3) > 0] = torch.arange(6.0).reshape(3, 2)
    return y + x.sum()


@corpus.core
def as_functions(x):
    y = x * 1
    values = torch.ones(2, x.shape[1])
    y.index_put_((MASK,), values)
    return y, torch.index_put(x, (MASK,), values, accumulate=True)


@corpus.core
def of_another_count(x):
    y = x * 1
    try:
        y[MASK] = torch.ones(3, x.shape[1])
    except RuntimeError:
        return y - 1
    return y


test_programs = corpus.test()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend):
    def program(x, values):
        y = x * 2
        y[:, MASK] = values
        return y.sin()

    same(program, T(2, 3, grad=True), T(2, 2, grad=True), backend=backend, compare_dynamo=False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "stator"])
def test_the_count_changes(backend):
    def scenario(compile, note):
        @compile
        def program(x, mask, values):
            x += 1
            x[mask] = values
            return x * 2

        x = torch.zeros(4)
        for selected in ([0, 1], [2, 3], [0, 1, 2], [], [1, 3]):
            mask = torch.zeros(4, dtype=torch.bool)
            mask[selected] = True
            note(program, x, mask, torch.ones(2))
            note(x)
        note(program, x, mask, torch.ones(1))

    same_scenario(scenario, backend)


@pytest.mark.parametrize("setting", [False, True])
def test_values_that_are_selected_themselves(setting):
    def program(x, mask):
        y = torch.zeros_like(x)
        y[mask] = x[mask]
        return y

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=setting):
        same(program, T(3), lambda: torch.tensor([True, False, True]), fullgraph=setting, compare_dynamo=False)
