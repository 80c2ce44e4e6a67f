"""For all tests. The rooms that need no PyTorch are tested in environments without it as well."""

import gc
import importlib.util

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need a process without torch._dynamo run first: see tests/programs/lifetimes."""
    items.sort(key=lambda item: "undisturbed" not in getattr(item, "fixturenames", ()))
