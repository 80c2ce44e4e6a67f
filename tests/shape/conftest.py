"""Thousands of tiny real operations: threads would only wait for each other."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.testing._internal import common_utils

# Whoever takes samples from PyTorch's operator database is looked for among the callers, in case it is a
# `unittest.TestCase`. No test here is one, and `inspect.stack` takes most of a test's time.
common_utils.extract_test_fn = lambda: None


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
