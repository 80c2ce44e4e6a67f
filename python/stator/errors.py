"""The exceptions that Stator raises.

They are subclasses of torch._dynamo's, so that code which catches those goes on working. They are made when they are
first asked for, because torch._dynamo takes seconds to import and most programs never see one.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from stator import notes

if TYPE_CHECKING:
    from torch._dynamo.exc import BackendCompilerFailed as _DynamoBackendCompilerFailed
    from torch._dynamo.exc import FailOnRecompileLimitHit as _DynamoFailOnRecompileLimitHit
    from torch._dynamo.exc import Unsupported as _DynamoUnsupported
    from torch.fx import GraphModule

    from stator.report import Break

    class Unsupported(_DynamoUnsupported):
        """The program can't be captured whole, and `fullgraph=True` asked for that. `break_` says what was met."""

        break_: Break

    class BackendCompilerFailed(_DynamoBackendCompilerFailed):
        """The backend raised. `backend_name` names it, `graph_module` is what it got, `__cause__` what it raised."""

        backend_name: str
        graph_module: GraphModule
        needs_data: bool

    class RecompileLimitHit(_DynamoFailOnRecompileLimitHit):
        """With `fullgraph=True`: a recompile would exceed `stator.config.recompile_limit`."""


@cache
def _unsupported() -> type[Exception]:
    from torch._dynamo import exc

    class Unsupported(exc.Unsupported):
        """The program can't be captured whole, and `fullgraph=True` asked for that. `break_` says what was met."""

        def __init__(self, break_: Break) -> None:
            super().__init__(str(break_), gb_type=break_.kind)
            self.break_ = break_

    return _at_home(Unsupported)


@cache
def _backend_compiler_failed() -> type[Exception]:
    from torch._dynamo import exc

    class BackendCompilerFailed(exc.BackendCompilerFailed):
        """The backend raised. `backend_name` names it, `graph_module` is what it got, `__cause__` what it raised."""

        def __init__(self, backend_name: str, graph_module: GraphModule, cause: Exception) -> None:
            def named() -> None: ...

            named.__name__ = backend_name
            super().__init__(named, cause, None)
            self.graph_module = graph_module
            # Asked by the engine: then the graph may run as it is, unless `fullgraph=True` wants it compiled.
            self.needs_data = _needs_data(cause)
            # The same, always: uncompiled, only a backward pass would fail, and in its own words.
            self.fails_in_backward = _fails_in_backward(cause)

    return _at_home(BackendCompilerFailed)


@cache
def _recompile_limit_hit() -> type[Exception]:
    from torch._dynamo import exc

    class RecompileLimitHit(exc.FailOnRecompileLimitHit):
        """With `fullgraph=True`: a recompile would exceed `stator.config.recompile_limit`."""

    return _at_home(RecompileLimitHit)


def _needs_data(error: BaseException | None) -> bool:
    """Whether a backend failed because only the contents of tensors would tell it how to go on."""
    from torch._subclasses import fake_tensor
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    kinds = (
        GuardOnDataDependentSymNode,
        fake_tensor.DataDependentOutputException,
        fake_tensor.DynamicOutputShapeException,
        fake_tensor.UnsupportedOperatorException,
    )
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error is not None


def _fails_in_backward(error: BaseException | None) -> bool:
    """Whether a backend that traces the backward pass met there what autograd will not do."""
    words = ("has been modified by an inplace operation", "derivative for ")
    while error is not None and not (isinstance(error, RuntimeError) and any(text in str(error) for text in words)):
        error = error.__cause__
    return error is not None


def _at_home(exception: type[Exception]) -> type[Exception]:
    exception.__module__ = "stator"
    exception.__qualname__ = exception.__name__
    return exception


_LAZY = {
    "Unsupported": _unsupported,
    "BackendCompilerFailed": _backend_compiler_failed,
    "RecompileLimitHit": _recompile_limit_hit,
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'stator.errors' has no attribute {name!r}")
    return _LAZY[name]()


def raise_unsupported(report: dict[str, Any]) -> NoReturn:
    """Called by the engine where `fullgraph=True` forbids to go on. `report` is a break as in report.py."""
    from stator.report import Break

    raise _unsupported()(Break.from_dict(report))  # type: ignore[call-arg]


def raise_backend_failed(backend_name: str, graph_module: GraphModule, cause: Exception) -> NoReturn:
    """Called where a backend raised `cause`."""
    raise _backend_compiler_failed()(backend_name, graph_module, cause) from cause  # type: ignore[call-arg]


def raise_recompile_limit_hit(callee: str, captures: int, reason: str) -> NoReturn:
    """Called by the engine where `fullgraph=True` forbids to run uncompiled what there is no room for."""
    raise _recompile_limit_hit()(
        f"Stator has captured {callee} {captures} times, which is the recompile limit, and fullgraph=True does not "
        f"allow running it uncompiled: {reason}. Make that the same on every call, or raise "
        f"stator.config.recompile_limit. See {notes.section('recompile_limit')}"
    )
