"""`stator.install()`: torch.compile, and all that calls it, compiles with Stator.

Every way into TorchDynamo ends in the call of an `OptimizeContext`: `torch.compile`, `nn.Module.compile`,
`torch.compiler.compile`, `torch._dynamo.optimize`, also from modules that have held one of these functions for long.
By then torch has validated the arguments. That call is what is replaced, one method of one class, so that everything
before it is torch's own, in each version of torch.

What only TorchDynamo can do is left to it: export, its precompiled packages, the graphs of compiled autograd, and the
functions around higher-order operations that PyTorch compiles itself.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType, ModuleType
from typing import Any

import torch
from torch import nn

from stator import imports, torch_versions, torch_words

# Modules of PyTorch that compile functions of their own, which contain higher-order operations.
_FOR_TORCH = ("torch._higher_order_ops.", "torch.nn.attention.", "torch._dynamo.", "torch._inductor.", "torch._export.")

_HOME = "torch._dynamo.eval_frame"
# It has imported by then what TorchDynamo itself uses of the functions that are replaced for others.
_AFTER_HOME = "torch._dynamo.convert_frame"


class _State:
    """Whether Stator is installed: by `install()`, and by how many `with installed()`."""

    lock = threading.RLock()
    is_installed = False
    scopes = 0
    # What was replaced: the object, the name, the value before, the value since.
    replaced: list[tuple[Any, str, Any, Any]]

    def __init__(self) -> None:
        self.replaced = []

    @property
    def is_active(self) -> bool:
        return self.is_installed or self.scopes > 0


class _LeftToTorch(threading.local):
    """Whether torch is compiling something in this thread that was left to it."""

    is_true = False


_state = _State()
_left_to_torch = _LeftToTorch()
_MISSING: Any = object()


def install() -> None:
    """From now on `torch.compile` and everything that calls it compiles with Stator. Can be called repeatedly.

    What was compiled before runs on as it was compiled. Modules that are compiled from now on are
    `torch._dynamo.OptimizedModule`s, with the prefix `_orig_mod.` in their `state_dict`, as
    `stator.config.wrap_installed_modules` says.
    """
    with _state.lock:
        _state.is_installed = True
        _follow_state()


def uninstall() -> None:
    """Leaves torch as it was. What Stator has compiled runs on; `with stator.installed()` holds until its end."""
    with _state.lock:
        _state.is_installed = False
        _follow_state()


def is_installed() -> bool:
    """Whether `torch.compile` compiles with Stator."""
    return _state.is_active


@contextmanager
def installed() -> Iterator[None]:
    """`with stator.installed():` for a part of a program. Holds for all threads."""
    with _state.lock:
        _state.scopes += 1
        _follow_state()
    try:
        yield
    finally:
        with _state.lock:
            _state.scopes -= 1
            _follow_state()


def _follow_state() -> None:
    if _state.is_active and not _state.replaced:
        imports.when_imported(_HOME, _replace)
        imports.when_imported(_AFTER_HOME, _replace_views)
    elif not _state.is_active:
        imports.forget(_HOME, _replace)
        imports.forget(_AFTER_HOME, _replace_views)
        _restore()


def _replace(eval_frame: ModuleType) -> None:
    from stator import observer

    with _state.lock:
        if not _state.is_active or _is_replaced(eval_frame.OptimizeContext):
            return
        _replace_in(eval_frame.OptimizeContext, "__call__", _compiling_call)
        _replace_in(eval_frame.RunOnlyContext, "__call__", _running_call)
        observer.start()


def _replace_views(convert_frame: ModuleType) -> None:
    """Functions that look into the caches of TorchDynamo, or change what it does with a code object."""
    from torch._dynamo import eval_frame, resume_execution

    from stator import cache_views

    with _state.lock:
        if not _state.is_active or _is_replaced(eval_frame):
            return
        for name, make in (
            ("_debug_get_cache_entry_list", cache_views.listing),
            ("_get_cache_entries_for_region", cache_views.listing_region),
            ("_get_total_cache_entry_count", cache_views.counting),
            ("skip_code", cache_views.skipping),
        ):
            if hasattr(eval_frame, name):
                _replace_in(eval_frame, name, make)
        _replace_in(torch._C._dynamo.eval_frame, "_debug_get_cache_entry_list", cache_views.listing_if_torch_has_none)
        _replace_in(resume_execution.ContinueExecutionCache, "cache", cache_views.ResumedCodes)


def _is_replaced(owner: Any) -> bool:
    return any(replaced is owner for replaced, *_ in _state.replaced)


def _replace_in(owner: Any, name: str, make: Callable[[Any], Any]) -> None:
    before = vars(owner).get(name, _MISSING)
    since = make(getattr(owner, name))
    setattr(owner, name, since)
    _state.replaced.append((owner, name, before, since))


def _restore() -> None:
    """Undoes the replacements. A replacement that another tool has replaced since stays, and only passes calls on."""
    from stator import observer

    if _state.replaced:
        observer.stop()
    for owner, name, before, since in _state.replaced:
        if vars(owner).get(name) is not since:
            continue
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)
    _state.replaced.clear()


def _compiling_call(torchs: Callable[..., Any]) -> Callable[..., Any]:
    """`OptimizeContext.__call__`, which compiles a function or a module."""

    def __call__(self: Any, fn: Any) -> Any:
        is_ours = _state.is_active and not _left_to_torch.is_true
        context = torch_versions.read_context(self) if is_ours else None
        if context is not None and not _is_for_torch(fn):
            return _compile(self, context, fn, torchs)
        # For a module, torch calls the context again with its call.
        before, _left_to_torch.is_true = _left_to_torch.is_true, True
        try:
            return torchs(self, fn)
        finally:
            _left_to_torch.is_true = before

    return __call__


def _running_call(torchs: Callable[..., Any]) -> Callable[..., Any]:
    """`RunOnlyContext.__call__`, for `torch._dynamo.run`: runs what is compiled, and compiles nothing."""

    def __call__(self: Any, fn: Any) -> Any:
        if not _state.is_active or not is_compiled(fn):
            return torchs(self, fn)

        def run_only(*args: Any, **kwargs: Any) -> Any:
            with torch.compiler.set_stance("eager_on_recompile"):
                return fn(*args, **kwargs)

        return run_only

    return __call__


def is_compiled(fn: Any) -> bool:
    """Whether Stator has compiled this function or module."""
    from stator._engine import engine
    from stator.modules import CompiledModule

    if type(fn) is MethodType:
        fn = fn.__func__
    return type(fn) is engine().Compiled or isinstance(fn, CompiledModule) or hasattr(type(fn), "_stator_wrapper")


def _is_for_torch(fn: Any) -> bool:
    if not callable(fn):
        return True  # its message
    home = getattr(fn, "__module__", None) if not isinstance(fn, nn.Module) else type(fn).__module__
    if isinstance(home, str) and home.startswith(_FOR_TORCH):
        return not home.startswith("torch._dynamo.testing")
    return torch_versions.is_scripted(fn) or torch_versions.is_of_compiled_autograd(fn)


def _compile(context: Any, read: torch_versions.Context, fn: Any, torchs: Callable[..., Any]) -> Any:
    from stator import api, backends, wrapped_modules
    from stator.settings import config

    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(_compile(context, read, fn.__func__, torchs))
    fn = api.original_of(fn)
    if isinstance(fn, nn.Module) and config.wrap_installed_modules:
        return wrapped_modules.wrap(fn, context)
    if inspect.isclass(fn):
        return _compile_class(context, fn)
    api.refuse_shapes_of(fn, **read.shapes)
    arguments = {
        "fullgraph": read.fullgraph,
        "dynamic": read.dynamic,
        "backend": read.backend,
        "recompile_limit": read.recompile_limit,
    }
    engine_options = {
        **arguments,
        "registers_attributes": config.register_attributes or torch._dynamo.config.install_free_tensors,
        "listener": _listener(read, fn),
        "guard_filter": read.guard_filter_fn,
        "isolate_recompiles": read.isolate_recompiles_id >= 0,
        "region": read.isolate_recompiles_id,
    }
    backend = backends.resolve(read.backend, dynamic=read.dynamic, options=None, mode=None)
    compiled = api.compile_with(fn, backend, engine_options, arguments)
    if not isinstance(fn, nn.Module):
        compiled.get_compiler_config = lambda: context.compiler_config
        compiled._is_torch_compile = True
        compiled._isolate_recompiles_id = read.isolate_recompiles_id
        # Ahead of time only TorchDynamo compiles.
        compiled.aot_compile = lambda *args, **kwargs: torchs(context, fn).aot_compile(*args, **kwargs)
    return compiled


def _compile_class(context: Any, cls: Any) -> Any:
    """Compiles the calls of all instances, as torch.compile does."""
    cls.__call__ = context(cls.__call__)
    if issubclass(cls, nn.Module):
        cls._call_impl = context(cls._call_impl)
    return cls


def _listener(read: torch_versions.Context, fn: Any) -> Callable[[dict[str, Any]], None] | None:
    """Passes guards to the functions that `torch._dynamo.optimize` takes for them."""
    failed, exported = read.guard_fail_fn, read.guard_export_fn
    if failed is None and exported is None:
        return None
    module = getattr(fn, "__self__", fn)  # (what is compiled of a wrapped module is its `__call__`)
    parameters = list(inspect.signature(module.forward).parameters) if isinstance(module, nn.Module) else []

    def listen(report: dict[str, Any]) -> None:
        if failed is not None:
            for reason in report.get("recompiled", {}).get("reasons", ()):
                failed(torch_versions.guard_fail(torch_words.in_torchs_words(reason, parameters)))
        if exported is not None:
            for entry in report.get("entries", ()):
                exported([torch_versions.ExportedGuard(guard) for guard in entry["guards"]])

    return listen
