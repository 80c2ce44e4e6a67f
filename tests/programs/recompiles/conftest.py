import sys
import threading
import warnings

import pytest
import torch


@pytest.fixture
def world_put_back():
    """Some cases change what all tests share."""
    depth, threads, name = sys.getrecursionlimit(), torch.get_num_threads(), "MainThread"
    with warnings.catch_warnings():
        yield
    sys.setrecursionlimit(depth)
    torch.set_num_threads(threads)
    torch.set_default_device(None)
    threading.current_thread().name = name
    vars(torch).pop("myattr", None)
