"""What all tests of frames share."""

from collections.abc import Iterator

import pytest

from tests.support.frames_extension import extension


@pytest.fixture(autouse=True)
def without_hooks_of_others() -> Iterator[None]:
    """torch._dynamo, which other tests run in this process, leaves its hook in place after some errors."""
    before = extension._frames_exchange_hook(0)
    yield
    extension._frames_exchange_hook(before)
