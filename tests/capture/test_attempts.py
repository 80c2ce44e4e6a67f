"""A capture that is repeated: what it keeps from earlier attempts, and what it reports of them."""

import gc
import time

import numpy
import pytest
import torch

import stator
from tests.support.engine import CAPTURES

pytestmark = pytest.mark.skipif(not CAPTURES, reason="nothing is captured")


@pytest.fixture(autouse=True)
def clean():
    stator.reset()
    yield
    stator.reset()


def counted(items):
    """Uses no tensors and calls C functions that break the graph: after the first attempt it is no longer inlined."""
    return int(numpy.array(items, dtype=object).sum())


def with_a_whole_call(x, items):
    y = torch.relu(x)
    return y * counted(items)


class SlowLazy(torch.nn.LazyLinear):
    def initialize_parameters(self, input):
        time.sleep(0.05)
        super().initialize_parameters(input)


def test_the_backend_compiles_with_the_collector_on():
    states = []

    def backend(module, inputs):
        states.append(gc.isenabled())
        return module.forward

    assert gc.isenabled()
    x = torch.randn(3)
    compiled = stator.compile(with_a_whole_call, backend=backend)
    assert torch.equal(compiled(x, [1, 2]), with_a_whole_call(x, [1, 2]))
    lazy = stator.compile(torch.nn.Sequential(torch.nn.LazyLinear(2)), backend=backend)
    lazy(torch.randn(3, 4))
    assert states and all(states) and gc.isenabled()


def test_the_times_of_attempts_add_up():
    with stator.watch() as report:
        stator.compile(torch.nn.Sequential(SlowLazy(2)), backend="eager")(torch.randn(3, 4))
    assert report.graph_count == 1
    # The first attempt initialised the module, and was thrown away.
    assert report.times["trace"] >= 0.05


def test_breaks_of_an_attempt_that_is_thrown_away_are_not_reported():
    with stator.watch() as report:
        stator.compile(with_a_whole_call, backend="eager")(torch.randn(3), [1, 2])
    assert [broken.source.strip() for broken in report.breaks] == ["return y * counted(items)"]


def test_what_was_learned_shows_in_reports():
    def scaled(x, n):
        return x * n

    compiled = stator.compile(scaled, backend="eager")
    compiled(torch.ones(3), 2)
    with stator.watch() as report:
        compiled(torch.ones(3), 3)
    (capture,) = report.captures
    assert capture.knowledge == ["L['n'] changes between calls: an input of the graph"]
    assert "L['n'] changes between calls" in str(report)


def test_functions_that_are_called_as_a_whole_show_in_reports():
    with stator.watch() as report:
        stator.compile(with_a_whole_call, backend="eager")(torch.randn(3), [1, 2])
    facts = {fact for capture in report.captures for fact in capture.knowledge}
    assert facts == {"counted is called uncompiled instead of inlined, because it breaks the graph and uses no tensors"}


def test_constants_of_the_backend_show_in_reports():
    def scaled(x, n):
        return x * n

    compiles = []

    def backend(module, inputs):
        compiles.append(len(inputs))
        if len(inputs) > 1:
            raise RuntimeError("this backend can't have numbers as inputs")
        return module.forward

    compiled = stator.compile(scaled, backend=backend)
    x = torch.randn(3)
    assert torch.equal(compiled(x, 2), x * 2)
    with stator.watch() as report:
        assert torch.equal(compiled(x, 3), x * 3)
    assert compiles == [1, 2, 1]  # the number as an input, then as a constant again
    (capture,) = report.captures
    assert capture.knowledge == [
        "L['n'] changes between calls: specialized all the same, because the backend fails on its symbol"
    ]


def test_a_reset_forgets_what_was_learned():
    def scaled(x, n):
        return x * n

    compiled = stator.compile(scaled, backend="eager")
    for n in (2, 3):
        compiled(torch.ones(3), n)
    stator.reset()
    with stator.watch() as report:
        compiled(torch.ones(3), 4)
    assert [capture.knowledge for capture in report.captures] == [[]]
