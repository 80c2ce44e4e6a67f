"""numpy functions as nodes of a graph.

A call on arrays becomes a node that calls the function of that name in `torch._numpy` on tensors, as torch._dynamo
records it. The two libraries differ in details: which results are scalars, dtypes, views and copies, errors, some
numbers. So each call is tried once, for operands of these dtypes and sizes: both are called on the same data, and
`describe` says what numpy returns, or why the call can't be captured.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
import torch._numpy as torch_numpy
from torch._dynamo.utils import (
    numpy_attr_wrapper,
    numpy_method_wrapper,
    numpy_operator_wrapper,
    numpy_to_tensor_wrapper,
)

# No trial with more elements: the call breaks the graph, unless it works element by element.
MOST_ELEMENTS = 1 << 22
# Sizes above are replaced by smaller ones where a call works element by element.
LARGE_SIZE = 64

# Kinds of operands.
ARRAY, SCALAR, TENSOR = range(3)
# Kinds of results, after those.
CONSTANT, TUPLE, LIST, NONE = range(3, 7)

# What they return for ties, or up to a sign, is not specified.
UNSPECIFIED = {"argpartition", "partition", "svd", "eig", "eigh", "qr"}
# Their data is arbitrary.
UNINITIALISED = {"empty", "empty_like"}
# Their results depend on nothing but dtypes and numbers of dimensions.
OF_METADATA = {"iscomplexobj", "isrealobj", "result_type", "can_cast", "ndim"}
# Names of methods that only Python's own result fits.
WITHOUT_NODE = {"tobytes", "tostring", "dump", "dumps", "tofile", "view", "setflags", "resize", "getfield", "byteswap"}


class Operand:
    """An array, a numpy scalar or a tensor among the arguments of a call, without its data."""

    __slots__ = ("dtype", "kind", "number", "sizes", "strides", "writeable")

    def __init__(
        self,
        number: int,
        kind: int,
        dtype: torch.dtype,
        sizes: tuple[int, ...],
        strides: tuple[int, ...],
        writeable: bool,
    ) -> None:
        self.number, self.kind, self.dtype, self.sizes, self.strides = number, kind, dtype, sizes, strides
        self.writeable = writeable

    def key(self) -> tuple[Any, ...]:
        return (self.number, self.kind, self.dtype, self.sizes, self.strides, self.writeable)


class Call:
    """What the program calls, and the target of the node that stands for it."""

    __slots__ = ("answers", "is_elementwise", "name", "real", "target")

    def __init__(self, name: str, real: Callable, target: Callable, is_elementwise: bool = False) -> None:
        self.name, self.real, self.target, self.is_elementwise = name, real, target, is_elementwise
        self.answers: dict[Any, Any] = {}


def _modules() -> Iterator[tuple[Any, Any]]:
    yield np, torch_numpy
    yield np.fft, torch_numpy.fft
    yield np.linalg, torch_numpy.linalg


@cache
def _functions() -> dict[int, Call]:
    found: dict[int, Call] = {}
    for real_module, module in _modules():
        for name, function in vars(module).items():
            real = getattr(real_module, name, None)
            if name.startswith("_") or not callable(function) or not callable(real) or real is np.ndarray:
                continue
            if name in UNSPECIFIED:
                continue
            found[id(real)] = Call(name, real, numpy_to_tensor_wrapper(function), isinstance(real, np.ufunc))
    return found


def find(real: Callable) -> Call | None:
    """The call of a numpy function; None for those that `torch._numpy` does not have."""
    return _functions().get(id(real))


@cache
def method(name: str) -> Call | None:
    if name in WITHOUT_NODE or name in UNSPECIFIED or not hasattr(torch_numpy.ndarray, name):
        return None

    def real(self: Any, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self, name)(*arguments, **keywords)

    return Call(name, real, numpy_method_wrapper(name))


@cache
def attribute(name: str) -> Call:
    return Call(name, getattr, numpy_attr_wrapper)


@cache
def array_operator(function: Callable) -> Call:
    """An operator between arrays."""
    return Call(function.__name__, function, numpy_operator_wrapper(function), function is not operator.matmul)


@cache
def plain_operator(function: Callable) -> Call:
    """An operator between an array or a numpy scalar and a tensor, which gives a tensor, also for `array += tensor`."""
    name = function.__name__
    plain = getattr(operator, name[1:] + "_" * (name in ("iand", "ior")), function) if name[0] == "i" else function
    return Call(name, function, plain, plain is not operator.matmul)


# What numpy returns, as nested tuples; the numbers of the operands that it writes to; the dtype to which the node's
# integers have to be converted first, or None; whether the node needs a check of its indices.
Answer = tuple[Any, tuple[int, ...], torch.dtype | None, bool]


def raises_errors() -> bool:
    """Whether numpy raises floating-point errors, or calls a function for them."""
    return not {"ignore", "warn"}.issuperset(np.geterr().values())


def describe(call: Call, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Answer | str:
    """What numpy does. Or the reason why the node would do something else."""
    if torch._C._len_torch_function_stack():
        return "a numpy function is called under a torch function mode, which would change it"
    if raises_errors():
        return "a numpy function is called, and numpy raises floating-point errors"
    try:
        key = (_key(arguments), _key(keywords), torch.get_default_dtype())
        known = call.answers.get(key)
    except TypeError:
        return "an argument of a numpy function is neither an array nor a constant"
    if known is None:
        known = call.answers[key] = _Trial(call, arguments, keywords).answer()
    return known


def _key(value: Any) -> Any:
    if isinstance(value, Operand):
        return value.key()
    if isinstance(value, (tuple, list)):
        return (type(value), *map(_key, value))
    if isinstance(value, dict):
        return tuple((name, _key(item)) for name, item in value.items())
    if isinstance(value, slice):
        return (slice, _key(value.start), _key(value.stop), _key(value.step))
    if isinstance(value, (float, complex, np.generic)):
        return (type(value), repr(value))
    hash(value)
    return (type(value), value)


class _Different(Exception):
    """numpy and the node do not agree."""


class _Trial:
    def __init__(self, call: Call, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        self.call, self.arguments, self.keywords = call, arguments, keywords
        self.operands = sorted({operand.number: operand for operand in _operands((arguments, keywords))}.items())
        self.sizes_before: dict[int, int] = {}
        self.converted: torch.dtype | None = None  # the dtype that integers are converted to for the node
        self.wanted: torch.dtype | None = None  # the float dtype of numpy's result, where the node's has another
        if call.is_elementwise and not keywords:
            self._shrink()

    def _shrink(self) -> None:
        """Large sizes become smaller ones, equal sizes equal ones: the call broadcasts them all the same."""
        large = sorted({size for _, one in self.operands for size in one.sizes if size > LARGE_SIZE})
        if not large or not all(_is_plain(one) for one in self.arguments):
            return
        taken = {size for _, one in self.operands for size in one.sizes}
        free = (size for size in range(LARGE_SIZE, 1, -1) if size not in taken)
        smaller = dict(zip(large, free, strict=False))
        small = {}
        for number, one in self.operands:
            sizes = tuple(smaller.get(size, size) for size in one.sizes)
            order = sorted(range(len(sizes)), key=lambda i: (one.strides[i], -i))
            strides, step = [0] * len(sizes), 1
            for i in order:
                if one.strides[i]:
                    strides[i], step = step, step * sizes[i]
            small[number] = Operand(number, one.kind, one.dtype, sizes, tuple(strides), one.writeable)
        self.sizes_before = {new: old for old, new in smaller.items()}
        self.arguments = tuple(small[one.number] if isinstance(one, Operand) else one for one in self.arguments)
        self.operands = sorted(small.items())

    def answer(self) -> Answer | str:
        if _is_unspecified(self.call, self.arguments, self.keywords):
            return f"numpy does not specify the result of {self.call.name}"
        if any(one.dtype not in _DTYPES for _, one in self.operands):
            return "torch._numpy does not have the dtype of an array"
        if sum(_memory(one) for _, one in self.operands) > MOST_ELEMENTS:
            return f"{self.call.name} is called on large arrays"
        with (
            torch.no_grad(),
            torch._C.DisableTorchFunction(),
            warnings.catch_warnings(record=True) as self.warned,
            np.errstate(all="warn"),
        ):
            warnings.simplefilter("always")
            try:
                return self._compare_all()
            except _Different as difference:
                answer = self._compare_converted()
                return answer or f"torch._numpy differs from numpy in {self.call.name}: {difference}"

    def _compare_converted(self) -> Answer | None:
        """The same with integers converted to the float dtype of numpy's result, as numpy converts them."""
        self.converted = self.wanted
        if self.converted is None or not any(one.dtype in _INTEGERS for _, one in self.operands):
            return None
        try:
            answer = self._compare_all()
        except _Different:
            return None
        return None if isinstance(answer, str) or answer[1] else answer

    def _compare_all(self) -> Answer | str:
        """With several sets of numbers, because both raise for some of them."""
        answers, refusal, only_numpy_raised, all_warned = [], "", None, True
        for fill in (_mixed, _positive, _special, _zero, *_EXTREMES):
            self.warned.clear()
            outcome = self._run(fill)
            if isinstance(outcome, str):
                refusal = refusal or outcome
            elif isinstance(outcome, Exception):
                only_numpy_raised = outcome
            else:
                answers.append(outcome)
                all_warned = all_warned and bool(self.warned)
        if not answers:
            return refusal or f"numpy raises {only_numpy_raised!r}"
        checks_indices = self.call.name == "take_along_axis"
        if only_numpy_raised is not None and not (checks_indices and isinstance(only_numpy_raised, IndexError)):
            return f"numpy raises {only_numpy_raised!r} for some numbers, torch._numpy does not"
        if all_warned:
            return "a numpy computation issues a warning"
        if any(answer[0] != answers[0][0] for answer in answers):
            return f"the result of {self.call.name} depends on data"
        # (Zeros over zeros do not show.)
        written = tuple(sorted({number for answer in answers for number in answer[1]}))
        return answers[0][0], written, self.converted, checks_indices

    def _run(self, fill: Callable) -> Any:
        """numpy's answer; its exception if the node does not raise one; else the text of the node's exception."""
        reals, tensors = self._make(fill), self._make(fill)
        real_operands = {number: one[0] for number, one in reals.items()}
        node_operands = {number: self._convert(one[1]) for number, one in tensors.items()}
        error: Exception | None = None
        real = None
        try:
            real = self.call.real(*_with(self.arguments, real_operands), **_with(self.keywords, real_operands))
        except Exception as raised:
            error = raised
        self.warned[:] = [warning for warning in self.warned if not _is_about_tensors(warning)]
        if any(not issubclass(warning.category, RuntimeWarning) for warning in self.warned):
            raise _Different("numpy issues a warning")
        is_cast_of_nan = any("cast" in str(warning.message) for warning in self.warned)
        try:
            taken, named = _for_node(_with(self.arguments, node_operands)), _with(self.keywords, node_operands)
            made = self.call.target(*taken, **_for_node(named))
        except Exception as raised:
            return f"{type(raised).__name__}: {raised}" if error is None else f"numpy raises {error!r}"
        if error is not None:
            return error
        self.reals, self.tensors, self.compares_numbers = reals, tensors, not is_cast_of_nan
        if self.call.name in UNINITIALISED:
            self.compares_numbers = False
        answer = self._compare(real, made)
        return answer, self._written(fill)

    def _convert(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(self.converted) if self.converted is not None and tensor.dtype in _INTEGERS else tensor

    def _make(self, fill: Callable) -> dict[int, tuple[Any, torch.Tensor, np.ndarray]]:
        """For each operand: what numpy gets, what the node gets, and the memory of the former."""
        made = {}
        source = np.random.default_rng(7)
        for number, one in self.operands:
            memory = fill(source, _numpy_dtype(one.dtype), max(_memory(one), 1))
            strides = tuple(stride * memory.itemsize for stride in one.strides)
            array = np.lib.stride_tricks.as_strided(memory, one.sizes, strides, writeable=one.writeable)
            tensor = torch.from_numpy(memory.copy()).as_strided(one.sizes, one.strides)
            real: Any = array[()] if one.kind == SCALAR else array
            if one.kind == TENSOR:
                real = torch.from_numpy(memory).as_strided(one.sizes, one.strides)
            made[number] = (real, tensor, memory)
        return made

    def _compare(self, real: Any, made: Any) -> tuple[Any, ...]:
        """numpy's result in words, if the node's result is the same."""
        if real is None:
            return (NONE,)
        if isinstance(real, (tuple, list)) and type(real) in (tuple, list):
            if not real or not isinstance(made, (tuple, list)) or len(made) != len(real):
                raise _Different(f"a {type(real).__name__} of results")
            parts = tuple(self._compare(*pair) for pair in zip(real, made, strict=True))
            return (TUPLE if isinstance(real, tuple) else LIST, parts)
        if type(real) is np.ndarray:
            return self._compare_arrays(ARRAY, real, real, made)
        if isinstance(real, np.generic):
            return self._compare_arrays(SCALAR, real, np.asarray(real), made)
        if type(real) is torch.Tensor:
            return self._compare_arrays(TENSOR, real, real.numpy(), made)
        if self.call.name in OF_METADATA:
            return (CONSTANT, real)
        raise _Different(f"a result of type {type(real).__name__}")

    def _compare_arrays(self, kind: int, real: Any, array: np.ndarray, made: Any) -> tuple[Any, ...]:
        if not isinstance(made, torch.Tensor):
            raise _Different("a result that is not an array")
        if not _is_plain_dtype(array.dtype) or made.dtype not in _DTYPES or _numpy_dtype(made.dtype) != array.dtype:
            self.wanted = _FLOATS.get(array.dtype)
            raise _Different(f"dtype {array.dtype}, not {made.dtype}")
        if array.shape != tuple(made.shape):
            raise _Different(f"shape {array.shape}, not {tuple(made.shape)}")
        if made.is_conj() or made.is_neg():
            made = made.resolve_conj().resolve_neg()
        if self.compares_numbers and not self._are_close(array, made.numpy()):
            raise _Different("other numbers")
        same = next((number for number, one in self.reals.items() if one[0] is real), -1)
        alias = -1
        if kind != SCALAR and array.size:
            alias = next(
                (number for number, one in self.reals.items() if np.may_share_memory(array, one[2])),
                -1,
            )
        steps = tuple(stride // array.itemsize for stride in array.strides)
        order = None
        if alias >= 0:
            self._expect_same_view(array, steps, made, alias)
        elif kind != SCALAR:
            order = _order(array.shape, steps, made.stride())
        writeable = kind != ARRAY or array.flags.writeable
        sizes = tuple(self.sizes_before.get(size, size) for size in array.shape)
        return (kind, made.dtype, sizes, same, alias, writeable, order)

    def _expect_same_view(self, array: np.ndarray, steps: tuple[int, ...], made: torch.Tensor, alias: int) -> None:
        tensor = self.tensors[alias][1]
        if made.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr():
            raise _Different("a copy instead of a view")
        offset = (array.ctypes.data - self.reals[alias][2].ctypes.data) // array.itemsize
        if made.dtype != tensor.dtype:
            raise _Different("a view of another dtype")
        if made.storage_offset() != offset or _used(array.shape, steps) != _used(array.shape, made.stride()):
            raise _Different("another view")

    def _written(self, fill: Callable) -> tuple[int, ...]:
        """The operands that were written to. Both must have written the same."""
        before = self._make(fill)
        written = []
        for number, (_, _, memory) in self.reals.items():
            made = self.tensors[number][1]
            now = torch.empty(0, dtype=made.dtype).set_(made.untyped_storage()).numpy()[: len(memory)]  # type: ignore[call-overload]
            if _same_bits(memory, before[number][2]):
                if not _same_bits(now, before[number][2]):
                    raise _Different("writes to an argument")
                continue
            if self.compares_numbers and not self._are_close(memory, now):
                raise _Different("writes other numbers")
            written.append(number)
        return tuple(written)

    def _are_close(self, expected: np.ndarray, found: np.ndarray) -> bool:
        if expected.dtype.kind not in "fc":
            return bool(np.array_equal(expected, found))
        step = {2: 4e-3, 4: 2e-5, 8: 1e-9 if expected.dtype.kind == "f" else 2e-5, 16: 1e-9}[expected.itemsize]
        finite = np.abs(expected[np.isfinite(expected)])
        scale = max(float(finite.max()), 1.0) if finite.size else 1.0
        return bool(np.allclose(found, expected, rtol=step, atol=step * scale, equal_nan=True))


def _is_about_tensors(warning: warnings.WarningMessage) -> bool:
    """Newer versions of numpy deprecate the way in which tensors become arrays. A graph does not go that way."""
    return issubclass(warning.category, DeprecationWarning) and str(warning.message).startswith("__array")


def _is_unspecified(call: Call, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    if call.name != "argsort":
        return False
    kind = keywords.get("kind", arguments[2] if len(arguments) > 2 else None)
    return kind not in ("stable", "mergesort") and not keywords.get("stable")


def _operands(value: Any) -> Iterator[Operand]:
    if isinstance(value, Operand):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _operands(item)
    elif isinstance(value, dict):
        yield from _operands(list(value.values()))
    elif isinstance(value, slice):
        yield from _operands([value.start, value.stop, value.step])


def _is_plain(argument: Any) -> bool:
    return isinstance(argument, (Operand, int, float, complex, np.generic))


def _with(value: Any, made: dict[int, Any]) -> Any:
    """The value with what was made in the place of its operands."""
    if isinstance(value, Operand):
        return made[value.number]
    if isinstance(value, (tuple, list)):
        return type(value)(_with(item, made) for item in value)
    if isinstance(value, dict):
        return {name: _with(item, made) for name, item in value.items()}
    if isinstance(value, slice):
        return slice(_with(value.start, made), _with(value.stop, made), _with(value.step, made))
    return value


def _for_node(value: Any) -> Any:
    """Constants as the graph has them: dtypes by their names, numpy scalars as tensors."""
    if isinstance(value, np.generic):
        return torch.from_numpy(np.asarray(value).copy())
    if isinstance(value, np.dtype) or (isinstance(value, type) and _is_dtype_class(value)):
        return np.dtype(value).name
    if isinstance(value, (tuple, list)):
        return type(value)(map(_for_node, value))
    if isinstance(value, dict):
        return {name: _for_node(item) for name, item in value.items()}
    return value


def _is_dtype_class(value: type) -> bool:
    return value in (bool, int, float, complex) or issubclass(value, np.generic)


def dtype_name(value: Any) -> str | None:
    """The name of a dtype that is given as an argument, as `numpy.float32`, `float` or a `numpy.dtype`."""
    if not isinstance(value, np.dtype) and not (isinstance(value, type) and _is_dtype_class(value)):
        return None
    try:
        name = np.dtype(value).name
    except TypeError:  # `numpy.integer`
        return None
    return name if name in _NAMES else None


def _memory(operand: Operand) -> int:
    if 0 in operand.sizes:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(operand.sizes, operand.strides, strict=True))


_DTYPES = {
    dtype: torch.empty(0, dtype=dtype).numpy().dtype
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
}
_FLOATS = {numpy: dtype for dtype, numpy in _DTYPES.items() if dtype.is_floating_point}
_INTEGERS = {dtype for dtype in _DTYPES if not dtype.is_floating_point and not dtype.is_complex}
_NAMES = {dtype.name for dtype in _DTYPES.values()}


def _numpy_dtype(dtype: torch.dtype) -> np.dtype:
    return _DTYPES[dtype]


def _is_plain_dtype(dtype: np.dtype) -> bool:
    return dtype in _DTYPES.values() and dtype.isnative


# --- numbers to try


def _mixed(source: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    if dtype.kind == "b":
        return source.integers(0, 2, count).astype(dtype)
    if dtype.kind in "iu":
        return source.integers(-3 if dtype.kind == "i" else 0, 4, count).astype(dtype)
    numbers = source.standard_normal(count) * 2
    if dtype.kind == "c":
        return (numbers + 1j * source.standard_normal(count)).astype(dtype)
    return numbers.astype(dtype)


def _positive(source: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    if dtype.kind == "b":
        return np.ones(count, dtype)
    if dtype.kind in "iu":
        return source.integers(1, 3, count).astype(dtype)
    numbers = source.uniform(0.1, 0.9, count)
    if dtype.kind == "c":
        return (numbers + 1j * source.uniform(0.1, 0.9, count)).astype(dtype)
    return numbers.astype(dtype)


def _special(source: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    if dtype.kind in "fc":
        return source.choice([np.nan, np.inf, -np.inf, 0.0, 1.5, -2.5, 0.5], count).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return source.choice(np.array([limits.min, limits.max, 0, 1, 2], dtype), count)
    return source.integers(0, 2, count).astype(dtype)


def _zero(source: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    return np.zeros(count, dtype)


def _all(number: float, integer: Callable[[np.iinfo], int]) -> Callable:
    def fill(source: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
        if dtype.kind in "iu":
            return np.full(count, integer(np.iinfo(dtype)), dtype)
        return np.full(count, number != 0, dtype) if dtype.kind == "b" else np.full(count, number, dtype)

    return fill


# A small array has room for one of these only.
_EXTREMES = (
    _all(np.nan, lambda limits: limits.min),
    _all(np.inf, lambda limits: limits.max),
    _all(-np.inf, lambda limits: -1 if limits.min else 1),
    _all(-1.5, lambda limits: 1),
)


# --- layouts


def _used(sizes: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The strides that matter."""
    return [stride for size, stride in zip(sizes, strides, strict=True) if size > 1]


def _order(sizes: tuple[int, ...], expected: tuple[int, ...], found: tuple[int, ...]) -> tuple[int, ...] | None:
    """The dimensions in the order in which numpy's new array has them in memory, if the node's result has another."""
    if 0 in sizes or _used(sizes, expected) == _used(sizes, found):
        return None
    order = tuple(sorted(range(len(sizes)), key=lambda i: -expected[i]))
    step = 1
    for i in reversed(order):
        if sizes[i] > 1 and expected[i] != step:
            raise _Different("an array with gaps in memory")
        step *= sizes[i]
    return order


def _same_bits(left: np.ndarray, right: np.ndarray) -> bool:
    return left.tobytes() == right.tobytes()
