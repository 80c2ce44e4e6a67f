"""Sizes that change under inference mode, whose tensors are of a kind of their own: inputs, caches and results."""

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.support.changing_sizes import captures_of, captures_of_dynamo, counted_by_dynamo
from tests.support.engine import captures
from tests.support.scenarios import same_scenario

SIZES = (3, 4, 6, 5, 7)


class Cache:
    """Keys and values that are written to, and grow, as generation does."""

    def __init__(self):
        self.held, self.position = None, 0

    def insert(self, x):
        if self.held is None:
            self.held = torch.zeros(1, 2, 4, 8)
        end = self.position + x.shape[2]
        if end > self.held.shape[2]:
            self.held = torch.cat([self.held, torch.zeros(1, 2, 4, 8)], dim=2)
        self.held[:, :, self.position : end] = x
        self.position = end
        return self.held[:, :, :end]


def attends(x, cache):
    held = cache.insert(x)
    return F.scaled_dot_product_attention(x, held, held)


PROGRAMS = {
    "results and views": lambda x: (x * 2, x.view(-1), x[1:], x),
    "written in place": lambda x: (x.add_(1), x[0].mul_(2), x.shape[0] * 2),
    "matrix product": lambda x: (x @ x.mT).softmax(-1).reshape(-1),
    "a branch": lambda x: x.sum() if x.shape[0] > 4 else x.t(),
    "no rule": lambda x: (torch.fft.fft(x), torch.block_diag(x, x)),
    "mode left": lambda x: left(x),
}
# (The question is answered for one size, as by TorchDynamo.)
ASKING = {"is it": lambda x: (x.is_inference(), (x + 1).is_inference(), x.shape)}


def left(x):
    with torch.inference_mode(False):
        y = torch.ones(x.shape[0]) * 2
    return y, x * 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_symbol_serves_all_sizes(name: str) -> None:
    with torch.inference_mode():
        calls = [(torch.ones(size, 3),) for size in SIZES]
        found = captures_of(PROGRAMS[name], calls)
        assert found <= captures_of_dynamo(PROGRAMS[name], calls)
        assert found == (3 if name == "a branch" else 2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "stator"])
@pytest.mark.parametrize("name", PROGRAMS | ASKING)
def test_inside_and_outside(name: str, backend: str) -> None:
    """The same callable gets inference tensors and others, in the mode and outside of it."""

    def scenario(compile, note):
        g = compile((PROGRAMS | ASKING)[name])
        with torch.inference_mode():
            kept = [torch.ones(size, 3) for size in SIZES]
            for x in kept:
                note(g, x)
                note.value(x)
        for size in SIZES:
            note(g, torch.ones(size, 3))
        for x in kept:
            note(g, x)
            note.value(x)
        with torch.inference_mode():
            for size in (*SIZES, 9):
                x = torch.ones(size, 3)
                note(g, x)
                note.value(x)

    same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "stator"])
def test_a_cache_that_grows(backend: str) -> None:
    def scenario(compile, note):
        step = compile(attends)
        with torch.inference_mode():
            for _ in range(2):
                cache = Cache()
                note(step, torch.ones(1, 2, 3, 8), cache)
                for number in range(12):
                    note(step, torch.full((1, 2, 1, 8), number / 4), cache)
                note.value(cache.held)

    same_scenario(scenario, backend)


def graphs_of_a_cache_that_grows(step) -> None:
    with torch.inference_mode():
        cache = Cache()
        for size in (3, *[1] * 18):
            step(torch.ones(1, 2, size, 8), cache)


def test_graphs_of_a_cache_that_grows() -> None:
    with counted_by_dynamo() as by_dynamo:
        graphs_of_a_cache_that_grows(torch.compile(attends, backend="eager"))
    before = captures()
    graphs_of_a_cache_that_grows(stator.compile(attends, backend="eager"))
    # The prompt, a step, one that grows, and both of them with sizes that change.
    assert captures() - before == by_dynamo["captures"] == 5


def test_gradients_outside_of_the_mode() -> None:
    """A weight that needs a gradient beside an inference tensor of any size."""

    def scenario(compile, note):
        weight = torch.full((3,), 2.0, requires_grad=True)
        g = compile(lambda x: (x * weight.detach()).sum())
        with torch.inference_mode():
            kept = [torch.ones(size, 3) for size in SIZES]
        for x in kept:
            note(g, x)
        train = compile(lambda x: (x.clone() * weight).sum())
        for x in kept:
            result = note(train, x)
            if isinstance(result, torch.Tensor):
                note.gradients(result, weight)

    same_scenario(scenario, "aot_eager")
