"""What torch's own tools see of Stator's captures: callbacks, counters, compile ids, metrics, logs, traces.

Used while Stator is installed, and with `TORCH_LOGS` or `TORCH_TRACE` in the environment. The engine calls

- `began(code, entries, first argument, instruction)` before a capture, which returns what somebody reads of the report:
  0 for no texts, 1 for texts, 2 for texts and the steps of the trace. What nobody reads is not made.
- `recompiling(reasons, compile ids)` if there are texts, and entries that do not fit.
- `traced(report)` if there are texts, before the backend compiles the graph: the parts of a report that are known then.
- `captured(report)` with its report (see report.py).
- `ended()`, in whatever way it ended.

Backends call `graph(graph_module, example_inputs)`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import cache
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch

from stator import naming
from stator._engine import engine

if TYPE_CHECKING:
    from torch.fx import GraphModule

    from stator.torch_logs import CaptureLog


@dataclass
class Running:
    """A capture that has begun. A module is captured from its `__call__` on, and `code` is that of its `forward`."""

    code: CodeType
    entries: int
    compile_id: Any
    contexts: ExitStack
    began: float
    # Of that `forward`.
    parameters: Sequence[str] = ()
    user_contexts: set[str] | None = None
    report: dict[str, Any] | None = None
    # What a backend raised, in words.
    backend_failure: str | None = None
    # Why no entry fits, in the words of torch.
    recompile_reasons: list[str] = field(default_factory=list)
    # torch's collection of metrics, into which compilers write theirs.
    metrics: Any = None
    graph_module: GraphModule | None = None
    # The events of torch for profilers and traces, if there are some: of all of the capture, and of the trace.
    events: ExitStack | None = None
    tracing: ExitStack = field(default_factory=ExitStack)
    # Whether torch itself has measured how long the compiler took.
    is_timed: bool = False
    log: CaptureLog | None = None


class Observer:
    """Follows the captures of all threads. A capture may run code that is captured: they nest."""

    def __init__(self) -> None:
        self._threads = threading.local()
        # By code, and the instruction at which captures start: their number, and how often there was one.
        self._frames: weakref.WeakKeyDictionary[CodeType, dict[int, list[int]]] = weakref.WeakKeyDictionary()
        self._frame_count = 0

    def began(self, code: CodeType, entries: int, first: Any, at: int) -> int:
        named = naming.code_of_callee(code, first)
        running = Running(named, entries, self._next_id(named, at), ExitStack(), time.time())
        if named is not code:
            running.parameters = named.co_varnames[1 : named.co_argcount]
        try:
            wanted = self._enter(running)
        except BaseException:
            # The engine does not call `ended` for it. The exception may be an interrupt.
            _leave_events(running)
            if running.metrics is not None:
                running.metrics.__exit__(*sys.exc_info())
            running.contexts.close()
            raise
        self._stack().append(running)
        return wanted

    def _enter(self, running: Running) -> int:
        from torch._dynamo.callback import CallbackTrigger, callback_handler
        from torch._dynamo.utils import compilation_time_metrics, counters, get_metrics_context
        from torch._guards import CompileContext, compile_context

        from stator import dynamo_settings, torch_logs, torch_reset, torch_versions

        torch_reset.follow()
        running.contexts.enter_context(compile_context(CompileContext(running.compile_id)))
        running.contexts.enter_context(
            callback_handler.install_callbacks(CallbackTrigger.DYNAMO, str(running.compile_id))
        )
        dynamo_settings.warn_of_settings()
        counters["frames"]["total"] += 1
        # (The table of times begins with what is longest.)
        compilation_time_metrics.setdefault("_compile.compile_inner", [])
        torch_versions.note_traced_frame(running.code)
        running.user_contexts = torch_versions.recompile_contexts()
        running.metrics = get_metrics_context().__enter__()
        running.log = torch_logs.CaptureLog(running.code, running.parameters)
        wanted = running.log.began()
        if _is_traced() or torch.autograd.profiler._is_profiler_enabled:
            running.events = ExitStack()
            torch_versions.enter_compile_events(running.events, running.tracing)
        return wanted

    def compile_id(self) -> Any:
        """Of the capture that began last in this thread."""
        return self._stack()[-1].compile_id

    def recompiling(self, reasons: list[str], compile_ids: list[Any]) -> None:
        running = self._stack()[-1]
        assert running.log is not None
        running.recompile_reasons = running.log.recompiling(reasons, compile_ids)

    def traced(self, report: dict[str, Any]) -> None:
        log = self._stack()[-1].log
        assert log is not None
        log.traced(report)

    def at_the_line(self, place: str) -> AbstractContextManager[None]:
        """While torch makes a symbol for a number or size of the program."""
        from stator import symbol_logs

        stack = self._stack()
        log = stack[-1].log if stack else None
        return symbol_logs.at_the_line(place, log.needed) if log is not None and log.needed else nullcontext()

    def captured(self, report: dict[str, Any]) -> None:
        from torch._dynamo.utils import counters

        stack = self._stack()
        if not stack:
            return  # an internal error outside of a capture
        stack[-1].report = report
        for broken in report["breaks"]:
            counters["graph_break"][broken["reason"]] += 1
        for entry in report["entries"]:
            counters["frames"]["ok"] += 1
            if entry["nodes"] > 0:
                counters["stats"]["calls_captured"] += entry["calls"]
                counters["stats"]["unique_graphs"] += 1
        log = stack[-1].log
        assert log is not None
        log.captured(report)

    def failed(self, code: CodeType, error: Exception) -> None:
        """The backend has failed, and `torch._dynamo.config.suppress_errors` is set."""
        from stator import torch_logs

        torch_logs.failed(code, error)

    def graph(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> None:
        stack = self._stack()
        if not stack:
            return
        running = stack[-1]
        running.tracing.close()
        running.graph_module = graph_module
        if running.log is not None:
            running.log.graph(graph_module, example_inputs)

    def backend_failed(self, backend: str, cause: Exception) -> None:
        """Before the exception goes to the program, or is left out because of `suppress_errors`."""
        stack = self._stack()
        if stack:
            stack[-1].backend_failure = f"backend={backend!r} raised:\n{type(cause).__name__}: {cause}"

    def compiling(self) -> AbstractContextManager[Any]:
        """Around a compiler: it writes metrics, which torch refuses outside of an event that it measures."""
        from torch._dynamo.utils import dynamo_timed

        stack = self._stack()
        if not stack:
            return nullcontext()
        stack[-1].is_timed = True
        return dynamo_timed(
            "OutputGraph.call_user_compiler",
            phase_name="backend_compile",
            log_pt2_compile_event=True,
            dynamo_compile_column_us="aot_autograd_cumulative_compile_time_us",
        )

    def limit_hit(self, function: str, text: str) -> None:
        from stator import torch_logs

        torch_logs.limit_hit(function, text)

    def refused(self, error: type[Exception], reason: str) -> None:
        """The recompile limit was hit where nothing may run uncompiled: a compilation that failed, to torch."""
        from torch._dynamo.utils import get_metrics_context

        now = time.time()
        metrics = {
            "start_time": now,
            "has_guarded_code": False,
            "fail_type": error.__qualname__,
            "fail_reason": reason,
            "recompile_reason": reason,
        }
        get_metrics_context()._on_exit(int(now * 1e9), int(now * 1e9), metrics, error, None)

    def ended(self) -> None:
        running = self._stack().pop()
        with running.contexts:
            try:
                _leave_events(running)
            finally:
                _add_metrics(running)

    def forget(self) -> None:
        """Numbers begin anew, as after `torch._dynamo.reset()`."""
        self._frames.clear()
        self._frame_count = 0

    def _stack(self) -> list[Running]:
        if not hasattr(self._threads, "stack"):
            self._threads.stack = []
        return self._threads.stack

    def _next_id(self, code: CodeType, at: int) -> Any:
        """As in torch, what follows a graph break is a frame of its own."""
        from torch._guards import CompileId

        frames = self._frames.setdefault(code, {})
        if at not in frames:
            frames[at] = [self._frame_count, -1]
            self._frame_count += 1
        frames[at][1] += 1
        return CompileId(frame_id=frames[at][0], frame_compile_id=frames[at][1])


def _leave_events(running: Running) -> None:
    running.tracing.close()
    if running.events is not None:
        running.events.close()


def _add_metrics(running: Running) -> None:
    """`torch._dynamo.utils.get_compilation_metrics()` and `compile_times()`."""
    from torch._dynamo import config, utils

    entry = _entry_of(running)
    seconds = time.time() - running.began
    backend = entry["times"].get("backend", 0.0) if entry else 0.0
    if running.events is None:  # which adds it
        utils.compilation_time_metrics.setdefault("_compile.compile_inner", []).append(seconds)
    if entry and entry["nodes"] and not running.is_timed:
        utils.compilation_time_metrics.setdefault("OutputGraph.call_user_compiler", []).append(backend)
    context = running.metrics
    if context is None:
        return
    # What torch records of its settings takes longer than a capture: only if a compiler, which takes much longer, has
    # written metrics, or a trace is kept.
    is_worth_it = bool(context._metrics) or _is_traced()
    torchs = context._on_exit
    try:
        if context._level == 1:
            metrics = _metrics_of(running, seconds, backend)
            if is_worth_it:
                metrics |= _metrics_of_graph(running)
            if running.entries:
                automatic = {"dynamo.automatic_dynamic_shapes": config.automatic_dynamic_shapes}
                metrics["feature_usage"] = context._metrics.get("feature_usage", {}) | automatic
            context.update(metrics, overwrite=True)
    finally:
        if not is_worth_it:
            context._on_exit = _record
        try:
            context.__exit__(None, None, None)
        finally:
            context._on_exit = torchs


def _is_traced() -> bool:
    from stator import torch_logs

    return torch_logs.is_traced()


def _record(began: int, ended: int, metrics: dict[str, Any], *failed: Any) -> None:
    """As torch records them, without its settings."""
    from torch._dynamo import config, utils

    recorded = utils.CompilationMetrics.create(metrics)
    utils._compilation_metrics.append(recorded)
    if config.log_compilation_metrics:
        utils.log_compilation_event(recorded)


def _entry_of(running: Running) -> dict[str, Any] | None:
    entries = running.report["entries"] if running.report else ()
    return entries[0] if entries else None


def _metrics_of(running: Running, seconds: float, backend: float) -> dict[str, Any]:
    from torch._dynamo import config

    entry, report = _entry_of(running), running.report or {"breaks": []}
    broken = report["breaks"][0] if report["breaks"] else None
    failed = broken if entry is None else None
    fail_type, fail_reason = (failed["kind"], failed["reason"]) if failed else (None, None)
    # To torch, that is a compilation that failed. (The graph runs as it was captured, if errors are suppressed.)
    if running.backend_failure is not None:
        fail_type, fail_reason = "BackendCompilerFailed", running.backend_failure
    # TorchDynamo starts again at a graph break. Stator does not: only the time of what failed is lost.
    lost = seconds if entry is None or running.backend_failure is not None else 0.0
    code = running.code
    metrics = {
        "compile_id": running.compile_id,
        "frame_key": str(running.compile_id.frame_id + 1),  # torch counts these from 1
        "co_name": code.co_name,
        "co_filename": code.co_filename,
        "co_firstlineno": code.co_firstlineno,
        "cache_size": running.entries,
        "accumulated_cache_size": running.entries,
        "guard_count": entry["guard_count"] if entry else None,
        "shape_env_guard_count": len(entry.get("relations", ())) if entry else None,
        "graph_op_count": entry["calls"] if entry else None,
        "graph_node_count": entry["nodes"] if entry else None,
        "graph_input_count": entry["inputs"] if entry else None,
        "start_time": running.began,
        "start_time_us": int(running.began * 1e6),
        "end_time_us": int((running.began + seconds) * 1e6),
        "duration_us": int(seconds * 1e6),
        "entire_frame_compile_time_s": seconds,
        "dynamo_cumulative_compile_time_us": int(seconds * 1e6),
        "backend_compile_time_s": backend,
        "has_guarded_code": entry is not None,
        "specialize_float": config.specialize_float,
        "is_forward": True,
        "fail_type": fail_type,
        "fail_reason": fail_reason,
        "fail_user_frame_filename": failed.get("file") if failed else None,
        "fail_user_frame_lineno": failed.get("line") if failed else None,
        "restart_reasons": {_restart_reason(broken)} if entry and broken else set(),
        "dynamo_time_before_restart_s": lost,
        "dynamo_compile_time_before_restart_us": int(lost * 1e6),
        "gc_time_us": 0,
        "compliant_custom_ops": set(),
        "non_compliant_ops": set(),
        "recompile_reason": running.recompile_reasons[0] if running.recompile_reasons else None,
        "recompile_user_contexts": running.user_contexts,
    }
    return metrics


def _metrics_of_graph(running: Running) -> dict[str, Any]:
    """What takes as long as a small capture."""
    from stator import torch_logs

    stack = [f"Line: {at.lineno}, Name: {at.name}, Filename: {at.filename}" for at in torch_logs.stack_of(running.code)]
    graph_module = running.graph_module
    if graph_module is None:
        return {"stack_trace": stack, "graph_node_shapes": "{}"}
    values = [node.meta.get("example_value") for node in graph_module.graph.find_nodes(op="placeholder")]
    # (Sizes that change have no number.)
    sizes = [
        (value.numel(), value.element_size())
        for value in values
        if isinstance(value, torch.nn.Parameter) and all(type(size) is int for size in value.shape)
    ]
    return {
        "stack_trace": stack,
        # (Compilers need not have made the results of all nodes.)
        "graph_node_shapes": str(torch_logs.sizes(graph_module)) if _is_traced() else None,
        "param_count": len(sizes) or None,
        "param_numel": sum(count for count, _ in sizes) or None,
        "param_bytes": sum(count * size for count, size in sizes) or None,
    }


def _restart_reason(broken: dict[str, Any]) -> str:
    is_asked_for = broken["kind"] == "graph-break-call"
    return f"User-inserted graph break: {broken['reason']}" if is_asked_for else broken["reason"]


_observer: Observer | None = None


def start() -> None:
    """Follows captures from now on."""
    global _observer
    if _observer is None:
        _observer = Observer()
        engine().observe(_observer)


def stop() -> None:
    global _observer
    if not _is_wanted_by_environment():
        _observer = None
        engine().observe(None)


@cache
def follow_environment() -> None:
    """With `TORCH_LOGS` or `TORCH_TRACE` captures are followed without `stator.install()`, too."""
    if _is_wanted_by_environment():
        import torch._dynamo  # noqa: F401 - what the logs are formatted with

        start()


def _is_wanted_by_environment() -> bool:
    return bool(os.environ.get("TORCH_LOGS") or os.environ.get("TORCH_TRACE"))


def current() -> Observer | None:
    return _observer
