"""Compares two worlds: values of any kind, with their types, order, identity and aliasing.

Two runs of a program build their inputs separately, so no object of one run is the other's. What must agree is the
shape of the whole: where one run returns its first argument itself, so must the other; where two results are one list
here, they are one list there; where two tensors share memory here, they share it there.
"""

import collections
import contextvars
import enum
import functools
import inspect
import math
import types
import warnings
import weakref
from typing import Any

import numpy as np
import torch

ATOMS = (
    int, float, complex, str, bytes, bool, type(None), type(Ellipsis), type(NotImplemented), range,
    torch.dtype, torch.device, torch.layout, torch.memory_format, types.CodeType, types.BuiltinFunctionType,
    types.ModuleType, types.WrapperDescriptorType, types.MethodDescriptorType, types.MethodWrapperType,
    types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip

# Of these one object is like itself, and which object stands for it in the other world is not looked at.
INDISTINCT = frozenset(ATOMS)
PLAIN_KEYS = {str, int}

SKIPPED_CLASS_ATTRIBUTES = {
    "__dict__", "__weakref__", "__abstractmethods__", "_abc_impl", "__doc__", "__module__", "_autograd_function_id",
    "__slotnames__",  # a cache of `copyreg`
}  # fmt: skip


class Difference(AssertionError):
    """Two worlds that should agree do not; the text names the place and both values."""


def short(value: object) -> str:
    """A value for a message, never raising and never long."""
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) < 300 else text[:300] + " …"


def fact_of(tensor: torch.Tensor, name: str) -> Any:
    """A view that autograd no longer tracks raises instead."""
    try:
        return getattr(tensor, name)
    except RuntimeError as error:
        return str(error)


class Comparison:
    """One comparison of an expected with an actual world; it remembers which object stands for which."""

    def __init__(self, tolerance: float | None = None) -> None:
        self.tolerance = tolerance
        self.twin: dict[int, int] = {}
        self.twin_back: dict[int, int] = {}
        self.storage: dict[int, int] = {}
        self.storage_back: dict[int, int] = {}
        self.arrays: list[tuple[np.ndarray, np.ndarray]] = []
        self.alive: list[Any] = []

    def same(self, expected: Any, actual: Any, path: str) -> None:
        """Raises Difference unless both values are alike, taken together with all that was compared before."""
        if expected is actual and type(expected) in INDISTINCT:
            return None
        if isinstance(expected, type):
            return self._same_class(expected, actual, path)
        self._same_type(expected, actual, path)
        if isinstance(expected, np.generic) and expected.dtype.kind in "biufc":
            return self._same_numbers(np.asarray(expected), np.asarray(actual), path)
        if isinstance(expected, ATOMS):
            return self._same_atom(expected, actual, path)
        if isinstance(expected, enum.Enum):
            return self._require(expected.name == actual.name, "enum member", expected, actual, path)
        if isinstance(expected, tuple):
            return self._same_sequence(expected, actual, path)
        if isinstance(expected, types.MethodType):
            self.same(expected.__func__, actual.__func__, path + ".__func__")
            return self.same(expected.__self__, actual.__self__, path + ".__self__")
        if isinstance(expected, slice):
            return self.same(
                (expected.start, expected.stop, expected.step), (actual.start, actual.stop, actual.step), path
            )
        if self._seen(expected, actual, path):
            return None
        return self._same_object(expected, actual, path)

    def _require(self, agree: bool, what: str, expected: Any, actual: Any, path: str) -> None:
        if not agree:
            raise Difference(f"{path}: {what} differs\n  expected {short(expected)}\n  actual   {short(actual)}")

    def _same_type(self, expected: Any, actual: Any, path: str) -> None:
        want, got = type(expected), type(actual)
        named_alike = (want.__module__, want.__qualname__) == (got.__module__, got.__qualname__)
        self._require(
            want is got or named_alike, f"type ({want.__name__} against {got.__name__})", expected, actual, path
        )

    def _same_atom(self, expected: Any, actual: Any, path: str) -> None:
        if isinstance(expected, float):
            alike = (math.isnan(expected) and math.isnan(actual)) or (
                expected == actual and math.copysign(1, expected) == math.copysign(1, actual)
            )
            if self.tolerance is not None and not alike:
                alike = math.isclose(expected, actual, rel_tol=self.tolerance, abs_tol=self.tolerance)
        elif isinstance(expected, complex):
            alike = repr(expected) == repr(actual)
        elif isinstance(expected, types.BuiltinFunctionType):
            alike = expected.__name__ == actual.__name__
            if alike and not isinstance(expected.__self__, (types.ModuleType, type(None))):
                return self.same(expected.__self__, actual.__self__, path + ".__self__")
        elif isinstance(expected, types.ModuleType) and expected is not actual and expected.__spec__ is None:
            return self.same(attributes(expected), attributes(actual), path + ".__dict__")
        elif isinstance(expected, (types.GetSetDescriptorType, types.MemberDescriptorType)):
            alike = expected.__name__ == actual.__name__
        else:
            alike = expected == actual
        return self._require(bool(alike), "value", expected, actual, path)

    def _seen(self, expected: Any, actual: Any, path: str) -> bool:
        """Pairs the two objects for good; True when this pair was compared before or is one shared object."""
        known = self.twin.get(id(expected))
        if known is not None or id(actual) in self.twin_back:
            agree = known == id(actual) and self.twin_back.get(id(actual)) == id(expected)
            self._require(agree, "identity (one object in one world, two in the other)", expected, actual, path)
            return True
        self.twin[id(expected)] = id(actual)
        self.twin_back[id(actual)] = id(expected)
        self.alive.append((expected, actual))
        if expected is actual and isinstance(expected, torch.Tensor) and expected.layout is torch.strided:
            self._same_storage(expected, actual, path)
        return expected is actual

    def _same_object(self, expected: Any, actual: Any, path: str) -> None:
        if isinstance(expected, torch.Tensor):
            self._same_tensor(expected, actual, path)
        elif type(expected) is np.ndarray and expected.dtype.kind in "biufc":
            self._same_array(expected, actual, path)
        elif isinstance(expected, (list, collections.deque)):
            self._same_sequence(expected, actual, path)
            if isinstance(expected, collections.deque):
                self.same(expected.maxlen, actual.maxlen, path + ".maxlen")
        elif isinstance(expected, (dict, types.MappingProxyType)):
            self._same_dict(expected, actual, path)
        elif isinstance(expected, (set, frozenset)):
            self._same_set(expected, actual, path)
        elif isinstance(expected, (type({}.keys()), type({}.values()), type({}.items()))):
            self._same_sequence(list(expected), list(actual), path)
        elif isinstance(expected, types.FunctionType):
            self._same_function(expected, actual, path)
        elif isinstance(expected, functools.partial):
            parts = ("func", "args", "keywords")
            for part in parts:
                self.same(getattr(expected, part), getattr(actual, part), f"{path}.{part}")
        elif isinstance(expected, types.GeneratorType):
            self._same_generator(expected, actual, path)
        elif isinstance(expected, BaseException):
            self.same(expected.args, actual.args, path + ".args")
            self._same_attributes(expected, actual, path)
        elif isinstance(expected, types.CellType):
            self.same(cell_content(expected), cell_content(actual), path + ".cell_contents")
        elif isinstance(expected, (property, staticmethod, classmethod, functools.cached_property)):
            self._same_descriptor(expected, actual, path)
        elif isinstance(expected, contextvars.ContextVar):
            self.same(expected.get(None), actual.get(None), path + ".get()")
        elif isinstance(expected, weakref.ref):
            self.same(expected(), actual(), path + "()")
        elif isinstance(expected, functools._lru_cache_wrapper):
            # The cached results, not the number of hits: a graph that relies on a cached result does not call the function.
            self.same(expected.cache_info()[2:], actual.cache_info()[2:], path + ".cache_info()[2:]")
        elif isinstance(expected, (bytearray, memoryview)):
            self._require(bytes(expected) == bytes(actual), "bytes", expected, actual, path)
        elif isinstance(expected, collections.abc.Iterator) and "__reduce__" in type(expected).__dict__:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                self.same(expected.__reduce__()[1:], actual.__reduce__()[1:], path + ".__reduce__()")
        else:
            self._same_attributes(expected, actual, path)
        if isinstance(expected, (list, dict, set)) and hasattr(expected, "__dict__"):
            self._same_attributes(expected, actual, path)

    def _same_sequence(self, expected: Any, actual: Any, path: str) -> None:
        self._require(
            len(expected) == len(actual), f"length ({len(expected)} against {len(actual)})", expected, actual, path
        )
        for index, (one, other) in enumerate(zip(tuple(expected), tuple(actual))):
            if one is not other or type(one) not in INDISTINCT:
                self.same(one, other, f"{path}[{index}]")

    def _same_dict(self, expected: Any, actual: Any, path: str) -> None:
        if "_hooks" in path.rsplit("[", 1)[-1]:
            # The keys of hooks come from a counter that both worlds share.
            return self._same_sequence(list(expected.values()), list(actual.values()), path + ".values()")
        keys, others = list(expected), list(actual)
        if PLAIN_KEYS.issuperset(map(type, keys)) and PLAIN_KEYS.issuperset(map(type, others)):
            if keys != others:
                gone, extra = [k for k in keys if k not in actual], [k for k in others if k not in expected]
                self._require(not gone and not extra, f"keys (missing {gone}, added {extra})", expected, actual, path)
                self._require(False, "order of keys", keys, others, path)
        else:
            self._same_sequence(keys, others, path + ".keys()")
        for key, one, other in zip(keys, list(expected.values()), list(actual.values())):
            if one is not other or type(one) not in INDISTINCT:
                self.same(one, other, f"{path}[{short(key)}]")
        if isinstance(expected, collections.defaultdict):
            self.same(expected.default_factory, actual.default_factory, path + ".default_factory")
        return None

    def _same_set(self, expected: Any, actual: Any, path: str) -> None:
        self._require(len(expected) == len(actual), "length", expected, actual, path)
        plain = {one for one in expected if isinstance(one, (*ATOMS, tuple))}
        others = {one for one in actual if isinstance(one, (*ATOMS, tuple))}
        self._require(plain == others, "elements", expected, actual, path)
        kinds = [sorted(type(one).__name__ for one in world) for world in (expected, actual)]
        self._require(kinds[0] == kinds[1], "types of elements", expected, actual, path)

    def _same_function(self, expected: Any, actual: Any, path: str) -> None:
        self.same(expected.__code__, actual.__code__, path + ".__code__")
        for part in ("__name__", "__qualname__", "__defaults__", "__kwdefaults__", "__dict__"):
            self.same(getattr(expected, part), getattr(actual, part), f"{path}.{part}")
        for index, (one, other) in enumerate(zip(expected.__closure__ or (), actual.__closure__ or ())):
            self.same(one, other, f"{path}.__closure__[{index}]")

    def _same_generator(self, expected: Any, actual: Any, path: str) -> None:
        self.same(expected.gi_code, actual.gi_code, path + ".gi_code")
        frames = expected.gi_frame, actual.gi_frame
        self._require((frames[0] is None) == (frames[1] is None), "whether it ended", expected, actual, path)
        if frames[0] is not None:
            self.same(frames[0].f_lineno, frames[1].f_lineno, path + ".gi_frame.f_lineno")
            self.same(dict(frames[0].f_locals), dict(frames[1].f_locals), path + ".gi_frame.f_locals")

    def _same_descriptor(self, expected: Any, actual: Any, path: str) -> None:
        parts = ("fget", "fset", "fdel") if isinstance(expected, property) else ("__func__", "func")
        for part in parts:
            self.same(getattr(expected, part, None), getattr(actual, part, None), f"{path}.{part}")

    def _same_class(self, expected: type, actual: Any, path: str) -> None:
        if expected is actual:
            return
        self._require(isinstance(actual, type), "being a class", expected, actual, path)
        self._require(expected.__qualname__ == actual.__qualname__, "class", expected, actual, path)
        self._require(expected.__module__ == actual.__module__, "class", expected, actual, path)
        if self._seen(expected, actual, path):
            return
        attributes = [
            {name: value for name, value in vars(one).items() if name not in SKIPPED_CLASS_ATTRIBUTES}
            for one in (expected, actual)
        ]
        if not issubclass(expected, enum.Enum):
            self.same(attributes[0], attributes[1], path)

    def _same_attributes(self, expected: Any, actual: Any, path: str) -> None:
        found = False
        if hasattr(expected, "__dict__"):
            found = True
            self.same(attributes(expected), attributes(actual), path + ".__dict__")
        for cls in type(expected).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if slot in ("__dict__", "__weakref__"):
                    continue
                found = True
                name = (
                    f"_{cls.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
                )
                self.same(slot_content(expected, name), slot_content(actual, name), f"{path}.{slot}")
        if not found:
            self._require(expected == actual or repr(expected) == repr(actual) or type(expected) is object,
                          "value", expected, actual, path)  # fmt: skip

    def _same_tensor(self, expected: torch.Tensor, actual: torch.Tensor, path: str) -> None:
        if torch.nn.parameter.is_lazy(expected) or torch.nn.parameter.is_lazy(actual):
            self._require(type(expected) is type(actual), "being initialised", type(expected), type(actual), path)
            return
        facts = ("dtype", "device", "shape", "layout", "requires_grad", "is_leaf")
        for fact in facts:
            one, other = fact_of(expected, fact), fact_of(actual, fact)
            self._require(one == other, fact, one, other, path)
        self._require(expected.is_inference() == actual.is_inference(), "is_inference()", expected, actual, path)
        if expected.layout is torch.strided:
            self.same(expected.stride(), actual.stride(), path + ".stride()")
            self.same(expected.storage_offset(), actual.storage_offset(), path + ".storage_offset()")
            self._same_storage(expected, actual, path)
        if expected.device.type != "meta":
            self._same_elements(expected, actual, path)
        if fact_of(expected, "is_leaf") is True and not self._is_no_gradient(expected.grad, actual.grad):
            self.same(expected.grad, actual.grad, path + ".grad")
        if attributes(expected) or attributes(actual):
            self.same(attributes(expected), attributes(actual), path + ".__dict__")

    def _is_no_gradient(self, expected: torch.Tensor | None, actual: torch.Tensor | None) -> bool:
        """aot_autograd gives zeros to what no result depends on."""
        return self.tolerance is not None and expected is None and actual is not None and not actual.any()

    def _same_elements(self, expected: torch.Tensor, actual: torch.Tensor, path: str) -> None:
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass():
            one, other = expected.detach().to_dense(), actual.detach().to_dense()
            if one.dim() > 64:  # which no kernel takes that compares element by element
                one, other = one.reshape(-1), other.reshape(-1)
            if one.dtype is torch.bool:
                alike = torch.equal(one, other)
            else:
                bound = self.tolerance or 0.0
                alike = torch.allclose(one, other, rtol=bound, atol=bound, equal_nan=True)
        self._require(alike, "values", expected, actual, path)

    def _same_array(self, expected: np.ndarray, actual: np.ndarray, path: str) -> None:
        self._require(expected.shape == actual.shape, "shape", expected.shape, actual.shape, path)
        one, other = ([s for n, s in zip(a.shape, a.strides, strict=True) if n > 1] for a in (expected, actual))
        self._require(not expected.size or one == other, "strides", expected.strides, actual.strides, path)
        self._require(expected.flags.writeable == actual.flags.writeable, "being writeable", expected, actual, path)
        self._same_numbers(expected, actual, path)
        for before, after in self.arrays:
            agree = np.may_share_memory(before, expected) == np.may_share_memory(after, actual)
            self._require(agree, "sharing of memory with another array", expected, actual, path)
        self.arrays.append((expected, actual))

    def _same_numbers(self, expected: np.ndarray, actual: np.ndarray, path: str) -> None:
        """The last bits of numpy's results differ from PyTorch's."""
        self._require(expected.dtype == actual.dtype, "dtype", expected, actual, path)
        bound = self.tolerance or (2e-3 if expected.dtype == np.float16 else 1e-6)
        alike = np.allclose(expected, actual, rtol=bound, atol=bound, equal_nan=True)
        self._require(bool(alike), "values", expected, actual, path)

    def _same_storage(self, expected: torch.Tensor, actual: torch.Tensor, path: str) -> None:
        try:
            one, other = expected.untyped_storage()._cdata, actual.untyped_storage()._cdata
        except NotImplementedError:  # a wrapper of functorch that has left its transform
            return
        self.alive.append((expected.untyped_storage(), actual.untyped_storage()))
        agree = self.storage.setdefault(one, other) == other and self.storage_back.setdefault(other, one) == one
        self._require(agree, "sharing of memory with another tensor", expected, actual, path)


def assert_same(expected: Any, actual: Any, tolerance: float | None = None) -> None:
    """Raises Difference unless two results are alike, in all that a program can observe of them."""
    Comparison(tolerance).same(expected, actual, "result")


def cell_content(cell: Any) -> Any:
    """The contents of a closure cell, or a marker for an empty one."""
    try:
        return cell.cell_contents
    except ValueError:
        return "(empty cell)"


def attributes(owner: Any) -> dict[str, Any]:
    """The instance's dictionary, without the marks that PyTorch's compilers leave on modules and tensors."""
    marks = ("_dynamo", "_is_torch_compile")
    return {name: value for name, value in vars(owner).items() if not str(name).startswith(marks)}


def slot_content(owner: Any, name: str) -> Any:
    """The contents of a slot, or a marker for an unset one."""
    return inspect.getattr_static(owner, name).__get__(owner) if hasattr(owner, name) else "(unset slot)"
