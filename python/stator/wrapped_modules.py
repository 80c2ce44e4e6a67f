"""The module that `torch.compile(model)` returns under `stator.install()`: a `torch._dynamo.OptimizedModule`.

Libraries test for that class, strip the prefix `_orig_mod.` from a `state_dict` or read `_orig_mod`. So the class is a
subclass of torch's, and all of it is torch's but the call: without hooks on the wrapper itself, the engine calls the
compiled `__call__` of the model directly.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from torch import nn

from stator._engine import engine

_PREFIX = "_orig_mod."


def wrap(model: nn.Module, context: Any) -> Any:
    """The compiled module of `model`. `context` is the `OptimizeContext` that compiles its call."""
    wrapper = _wrapper_class()(model, context)
    wrapper._torchdynamo_orig_callable = model.forward
    wrapper._torchdynamo_wrapper_id = id(wrapper)
    wrapper.get_compiler_config = lambda: context.compiler_config
    return wrapper


@cache
def _wrapper_class() -> Any:
    from torch._dynamo.eval_frame import OptimizedModule as Torchs

    class OptimizedModule(Torchs):
        _stator_wrapper = True  # read by the engine, which inlines it

        def _initialize(self) -> None:
            self.forward = self.dynamo_ctx(self._orig_mod.__call__)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """For tracers, and for calls with hooks on the wrapper. Other calls run C code."""
            if has_hooks(self):
                return super().__call__(*args, **kwargs)
            return self.forward(*args, **kwargs)

        def __reduce__(self) -> Any:
            # Loads where Stator is not installed, too.
            return Torchs, (self._orig_mod, self.dynamo_ctx)

        def __deepcopy__(self, memo: dict[int, Any]) -> Any:
            return wrap(copy.deepcopy(self._orig_mod, memo), self.dynamo_ctx)

        def __copy__(self) -> Any:
            return wrap(copy.copy(self._orig_mod), self.dynamo_ctx)

        def __bool__(self) -> bool:
            return bool(self._orig_mod)

        def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
            """Takes the keys of the model without `_orig_mod.`, too."""
            return super().load_state_dict(renamed(state_dict, add_prefix), *args, **kwargs)

        def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
            """The same inside of a model that is not compiled."""
            add_prefix(state_dict, prefix)
            super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    OptimizedModule.__module__ = "stator.wrapped_modules"
    OptimizedModule.__qualname__ = OptimizedModule.__name__
    engine().set_wrapper_slots(OptimizedModule)
    return OptimizedModule


def has_hooks(wrapper: Any) -> bool:
    """Whether hooks run around the call: those of the wrapper itself, or those for all modules."""
    own = wrapper.__dict__
    return bool(
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or nn.modules.module._has_any_global_hook()
    )


def renamed(state_dict: Any, rename: Callable[[Any, str], None]) -> Any:
    """A copy with other keys, together with the versions that PyTorch keeps beside a `state_dict`."""
    if not isinstance(state_dict, Mapping):
        return state_dict
    copied: Any = OrderedDict(state_dict)
    rename(copied, "")
    versions = getattr(state_dict, "_metadata", None)
    if versions is not None:
        # They have the paths of modules as keys, without a dot at the end.
        dotted = OrderedDict((f"{path}.", version) for path, version in versions.items() if path)
        rename(dotted, "")
        copied._metadata = OrderedDict((path[:-1], version) for path, version in dotted.items())
        copied._metadata.setdefault("", versions.get("", {}))
    return copied


def add_prefix(state_dict: Any, prefix: str) -> None:
    """Renames in place: the keys below `prefix` get `_orig_mod.`, unless they have it."""
    own = [key for key in state_dict if key.startswith(prefix) and not key.startswith(prefix + _PREFIX)]
    for key in own:
        state_dict[prefix + _PREFIX + key[len(prefix) :]] = state_dict.pop(key)


def remove_prefix(state_dict: Any, prefix: str) -> None:
    """Renames in place: the keys below `prefix` lose `_orig_mod.`."""
    wrapped = [key for key in state_dict if key.startswith(prefix + _PREFIX)]
    for key in wrapped:
        state_dict[prefix + key[len(prefix + _PREFIX) :]] = state_dict.pop(key)


def __getattr__(name: str) -> Any:
    if name != "OptimizedModule":
        raise AttributeError(f"module 'stator.wrapped_modules' has no attribute {name!r}")
    return _wrapper_class()
