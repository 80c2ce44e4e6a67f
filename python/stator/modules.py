"""A compiled module: an object of the model's own class that shares the model's state and runs it compiled.

Both objects have one `__dict__`, so parameters, buffers, hooks, `train()`, a replaced `forward` and the `state_dict`
(without any prefix) are those of the model. What Stator adds lives in slots of a subclass. Called, it runs the model's
own `__call__` with the model itself as `self`, so that hooks and side effects see what they see uncompiled.
"""

from __future__ import annotations

import copy
import weakref
from abc import ABCMeta
from collections.abc import Callable
from types import MemberDescriptorType, MethodType
from typing import Any, TypeVar

from torch import nn
from torch.nn.modules.lazy import LazyModuleMixin

from stator._engine import engine

M = TypeVar("M", bound=nn.Module)

_SLOTS = ("_stator_original", "_stator_called", "_stator_call", "_stator_arguments")


class CompiledModule:
    """First among the bases of every compiled module's class; the model's class comes second."""

    __slots__ = ()

    # The model, the `__call__` of its class, the same compiled, and the arguments it was compiled with, so that copies
    # can be compiled again.
    _stator_original: nn.Module
    _stator_called: Any
    _stator_call: Callable[..., Any]
    _stator_arguments: dict[str, Any]

    def __init_subclass__(cls) -> None:
        """Ends the chain here: a model's class that keeps a register of its subclasses is not told of this one."""

    def __copy__(self) -> CompiledModule:
        return _rebuild(copy.copy(self._stator_original), self._stator_arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        return _rebuild(copy.deepcopy(self._stator_original, memo), self._stator_arguments)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _rebuild, (self._stator_original, self._stator_arguments)


class CompiledLazyModule(CompiledModule):
    """The same for a lazy module. An object can only change between classes that get their slots from one base."""

    __slots__ = _SLOTS


def compile_module(module: M, compile_call: Callable[[MethodType], Any], arguments: dict[str, Any]) -> M:
    """The compiled twin of `module`. `compile_call` compiles its bound `__call__`, with these arguments."""
    is_lazy = isinstance(module, LazyModuleMixin) and not _forwarded_slots(type(module))
    compiled = object.__new__(_class_for(type(module), CompiledLazyModule if is_lazy else CompiledModule))
    object.__setattr__(compiled, "__dict__", module.__dict__)
    call = compile_call(MethodType(type(module).__call__, module))
    if is_lazy:
        call = _until_initialised(compiled, call)
    called = next(vars(base)["__call__"] for base in type(module).__mro__ if "__call__" in vars(base))
    for slot, value in zip(_SLOTS, (module, called, call, arguments), strict=True):
        object.__setattr__(compiled, slot, value)
    return compiled


def _rebuild(module: nn.Module, arguments: dict[str, Any]) -> Any:
    from stator.api import compile

    return compile(module, **arguments)


def _class_for(model: type[M], base: type[CompiledModule]) -> type[M]:
    # The list of subclasses is weak: a class made in a function goes when its last object goes.
    for subclass in type.__subclasses__(model):
        if subclass.__bases__[0] is base:
            return subclass
    namespace: dict[str, Any] = {
        "__slots__": () if base is CompiledLazyModule else _SLOTS,
        "__module__": model.__module__,
        "__qualname__": model.__qualname__,
        "__doc__": model.__doc__,
        **_forwarded_slots(model),
    }
    # Not through the metaclass, which may register what it makes. Only that of abc has to know of every class.
    metaclass = type(model)
    subclass = type.__new__(metaclass, model.__name__, (base, model), namespace)
    if issubclass(metaclass, ABCMeta):
        import _abc

        _abc._abc_init(subclass)
    type.__setattr__(subclass, "__call__", engine().module_call_for(subclass))
    return subclass


def _until_initialised(compiled: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """What a compiled lazy module is called by, until a call makes its model another class: then it follows."""
    twin = weakref.ref(compiled)

    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        finally:
            followed = twin()
            if followed is not None and type(followed._stator_original) is not type(followed).__bases__[1]:
                became = _class_for(type(followed._stator_original), CompiledLazyModule)
                object.__setattr__(followed, "__class__", became)
                object.__setattr__(followed, "_stator_call", call)

    return called


def _forwarded_slots(model: type) -> dict[str, property]:
    """State that the model keeps in slots is not in the shared `__dict__`: these names lead to the original's."""

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
