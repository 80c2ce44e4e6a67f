"""For all tests. The rooms that need no PyTorch are tested in environments without it as well."""

import gc
import importlib.util
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("torch") is not None:
    import torch

    # The tensors are tiny: more threads than workers would only wait for each other.
    torch.set_num_threads(1)

    # For a device that is not initialized, `torch.manual_seed` formats the stack of its caller, to show it should the
    # initialization fail. That is most of the time of what seeds often, as PyTorch's operator database does.
    for place, device in ((torch.cuda.random, torch.cuda), (torch.xpu.random, torch.xpu), (torch.mtia, torch.mtia)):
        if hasattr(place, "_lazy_call") and not device.is_available():
            place._lazy_call = lambda call, **kwargs: None


@pytest.fixture(autouse=True, scope="module")
def small_heap() -> None:
    """Collections of garbage look at what the tests of a file make, and not each time at all of PyTorch."""
    gc.collect()
    gc.freeze()


# PyTorch keeps some of what tests give it for the whole process: operators, backends, inductor's caches.
KEPT_BY_PYTORCH = 24


@pytest.fixture(autouse=True, scope="module")
def nothing_is_left_behind(small_heap: None) -> Iterator[None]:
    """What the captures of a file's tests have made is freed by `reset` and a collection."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import stator
    from stator import _testing

    def counts() -> dict[str, int]:
        stator.reset()
        gc.collect()
        return _testing.alive()

    before = counts()
    yield
    after = counts()
    few = all(after[name] <= before[name] + KEPT_BY_PYTORCH for name in before)
    assert few, f"left behind: {after}, before the first test {before}"


@pytest.fixture(autouse=True)
def internal_errors_raise() -> Iterator[None]:
    """An internal error leaves the frame to CPython, with the right results: without this no test would fail for it."""
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import stator

    with stator.config.patch(suppress_errors=False):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a process without torch._dynamo run first: see tests/programs/lifetimes."""
    items.sort(key=lambda item: "undisturbed" not in getattr(item, "fixturenames", ()))
