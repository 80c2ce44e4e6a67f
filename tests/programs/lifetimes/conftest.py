import functools
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine import reset
from tests.support.lifetimes import is_undisturbed
from tests.support.processes import python

HERE = Path(__file__).parent
FILES = [str(HERE / name) for name in ("test_lifetimes.py", "test_lifetimes_changing.py", "test_owners.py")]


@functools.cache
def printed_alone() -> str:
    """The result of pytest for these files in a separate process; run at most once."""
    options = ["-q", "--tb=short", "-rA", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return python("-m", "pytest", *options, *FILES, check=False, STATOR_TEST_ALONE="1")


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """Objects die when their last reference goes, and at no other time."""
    reset()
    gc.collect()
    gc.disable()  # objects that the collector frees were not dropped by the program
    yield
    gc.enable()
    reset()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """If earlier tests have changed this process, the test runs in another one."""
    if "undisturbed" not in pyfuncitem.fixturenames or is_undisturbed():
        return None
    assert "STATOR_TEST_ALONE" not in os.environ, "even a process of its own is disturbed"
    text = printed_alone()
    if f"PASSED {pyfuncitem.nodeid}\n" not in f"{text}\n":
        pytest.fail(f"in a process of its own: {text[-3000:]}")
    return True
