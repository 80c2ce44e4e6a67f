"""`torch.compiler.set_stance` and PyTorch's modes in one thread do not change what compiled functions do in another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.support.processes import fresh


@pytest.fixture(autouse=True)
def default_stance():
    torch.compiler.set_stance("default")
    yield
    torch.compiler.set_stance("default")


def is_compiled() -> bool:
    """Whether a function that was never called before is captured."""
    seen = []

    def backend(graph_module: Any, example_inputs: Any) -> Any:
        seen.append(graph_module)
        return graph_module

    stator.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    return bool(seen)


def in_another_thread(act: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(act()))
    thread.start()
    thread.join()
    return results[0]


class Elsewhere:
    """Runs a block in another thread, which stays inside until `leave`."""

    def __init__(self, context: Callable[[], Any]) -> None:
        self.entered, self.may_leave, self.inside = threading.Event(), threading.Event(), None
        self.thread = threading.Thread(target=self.run, args=(context,), daemon=True)
        self.thread.start()
        self.entered.wait()

    def run(self, context: Callable[[], Any]) -> None:
        with context():
            self.inside = is_compiled()
            self.entered.set()
            self.may_leave.wait()
        self.after = is_compiled()

    def leave(self) -> None:
        self.may_leave.set()
        self.thread.join()


def eagerly() -> Any:
    return torch.compiler.set_stance("force_eager")


def test_a_block_in_one_thread_does_not_change_another():
    assert is_compiled()
    elsewhere = Elsewhere(eagerly)
    assert elsewhere.inside is False
    assert is_compiled() and in_another_thread(is_compiled)
    elsewhere.leave()
    assert elsewhere.after is True and is_compiled()


def test_blocks_that_overlap():
    assert is_compiled()
    one, other = Elsewhere(eagerly), Elsewhere(eagerly)
    one.leave()
    assert one.after is True and is_compiled()
    other.leave()
    assert other.after is True and is_compiled()


def test_what_the_main_thread_sets_holds_where_nothing_else_was_set():
    assert is_compiled()
    elsewhere = Elsewhere(lambda: torch.compiler.set_stance("default", force_backend="eager"))
    torch.compiler.set_stance("force_eager")
    assert not is_compiled() and not in_another_thread(is_compiled)
    elsewhere.leave()
    assert elsewhere.after is False  # it follows the main thread again
    torch.compiler.set_stance("default")
    assert is_compiled() and in_another_thread(is_compiled)


def test_the_first_compiled_call_of_all_is_in_such_a_block():
    program = """
import threading, torch
from tests.programs.threads.test_stances_of_threads import Elsewhere, eagerly, in_another_thread, is_compiled
elsewhere = Elsewhere(eagerly)
print(elsewhere.inside)
elsewhere.leave()
print(elsewhere.after, is_compiled(), in_another_thread(is_compiled))
"""
    assert fresh(program).split() == ["False", "True", "True", "True"]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_mode_of_another_thread(mode):
    weight = torch.ones(2, requires_grad=True)
    compiled = stator.compile(lambda x: x * weight)
    entered, may_leave, seen = threading.Event(), threading.Event(), []

    def work() -> None:
        with mode():
            seen.append(compiled(torch.ones(2)).requires_grad)
            entered.set()
            may_leave.wait()
            seen.append(compiled(torch.ones(2)).requires_grad)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    entered.wait()
    seen.append(compiled(torch.ones(2)).requires_grad)
    may_leave.set()
    thread.join()
    seen.append(compiled(torch.ones(2)).requires_grad)
    assert seen == [False, True, False, True]
