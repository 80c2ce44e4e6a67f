from collections.abc import Iterator

import pytest

import stator
from tests.support.callouts import CALLOUT, scaled


@pytest.fixture
def callouts_end() -> Iterator[None]:
    """Restores the action of the call-outs after each test."""
    code, bound = scaled.__code__, stator.config.recompile_limit
    stator.reset()
    yield
    CALLOUT.action = None
    stator.config.recompile_limit = bound
    scaled.__code__ = code
    stator.reset()
