"""Rounds in which the ranks of a process group exchange data, through the store of the group.

A store has timeouts, needs no device, and tells which rank is missing. The rounds of a rank are numbered. A round is
complete once all ranks have written to it. A rank that is allowed to go alone leaves a round after a short wait: that
round is void for all, and the others go on to the next one. Which of the two happened is decided by the store, which
compares and sets atomically. If the ranks of a complete round are about different things, those that may go alone do so
too, and the others meet in the next round.

Where the ranks give the same, what a rank sends and reads does not depend on their number: each compares with the one
that came first, and the last one tells all that the round is complete. Only if they differ each reads what all gave.

A rank that ends leaves a word in the store, so that the ranks that wait for it do not wait until their limit.
"""

from __future__ import annotations

import hashlib
import logging
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.util import Finalize
from typing import Any

import torch

from stator.settings import config

if torch.distributed.is_available():
    from torch import distributed

_log = logging.getLogger("stator")
_COMPLETE = "complete"
# Between two looks at whether a rank that is missing has ended.
_LOOK_EVERY = timedelta(seconds=1)


class RanksDiverged(RuntimeError):
    """The ranks of a process group captured different things."""


class _State:
    rounds = 0
    """Of this rank."""
    group: Any = None
    """The process group that the rounds belong to: a new one starts anew."""


@dataclass(frozen=True)
class Offer:
    """What a rank gives to the others in a round."""

    function: str  # that it compiles, for messages
    data: bytes
    about: str  # ranks that give something about the same things can compare it
    may_go_alone: bool

    def to_bytes(self) -> bytes:
        about = hashlib.sha256(self.about.encode()).hexdigest()
        return f"{int(self.may_go_alone)} {about}\n".encode() + self.data


def gather(offer: Offer) -> list[bytes] | None:
    """What each rank gave in this round, by rank; None if this rank goes on alone. Raises RanksDiverged."""
    store = _store()
    rank, count = distributed.get_rank(), distributed.get_world_size()
    given = offer.to_bytes()
    while True:
        _State.rounds += 1
        _give(store, given, rank, count)
        outcome = _outcome_of(store, offer, rank, count)
        if outcome == str(rank):
            _announce_alone(offer, rank)
            return None
        if outcome != _COMPLETE:
            continue
        answers = _read(store, given, count)
        _forget_last_round(store, rank)
        heads, data = zip(*(answer.split(b"\n", 1) for answer in answers), strict=True)
        if len(set(heads)) == 1 or not any(head.startswith(b"1") for head in heads):
            return list(data)
        if offer.may_go_alone:
            _announce_alone(offer, rank)
            return None


def _announce_alone(offer: Offer, rank: int) -> None:
    _log.warning(
        "Rank %s compiles %s alone, because the other ranks don't compile it now. All ranks have compiled it before, "
        "with the same operations.",
        rank,
        offer.function,
    )


def _give(store: Any, given: bytes, rank: int, count: int) -> None:
    number = _State.rounds
    digest = hashlib.sha256(given).hexdigest()
    if _decide(store, f"{number}/first", digest) != digest:
        store.set(f"{number}/differs", "1")
    store.set(f"{number}/{rank}", given)
    if store.add(f"{number}/came", 1) == count:
        store.set(f"{number}/all", "1")


def _read(store: Any, given: bytes, count: int) -> list[bytes]:
    """What each rank gave in a complete round."""
    if not store.check([f"{_State.rounds}/differs"]):
        return [given] * count
    keys = [f"{_State.rounds}/{other}" for other in range(count)]
    # One request for all ranks, where the store has it.
    return store.multi_get(keys) if store.has_extended_api() else [store.get(key) for key in keys]


def _forget_last_round(store: Any, rank: int) -> None:
    """All ranks have reached this round, so none reads the last one any more."""
    shared = ("first", "differs", "came", "all", "outcome") if rank == 0 else ()
    for key in (str(rank), *shared):
        store.delete_key(f"{_State.rounds - 1}/{key}")


def _store() -> Any:
    group = distributed.distributed_c10d._get_default_store()
    if _State.group is not group:
        _State.group, _State.rounds = group, 0
        # (Processes that multiprocessing starts run this, and don't run what is registered with atexit.)
        Finalize(None, _leave_word, args=(group, distributed.get_rank()), exitpriority=100)
    return distributed.PrefixStore("stator.collectives", group)


def _outcome_of(store: Any, offer: Offer, rank: int, count: int) -> str:
    """`complete`, or the rank that went on alone."""
    has_all = _wait(store, offer, rank, count)
    return _decide(store, f"{_State.rounds}/outcome", _COMPLETE if has_all else str(rank))


def _decide(store: Any, key: str, wanted: str) -> str:
    """The first rank that decides decides for all."""
    found = store.compare_set(key, "", wanted)
    return found.decode() if isinstance(found, bytes) else found


def _wait(store: Any, offer: Offer, rank: int, count: int) -> bool:
    """Whether all ranks came. Raises RanksDiverged after the limit, or if one of them has ended."""
    limit = config.collective_seconds
    patience = min(limit, config.collective_alone_seconds) if offer.may_go_alone else limit
    ends = time.monotonic() + patience
    while True:
        left = timedelta(seconds=max(0.01, ends - time.monotonic()))
        try:
            store.wait([f"{_State.rounds}/all"], min(left, _LOOK_EVERY))
            return True
        except RuntimeError:
            missing = [other for other in range(count) if not _has(store, f"{_State.rounds}/{other}")]
        for other in missing:
            if _has(store, f"ended/{other}"):
                how = store.get(f"ended/{other}").decode()
                raise RanksDiverged(f"rank {other} {how} while rank {rank} compiles {offer.function}") from None
        if time.monotonic() < ends:
            continue
        if offer.may_go_alone:
            return False
        raise RanksDiverged(
            f"rank {', '.join(map(str, missing))} did not compile {offer.function} together with rank {rank} within "
            f"{limit} s: it took another path through the program, or it has compiled this for its own inputs before"
        )


def _has(store: Any, key: str) -> bool:
    try:
        return store.check([key])
    except RuntimeError:
        raise RanksDiverged("the store of the process group is gone: the rank that holds it has ended") from None


def _leave_word(group: Any, rank: int) -> None:
    """At the end of the process."""
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    how = "has ended" if error is None else f"has ended with {type(error).__name__}: {error}"
    with suppress(RuntimeError):  # the store may be gone
        distributed.PrefixStore("stator.collectives", group).set(f"ended/{rank}", how)
