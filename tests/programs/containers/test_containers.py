"""Containers: created, read and mutated while tracing, and read from outside."""

import collections
import dataclasses
import enum
import typing

import torch

from tests.support.corpus import Corpus

corpus = Corpus()
core, effects, later_effects = corpus.core, corpus.effects, corpus.later_effects

Pair = collections.namedtuple("Pair", ["first", "second"], defaults=[7])


class Typed(typing.NamedTuple):
    a: int
    c: torch.Tensor = None

    def total(self):
        return self.a + 1


@dataclasses.dataclass
class Record:
    a: int
    c: object = None
    items: list = dataclasses.field(default_factory=list)

    def doubled(self):
        return self.a * 2


@dataclasses.dataclass(frozen=True, order=True)
class Frozen:
    a: int
    c: int = 2


@dataclasses.dataclass
class Initialised:
    a: int
    total: int = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = self.a * 10


class Color(enum.Enum):
    RED = 1
    GREEN = "g"
    ALIAS = 1

    @property
    def lower(self):
        return self.name.lower()


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


class Flags(enum.Flag):
    A = 1
    B = 2
    C = 4


class Names(str, enum.Enum):
    ONE = "one"


core.values(
    """
    (1, 2) + (3,), (1, 2) * 2, 2 * (1,), (1, 2, 3)[1], (1, 2, 3)[-1], (1, 2, 3)[1:], (1, 2, 3)[::-1], (1, 2, 1).count(1), (1, 2).index(2)
    1 in (1, 2), (1, 2) == (1, 2), (1, 2) < (1, 3), len(()), tuple([1, 2]), (*"ab", 1), (x, y)[0] is x, (1, (2, 3))[1][0], hash((1, "a")) == hash((1, "a"))
    [1, 2] + [3], [1] * 3, [1, 2, 3][0], [1, 2, 3][-2:], [1, 2, 3, 4][::2], [3, 1].index(1), [1, 1].count(1), [1, [2]][1][0], [1, 2] == [1, 2]
    [0, 1, 2][n - 1], numbers[0], numbers[-1], numbers[1:], numbers + [1], numbers * 2, numbers.index(2), numbers.count(1), 2 in numbers, numbers[:], list(numbers) is numbers
    numbers.copy(), numbers.copy() is numbers, numbers == [3, 1, 2], numbers > [1], [*numbers, *numbers], tuple(numbers), set(numbers) == {1, 2, 3}
    {"a": 1}["a"], {"a": 1}.get("b"), {"a": 1}.get("b", 5), "a" in {"a": 1}, len({"a": 1}), list({"a": 1, "b": 2}), {1: 2} | {3: 4}, {"a": 1} == {"a": 1}
    list({"b": 1, "a": 2}.keys()), list({"b": 1}.values()), list({"b": 1, "a": 2}.items()), {"a": 1}.keys() & {"a", "b"}, {"a": 1}.items() == {"a": 1}.items()
    table["a"], table.get("z"), table.get("z", 0), "a" in table, "z" not in table, list(table), list(table.items()), len(table), table | {"z": 1}, {**table}, table.copy(), dict(table)
    sorted(table.values()), list(reversed(table)), table.keys() == {"a", "b"}, table == {"b": 2, "a": 1}, [k + str(v) for k, v in table.items()], max(table.values())
    dict.fromkeys("ab"), dict.fromkeys([1, 2], 0), {(1, 2): 3}[(1, 2)], {1: "a", 1.0: "b"}, {True: 1}[1], {None: 2}[None], {torch.float32: 4}[torch.float32], {int: 3}[int]
    {1, 2} | {3}, {1, 2} & {2}, {1, 2} - {2}, {1, 2} ^ {2, 3}, 1 in {1}, len({1, 1}), {1, 2} == {2, 1}, {1} < {1, 2}, {1, 2} >= {1}, {1}.isdisjoint({2}), {1}.issubset({1, 2}), {1, 2}.issuperset({1})
    {1}.union([2], [3]), {1, 2}.intersection([2]), {1, 2}.difference([2]), {1}.symmetric_difference([2]), {1}.copy(), frozenset([1, 2]) | {3}, frozenset([1]) == {1}, frozenset("ab")
    range(5)[1:3], range(5)[::-1], list(range(2, 8, 3)), range(10).index(4), range(10).count(4), range(3).start, range(1, 9, 2).step, range(0) == range(2, 2), 3.0 in range(5)
    slice(1, 5, 2).indices(4), (slice(1).stop, slice(1, 2, 3).step), [1, 2, 3][slice(None, None, -1)], s[1:], s[::-1], s[0], "b" in s, b"abc"[1], b"abc"[:2], b"a" + b"b", b"ab".hex(), b"a b".split()
    collections.OrderedDict(a=1, b=2), list(collections.OrderedDict([("b", 1), ("a", 2)])), collections.OrderedDict(a=1) == {"a": 1}, collections.OrderedDict(a=1, b=2) == collections.OrderedDict(b=2, a=1)
    collections.defaultdict(list), collections.defaultdict(int, a=1)["a"], collections.defaultdict(lambda: 5)["z"], collections.defaultdict(list, {"k": [1]})["k"]
    collections.deque([1, 2, 3]), collections.deque([1, 2, 3], maxlen=2), collections.deque([1, 2])[0], len(collections.deque("abc")), list(collections.deque([1, 2])), collections.deque([1]) == collections.deque([1])
    collections.Counter("aab"), collections.Counter("aab")["a"], collections.Counter("ab")["z"], collections.Counter("aab").most_common(1), collections.Counter(a=1) + collections.Counter(a=2), sorted(collections.Counter("ab").elements())
    Pair(1, 2), Pair(1), Pair(second=1, first=2), Pair(1, 2).first, Pair(1, 2)[1], Pair(1, 2) == (1, 2), Pair(1, 2)._replace(first=5), Pair(1, 2)._asdict(), Pair._fields, list(Pair(1, 2)), Pair._make([1, 2]), len(Pair(1)), Pair(1, 2) + (3,)
    Typed(1), Typed(1, x), Typed(3).total(), Typed(a=1).c, isinstance(Typed(1), tuple), isinstance(Pair(1), Pair), Typed._field_defaults, repr(Pair(1, 2))
    Record(1), Record(1, c=2).c, Record(1).doubled(), Record(1) == Record(1), Record(1) == Record(2), Record(a=1, items=[1]).items, Record(1).items is Record(1).items, repr(Record(1)), dataclasses.is_dataclass(Record)
    Frozen(1), Frozen(1) < Frozen(2), Frozen(1) == Frozen(1, 2), Frozen(3, 4).a + Frozen(3, 4).c, hash(Frozen(1)) == hash(Frozen(1)), Initialised(3).total, Initialised(3), dataclasses.replace(Frozen(1), a=5)
    [f.name for f in dataclasses.fields(Record)], dataclasses.asdict(Frozen(1)), dataclasses.astuple(Frozen(1)), {Frozen(1): 2}[Frozen(1)]
    Color.RED, Color.RED.name, Color.GREEN.value, Color(1), Color["GREEN"], Color.RED is Color.ALIAS, Color.RED == 1, Color.RED.lower, list(Color), len(Color), Color.RED in Color, isinstance(Color.RED, Color), Color("g") is Color.GREEN
    Level.LOW + 1, Level.LOW < Level.HIGH, Level(5), int(Level.HIGH), Level.HIGH == 5, [0] * Level.HIGH, max(Level), {Level.LOW: 1}[1], Level.LOW.value, f"{Level.HIGH}", str(Color.RED), repr(Color.RED), hash(Color.RED) == hash(Color.RED)
    Flags.A | Flags.B, Flags.A in (Flags.A | Flags.C), Flags.A & Flags.B, bool(Flags.A & Flags.B), ~Flags.A, (Flags.A | Flags.B).value, Names.ONE == "one", Names.ONE.upper(), Names("one"), {Names.ONE: 1}["one"]
    [[1, 2], [3]][0][1], {"k": [1, {"j": (2, 3)}]}["k"][1]["j"][0], [(a, c) for a, c in {"k": 1}.items()], [*{1: 2}], {**{"a": 1}, **{"a": 2}}, [*range(3)][1:], (lambda *a: a)(*[1, 2])
    """,
    using=globals(),
)  # fmt: skip


@core
def list_methods(x):
    items = [3, 1]
    items.append(2)
    items.extend((5, 4))
    items.extend(range(2))
    items.insert(1, 9)
    items.insert(-1, 8)
    items.insert(100, 7)
    popped = items.pop(), items.pop(0), items.pop(-2)
    items.remove(9)
    items.sort()
    items.reverse()
    items.sort(key=lambda v: v % 3, reverse=True)
    copied = items.copy()
    copied.clear()
    items[0] = x
    items[1:3] = [x + 1]
    items[-1:] = []
    items += [1, 2]
    items *= 2
    return items, popped, copied, len(items), [v for v in items if isinstance(v, int)].index(2)


@core(compare_dynamo=False)  # nothing for a graph to do
def list_slices(x):
    items = list(range(10))
    items[2:4] = "abc"
    items[::4] = [x, x + 1, x * 2]
    del items[1]
    del items[-3:]
    del items[::3]
    return items, items[-100:100], items[5:1], items[::-2]


@core
def list_errors(x, s):
    out = []
    for thrower in (
        lambda: [].pop(), lambda: [1].remove(2), lambda: [1].index(2), lambda: [1, 2][5], lambda: [1].insert(),
        lambda: [1][s], lambda: [1] + (2,), lambda: [1, 2].__setitem__(7, 1), lambda: [2, "a"].sort(), lambda: {}.popitem(),
        lambda: {}[1], lambda: {1: 2}.pop(3), lambda: {[]: 1}, lambda: {1}.remove(2), lambda: set().pop(), lambda: (1,).index(5),
        lambda: collections.deque().popleft(), lambda: Color(99), lambda: Color["NOPE"], lambda: setattr(Frozen(1), "a", 2),
        lambda: Pair(), lambda: Record(), lambda: (1, 2).append(3), lambda: "ab".index("z"), lambda: [1, 2].extend(3),
    ):  # fmt: skip
        try:
            thrower()
            out.append("no error")
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out


@core
def dict_methods(x):
    table = {"a": x}
    table["b"] = x + 1
    table.update({"c": 3}, d=4)
    table.update([("e", 5)])
    table |= {"f": 6}
    popped = table.pop("c"), table.pop("zz", None), table.popitem()
    first = table.setdefault("g", []), table.setdefault("a", 0)
    table["g"].append(1)
    del table["d"]
    table["a"] = x * 2
    copied = table.copy()
    copied.clear()
    return table, popped, first, copied, list(table), list(table.keys())[0], dict(reversed(table.items()))


@core
def dict_order_after_changes(x):
    table = {"a": 1, "b": 2, "c": 3}
    del table["a"]
    table["a"] = x + 1
    table["b"] = 5
    return table, list(table), next(iter(table)), [*table.values()][:2]


@core
def dict_views_follow(x):
    table = {"a": 1}
    keys, values, items = table.keys(), table.values(), table.items()
    table["b"] = x + 1
    return len(keys), list(keys), list(values)[1], ("a", 1) in items, "b" in keys, keys & {"b"}, keys - {"a"}


# torch._dynamo makes a placeholder of a variable when a comprehension captures it, Stator when it is used.
@core(compare_dynamo=False)
def dict_with_tensor_values(x, named):
    out = {key: value + x for key, value in named.items()}
    out["sum"] = sum(out.values())
    return out, [out[key] for key in sorted(out)]


@core
def dict_grows_in_loop_over_copy(x):
    table = {k: k for k in range(3)}
    for key in list(table):
        if key == 1:
            del table[key]
        else:
            table[key + 10] = x + key
    return table


@core
def dict_of_lists(x):
    groups = {}
    for k in range(5):
        groups.setdefault(k % 2, []).append(x + k)
    return groups


@core
def set_methods(x):
    found = {1, 2}
    found.add(3)
    found.discard(9)
    found.remove(1)
    found.update([5, 6], {7})
    found |= {8}
    found &= {2, 3, 5, 8}
    found -= {2}
    found ^= {3, 4}
    found.intersection_update({4, 5, 8})
    found.difference_update({8})
    found.symmetric_difference_update({5, 6})
    copied = found.copy()
    copied.clear()
    return x + len(found), sorted(found), copied, 4 in found


@core
def set_of_tensors_by_identity(x, y):
    found = {x, y, x}
    return x + len(found), x in found, (x + 1) in found


@core
def ordered_dict(x):
    table = collections.OrderedDict(a=x, b=2)
    table["c"] = 3
    table.move_to_end("a")
    table.move_to_end("c", last=False)
    first = table.popitem(last=False)
    return table, first, list(table), list(table.values())[-1] + 1


@core
def default_dict(x):
    groups = collections.defaultdict(list)
    for k in range(4):
        groups[k % 2].append(x + k)
    counts = collections.defaultdict(int)
    for letter in "hello":
        counts[letter] += 1
    return groups, counts, 9 in groups, groups.get(9)


@core
def deque_methods(x):
    line = collections.deque([1, 2, 3], maxlen=5)
    line.append(4)
    line.appendleft(x)
    line.append(5)
    popped = line.pop(), line.popleft()
    line.extend([6, 7])
    line.extendleft([8])
    line.rotate(1)
    line.reverse()
    line.remove(7) if 7 in line else None
    line[0] = x + 1
    return line, popped, len(line), list(line)[-1]


@core
def counter_methods(x):
    counts = collections.Counter("mississippi")
    counts.update("mm")
    counts.subtract("s")
    counts["z"] += 2
    return x + counts["m"], counts.most_common(), counts, counts.total()


@later_effects  # `heapq` is written in C, and not modelled
def counter_of_the_most_common(x):
    return x + 1, collections.Counter("mississippi").most_common(2)


@core
def chain_map(x):
    scopes = collections.ChainMap({"a": 1}, {"a": 2, "b": 3})
    return x + scopes["a"] + scopes["b"], list(scopes), "c" in scopes


@core
def dataclass_with_tensors(x):
    record = Record(1, c=x + 1)
    record.items.append(record.c * 2)
    record.a += 5
    return record.c * record.a, record.items[0]


@core
def dataclass_is_returned(x):
    record = Record(3, x * 2)
    record.items.append(4)
    return record


@core
def namedtuple_is_returned(x):
    pair = Pair(x + 1, second=Typed(2, x))
    first, second = pair
    return pair, first is pair.first, second.c is x


@core
def nested_structures_are_returned(x, y):
    shared = [x + 1]
    return {
        "a": shared,
        "b": (shared, {"c": shared[0]}),
        "d": [y, {"e": {1, 2}}],
        "f": None,
        "g": range(3),
        "h": slice(1, 2),
    }


@core
def containers_compare_by_identity(x):
    first, second = [1], [1]
    third = first
    return x + 1, first is second, first is third, first == second, [first, second, third]


@core
def container_holds_itself_by_alias(x):
    row = [x + 1]
    grid = [row] * 2
    grid[0].append(5)
    return grid


@core
def tensors_in_list_by_identity(x, y):
    found = [x, y]
    return x + 1, found[0] is x, any(t is y for t in found), [t is x for t in found]


@core
def unpack_nested(x, named):
    (a, c), d = (x, 1), [2]
    [[e], *f] = [[x * 2], 5, 6]
    g, h = named
    k, j = {"k": 1, "j": 2}.values()
    return a + e, c, d, f, g, h, k, j


# torch._dynamo makes a placeholder of a variable when a comprehension captures it, Stator when it is used.
@core(compare_dynamo=False)
def zip_dict_and_lists(x, tensors, named):
    return {key: (value, t + x) for (key, value), t in zip(named.items(), tensors)}


@core(color=lambda: Color.GREEN)
def enum_in_branches(x, color):
    if color is Color.RED:
        x = x + 1
    elif color == Color.GREEN:
        x = x * 2
    return x, {Color.RED: "r", Color.GREEN: "g"}[color]


@core(record=lambda: Record(2, c=torch.ones(3), items=[1, 2]))
def outside_dataclass(record):
    return record.c * record.a + len(record.items) + record.doubled()


# torch._dynamo names the placeholders by field, Stator by position.
@core(pair=lambda: Pair(torch.ones(3), [1, torch.zeros(2)]), compare_dynamo=False)
def outside_namedtuple(pair):
    return pair.first + 1, pair.second[1] - 1, pair[0] is pair.first, pair.second[0]


@core(table=lambda: collections.OrderedDict(b=torch.ones(2), a=torch.zeros(2)))
def outside_ordered_dict(table):
    return [value + k for k, value in enumerate(table.values())], list(table)


@core(table=lambda: collections.defaultdict(list, {"k": [torch.ones(2)]}))
def outside_defaultdict(table):
    return table["k"][0] + 1, "z" in table, table.get("z")


@effects(line=lambda: collections.deque([torch.ones(2), 3]))
def outside_deque(line):
    return line[0] * line[1], len(line), list(line)[1]


@core(found={1, 2, 3}, frozen=frozenset("ab"))
def outside_sets(x, found, frozen):
    return x + len(found), 2 in found, "z" in frozen, found | {9}, frozen == {"a", "b"}


@core(data={"layers": [{"w": torch.ones(2), "act": "relu"}, {"w": torch.zeros(2), "act": None}]})
def outside_nested_config(data):
    out = []
    for layer in data["layers"]:
        t = layer["w"] + 1
        out.append(torch.relu(t) if layer["act"] == "relu" else t)
    return out


@core(given=lambda: [torch.ones(2), [1]])
def outside_list_is_returned(given):
    return given, given[0] + 1, given[1]


@core(given=lambda: {"a": [torch.ones(2)]})
def copy_of_outside_is_changed(given):
    mine = dict(given)
    mine["b"] = 2
    inner = list(given["a"])
    inner.append(3)
    return mine, inner, given["a"][0] + 1


# Mutation of what came from outside.


@effects(calls=1)
def outside_list_grows(x, numbers):
    numbers.append(4)
    numbers[0] = x + 1
    numbers += [5]
    del numbers[1]
    return numbers, x * 2


@effects(calls=1)
def outside_list_sorted(x, numbers):
    numbers.sort()
    numbers.reverse()
    return x + numbers[0], numbers.pop()


@effects(calls=1)
def outside_dict_changes(x, table):
    table["c"] = x + 1
    table.pop("a")
    table.update(z=1)
    table.setdefault("q", []).append(2)
    return x * 2


@effects(found=lambda: {1, 2}, calls=1)
def outside_set_changes(x, found):
    found.add(3)
    found.discard(1)
    return x + len(found)


@effects(line=lambda: collections.deque([1, 2]), calls=1)
def outside_deque_changes(x, line):
    line.append(x + 1)
    return line.popleft(), x + 2


@effects(table=lambda: collections.defaultdict(list), calls=1)
def outside_defaultdict_fills(x, table):
    table["new"].append(x + 1)
    return x * 2


@effects(record=lambda: Record(1), calls=3, fresh=False)
def outside_record_counts(x, record):
    record.a += 1
    record.items.append(x + record.a)
    return x * record.a


@later_effects(calls=1)
def mutation_then_exception(x, numbers):
    numbers.append(x + 1)
    raise ValueError("after the mutation")


@later_effects(calls=1)
def mutated_while_iterating(x, table):
    for key in table:
        table[key + "x"] = 1
    return x


@later_effects(calls=1)
def cyclic_structure(x):
    loop = [x + 1]
    loop.append(loop)
    return loop


@effects(data=lambda: {"layers": [{"w": 1}]}, calls=1)
def nested_outside_changes(x, data):
    data["layers"][0]["w"] = x + 1
    data["layers"].append(None)
    return x


test_programs = corpus.test()
