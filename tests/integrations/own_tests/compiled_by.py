"""A plugin of pytest for the tests of a library: `torch.compile` is TorchDynamo's, or Stator's, as COMPILED_BY says.

The backend of both is `aot_eager` where a test leaves it to torch.compile: what inductor makes of a graph is no question
of the compiler in front of it, and takes minutes. Tests of compilers that want an accelerator run on the CPU.
"""

import os
import sys
from typing import Any

import torch
import torch._dynamo

_WANTS_ACCELERATOR = "test requires a hardware accelerator"  # of diffusers


def pytest_configure(config: Any) -> None:
    if os.environ["COMPILED_BY"] == "stator":
        import stator
        from stator.installation import is_compiled

        # An internal error would leave the frame to CPython, with the right results.
        stator.config.suppress_errors = False
        stator.install()
        assert is_compiled(torch.compile(_call_without_inductor))
    inductor: Any = torch._TorchCompileInductorWrapper
    inductor.__call__ = _call_without_inductor
    torch.set_num_threads(1)


def _call_without_inductor(wrapper: Any, graph_module: Any, inputs: Any) -> Any:
    return torch._dynamo.lookup_backend("aot_eager")(graph_module, inputs)


def pytest_collection(session: Any) -> None:
    """Before the tests are imported, and after their conftest.py."""
    testing: Any = sys.modules.get("transformers.testing_utils")
    if testing is not None:
        testing.require_torch_accelerator = lambda test: test


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        for node in item.listchain():
            node.own_markers = [mark for mark in node.own_markers if mark.kwargs.get("reason") != _WANTS_ACCELERATOR]


def pytest_runtest_setup(item: Any) -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)
