"""`stator.ModuleTracker`: which module is running, in forward and in backward.

It has the interface of `torch.utils.module_tracker.ModuleTracker`, so that code written for that one works with the
import changed. docs/design/track.md describes how it works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from torch import nn

from stator._engine import engine

if TYPE_CHECKING:
    from stator._C import ModuleTracker as _Tracker
else:
    _Tracker = engine().ModuleTracker

# Called when a module is entered or left: its name, the module (None if it is gone), whether in its backward.
Callback = Callable[[str, nn.Module | None, bool], Any]


class ModuleTracker(_Tracker):
    """A context manager that tells which modules are running, in forward and in backward.

        with stator.ModuleTracker() as tracker:
            model(x).sum().backward()       # dispatch modes, hooks, ... can read the tracker

    A model is named by its class, its submodules as in the `state_dict`. The second live model of a class is `Net#2`.
    Outside of the context, and for what was computed before it, there is only "Global".

    Args:
        on_enter: called as `on_enter(name, module, is_bw)` when a module is entered. In forward, an exception
            propagates from the module call; in backward, at the end of the pass.
        on_leave: the same when a module is left.

    Attributes:
        parents: a set of the names of the running modules, always with "Global". In backward, the modules in whose
            forward the operation was called whose gradient is being computed.
        path: the name of the innermost running module, or "Global".
        calls: the names of all running modules, the outermost first.
        is_bw: whether this thread runs a backward pass.
        is_active: whether the context was entered.
    """

    def __init__(self, *, on_enter: Callback | None = None, on_leave: Callback | None = None) -> None:
        super().__init__(on_enter=on_enter, on_leave=on_leave)

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """Every module of every model that was called, by name. Weak; a shared module has several names."""
        return _Modules(self)

    def names(self, module: nn.Module) -> tuple[str, ...]:
        """All names of a module, the one that is running first."""
        running = set(self.calls)
        found = [name for name, each in self.modules.items() if each is module]
        return tuple(sorted(found, key=lambda name: name not in running))

    def __repr__(self) -> str:
        if not self.is_active:
            return "<ModuleTracker, not entered>"
        return f"<ModuleTracker in {'backward' if self.is_bw else 'forward'} at {self.path}>"


class _Modules(Mapping[str, nn.Module]):
    """A view of the modules that are registered now."""

    __slots__ = ("_tracker",)

    def __init__(self, tracker: ModuleTracker) -> None:
        self._tracker = tracker

    def __getitem__(self, name: str) -> nn.Module:
        root, *keys = name.split(".")
        module = self._tracker._roots().get(root)
        for key in keys:
            module = module and self._tracker._children(module).get(key)
        if module is None:
            raise KeyError(name)
        return module

    def __iter__(self) -> Iterator[str]:
        return iter([name for name, _ in self._walk()])

    def __len__(self) -> int:
        return sum(1 for _ in self._walk())

    def __repr__(self) -> str:
        return f"<modules {', '.join(self)}>"

    def _walk(self) -> Iterator[tuple[str, nn.Module]]:
        """In the order of `named_modules(remove_duplicate=False)`. A module registered in itself is not followed."""

        def below(name: str, module: nn.Module, around: tuple[nn.Module, ...]) -> Iterator[tuple[str, nn.Module]]:
            yield name, module
            for key, child in self._tracker._children(module).items():
                if not any(child is each for each in (*around, module)):
                    yield from below(f"{name}.{key}", child, (*around, module))

        for name, root in self._tracker._roots().items():
            yield from below(name, root, ())
