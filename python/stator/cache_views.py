"""Stator's entries as TorchDynamo's cache entries, for tools that read those of a function under `stator.install()`:
`torch._dynamo.eval_frame._debug_get_cache_entry_list` and what is beside it.

The list of TorchDynamo's own entries, of what was compiled by it, comes first. An entry is one that starts at the
beginning of the function. Where TorchDynamo has a code object with entries of its own for the rest after a graph break
(`ContinueExecutionCache`), Stator has entries of the same code that start at a later instruction: a `ResumedCode`
stands for that code object.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from stator._engine import engine


@dataclass(frozen=True)
class CacheEntry:
    """What of TorchDynamo's `_CacheEntry` has a meaning for an entry of Stator."""

    code: CodeType
    compile_id: Any
    backend: Any
    isolate_recompiles_id: int
    # Stator's guards, as text.
    guards: tuple[str, ...]


@dataclass(frozen=True)
class ResumedCode:
    """The rest of a function after a graph break, from an instruction on."""

    code: CodeType
    instruction: int


def entries_of(code: CodeType | ResumedCode) -> list[CacheEntry]:
    """By region; those of one region with the last used one first."""
    whole, start = (code.code, code.instruction) if isinstance(code, ResumedCode) else (code, 0)
    found = [
        CacheEntry(whole, compile_id, backend, region, tuple(guards))
        for region, compile_id, backend, guards in engine().entries_of(whole, start)
    ]
    return sorted(found, key=lambda entry: entry.isolate_recompiles_id)


def listing(torchs: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """`_debug_get_cache_entry_list`."""

    def _debug_get_cache_entry_list(code: Any) -> list[Any]:
        if isinstance(code, ResumedCode):
            return entries_of(code)
        found = torchs(code)
        return [*found, *(entry for entry in entries_of(_code_of(code)) if entry not in found)]

    return _debug_get_cache_entry_list


def listing_if_torch_has_none(torchs: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """The same function of `torch._C`, which TorchDynamo calls, too, for its own entries."""

    def _debug_get_cache_entry_list(code: CodeType) -> list[Any]:
        return torchs(code) or entries_of(code)

    return _debug_get_cache_entry_list


def listing_region(torchs: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """`_get_cache_entries_for_region`."""

    def _get_cache_entries_for_region(code: Any, isolate_recompiles_id: int) -> list[Any]:
        own = [entry for entry in entries_of(_code_of(code)) if entry.isolate_recompiles_id == isolate_recompiles_id]
        return [*torchs(code, isolate_recompiles_id), *own]

    return _get_cache_entries_for_region


class ResumedCodes:
    """`ContinueExecutionCache.cache`: TorchDynamo's, and what Stator has of code that TorchDynamo has not resumed."""

    def __init__(self, torchs: Any) -> None:
        self._torchs = torchs

    def __contains__(self, code: CodeType) -> bool:
        # (TorchDynamo itself asks this before it adds a code.)
        return code in self._torchs

    def __getitem__(self, code: CodeType) -> Any:
        if code in self._torchs:
            return self._torchs[code]
        resumed = {at: ResumedCode(code, at) for at in engine().resumed_at(code)}
        if not resumed:
            raise KeyError(id(code))
        return resumed

    def __setitem__(self, code: CodeType, resumed: Any) -> None:
        self._torchs[code] = resumed

    def clear(self) -> None:
        self._torchs.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torchs, name)


def counting(torchs: Callable[..., int]) -> Callable[..., int]:
    """`_get_total_cache_entry_count`."""

    def _get_total_cache_entry_count(code: Any) -> int:
        return torchs(code) + len(entries_of(_code_of(code)))

    return _get_total_cache_entry_count


def skipping(torchs: Callable[..., None]) -> Callable[..., None]:
    """`skip_code`."""

    def skip_code(code: CodeType) -> None:
        torchs(code)
        engine().skip_code(code)

    return skip_code


def _code_of(code: Any) -> CodeType:
    return code.__code__ if callable(code) else code
