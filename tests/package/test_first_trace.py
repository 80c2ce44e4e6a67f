"""What `stator.compile` does for the first capture of a process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import stator
from stator import first_trace


def test_the_traced_program_is_captured_as_a_whole() -> None:
    """A trace that broke early would leave most of the tables to the first call."""
    arguments = [torch.nn.ReLU(), torch.ones(3, 4), torch.ones(3, 4), []]
    report = stator.explain(first_trace._program)(*arguments)
    assert not report.breaks
    assert sum(capture.nodes for capture in report.captures) > 10


def test_no_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Seen(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(function)
            return function(*args, **(kwargs or {}))

    state = torch.get_rng_state()
    with stator.watch() as report:
        first_trace.trace_once()
        with Seen():
            first_trace.trace_once()
        assert first_trace._trace()  # raises nothing that is hidden, and gets to the end
        # The program is traced and not called.
        monkeypatch.setattr(torch.nn.functional, "linear", lambda *given: seen.append(given))
        first_trace.trace_once()
    assert (seen, report.captures, report.notes) == ([], [], [])
    assert torch.equal(torch.get_rng_state(), state)
