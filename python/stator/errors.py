"""The exceptions that Stator raises.

They are subclasses of torch._dynamo's, so that code which catches those keeps working. They are created when first
used, because importing torch._dynamo takes seconds and most programs never need them.
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

    from stator.report import Break, Report

    class Unsupported(_DynamoUnsupported):
        """A graph break with `fullgraph=True`. `break_` is the `stator.report.Break`."""

        break_: Break

    class BackendCompilerFailed(_DynamoBackendCompilerFailed):
        """The backend raised `__cause__`. `backend_name` is its name, `graph_module` the graph that it was given."""

        backend_name: str
        graph_module: GraphModule
        needs_data: bool

    class RecompileLimitHit(_DynamoFailOnRecompileLimitHit):
        """With `fullgraph=True`: a recompile would exceed `stator.config.recompile_limit`."""


class Mismatch(AssertionError):
    """`stator.verify` found a difference between the compiled and the uncompiled program.

    Attributes:
        place: the first value that differs, such as `result[0]` or `arguments[1].grad`.
        call: the number of the call, from 1 on.
        report: what was captured, as a `stator.Report`.
    """

    def __init__(self, difference: str, place: str, call: int, report: Report) -> None:
        self.place, self.call, self.report = place, call, report
        super().__init__(f"call {call}: {difference}\n\n{report}")


@cache
def _unsupported() -> type[Exception]:
    from torch._dynamo import exc

    class Unsupported(exc.Unsupported):
        """A graph break with `fullgraph=True`. `break_` is the `stator.report.Break`."""

        def __new__(cls, break_: Break) -> Unsupported:
            kind = UserError if cls is Unsupported and break_.kind == "data-dependent" else cls
            return super().__new__(kind, break_)

        def __init__(self, break_: Break) -> None:
            super().__init__(str(break_), gb_type=break_.kind)
            self.break_ = break_

    class UserError(Unsupported, exc.UserError):
        """The same where the program depends on the data of tensors, as torch._dynamo has it."""

        def __init__(self, break_: Break) -> None:
            exc.UserError.__init__(self, exc.UserErrorType.DYNAMIC_CONTROL_FLOW, str(break_))
            self.break_, self.gb_type, self.category = break_, break_.kind, None
            self.add_to_stats()

    _at_home(UserError)
    return _at_home(Unsupported)


@cache
def _backend_compiler_failed() -> type[Exception]:
    from torch._dynamo import exc

    class BackendCompilerFailed(exc.BackendCompilerFailed):
        """The backend raised `__cause__`. `backend_name` is its name, `graph_module` the graph that it was given."""

        def __init__(self, backend_name: str, graph_module: GraphModule, cause: Exception) -> None:
            def named() -> None: ...

            named.__name__ = backend_name
            super().__init__(named, cause, None)
            self.graph_module = graph_module
            # Read by the engine: the graph then runs as it was captured, unless `fullgraph=True`.
            self.needs_data = _needs_data(cause)
            # Then the graph always runs as it was captured: uncompiled, only a backward pass would fail.
            self.fails_in_backward = _fails_in_backward(cause)

    return _at_home(BackendCompilerFailed)


@cache
def _recompile_limit_hit() -> type[Exception]:
    from torch._dynamo import exc

    class RecompileLimitHit(exc.FailOnRecompileLimitHit):
        """With `fullgraph=True`: a recompile would exceed `stator.config.recompile_limit`."""

    return _at_home(RecompileLimitHit)


def _needs_data(error: BaseException | None) -> bool:
    """Whether a backend failed because it needs the data of tensors."""
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
    """Whether a backend failed because autograd rejects the backward pass that it traced."""
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
    """Called by the engine at a graph break with `fullgraph=True`. `report` is a dict as in report.py."""
    from stator.report import Break

    raise _unsupported()(Break.from_dict(report))  # type: ignore[call-arg]


def raise_backend_failed(backend_name: str, graph_module: GraphModule, cause: Exception) -> NoReturn:
    """Called if a backend raised `cause`."""
    raise _backend_compiler_failed()(backend_name, graph_module, cause) from cause  # type: ignore[call-arg]


def raise_constraint_violation(text: str) -> NoReturn:
    """Raises torch's error for a dimension that is marked as dynamic and was specialized."""
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    raise ConstraintViolationError(text)


def raise_recompile_limit_hit(callee: str, captures: int, reason: str) -> NoReturn:
    """Called by the engine at the recompile limit with `fullgraph=True`."""
    from stator import observer

    error = _recompile_limit_hit()
    if (watching := observer.current()) is not None:
        watching.refused(error, reason)
    raise error(
        f"Stator has captured {callee} {captures} times, which is the recompile limit, and fullgraph=True does not "
        f"allow running it uncompiled: {reason}. Make that value the same on every call, or raise "
        f"stator.config.recompile_limit. See {notes.section('recompile_limit')}"
    )


def raise_recompile(callee: str, reasons: str) -> NoReturn:
    """Called by the engine for a recompile with `torch._dynamo.config.error_on_recompile`."""
    from torch._dynamo.exc import RecompileError

    raise RecompileError(
        f"{callee} would have to be captured again, and torch._dynamo.config.error_on_recompile does not allow it, "
        f"because:{reasons}"
    )
