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
from functools import partial
from types import CodeType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch._logging import structured, trace_structured
from torch._subclasses.meta_utils import MetaTensorDescriber

from stator import trace_logs
from stator.torch_words import Stack, guard_in_torchs_words, guard_of, in_torchs_words, symbol_in_torchs_words

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
_dynamic = logging.getLogger("torch.fx.experimental.symbolic_shapes")
_dynamo = logging.getLogger("torch._dynamo.convert_frame")
_trace = logging.getLogger("torch.__trace")

_graphs = 0
# By code: where each guard of its captures is first needed, while a log is on that tells.
_needed: WeakKeyDictionary[CodeType, dict[str, Stack]] = WeakKeyDictionary()

# What the logs need of a report (src/capture/report.cpp).
NOTHING, TEXTS, STEPS = range(3)


def began(code: CodeType) -> int:
    """At the start of a capture. Returns what the logs need of its report: texts, or also the steps of the trace."""
    _dynamo.info("Step 1: torchdynamo start tracing %s %s:%s", code.co_name, code.co_filename, code.co_firstlineno)
    if _trace.handlers:
        trace_structured("dynamo_start", lambda: {"stack": _stack(code)})
    if _is_on(_bytecode):
        _bytecode.debug("ORIGINAL BYTECODE %s\n%s\n", _place_of(code), dis.Bytecode(code).dis())
    if is_traced() or trace_logs.are_on() or names_lines():
        return STEPS
    return TEXTS if _is_on(_bytecode) else NOTHING


def names_lines() -> bool:
    """Whether a log is on that says which line of the program needs a guard."""
    return _dynamic.isEnabledFor(logging.INFO) or any(map(_is_on, (_guards, _recompiles, _recompiles_verbose)))


def captured(code: CodeType, report: dict[str, Any]) -> None:
    """After a capture, with its report."""
    needed = trace_logs.tell(report["trace"]) if "trace" in report else {}
    if "recompiled" in report:
        _tell_of_recompile(code, report["recompiled"]["reasons"], report["compile_ids_before"])
    if needed:
        _needed.setdefault(code, {}).update(needed)
    for broken in report["breaks"]:
        _tell_of_break(broken)
    for entry in report["entries"]:
        if _is_on(_bytecode):
            # Stator makes no bytecode: after the graph the plan fills the frame, which goes on with its own.
            _bytecode.debug("PLAN IN PLACE OF MODIFIED BYTECODE %s\n%s\n", _place_of(code), entry["plan"])
        _tell_of_guards(entry, needed)
        for symbol in entry["symbols"]:
            _dynamic.info("create_symbol %s", symbol_in_torchs_words(symbol, needed))


def graph(graph_module: GraphModule, example_inputs: Sequence[Any]) -> None:
    """Before the backend compiles a graph."""
    if _is_on(_regions):
        _tell_of_regions(graph_module)
    if is_traced():
        _dump_files(graph_module)
        _describe_inputs(getattr(graph_module, "_stator_sources", ()), example_inputs)
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


def _describe_inputs(sources: Sequence[str], example_inputs: Sequence[Any]) -> None:
    describer = MetaTensorDescriber(copy_data=False)
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
        function,
        in_torchs_words(reason[1]) if reason else text,
        text,
    )


def is_traced() -> bool:
    """Whether a structured trace is kept. torch's handler without a folder is there until something is written."""
    return any(getattr(handler, "root_dir", "") is not None for handler in _trace.handlers)


def _is_on(logger: logging.Logger) -> bool:
    return logger.isEnabledFor(logging.DEBUG)


def _tell_of_recompile(code: CodeType, reasons: list[str], compile_ids: list[Any]) -> None:
    """`compile_ids` are those of the entries that did not match; None if one was captured while nobody followed."""
    reasons = [
        ("" if compile_id is None else f"{compile_id}: ") + in_torchs_words(reason) + _user_stack(code, reason)
        for compile_id, reason in zip(compile_ids, reasons, strict=True)
    ]
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


def _user_stack(code: CodeType, reason: str) -> str:
    """Where the program needs the guard that failed."""
    needed = _needed.get(code, {})
    guard = guard_of(reason, needed)
    return "" if guard is None else "\nUser stack trace:\n" + "".join(traceback.format_list(needed[guard])).rstrip()


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


def _tell_of_guards(entry: dict[str, Any], needed: dict[str, Stack]) -> None:
    def text() -> str:
        # The modes and settings of torch that it guards are those that Stator guards.
        state = torch._C._dynamo.guards.GlobalStateGuard().__getstate__()
        lines = f"| +- GLOBAL_STATE: ___check_global_state() against {state}\n"
        lines += "".join(f"| +- {guard_in_torchs_words(guard, needed.get(guard))}\n" for guard in entry["guards"])
        return f"\nTREE_GUARD_MANAGER:\n+- RootGuardManager\n{lines}"

    if _is_on(_guards):
        _guards.debug("GUARDS:\n%s", text())
    trace_structured("dynamo_cpp_guards_str", payload_fn=text)


def _place_of(code: CodeType) -> str:
    return f"{code.co_name} {code.co_filename} line {code.co_firstlineno} "


def _stack(code: CodeType) -> list[dict[str, Any]]:
    """The callers of the compiled function, and the function itself."""
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
