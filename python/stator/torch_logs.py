"""`TORCH_LOGS` and `TORCH_TRACE`: captures in the logs and the structured trace of torch, in the forms that people and
tlparse read. Only imported once torch._dynamo is."""

from __future__ import annotations

import copy
import dis
import logging
import re
import textwrap
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch._logging import structured, trace_structured
from torch._subclasses.meta_utils import MetaTensorDescriber

from stator import symbol_logs, trace_logs
from stator.guard_tree import guard_tree
from stator.torch_words import Stack, guard_of, in_torchs_words

if TYPE_CHECKING:
    from torch.fx import GraphModule

# The loggers have the names of TorchDynamo's modules, which tools and `TORCH_LOGS="+torch._dynamo.guards"` select.
_guards = torch._logging.getArtifactLogger("torch._dynamo.guards", "guards")
_recompiles = torch._logging.getArtifactLogger("torch._dynamo.guards", "recompiles")
_recompiles_verbose = torch._logging.getArtifactLogger("torch._dynamo.guards", "recompiles_verbose")
_graph_breaks = torch._logging.getArtifactLogger("torch._dynamo.symbolic_convert", "graph_breaks")
_graph = torch._logging.getArtifactLogger("torch._dynamo.output_graph", "graph")
_graph_sizes = torch._logging.getArtifactLogger("torch._dynamo.output_graph", "graph_sizes")
_graph_code = torch._logging.getArtifactLogger("torch._dynamo.output_graph", "graph_code")
_regions = torch._logging.getArtifactLogger("torch._dynamo.variables.higher_order_ops", "hierarchical_compile")
_bytecode = torch._logging.getArtifactLogger("torch._dynamo.convert_frame", "bytecode")
_dynamo = logging.getLogger("torch._dynamo.convert_frame")
_trace = logging.getLogger("torch.__trace")

# By code: where each guard of its captures is first needed, while a log is on that tells.
_needed: WeakKeyDictionary[CodeType, dict[str, Stack]] = WeakKeyDictionary()

# What the logs need of a report (src/capture/report.cpp).
NOTHING, TEXTS, STEPS = range(3)


@dataclass
class CaptureLog:
    """What the logs tell of one capture. `code` is that of the function, or of the `forward` of a module, with the
    names of its parameters."""

    code: CodeType
    parameters: Sequence[str] = ()
    # Where each guard is first needed, if a log is on that tells.
    needed: dict[str, Stack] = field(default_factory=dict)
    shape_env: Any = None
    is_traced: bool = False
    _told_breaks: list[dict[str, Any]] = field(default_factory=list)

    def began(self) -> int:
        """At the start. Returns what the logs need of the report: texts, or also the steps of the trace."""
        code = self.code
        _dynamo.info("Step 1: torchdynamo start tracing %s %s:%s", code.co_name, code.co_filename, code.co_firstlineno)
        if _trace.handlers:
            stack = stack_of(code)
            trace_structured("dynamo_start", lambda: {"stack": structured.from_traceback(stack)})
        if _is_on(_bytecode):
            _bytecode.debug("ORIGINAL BYTECODE %s\n%s\n", _place_of(code), dis.Bytecode(code).dis())
        if is_traced() or trace_logs.are_on() or names_lines():
            return STEPS
        return TEXTS if _is_on(_bytecode) else NOTHING

    def recompiling(self, reasons: list[str], compile_ids: list[Any]) -> list[str]:
        """Why no entry fits, with the ids of those captures; None if one was captured while nobody followed. Returns
        the reasons in torch's words."""
        is_told = is_traced() or _is_on(_recompiles) or _is_on(_recompiles_verbose)
        texts = [
            ("" if compile_id is None else f"{compile_id}: ") + _reason_with_line(self.code, reason, self.parameters)
            for compile_id, reason in zip(compile_ids, reasons if is_told else reasons[:1], strict=False)
        ]
        if is_told:
            _tell_of_recompile(self.code, texts)
        return [text.partition("\nUser stack trace:")[0] for text in texts]

    def traced(self, report: dict[str, Any]) -> None:
        """Before the backend compiles the graph, or when there is none."""
        self.is_traced = True
        if "trace" in report:
            self.needed = trace_logs.tell(report["trace"])
            _needed.setdefault(self.code, {}).update(self.needed)
        for broken in report["breaks"]:
            if broken not in self._told_breaks:
                self._told_breaks.append(broken)
                _tell_of_break(broken)
        symbol_logs.tell_of_marks(report.get("symbols", ()))

    def graph(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> None:
        """Before the backend compiles a graph."""
        if symbol_logs.is_on():
            self.shape_env = symbol_logs.make_symbols(graph_module)
        if _is_on(_regions):
            _tell_of_regions(graph_module)
        if is_traced():
            _dump_files(graph_module)
            _describe_inputs(getattr(graph_module, "_stator_sources", ()), example_inputs)
        if any(map(_is_on, (_graph, _graph_code, _graph_sizes))) or _trace.handlers:
            _tell_of_graph(graph_module)

    def captured(self, report: dict[str, Any]) -> None:
        """At the end, with the whole report."""
        if not self.is_traced:
            self.traced(report)
        for entry in report["entries"]:
            if _is_on(_bytecode):
                # Stator makes no bytecode: after the graph the plan fills the frame, which goes on with its own.
                _bytecode.debug("PLAN IN PLACE OF MODIFIED BYTECODE %s\n%s\n", _place_of(self.code), entry["plan"])
            _tell_of_guards(entry, self.needed)
            if symbol_logs.is_on():
                symbol_logs.tell_of_conditions(entry, self.needed, self.shape_env)


def names_lines() -> bool:
    """Whether a log is on that says which line of the program needs a guard."""
    return symbol_logs.is_on() or any(map(_is_on, (_guards, _recompiles, _recompiles_verbose)))


def _tell_of_graph(graph_module: GraphModule) -> None:
    from torch._dynamo.bytecode_transformation import unique_id
    from torch._dynamo.utils import lazy_format_graph_code, lazy_format_graph_tabular

    name = unique_id("__compiled_fn", with_uuid=True)
    # torch's formatters read the code of `forward`, which a captured graph does not have.
    graph_module = torch.fx.GraphModule(graph_module, copy.deepcopy(graph_module.graph))
    if _is_on(_graph):
        _graph.debug("%s", lazy_format_graph_tabular(name, graph_module))
    if _is_on(_graph_code):
        text = lazy_format_graph_code(name, graph_module, include_stride=True, include_device=True, colored=True)
        _graph_code.debug("%s", text)
    if _is_on(_graph_sizes):
        lines = "".join(f"{node}: {tuple(size)}\n" for node, size in sizes(graph_module).items())
        _graph_sizes.debug("TRACED GRAPH TENSOR SIZES\n===== %s =====\n%s", name, lines)
    trace_structured(
        "dynamo_output_graph",
        lambda: {"sizes": sizes(graph_module)},
        payload_fn=lambda: _readable(graph_module),
    )


def _tell_of_regions(graph_module: GraphModule) -> None:
    """Calls of functions that are marked with `torch.compiler.nested_compile_region`."""
    for node in graph_module.graph.find_nodes(op="call_function", target=torch.ops.higher_order.invoke_subgraph):
        region: Any = graph_module.get_submodule(node.args[0].target)
        _regions.debug("%s calls the region %s, a subgraph of %s nodes", node, node.args[1], len(region.graph.nodes))


def _dump_files(graph_module: GraphModule) -> None:
    """The generated code of FX graph modules that the program calls."""
    for node in graph_module.graph.nodes:
        for file in re.findall(r'File "([^"]*eval_with_key[^"]*)"', node.meta.get("stack_trace") or ""):
            structured.dump_file(file)


class _Describer(MetaTensorDescriber):
    """Storages have the sizes of this call, as TorchDynamo describes its inputs: tlparse drops those without a number.
    (A FakeTensor has symbols there.)"""

    def describe_storage(self, s: torch.UntypedStorage, *, trace: bool = False) -> Any:
        described = super().describe_storage(s)
        if isinstance(described.size, torch.SymInt):
            described = replace(described, size=described.size.node.hint or 0)
        if trace and described.id not in self.traced_storages:
            trace_structured("describe_storage", metadata_fn=partial(described.as_json, self.id))
            self.traced_storages.add(described.id)
        return described


def _describe_inputs(sources: Sequence[str], example_inputs: Sequence[Any]) -> None:
    describer = _Describer(copy_data=False)
    for place, value in zip(sources, example_inputs, strict=False):
        if not isinstance(value, torch.Tensor):
            continue
        described = describer.describe_tensor(value, trace=True)
        source = {"describer_id": describer.id, "id": described.id, "source": place}
        trace_structured("describe_source", metadata_fn=partial(dict, source))


def _readable(graph_module: GraphModule) -> str:
    try:
        return graph_module.print_readable(print_output=False, include_stride=True, include_device=True)
    except KeyError:
        # FX has no short names of quantized dtypes.
        return graph_module.code


def failed(code: CodeType, error: BaseException) -> None:
    """The backend has failed, and the graph runs as it was captured: in the words that people look for."""
    from torch._dynamo.exc import BackendCompilerFailed

    cause = error.__cause__ if isinstance(error, BackendCompilerFailed) and error.__cause__ else error
    text = "".join(traceback.format_exception(cause)).rstrip()
    _dynamo.warning(
        "WON'T CONVERT %s %s line %s \ndue to: \n%s", code.co_name, code.co_filename, code.co_firstlineno, text
    )


def limit_hit(function: str, text: str) -> None:
    """The recompile limit, in the words that people look for, and then in Stator's."""
    limit = re.search(r" (\d+) times, which is the recompile limit", text)
    reason = re.search(r"entry fail because (.*?)\. Make that value", text, re.DOTALL)
    _dynamo.warning(
        "torch._dynamo hit config.recompile_limit (%s)\n"
        "   function: %s\n"
        "   last reason: %s\n"
        "%s\n"
        'To log all recompilation reasons, use TORCH_LOGS="recompiles".',
        limit[1] if limit else torch._dynamo.config.recompile_limit,
        # 'f' (model.py:12)
        re.sub(r"^(?:.*\.)?([^. ]+)(?= \()", r"'\1'", function),
        in_torchs_words(reason[1]) if reason else text,
        text,
    )


def is_traced() -> bool:
    """Whether a structured trace is kept. torch's handler without a folder is there until something is written."""
    return any(getattr(handler, "root_dir", "") is not None for handler in _trace.handlers)


def _is_on(logger: logging.Logger) -> bool:
    return logger.isEnabledFor(logging.DEBUG)


def _reason_with_line(code: CodeType, reason: str, parameters: Sequence[str]) -> str:
    """In torch's words, and where the program needs the guard that failed."""
    needed = _needed.get(code, {})
    guard = guard_of(reason, needed)
    if guard is None:
        return in_torchs_words(reason, parameters)
    stack = needed[guard]
    lines = "".join(traceback.format_list(stack)).rstrip()
    return f"{in_torchs_words(reason, parameters, stack)}\nUser stack trace:\n{lines}"


def _tell_of_recompile(code: CodeType, reasons: list[str]) -> None:
    is_verbose = _is_on(_recompiles_verbose)
    if is_verbose:
        failures = "\n\n".join(
            f"guard {number} failures:\n" + textwrap.indent(reason, "- ") for number, reason in enumerate(reasons)
        )
    else:
        failures = textwrap.indent("\n".join(reasons), "- ")
    details = textwrap.indent(f"triggered by the following guard failure(s):\n{failures}", "    ")
    text = f"Recompiling function {code.co_name} in {code.co_filename}:{code.co_firstlineno}\n{details}"
    (_recompiles_verbose if is_verbose else _recompiles).debug("%s", text)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "recompile_reasons", "encoding": "json"},
        payload_fn=lambda: reasons[0] if len(reasons) == 1 else reasons,
    )


def _tell_of_break(broken: dict[str, Any]) -> None:
    if not is_traced() and not _is_on(_graph_breaks):
        return
    from torch._dynamo.utils import graph_break_dup_warning_checker

    file, line = broken.get("file", "?"), broken.get("line", 0)
    reason = (
        f"Graph Break Reason: {broken['reason']}\n"
        f"  Hint: {broken['hint']}\n"
        f"  See docs/graph-breaks.md#{broken['kind']}\n"
    )
    stack = "".join(traceback.format_list(_stack_of_break(broken)))
    text = f"Graph break in user code at {file}:{line}\n{reason}\nUser code traceback:\n{stack}"
    if graph_break_dup_warning_checker.add((broken["kind"], ((file, line),))):
        _graph_breaks.debug("%s", text)
    else:
        suppressed = "Graph break (user stack suppressed due to duplicate graph break) in user code at"
        _graph_breaks.debug("%s %s:%s\n%s", suppressed, file, line, reason)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "dynamo_graph_break_reason", "encoding": "string"},
        payload_fn=lambda: text,
    )


def _stack_of_break(broken: dict[str, Any]) -> Stack:
    """The calls that lead to a graph break: those of the compiled function, then those that are inlined."""
    inlined = [re.fullmatch(r"(.*) \((.*):(\d+)\)", caller) for caller in reversed(broken.get("stack", ()))]
    stack = [traceback.FrameSummary(at[2], int(at[3]), at[1].rpartition(".")[2]) for at in inlined if at is not None]
    here = traceback.FrameSummary(broken.get("file", "?"), broken.get("line", 0), broken.get("function", "?"))
    return [*trace_logs.callers(), *stack, here]


def _tell_of_guards(entry: dict[str, Any], needed: dict[str, Stack]) -> None:
    def text() -> str:
        return f"\nTREE_GUARD_MANAGER:\n{guard_tree(entry['guards'], entry['symbols'], needed)}"

    if _is_on(_guards):
        _guards.debug("GUARDS:")
        _guards.debug("%s", text())
    trace_structured("dynamo_cpp_guards_str", payload_fn=text)


def _place_of(code: CodeType) -> str:
    return f"{code.co_name} {code.co_filename} line {code.co_firstlineno} "


def stack_of(code: CodeType) -> Stack:
    """The callers of the compiled function, and the function itself."""
    return [*trace_logs.callers(), traceback.FrameSummary(code.co_filename, code.co_firstlineno, code.co_name)]


def sizes(graph_module: GraphModule) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for node in graph_module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            sizes[node.name] = [size if isinstance(size, int) else str(size) for size in value.shape]
    return sizes
