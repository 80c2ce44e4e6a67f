import pytest

from tests.value.snippets import cases, check

BUILTINS = cases("""
list(enumerate("ab")), list(enumerate("ab", 5)), list(enumerate([x], start=-1)), next(enumerate("a"))
enumerate(5)
enumerate([], "a")
list(zip("ab", (1, 2, 3))), list(zip()), list(zip("a")), list(zip(count_to(3), Countdown(5))), dict(zip("ab", [x, x + 1]))
list(zip("ab", (1, 2), strict=True))
list(zip("ab", (1,), strict=True))
list(zip("a", (1, 2), strict=True))
list(zip("ab", (1, 2), (1,), strict=True))
zip(1)
zip("a", stric=True)
list(map(lambda v: v * 2, [1, 2])), list(map(lambda a, b: a + b, [1, 2], (3, 4, 5))), list(map(str, range(3))), list(map(abs, (-1, 2)))
map(len)
list(map(lambda v: 1 // v, [1, 0]))
list(map(None, [1]))
list(filter(None, [0, 1, "", "a"])), list(filter(lambda v: v > 1, [1, 2, 3])), list(filter(str.isdigit, "a1b2")), list(filter(None, count_to(3)))
filter(None)
filter(None, 5)
list(reversed([1, 2])), list(reversed((1, 2))), list(reversed("ab")), list(reversed(range(3))), next(reversed([5]))
reversed({1})
reversed(5)
reversed()
any([0, 1]), any([]), all([]), all([1, 0]), any(v > 2 for v in range(5)), all(map(bool, [1, ""])), any(count_to(2))
any(5)
sum([1, 2]), sum([]), sum([1.5, 2]), sum((v for v in range(4)), 10), sum([[1], [2]], []), sum([x, x]), sum([1], start=2), sum([0.1] * 10)
sum("ab")
sum(["a"])
sum([], "")
sum(5)
sum([1], 2, 3)
next(iter([1])), next(iter([]), 5), list(iter("ab")), next(iter({"a": 1})), iter([1]).__next__()
next(iter([]))
next([1])
next()
iter(5)
iter(5, 1)
len(5)
len(iter([]))
len()
len([1], 2)
min(1, 2), min([3, 1, 2]), max("abc"), min([], default=5), max([1, -3], key=abs), min("b", "a", key=ord), max(count_to(4)), max([(1, "a"), (1, "b")]), min(1, 1.0), max(1, True)
min([])
max()
min(5)
max([], key=len)
min(1, 2, default=3)
min(1, "a")
max([1], foo=2)
sorted([3, 1, 2]), sorted("bca"), sorted([3, 1], reverse=True), sorted(["bb", "a"], key=len), sorted([(1, "b"), (0, "c"), (1, "a")], key=lambda p: p[0]), sorted({3: 1, 1: 2}), sorted(count_to(3), key=lambda v: -v)
sorted([(1, "b"), (0, "c"), (1, "a")], key=lambda p: p[0], reverse=True), sorted([1, 2, 3], key=lambda v: v % 2), sorted([[2], [1]]), sorted([0.5, -1, True])
sorted([1, "a"])
sorted(5)
sorted()
sorted([1], 2)
sorted([1], foo=2)
sorted([None, None])
[s.value for s in sorted([Same(3), Same(1), Same(2)])], min([Same(3), Same(1)]).value
[p[1] for p in sorted([(Same(1), "a"), (Same(0), "b"), (Same(1), "c")], key=lambda p: p[0], reverse=True)]
[*"ab", *(1, 2), *{3: 4}, *{5}, *range(2)], {**{"a": 1}, **dict(b=2)}
1 in count_to(3), 5 in count_to(3), 2 in iter([1, 2]), 3 in map(int, "123"), "b" in (c for c in "abc")
[i for i in range(10) if i % 2 if i > 2], [(i, j) for i in range(2) for j in range(i)], {i: j for i, j in enumerate("ab")}
functools.reduce(lambda a, b: a + b, [1, 2, 3]), functools.reduce(operator.mul, count_to(1), 5), functools.reduce(lambda a, b: b, [], 1), functools.reduce(max, [3, 9, 2])
functools.reduce(operator.add, [])
functools.reduce(operator.add, 5)

seen = []
def produce():
    seen.append(1)
    return len(seen)
r = list(iter(produce, 3)), seen

it = iter([1, 2, 3])
r = [(a, b) for a, b in zip(it, it)]

it = iter("abc")
r = [], list(zip(it, [1])), list(it)

m = map(lambda v: v + x, [1, 2])
r = [next(m), next(m)]

g = (v * 2 for v in range(4))
r = next(g), list(g), list(g)

e = enumerate(zip("ab", "cd"))
r = [(i, a, b) for i, (a, b) in e], list(e)

r = []
try:
    for v in map(lambda v: 1 / v, [1, 0, 2]): r.append(v)
except ZeroDivisionError as error:
    r.append(str(error))

calls = []
def key(v):
    calls.append(v)
    return -v
r = sorted([1, 3, 2], key=key), calls, max([1, 3, 2], key=key), len(calls)

l = [3, 1, 2]
it = reversed(l)
r = [next(it)]; l.append(9); r.append(list(it))

class Sized:
    def __len__(self): return 3
    def __getitem__(self, i): return i * 10
r = list(reversed(Sized())), len(Sized()), bool(Sized())

class Indexed:
    def __getitem__(self, i):
        if i > 2: raise IndexError("end")
        return i * 10
r = list(Indexed()), 20 in Indexed(), 5 in Indexed(), [v for v in Indexed()], max(Indexed()), dict(zip("abc", Indexed())), next(iter(Indexed()))

class Index:
    def __index__(self): return 3
r = list(range(Index())), list(range(1, Index())), [0, 1, 2, 3][Index()]

class Bag:
    def __init__(self): self.items = [1, 2]
    def __iter__(self): return iter(self.items)
    def __contains__(self, item): return item == 7
    def __len__(self): return 0
b = Bag()
r = list(b), 7 in b, 1 in b, sum(b), max(b), [*b], dict.fromkeys(b), bool(b), list(zip(b, b)), set(b), tuple(map(str, b))
""")

ITERTOOLS = cases("""
list(itertools.chain("ab", [1])), list(itertools.chain()), list(itertools.chain.from_iterable(["ab", (1,)])), list(itertools.chain.from_iterable(count_to(2) for _ in "ab"))
list(itertools.chain(5))
list(itertools.islice("abcdef", 2)), list(itertools.islice("abcdef", 1, 5, 2)), list(itertools.islice("abc", None)), list(itertools.islice(itertools.count(), 2, 4)), list(itertools.islice("ab", 0))
itertools.islice("ab", -1)
itertools.islice("ab", 0, 1, 0)
itertools.islice("ab", "c")
itertools.islice("ab")
[next(itertools.count(5)), list(itertools.islice(itertools.count(1, 3), 3)), list(itertools.islice(itertools.count(0.5), 2)), list(zip(itertools.count(step=-1), "ab"))]
itertools.count("a")
list(itertools.repeat(1, 3)), list(itertools.repeat(x, 0)), list(zip("ab", itertools.repeat(0))), list(map(pow, range(3), itertools.repeat(2)))
list(itertools.islice(itertools.cycle("ab"), 5)), list(itertools.cycle([]))
list(itertools.takewhile(lambda v: v < 2, [1, 2, 0])), list(itertools.dropwhile(lambda v: v < 2, [1, 2, 0])), list(itertools.filterfalse(lambda v: v % 2, range(5))), list(itertools.filterfalse(None, [0, 1]))
list(itertools.starmap(pow, [(2, 3), (3, 2)])), list(itertools.starmap(lambda *a: a, [(), "ab"]))
list(itertools.accumulate([1, 2, 3])), list(itertools.accumulate([1, 2, 3], operator.mul)), list(itertools.accumulate([1], initial=5)), list(itertools.accumulate([])), list(itertools.accumulate("ab", lambda a, b: b + a))
list(itertools.pairwise("abc")), list(itertools.pairwise("a")), list(itertools.compress("abc", [1, 0, 1])), list(itertools.zip_longest("ab", [1], fillvalue="-")), list(itertools.zip_longest("a", "bc"))
list(itertools.product("ab", [1, 2])), list(itertools.product([0, 1], repeat=2)), list(itertools.product()), list(itertools.product("ab", []))
itertools.product("a", repeat=-1)
list(itertools.permutations("abc")), list(itertools.permutations(range(3), 2)), list(itertools.combinations("abc", 2)), list(itertools.combinations_with_replacement("ab", 2)), list(itertools.combinations("a", 2)), list(itertools.permutations("ab", 3))
itertools.combinations("a", -1)
[(k, list(g)) for k, g in itertools.groupby("aabca")], [(k, len(list(g))) for k, g in itertools.groupby([1, 3, 2, 4], key=lambda v: v % 2)], [k for k, g in itertools.groupby("aab")]

a, b = itertools.tee(count_to(3))
r = next(a), list(b), list(a)

a, b, c = itertools.tee([1, 2], 3)
r = list(zip(a, b, c))

groups = list(itertools.groupby("aab"))
r = [list(g) for k, g in groups]

for k, g in itertools.groupby("aabb"):
    r = k, next(g)

c = itertools.chain([1], [2, 3])
r = next(c), c.__next__(), list(c), next(c, "end")

it = itertools.count()
r = [next(it) for _ in range(3)], list(itertools.islice(it, 2)), next(it)

r = sum(x * i for i in itertools.islice(itertools.count(1), 3))
""")


@pytest.mark.parametrize("statements", BUILTINS)
def test_builtins(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", ITERTOOLS)
def test_itertools(statements: str) -> None:
    check(statements)
