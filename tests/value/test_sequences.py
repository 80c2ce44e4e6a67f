import pytest

from tests.value.snippets import cases, check

LISTS = cases("""
[1, 2, 3][::-1], [1, 2, 3][5:], [1, 2, 3, 4][-3:-1], [1, 2, 3, 4][3:0:-2]
[1, 2, 3][3]
[][0]
[1]["a"]
[1][1.5]
[1][::0]
[1, 2][True]
(1, 2, 3)[-4]
(1, 2)["a"]
[1] + [2], [1] * 3, 3 * [1], [1, 2] * -1, (1,) + (2,), (1, 2) * 2
[1] + (2,)
[1] + 1
(1,) + [2]
1 + [1]
[1] * 1.5
[1] * [1]
1.5 * (1,)
[1] - [1]
[1, 2] == [1, 2], [1, 2] == (1, 2), [1] != [2], (1, 2) == (1, 2.0), [] == []
[1, 2] < [1, 3], [1, 2] < [1, 2, 0], (2,) > (1, 9), [1] >= [1], [] <= [1]
[1] < (1,)
[1] < ["a"]
[1, "a"] < [2, 3]
1 in [1, 2], 3 in (1, 2), 1.0 in [1], None in [None], float("nan") in [float("nan")]
len([1, 2]), bool([]), bool((0,)), not [], [] or (1,)
[1, 2, 1].count(1), [1, 2, 3].index(2), (1, 2).index(2), (1, 1).count(1)
[1, 2].index(5)
(1, 2).index(5)
[1, 2, 3, 2].index(2, 2), [1, 2, 3].index(3, -1)
[1, 2, 3].index(1, 1)
["a"].index("b")
[1].pop(5)
[].pop()
[1].remove(2)
[1].append()
[1].append(1, 2)
[1].append(x=1)
[1].clear(1)
[1].insert(1)
[1].pop(1, 2)
[1].index()
[1].foo
list(1)
tuple(3.5)
list((1, 2), 3)
list("abc"), tuple("abc"), list(range(3)), list({"a": 1}), tuple([1]), list(()), list()
[*range(3), *"ab"], (*[1], 2), [*count_to(3)]
list(Countdown(3)), tuple(count_to(4)), list(map(str, [1, 2]))
hash((1, "a")) == hash((1, "a"))
hash([])
{[1]: 2}
min([[1, 2], [1, 1]]), max((1, 2), (1, 3)), sorted([(2, "b"), (1, "a"), (1, "A")])
(1, 2).__len__(), [1].__contains__(1), [1].__eq__(3), [1].__add__([2]), [1, 2].__getitem__(0), [3].__iter__().__next__()
[1].__lt__(2)
list.append([], 1), list.pop([1, 2]), list.__len__([1])
list.append((), 1)
list.__add__([1], 2)
repr([1, "a", (2,), {"k": [None]}]), str([1.5]), repr(()), repr((1,)), repr([])
[Same(1)] == [Same(1)], Same(2) in [Same(1), Same(2)], [Same(1), Same(2)].index(Same(2)), [Same(1)].count(Same(1))
[Same(1), Same(3)] < [Same(1), Same(4)]
[Plain()] == [Plain()]
[1, 2, 3] is [1, 2, 3]
isinstance([], list), isinstance((), (list, tuple)), type([]) is list

l = [1, 2, 3]
l.append(4); l.extend((5, 6)); l.extend(count_to(2)); l.insert(1, "i"); l.insert(-100, "f"); l.insert(100, "e")
r = l, l.pop(), l.pop(0), l.pop(-2), l.remove(5), l.copy(), l.reverse(), l.copy(), l.index(6)

l = [1, 2, 3]
l += [4]; l += (5,); l += "ab"; l += {7: 8}; l += count_to(2); l *= 2
r = l

l = m = [1]
l += [2]
l = l + [3]
r = l, m, l is m

l = [1]
l += 5

l = [1]
l *= "a"

l = list(range(10))
l[0] = "a"; l[-1] = "z"; l[1:3] = [1, 2, 3]; l[5:5] = "xy"; l[::4] = [0, 0, 0, 0]
del l[0], l[-1], l[1:3], l[::2]
r = l

l = list(range(6))
l[::2] = [1]

l = list(range(6))
l[10] = 1

l = list(range(6))
del l[6]

l = list(range(6))
l[0:1] = 5

l = list(range(6))
l[::2] = 5

l = list(range(6))
l["a"] = 5

l = list(range(6))
l[1:3] = count_to(5); l[4:1:-1] = (v * 2 for v in (1, 2, 3))
r = l

l = [0]
l[:] = l; l[:0] = l; l.extend(l)
r = l

l = [1, 2]
l.extend(fails_after(2))

l = [1, 2]
try:
    l.extend(fails_after(2))
except LookupError as error:
    r = l, str(error)

l = [1, 2, 3]
r = []
for v in l:
    r.append(v)
    if len(l) < 6: l.append(v * 10)

l = [1, 2, 3, 4]
r = []
for v in l:
    r.append(v); l.remove(v)

it = iter([1, 2])
r = [next(it), next(it), next(it, "end"), list(it)]

l = []
it = iter(l)
r = [next(it, 0)]; l.append(1); r.append(next(it, "still spent"))

l = [1]
l.append(l)
r = l[1] is l, len(l), l[1][1][0]

l = [[0] * 2] * 2
l[0][0] = 1
r = l, l[0] is l[1]

a, (b, *c), d = 1, (2, 3, 4), [5]
r = a, b, c, d

a, b = 1, 2, 3

a, b, *c = [1]

a, b = 5

a, *b = "xyz"
(c, d), e = b, a
r = a, b, c, d, e

a, b = count_to(2)
r = a, b

l = [3, 1, 2]
r = l.sort(), l, l.sort(reverse=True), l.copy(), l.sort(key=lambda v: -v), l.copy()

l = [3, "a"]
l.sort()

l = [1]
l.sort(1)

l = [1]
l.sort(k=1)

t = (1, 2)
t[0] = 3

t = (1, 2)
del t[0]

t = (1, 2)
t += (3,); t *= 2
r = t

class MyList(list):
    def __init__(self, *items):
        super().__init__(items)
        self.made = True
    def append(self, item): super().append(item * 2)
    def __getitem__(self, key): return ("got", super().__getitem__(key))
m = MyList(1, 2)
m.append(3)
r = m[2], len(m), m.made, list(m), m == [1, 2, 6], isinstance(m, list), [*m], m + [1], m[0:2]

class Pair(tuple):
    def __new__(cls, a, b): return super().__new__(cls, (a, b))
    @property
    def first(self): return self[0]
p = Pair(1, 2)
r = p.first, p[1], p == (1, 2), len(p), p + (3,), type(p[:1]) is tuple
""")


NAMED = cases("""
Point(1, 2), Point(1), Point(x=3, y=4), Point(1, y=2)._asdict(), Point._fields, Point(1, 2)._replace(y=5)
Point(1, 2).x, Point(1, 2)[1], Point(1, 2).y, len(Point(1)), tuple(Point(1)), list(Point(1))
Point(1, 2) == (1, 2), Point(1, 2) < Point(1, 3), Point(1, 2) + (3,), Point(1, 2)[:1], Point._make([1, 2]), 2 in Point(1, 2)
Point(1, 2).z
Point()
Point(1, 2, 3)
Point._make([1])
Point(1, 2)._replace(z=1)

a, b = Point(5, 6)
p = Point(a, x)
r = b, p, p.y is x

p = Point(1, 2)
p.x = 3

torch.Size([1, 2]), torch.Size((1, 2))[1:], torch.Size([2]) + (3,), (3,) + torch.Size([2]), torch.Size([2]) * 2, 2 * torch.Size([1])
torch.Size([2, 3]).numel(), torch.Size([]).numel(), torch.Size([2, 3]) == (2, 3), len(torch.Size([1])), torch.Size([2, 3])[0]
torch.Size([1.5])
torch.Size("a")
torch.Size([1]) + [1]
torch.Size([1]) + (1.5,)
torch.Size(1)
tuple(torch.Size([1])), list(torch.Size([1])), torch.Size([1, 2]).index(2), torch.Size(count_to(2)), torch.Size([True])

s = x.shape
r = s, s[0], s[:1], s + (1,), s.numel(), len(s), list(s), [*s, 1], type(s) is torch.Size, s == (3,), 3 in s, s[-1] * 2

m = x.reshape(1, 3).max(dim=1)
r = m.values, m.indices, m[0], m[1] is m.indices, len(m)

v, i = x.reshape(1, 3).max(dim=1)
r = v, i
""")


SLICES = cases("""
slice(1), slice(1, 2), slice(1, 2, 3), slice(None, 5).stop, slice(1, 2).start, slice(1, 2, 3).step
slice(1, 2) == slice(1, 2), slice(1) != slice(2), slice(1, 2) < slice(1, 3)
slice(1, 10, 2).indices(5), slice(None).indices(3), slice(-1, None).indices(3)
slice()
slice(1, 2, 3, 4)
[1, 2, 3][slice(1, None)], "abc"[slice(0, 2)], (1, 2, 3)[slice(None, None, -1)]
[1, 2, 3]["a":]
range(10)[2:5], range(10)[-1], range(0, 10, 3)[1], 3 in range(5), len(range(0, 10, 3)), list(range(5, 0, -2)), range(3) == range(0, 3)
range(3)[5]
range(1.5)
range()
range(1, 2, 0)
range(5).index(3), range(5).count(9), range(1, 5).start, range(5).stop, range(0, 4, 2).step, bool(range(0))
""")


@pytest.mark.parametrize("statements", LISTS)
def test_lists_and_tuples(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", NAMED)
def test_named_tuples_and_sizes(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", SLICES)
def test_slices_and_ranges(statements: str) -> None:
    check(statements)
