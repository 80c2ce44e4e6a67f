"""Classes that the compiled function defines."""

import dataclasses
import typing

import pytest
import torch

import stator
from tests.support.corpus import Corpus
from tests.support.harness import Source, T, same

corpus = Corpus()


@corpus.core
def class_with_methods(x, n):
    class Scale:
        """Scales."""

        factor = 2
        shift: int = 1

        def __init__(self, by):
            self.by = by

        def __call__(self, value):
            return value * self.by * self.factor + self.shift

        def __add__(self, other):
            return Scale(self.by + other.by)

        def __eq__(self, other):
            return isinstance(other, Scale) and self.by == other.by

        def __len__(self):
            return 3

        def __repr__(self):
            return f"Scale({self.by})"

    scale = Scale(n) + Scale(1)
    return scale(x), scale == Scale(n + 1), len(scale), repr(scale), Scale.__name__, Scale.__doc__, bool(Scale(0))


@corpus.core
def class_with_descriptors(x):
    class Holder:
        made = 0

        def __new__(cls, value):
            held = super().__new__(cls)
            held.raw = value
            return held

        @property
        def doubled(self):
            return self.raw * 2

        @doubled.setter
        def doubled(self, value):
            self.raw = value / 2

        @classmethod
        def of_ones(cls):
            return cls(torch.ones(3))

        @staticmethod
        def shifted(value):
            return value + 1

    holder = Holder(x)
    holder.doubled = holder.doubled + 4
    try:
        del holder.doubled
    except AttributeError as error:
        text = str(error)
    return holder.raw, Holder.of_ones().doubled, Holder.shifted(x), holder.shifted(x), text


@corpus.core
def classes_that_inherit(x):
    class Base:
        def __init__(self, value):
            self.value = value

        def step(self):
            return self.value + 1

    class Child(Base):
        def __init__(self, value):
            super().__init__(value * 2)

        def step(self):
            return super().step() * 3

    class Grandchild(Child):
        step_again = Child.step

        def step(self):
            return super(Child, self).step() + self.step_again()

    made = Grandchild(x)
    return made.step(), isinstance(made, Base), issubclass(Base, Child), type(made) is Grandchild


@corpus.core
def class_with_closure(x, n):
    scale = x * n

    class Reader:
        kept = scale
        n = n + 1

        def read(self, value, by=n):
            return value * scale + self.n * by

        twice = [n * i for i in range(3)]

        if n > 1:
            label = "many"
        else:
            label = "one"

    return Reader().read(x), Reader.kept, Reader().twice, Reader.label


@corpus.core
def class_that_changes(x):
    class Counter:
        count = 0
        seen = []

        def step(self):
            Counter.count += 1
            type(self).last = self.count
            self.seen.append(self.count)
            return self

    Counter().step().step()
    try:
        Counter.missing
    except AttributeError as error:
        text = str(error)
    del Counter.last
    return x + Counter.count, Counter.seen, text, hasattr(Counter, "last")


@corpus.core
def class_with_slots(x):
    class Pair:
        __slots__ = ("first", "second")

        def __init__(self, first, second):
            self.first, self.second = first, second

    pair = Pair(x, x + 1)
    first, second = pair.first, pair.second
    try:
        pair.third = 1
    except AttributeError as error:
        text = str(error)
    return first + second, text


@corpus.core
def class_with_getattr(x):
    class Proxy:
        def __init__(self, of):
            self.of = of

        def __getattr__(self, name):
            return getattr(self.of, name)

        def __setitem__(self, key, value):
            self.__dict__[key] = value

    proxy = Proxy(x)
    proxy["extra"] = 2
    return proxy.sum(), proxy.extra, proxy.shape


@corpus.core
def class_with_context(x):
    class Entered:
        def __enter__(self):
            self.depth = 1
            return self

        def __exit__(self, *error):
            self.depth = 0
            return error[0] is ValueError

    with Entered() as entered:
        x = x + entered.depth
        raise ValueError("swallowed")
    return x, entered.depth


@corpus.core
def exception_class(x):
    class Stopped(Exception):
        def __init__(self, at):
            super().__init__(f"stopped at {at}")
            self.at = at

    try:
        raise Stopped(3)
    except Stopped as error:
        return x + error.at, str(error), error.args


@corpus.core
def class_made_by_type(x, n):
    def step(self, value):
        return value + self.n

    Made = type("Made", (), {"n": n, "step": step})
    return Made().step(x), Made.__name__, Made.__module__ == __name__


@corpus.core
def module_class(x):
    class Scale(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("by", torch.full((1,), 2.0))

        def forward(self, value):
            return value * self.by

    return Scale()(x)


@corpus.core
def class_decorator(x):
    def register(cls):
        cls.tag = 3
        return cls

    @register
    class Tagged:
        pass

    return x * Tagged.tag


@corpus.core
def class_body_raises(x):
    try:

        class Broken:
            value = 1 / 0

    except ZeroDivisionError:
        return x + 1


@corpus.core
def dataclass_in_the_function(x, n):
    @dataclasses.dataclass
    class Batch:
        """Kept."""

        value: torch.Tensor
        size: int = 2
        names: list = dataclasses.field(default_factory=list)
        hidden: int = dataclasses.field(default=5, repr=False, compare=False)

        def doubled(self):
            return self.value * self.size

    batch = Batch(x, n)
    other = dataclasses.replace(batch, size=3)
    batch.names.append("a")
    Batch.hidden = 7
    text = repr(Batch(1, 2))
    equal = Batch(1) == Batch(1), Batch(1) == Batch(2)
    return batch.doubled() + other.doubled(), Batch(1).names, batch.names, Batch.size, text, equal, Batch.hidden


@corpus.core
def frozen_dataclass_in_the_function(x):
    @dataclasses.dataclass(frozen=True, order=True)
    class Base:
        a: int
        b: int = 2

    @dataclasses.dataclass(frozen=True)
    class Child(Base):
        c: int = 3

    child = Child(1)
    try:
        child.a = 2
    except dataclasses.FrozenInstanceError as error:
        text = str(error)
    return x + child.a + child.b * child.c, text, Base(1) < Base(2), len(dataclasses.fields(child))


@corpus.core
def named_tuple_in_the_function(x, n):
    class Pair(typing.NamedTuple):
        """Kept."""

        first: torch.Tensor
        second: int = 3

    pair = Pair(x)
    first, second = pair._replace(second=n)
    return first * second + pair.first, pair.second, Pair._fields, Pair.__doc__, isinstance(pair, tuple), pair[1:]


test_programs = corpus.test()


# --- classes that leave the captured region -------------------------------------------------------------------------

LEAVING = """
def f(x):
    by = x * 2
    class Made:
        '''Kept.'''
        tag = 3
        values = [1, x]
        def __init__(self, value): self.value = value
        def __new__(cls, *args): return super().__new__(cls)
        def step(self): return self.value + by
        def again(self): return Made(self.step())
        @property
        def doubled(self): return self.value * 2
        @classmethod
        def of(cls, value): return cls(value)
        @staticmethod
        def plus(value): return value + 1
        def __eq__(self, other): return self.tag == other.tag
        kept: int = 4
    Made.self = Made
    Made.instance = Made(x)
    class Child(Made):
        __slots__ = ("extra",)
        def step(self): return super().step() + 1
    child = Child(x)
    child.extra = by
    return {returned}
"""


@pytest.mark.parametrize("returned", ["Made", "Child", "child, Child", "child.again", "Made.of", "[Made(x), child]"])
def test_a_class_leaves(returned: str) -> None:
    namespace = {"torch": torch}
    exec(LEAVING.replace("{returned}", returned), namespace)
    uncompiled, compiled = namespace["f"], stator.compile(namespace["f"], fullgraph=True, backend="eager")

    def described(function, x):
        made = function(x)
        parts = made if isinstance(made, tuple | list) else [made]
        seen = []
        for part in parts:
            if not isinstance(part, type) and callable(part):
                part = part(*() if part.__name__ == "again" else (x,))
            cls = part if isinstance(part, type) else type(part)
            base = cls.__mro__[-2]
            seen += [
                cls.__name__,
                cls.__qualname__,
                cls.__module__,
                cls.__doc__,
                list(base.__dict__),
                base.__annotations__,
            ]
            seen += [base.__hash__, [c.__name__ for c in cls.__mro__], base.self is base, type(base.instance) is base]
            seen += [
                cls(x).step().tolist(),
                cls(x).again().doubled.tolist(),
                cls.of(x).value is x,
                cls.plus(1),
                cls.values,
            ]
            seen += [hasattr(cls(x), "__dict__"), cls(x) == cls(x), base.instance.value is x]
            if not isinstance(part, type):
                seen += [part.value.tolist(), part.step().tolist(), getattr(part, "extra", x).tolist()]
        return seen

    for number in range(3):
        x = torch.full((2,), float(number))
        assert described(compiled, x) == described(uncompiled, x)
    assert compiled(x) is not compiled(x)


def test_a_dataclass_leaves() -> None:
    text = """
import dataclasses
def f(x):
    @dataclasses.dataclass
    class Batch:
        value: object
        size: int = 2
        names: list = dataclasses.field(default_factory=list)
        def doubled(self): return self.value * self.size
    Batch.added = 4
    Batch.size = 9
    made = Batch(x, 3, ["a"])
    made.self = made
    return made, Batch
"""
    namespace: dict = {}
    exec(text, namespace)
    compiled = stator.compile(namespace["f"], fullgraph=True, backend="eager")

    def described(function, x):
        made, cls = function(x)
        parts = [made.value is x, made.size, made.names, made.doubled().tolist(), made.self is made, type(made) is cls]
        fields = [(field.name, field.type, field.default) for field in dataclasses.fields(cls)]
        other = cls(1)
        return (
            parts + fields + [cls.__doc__, list(vars(cls)), cls.size, cls.added, other.size, other.names, repr(other)]
        )

    for number in range(3):
        x = torch.full((2,), float(number))
        assert str(described(compiled, x)) == str(described(namespace["f"], x))


def test_a_named_tuple_leaves() -> None:
    text = """
import typing
def f(x):
    class Pair(typing.NamedTuple):
        first: object
        second: int = 3
    return Pair, Pair(x + 1), [Pair(x, 4)]
"""
    namespace: dict = {}
    exec(text, namespace)
    compiled = stator.compile(namespace["f"], fullgraph=True, backend="eager")

    def described(function, x):
        cls, made, (other,) = function(x)
        names = [cls.__name__, cls.__qualname__, cls.__module__, cls._fields, cls._field_defaults, cls.__annotations__]
        return names + [type(made) is cls, type(other) is cls, made.first.tolist(), made.second, other.second]

    for number in range(3):
        x = torch.full((2,), float(number))
        assert described(compiled, x) == described(namespace["f"], x)
    assert compiled(x)[0] is not compiled(x)[0]


def test_an_exception_of_a_new_class_leaves() -> None:
    text = """
def f(x):
    class Stopped(ValueError):
        def __init__(self, at):
            super().__init__(at)
            self.at = at
        def __str__(self): return f"at {self.at}"
    if x.dim() == 1:
        raise Stopped(x.shape[0])
    return x
"""
    namespace: dict = {}
    exec(text, namespace)
    compiled = stator.compile(namespace["f"], fullgraph=True, backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError, match="at 3") as caught:
            compiled(torch.ones(3))
        assert caught.value.at == 3 and type(caught.value).__name__ == "Stopped"


def test_a_graph_break_after_a_class_and_in_a_method() -> None:
    text = """
def f(x):
    class Made:
        def __init__(self, value): self.value = value
        def step(self, by):
            y = self.value * by
            print("in the middle")
            return y + 1
    made = Made(x)
    return made.step(2), type(made).__name__, isinstance(made, Made)
"""
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False, stateful=True)


REFUSED = {
    "a metaclass": "class M(metaclass=Meta): pass",
    "an enum": "class M(enum.Enum): A = 1",
    "a base with __init_subclass__": "class M(Registered): pass",
    "a subclass of dict": "class M(dict): pass",
    "a subclass of partial": "class M(functools.partial): pass\n    y = M(torch.add, 1)(y)",
    "a subclass of threading.local": "class M(threading.local): pass",
    "a subclass of a generic class": "class M(typing.Generic[U]): pass",
    "a NamedTuple with methods": "class M(typing.NamedTuple):\n        a: int\n        def m(self): return 1",
    "a custom descriptor": "class M: field = Field()",
    "a dataclass with slots": "@dataclasses.dataclass(slots=True)\n    class M: a: int",
    "a dataclass with a tensor": "@dataclasses.dataclass\n    class M: a: object = y",
    "__del__": "class M:\n        def __del__(self): pass",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_breaks_the_graph(name: str) -> None:
    text = f"""
import dataclasses, enum, functools, threading, typing
U = typing.TypeVar("U")
made = []
class Meta(type): pass
class Registered:
    def __init_subclass__(cls): made.append(cls.__name__)
class Field:
    def __set_name__(self, owner, name): made.append(name)
def f(x):
    y = x + 1
    {REFUSED[name]}
    return y * 2, M.__name__, list(made)
"""
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False, stateful=True)
    namespace: dict = {}
    exec(text, namespace)
    with pytest.raises(stator.Unsupported, match="defined inside the function|created in the captured region"):
        stator.compile(namespace["f"], fullgraph=True, backend="eager")(torch.ones(3))


def test_names_of_the_body_are_looked_up_again() -> None:
    text = """
FACTOR, Base = 2, object
def f(x):
    class Made(Base):
        factor = FACTOR
        def step(self, value): return value * self.factor * FACTOR
    return Made().step(x)
"""
    same(Source(text), T(3), mutate=["FACTOR = 5", "Base = type('Base', (), {'step': 3})"], compare_dynamo=False)
