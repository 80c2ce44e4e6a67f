"""The state of an optimizer, made while its first step is captured: called by the engine."""

from __future__ import annotations

from collections.abc import Callable

from torch.optim import Optimizer


def make_state(initialise: Callable[..., object], optimizer: Optimizer, lists: int) -> bool:
    """Makes the state that is missing, as the program is about to do. Whether something was missing.

    Args:
        initialise: `_init_group` of the optimizer, as a function.
        lists: how many lists it fills with the parameters of a group, their gradients and their state.
    """
    if not isinstance(optimizer, Optimizer):
        return False
    before = _size(optimizer)
    try:
        for group in optimizer.param_groups:
            initialise(optimizer, group, *([] for _ in range(lists)))
    except Exception:
        # The program will raise the same, where it calls the function: sparse gradients are not supported, say.
        pass
    return _size(optimizer) != before


def _size(optimizer: Optimizer) -> tuple[int, int]:
    return len(optimizer.state), sum(len(entries) for entries in optimizer.state.values())
