"""Programs observed operation by operation: a dispatch mode reads the tracker at each one."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.module_tracker import ModuleTracker as TorchTracker

import stator


class Seen(NamedTuple):
    operation: str
    parents: frozenset[str]
    is_bw: bool

    def __str__(self) -> str:
        names = " ".join(sorted(self.parents - {"Global"}, key=lambda name: (name.count("."), name)))
        return f"{'<' if self.is_bw else '>'} {self.operation}: {names}".rstrip()


class Watch(TorchDispatchMode):
    """Reads `tracker` at each operation that PyTorch dispatches."""

    def __init__(self, tracker: Any) -> None:
        super().__init__()
        self.tracker = tracker
        self.seen: list[Seen] = []

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.name().removeprefix("aten::").split(".")[0]
        self.seen.append(Seen(name, frozenset(self.tracker.parents), self.tracker.is_bw))
        return operation(*args, **(kwargs or {}))


def watch(program: Callable[[], Any], tracker: Any = None) -> list[Seen]:
    tracker = tracker or stator.ModuleTracker()
    with tracker, Watch(tracker) as watched:
        program()
    return watched.seen


def lines(seen: list[Seen], *operations: str) -> str:
    """One line for each operation, of these names if any are given; `>` in forward, `<` in backward."""
    return "\n".join(str(each) for each in seen if not operations or each.operation in operations)


def both(make: Callable[[], Callable[[], Any]]) -> tuple[list[Seen], list[Seen]]:
    """The same program, created for each, under this tracker and under torch's."""
    return watch(make()), watch(make(), TorchTracker())


class Block(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(size, size)
        self.second = nn.Linear(size, size)

    def forward(self, x):
        return self.second(self.first(x).relu()) + x


class Net(nn.Module):
    """Submodules in a list, a container that is called, and one called directly."""

    def __init__(self, blocks: int = 2, size: int = 4) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(size) for _ in range(blocks))
        self.tail = nn.Sequential(nn.Linear(size, size), nn.Tanh())
        self.head = nn.Linear(size, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.tail(x))
