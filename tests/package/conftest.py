"""Lets the tests of the Python side run without the C++ engine: where it is not built, a stand-in takes its place."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.package import stand_in


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    found = stand_in.real_engine()
    if found is None:
        import stator

        found = stand_in.as_module()
        monkeypatch.setitem(sys.modules, "stator._C", found)
        monkeypatch.setattr(stator, "_C", found, raising=False)
    yield found
    found.reset()
