"""Values as Python text: statements that make the arguments of a call again, for reproduction files.

Small tensors are written with their data, larger ones by shape and seed. An object of the program's classes is written
as its attributes, without calling `__init__`; a module of torch.nn as its constructor if that makes an equal one. The
same object has the same variable in every description, so that a later call changes it instead of making another one.
"""

from __future__ import annotations

import collections
import enum
import itertools
import types
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

# Larger tensors are written by shape and seed.
MOST_ELEMENTS = 64

_CONSTANTS = (type(None), bool, int, str, bytes, complex)


@dataclass
class Thing:
    """A mutable object: the expression that makes it, and what is assigned to its attributes."""

    kind: str  # "list", "dict", "set", "deque", "object", "module" or "tensor"
    expression: str
    attributes: dict[str, str] = field(default_factory=dict)

    def made(self, name: str) -> list[str]:
        return [f"{name} = {self.expression}", *(self._assigned(name, *one) for one in self.attributes.items())]

    def _assigned(self, name: str, attribute: str, value: str) -> str:
        if attribute.startswith("buffer "):
            return f"{name}.register_buffer({attribute.removeprefix('buffer ')!r}, {value})"
        return f"{name}.{attribute} = {value}"

    def changed(self, name: str, before: Thing) -> list[str]:
        """Statements that make this of what it was before."""
        if self == before:
            return []
        if self.kind != before.kind or self.kind == "tensor":
            return self.made(name)
        lines = []
        if self.expression != before.expression:
            if self.kind == "list":
                lines.append(f"{name}[:] = {self.expression}")
            elif self.kind in ("dict", "set"):
                lines += [f"{name}.clear()", f"{name}.update({self.expression})"]
            else:
                return self.made(name)
        for attribute, value in self.attributes.items():
            if before.attributes.get(attribute) != value:
                plain = attribute.removeprefix("buffer ")
                lines.append(f"{name}.{plain} = {value}")
        return lines + [f"del {name}.{one}" for one in before.attributes if one not in self.attributes]


class Names:
    """Variables of objects, by their identity; and what they are called in the program, where that is code."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._names: dict[int, str] = {}
        self._alive: list[Any] = []

    def of(self, value: Any) -> str:
        if id(value) not in self._names:
            self._names[id(value)] = f"v{next(self._numbers)}"
        return self._names[id(value)]


@dataclass
class Description:
    """The objects of a call in the order in which they can be made."""

    things: dict[str, Thing] = field(default_factory=dict)
    code: dict[int, Any] = field(default_factory=dict)  # functions, classes and modules that the text names

    def lines(self, before: Description | None = None) -> list[str]:
        found: list[str] = []
        for name, thing in self.things.items():
            earlier = None if before is None else before.things.get(name)
            found += thing.made(name) if earlier is None else thing.changed(name, earlier)
        return found


class Writer:
    """Describes values; `code_name` gives the expression for a function, class or module."""

    def __init__(self, names: Names, tensors: list[torch.Tensor], code_name: Any) -> None:
        self.names, self.code_name = names, code_name
        self.description = Description()
        self._open: set[int] = set()
        counts = collections.Counter(_storage(one) for one in tensors if type(one) is torch.Tensor)
        self._shared = {storage for storage, count in counts.items() if count > 1 and storage is not None}

    def expression(self, value: Any) -> str:
        if isinstance(value, float):
            return f"float({str(value)!r})" if value != value or value in (float("inf"), -float("inf")) else repr(value)
        if type(value) in _CONSTANTS or isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
            return repr(value)
        if isinstance(value, torch.device):
            return f"torch.device({str(value)!r})"
        if isinstance(value, torch.Size):
            return f"torch.Size({list(value)!r})"
        if isinstance(value, (range, slice)):
            return repr(value)
        if isinstance(value, enum.Enum):
            return f"{self.code_name(type(value))}.{value.name}"
        if isinstance(value, (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType)):
            return self.code_name(value)
        if isinstance(value, types.MethodType):
            return f"{self.expression(value.__self__)}.{value.__name__}"
        if isinstance(value, tuple):
            return self._tuple(value)
        if isinstance(value, frozenset):
            return f"frozenset({self.expression(set(value))})"
        return self._thing(value)

    def _tuple(self, value: tuple[Any, ...]) -> str:
        items = [self.expression(one) for one in value]
        if hasattr(value, "_fields"):
            return f"{self.code_name(type(value))}({', '.join(items)})"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"

    def _thing(self, value: Any) -> str:
        name = self.names.of(value)
        if name in self.description.things:
            return name
        if id(value) in self._open:
            return name  # it contains itself; the program would need an assignment later
        self._open.add(id(value))
        thing = self._described(value)
        self._open.discard(id(value))
        if thing is None:
            return "None"
        self.description.things[name] = thing
        return name

    def _described(self, value: Any) -> Thing | None:
        if isinstance(value, torch.Tensor):
            return Thing("tensor", self._tensor(value))
        if type(value) is list:
            return Thing("list", f"[{', '.join(map(self.expression, value))}]")
        if type(value) is dict:
            items = (f"{self.expression(key)}: {self.expression(one)}" for key, one in value.items())
            return Thing("dict", "{" + ", ".join(items) + "}")
        if type(value) is set:
            elements = ", ".join(sorted(map(self.expression, value)))
            return Thing("set", "{" + elements + "}" if value else "set()")
        if isinstance(value, collections.deque):
            return Thing("deque", f"collections.deque([{', '.join(map(self.expression, value))}], {value.maxlen})")
        if isinstance(value, collections.OrderedDict) and type(value) is collections.OrderedDict:
            return Thing("dict", f"collections.OrderedDict({self.expression(dict(value))})")
        if isinstance(value, nn.Module):
            return self._module(value)
        if isinstance(getattr(value, "__dict__", None), dict):
            cls = self.code_name(type(value))
            return Thing("object", f"object.__new__({cls})", {k: self.expression(v) for k, v in vars(value).items()})
        return None

    # ---- modules ---
    def _module(self, module: nn.Module) -> Thing:
        if type(module) in (nn.Sequential, nn.ModuleList) and _is_plain(module):
            inner = [self.expression(one) for one in module.children()]
            given = ", ".join(inner) if type(module) is nn.Sequential else f"[{', '.join(inner)}]"
            return Thing("module", f"torch.nn.{type(module).__name__}({given})", self._mode(module))
        if _is_made_by_repr(module):
            return Thing("module", f"torch.nn.{module!r}", self._mode(module))
        attributes: dict[str, str] = {}
        bare = vars(nn.Module())
        for name, one in vars(module).items():
            if name in ("_parameters", "_modules"):
                attributes |= {key: self.expression(inner) for key, inner in one.items()}
            elif name == "_buffers":
                attributes |= {f"buffer {key}": self.expression(inner) for key, inner in one.items()}
            elif name not in bare or (isinstance(one, bool) and one != bare[name]):
                attributes[name] = self.expression(one)
        return Thing("module", f"reproductions.bare({self.code_name(type(module))})", attributes)

    def _mode(self, module: nn.Module) -> dict[str, str]:
        return {} if module.training else {"training": "False"}

    # ---- tensors ---
    def _tensor(self, tensor: torch.Tensor) -> str:
        if (storage := _storage(tensor)) in self._shared and type(tensor) is torch.Tensor:
            text = self._view(tensor, storage)
        else:
            text = _contents(tensor)
        if isinstance(tensor, nn.Parameter):
            return f"torch.nn.Parameter({text}, {tensor.requires_grad})"
        if tensor.requires_grad:
            text += ".requires_grad_()" + ("" if tensor.is_leaf else ".clone()")
        return text

    def _view(self, tensor: torch.Tensor, storage: Any) -> str:
        """Tensors that share memory are views of one that is the memory."""
        base = f"memory_{sorted(self._shared).index(storage) + 1}"
        if base not in self.description.things:
            with torch.no_grad():
                flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
                flat.set_(tensor.detach().untyped_storage())  # type: ignore[call-overload]
            self.description.things[base] = Thing("tensor", _contents(flat))
        return f"{base}.as_strided({tuple(tensor.shape)}, {tensor.stride()}, {tensor.storage_offset()})"


def _storage(tensor: torch.Tensor) -> int | None:
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        return None
    return tensor.untyped_storage()._cdata


def _contents(tensor: torch.Tensor) -> str:
    shape, dtype = tuple(tensor.shape), tensor.dtype
    device = "" if tensor.device.type == "cpu" else f", device={str(tensor.device)!r}"
    tensor = tensor.detach()
    if 0 < tensor.numel() <= MOST_ELEMENTS and tensor.device.type != "meta":
        data = repr(tensor.to_dense().tolist()).replace("nan", "float('nan')").replace("inf", "float('inf')")
        text = f"torch.tensor({data}, dtype={dtype}{device})"
    elif dtype.is_floating_point or dtype.is_complex:
        text = (
            f"torch.randn({shape}, dtype={dtype}{device})" if dtype.itemsize > 1 else f"torch.ones({shape}).to({dtype})"
        )
    elif dtype is torch.bool or not tensor.numel() or tensor.device.type == "meta":
        text = f"torch.ones({shape}, dtype={dtype}{device})"
    else:
        low, high = int(tensor.min()), int(tensor.max())
        text = f"torch.randint({low}, {high + 1}, {shape}, dtype={dtype}{device})"
    if tensor.layout is torch.strided and not tensor.is_contiguous():
        text = f"torch.empty_strided({shape}, {tensor.stride()}, dtype={dtype}{device}).copy_({text})"
    return text


def _is_plain(module: nn.Module) -> bool:
    """Whether nothing but its children, and whether it trains, distinguishes it from a new one."""
    bare = vars(nn.Module())
    return set(vars(module)) <= set(bare) and not any(
        one for name, one in vars(module).items() if name.endswith("_hooks") and isinstance(one, dict)
    )


def _is_made_by_repr(module: nn.Module) -> bool:
    """Whether the repr of a module of torch.nn is a call that makes an equal one, but for the numbers in it."""
    if type(module).__module__.split(".")[:2] != ["torch", "nn"] or any(module.children()):
        return False
    try:
        made = eval(repr(module), dict(vars(nn)))
    except Exception:
        return False
    return type(made) is type(module) and _facts(made) == _facts(module)


def _facts(module: nn.Module) -> dict[str, Any]:
    facts: dict[str, Any] = {
        name: one for name, one in vars(module).items() if isinstance(one, (bool, int, float, str, tuple))
    }
    facts.pop("training")
    tensors = {**module._parameters, **module._buffers}
    facts |= {name: None if one is None else (one.shape, one.dtype) for name, one in tensors.items()}
    hooks = {name: len(one) for name, one in vars(module).items() if name.endswith("_hooks") and isinstance(one, dict)}
    return facts | hooks
