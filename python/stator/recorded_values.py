"""Values of a program as JSON and bytes, for recordings, and back.

The text holds data alone. Functions, classes and modules are named, by module and qualified name, and reading imports
them only as far as the reader allows. An object is made without calling any code of its class: `object.__new__`, then
its attributes. What has no such form is a `Missing` that describes it.
"""

from __future__ import annotations

import base64
import collections
import hashlib
import importlib
import importlib.util
import linecache
import runpy
import sys
import types
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

# Modules whose import runs no code that a recording could choose.
SAFE = frozenset({"torch", "builtins", "math", "operator", "collections", "types", "typing", "numbers", "functools"})

_PLAIN: dict[Any, str] = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset", collections.deque: "deque"}
_ITERATORS: tuple[type, ...] = type(iter([])), type(iter(())), type(iter(range(0)))
_LAYOUTS = (collections.OrderedDict, dict, list, object)
_NAMED = (torch.dtype, torch.layout, torch.memory_format)


class RecordingError(ValueError):
    """A recording that is truncated, altered, of another version, or names code that may not be imported."""


@dataclass
class Missing:
    """Replaces an object that has no form in a recording."""

    what: str


class Encoder:
    """Collects objects in a list, each once, so that what is one object stays one; tensors share their memory."""

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self.memory: list[bytes] = []
        self._numbers: dict[int, int] = {}
        self._storages: dict[int, int] = {}
        self._alive: list[Any] = []

    def encode(self, value: Any) -> Any:
        """A constant as it is, or the number of an object as {"o": number}."""
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int:
            return {"i": str(value)} if abs(value) >= 1 << 53 else value
        if type(value) is float:
            return {"f": value.hex()}
        if id(value) not in self._numbers:
            self._alive.append(value)
            self._numbers[id(value)] = len(self.objects)
            self.objects.append(None)  # its place, should it contain itself
            number = self._numbers[id(value)]
            try:
                self.objects[number] = self._object(value)
            except Exception as error:
                self.objects[number] = {"k": "missing", "what": f"{type(value).__name__}: {error}"}
        return {"o": self._numbers[id(value)]}

    def _all(self, values: Iterable[Any]) -> list[Any]:
        return [self.encode(value) for value in values]

    def _pairs(self, values: dict[Any, Any]) -> list[Any]:
        return [[self.encode(key), self.encode(value)] for key, value in values.items()]

    def _object(self, value: Any) -> dict[str, Any]:
        if type(value) in _PLAIN:
            return {"k": _PLAIN[type(value)], "items": self._all(value)}
        if type(value) in (dict, collections.OrderedDict):
            return {"k": "dict", "items": self._pairs(value), "ordered": type(value) is not dict}
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return {"k": "class", **_name(value)}
        if isinstance(value, types.ModuleType):
            return {"k": "module", "module": value.__name__}
        if isinstance(value, types.MethodType):
            return {"k": "method", "self": self.encode(value.__self__), "function": self.encode(value.__func__)}
        if isinstance(value, types.CellType):
            return {"k": "cell", "contents": self._all(_contents(value))}
        if isinstance(value, types.BuiltinFunctionType):
            return self._builtin(value)
        return self._constant(value) or self._instance(value)

    def _constant(self, value: Any) -> dict[str, Any] | None:
        if type(value) is bytes:
            return {"k": "bytes", "data": base64.b64encode(value).decode()}
        if type(value) is complex:
            return {"k": "complex", "parts": [value.real.hex(), value.imag.hex()]}
        if type(value) is torch.Size:
            return {"k": "size", "items": list(value)}
        if isinstance(value, torch.device):
            return {"k": "device", "text": str(value)}
        if isinstance(value, _NAMED):
            return {"k": "named", "text": str(value).removeprefix("torch.")}
        if isinstance(value, (slice, range)):
            parts = (value.start, value.stop, value.step)
            return {"k": type(value).__name__, "items": self._all(parts)}
        if isinstance(value, _ITERATORS):
            made: Any = value.__reduce__()
            _, (over,), *index = made
            return {"k": "iterator", "over": self.encode(over), "index": index[0] if index else 0}
        return {"k": "ellipsis"} if value is ... else None

    def _builtin(self, value: Any) -> dict[str, Any]:
        owner = value.__self__
        if owner is None or isinstance(owner, (type, types.ModuleType)) or type(owner).__module__.startswith("torch"):
            return {"k": "builtin", **_name(value)}
        return {"k": "bound", "self": self.encode(value.__self__), "name": value.__name__}

    def _tensor(self, value: torch.Tensor) -> dict[str, Any]:
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
            raise TypeError("a tensor of a subclass or of another layout")
        storage = value.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            self._storages[key] = len(self.memory)
            self._alive.append(storage)
            data = torch.empty(0, dtype=torch.uint8, device=value.device).set_(storage)  # type: ignore[call-overload]
            self.memory.append(b"" if value.is_meta else bytes(data.cpu().numpy()))
        return {
            "k": "tensor",
            "memory": self._storages[key],
            "size": storage.nbytes(),
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "offset": value.storage_offset(),
            "device": str(value.device),
            "grad": value.requires_grad,
            "leaf": value.is_leaf,
            "parameter": isinstance(value, torch.nn.Parameter),
        }

    def _function(self, value: types.FunctionType) -> dict[str, Any]:
        found: dict[str, Any] = {"k": "function", **_name(value)}
        if is_importable(value):
            return found
        names = _names(value.__code__)
        scope = {name: one for name, one in value.__globals__.items() if name in names and name != "__builtins__"}
        return found | {
            "file": value.__code__.co_filename,
            "line": value.__code__.co_firstlineno,
            "code": _digest(value.__code__),
            "globals": self._pairs(scope),
            "defaults": self.encode(value.__defaults__),
            "keywords": self.encode(value.__kwdefaults__),
            "closure": self._all(value.__closure__ or ()),
        }

    def _instance(self, value: Any) -> dict[str, Any]:
        if not isinstance(getattr(value, "__dict__", None), dict) or _layout(type(value)) is None:
            raise TypeError("an object whose state is not in attributes")
        contents = self._all(list.__iter__(value)) if isinstance(value, list) else None
        if isinstance(value, dict):
            contents = self._pairs(dict(dict.items(value)))
        attributes = self._pairs(vars(value))
        return {"k": "object", "class": self.encode(type(value)), "attributes": attributes, "contents": contents}


class Decoder:
    """Makes values of what an `Encoder` wrote. `allow` names the modules that may be imported; True allows all."""

    def __init__(self, objects: list[Any], memory: list[bytes], allow: bool | Iterable[str]) -> None:
        self._objects, self._memory = objects, memory
        self._allow = allow if isinstance(allow, bool) else frozenset(allow)
        self._made: dict[int, Any] = {}
        self._storages: dict[int, torch.Tensor] = {}
        self._scripts: dict[str, dict[str, Any]] = {}

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if "i" in value:
            return int(value["i"])
        if "f" in value:
            return float.fromhex(value["f"])
        number = value["o"]
        if number not in self._made:
            described = self._objects[number]
            make = getattr(self, f"_make_{described['k']}")
            make(number, described)
        return self._made[number]

    def _all(self, values: list[Any]) -> list[Any]:
        return [self.decode(value) for value in values]

    # ---- containers and constants ---
    def _make_list(self, number: int, found: Any) -> None:
        self._made[number] = made = []
        made += self._all(found["items"])

    def _make_dict(self, number: int, found: Any) -> None:
        made: dict[Any, Any] = collections.OrderedDict() if found["ordered"] else {}
        self._made[number] = made
        made.update((self.decode(key), self.decode(one)) for key, one in found["items"])

    def _make_tuple(self, number: int, found: Any) -> None:
        self._made[number] = tuple(self._all(found["items"]))

    def _make_set(self, number: int, found: Any) -> None:
        self._made[number] = set(self._all(found["items"]))

    def _make_frozenset(self, number: int, found: Any) -> None:
        self._made[number] = frozenset(self._all(found["items"]))

    def _make_deque(self, number: int, found: Any) -> None:
        self._made[number] = collections.deque(self._all(found["items"]))

    def _make_slice(self, number: int, found: Any) -> None:
        self._made[number] = slice(*self._all(found["items"]))

    def _make_range(self, number: int, found: Any) -> None:
        self._made[number] = range(*self._all(found["items"]))

    def _make_iterator(self, number: int, found: Any) -> None:
        over = self.decode(found["over"])
        if type(over) not in (list, tuple, range):
            raise RecordingError("an iterator over something that is no list")
        self._made[number] = made = iter(over)
        made.__setstate__(found["index"])  # type: ignore[attr-defined]

    def _make_bytes(self, number: int, found: Any) -> None:
        self._made[number] = base64.b64decode(found["data"])

    def _make_complex(self, number: int, found: Any) -> None:
        self._made[number] = complex(*map(float.fromhex, found["parts"]))

    def _make_size(self, number: int, found: Any) -> None:
        self._made[number] = torch.Size(found["items"])

    def _make_device(self, number: int, found: Any) -> None:
        self._made[number] = torch.device(found["text"])

    def _make_named(self, number: int, found: Any) -> None:
        made = getattr(torch, found["text"], None)
        if not isinstance(made, _NAMED):
            raise RecordingError(f"torch has no dtype or layout {found['text']!r}")
        self._made[number] = made

    def _make_ellipsis(self, number: int, found: Any) -> None:
        self._made[number] = ...

    def _make_missing(self, number: int, found: Any) -> None:
        self._made[number] = Missing(str(found["what"]))

    def _make_cell(self, number: int, found: Any) -> None:
        self._made[number] = cell = types.CellType()
        for contents in self._all(found["contents"]):
            cell.cell_contents = contents

    def _make_tensor(self, number: int, found: Any) -> None:
        dtype = getattr(torch, found["dtype"])
        if not isinstance(dtype, torch.dtype):
            raise RecordingError(f"torch has no dtype {found['dtype']!r}")
        index = found["memory"]
        if index not in self._storages:
            data = bytearray(self._memory[index])
            device = found["device"]
            if device.startswith("cuda") and not torch.cuda.is_available():
                raise RecordingError("it has tensors on a GPU, which this machine does not have")
            flat = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(found["size"], dtype=torch.uint8)
            self._storages[index] = flat.clone().to(device)
        made = torch.empty(0, dtype=dtype, device=found["device"])
        made.set_(self._storages[index].untyped_storage(), found["offset"], found["shape"], found["stride"])
        if found["parameter"]:
            made = torch.nn.Parameter(made, found["grad"])
        elif found["grad"]:
            with torch.enable_grad():
                made = made.requires_grad_() if found["leaf"] else made.requires_grad_().clone()
        self._made[number] = made

    # ---- code, by name ---
    def _expect_allowed(self, module: str, what: str) -> None:
        top = module.split(".")[0]
        if self._allow is True or top in SAFE or (self._allow is not False and {module, top} & set(self._allow)):
            return
        raise RecordingError(f"it names {what} of {module}: stator.replay(path, allow=[{top!r}]) imports that")

    def _imported(self, found: Any) -> Any:
        module, name = found["module"], found["name"]
        self._expect_allowed(module, name)
        try:
            value: Any = importlib.import_module(module)
            for part in name.split("."):
                value = getattr(value, part)
        except (ImportError, AttributeError) as error:
            raise RecordingError(f"{module}.{name} can't be imported: {error}") from None
        return value

    def _make_module(self, number: int, found: Any) -> None:
        self._expect_allowed(found["module"], "the module itself")
        try:
            self._made[number] = importlib.import_module(found["module"])
        except ImportError as error:
            raise RecordingError(f"{found['module']} can't be imported: {error}") from None

    def _make_class(self, number: int, found: Any) -> None:
        if found["module"] == "__main__":
            self._expect_allowed("__main__", found["name"])
            made = self._script(found).get(found["name"])
        else:
            made = self._imported(found)
        if not isinstance(made, type):
            raise RecordingError(f"{found['module']}.{found['name']} is not a class")
        self._made[number] = made

    def _script(self, found: Any) -> dict[str, Any]:
        """The names of a script, which runs again, as it does for `multiprocessing`."""
        if found["file"] not in self._scripts:
            try:
                self._scripts[found["file"]] = runpy.run_path(found["file"], run_name="__mp_main__")
            except OSError as error:
                raise RecordingError(f"the script is gone: {error}") from None
        return self._scripts[found["file"]]

    def _make_builtin(self, number: int, found: Any) -> None:
        self._made[number] = self._imported(found)

    def _make_bound(self, number: int, found: Any) -> None:
        owner = self.decode(found["self"])
        made = getattr(type(owner), found["name"], None)
        if not isinstance(made, (types.MethodDescriptorType, types.WrapperDescriptorType)):
            raise RecordingError(f"{type(owner).__name__} has no built-in method {found['name']!r}")
        self._made[number] = made.__get__(owner)

    def _make_method(self, number: int, found: Any) -> None:
        self._made[number] = types.MethodType(self.decode(found["function"]), self.decode(found["self"]))

    def _make_object(self, number: int, found: Any) -> None:
        cls = self.decode(found["class"])
        base = _layout(cls)
        if base is None:
            raise RecordingError(f"an object of {cls.__qualname__} can't be made of attributes")
        self._made[number] = made = base.__new__(cls)
        vars(made).update((self.decode(key), self.decode(one)) for key, one in found["attributes"])
        if base is list:
            list.extend(made, self._all(found["contents"]))
        elif base is not object:
            base.update(made, [(self.decode(key), self.decode(one)) for key, one in found["contents"]])

    def _make_function(self, number: int, found: Any) -> None:
        if "code" not in found:
            made = self._imported(found)
            if not isinstance(made, types.FunctionType):
                made = getattr(made, "__wrapped__", made)
            self._made[number] = made
            return
        self._expect_allowed(found["module"], found["name"])
        code = _find_code(found)
        scope = {"__builtins__": importlib.import_module("builtins"), "__name__": found["module"]}
        cells = tuple(types.CellType() for _ in found["closure"])
        self._made[number] = made = types.FunctionType(code, scope, found["name"].rpartition(".")[2], None, cells)
        made.__qualname__, made.__module__ = found["name"], found["module"]
        scope.update((self.decode(key), self.decode(one)) for key, one in found["globals"])
        made.__defaults__, made.__kwdefaults__ = self.decode(found["defaults"]), self.decode(found["keywords"])
        for mine, theirs in zip(cells, self._all(found["closure"]), strict=True):
            for contents in _contents(theirs):
                mine.cell_contents = contents


def _layout(cls: type) -> Any:
    """The class without code of the program that decides the memory layout of instances; None if `object.__new__` and
    its like can't make them."""
    is_heap_type = 1 << 9
    while cls.__flags__ & is_heap_type and cls.__base__ is not None:
        cls = cls.__base__
    return cls if cls in _LAYOUTS else None


def is_importable(value: Any) -> bool:
    """Whether another process finds this object by its name."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if module in (None, "__main__"):
        return False
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def _name(value: Any) -> dict[str, Any]:
    """Module and qualified name; and the file, if it is of the script that runs."""
    if isinstance(value, types.BuiltinFunctionType):
        return _name_of_builtin(value)
    module = value.__module__ or "builtins"
    named = {"module": module, "name": value.__qualname__}
    if module == "__main__":
        return named | {"file": getattr(sys.modules.get("__main__"), "__file__", None)}
    if isinstance(value, type) and not is_importable(value):
        for name, one in vars(types).items():  # `builtins.function` is `types.FunctionType`
            if one is value:
                return {"module": "types", "name": name}
        raise TypeError(f"{module}.{value.__qualname__} is a class that can't be imported")
    return named


def _name_of_builtin(value: Any) -> dict[str, Any]:
    owner: Any = value.__self__
    homes = [owner.__name__] if isinstance(owner, types.ModuleType) else []
    name: str = value.__name__
    for module in (*homes, value.__module__, "builtins", "torch", "torch._C._nn", "math", "operator"):
        if getattr(sys.modules.get(module or ""), name, None) is value:
            return {"module": module, "name": name}
    raise TypeError(f"the built-in function {name} has no name that can be imported")


def _names(code: types.CodeType) -> set[str]:
    inner = (constant for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*(_names(one) for one in inner))


def _digest(code: types.CodeType) -> str:
    """Of what a function does, without the name of its file."""
    inner = [_digest(one) if isinstance(one, types.CodeType) else repr(one) for one in code.co_consts]
    parts = repr((code.co_code, inner, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    return hashlib.sha256(parts.encode()).hexdigest()


def _find_code(found: dict[str, Any]) -> types.CodeType:
    """The code of a function that can't be imported, in its source file. The file is compiled, not run."""
    text = "".join(linecache.getlines(found["file"]))
    if not text:
        raise RecordingError(f"the source of {found['name']} is gone: {found['file']}")
    try:
        waiting = [compile(text, found["file"], "exec", dont_inherit=True)]
    except SyntaxError as error:
        raise RecordingError(f"the source of {found['name']} does not compile: {error}") from None
    while waiting:
        code = waiting.pop()
        if _digest(code) == found["code"] and code.co_qualname == found["name"]:
            return code
        waiting += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    raise RecordingError(f"{found['file']} has another version of {found['name']}")


def _contents(cell: types.CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:
        return ()
