"""Symbols at the hand-off to a backend.

A trace computes with its own symbols, without sympy. A backend that wants a `ShapeEnv` gets one that is filled here: a
symbol for each number and size that changes between calls, with its range, and the relations between them. What the
backend assumes on top of that are new guards of the `ShapeEnv`: they go back to the engine, as conditions of the entry.
"""

from __future__ import annotations

import functools
import math
import re
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch

from stator import observer

from .jagged import FIRST, nested_int

if TYPE_CHECKING:
    import sympy
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

# The engine computes expressions on a stack of this size.
DEEPEST_EXPRESSION = 64

# The engine's operations on one number, by the names of sympy's and PyTorch's classes.
UNARY_BY_CLASS = {
    "Abs": "abs",
    "TruncToInt": "int",
    "RoundToInt": "round",
    "FloorToInt": "math.floor",
    "CeilToInt": "math.ceil",
}
UNARY = frozenset(UNARY_BY_CLASS.values())
_SYMBOL = re.compile(r"\bs\d+\b")


class Symbol(NamedTuple):
    """A number that changes between calls, as the engine describes it."""

    name: str  # `s0`
    place: str  # `L['x'].size()[0]`
    hint: int | float
    least: int | None
    most: int | None
    equal_to: str | None  # a constant, or an expression over other symbols
    is_size: bool
    is_marked: bool  # specializing it is an error
    hint_override: int | None = None  # the size that compilers should optimize for


class Unbacked(NamedTuple):
    """A number that has no value while tracing, as the engine describes it: a size of an input, or one that the graph
    computes."""

    name: str  # `u0`
    place: str  # of a size; else empty
    least: int | None
    most: int | None
    hint_override: int | None


class Symbols:
    """The symbols of one graph."""

    def __init__(
        self, symbols: list[tuple[Any, ...]], relations: list[str], unbacked: Sequence[tuple[Any, ...]] = ()
    ) -> None:
        self.all = [Symbol(*symbol) for symbol in symbols]
        self._unbacked = {one[0]: Unbacked(*one) for one in unbacked}
        self._names: dict[sympy.Symbol, str] = {}  # of unbacked numbers
        self._made: set[sympy.Symbol] = set()  # by operations
        self.next_unbacked = len(unbacked)
        self.relations = relations
        self._values = _Values(self)
        self._numbers: dict[str, Any] = {}
        self._by_sympy: dict[sympy.Symbol, int] = {}
        self._nested_ints: dict[int, torch.SymInt] = {}
        self._nested_by_sympy: dict[sympy.Basic, int] = {}
        self._shape_env: ShapeEnv | None = None
        self._known_guards = 0

    def fill(self, shape_env: ShapeEnv) -> None:
        """Adds the symbols and their relations to a new ShapeEnv."""
        self._shape_env = shape_env
        for symbol in self.all:
            # aot_autograd rejects floats that are not used as tensors, so they are created when the graph reads one.
            if not isinstance(symbol.hint, float):
                self.number(symbol.name)
        for relation in self.relations:
            # True in this call: this adds a guard, unless it follows from those before.
            if not bool(self.number(relation)):
                raise AssertionError(f"the relation {relation} does not hold in the call that was captured")
        self._known_guards = len(shape_env.guards)

    def number(self, text: str) -> Any:
        """The SymInt of an expression such as `2 * s0`; an int if it is a constant."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = eval(text, _functions(), self._values)
        return found

    def terms_of(self, number: Any) -> int | list[float | str]:
        """An int, or a SymInt in the order of a stack machine."""
        expression = number.node.expr if isinstance(number, torch.SymInt) else number
        if isinstance(expression, int) or expression.is_Integer:
            return int(expression)
        if (ragged := self._nested_by_sympy.get(expression)) is not None:
            return ragged
        return self._terms(expression)

    def nested_int(self, number: int) -> torch.SymInt:
        """The ragged size of a jagged tensor: a symbol with a nested int for its hint, as PyTorch's own."""
        if (found := self._nested_ints.get(number)) is not None:
            return found
        from torch._dynamo.source import EphemeralSource

        shape_env = self._shape_env
        assert shape_env is not None
        hint, source = nested_int(number), EphemeralSource(f"nested int {number - FIRST}")
        expression = shape_env.create_symbol(cast("int", hint), source)
        made = cast("torch.SymInt", shape_env.create_symintnode(expression, hint=cast("int", hint), source=source))
        self._nested_ints[number], self._nested_by_sympy[expression] = made, number
        return made

    def _is_of_nested_ints(self, expression: sympy.Basic) -> bool:
        """Whether a condition is about ragged sizes. It always holds: the engine guards which tensors share theirs."""
        return any(symbol in self._nested_by_sympy for symbol in expression.free_symbols)

    def hint(self, name: float | str) -> int | float:
        return self.all[int(str(name)[1:])].hint

    def create(self, name: str) -> Any:
        """The value of a symbol."""
        shape_env = self._shape_env
        assert shape_env is not None
        if name.startswith("zuf"):
            return shape_env.create_unbacked_symfloat()
        if name in self._unbacked:
            return self._create_unbacked(self._unbacked[name], shape_env)
        if name.startswith("u"):
            # A number that the graph computes: backends create such symbols themselves. This one is for readers of
            # `example_value`.
            return shape_env.create_unbacked_symint()
        number = int(name[1:])
        symbol = self.all[number]
        if symbol.equal_to is not None and not self._leads_to(symbol.equal_to, name):
            return self.number(symbol.equal_to)
        from torch._dynamo.source import ConstantSource
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        source = ConstantSource(symbol.place)
        make = shape_env.create_symbol if symbol.is_size else shape_env.create_unspecified_symbol
        watching = observer.current()
        with watching.at_the_line(symbol.place) if watching is not None else nullcontext():
            expression = make(symbol.hint, source, DimDynamic.DYNAMIC)
        self._by_sympy[expression] = number
        if isinstance(symbol.hint, float):
            return shape_env.create_symfloatnode(expression, hint=symbol.hint, source=source)
        if symbol.least is not None or symbol.most is not None:
            shape_env.constrain_symbol_range(expression, *_bounds(symbol.least, symbol.most))
        if symbol.hint_override is not None:
            shape_env.var_to_hint_override[expression] = symbol.hint_override
        return shape_env.create_symintnode(expression, hint=symbol.hint, source=source)

    def _create_unbacked(self, known: Unbacked, shape_env: ShapeEnv) -> Any:
        from torch._dynamo.source import ConstantSource

        # An input: no operation has to define it.
        with shape_env.ignore_fresh_unbacked_symbols():
            number = shape_env.create_unbacked_symint(ConstantSource(known.place) if known.place else None)
        expression = number.node.expr
        self._names[expression] = known.name
        shape_env.unbacked_inputs.add(expression)
        if known.least is not None and known.least >= 0:
            shape_env._constrain_range_for_size(expression, known.least, known.most)
        else:
            shape_env.constrain_symbol_range(expression, *_bounds(known.least, known.most))
        if known.hint_override is not None:
            shape_env.var_to_hint_override[expression] = known.hint_override
        return number

    def typical(self, stride: Any) -> Any:
        """A stride as it is if no unbacked size is 0 or 1, as the engine computes strides."""
        from torch.utils._sympy.functions import Max

        if not isinstance(stride, torch.SymInt):
            return stride

        def is_size_or_1(part: Any) -> bool:
            return isinstance(part, Max) and len(part.args) == 2 and 1 in part.args and self._has_unbacked(part)

        return stride.node.expr.replace(is_size_or_1, lambda part: next(one for one in part.args if one != 1))

    def _has_unbacked(self, expression: sympy.Basic) -> bool:
        assert self._shape_env is not None
        return any(self._shape_env.is_unbacked_symint(one) for one in expression.free_symbols)

    def assertions(self) -> list[list[float | str]] | None:
        """What has been assumed about unbacked numbers; None if the engine can't check it."""
        assert self._shape_env is not None
        terms = []
        for all_of_one in self._shape_env.deferred_runtime_asserts.values():
            for one in all_of_one:
                # What an operation says of a number that it makes is not used, unless it replaces the number.
                if not one.expr.free_symbols & self._made:
                    terms.append(one.expr)
                elif type(one.expr).__name__ in ("Equality", "Eq"):
                    return None
        try:
            return [self._terms(expression) for expression in terms]
        except _CannotSay:
            return None

    def _leads_to(self, text: str, name: str) -> bool:
        """Whether a symbol is part of an expression, or of what the symbols in it are equal to: `512 * (s0 // 512)` may
        be all that is known of s0."""
        seen: set[str] = set()
        to_see = _SYMBOL.findall(text)
        while to_see:
            if (seen_now := to_see.pop()) in seen:
                continue
            seen.add(seen_now)
            to_see += _SYMBOL.findall(self.all[int(seen_now[1:])].equal_to or "")
        return name in seen

    def assumptions(self) -> Assumptions:
        """What was assumed since `fill`."""
        if self._shape_env is None:
            return Assumptions([], [], [])
        guards = self._shape_env.guards[self._known_guards :]
        conditions = [
            self._condition(guard.expr)
            for guard in guards
            if guard.expr.free_symbols and not self._is_of_nested_ints(guard.expr)
        ]
        fixed = [number for symbol, number in self._by_sympy.items() if self._shape_env.simplify(symbol).is_number]
        return Assumptions(conditions, sorted(fixed), [])

    def _condition(self, expression: sympy.Basic) -> Condition:
        try:
            return Condition(self._text(expression), self._terms(expression), None)
        except _CannotSay:
            symbols = sorted(expression.free_symbols, key=str)
            names: list[float | str] = [self.all[self._number_of(symbol)].name for symbol in symbols]
            return Condition(
                f"{self._text(expression)} (checked in Python)",
                names,
                functools.partial(_holds, expression, symbols),
            )

    def rejected_by(self, error: Exception) -> Assumptions:
        """The backend has failed, for which the symbols may be the reason."""
        if type(error).__name__ != "TensorifyScalarRestartAnalysis":
            return Assumptions([], [], list(range(len(self.all))), f"{type(error).__name__}: {error}")
        # Only some floats: aot_autograd leaves their names here for torch._dynamo, and later compilations read them.
        from torch._dynamo.symbolic_convert import TensorifyState

        names = set(TensorifyState.force_specializations)
        TensorifyState.clear()
        floats = [number for symbol, number in self._by_sympy.items() if str(symbol) in names]
        return Assumptions([], [], floats)

    @property
    def are_required(self) -> bool:
        return any(symbol.is_marked for symbol in self.all)

    @property
    def have_nested_ints(self) -> bool:
        return bool(self._nested_ints)

    @property
    def have_floats(self) -> bool:
        return any(isinstance(symbol.hint, float) for symbol in self.all)

    def _name_of(self, symbol: sympy.Basic) -> str:
        assert self._shape_env is not None
        if (known := self._names.get(symbol)) is not None:
            return known
        if symbol in self._by_sympy or not self._shape_env.is_unbacked_symint(symbol):
            return self.all[self._number_of(symbol)].name
        name = self._names[symbol] = f"u{self.next_unbacked}"
        self._made.add(symbol)
        self.next_unbacked += 1
        return name

    def _number_of(self, symbol: sympy.Basic) -> int:
        number = self._by_sympy.get(symbol)
        if number is None:
            raise AssertionError(f"the backend guards on {symbol}, which is not an input of the graph")
        return number

    def _text(self, expression: sympy.Basic) -> str:
        return str(expression.xreplace({one: _named(self.all[i].place) for one, i in self._by_sympy.items()}))

    def _terms(self, expression: sympy.Basic) -> list[float | str]:
        terms = list(self._postfix(expression))
        if _depth(terms) > DEEPEST_EXPRESSION:
            raise _CannotSay(expression)
        return terms

    def _postfix(self, expression: sympy.Basic) -> Iterator[float | str]:
        """The expression in the order of a stack machine: numbers, symbols, and operations that take two operands."""
        if expression.is_Symbol:
            yield self._name_of(expression)
        elif expression.is_Integer:
            if not -(2**62) <= int(expression) < 2**62:
                raise _CannotSay(expression)
            yield int(expression)
        elif expression.is_Float:
            yield float(expression)
        elif expression in (True, False):
            yield int(bool(expression))
        elif (operations := _operations().get(expression.func)) is not None:
            first, *others = expression.args
            yield from self._postfix(first)
            for other in others:
                yield from self._postfix(other)
                yield operations
        elif type(expression).__name__ in ("Pow", "PowByNatural"):
            base, exponent = expression.args
            if not exponent.is_Integer or exponent < 0:
                raise _CannotSay(expression)
            yield from self._postfix(base)
            yield from self._postfix(exponent)
            yield "**"
        elif (function := UNARY_BY_CLASS.get(type(expression).__name__)) is not None:
            yield from self._postfix(expression.args[0])
            yield function
        elif type(expression).__name__ == "Not":
            yield from self._postfix(expression.args[0])
            yield 0
            yield "=="
        elif type(expression).__name__ == "ModularIndexing":
            base, divisor, modulus = expression.args
            yield from self._postfix(base)
            yield from self._postfix(divisor)
            yield "//"
            yield from self._postfix(modulus)
            yield "%"
        else:
            raise _CannotSay(expression)


class Condition(NamedTuple):
    """What has to hold in later calls."""

    text: str
    terms: list[float | str]  # in the order of a stack machine
    function: Callable[..., bool] | None  # decides it where the engine can't: then `terms` are its arguments


class Assumptions(NamedTuple):
    """What a backend assumed about symbols, as the engine reads it from the graph module."""

    conditions: list[Condition]
    fixed: list[int]
    rejected: list[int]
    failure: str = ""  # why they are rejected, if that is an error


class _Values(dict[str, Any]):
    """The values of symbols by their names, created when they are first read."""

    def __init__(self, symbols: Symbols) -> None:
        super().__init__()
        self._symbols = symbols

    def __missing__(self, name: str) -> Any:
        if name in _functions():
            raise KeyError(name)
        value = self[name] = self._symbols.create(name)
        return value


class _CannotSay(Exception):
    """The engine has no such operation."""


class LazyNumber(torch.SymInt):
    """An example input for backends that may never look at it: its node, and so the ShapeEnv, is created on demand."""

    def __init__(self, cell: Any, text: str) -> None:
        self._cell = cell
        self._text = text

    @property
    def node(self) -> Any:
        return self._cell.number(self._text).node


def renewed(number: torch.SymInt) -> Any:
    """The same number as a new object."""
    node: Any = number.node
    return node.shape_env.create_symintnode(node.expr, hint=node.hint)


@functools.cache
def _functions() -> dict[str, Any]:
    """The functions in the text of expressions, for SymInts and SymFloats."""
    names = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
    of_math = {name: getattr(torch, f"_sym_{name}") for name in names}
    return {
        "__builtins__": {},
        "abs": abs,
        "round": round,
        "min": torch.sym_min,
        "max": torch.sym_max,
        "int": torch.sym_int,
        "math": types.SimpleNamespace(floor=math.floor, ceil=math.ceil, **of_math),
    }


def _holds(expression: sympy.Basic, symbols: list[sympy.Symbol], *numbers: float) -> bool:
    """Whether a condition holds for these numbers in place of the symbols."""
    from torch.utils._sympy.interp import sympy_interp
    from torch.utils._sympy.reference import PythonReferenceAnalysis

    return bool(sympy_interp(PythonReferenceAnalysis, dict(zip(symbols, numbers, strict=True)), expression))


def _depth(terms: list[float | str]) -> int:
    """How many numbers are on the stack at a time."""
    binary = set(_operations().values()) | {"**"}
    depth = deepest = 0
    for term in terms:
        depth += -1 if term in binary else 0 if term in UNARY else 1
        deepest = max(deepest, depth)
    return deepest


def _bounds(least: int | None, most: int | None) -> tuple[Any, Any]:
    from torch.utils._sympy.numbers import int_oo

    return (-int_oo if least is None else least), (int_oo if most is None else most)


def _named(place: str) -> Any:
    import sympy

    return sympy.Symbol(place)


@functools.cache
def _operations() -> dict[Any, str]:
    """The engine's operations on two numbers, by the classes of sympy's."""
    import sympy
    from torch.utils._sympy import functions

    return {
        sympy.Add: "+",
        sympy.Mul: "*",
        sympy.Eq: "==",
        sympy.Ne: "!=",
        sympy.Lt: "<",
        sympy.Le: "<=",
        sympy.Gt: ">",
        sympy.Ge: ">=",
        sympy.And: "&",
        sympy.Or: "|",
        functions.FloorDiv: "//",
        functions.CleanDiv: "//",
        functions.Mod: "%",
        functions.PythonMod: "%",
        functions.IntTrueDiv: "/",
        functions.FloatTrueDiv: "/",
        functions.Min: "min",
        functions.Max: "max",
    }
