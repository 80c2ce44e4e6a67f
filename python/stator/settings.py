"""Settings that hold for the whole process: `stator.config.recompile_limit = 16`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# name -> (default, what it does). The engine reads the values; nothing else is known about them in Python.
_OPTIONS: dict[str, tuple[Any, str]] = {
    "recompile_limit": (
        8,
        "How many captures one place of one function (or of one module instance) may have before Stator warns and "
        "leaves further variants uncompiled; with `fullgraph=True` it raises `stator.RecompileLimitHit` instead.",
    ),
    "register_attributes": (
        False,
        "Put parameters and buffers into the graph module as attributes instead of making them inputs of the graph. A "
        "tensor that is reached by two paths is registered once; another tensor in its place is another capture. "
        "Read by `stator.compile`.",
    ),
    "record_errors": (
        "",
        "A folder. Where Stator itself fails, what the trace began with is written there (with the tensors), and the "
        "report names the file: `stator.replay(file)` runs that trace again, and shows the same error.",
    ),
    "enable_compiler_collectives": (
        False,
        "With a process group of torch.distributed: before a graph is compiled, all ranks compare what they captured. "
        "Numbers that differ become variables on all of them; what differs otherwise is an error that names the rank.",
    ),
    "collective_seconds": (
        300,
        "How long a rank waits for the others before it says which of them did not come.",
    ),
    "raise_internal_errors": (
        False,
        "Raise an error inside Stator itself instead of leaving the frame uncompiled and reporting it. For "
        "developing Stator: a program never needs it.",
    ),
}


class Config:
    """Attributes are the options of `_OPTIONS`; an unknown name or a value of another type is refused."""

    values: dict[str, Any]

    def __init__(self) -> None:
        object.__setattr__(self, "values", {name: default for name, (default, _) in _OPTIONS.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(f"stator.config has no option {name!r}; it has {', '.join(_OPTIONS)}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        default = getattr(self, name) if name not in _OPTIONS else _OPTIONS[name][0]
        if type(value) is not type(default):
            raise TypeError(f"stator.config.{name} is a {type(default).__name__}, not {value!r}")
        self.values[name] = value

    def __dir__(self) -> list[str]:
        return [*_OPTIONS, "patch", "values"]

    def __repr__(self) -> str:
        lines = (f"{name} = {self.values[name]!r}\n    {doc}" for name, (_, doc) in _OPTIONS.items())
        return "\n".join(lines)

    @contextmanager
    def patch(self, **changes: Any) -> Iterator[None]:
        """Other values inside a `with`, or in a decorated function."""
        before = dict(self.values)
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield
        finally:
            self.values.update(before)


config = Config()
# Where the engine looks.
values = config.values
