"""The amount of testing: `make test` takes minutes, `make test-long` runs everything."""

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

LONG = os.environ.get("STATOR_LONG_TESTS", "") not in ("", "0")

# For tests and parameters of which a cheaper relative stays in `make test`.
long_only = pytest.mark.skipif(not LONG, reason="part of make test-long")

Value = TypeVar("Value")


def every(step: int, values: Iterable[Value], turn: int) -> list[Value]:
    """All values where tests may take long, else every `step`-th. Whoever takes its `turn`, one after the other, leaves
    out none of them: so a product of two axes becomes a diagonal, which meets every value of both."""
    listed = list(values)
    return listed if LONG else listed[turn % step :: step]
