"""Settings for the whole process, such as `stator.config.recompile_limit`. docs/configuration.md is made from them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# name -> (default, documentation). Names are those of torch._dynamo.config where that has the setting.
_OPTIONS: dict[str, tuple[Any, str]] = {
    "recompile_limit": (
        8,
        "How many entries one instruction of a function may have, for each instance where the function is a method. "
        "Calls that match none of them then run uncompiled, with a warning; with `fullgraph=True` they raise "
        "`stator.RecompileLimitHit`.",
    ),
    "register_attributes": (
        False,
        "Make parameters and buffers attributes of the graph module instead of inputs of the graph. A tensor that is "
        "reached by two paths is registered once. They are guarded by identity: replacing one is a recompile. Read "
        "when `stator.compile` is called.",
    ),
    "wrap_installed_modules": (
        True,
        "Under `stator.install()` a compiled module is a `torch._dynamo.OptimizedModule` around the model, and the "
        "keys of its `state_dict` have the prefix `_orig_mod.`, as with `torch.compile`. False gives the compiled "
        "modules of `stator.compile`, without prefix. Both load the `state_dict` of both.",
    ),
    "record_errors": (
        "",
        "A folder, or empty. After an internal error the inputs of the trace are written to a file there, tensors "
        "included, and the message names the file. `stator.replay(file)` runs the trace again.",
    ),
    "enable_compiler_collectives": (
        False,
        "With a process group of torch.distributed, all ranks compare what they captured before a graph is compiled. "
        "Numbers that differ become variables on all ranks; any other difference is a `RanksDiverged` error on all "
        "ranks.",
    ),
    "collective_seconds": (
        300,
        "How many seconds a rank waits for the others before it raises `RanksDiverged`, which names the missing rank.",
    ),
    "reproduction_folder": (
        "",
        "Where `check=` of `stator.compile` writes the files that show a mismatch. Empty: the folder for temporary "
        "files.",
    ),
    "collective_alone_seconds": (
        5,
        "How many seconds a rank waits for the others if it compiles again what all ranks have compiled before, with "
        "the same operations, for another size or number. Then it compiles alone.",
    ),
    "suppress_errors": (
        True,
        "After an internal error, run the frame uncompiled, with a warning. False raises the error, which is the "
        "default of `torch._dynamo`: for the development of Stator.",
    ),
}


class Config:
    """The settings as attributes. An unknown name raises AttributeError, a value of another type TypeError."""

    values: dict[str, Any]

    def __init__(self) -> None:
        object.__setattr__(self, "values", {name: default for name, (default, _) in _OPTIONS.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(f"stator.config has no setting {name!r}; it has {', '.join(_OPTIONS)}") from None

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
        """A context manager or decorator that changes settings temporarily: `patch(recompile_limit=64)`."""
        before = dict(self.values)
        try:
            for name, value in changes.items():
                setattr(self, name, value)
            yield
        finally:
            self.values.update(before)


config = Config()
# The engine reads this dict.
values = config.values
