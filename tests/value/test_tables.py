import pytest

from tests.value.snippets import cases, check

DICTS = cases("""
{}, {"a": 1}, dict(), dict(a=1), dict([("a", 1), (2, 3)]), dict({"a": 1}, b=2), dict(zip("ab", (1, 2))), {**{"a": 1}, "b": 2}
{"a": 1}["b"]
{}[1, 2]
{}[[]]
{"a": 1}.pop("b")
{}.popitem()
{"a": 1}.get("a"), {"a": 1}.get("b"), {}.get(1, 2), {"a": 1}.pop("a"), {"a": 1}.pop("b", 5), {"a": 1}.setdefault("b")
{}.get()
{}.get(1, 2, 3)
{}.update(1, 2)
{}.update(5)
{}.update([1])
{}.update([(1, 2, 3)])
dict(1)
dict([1, 2])
dict({}, {})
{}.foo
len({"a": 1}), bool({}), "a" in {"a": 1}, 1 in {1.0: 2}, True in {1: 2}, None not in {}
{"a": 1} == {"a": 1.0}, {"a": 1, "b": 2} == {"b": 2, "a": 1}, {1: 2} != {1: 3}, {} == [], {1: [1]} == {1: [1]}
{} < {}
{"a": 1} | {"b": 2}, {"a": 1, "b": 0} | {"a": 3}, {1: 1, 2: 2}.keys() & {2, 3}, {1: 1}.keys() | [5], {1: 1, 2: 2}.keys() - (1,), {1: 1}.keys() ^ {2: 2}.keys()
{} | []
{} + {}
list({"a": 1, "b": 2}), list({"a": 1}.values()), list({"a": 1}.items()), list(reversed({"a": 1, "b": 2})), list(reversed({"a": 1, "b": 2}.items()))
{1: 2}.keys() == {1}, {1: 2}.items() == {(1, 2)}, {1: 2}.keys() <= {1, 3}, {1: 2}.keys() < {1}, {1: 2}.keys() == {1: 3}.keys(), len({1: 2}.values())
(1, 2) in {1: 2}.items(), (1, 3) in {1: 2}.items(), 5 in {1: 2}.items(), 2 in {1: 2}.values(), 1 in {1: 2}.keys(), {1: 2}.keys().isdisjoint([2])
dict.fromkeys("ab"), dict.fromkeys([1, 2], 0), dict.fromkeys(count_to(2), [])
dict.fromkeys()
dict.fromkeys(5)
repr({"a": [1]}), str({1: (2,)}), repr({})
{k: v for k, v in zip("abc", range(3))}, {v: k for k, v in {"a": 1}.items()}
sorted({"b": 1, "a": 2}), sorted({"b": 1, "a": 2}.items()), max({"a": 3, "b": 5}, key={"a": 3, "b": 5}.get), sum({"a": 1, "b": 2}.values())
dict.get({"a": 1}, "a"), dict.__getitem__({"a": 1}, "a"), {"a": 1}.__contains__("a"), {"a": 1}.__len__()
types.MappingProxyType({"a": 1})["a"], len(types.MappingProxyType({"a": 1})), types.MappingProxyType({"a": 1}).get("b", 2), list(types.MappingProxyType({"a": 1}).items())
{"a": 1}.keys().mapping["a"]
{(1, "a"): 1, (1, "b"): 2}[(1, "b")], {None: 1}[None], {1: "int", "1": "str"}["1"], {frozenset([1]): 2}[frozenset([1])]
{int: 1, str: 2}[str], {len: 1}[len], {Plain: 1}.get(Plain), {torch.float32: "f"}[torch.float32]

d = {"a": 1}
d["b"] = 2; d["a"] = 3; d.update(c=4); d.update({"d": 5}, e=6); d.update([("f", 7)]); d |= {"g": 8}; d |= [("h", 9)]
r = d, d.pop("a"), d.popitem(), d.setdefault("b", 0), d.setdefault("z", 1), d.copy(), list(d)

d = {"a": 1, "b": 2}
del d["a"]
d["a"] = 3
r = list(d.items()), d.clear(), d

d = {"a": 1}
del d["b"]

d = {"a": 1, "b": 2}
for k in d:
    d[k + "x"] = 1

d = {"a": 1, "b": 2}
for k in list(d):
    del d[k]
r = d

d = {i: i for i in range(30)}
for i in range(0, 30, 2): del d[i]
d[0] = "again"
r = list(d), 4 in d, d[29], len(d)

d = {}
d["self"] = d
r = d["self"]["self"] is d

k = d = {"a": 1}
keys, values, items = d.keys(), d.values(), d.items()
d["b"] = 2
r = list(keys), list(values), list(items), "b" in keys, len(items)

p = Plain(); q = Plain()
d = {p: 1, q: 2, x: 3}
r = d[p], d[q], d[x], p in d, len(d)

def g(**kwargs): return kwargs
d = g(a=1, **{"b": 2})
r = d, sorted(d), g(**d) == d, g(**d) is d

d = {"b": x, "a": x * 2}
r = d, d["b"] is x, [v.shape for v in d.values()], sum(d.values())

d = {"a": 1}
d.update(fails_after(2))

d = {}
it = iter({"a": 1, "b": 2}.items())
r = next(it), list(it), next(it, None)

class Attributes(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name)
    def __setattr__(self, name, value): self[name] = value
    def __missing__(self, key): return "missing " + key
a = Attributes(b=1)
a.c = 2
r = a.b, a["c"], a["zz"], a == {"b": 1, "c": 2}, dict(a), a.get("q"), len(a)

class Upper(dict):
    def __setitem__(self, key, value): super().__setitem__(key.upper(), value)
    def __iter__(self): return iter(["X"])
u = Upper()
u["a"] = 1
u.update(b=2)
r = dict.items(u), len(u), list(u), "A" in u, [*u.values()]
""")


COLLECTIONS = cases("""
OrderedDict(a=1, b=2), OrderedDict([("a", 1)]) == {"a": 1}, OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1), list(reversed(OrderedDict(a=1, b=2)))
OrderedDict(a=1).popitem(), OrderedDict(a=1, b=2).popitem(last=False), OrderedDict(a=1).pop("b", 3), OrderedDict(a=1) | {"b": 2}, OrderedDict(a=1).copy()
OrderedDict().popitem()
OrderedDict().pop("a")
OrderedDict().move_to_end("a")
defaultdict(list), defaultdict(int, {"a": 1}), defaultdict(int, a=2)["a"], defaultdict().default_factory, defaultdict(list).default_factory
defaultdict()["a"]
defaultdict(5)
Counter("abca"), Counter("abca").most_common(1), Counter(a=2)["zz"], Counter("ab") + Counter("b"), Counter("abb") - Counter("b"), list(Counter("ba").elements()), sum(Counter("aab").values())
Counter([1, 2, 1]).most_common(), Counter({"a": 3}) & Counter("aa"), Counter("a") | Counter("b")

d = OrderedDict(a=1, b=2, c=3)
d.move_to_end("a"); d.move_to_end("c", last=False)
r = list(d), d.popitem(), d.popitem(False), d, list(d.items()), [*d.keys()]

d = defaultdict(list)
d["a"].append(1); d["a"].append(2); d["b"]
r = d, d["a"], "zz" in d, d.get("zz"), len(d), d.copy(), dict(d)

d = defaultdict(lambda: 5)
d["a"] += 1
r = dict(d)

d = defaultdict(int)
for c in "hello": d[c] += 1
r = sorted(d.items()), d.default_factory is int

c = Counter()
c["a"] += 2; c.update("abc"); c.subtract("a")
r = dict(c), c["missing"], len(c)

ChainMap = collections.ChainMap
c = ChainMap({"a": 1}, {"a": 2, "b": 3})
r = c["a"], c["b"], len(c), sorted(c)
""")

SETS = cases("""
set(), {1, 2, 3}, set("hello"), frozenset([1, 2]), set(range(5)), {*range(3), 7}, {v % 3 for v in range(10)}
list({5, 1, 100, 17, 33, 49, 2}), [*{"a"}], list(set([3, 1, 2])), list(frozenset((40, 8, 16, 24, 32, 0))), sorted({3, 1, 2})
list({1, 17, 33, 49, 65, 81, 97}), list({8, 16, 24} | {32, 40, 0}), list({v * 8 for v in range(20)}), list(set(range(0, 100, 7)) - {7, 14})
{1, 2} | {2, 3}, {1, 2} & {2, 3}, {1, 2} - {2}, {1, 2} ^ {2, 3}, {1} | frozenset([2]), frozenset([1]) | {2}
{1, 2} == {2, 1}, {1} != {2}, {1} < {1, 2}, {1} <= {1}, {1, 2} > {1}, {1} >= {2}, {1} == frozenset([1]), {1} == [1]
{1} | [1]
{1} < [1]
{1} + {1}
{[]}
set(1)
set([1], 2)
{1}.remove(2)
set().pop()
frozenset([1]).add(2)
{1}.add()
{1}.issubset(5)
{1, 2}.issubset([1, 2, 3]), {1, 2}.issuperset((1,)), {1}.isdisjoint([2]), {1, 2}.union([3], (4,)), {1, 2}.intersection([2], {2, 5}), {1, 2, 3}.difference([1], [2])
{1, 2}.symmetric_difference([2, 3]), {1}.copy(), frozenset([1]).copy(), set().union(), {1}.intersection(), {1} & {1: 2}.keys()
{1, 2}.symmetric_difference([1], [2])
1 in {1, 2}, "a" in set(), frozenset([1]) in {frozenset([1])}, {1} in {frozenset([1])}, len({1, 1.0, True}), bool(set())
[] in {1}
hash(frozenset([1, 2])) == hash(frozenset([2, 1]))
hash({1})
repr({1}), repr(set()), repr(frozenset([1])), str(frozenset())
{frozenset([1]): 2}[frozenset([1])]
set.union({1}, {2}), set.__len__({1}), {1}.__contains__(1), {1}.__or__({2}), {1}.__or__([2])
max({1, 5, 3}), sum({1, 2}), sorted({"b", "a"}, reverse=True), len(set("mississippi")), tuple({7})

s = {1, 2}
s.add(3); s.add(1); s.discard(9); s.discard(1); s.update([4, 5], (6,)); s.remove(2); s |= {7}; s &= {3, 4, 7, 8}; s -= {3}; s ^= {4, 9}
r = s, sorted(s), s.pop() in (7, 9), len(s), s.clear(), s

s = set(range(20))
for i in range(0, 20, 3): s.discard(i)
s.add(100); s.update({64, 32, 0})
r = list(s), s.pop(), s.pop(), list(s)

s = {1, 2, 3, 4}
s.difference_update([1]); s.intersection_update([2, 3]); s.symmetric_difference_update([3, 7])
r = s

s = {1, 2}
for v in s: s.add(v + 10)

s = {1, 2}
t = s
t |= {3}
u = s | {4}
r = s is t, s, u

p = Plain()
s = {p, x, int}
r = p in s, x in s, int in s, Plain() in s, len(s), s - {p} == {x, int}

s = frozenset([1])
s |= {2}
r = s, type(s) is frozenset

s = {1, 2}
s -= s
r = s

s = {3, 1, 2}
it = iter(s)
r = next(it), sorted(it), next(it, None)

class Tags(set):
    def add(self, item): super().add(item.lower())
t = Tags(["A"])
t.add("B")
r = sorted(t), "b" in t, isinstance(t, set), len(t)
""")

DEQUES = cases("""
deque(), deque([1, 2]), deque("abc", maxlen=2), deque([1], 3).maxlen, deque().maxlen, deque(range(5), 0), deque(count_to(3))
deque([1, 2])[0], deque([1, 2])[-1], len(deque([1])), bool(deque()), 1 in deque([1]), deque([1]) == deque([1]), deque([1]) < deque([2])
deque([1])[5]
deque([1])["a"]
deque().pop()
deque().popleft()
deque([1]).remove(2)
deque([1]).index(2)
deque(5)
deque([1], -1)
deque([1], "a")
deque([1]) + [1]
deque([1]) + deque([2]), deque([1]) * 2, deque([1, 2], 3) * 2, deque([1]) == [1]
deque([1, 2, 1]).count(1), deque([1, 2]).index(2), deque([1, 2]).copy(), list(reversed(deque([1, 2]))), sorted(deque([2, 1]))
deque([1], 1).insert(0, 2)
hash(deque())

d = deque([1, 2, 3])
d.append(4); d.appendleft(0); d.extend([5, 6]); d.extendleft([-1, -2]); d.rotate(2); d.rotate(-1); d.insert(1, "i"); d[0] = "s"
r = d, d.pop(), d.popleft(), d.remove(3), d.reverse(), list(d), len(d)

d = deque(maxlen=2)
for i in range(5): d.append(i)
d.appendleft(9)
d += [7]
del d[0]
r = d, d.clear(), len(d)

d = deque([1, 2])
for v in d: d.append(v)

d = deque([x, x + 1])
r = d.popleft() is x, d
""")


@pytest.mark.parametrize("statements", DICTS)
def test_dicts(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", COLLECTIONS)
def test_collections(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", SETS)
def test_sets(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", DEQUES)
def test_deques(statements: str) -> None:
    check(statements)
