"""Reports about captures: `print(stator.explain(fn)(*args))`.

The engine passes a plain dict for each attempt to capture a frame:

    {"code": "forward (model.py:12)",
     "entries": [{"graph": text, "plan": text, "nodes": number of nodes, "inputs": number,
                  "guard_count": number, "guards": [text, ...],
                  "times": {step: seconds}, "knowledge": [text, ...],
                  "guard_steps": [text, ...],
                  "places": {node: {"module": path, "lines": [(file, line), ...], "share": number}}}, ...],
     "line": the line at which the capture starts,
     "breaks": [{"kind": name, "reason": text, "file": path, "line": number, "function": name, "source": text,
                 "stack": [text, ...], "hint": text}, ...],
     "mismatched_calls": [{"reason": text, "function": text, "arguments": [text, ...], "caller": text}, ...],
     "recompiled": {"file": path, "line": number, "source": text, "reasons": [text, ...]},
     "notes": [{"topic": name, "text": text, "file": path, "line": number}, ...]}

The steps of "times" are decode, trace, shapes, guards, fx and backend, summed over all attempts of a capture.
"places" has the module and the lines, the innermost first, that called the operation of a node, and the share of the
time of the trace that passed since the node before.
"knowledge" lists the facts from earlier attempts and calls that the capture relied on. If a graph break left the frame
uncompiled, "entries" is empty. "recompiled" is present if there were entries that did not match, with the guard that
failed for each.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stator import backends, naming, notes
from stator._engine import engine
from stator.calls import Calls, Listener, followed

if TYPE_CHECKING:
    from torch.fx import GraphModule

STEPS = ("decode", "trace", "shapes", "guards", "fx", "backend")


@dataclass
class Break:
    """A graph break: an instruction that could not be captured.

    Attributes:
        kind: the tag, which is a section of docs/graph-breaks.md.
        reason: why, in words.
        file: the file of the program.
        line: the line of the program.
        source: the text of that line.
        stack: the callers, the innermost first, each with file and line.
        hint: the remedy.
    """

    kind: str
    reason: str
    file: str
    line: int
    source: str = ""
    stack: list[str] = field(default_factory=list)
    hint: str = ""

    @classmethod
    def from_dict(cls, report: dict[str, Any]) -> Break:
        known = {name: report[name] for name in cls.__dataclass_fields__ if name in report}
        return cls(**{"kind": "unknown", "reason": "", "file": "?", "line": 0, **known})

    def __str__(self) -> str:
        lines = [f"{self.reason} [{self.kind}]", f"  at {self.file}:{self.line}"]
        if self.source:
            lines.append(f"      {self.source.strip()}")
        lines += [f"  called from {caller}" for caller in _shortened(self.stack)]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        lines.append(f"  see {notes.section(self.kind)}")
        return "\n".join(lines)


@dataclass
class Recompile:
    """A capture at an instruction that had entries already.

    Attributes:
        code: the function, with file and line.
        file: the file of the program.
        line: the line of the program.
        source: the text of that line.
        reasons: the guard that failed for each entry, the most recently used first.
        before: the number of the capture before this one at the same instruction, if the report has it.
        after: the number of the new capture; None if the frame runs uncompiled.
    """

    code: str
    file: str
    line: int
    source: str
    reasons: list[str]
    before: int | None = None
    after: int | None = None

    def __str__(self) -> str:
        lines = [f"{self.code} at {self.file}:{self.line}"]
        if self.source:
            lines.append(f"      {self.source.strip()}")
        return "\n".join(lines + [f"  because {reason}" for reason in self.reasons])


@dataclass
class MismatchedCall:
    """A call whose arguments don't fit the function. The program gets a TypeError.

    Attributes:
        reason: the text of the TypeError.
        function: the function, with file and line.
        arguments: the types of the arguments.
        caller: the calling function, with file and line.
    """

    reason: str
    function: str
    arguments: list[str]
    caller: str = ""

    def __str__(self) -> str:
        lines = [self.reason, f"  function {self.function}", f"  called with ({', '.join(self.arguments)})"]
        return "\n".join([*lines, f"  called from {self.caller}"] if self.caller else lines)


@dataclass
class Note:
    """A case in which Stator can't do what the program requested, and the remedy.

    Attributes:
        topic: the tag, which is a section of docs/graph-breaks.md.
        text: the message.
        file: the file of the program.
        line: the line of the program.
    """

    topic: str
    text: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.text} [{self.topic}]\n  see {notes.section(self.topic)}"


@dataclass
class Capture:
    """One captured graph.

    Attributes:
        code: the function, with file and line.
        graph: the graph as text.
        nodes: the number of nodes, with placeholders and output; 0 if the captured region has no tensor operation.
        guards: the guards as text.
        times: seconds for each step of the capture.
        knowledge: what earlier attempts and calls showed: numbers that change, numbers that the backend specializes on,
            functions that are called uncompiled instead of inlined.
        symbols: the numbers and sizes that change between calls, each with its source and its range, or with the value
            that it was specialized to.
        relations: the conditions on them that later calls have to satisfy, each with the line that needs it.
        places: for each node that calls an operation, its module and the lines of the program that called it.
        line: the line at which the capture starts.
        guard_steps: the steps of a check of the guards, when nothing is known from the check before.
    """

    code: str
    graph: str
    nodes: int
    guards: list[str]
    times: dict[str, float]
    knowledge: list[str] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    relations: list[str] = field(default_factory=list)
    places: dict[str, dict[str, Any]] = field(default_factory=dict)
    line: int = 0
    guard_steps: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [
            f"{self.code}: {_count(self.nodes, 'node')}, {_count(len(self.guards), 'guard')}, {_times(self.times)}",
            _indented(self.graph),
        ]
        if self.guards:
            parts.append("  guards\n" + _indented("\n".join(self.guards), 4))
        if self.knowledge:
            parts.append("  known from before\n" + _indented("\n".join(self.knowledge), 4))
        if self.symbols:
            parts.append("  symbols\n" + _indented("\n".join(self.symbols), 4))
        if self.relations:
            parts.append("  relations\n" + _indented("\n".join(self.relations), 4))
        return "\n".join(parts)


@dataclass
class Report:
    """What was captured, and what kept more from being captured.

    Attributes:
        captures: every capture, including those without tensor operations.
        breaks: the graph breaks.
        recompiles: the recompiles, with the guards that failed.
        mismatched_calls: calls in the program whose arguments don't fit the function.
        notes: warnings and log messages.
        graph_modules: the graph modules that the backend received (`stator.explain` only).
        idle: compiled callables that were never called, or that captured no tensor operation, in words.
        result: what the function returned (`stator.explain` only).
        calls: how many calls of each compiled callable used an entry, captured or ran uncompiled, as
            `stator.calls.Calls` (`stator.watch` only).
        timeline: the first calls in their order, each with its kind, function, start and seconds (`stator.watch` only).
        events: the attempts to capture in their order, each with its kind ("capture", "recompile" or "uncompiled"), its
            function, when it ended in seconds since the report began, and how long it took.
    """

    captures: list[Capture] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    mismatched_calls: list[MismatchedCall] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    graph_modules: list[GraphModule] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    result: Any = None
    events: list[dict[str, Any]] = field(default_factory=list)
    calls: dict[int, Calls] = field(default_factory=dict)
    timeline: list[dict[str, Any]] = field(default_factory=list)
    began: float = field(default_factory=time.perf_counter, repr=False)

    def add(self, report: dict[str, Any]) -> None:
        """Adds one of the engine's dicts."""
        code = str(report.get("code", "?"))
        for entry in report.get("entries", ()):
            self.captures.append(
                Capture(
                    code,
                    entry["graph"],
                    entry["nodes"],
                    list(entry["guards"]),
                    dict(entry["times"]),
                    list(entry.get("knowledge", ())),
                    list(entry.get("symbols", ())),
                    [_relation(**relation) for relation in entry.get("relations", ())],
                    dict(entry.get("places", {})),
                    report.get("line", 0),
                    list(entry.get("guard_steps", ())),
                )
            )
        self.breaks += [Break.from_dict(broken) for broken in report.get("breaks", ())]
        self.mismatched_calls += [MismatchedCall(**call) for call in report.get("mismatched_calls", ())]
        self.notes += [Note(**note) for note in report.get("notes", ())]
        if "recompiled" in report:
            self._add_recompile(code, report)
        if report.get("entries") or report.get("breaks"):
            self._add_event(code, report)

    def _add_recompile(self, code: str, report: dict[str, Any]) -> None:
        after = len(self.captures) - 1 if report.get("entries") else None
        earlier = self.captures[:after] if after is not None else self.captures
        at = (code, report.get("line", 0))
        same = [number for number, capture in enumerate(earlier) if (capture.code, capture.line) == at]
        self.recompiles.append(Recompile(code, **report["recompiled"], before=same[-1] if same else None, after=after))

    def _add_event(self, code: str, report: dict[str, Any]) -> None:
        entries = report.get("entries", ())
        kind = "uncompiled" if not entries else "recompile" if "recompiled" in report else "capture"
        seconds = sum(sum(entry["times"].values()) for entry in entries)
        now = time.perf_counter() - self.began
        self.events.append({"kind": kind, "code": code, "at": now, "seconds": seconds})

    @property
    def graphs(self) -> list[Capture]:
        """The captures with tensor operations. Others only lead from one graph break to the next."""
        return [capture for capture in self.captures if capture.nodes]

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def node_count(self) -> int:
        return sum(capture.nodes for capture in self.captures)

    @property
    def graph_break_count(self) -> int:
        return len(self.breaks)

    @property
    def guards(self) -> list[str]:
        return [guard for capture in self.captures for guard in capture.guards]

    @property
    def times(self) -> dict[str, float]:
        """Seconds for each step, summed over all captures."""
        total: dict[str, float] = {}
        for capture in self.captures:
            for step, seconds in capture.times.items():
                total[step] = total.get(step, 0.0) + seconds
        return total

    def html(self, path: str | os.PathLike[str]) -> None:
        """Writes the report as one HTML file: summary, program, graphs, recompiles, guards, times. It loads nothing."""
        from stator import page

        page.write(self, path)

    def _repr_html_(self) -> str:
        from stator import page

        return page.frame(self)

    def __str__(self) -> str:
        head = ", ".join(
            (
                _count(self.graph_count, "graph"),
                _count(self.node_count, "node"),
                _count(len(self.guards), "guard"),
                _count(self.graph_break_count, "break"),
            )
        )
        parts = [head]
        if self.times:
            parts.append(_times(self.times))
        parts += [_calls(one) for one in self.calls.values()]
        parts += [f"\ngraph {number}: {capture}" for number, capture in enumerate(self.graphs, 1)]
        parts += [f"\nbreak {number}: {broken}" for number, broken in enumerate(self.breaks, 1)]
        parts += [f"\nmismatched call {number}: {call}" for number, call in enumerate(self.mismatched_calls, 1)]
        parts += [f"\nrecompile {number}: {again}" for number, again in enumerate(self.recompiles, 1)]
        parts += [f"\n{words}" for words in self.idle]
        parts += [f"\nnote {number}: {note}" for number, note in enumerate(self.notes, 1)]
        return "\n".join(parts)


def explain(fn: Any, *, backend: str | backends.CompilerFunction = "eager") -> Callable[..., Report]:
    """`stator.explain(fn)(*args)` compiles and runs `fn` once, without using earlier captures, and returns a report."""
    from stator import api

    def explained(*args: Any, **kwargs: Any) -> Report:
        report = Report()
        chosen = backends.resolve(backend, dynamic=None, options=None, mode=None)
        backend_watched = _Watched(chosen, report.graph_modules.append)
        watched = api.compile(api.original_of(fn), backend=backend_watched)
        with _collecting(report.add):
            report.result = watched(*args, **kwargs)
        report.idle += _idle(watched)
        report.notes += backend_watched.notes()
        return report

    return explained


@contextmanager
def watch(path: str | os.PathLike[str] | None = None, *, compare: bool = False) -> Iterator[Report]:
    """`with stator.watch() as report:` collects the calls, graphs, graph breaks and recompiles of this thread.

    Args:
        path: where to write the report as HTML at the end, also after an exception (see `Report.html`).
        compare: some of the calls that would use an entry run uncompiled, so that the report can tell the time saved.
    """
    report = Report()
    listener = Listener(report.calls, report.timeline, report.began, compare)
    try:
        with _collecting(report.add), followed(listener):
            yield report
    finally:
        report.idle += _idle()
        if path is not None:
            report.html(path)


class _Watched(backends.Backend):
    """Passes graphs on to the chosen backend. It equals no other backend, so entries of others are not used."""

    def __init__(self, chosen: backends.Backend, keep: Callable[[GraphModule], None]) -> None:
        super().__init__(chosen.name, chosen.compiler, chosen.arguments)
        self.keep = keep
        self.compiled: list[Any] = []

    def __call__(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.keep(graph_module)
        self.compiled.append(super().__call__(graph_module, example_inputs))
        return self.compiled[-1]

    def notes(self) -> list[Note]:
        """What the graphs that were compiled have to say, after they ran."""
        if self.name != "stator":
            return []
        from stator.cuda_graphs import unrecorded

        return [Note("cuda_graphs", text, "?", 0) for compiled in self.compiled for text in unrecorded(compiled)]

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = backends.Backend.__hash__


def _idle(only: Any = None) -> list[str]:
    """The compiled callables without a graph, or only this one, in words. A common cause is that the program calls
    another method of the model than the compiled one."""
    only = getattr(only, "_stator_call", only)
    only = getattr(only, "_stator_compiled", only)
    found = []
    for compiled, was_called, captures, graphs in engine().callables():
        if graphs > 0 or (only is not None and compiled is not only):
            continue
        name, file, line = naming.callee(
            getattr(compiled, "__func__", compiled._stator_callable), getattr(compiled, "__self__", None)
        )
        if not was_called:
            found.append(f"the compiled callable {name} ({file}:{line}) was never called")
        elif captures > 0:
            found.append(
                f"the compiled callable {name} ({file}:{line}) captured nothing: "
                f"{_count(captures, 'capture')}, no operations"
            )
    return sorted(found)


@contextmanager
def _collecting(callback: Callable[[dict[str, Any]], None]) -> Iterator[None]:
    before = engine().collect(callback)
    try:
        yield
    finally:
        engine().collect(before)


def _shortened(stack: list[str], first: int = 12, last: int = 4) -> list[str]:
    """The first and last entries of a long stack."""
    if len(stack) <= first + last + 1:
        return stack
    return [*stack[:first], f"... {len(stack) - first - last} more callers ...", *stack[-last:]]


def _calls(calls: Calls) -> str:
    share = f"{100 * calls.hits / max(1, calls.total - calls.counts['sample']):.0f} % of them used an entry"
    saved = calls.saved
    time_ = "" if saved is None else f", {_seconds(abs(saved))} {'saved' if saved >= 0 else 'lost'} against uncompiled"
    return f"{calls.name}: {_count(calls.total, 'call')}, {share}{time_}"


def _relation(text: str, where: str | None = None) -> str:
    return text if where is None else f"{text}, needed by {where}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _times(times: dict[str, float]) -> str:
    steps = [*(step for step in STEPS if step in times), *(step for step in times if step not in STEPS)]
    each = ", ".join(f"{step} {_seconds(times[step])}" for step in steps)
    return f"{_seconds(sum(times.values()))} ({each})" if each else "no times"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us" if seconds < 1e-3 else f"{seconds * 1e3:.1f} ms"


def _indented(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in text.strip().splitlines())
