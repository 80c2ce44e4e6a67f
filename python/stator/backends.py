"""Backends, by name or as a callable `fn(graph_module, example_inputs)`.

The conventions are those of torch.compile. A backend gets the graph with real example inputs and runs inside a
`TracingContext` with a fake mode, with `torch.compiler.is_compiling()` true; random state and modes are restored after
it. Names are those registered with torch._dynamo. `eager` and `stator` are defined here, and need no import of that.
"""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from stator import _C, observer, progress, torch_reset, torch_versions

if TYPE_CHECKING:
    from torch.fx import GraphModule

CompilerFunction: TypeAlias = "Callable[..., Callable[..., Any]]"


class Backend:
    """A backend as the engine calls it, once for each graph."""

    def __init__(
        self,
        name: str,
        compiler: CompilerFunction,
        arguments: dict[str, Any] | None = None,
        *,
        is_pytorchs: bool = False,
        writes_at_end: bool = False,
    ) -> None:
        # Read by the engine: the compiled graph computes everything before it writes to an input.
        self.writes_at_end = writes_at_end
        self.name = name
        self.compiler = compiler
        # Read by the engine: whether the graph runs operation by operation, whether the backend is one of PyTorch, and
        # whether it accepts fake example inputs, as those do that go through aot_autograd. With fake inputs a backend
        # can't keep references to tensors of the program.
        self.runs_as_captured = compiler in (eager, prepared_calls)
        self.is_pytorchs = is_pytorchs
        self.takes_fakes = is_pytorchs and (name == "inductor" or name.startswith("aot_"))
        self.arguments = arguments or {}
        # Read by the engine, which makes the runner itself where nobody reads the graph: the last arguments of
        # `_C.make_runner`.
        self.runner = _runner_options(compiler, self.arguments) if type(self) is Backend else None

    def get_compiler_config(self) -> Any:
        """The configuration of the compiler, if it has one."""
        get = getattr(self.compiler, "get_compiler_config", None)
        return None if get is None else get()

    def __call__(self, graph_module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        torch_reset.follow()
        if (watching := observer.current()) is not None:
            watching.graph(graph_module, example_inputs)
        # The graph runs as it is. No context is needed, because no compiler runs.
        if self.runs_as_captured:
            return self.compiler(graph_module, example_inputs, **self.arguments)
        from stator import errors, fake
        from stator.compile_lock import compiling_alone

        _open_trace_log()
        compiled: Any = graph_module
        try:
            with (
                progress.compiling(self.name),
                compiling_alone(),
                watching.compiling() if watching is not None else nullcontext(),
                fake.tracing_context(graph_module) as context,
                _as_if_compiling(),
                _undisturbed(),
                fake.watching_symbols(graph_module, example_inputs),
                _kept_for_another_backward(context),
                _without_cache_of_floats(graph_module),
            ):
                compiler = torch_versions.with_minifier(self.compiler, self.name)
                if self.arguments:
                    compiler = functools.partial(compiler, **self.arguments)
                compiled = torch_versions.split_at_buckets(compiler)(graph_module, example_inputs)
                torch_versions.verified(compiled, graph_module, example_inputs, self.name)
            if self.name != "inductor" and fake.has_deferred_assertions(graph_module):
                # Only inductor's code has them. The graph as it was captured raises where the program would.
                compiled = graph_module
            if not callable(compiled):
                raise TypeError(f"the backend returned {compiled!r}, which can't be called")
        except Exception as cause:
            if watching is not None:
                watching.backend_failed(self.name, cause)
            errors.raise_backend_failed(self.name, graph_module, cause)
        return compiled

    def __eq__(self, other: object) -> bool:
        """Entries compiled by equal backends are interchangeable."""
        if not isinstance(other, Backend):
            return NotImplemented
        same = self.compiler is other.compiler or (
            self.name == other.name == "inductor" and self.compiler == other.compiler
        )
        return same and self.arguments == other.arguments

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"<stator backend {self.name!r}>"


def eager(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Runs the graph as it was captured, operation by operation."""
    return graph_module


def prepared_calls(
    graph_module: GraphModule, example_inputs: Sequence[Any], *, options: dict[str, bool] | None = None
) -> Callable[..., Any]:
    """Runs the operations of the graph as calls of their operators, without Python where that makes no difference.

    Args:
        options: `cuda_graphs` (True by default): whether calls on CUDA are recorded as CUDA graphs.
            `overwrite_results` (False): the results of a CUDA graph are not copied; the next call overwrites them.
    """
    captured = graph_module.__dict__.get("_captured")
    if captured is None:
        return graph_module  # it was changed
    return _C.make_runner(captured, graph_module, *_prepared_calls_options(options))


_STATOR_OPTIONS = {"cuda_graphs": True, "overwrite_results": False}


def _prepared_calls_options(options: dict[str, bool] | None) -> tuple[bool, bool, bool]:
    given = {**_STATOR_OPTIONS, **(options or {})}
    return True, bool(given["cuda_graphs"]), bool(given["overwrite_results"])


def _runner_options(compiler: CompilerFunction, arguments: dict[str, Any]) -> tuple[bool, bool, bool] | None:
    """Whether the runner prepares calls, records them, and overwrites results. None for other backends."""
    if compiler is eager:
        return False, False, False
    return _prepared_calls_options(arguments.get("options")) if compiler is prepared_calls else None


_EAGER = Backend("eager", eager)
_STATOR = Backend("stator", prepared_calls)


def resolve(
    backend: str | CompilerFunction | None,
    *,
    dynamic: bool | None,
    options: dict[str, Any] | None,
    mode: str | None,
    name: str | None = None,
) -> Backend:
    """The backend for the arguments of `stator.compile`."""
    if mode is not None and options is not None:
        raise ValueError("Either mode or options can be given to stator.compile, not both.")
    if backend is None:
        backend = torch_versions.default_backend()
    if isinstance(backend, Backend):
        if options or mode not in (None, "default"):
            raise ValueError(f"{backend!r} is configured already: it takes no mode and no options.")
        return backend
    if isinstance(backend, str):
        return _by_name(backend, dynamic, options, mode, name)
    if not callable(backend):
        raise TypeError(f"A backend is a name or a callable fn(graph_module, example_inputs), not {backend!r}.")
    return _by_callable(backend, options, mode)


def resolve_forced(backend: str | CompilerFunction) -> Backend:
    """The backend that `torch.compiler.set_stance` sets for all compiled functions."""
    return resolve(backend, dynamic=None, options=None, mode=None)


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The backends that are registered with torch._dynamo, by name."""
    from torch._dynamo.backends import registry

    return sorted({"eager", "stator", *registry.list_backends(exclude_tags)})


def _by_name(
    name: str, dynamic: bool | None, options: dict[str, Any] | None, mode: str | None, region: str | None
) -> Backend:
    if name == "eager" and not options and mode in (None, "default"):
        return _EAGER
    if name == "stator":
        return _stator(options, mode)
    if name == "inductor":
        return Backend(name, torch_versions.inductor(mode, options, dynamic, region), is_pytorchs=True)
    from torch._dynamo.backends import registry
    from torch._dynamo.exc import InvalidBackend

    try:
        compiler = registry.lookup_backend(name)
    except InvalidBackend:
        known = ", ".join(list_backends(exclude_tags=None))
        raise ValueError(f"There is no backend {name!r}. The known ones are: {known}.") from None
    return _registered(name, compiler, _arguments(name, compiler, options, mode))


def _stator(options: dict[str, Any] | None, mode: str | None) -> Backend:
    if unknown := sorted(set(options or ()) - set(_STATOR_OPTIONS)):
        known = ", ".join(sorted(_STATOR_OPTIONS))
        raise ValueError(f"The backend 'stator' has no option {unknown[0]!r}. The known ones are: {known}.")
    arguments = _arguments("stator", prepared_calls, options, mode)
    return Backend("stator", prepared_calls, arguments) if arguments else _STATOR


def _registered(name: str, compiler: CompilerFunction, arguments: dict[str, Any]) -> Backend:
    return Backend(name, compiler, arguments, is_pytorchs=True, writes_at_end=name.startswith("aot_eager"))


def _by_callable(backend: CompilerFunction, options: dict[str, Any] | None, mode: str | None) -> Backend:
    """A function of the user, or what `torch.compile` makes of its arguments."""
    if torch_versions.is_inductor(backend):
        return Backend("inductor", backend, is_pytorchs=True)
    compiler, arguments = torch_versions.unwrapped_backend(backend)
    registered = torch_versions.registered_name(compiler)
    name: str = registered or getattr(compiler, "__name__", None) or type(compiler).__name__
    arguments |= _arguments(name, compiler, options, mode)
    if registered is None:
        return Backend(name, compiler, arguments)
    return _EAGER if name == "eager" and not arguments else _registered(name, compiler, arguments)


def _arguments(
    name: str, compiler: CompilerFunction, options: dict[str, Any] | None, mode: str | None
) -> dict[str, Any]:
    """The mode and the options as arguments of the backend. Raises ValueError if it does not have them."""
    given = {"options": options, "mode": None if mode == "default" else mode}
    arguments = {argument: value for argument, value in given.items() if value}
    for argument, value in arguments.items():
        if not _takes(compiler, argument):
            raise ValueError(f"The backend {name!r} has no {argument}: it can't be given {argument}={value!r}.")
    return arguments


def _takes(compiler: CompilerFunction, argument: str) -> bool:
    try:
        parameters = inspect.signature(compiler).parameters
    except (TypeError, ValueError):
        return True  # not known before the call
    # Those of PyTorch that take any keyword log that they ignore it.
    ignores_others = str(getattr(compiler, "__module__", "")).startswith("torch.")
    has_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return argument in parameters or (has_any and not ignores_others)


@contextmanager
def _as_if_compiling() -> Iterator[None]:
    before = torch.compiler._is_compiling_flag
    torch.compiler._is_compiling_flag = True
    try:
        yield
    finally:
        torch.compiler._is_compiling_flag = before


@contextmanager
def _kept_for_another_backward(context: Any) -> Iterator[None]:
    """Turns donated buffers off: a backward pass whose saved tensors were donated can't run again, so that
    `retain_graph=True` would raise. A program that sets `donated_buffer` itself, even to its default, gets what it asks
    for."""
    from torch._functorch import config as functorch_config

    config: Any = functorch_config  # The type checker does not know its private methods.
    if torch_versions.set_value(config._config["donated_buffer"]) is True:
        yield
        return
    # `config.patch` would leave the default behind as if the program had set it.
    restore = config._make_closure_patcher(donated_buffer=False)()
    try:
        with torch_versions.noted_metadata() as noted:
            yield
    finally:
        restore()
    # No buffer was donated. aot_autograd takes None to mean that some may have been.
    for metadata in (context.fw_metadata, *noted):
        if getattr(metadata, "bw_donated_idxs", ()) is None:
            metadata.bw_donated_idxs = []


@functools.cache
def _open_trace_log() -> None:
    """Writes the first line of PyTorch's log of compilations, as torch._dynamo does.

    Whether anybody reads this log is found out at its first line. Until then compilers print each graph for it, which
    takes long, and fails for tensors of quantized dtypes.
    """
    from torch._logging import trace_structured

    trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": "stator", "encoding": "string"},
        payload_fn=lambda: "graphs are captured by Stator",
        expect_trace_id=False,
    )


@contextmanager
def _without_cache_of_floats(graph_module: GraphModule) -> Iterator[None]:
    """Turns aot_autograd's cache off for graphs with floats that change between calls.

    Its entries don't have the guards on floats, so that a graph that was specialized on one would be used for another.
    """
    from stator import fake

    symbols = fake.cell_of(graph_module).symbols
    if symbols is None or not symbols.have_floats:
        yield
        return
    from torch._functorch import config

    with config.patch(enable_autograd_cache=False):
        yield


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Restores the random state and the modes, which a backend may change."""
    grad_enabled = torch.is_grad_enabled()
    python_state = random.getstate()
    state = torch.random.get_rng_state()
    cuda_states = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        # Tensors that a compiler creates must not become inference tensors.
        with torch.inference_mode(False), torch.set_grad_enabled(grad_enabled):
            yield
    finally:
        random.setstate(python_state)
        torch.random.set_rng_state(state)
        if cuda_states is not None:
            torch.cuda.set_rng_state_all(cuda_states)
