"""Which module is running: in forward and in backward, in every thread, at little cost.

`ModuleTracker` has the interface of `torch.utils.module_tracker.ModuleTracker`, so that code written for that one works
with the import changed, and more. How it works is told in src/track.
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

# Told of a module that is entered or left: its name, the module (None if it is gone), whether it is its backward.
Callback = Callable[[str, nn.Module | None, bool], Any]


class ModuleTracker(_Tracker):
    """A context manager that knows which modules run, also in backward.

        with stator.ModuleTracker() as tracker:
            model(x).sum().backward()       # anything called on the way can ask

    `tracker.parents`
        The names of the modules around, always with "Global": a new set each time. In backward, the modules in whose
        forward the operation was called whose gradient is computed now.
    `tracker.path`, `tracker.calls`
        The innermost name, "Global" outside; all of them, the outermost first.
    `tracker.is_bw`
        Whether this thread runs a backward pass.
    `tracker.modules`, `tracker.names(module)`
        The modules by name, and the names of a module.
    `on_enter(name, module, is_bw)`, `on_leave(name, module, is_bw)`
        Callbacks. In forward, what they raise is raised by the call of the module; in backward, at the end of the pass.

    A model is called by its class, its parts as in the `state_dict`. A second live model of a class is `Net#2`. Outside
    of the context, and for what was computed before it, there is only "Global".
    """

    def __init__(self, *, on_enter: Callback | None = None, on_leave: Callback | None = None) -> None:
        super().__init__(on_enter=on_enter, on_leave=on_leave)

    @property
    def modules(self) -> Mapping[str, nn.Module]:
        """Every module of every model that was called, by name. Holds none of them; a shared one has several names."""
        return _Modules(self)

    def names(self, module: nn.Module) -> tuple[str, ...]:
        """All names of a module, the one in use first."""
        running = set(self.calls)
        found = [name for name, each in self.modules.items() if each is module]
        return tuple(sorted(found, key=lambda name: name not in running))

    def __repr__(self) -> str:
        if not self.is_active:
            return "<ModuleTracker, not entered>"
        return f"<ModuleTracker in {'backward' if self.is_bw else 'forward'} at {self.path}>"


class _Modules(Mapping[str, nn.Module]):
    """A view: what it tells is what is registered now."""

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
