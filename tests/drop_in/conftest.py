"""For the tests of `stator.install()`."""

from collections.abc import Iterator

import pytest
import torch._dynamo

import stator


@pytest.fixture
def installed() -> Iterator[None]:
    stator.install()
    try:
        yield
    finally:
        stator.uninstall()
        torch._dynamo.reset()
