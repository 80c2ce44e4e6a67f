"""What tracking costs on a deep chain of small layers, one context for each step."""

import os

import pytest

from bench import tracker


@pytest.mark.skipif("STATOR_SANITIZED" in os.environ, reason="times mean nothing under sanitizers")
@pytest.mark.parametrize("shape", tracker.SHAPES)
def test_cost_of_a_step(shape):
    # In processor time, and the best of a few, because tests share the machine with others.
    ratio = min(tracker.measure(shape, rounds=15, clock=tracker.processor_time).ratio for _ in range(3))
    assert ratio < 1.3
