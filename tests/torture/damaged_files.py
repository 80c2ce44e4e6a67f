"""Files that were damaged, and files that can't be written."""

from __future__ import annotations

import collections
import contextlib
import copy
import os
import random
import resource
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import torch

import stator
from stator import _testing, recordings
from tests.torture.programs import expect_right, program

# What is put in the place of a part of a recording.
WRONG: list[Any] = [
    None,
    True,
    -1,
    0,
    1,
    7,
    1 << 40,
    1 << 70,
    0.5,
    "",
    "text",
    "os",
    [],
    {},
    [[]],
    {"o": 0},
    {"o": 1 << 40},
]


def recording(folder: str) -> str:
    """The path of a recording of a trace that failed on purpose."""
    _testing.fail_at_node(2)
    try:
        with stator.config.patch(record_errors=folder, suppress_errors=True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            stator.compile(program, isolate_recompiles=True)(torch.ones(3), [0, 1])
    finally:
        _testing.fail_at_node(None)
    return os.path.join(folder, sorted(os.listdir(folder))[0])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container in JSON, with each of its keys."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], (dict, list)):
            yield from _places(value[key])


def damaged_recordings(rounds: int) -> str:
    """Recordings that are cut, of which a bit has changed, and that say something else with a checksum that fits."""
    chosen, outcomes = random.Random(0), collections.Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        path = recording(folder)
        with open(path, "rb") as file:
            whole = file.read()
        assert _replayed(path) == "replayed"  # the error was one on purpose
        content, memory = recordings._unpacked(path)
        for number in range(rounds):
            other, altered = bytearray(whole), copy.deepcopy(content)
            if number % 4 == 0:
                del other[chosen.randrange(len(whole)) :]
            elif number % 4 == 1:
                other[chosen.randrange(len(whole))] ^= 1 << chosen.randrange(8)
            else:
                for _ in range(number % 4 - 1):
                    owner, key = chosen.choice(list(_places(altered)))
                    owner[key] = copy.deepcopy(chosen.choice(WRONG))
                other = bytearray(recordings._packed(altered, memory))
            with open(path, "wb") as file:
                file.write(other)
            outcomes[outcome := _replayed(path)] += 1
            assert number % 4 > 1 or outcome == "refused", number
    return str(outcomes)


def _replayed(path: str) -> str:
    """Every other exception is an error."""
    try:
        stator.replay(path, allow=["tests.torture.programs"])
    except recordings.RecordingError:
        return "refused"
    except stator.Unsupported:
        return "failed as recorded"
    return "replayed"


# ---- a disk that is full -------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def small_files() -> Iterator[None]:
    """Files can't be longer than ten bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _adds_one(graph_module: Any, example_inputs: Any) -> Any:
    """A backend that is wrong."""
    return lambda *inputs: tuple(one + 1 if isinstance(one, torch.Tensor) else one for one in graph_module(*inputs))


def full_disk(rounds: int) -> str:
    """Recordings, reports and reproductions on a disk that takes no more."""
    hook, seen, mismatches = sys.unraisablehook, list[str](), 0
    sys.unraisablehook = lambda found: seen.append(str(found.exc_value))
    try:
        for number in range(rounds):
            with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                with contextlib.suppress(OSError), stator.watch("/dev/full"):
                    expect_right(stator.compile(program, isolate_recompiles=True), number % 3)
                with small_files(), contextlib.suppress(IndexError):
                    recording(folder)
                with small_files(), stator.config.patch(reproduction_folder=folder):
                    mismatches += _finds_the_mistake()
                assert os.listdir(folder) == [], "half a file"
                assert any("could not be written" in str(one.message) for one in warned)
    finally:
        sys.unraisablehook = hook
    assert len(seen) >= rounds and mismatches == rounds
    return f"{len(seen)} recordings and {mismatches} reproductions could not be written"


def _finds_the_mistake() -> bool:
    checked = stator.compile(program, backend=_adds_one, check="always", isolate_recompiles=True)
    try:
        checked(torch.ones(3), [0])
    except stator.Mismatch as mismatch:
        return not mismatch.reproduction
    return False
