"""Compares what two runs of a program left behind: values with their types, order, identity and shared memory.

The runs had copies of their inputs, so no object of one is the other's. What has to agree is the shape of the whole: if
one run returns its first argument itself, so must the other; tensors that share memory in one, share it in the other.
"""

from __future__ import annotations

import collections
import types
from typing import Any

import torch


class Different(Exception):
    """Two values differ; the text names the place and both values."""

    def __init__(self, place: str, what: str, expected: Any, actual: Any) -> None:
        super().__init__(f"{place}: {what} differs\n  uncompiled {_short(expected)}\n  compiled   {_short(actual)}")
        self.place = place


class Comparison:
    """Remembers which object of the uncompiled run stands for which of the compiled one."""

    def __init__(self, exact: bool) -> None:
        self.exact = exact
        self.twins: dict[int, int] = {}
        self.twins_back: dict[int, int] = {}
        self.memory: dict[int, int] = {}
        self.memory_back: dict[int, int] = {}
        self.alive: list[Any] = []

    def same(self, expected: Any, actual: Any, place: str) -> None:
        """Raises Different unless both are alike, together with all that was compared before."""
        self._require(type(expected) is type(actual), place, "type", type(expected), type(actual))
        if isinstance(expected, (type(None), bool, int, str, bytes, torch.dtype, torch.device)):
            return self._require(expected == actual, place, "value", expected, actual)
        if isinstance(expected, (float, complex)):
            return self._same_number(expected, actual, place)
        if type(expected) is tuple:  # a constant one may be one object in one run and several in the other
            return self._same_items(expected, actual, place)
        if self._are_known_twins(expected, actual, place):
            return None
        if isinstance(expected, torch.Tensor):
            return self._same_tensor(expected, actual, place)
        if isinstance(expected, (list, tuple, collections.deque)):
            self._same_items(expected, actual, place)
        elif isinstance(expected, dict):
            self._same_dict(expected, actual, place)
        elif isinstance(expected, (set, frozenset)):
            self._require(len(expected) == len(actual), place, "number of elements", expected, actual)
            self._require(_plain(expected) == _plain(actual), place, "elements", expected, actual)
        elif isinstance(expected, types.MethodType):
            return self.same(expected.__self__, actual.__self__, place + ".__self__")
        return self._same_attributes(expected, actual, place)

    def _require(self, agree: Any, place: str, what: str, expected: Any, actual: Any) -> None:
        if not agree:
            raise Different(place, what, expected, actual)

    def _are_known_twins(self, expected: Any, actual: Any, place: str) -> bool:
        one, other = id(expected), id(actual)
        if one in self.twins or other in self.twins_back:
            agree = self.twins.get(one) == other and self.twins_back.get(other) == one
            self._require(agree, place, "identity (one object in one run, two in the other)", expected, actual)
            return True
        self.twins[one], self.twins_back[other] = other, one
        self.alive.append((expected, actual))
        if isinstance(expected, torch.Tensor) and expected is actual:
            self._same_memory(expected, actual, place)
        return expected is actual

    def _same_number(self, expected: Any, actual: Any, place: str) -> None:
        one, other = torch.tensor(expected), torch.tensor(actual)
        self._require(self._are_close(one, other), place, "value", expected, actual)

    def _same_items(self, expected: Any, actual: Any, place: str) -> None:
        self._require(len(expected) == len(actual), place, "length", expected, actual)
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            self.same(one, other, f"{place}[{index}]")

    def _same_dict(self, expected: Any, actual: Any, place: str) -> None:
        if place.endswith("_hooks"):  # their keys come from a counter of the process
            return self._same_items(list(expected.values()), list(actual.values()), place + ".values()")
        self._same_items(list(expected), list(actual), place + ".keys()")
        for (key, one), other in zip(expected.items(), actual.values(), strict=True):
            self.same(one, other, f"{place}[{_short(key)}]")

    def _same_attributes(self, expected: Any, actual: Any, place: str) -> None:
        if isinstance(expected, (type, types.FunctionType, types.ModuleType, types.BuiltinFunctionType)):
            return self._require(expected is actual or repr(expected) == repr(actual), place, "value", expected, actual)
        if hasattr(expected, "__dict__"):
            names = [list(vars(one)) for one in (expected, actual)]
            self._require(names[0] == names[1], place, "attributes", *names)
            for name, one in list(vars(expected).items()):
                self.same(one, vars(actual)[name], f"{place}.{name}")
        for cls in type(expected).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if not name.startswith("__"):
                    unset = "(unset)"
                    self.same(getattr(expected, name, unset), getattr(actual, name, unset), f"{place}.{name}")
        return None

    def _same_tensor(self, expected: torch.Tensor, actual: torch.Tensor, place: str) -> None:
        for fact in ("dtype", "device", "shape", "layout", "requires_grad", "is_leaf"):
            one, other = getattr(expected, fact), getattr(actual, fact)
            self._require(one == other, place, fact, one, other)
        if expected.layout is torch.strided:
            self._require(expected.stride() == actual.stride(), place, "stride", expected.stride(), actual.stride())
            self._same_memory(expected, actual, place)
        with torch.no_grad():
            one, other = expected.detach().to_dense(), actual.detach().to_dense()
            self._require(self._are_close(one, other), place, "contents", expected, actual)
        if expected.is_leaf:
            self.same(expected.grad, actual.grad, place + ".grad")

    def _same_memory(self, expected: torch.Tensor, actual: torch.Tensor, place: str) -> None:
        storages = expected.untyped_storage(), actual.untyped_storage()
        self.alive.append(storages)
        one, other = (storage._cdata for storage in storages)
        agree = self.memory.setdefault(one, other) == other and self.memory_back.setdefault(other, one) == one
        self._require(agree, place, "sharing of memory with another tensor", expected, actual)

    def _are_close(self, one: torch.Tensor, other: torch.Tensor) -> bool:
        if one.device.type == "meta":
            return True
        if self.exact or not (one.is_floating_point() or one.is_complex()):
            return one.shape == other.shape and bool(((one == other) | (one.ne(one) & other.ne(other))).all())
        try:
            torch.testing.assert_close(other, one, equal_nan=True)  # with a tolerance for each dtype
        except AssertionError:
            return False
        return True


def _plain(values: Any) -> set[Any]:
    return {value for value in values if isinstance(value, (bool, int, float, str, bytes, type(None)))}


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:
        text = f"<{type(value).__name__} whose repr raises {type(error).__name__}>"
    return text if len(text) < 300 else text[:300] + " ..."
