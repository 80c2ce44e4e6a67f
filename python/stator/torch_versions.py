"""The private parts of torch.compile that Stator uses, and that differ between torch 2.11 and 2.15: only here."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch


def default_backend() -> Any:
    """What `torch.compile` uses without `backend=`: a setting of `torch.compiler` since 2.12."""
    get = getattr(torch.compiler, "get_default_backend", None)
    return "inductor" if get is None else get()


def inductor(mode: str | None, options: dict[str, Any] | None, dynamic: bool | None, name: str | None) -> Any:
    """Inductor with this mode or these options. PyTorch's class validates them and makes a configuration of them."""
    options = dict(options or {})
    wrapper: Any = torch._TorchCompileInductorWrapper
    if options.pop("use_aoti", False):
        wrapper = getattr(torch, "_TorchCompileAOTInductorWrapper", None)
        if wrapper is None:
            raise ValueError(f"torch {torch.__version__} has no option 'use_aoti'")
    arguments = [mode, options or None, dynamic]
    if "name" in inspect.signature(wrapper.__init__).parameters:
        arguments.append(name)
    return wrapper(*arguments)


@dataclass
class Context:
    """The arguments in an `OptimizeContext`, which `torch.compile` and `torch._dynamo.optimize` create."""

    backend: Any
    fullgraph: bool
    dynamic: bool | None
    recompile_limit: int | None
    # By the name of the argument, which changed in 2.15.
    shapes: dict[str, Any]
    guard_filter_fn: Any
    guard_fail_fn: Any
    guard_export_fn: Any
    # -1: callables that are compiled alike share what they captured.
    isolate_recompiles_id: int


def read_context(context: Any) -> Context | None:
    """None if only TorchDynamo can do what is asked for: export, or packages of compiled code."""
    from torch._dynamo import config, convert_frame

    if getattr(context, "export", False) or getattr(config, "caching_precompile", False):
        return None
    wrapper = context.callback
    if not isinstance(wrapper, convert_frame.CatchErrorsWrapper):
        return None
    convert: Any = wrapper._torchdynamo_orig_backend
    backend: Any = convert._torchdynamo_orig_backend
    # The wrapper for `torch._dynamo.config.repro_after`.
    backend = getattr(backend, "_torchdynamo_orig_backend", backend)
    one_graph = isinstance(convert, convert_frame.ConvertFrameAssert) and convert._one_graph
    hooks = wrapper.hooks
    return Context(
        backend,
        one_graph or bool(getattr(context, "error_on_graph_break", False)),
        context._dynamic,
        getattr(convert, "_recompile_limit", None),
        {name: getattr(context, f"_{name}", None) for name in ("shapes_spec", "dynamic_shapes")},
        getattr(hooks, "guard_filter_fn", None),
        hooks.guard_fail_fn,
        hooks.guard_export_fn,
        getattr(context, "_isolate_recompiles_id", -1),
    )


def attached_shapes(model: Any) -> Any:
    """What the decorator `dynamic_spec` of torch 2.15 has said of the arguments of a function, or of `forward`."""
    function = getattr(model, "forward", None) if isinstance(model, torch.nn.Module) else model
    return getattr(function, "_dynamic_spec", None)


def guard_fail(reason: str) -> Any:
    """What a `guard_fail_fn` receives: the reason comes first."""
    from torch._dynamo.types import GuardFail

    return GuardFail(reason, None)  # type: ignore[arg-type]


class ExportedGuard(str):
    """What a `guard_export_fn` receives: the text of a guard, which begins with the place that it is about."""

    @property
    def name(self) -> str:
        found = re.match(r"\w+(\[[^]]*\]|\.\w+(\(\))?)*", self)
        return found[0] if found else ""

    @property
    def guard_types(self) -> list[str]:
        return [self._kind_and_code()[0]]

    @property
    def code_list(self) -> list[str]:
        return [self._kind_and_code()[1]]

    def _kind_and_code(self) -> tuple[str, str]:
        """In torch's words."""
        from stator.guard_tree import guard_in_torchs_words

        kind, _, code = guard_in_torchs_words(str.__str__(self))[1].partition(": ")
        return kind, code

    def __str__(self) -> str:
        """As torch prints its own, in explanations."""
        kind, code = self._kind_and_code()
        scope = "local" if self.name.startswith("L") else "global"
        lines = [f"Name: {self.name!r}", f"Source: {scope}", f"Create Function: {kind}", f"Code List: [{code!r}]"]
        return "\n    ".join(lines) + "\n"


def is_scripted(fn: Any) -> bool:
    return isinstance(fn, torch.jit.ScriptModule) and type(fn) is torch.jit._script.RecursiveScriptModule


def is_of_compiled_autograd(fn: Any) -> bool:
    """Whether it is the graph of a backward pass, whose hooks only TorchDynamo knows."""
    return isinstance(fn, torch.fx.GraphModule) and type(fn).__name__.startswith("CompiledAutograd")


def unwrapped_backend(backend: Any) -> tuple[Any, dict[str, Any]]:
    """The function inside the object that `torch.compile` makes of a backend, and the arguments that it adds."""
    if isinstance(backend, torch._TorchCompileWrapper):
        return backend.compiler_fn, dict(backend.kwargs)
    return backend, {}


def registered_name(compiler: Any) -> str | None:
    """The name under which a backend is registered with torch._dynamo. Does not import that module."""
    registry = sys.modules.get("torch._dynamo.backends.registry")
    if registry is None:
        return None
    return next((name for name, known in registry._COMPILER_FNS.items() if known is compiler), None)


def note_traced_frame(code: CodeType) -> None:
    """For the list of traced frames that torch logs at exit."""
    from torch._dynamo.eval_frame import dynamo_tls

    traced = getattr(dynamo_tls, "traced_frame_infos", None)
    frame = f"{code.co_name} {code.co_filename}:{code.co_firstlineno}"
    # (A capture that starts after a graph break is of the same frame.)
    if traced is not None and frame not in traced:
        traced.append(frame)


def enter_compile_events(events: ExitStack, tracing: ExitStack) -> None:
    """The events of torch around a compilation, which profilers and tlparse show: of all of it, and of the trace."""
    from torch._dynamo import utils

    if (chromium_event := getattr(utils, "chromium_event_timed", None)) is not None:
        events.enter_context(chromium_event("dynamo", reset_event_log_on_exit=True, log_pt2_compile_event=True))
    events.enter_context(
        utils.dynamo_timed(
            "_compile.compile_inner",
            phase_name="entire_frame_compile",
            dynamo_compile_column_us="dynamo_cumulative_compile_time_us",
        )
    )
    tracing.enter_context(utils.dynamo_timed("bytecode_tracing", log_pt2_compile_event=True))


def recompile_contexts() -> set[str] | None:
    """What the hooks of `register_hook_for_recompile_user_context` say."""
    from torch._dynamo import utils

    hooks = getattr(utils, "get_hook_for_recompile_user_context", lambda: None)()
    return {hook()[:256] for hook in hooks} if hooks else None


def with_minifier(compiler: Any, name: str) -> Any:
    """The backend, wrapped if `torch._dynamo.config.repro_after` says so."""
    config: Any = sys.modules.get("torch._dynamo.config")
    if config is None or config.repro_after != "dynamo":
        return compiler
    from torch._dynamo.repro.after_dynamo import wrap_backend_debug

    return wrap_backend_debug(compiler, name)


def split_at_buckets(compiler: Any) -> Any:
    """Inside of `DistributedDataParallel` graphs are split where its buckets of gradients end, so that the exchange of
    gradients overlaps with the backward pass: `torch._dynamo.config.optimize_ddp`."""
    distributed: Any = sys.modules.get("torch.nn.parallel.distributed")
    active = distributed and distributed.DistributedDataParallel._get_active_ddp_module()
    if not active:
        return compiler
    from torch._dynamo.backends.distributed import DDPOptimizer
    from torch._dynamo.utils import get_optimize_ddp_mode

    if get_optimize_ddp_mode() != "ddp_optimizer":
        return compiler
    optimizer = DDPOptimizer(bucket_bytes_cap=active.bucket_bytes_cap, backend_compile_fn=compiler)

    def compile_parts(graph_module: Any, example_inputs: Any) -> Any:
        # What is copied to the parts; only TorchDynamo's graphs have it.
        graph_module._param_name_to_source = {}
        for node in graph_module.graph.find_nodes(op="placeholder"):
            node._dynamo_source = None
        return optimizer.compile_fn(graph_module, example_inputs)

    return compile_parts


def verified(compiled: Any, graph_module: Any, inputs: Any, name: str) -> None:
    """`torch._dynamo.config.verify_correctness`. Raises RuntimeError if the backend computes something else."""
    config: Any = sys.modules.get("torch._dynamo.config")
    if config is None or not config.verify_correctness:
        return
    from torch._dynamo.utils import clone_inputs, same
    from torch._subclasses import FakeTensor

    if any(isinstance(value, FakeTensor) for value in inputs):
        return
    if not same(graph_module(*clone_inputs(inputs)), compiled(*clone_inputs(inputs))):
        raise RuntimeError(f"incorrect results of backend {name}")


def is_inductor(backend: Any) -> bool:
    return isinstance(backend, torch._TorchCompileInductorWrapper)


def compile_reason(broken: dict[str, Any] | None) -> Any:
    """Why a graph ends, as TorchDynamo describes it: it returns, or there is a graph break (a dict as in report.py)."""
    from torch._dynamo.output_graph import GraphCompileReason

    if broken is None:
        return GraphCompileReason("return_value", [], graph_break=False)
    function = broken.get("function", "?")
    place = traceback.FrameSummary(broken.get("file", "?"), broken.get("line", 0), function, lookup_line=False)
    return GraphCompileReason(broken["reason"], [place], graph_break=True)


def set_value(setting: Any) -> Any:
    """What the program has set a setting of PyTorch to, or torch's sentinel. torch 2.13 keeps it in a
    context variable."""
    override = setting.user_override
    return override.get() if isinstance(override, ContextVar) else override


@contextmanager
def noted_metadata() -> Iterator[list[Any]]:
    """The metadata of the graphs that aot_autograd compiles. A tracing context has those of the graph without wrapper
    subclasses alone."""
    noted: list[Any] = []
    module: Any = sys.modules.get("torch._functorch._aot_autograd.graph_compile")
    choose = getattr(module, "_get_inner_meta", None)
    if choose is None:
        yield noted
        return

    def note(maybe_subclass_meta: Any, fw_metadata: Any) -> Any:
        noted.append(fw_metadata)
        return choose(maybe_subclass_meta, fw_metadata)

    module._get_inner_meta = note
    try:
        yield noted
    finally:
        module._get_inner_meta = choose
