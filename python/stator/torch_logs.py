"""`TORCH_LOGS` and `TORCH_TRACE`: captures in the logs and the structured trace of torch, in the forms that people and
tlparse read. Only imported once torch._dynamo is."""

from __future__ import annotations

import copy
import dis
import logging
import re
import textwrap
from types import CodeType
from typing import TYPE_CHECKING, Any

import torch
from torch._logging import trace_structured

from stator import trace_logs
from stator.torch_words import guard_in_torchs_words, in_torchs_words

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
_bytecode = torch._logging.getArtifactLogger("torch._dynamo.convert_frame", "bytecode")
_dynamic = logging.getLogger("torch.fx.experimental.symbolic_shapes")
_dynamo = logging.getLogger("torch._dynamo.convert_frame")
_trace = logging.getLogger("torch.__trace")

_graphs = 0

# What the logs need of a report (src/capture/report.cpp).
NOTHING, TEXTS, STEPS = range(3)


def began(code: CodeType) -> int:
    """At the start of a capture. Returns what the logs need of its report: texts, or also the steps of the trace."""
    _dynamo.info("Step 1: torchdynamo start tracing %s %s:%s", code.co_name, code.co_filename, code.co_firstlineno)
    if _trace.handlers:
        trace_structured("dynamo_start", lambda: {"stack": _stack(code)})
    if _is_on(_bytecode):
        _bytecode.debug("ORIGINAL BYTECODE %s\n%s\n", _place_of(code), dis.Bytecode(code).dis())
    if is_traced() or trace_logs.are_on():
        return STEPS
    loggers = (_guards, _recompiles, _recompiles_verbose, _bytecode)
    return TEXTS if _dynamic.isEnabledFor(logging.INFO) or any(map(_is_on, loggers)) else NOTHING


def captured(code: CodeType, report: dict[str, Any]) -> None:
    """After a capture, with its report."""
    if "trace" in report:
        trace_logs.tell(report["trace"])
    if "recompiled" in report:
        _tell_of_recompile(code, report["recompiled"]["reasons"])
    for broken in report["breaks"]:
        _tell_of_break(broken)
    for entry in report["entries"]:
        if _is_on(_bytecode):
            # Stator makes no bytecode: after the graph the plan fills the frame, which goes on with its own.
            _bytecode.debug("PLAN IN PLACE OF MODIFIED BYTECODE %s\n%s\n", _place_of(code), entry["plan"])
        _tell_of_guards(entry)
        for line in entry["symbols"]:
            _dynamic.info("create_symbol %s", line)


def graph(graph_module: GraphModule) -> None:
    """Before the backend compiles a graph."""
    is_on = (_is_on(_graph), _is_on(_graph_code), _is_on(_graph_sizes), bool(_trace.handlers))
    if not any(is_on):
        return
    global _graphs
    _graphs += 1
    from torch._dynamo.utils import lazy_format_graph_code, lazy_format_graph_tabular

    name = f"__compiled_fn_{_graphs}"
    # torch's formatters read the code of `forward`, which a captured graph does not have.
    graph_module = torch.fx.GraphModule(graph_module, copy.deepcopy(graph_module.graph))
    if is_on[0]:
        _graph.debug("%s", lazy_format_graph_tabular(name, graph_module))
    if is_on[1]:
        text = lazy_format_graph_code(name, graph_module, include_stride=True, include_device=True, colored=True)
        _graph_code.debug("%s", text)
    if is_on[2]:
        lines = "".join(f"{node}: {tuple(size)}\n" for node, size in _sizes(graph_module).items())
        _graph_sizes.debug("TRACED GRAPH TENSOR SIZES\n===== %s =====\n%s", name, lines)
    trace_structured(
        "dynamo_output_graph",
        lambda: {"sizes": _sizes(graph_module)},
        payload_fn=lambda: _readable(graph_module),
    )


def _readable(graph_module: GraphModule) -> str:
    try:
        return graph_module.print_readable(print_output=False, include_stride=True, include_device=True)
    except KeyError:
        # FX has no short names of quantized dtypes.
        return graph_module.code


def limit_hit(function: str, text: str) -> None:
    """The recompile limit, in the words that people look for, and then in Stator's."""
    reason = re.search(r"entry fail because (.*?)\. Make that value", text, re.DOTALL)
    _dynamo.warning(
        "torch._dynamo hit config.recompile_limit (%s)\n"
        "   function: %s\n"
        "   last reason: %s\n"
        "%s\n"
        'To log all recompilation reasons, use TORCH_LOGS="recompiles".',
        torch._dynamo.config.recompile_limit,
        function,
        in_torchs_words(reason[1]) if reason else text,
        text,
    )


def is_traced() -> bool:
    """Whether a structured trace is kept. torch's handler without a folder is there until something is written."""
    return any(getattr(handler, "root_dir", "") is not None for handler in _trace.handlers)


def _is_on(logger: logging.Logger) -> bool:
    return logger.isEnabledFor(logging.DEBUG)


def _tell_of_recompile(code: CodeType, reasons: list[str]) -> None:
    reasons = [in_torchs_words(reason) for reason in reasons]
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
    file, line = broken.get("file", "?"), broken.get("line", 0)
    callers = "".join(f"  called from {caller}\n" for caller in broken.get("stack", ()))
    text = (
        f"Graph break in user code at {file}:{line}\n"
        f"Graph Break Reason: {broken['reason']}\n"
        f"  Hint: {broken['hint']}\n"
        f"  See docs/graph-breaks.md#{broken['kind']}\n\n"
        f"User code traceback:\n"
        f'  File "{file}", line {line}\n    {broken.get("source", "").strip()}\n{callers}'
    )
    _graph_breaks.debug("%s", text)
    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "dynamo_graph_break_reason", "encoding": "string"},
        payload_fn=lambda: text,
    )


def _tell_of_guards(entry: dict[str, Any]) -> None:
    def text() -> str:
        # The modes and settings of torch that it guards are those that Stator guards.
        state = torch._C._dynamo.guards.GlobalStateGuard().__getstate__()
        lines = f"| +- GLOBAL_STATE: ___check_global_state() against {state}\n"
        lines += "".join(f"| +- {guard_in_torchs_words(guard)}\n" for guard in entry["guards"])
        return f"\nTREE_GUARD_MANAGER:\n+- RootGuardManager\n{lines}"

    if _is_on(_guards):
        _guards.debug("GUARDS:\n%s", text())
    trace_structured("dynamo_cpp_guards_str", payload_fn=text)


def _place_of(code: CodeType) -> str:
    return f"{code.co_name} {code.co_filename} line {code.co_firstlineno} "


def _stack(code: CodeType) -> list[dict[str, Any]]:
    """The callers of the compiled function, and the function itself."""
    from torch._logging import structured
    from torch.utils._traceback import CapturedTraceback

    frames = structured.from_traceback(CapturedTraceback.extract(skip=3).summary())
    own = {"line": code.co_firstlineno, "name": code.co_name, "filename": structured.intern_string(code.co_filename)}
    return [*frames, own]


def _sizes(graph_module: GraphModule) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for node in graph_module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor):
            sizes[node.name] = [size if isinstance(size, int) else str(size) for size in value.shape]
    return sizes
