"""Builtin functions on traced values."""

import torch

from tests.support.corpus import Corpus
from tests.support.harness import T

corpus = Corpus()
core, effects, later_effects = corpus.core, corpus.effects, corpus.later_effects


class Plain:
    kind = "plain"

    def __init__(self, value=1):
        self.value = value

    def double(self):
        return self.value * 2


class Derived(Plain):
    @property
    def tripled(self):
        return self.value * 3


class Sized:
    def __len__(self):
        return 5

    def __bool__(self):
        return False

    def __int__(self):
        return 4

    def __float__(self):
        return 4.5

    def __index__(self):
        return 2

    def __abs__(self):
        return 6

    def __round__(self, digits=None):
        return 7 if digits is None else digits

    def __str__(self):
        return "sized"

    def __repr__(self):
        return "Sized()"

    def __format__(self, spec):
        return f"<{spec}>"

    def __hash__(self):
        return 11

    def __reversed__(self):
        return iter([3, 2, 1])

    def __neg__(self):
        return -5

    def __invert__(self):
        return 9

    def __divmod__(self, other):
        return (1, other)

    def __pow__(self, other, modulo=None):
        return (other, modulo)


core.values(
    """
    len(numbers), len(table), len(s), len((1, 2)), len({1, 2}), len(range(5)), len(x), len(b"ab"), len(x.shape)
    isinstance(n, int), isinstance(n, (str, int)), isinstance(x, torch.Tensor), isinstance(True, int), isinstance(None, type(None))
    isinstance(numbers, list), isinstance(table, dict), isinstance(numbers, collections.abc.Sequence), isinstance(Plain, type)
    isinstance(Derived(), Plain), isinstance(Plain(), Derived), isinstance(n, int | str), isinstance(x.dtype, torch.dtype)
    isinstance(x, torch.nn.Parameter), isinstance(x, (list, torch.Tensor)), isinstance(torch.nn.Parameter, type)
    issubclass(Derived, Plain), issubclass(bool, int), issubclass(Plain, (int, Derived)), issubclass(dict, collections.abc.Mapping)
    list(zip(numbers, s)), list(zip()), list(zip(numbers, range(2), strict=False)), dict(zip(s, numbers)), list(zip(*[(1, 2), (3, 4)]))
    list(map(str, numbers)), list(map(lambda a, c: a + c, numbers, (10, 20))), list(map(len, ["a", "bc"])), list(map(int, "123"))
    list(filter(None, [0, 1, "", "a"])), list(filter(lambda v: v > 1, numbers)), tuple(filter(callable, [len, 3]))
    list(enumerate(s)), list(enumerate(numbers, 5)), list(enumerate(numbers, start=2)), dict(enumerate("ab"))
    list(reversed(numbers)), list(reversed((1, 2))), list(reversed("abc")), list(reversed(range(4))), list(reversed(table))
    sorted(numbers), sorted(numbers, reverse=True), sorted("bca"), sorted(table), sorted([(1, "b"), (1, "a"), (0, "z")])
    sorted(numbers, key=lambda v: -v), sorted(["b", "A", "c"], key=str.lower), sorted(table.items(), key=lambda kv: kv[1], reverse=True)
    sorted(["aaa", "b", "cc"], key=len), sorted([[2], [1]]), sorted({3, 1, 2}), sorted(v % 3 for v in range(6))
    min(numbers), max(numbers), min(3, 1, 2), max("a", "b"), min(s), max([1.5, 2]), min((2, 1), (1, 5)), max(table)
    min(numbers, key=lambda v: -v), max(["aa", "b"], key=len), max([], default=7), min((), default=None), max(table, key=table.get)
    sum(numbers), sum(numbers, 10), sum([0.5, 0.25]), sum([[1], [2]], []), sum(range(5)), sum(v * v for v in numbers), sum(())
    any([0, 1]), any([]), all([1, 0]), all([]), any(v > 2 for v in numbers), all(v > 2 for v in numbers), any({"": 1})
    abs(-n), abs(-r), abs(3 + 4j), abs(True), round(2.567, 2), round(2.5), round(3.5), round(1234, -2), round(r), round(-1.5)
    divmod(17, 5), divmod(-17, 5), divmod(7.5, 2), pow(2, 10), pow(2, -1), pow(3, 4, 5), pow(2.0, 3), pow(n, k)
    type(n) is int, type(x) is torch.Tensor, type(numbers).__name__, type(None), type(Plain()) is Plain, type(type), type(x.shape)
    callable(len), callable(3), callable(Plain), callable(Plain().double)
    int("12"), int(3.9), int(True), int("ff", 16), int("0b11", 0), int(-2.5), int(), float("2.5"), float(3), float("inf"), float()
    str(n), str(r), str(None), str(True), str([1, "a"]), str((1,)), str({"k": 1}), str(x.dtype), str(x.shape), str(b"a"), str(int)
    bool(n), bool(0), bool(""), bool("a"), bool([]), bool([0]), bool(None), bool({}), bool(), bool(r), bool(range(0)), bool(())
    chr(97), ord("a"), chr(8364), hex(255), oct(8), bin(5), ascii("é"), format(n, "05d"), format(r, ".2f"), format("a", ">3")
    list(), list("abc"), list((1, 2)), list(range(3)), list(table), list({1: 2}.items()), list(v for v in "ab"), tuple(numbers)
    tuple(), tuple("ab"), tuple(range(2)), dict(), dict(a=1), dict([("k", 1)]), dict(table, c=3), dict({1: 2}), set("aab"), set(), frozenset([1, 1])
    complex(1, 2), complex("1+2j"), (1 + 2j).real, (1 + 2j).conjugate(), bytes(3), bytes([1, 2]), bytes("é", "utf8")
    range(3), range(1, 10, 3), list(range(5, 0, -2)), range(3)[1], 2 in range(3), range(10)[2:5], len(range(0, 10, 3)), range(3) == range(0, 3)
    slice(1), slice(1, 2, 3), slice(None).indices(5), slice(1, 2).start, [1, 2, 3, 4][slice(0, 3, 2)], slice(5) == slice(5)
    iter(numbers) is not None, next(iter(numbers)), next(iter([]), "end"), next(iter(table)), next((v for v in numbers if v == 2), None)
    getattr(Plain(4), "value"), getattr(Plain(), "missing", 9), hasattr(Plain(), "double"), hasattr(Plain(), "missing"), getattr(Derived(2), "tripled")
    getattr(n, "real"), hasattr(s, "upper"), getattr(s, "upper")(), getattr(torch, "float32"), hasattr(torch, "missing"), getattr(math, "pi")
    vars(Plain(3)), Plain(3).__dict__, Plain.__name__, Plain().__class__.__name__, Derived.__mro__[1] is Plain, Derived.__bases__
    len(Sized()), bool(Sized()), int(Sized()), float(Sized()), abs(Sized()), round(Sized()), round(Sized(), 2), [4, 5, 6][Sized()]
    str(Sized()), repr(Sized()), f"{Sized():spec}", format(Sized(), "q"), hash(Sized()), list(reversed(Sized())), -Sized(), ~Sized(), f"{Sized()!r}"
    divmod(Sized(), 3), Sized() ** 4, pow(Sized(), 2, 3), not Sized(), "%s" % Sized(), "{}".format(Sized()), range(Sized())
    repr("a'b"), repr(1.0), repr([None, "q"]), repr({"k": (1,)}), repr(b"x"), repr(range(3)), repr(float("nan")), repr(Plain), repr(len)
    math.sqrt(4), math.floor(2.7), math.ceil(2.1), math.prod([2, 3]), math.inf, math.isnan(math.nan), math.log2(8), math.gcd(12, 18), math.pi, math.e
    math.isclose(0.1 + 0.2, 0.3), math.pow(2, 3), math.exp(0), math.trunc(2.9), math.comb(5, 2), math.hypot(3, 4), math.fabs(-1), math.copysign(1, -0.0)
    operator.add(1, 2), operator.mul(n, 2), operator.getitem(numbers, 0), operator.contains(numbers, 3), operator.neg(n), operator.truth([])
    operator.lt(1, 2), operator.is_(None, None), operator.not_(1), operator.index(5), operator.length_hint([1, 2]), operator.length_hint({3}, 7), operator.concat([1], [2]), operator.floordiv(7, 2)
    n + 1, n - 1, n * 2, n / 2, n // 2, n % 2, n ** 2, -n, +n, ~n, n << 1, n >> 1, n & 2, n | 4, n ^ 1, n == 3, n != 3, n < 4, n >= 3
    r + 1, r * n, r ** 2, r // 0.3, r % 0.3, -r, r == 0.5, 1 / r, n + r, True + 1, 5 // -2, -5 % 3, 2 ** -1, 10 ** 20, 7 // 2.0
    1 < n, 1 <= n <= 3, n in (1, 3), n not in [3], "b" in s, "a" in table, None is None, n is None, 1 == 1.0, "a" < "b", [1, 2] < [1, 3], (1,) == (1,)
    numbers == [3, 1, 2], {"a": 1, "b": 2} == table, {1, 2} <= {1, 2, 3}, (1, 2) < (1, 2, 3), [] == (), 1 == "1", None == 0, [1] != [2]
    n.bit_length(), (255).to_bytes(2, "big"), int.from_bytes(b"a", "big"), r.is_integer(), (2.5).as_integer_ratio(), float.fromhex("0x1p3"), n.real, n.imag
    hash("a") == hash("a"), hash(1), hash((1, 2)) == hash((1, 2)), hash(None) == hash(None), hash(2.0) == hash(2)
    x is x, numbers is numbers, x is not y
    isinstance(x.shape, tuple), isinstance(len, types.BuiltinFunctionType), isinstance(Plain().double, types.MethodType)
    [*map(lambda p: p[0] + p[1], zip([1, 2], [3, 4]))], [*filter(lambda v: v % 2, map(lambda v: v + 1, range(5)))], {*range(3)}, {**table, "c": 0}
    list(zip(enumerate("ab"), reversed([1, 2]))), sum(map(len, ["a", "bb"])), max(map(abs, [-3, 2])), sorted(map(str, {2, 1})), tuple(map(tuple, ["ab", "c"]))
    """,
    using=globals(),
)  # fmt: skip


core.lines(
    """
    sum([x, y])
    sum(tensors)
    sum(tensors, x)
    sum(t * 2 for t in tensors)
    sum(x)
    abs(x - 1)
    pow(x, 2)
    pow(2, x)
    max(x.shape) + x
    min(x.size(0), 2) * x
    len(x) * x
    list(map(torch.relu, tensors))
    [a + c for a, c in zip(tensors, [x, y])]
    [t * k for k, t in enumerate(tensors)]
    list(reversed(tensors))[0] + 1
    sorted(tensors, key=lambda t: -t.dim())[0] + 1
    max(tensors, key=lambda t: t.shape[0]) + 1
    [t + 1 for t in filter(lambda t: t.dim() == 2, [x, torch.ones(1)])]
    dict(zip("ab", (t + 1 for t in tensors)))
    getattr(x, "sum")() + getattr(torch, "relu")(x)
    (getattr(x, "missing", None), hasattr(x, "shape"), x + 1)
    isinstance(x + 1, torch.Tensor) and x + 2
    (type(x + 1) is torch.Tensor, x + 1)
    (lambda *ts: torch.stack(ts))(*tensors)
    next(iter(tensors)) + 1
    next(iter(x)) + 1
    [row * 2 for row in reversed(x)]
    tuple(x.unbind(0))[0] + 1
    list(x)[1] * 2
    (x if callable(x) else x + 1)
    torch.tensor(int(3.7)) + x
    x + float("2.5") + int("3") + bool(1)
    x * len(str(n)) + ord("a")
    """,
    using=globals(),
)


@core
def set_and_delete_attributes(x):
    made = Plain(1)
    setattr(made, "extra", x + 1)
    setattr(made, "value", 5)
    before = hasattr(made, "extra")
    got = getattr(made, "extra") * made.double()
    delattr(made, "extra")
    return got, before, hasattr(made, "extra"), made.value


@core
def attribute_error_text(x):
    try:
        Plain().missing
    except AttributeError as error:
        return x + 1, str(error), error.name


@core
def iter_with_next(x, numbers):
    iterator = iter(numbers)
    first = next(iterator)
    rest = list(iterator)
    return x + first, rest, next(iterator, "end"), iter(iterator) is iterator


@core
def iter_with_sentinel(x):
    values = [1, 2, 3, 0, 5]
    return x + 1, list(iter(lambda: values.pop(0), 0)), values


@core
def zip_strict_raises(x, numbers):
    try:
        list(zip(numbers, [1], strict=True))
    except ValueError as error:
        return x + 1, str(error)


@core
def type_makes_checks(x, n):
    kinds = {int: "int", str: "str"}
    return x + 1, kinds[type(n)], type(n)(5.5), type([])((1, 2))


@core(x=T(3, 4, grad=True))
def isinstance_of_results(x):
    values, indices = x.max(0)
    return values, isinstance(values, torch.Tensor), isinstance(x.max(0), tuple), isinstance(x.size(), torch.Size)


@core
def object_sentinels(x):
    missing = object()
    table = {"k": missing}
    return x + 1, table.get("k") is missing, table.get("j", missing) is missing, missing == object()


later_effects.values("id(numbers) == id(numbers), id(x) == id(x), id(Plain) == id(Plain)", using=globals())
later_effects.lines(
    """
    [x + 1, divmod(x, 2)]
    [x + 1, len(3)]
    [x + 1, int("no")]
    [x + 1, sorted([1, "a"])]
    [x + 1, sum(["a"])]
    [x + 1, max([])]
    [x + 1, next(iter([]))]
    [x + 1, isinstance(1, 2)]
    [x + 1, iter(3)]
    [x + 1, chr(-1)]
    [x + 1, range(0, 1, 0)]
    [x + 1, getattr(n, "missing")]
    [x + 1, dict([1])]
    [x + 1, list(zip([1], [], strict=True))]
    """
)


@later_effects
def prints(x):
    print("a", 1, sep="-", end="!\n")
    return x + 1


@later_effects
def prints_a_tensor(x):
    print((x * 0 + 1).sum())
    return x + 1


@later_effects
def conversions_of_tensors(x):
    total = x.sum()
    return int(total), float(total), bool(total > 0), x.tolist(), total.item() + x, str(total), repr(x)


@later_effects
def sort_by_values(x):
    return sorted([x.sum(), x.sum() + 1, x.sum() - 1]), max(x[0]), min(x[:, 0])


@later_effects
def reads_a_file(x):
    with open(__file__) as file:
        return x + len(file.readline())


@effects(thing=lambda: with_attributes(Plain(), spare=1), calls=1)
def setattr_on_argument(x, thing):
    setattr(thing, "value", x + 1)
    delattr(thing, "spare")
    return thing.value * 2


def with_attributes(thing, **attributes):
    thing.__dict__.update(attributes)
    return thing


test_programs = corpus.test()
