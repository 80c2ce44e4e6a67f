"""`itertools.count` that was made before the call: each call goes on where the last one stopped."""

from __future__ import annotations

import pytest

from tests.support.harness import Source, T, same


@pytest.mark.parametrize("made", ["count()", "count(5)", "count(3, 2)", "count(0.5, 0.25)", "count(2**70)"])
def test_counters_go_on(made):
    text = f"""
import itertools
COUNTER = itertools.{made}
def f(x):
    first = next(COUNTER)
    return x * float(first + next(COUNTER))
"""
    same(
        Source(text), T(3), compare_dynamo=False, stateful=True, mutate=["next(COUNTER)", f"COUNTER = itertools.{made}"]
    )
