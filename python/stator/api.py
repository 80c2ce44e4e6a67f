"""`stator.compile` and `stator.reset`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar, overload

import torch
from torch import nn

from stator import backends, modules, notes
from stator._engine import engine
from stator.settings import config

F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(
    fn: F,
    *,
    backend: str | backends.CompilerFunction = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    options: dict[str, Any] | None = ...,
    mode: str | None = ...,
) -> F: ...


@overload
def compile(
    fn: None = None,
    *,
    backend: str | backends.CompilerFunction = ...,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    options: dict[str, Any] | None = ...,
    mode: str | None = ...,
) -> Callable[[F], F]: ...


def compile(
    fn: Any = None,
    *,
    backend: str | backends.CompilerFunction = "eager",
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: dict[str, Any] | None = None,
    mode: str | None = None,
) -> Any:
    """Compiles a function, a bound method or a module. Without `fn`, returns a decorator.

    Args:
        fn: a Python function, a bound method, a callable object or a `torch.nn.Module`. A compiled module is an
            instance of the model's class and shares its state.
        backend: a name from `stator.list_backends()`, or a callable `fn(graph_module, example_inputs)`.
        fullgraph: raise `stator.Unsupported` at the first graph break, and `stator.RecompileLimitHit` if a recompile
            would exceed `stator.config.recompile_limit`.
        dynamic: None makes a size dynamic once it has changed, True all sizes from the first call, False none.
        options: for the backend, as with `torch.compile`. `"register_attributes": True` is for Stator: parameters and
            buffers become attributes of the graph module instead of inputs (see `stator.config.register_attributes`).
        mode: for the backend, as with `torch.compile`.
    """
    arguments: dict[str, Any] = {
        "backend": backend,
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "options": options,
        "mode": mode,
    }
    if fn is None:
        return functools.partial(compile, **arguments)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(compile(fn.__func__, **arguments))
    options = dict(options or {})
    registers_attributes = options.pop("register_attributes", config.register_attributes)
    resolved = backends.resolve(backend, dynamic=dynamic, options=options or None, mode=mode)
    engine_options = {
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "registers_attributes": registers_attributes,
        "arguments": arguments,  # copies are compiled again with them
    }

    def compile_call(function: Callable[..., Any]) -> Any:
        compiled = _compiled_class()(function, resolved, engine_options)
        # `torch.compiler.disable` and `torch.compile` find the original by these two: the outermost compiler wins.
        compiled._torchdynamo_orig_callable = function
        compiled._torchdynamo_wrapper_id = id(compiled)
        return compiled

    original = original_of(fn)
    if isinstance(original, nn.Module):
        return modules.compile_module(original, compile_call, arguments)
    engine_options["given"] = original
    return compile_call(_python_function(original))


@functools.cache
def _compiled_class() -> Any:
    compiled_class = engine().Compiled

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        """For explicit calls of `__call__`, and for torch._dynamo, which traces it. Calling the object runs C code."""
        if torch.compiler.is_dynamo_compiling():
            return self._stator_callable(*args, **kwargs)
        return self(*args, **kwargs)

    engine().show_call(compiled_class, __call__)
    return compiled_class


def reset() -> None:
    """Drops all captures. The next call of each compiled function captures again.

    Can be called at any time and in any thread: running calls and captures finish with the entries that they use.
    """
    engine().reset()
    notes.forget()


def original_of(fn: Any) -> Any:
    """The callable that `stator.compile`, `torch.compile` or `torch.compiler.disable` wrapped, or `fn` itself."""
    while True:
        if isinstance(fn, modules.CompiledModule):
            fn = fn._stator_original
        # functools.wraps copies these attributes to other wrappers, whose id then differs.
        elif type(fn) is MethodType and _is_wrapper(fn.__func__):
            function: Any = fn.__func__
            fn = MethodType(function._torchdynamo_orig_callable, fn.__self__)
        elif not _is_wrapper(fn):
            return fn
        elif isinstance(fn, nn.Module):
            fn = fn._orig_mod
        else:
            fn = fn._torchdynamo_orig_callable


def _is_wrapper(fn: Any) -> bool:
    # Does not call a `__getattr__` of the model, which may have side effects.
    name = "_torchdynamo_wrapper_id"
    return (vars(fn).get(name) if isinstance(fn, nn.Module) else getattr(fn, name, None)) == id(fn)


def _python_function(fn: Any) -> Callable[..., Any]:
    """A Python function, or a bound method of one, that calls `fn`: the engine only enters Python frames."""
    function = fn.__func__ if type(fn) is MethodType else fn
    if type(function) is FunctionType:
        return fn
    if inspect.isclass(fn):
        raise TypeError(
            f"stator.compile takes functions, methods and modules, and {fn.__qualname__} is a class: "
            "compile an instance of it, or the methods that should run compiled."
        )
    if not callable(fn):
        raise TypeError(f"stator.compile takes functions, methods and modules, not {fn!r}.")
    call = inspect.getattr_static(type(fn), "__call__")
    if isinstance(call, FunctionType):
        return MethodType(call, fn)

    # C functions and partials have no Python frame: a function around them has.
    @functools.wraps(fn, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return called
