"""The short form of each torture. `python -m tests.torture` runs the long ones."""

from __future__ import annotations

import pytest

from tests.support.processes import fresh, python
from tests.torture import faults

# Rounds of a second or two.
ROUNDS = {"garbage": 2, "full_disk": 3, "recursion": 130, "keyboard_interrupts": 60, "alarms": 150, "finalizers": 60,
          "allocations": 480, "damaged_recordings": 240}  # fmt: skip


@pytest.mark.parametrize("name", faults.FAULTS)
def test_faults(name):
    said = fresh(f"from tests.torture import faults; print(faults.FAULTS[{name!r}]({ROUNDS.get(name, 56)}))")
    assert said


def test_the_first_capture_of_a_process_without_memory():
    """Names that the engine makes when they are first asked for could not be made."""
    assert "returned" in python("-c", "from tests.torture import faults; print(faults.FAULTS['allocations'](24))")


def test_threads():
    said = fresh("from tests.torture import threads; print(threads.run(2, threads=8, seed=1))")
    assert "call_shared" in said and "reset" in said


def test_soak():
    said = fresh("from tests.torture import soak; print(soak.run(2))")
    assert "p99.9" in said


def test_the_soak_notices_growth():
    program = """
from tests.torture import soak
class Leaking(soak.Server):
    kept = []
    def serve(self, requests):
        super().serve(requests)
        self.kept.append(bytearray(8 << 20))
try:
    soak.run(0.1, server=Leaking())
except AssertionError as error:
    print("noticed", error)
"""
    assert "noticed" in fresh(program)


def test_the_soak_notices_late_captures():
    program = """
import torch, stator
from tests.torture import soak
class Capturing(soak.Server):
    def serve(self, requests):
        super().serve(requests)
        stator.compile(lambda x: x + 1, isolate_recompiles=True)(torch.ones(2))
try:
    soak.run(0.1, server=Capturing())
except AssertionError as error:
    print("noticed", error)
"""
    assert "noticed" in fresh(program)
