"""`stator.compile` and `stator.reset`."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any, TypeVar, overload

import torch
from torch import nn

from stator import backends, modules, notes, observer, torch_versions
from stator._engine import engine
from stator.settings import config

F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(
    model: F,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | backends.CompilerFunction | None = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
    dynamic_shapes: Any = ...,
    check: str | int | None = ...,
    check_exact: bool = ...,
) -> F: ...


@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = ...,
    dynamic: bool | None = ...,
    backend: str | backends.CompilerFunction | None = ...,
    mode: str | None = ...,
    options: dict[str, Any] | None = ...,
    name: str | None = ...,
    disable: bool = ...,
    recompile_limit: int | None = ...,
    isolate_recompiles: bool = ...,
    shapes_spec: Any = ...,
    dynamic_shapes: Any = ...,
    check: str | int | None = ...,
    check_exact: bool = ...,
) -> Callable[[F], F]: ...


def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | backends.CompilerFunction | None = "stator",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
    dynamic_shapes: Any = None,
    check: str | int | None = None,
    check_exact: bool = False,
) -> Any:
    """Compiles a function, a bound method or a module. Without `model`, returns a decorator.

    Args:
        model: a Python function, a bound method, a callable object or a `torch.nn.Module`. A compiled module is an
            instance of the model's class and shares its state.
        fullgraph: raise `stator.Unsupported` at the first graph break, and `stator.RecompileLimitHit` if a recompile
            would exceed the recompile limit.
        dynamic: None makes a size dynamic once it has changed, True all sizes from the first call, False none.
        backend: a name from `stator.list_backends()`, or a callable `fn(graph_module, example_inputs)`. `"stator"` runs
            the operations of the graph as they are, without Python in between. None is the default backend of
            `torch.compile`.
        mode: for the backend, as with `torch.compile`. Raises ValueError if the backend has no modes.
        options: for the backend, as with `torch.compile`. `"register_attributes": True` is for Stator: parameters and
            buffers become attributes of the graph module instead of inputs (see `stator.config.register_attributes`).
            `"guard_filter_fn"` decides which guards are checked, as with `torch.compile`.
        name: a name of the compiled region, for the backends that show it.
        disable: return `model` as it is. So does the environment variable `TORCHDYNAMO_DISABLE=1`.
        recompile_limit: how many entries an instruction may have, in place of `stator.config.recompile_limit`.
        isolate_recompiles: what this callable captures is not used for others that are compiled alike. Every call of
            `stator.compile` counts its own recompiles in any case.
        shapes_spec: not supported: raises NotImplementedError unless it is None.
        dynamic_shapes: the same; the name of `shapes_spec` since torch 2.15.
        check: "first" runs each call that captures also uncompiled, on a copy of what it can see, and compares results,
            gradients, side effects, exceptions, printed text and random numbers; a number n does so with every n-th
            call, "always" with each. Raises `stator.Mismatch` if something differs. None checks nothing, at no cost.
        check_exact: compare floats bit for bit instead of with PyTorch's tolerances for each dtype.
    """
    arguments: dict[str, Any] = {
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "backend": backend,
        "mode": mode,
        "options": options,
        "name": name,
        "disable": disable,
        "recompile_limit": recompile_limit,
        "isolate_recompiles": isolate_recompiles,
        "shapes_spec": shapes_spec,
        "dynamic_shapes": dynamic_shapes,
        "check": check,
        "check_exact": check_exact,
    }
    if model is None:
        return functools.partial(compile, **arguments)
    if disable or os.environ.get("TORCHDYNAMO_DISABLE") == "1":
        return model
    if isinstance(model, (staticmethod, classmethod)):
        return type(model)(compile(model.__func__, **arguments))
    options = dict(options or {})
    engine_options = {
        "fullgraph": fullgraph,
        "dynamic": dynamic,
        "registers_attributes": options.pop("register_attributes", config.register_attributes),
        "recompile_limit": _checked_limit(recompile_limit),
        "guard_filter": options.pop("guard_filter_fn", None),
        "isolate_recompiles": isolate_recompiles,
    }
    refuse_shapes_of(model, shapes_spec=shapes_spec, dynamic_shapes=dynamic_shapes)
    if check is not None:
        from stator import checks

        engine_options["check"] = (checks.checked_policy(check), check_exact)
    resolved = backends.resolve(backend, dynamic=dynamic, options=options or None, mode=mode, name=name)
    return compile_with(model, resolved, engine_options, arguments)


@functools.cache
def _prepare_process() -> None:
    """Does what the first capture of a process would do, so that the first call takes as long as that of any other."""
    from stator import fake, first_trace, graph_module  # noqa: F401

    engine().build_tables()
    first_trace.trace_once()


def compile_with(
    model: Any, backend: backends.Backend, engine_options: dict[str, Any], arguments: dict[str, Any]
) -> Any:
    """Compiles with a resolved backend. `arguments` are those of `compile`, from which copies are compiled again."""
    observer.follow_environment()
    _prepare_process()
    engine_options = {**engine_options, "arguments": arguments, "resolved": backend}

    check = engine_options.pop("check", None)

    def compile_call(function: Callable[..., Any]) -> Any:
        if check is not None:
            from stator import checks

            make = functools.partial(_compiled_class(), function, backend)
            policy, exact = check
            return checks.checked(function, policy, exact, backend, engine_options, make)
        compiled = _compiled_class()(function, backend, engine_options)
        # `torch.compiler.disable` and `torch.compile` find the original by these two: the outermost compiler wins.
        compiled._torchdynamo_orig_callable = function
        compiled._torchdynamo_wrapper_id = id(compiled)
        return compiled

    original = original_of(model)
    if isinstance(original, nn.Module):
        return modules.compile_module(original, compile_call, arguments)
    engine_options["given"] = original
    return compile_call(_python_function(original))


def _checked_limit(recompile_limit: Any) -> int | None:
    if recompile_limit is not None and type(recompile_limit) is not int:
        raise TypeError(f"recompile_limit is an int or None, not {recompile_limit!r}")
    return recompile_limit


def refuse_shapes_of(model: Any, **given: Any) -> None:
    """An argument that would be ignored is an error, and so is what `dynamic_spec` has attached to the function."""
    named = [name for name, shapes in given.items() if shapes is not None]
    if torch_versions.attached_shapes(model) is not None:
        named.append("torch.fx.experimental.dynamic_spec.dynamic_spec")
    if named:
        raise NotImplementedError(
            f"{named[0]} is not supported: use dynamic=, torch._dynamo.mark_dynamic or torch._dynamo.mark_static."
        )


@functools.cache
def _compiled_class() -> Any:
    compiled_class = engine().Compiled

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        """For explicit calls of `__call__`, and for torch._dynamo, which traces it. Calling the object runs C code."""
        if torch.compiler.is_dynamo_compiling():
            return self._stator_callable(*args, **kwargs)
        return self(*args, **kwargs)

    def get_compiler_config(self: Any) -> Any:
        """The configuration of the compiler, if it has one. (`functools.wraps` does not copy what a class has.)"""
        return self._stator_options["resolved"].get_compiler_config()

    engine().show_call(compiled_class, __call__)
    compiled_class.get_compiler_config = get_compiler_config
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
    if isinstance(call, FunctionType) and not isinstance(fn, (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)):
        return MethodType(call, fn)

    # C functions and partials have no Python frame: a function around them has. That of an operator is PyTorch's own.
    @functools.wraps(fn, assigned=("__module__", "__name__", "__qualname__", "__doc__"), updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return called
