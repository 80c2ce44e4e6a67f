import pytest

from tests.value.snippets import cases, check

NUMBERS = cases("""
abs(-1), abs(-1.5), abs(3 + 4j), abs(True), round(2.5), round(2.567, 2), round(15, -1), round(2.5, None), divmod(7, 2), divmod(-7.5, 2), pow(2, 3), pow(2, -1), pow(3, 4, 5)
abs("a")
abs([])
round("a")
round(1, "a")
divmod(1, 0)
divmod("a", 1)
pow("a", 2)
pow(2)
1 / 0
1 % 0
2 ** 0.5, -7 // 2, -7 % 3, 1 << 5, ~5, 5 & 3, 5 ^ 1, +True, 7 @ 2 if False else 0
int("5"), int(2.9), int("ff", 16), int(), int(True), float("1.5"), float(2), float("inf"), float(), bool(""), bool([0]), bool(), complex(1, 2), complex("1+2j")
int("a")
int([])
float("a")
float([])
int(None)
bool(1, 2)
int("5", base=8), int.bit_length(5), (5).bit_length(), (0.5).as_integer_ratio(), (1.5).is_integer(), (3).to_bytes(2, "big"), int.from_bytes(b"ab", "big"), 1.5.hex(), (2 + 3j).conjugate(), (2 + 3j).imag, (5).real
math.sqrt(16), math.pi, math.floor(2.5), math.ceil(2.1), math.prod([1, 2, 3]), math.prod((v for v in (2, 3)), start=2), math.gcd(12, 18), math.log(8, 2), math.isclose(0.1 + 0.2, 0.3), math.inf, math.hypot(3, 4), math.comb(5, 2), math.fsum([0.1] * 10)
math.sqrt(-1)
math.log(0)
math.sqrt("a")
math.factorial(-1)
hash(1), hash("a") == hash("a"), hash((1, 2)) == hash((1, 2)), hash(None) == hash(None), hash(1.0) == hash(1)
hash([])
hash({})
ord("a"), chr(98), hex(255), bin(5), oct(8), ascii("é"), repr("a"), repr(1.0)
ord("ab")
chr(-1)
hex(1.5)
isinstance(1, int), isinstance(True, int), isinstance(1, (str, float)), 1 == 1.0, 1 is not None, 0 == False, 3 > 2 > 1, not 0
1 < "a"
1 + "a"
"a" + 1
None + 1
-"a"

class Index:
    def __index__(self): return 2
    def __int__(self): return 5
    def __float__(self): return 1.5
    def __abs__(self): return "abs"
    def __round__(self, n=None): return ("round", n)
    def __divmod__(self, other): return ("divmod", other)
    def __bool__(self): return False
i = Index()
r = [1, 2, 3][i], int(i), float(i), abs(i), round(i), round(i, 3), divmod(i, 1), bool(i), operator.index(i)
""")

TEXT = cases("""
"a" + "b", "ab" * 2, "abc"[1], "abc"[::-1], "b" in "abc", len("abc"), "a" < "b", "%s-%d" % ("a", 1), "%r" % "q", "%(k)s" % {"k": 5}, "%.2f" % 1.234
"abc"[5]
"a" "b" * "c"
"%d" % "a"
"%s %s" % ("a",)
1 in "a"
",".join(["a", "b"]), ",".join(c for c in "abc"), "".join(map(str, range(3))), "-".join({"a": 1}), "".join(()), ", ".join(reversed("ab"))
",".join([1])
",".join(5)
",".join(["a", None])
"a,b".split(","), "abc".upper(), " a ".strip(), "abc".replace("b", "x"), "abc".find("c"), "abc".startswith(("a", "b")), "a-b".partition("-"), "abc".index("b"), "x".center(5, "*"), "aXb".swapcase(), "abc".encode(), "1".isdigit(), "a b".title(), "{}".format(1), "a\\nb".splitlines(), "abc".translate({97: "z"})
"abc".index("z")
"a".foo
"a".split(5)
"{} {x} {0!r:>4} {:.2f}".format("a", 1.5, x=2) if False else "{0} {x} {0!r:>5}".format("a", x=2)
"{}".format()
"{:d}".format("a")
"{} {}".format([1, 2], (3,)), "{}".format({"a": 1}), "{0[a]} {1.real}".format({"a": 1}, 5)
f"{1 + 1} {'a'!r} {3.14159:.2f} {5:>4} {[1, 2]} {None}", f"{'x':*^5}", f"{1:{'0'}{3}}", f"{x.shape[0]}", f"{x.dtype} {x.shape}"
f"{'a':d}"
str(5), str(None), str([1, "a"]), str(b"a", "ascii"), str(), str(object=5), str((1,)), str({"k": 1.5}), str(int), str("a")
str(b"a", "nope")
str(1, 2)
repr("it's"), repr(None), repr(1.5), repr(b"x"), repr(range(3)), repr(int), format(5, "03d"), format("a"), format(1.5, ".3f"), format([1])
format([1], "x")
format(1, 2)
b"ab"[0], b"ab" + b"c", b"a" in b"ab", len(b"ab"), b"ab".decode(), list(b"ab"), bytes([1, 2]), bytes(2), bytes("a", "ascii"), b"ab".hex(), bytes(count_to(2)), bytes()
bytes("a")
bytes([300])
b"a" + "a"
list("héllo"), "héllo".upper(), sorted("héllo"), max("abc"), "a" == "a", "a" is not None, hash("a") == hash("a"), {"a": 1}["a"], "".join(sorted(set("hello")))
"abc" < 5

class Shown:
    def __init__(self, v): self.v = v
    def __repr__(self): return f"Shown({self.v!r})"
class Both(Shown):
    def __str__(self): return "both"
    def __format__(self, spec): return f"<{spec}>"
s, b = Shown("a"), Both(1)
r = repr(s), str(s), f"{s}", f"{s!s} {s!r}", str([s, b]), repr({"k": (s,)}), str(b), f"{b}", f"{b:>3}", format(b, "z"), "{}".format(b), "{} {k}".format(s, k=b), "%s" % "x"

class Bad:
    def __repr__(self): return 5
repr(Bad())
""")

OPERATORS = cases("""
operator.add(1, 2), operator.sub(5, x.dim()), operator.mul("a", 2), operator.truediv(1, 2), operator.floordiv(7, 2), operator.mod(7, 3), operator.pow(2, 3), operator.neg(1), operator.pos(1), operator.invert(1), operator.not_([]), operator.truth([0])
operator.lt(1, 2), operator.eq([1], [1]), operator.ne(1, 2), operator.ge(2, 1), operator.and_(6, 3), operator.or_({1}, {2}), operator.xor(1, 3), operator.lshift(1, 2), operator.contains([1], 1), operator.getitem([1, 2], 0), operator.is_(None, None), operator.is_not(1, None)
operator.index(5), operator.index(True), operator.concat([1], [2]), operator.countOf([1, 1, 2], 1), operator.indexOf("abc", "c"), operator.call(max, 1, 2), operator.abs(-1), operator.add(x, 1), operator.matmul(x, x), operator.inv(5)
operator.add(1)
operator.add(1, "a")
operator.index(1.5)
operator.indexOf([1], 2)
operator.getitem([1], 5)
operator.itemgetter(1)([5, 6]), operator.itemgetter("a", "b")({"a": 1, "b": 2}), operator.attrgetter("x")(Point(1, 2)), operator.attrgetter("x", "y")(Point(1, 2)), operator.methodcaller("upper")("a"), operator.methodcaller("split", "-", maxsplit=1)("a-b-c"), operator.attrgetter("real.imag")(5)
operator.itemgetter(5)([1])
operator.attrgetter("nope")(5)
operator.itemgetter()
operator.attrgetter(5)
operator.methodcaller()
sorted([{"a": 2}, {"a": 1}], key=operator.itemgetter("a")), sorted([Point(2, 1), Point(1, 5)], key=operator.attrgetter("y")), max([(1, 2), (0, 9)], key=operator.itemgetter(1)), list(map(operator.methodcaller("upper"), "ab"))

l = [1]
d = {}
operator.setitem(l, 0, 5); operator.setitem(d, "k", 1); operator.iadd(l, [2]); operator.delitem(d, "k")
r = l, d

class V:
    def __init__(self, v): self.v = v
    def __add__(self, o): return ("add", o)
    def __radd__(self, o): return ("radd", o)
    def __iadd__(self, o): self.v += 1; return self
    def __getitem__(self, k): return ("item", k)
    def __contains__(self, k): return k == 3
    def __len__(self): return 4
    def __lt__(self, o): return "lt"
    def __mul__(self, o): return NotImplemented
    def __rmul__(self, o): return ("rmul", o)
v = V(1)
r = operator.add(v, 1), operator.add(1, v), [1] + v, operator.iadd(v, 1) is v, v.v, operator.getitem(v, 2), operator.contains(v, 3), len(v), operator.lt(v, 1), [1] * v, (1,) + v, "a" * v

class V:
    def __mul__(self, o): return NotImplemented
r = V() * 3
""")

COPIES = cases("""
copy.copy([1, [2]]), copy.copy((1,)), copy.copy({"a": []}), copy.copy({1}), copy.copy(5), copy.copy("a"), copy.copy(None), copy.copy(deque([1])), copy.copy(OrderedDict(a=1)), copy.copy(int)
copy.deepcopy([1, [2, {"a": (3,)}]]), copy.deepcopy((1, 2)), copy.deepcopy({1: {2}}), copy.deepcopy("a")

l = [[1], (2, [3])]
a, b = copy.copy(l), copy.deepcopy(l)
l[0].append(9); l[1][1].append(8)
r = l, a, b, a[0] is l[0], b[0] is l[0]

l = [1]
l.append(l)
c = copy.deepcopy(l)
r = c[1] is c, c is l, c[0]

t = (1, "a")
s = [1]
u = [s, s]
c = copy.deepcopy(u)
r = copy.deepcopy(t) is t, c[0] is c[1], c[0] is s
""")


@pytest.mark.parametrize("statements", NUMBERS)
def test_numbers(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", TEXT)
def test_text(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", OPERATORS)
def test_operators(statements: str) -> None:
    check(statements)


@pytest.mark.parametrize("statements", COPIES)
def test_copies(statements: str) -> None:
    check(statements)
