"""The exceptions that Stator raises.

They are subclasses of torch._dynamo's, so that code which catches those keeps working. They are created when first
used, because importing torch._dynamo takes seconds and most programs never need them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from types import CodeType
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
    """`stator.verify`, or `stator.compile` with `check=`, found a difference between the compiled and the uncompiled
    program.

    Attributes:
        place: the first value that differs, such as `result[0]`, `L['x'].grad` or `G['COUNT']`.
        call: the number of the call, from 1 on.
        report: what was captured, as a `stator.Report`.
        fault: "guard" if a guard is missing, "backend" or "front end"; "" if it was not looked for.
        missing: for "guard", the sources that differ from those of the capture and that no guard checks.
        reproduction: the path of a Python file that shows the difference, for `stator.minify`; "" if there is none.
    """

    def __init__(
        self,
        difference: str,
        place: str,
        call: int,
        report: Report,
        fault: str = "",
        missing: Sequence[str] = (),
        reproduction: str = "",
    ) -> None:
        self.place, self.call, self.report = place, call, report
        self.fault, self.missing, self.reproduction = fault, list(missing), reproduction
        lines = [f"call {call}: {difference}", *self._verdict()]
        if reproduction:
            lines.append(f"python {reproduction} shows it again; stator.minify({reproduction!r}) shrinks that program")
        graphs = (f"graph {number}: {one.code}\n{one.graph}" for number, one in enumerate(report.graphs, 1))
        super().__init__("\n".join(lines) + "\n\n" + "\n".join(graphs))

    def _verdict(self) -> list[str]:
        if self.fault == "guard":
            found = self.missing or ["something that is not an argument, a closure variable or a global variable"]
            return [
                "a guard is missing: a fresh capture agrees with the uncompiled program",
                *(f"  {one}" for one in found),
            ]
        if self.fault == "backend":
            return ["the backend is at fault: the captured graph, run uncompiled, agrees with the program"]
        if self.fault == "front end":
            return ["the capture is at fault: the captured graph differs from the program also without the backend"]
        return []


# What torch._dynamo calls the kinds of graph breaks that mean the same: people search for these.
_TORCHS_NAMES = {
    "disabled-function": "Skip calling `torch.compiler.disable()`d function",
    "graph-break-call": "Call to `torch._dynamo.graph_break()`",
}


def _with_torchs_name(break_: Break) -> str:
    name = _TORCHS_NAMES.get(break_.kind)
    return f"{break_}\n  torch._dynamo calls this: {name}" if name else str(break_)


@cache
def _unsupported() -> type[Exception]:
    from torch._dynamo import exc

    class Unsupported(exc.Unsupported):
        """A graph break with `fullgraph=True`. `break_` is the `stator.report.Break`."""

        def __new__(cls, break_: Break) -> Unsupported:
            kind = UserError if cls is Unsupported and break_.kind == "data-dependent" else cls
            return super().__new__(kind, break_)

        def __init__(self, break_: Break) -> None:
            super().__init__(_with_torchs_name(break_), gb_type=break_.kind)
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


_STANCES = {
    "fail_on_recompile": "Detected recompile when torch.compile stance is 'fail_on_recompile'.",
    "skip_guard_eval_unsafe": "Recompilation triggered with skip_guard_eval_unsafe stance. This usually means that you "
    "have not warmed up your model with enough inputs such that you can guarantee no more recompilations.",
}


def raise_recompile(forbidden_by: str, callee: str, code: CodeType, reasons: list[tuple[Any, str]]) -> NoReturn:
    """Called by the engine for a capture that a stance, or the setting `error_on_recompile`, forbids. `reasons` has the
    compile id and the guard that failed of each entry, the last used one first."""
    # Tools look for TorchDynamo's words; captures that `stator.install()` has made have compile ids.
    is_known_to_torch = bool(reasons) and all(compile_id is not None for compile_id, _ in reasons)
    lines = "".join(f"\n- {reason}" for _, reason in reasons) or " nothing was captured yet"
    if forbidden_by in _STANCES:
        head = _STANCES[forbidden_by]
        if is_known_to_torch:
            place = (
                f"filename: {code.co_filename!r}, function name: {code.co_name!r}, line number: {code.co_firstlineno}"
            )
            in_order = sorted(reasons, key=lambda each: str(each[0]))
            raise RuntimeError(f"{head} {place}\n{_failures_in_torchs_words(in_order)}")
        raise RuntimeError(
            f"{head} {callee} would have to be captured, because:{lines}\n"
            "Make that value the same on every call, or call it once under the default stance."
        )

    from torch._dynamo.exc import RecompileError

    if is_known_to_torch:
        place = f"{code.co_name} in {code.co_filename}:{code.co_firstlineno}"
        raise RecompileError(f"Recompiling function {place}\n{_failures_in_torchs_words(reasons)}")
    raise RecompileError(
        f"{callee} would have to be captured again, and torch._dynamo.config.error_on_recompile does not allow it, "
        f"because:{lines}"
    )


def _failures_in_torchs_words(reasons: list[tuple[Any, str]]) -> str:
    from stator.torch_words import in_torchs_words

    lines = [f"    - {compile_id}: {in_torchs_words(reason).partition('  # ')[0]}" for compile_id, reason in reasons]
    return "\n".join(["    triggered by the following guard failure(s):", *lines])
