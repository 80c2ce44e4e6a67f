"""The engine, written in C++. What Python calls of it is described in _engine.py."""

from collections.abc import Callable, Sequence
from typing import Any

class Compiled:
    __wrapped__: Callable[..., Any]
    def __init__(
        self,
        function: Callable[..., Any],
        backend: Callable[[Any, Sequence[Any]], Callable[..., Any]],
        options: dict[str, Any],
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

class Graph: ...

def reset() -> None: ...
def collect(
    callback: Callable[[dict[str, Any]], None] | None,
) -> Callable[[dict[str, Any]], None] | None: ...
def __getattr__(name: str) -> Any: ...
