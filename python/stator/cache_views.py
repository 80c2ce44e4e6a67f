"""Stator's entries as TorchDynamo's cache entries, for tools that read those of a function under `stator.install()`:
`torch._dynamo.eval_frame._debug_get_cache_entry_list` and what is beside it.

The list of TorchDynamo's own entries, of what was compiled by it, comes first. An entry is one that starts at the
beginning of the function: where TorchDynamo has a code object with entries of its own for the rest after a graph break,
Stator has entries of the same code that start at a later instruction, and these are not listed.
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


def entries_of(code: CodeType) -> list[CacheEntry]:
    """By region; those of one region with the last used one first."""
    found = [
        CacheEntry(code, compile_id, backend, region, tuple(guards))
        for region, compile_id, backend, guards in engine().entries_of(code)
    ]
    return sorted(found, key=lambda entry: entry.isolate_recompiles_id)


def listing(torchs: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """`_debug_get_cache_entry_list`."""

    def _debug_get_cache_entry_list(code: Any) -> list[Any]:
        return [*torchs(code), *entries_of(_code_of(code))]

    return _debug_get_cache_entry_list


def listing_region(torchs: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """`_get_cache_entries_for_region`."""

    def _get_cache_entries_for_region(code: Any, isolate_recompiles_id: int) -> list[Any]:
        own = [entry for entry in entries_of(_code_of(code)) if entry.isolate_recompiles_id == isolate_recompiles_id]
        return [*torchs(code, isolate_recompiles_id), *own]

    return _get_cache_entries_for_region


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
