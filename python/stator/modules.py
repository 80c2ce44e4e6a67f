"""A compiled module: an instance of the model's class that shares the model's state and runs it compiled.

Both objects have one `__dict__`, so parameters, buffers, hooks, `train()`, a replaced `forward` and the `state_dict`
(without any prefix) are those of the model. What Stator adds is in slots of a subclass. A call runs the model's
`__call__` with the model itself as `self`, so that hooks and side effects see what they see uncompiled.

The class of the model is the class of both. It may change: parametrizations, lazy modules and FSDP assign `__class__`.
The `__class__` of the compiled module is that of the model. Assigning it changes the class of the model, and the
compiled module follows into a subclass of the new class.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import weakref
from abc import ABCMeta
from collections.abc import Callable
from types import MemberDescriptorType, MethodType, ModuleType
from typing import Any, TypeVar

import torch
from torch import nn

from stator import imports
from stator._engine import engine
from stator.wrapped_modules import remove_prefix, renamed

M = TypeVar("M", bound=nn.Module)

_SLOTS = ("_stator_original", "_stator_called", "_stator_call", "_stator_arguments", "_stator_shared")

# The descriptor that the property of CompiledModule overrides.
_CLASS: Any = object.__dict__["__class__"]


def _get_class(self: Any) -> type:
    model = _model_of(self)
    return _CLASS.__get__(self) if model is None else type(model)


def _set_class(self: Any, cls: type) -> None:
    model = _model_of(self)
    if model is None:
        _CLASS.__set__(self, cls)
    else:
        model.__class__ = _model_class(cls)
        follow(self)


class CompiledModule:
    """First among the bases of every compiled module's class; the model's class comes second."""

    __slots__ = ()
    __class__ = property(_get_class, _set_class)  # type: ignore[assignment]

    # The model; the `__call__` of its class; the same, compiled; the arguments of `stator.compile`, with which copies
    # are compiled again; and the `__dict__` that both had when they were last compared.
    _stator_original: nn.Module
    _stator_called: Any
    _stator_call: Callable[..., Any]
    _stator_arguments: dict[str, Any]
    _stator_shared: dict[str, Any]

    def __init_subclass__(cls) -> None:
        """Does not call `super()`: a class that keeps a registry of its subclasses must not see this one."""

    def __copy__(self) -> CompiledModule:
        return _rebuild(copy.copy(self._stator_original), self._stator_arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        return _rebuild(copy.deepcopy(self._stator_original, memo), self._stator_arguments)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild, (self._stator_original, self._stator_arguments)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """For explicit calls of `__call__`, and for torch._dynamo, which traces it. Calling the object runs C code."""
        if torch.compiler.is_dynamo_compiling():
            return self._stator_original(*args, **kwargs)
        return self(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """Reads attributes that are neither in the shared `__dict__` nor in the class from the model."""
        if name in _SLOTS:
            raise AttributeError(name)
        try:
            model = self._stator_original
        except AttributeError:
            # Not created by `stator.compile`. Without arguments, `super` would look up the name `__class__`.
            return super(CompiledModule, self).__getattr__(name)  # type: ignore[misc]  # noqa: UP008
        return getattr(model, name)

    @property
    def _torchdynamo_orig_callable(self) -> nn.Module:
        """`torch.compile` and `torch.compiler.disable` find the original by this and `_torchdynamo_wrapper_id`."""
        return self._stator_original

    @property
    def _torchdynamo_wrapper_id(self) -> int:
        return id(self)

    @property
    def _orig_mod(self) -> nn.Module:
        """Libraries find the model of a compiled module by this."""
        return self._stator_original

    @property
    def dynamo_ctx(self) -> Any:
        """What compiles another callable with the same arguments."""
        return functools.partial(_rebuild, arguments=self._stator_arguments)

    def get_compiler_config(self) -> Any:
        """The configuration of the backend, if it has one."""
        return self._stator_call._stator_options["resolved"].get_compiler_config()  # type: ignore[attr-defined]

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """Takes the keys of a module compiled by torch.compile, too, which begin with `_orig_mod.`."""
        of_model: Any = super(CompiledModule, self)  # noqa: UP008 - see `__getattr__`
        return of_model.load_state_dict(renamed(state_dict, remove_prefix), *args, **kwargs)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        """The same inside of a model that is not compiled."""
        remove_prefix(state_dict, prefix)
        of_model: Any = super(CompiledModule, self)  # noqa: UP008
        of_model._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def __prepare_scriptable__(self) -> nn.Module:
        """What `torch.jit.script` compiles."""
        return self._stator_original

    def _replicate_for_data_parallel(self) -> CompiledModule:
        return _rebuild(self._stator_original._replicate_for_data_parallel(), self._stator_arguments)


class CompiledModuleWithSlots(CompiledModule):
    """The same with the slots. `__class__` can only be assigned between classes that get their slots from one base. A
    model's class that has slots itself can't be a base next to this one."""

    __slots__ = _SLOTS


def compile_module(module: M, compile_call: Callable[[MethodType], Any], arguments: dict[str, Any]) -> M:
    """The compiled module of `module`. `compile_call` compiles its bound `__call__`, with these arguments."""
    compiled = object.__new__(_class_for(type(module)))
    object.__setattr__(compiled, "__dict__", module.__dict__)
    call = compile_call(MethodType(type(module).__call__, module))
    called = next(vars(base)["__call__"] for base in type(module).__mro__ if "__call__" in vars(base))
    for slot, value in zip(_SLOTS, (module, called, call, arguments, module.__dict__), strict=True):
        object.__setattr__(compiled, slot, value)
    return compiled


def follow(compiled: Any) -> None:
    """Takes over the class and the `__dict__` of the model if they have changed. The engine calls this too."""
    # Bypasses the engine's attribute lookup, which calls this function.
    model, shared, own = (
        object.__getattribute__(compiled, name) for name in ("_stator_original", "_stator_shared", "__dict__")
    )
    if model.__dict__ is not own:
        if model.__dict__ is shared:
            model.__dict__ = own  # it was assigned to the compiled module
        else:
            object.__setattr__(compiled, "__dict__", model.__dict__)
        object.__setattr__(compiled, "_stator_shared", model.__dict__)
    if type(model) is not _model_class(_CLASS.__get__(compiled)):
        # The class of objects with slots of their own can't change: `__getattr__` reads from the model.
        with contextlib.suppress(TypeError):
            _CLASS.__set__(compiled, _class_for(type(model)))


def _model_of(compiled: Any) -> nn.Module | None:
    try:
        return compiled._stator_original
    except AttributeError:
        return None  # created by calling the class: an ordinary module


def _rebuild(module: nn.Module, arguments: dict[str, Any]) -> Any:
    from stator.api import compile

    return compile(module, **arguments)


def _class_for(model: type[M]) -> type[M]:
    # The list of subclasses is weak: a class that was created in a function is freed with its last object.
    for subclass in type.__subclasses__(model):
        if subclass.__bases__[0] in (CompiledModule, CompiledModuleWithSlots):
            return subclass
    forwarded = _forwarded_slots(model)
    namespace: dict[str, Any] = {
        "__slots__": _SLOTS if forwarded else (),
        "__module__": model.__module__,
        "__qualname__": model.__qualname__,
        "__doc__": model.__doc__,
        # In the class itself, so that tools which patch nn.Module temporarily do not affect them.
        "__call__": CompiledModule.__call__,
        "__getattr__": CompiledModule.__getattr__,
        **forwarded,
    }
    # Bypasses the metaclass, which may register new classes; but ABCMeta has to know every class.
    metaclass = type(model)
    base = CompiledModule if forwarded else CompiledModuleWithSlots
    subclass = type.__new__(metaclass, model.__name__, (base, model), namespace)
    if issubclass(metaclass, ABCMeta):
        import _abc

        _abc._abc_init(subclass)
    engine().set_module_slots(subclass)
    _classes.add(subclass)
    imports.when_imported("torch._dynamo.eval_frame", _derive_from_torchs)
    return subclass


# The classes of compiled modules that do not derive from torch's class yet.
_classes: weakref.WeakSet[type] = weakref.WeakSet()


def _derive_from_torchs(eval_frame: ModuleType) -> None:
    """Makes compiled modules instances of torch's class, by which libraries recognize them."""
    for cls in list(_classes):
        engine().append_to_mro(cls, eval_frame.OptimizedModule)
        if isinstance(getattr(cls, "training", None), property) and not hasattr(cls.__bases__[1], "training"):
            type.__setattr__(cls, "training", True)  # not torch's property: what is in the `__dict__` counts
    _classes.clear()


def _model_class(cls: Any) -> type:
    """The class for the model if `cls` is assigned to its compiled module; `cls` may derive from the latter's class."""
    if not issubclass(cls, CompiledModule):
        return cls
    if cls.__bases__[0] in (CompiledModule, CompiledModuleWithSlots):
        return cls.__bases__[1]
    namespace = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    return type(cls)(cls.__name__, tuple(map(_model_class, cls.__bases__)), namespace)


def _forwarded_slots(model: type) -> dict[str, property]:
    """Properties for state that the model keeps in slots, which is not in the shared `__dict__`."""

    def forwarded(name: str) -> property:
        return property(
            lambda self: getattr(self._stator_original, name),
            lambda self, value: setattr(self._stator_original, name, value),
            lambda self: delattr(self._stator_original, name),
        )

    names = (
        name for base in model.__mro__ for name, value in vars(base).items() if type(value) is MemberDescriptorType
    )
    return {name: forwarded(name) for name in names}
