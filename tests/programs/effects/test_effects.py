"""Programs that mutate outside containers, attributes and variables.

Every program runs in a world of its own, uncompiled and compiled, and afterwards arguments, globals, classes and their
identities are compared. All are captured whole. Arguments are made anew for each call, so the second call has to replay
the effects of the first one's entry; a program that changes what it depends on is `stateful` and may compile again.
"""

from typing import Any

import pytest

from tests.support.harness import Source, T, same

X = T(3, 4)
STATEFUL = {"stateful": True}


def check(text: str, *makers: Any, **options: Any) -> None:
    same(Source(text), X, *makers, **{"compare_dynamo": False, **options})


def body(lines: str) -> str:
    return "\n".join("    " + line for line in lines.splitlines())


# --- lists, dicts, sets and deques that are arguments -----------------------------------------------------------------

LISTS = """
a.append(5)
a.append(x * 2)
a.append([x, 1])
a.append(a)
a.extend([4, 5])
a.extend((x, x))
a.extend(a)
a.extend(v for v in range(3))
a += [4]
a += (v for v in "ab")
a *= 2
a *= 0
a.insert(0, 9)
a.insert(-1, x)
a.insert(100, 9)
a.pop()
a.pop(0)
a.pop(-2)
a.remove(1)
a.clear()
a.reverse()
a.sort()
a.sort(reverse=True)
a.sort(key=lambda v: -v)
a[0] = 7
a[-1] = x + 1
a[1:2] = [7, 8, 9]
a[::2] = [0, x]
a[:] = []
a[1:] = (v * 2 for v in a)
del a[0]
del a[-1]
del a[:2]
del a[::2]
a[0], a[1] = a[1], a[0]
a.append(1); a.pop(0); a[0] = a[-1]; a.insert(1, a.pop())
for v in list(a): a.append(v + 1)
while len(a) < 6: a.append(len(a))
b = a; b.append(4); a.append(len(b))
[a.append(v) for v in range(2)]
list.append(a, 3)
operator.setitem(a, 0, x)
operator.iadd(a, [1])
a.__setitem__(0, 4)
a.__init__([1, 2])
"""


@pytest.mark.parametrize("line", LISTS.strip().splitlines())
def test_lists(line: str) -> None:
    check(f"def f(x, a):\n    {line}\n    return x + len(a), list(a), a", lambda: [3, 1, 2])


DICTS = """
d["c"] = 3
d["a"] = x * 2
d["a"] += 1
d.update(c=3, a=4)
d.update({"b": x})
d.update([("z", 1)])
d |= {"c": 5}
d.setdefault("c", []).append(x)
d.setdefault("a", 7)
d.pop("a")
d.pop("q", None)
d.popitem()
d.clear()
del d["a"]
del d["a"]; d["a"] = 1
d["n"] = 1; del d["n"]; d["m"] = 2; d["n"] = 3
d["self"] = d
d[x.shape] = 1
d[(1, "t")] = x
d[1.0] = 2; d[True] = 3
d[None] = x
d[len] = 1; d[int] = 2; d[torch.float32] = 3
d.__setitem__("c", 1)
dict.__setitem__(d, "c", 1)
operator.delitem(d, "a")
for k in list(d): d[k + k] = d.pop(k)
d["c"] = d.get("c", 0) + 1; d["c"] = d.get("c", 0) + 1
d.clear(); d["x"] = 1
"""


@pytest.mark.parametrize("line", DICTS.strip().splitlines())
@pytest.mark.parametrize("then", ["d", "list(d.items()), len(d), d", "d.get('a'), 'b' in d, 'c' in d, d"])
def test_dicts(line: str, then: str) -> None:
    check(f"def f(x, d):\n    {line}\n    return x + 1, {then}", lambda: {"a": 1, "b": 2})


SETS = """
s.add(4)
s.add(1)
s.discard(1)
s.discard(9)
s.remove(2)
s.clear()
s.clear(); s.add(7); s.add(8)
s.update([5, 6])
s.update({5, 6}, (7,))
s |= {8}
s &= {1, 2}
s -= {1}
s ^= {1, 9}
s.intersection_update([1])
s.difference_update({1}, [2])
s.symmetric_difference_update([1, 10])
s.add("t"); s.discard(1); s.add(1)
s.add((1, 2)); s.add(None); s.add(torch.int8)
t = {5}; s.update(t); t.clear()
"""


@pytest.mark.parametrize("line", SETS.strip().splitlines())
def test_sets(line: str) -> None:
    check(f"def f(x, s):\n    {line}\n    return x + len(s), 1 in s, s", lambda: {1, 2, 3}, fresh=True)


@pytest.mark.parametrize("line", ["s.pop()", "s.add(3); return x + 1, list(s)", "s |= {5}; return x + 1, sorted(s)"])
def test_order_of_sets(line: str) -> None:
    """Only the real set knows the order of its elements after a mutation."""
    check(f"def f(x, s):\n    {line}\n    return x + 1", lambda: {1, 2, 3}, fullgraph=False)
    if line == "s.pop()":
        check("def f(x, s):\n    return x + 1, s.pop(), s", lambda: {1}, fresh=True)


# --- kinds of containers, as globals ----------------------------------------------------------------------------------

KINDS = {
    "OrderedDict": (
        "D = collections.OrderedDict(a=1, b=2, c=3)",
        [
            "D['z'] = x",
            "D.move_to_end('a')",
            "D.move_to_end('c', last=False)",
            "D.popitem()",
            "D.popitem(last=False)",
            "del D['b']; D['b'] = 1",
            "D.pop('a'); D['a'] = 5",
            "D.clear()",
            "D.update(q=1); D.move_to_end('a')",
        ],
    ),
    "defaultdict": (
        "D = collections.defaultdict(list, a=[1])",
        [
            "D['a'].append(2)",
            "D['n'].append(x)",
            "D['n']; D['m']",
            "D.default_factory = int; D['k'] += 1",
            "D.get('q')",
        ],
    ),
    "Counter": (
        "D = collections.Counter('aab')",
        [
            "D['a'] += 1",
            "D['z'] += 2",
            "D.update('abc')",
            "D.subtract('ab')",
            "D.update(a=3)",
            "del D['a']",
            "D['missing']",
        ],
    ),
    "subclass of dict": (
        "class M(dict):\n    def __setitem__(self, k, v):\n        super().__setitem__(k, (v, 'set'))\n    def __delitem__(self, k):\n        super().__delitem__(k)\n        self.last = k\nD = M(a=1)",
        [
            "D['a'] = 2",
            "D['n'] = x",
            "del D['a']; dict.update(D, a=1)",
            "D.update(k=3)",
            "D.tag = x",
            "dict.__setitem__(D, 'p', 1)",
        ],
    ),
    "subclass of list": (
        "class L(list):\n    def append(self, v):\n        super().append((v, len(self)))\nD = L([1, 2])",
        ["D.append(x)", "D.extend([3])", "D.tag = 5; D.append(D.tag)", "D[0] = x", "D += [4]"],
    ),
    "subclass of set": (
        "class S(set):\n    def add(self, v):\n        self.n = v\n        super().add(v)\nD = S([1])",
        ["D.add(2)", "D.discard(1)", "D.update([4])"],
    ),
    "nested": (
        "D = {'l': [1, {'k': []}], 's': {1}}",
        [
            "D['l'][1]['k'].append(x)",
            "D['l'][0] += 1",
            "D['s'].add(2)",
            "D['l'].append(D['l'][1])",
            "D['l'][1]['k'].append(D['l'])",
        ],
    ),
    "aliases": (
        "D = [1]\nE = D\nF_ = {'d': D}",
        [
            "D.append(2); E.append(3); F_['d'].append(4)",
            "E[0] = x; assert D[0] is E[0]",
            "F_['d'] = E[:]; D.append(1)",
            "F_['e'] = D",
        ],
    ),
    "deque": (
        "D = collections.deque([1, 2, 3])",
        [
            "D.append(x)",
            "D.appendleft(x)",
            "D.extend([4, 5])",
            "D.extendleft([4, 5])",
            "D.extend(D)",
            "D.rotate(1)",
            "D.rotate(-2)",
            "D.reverse()",
            "D.insert(1, x)",
            "D[0] = 9",
            "D[-1] += 1",
            "D.pop(); D.appendleft(0)",
            "D.append(D.popleft())",
            "D.remove(2); D.append(2)",
            "del D[1]; D.append(2)",
            "D.clear()",
            "D += [7]",
            "D *= 2",
            "D.append(len(D) + sum(D))",
            "D.append(2 in D); D.append(D.copy())",
        ],
    ),
    "deque with maxlen": (
        "D = collections.deque([1, 2], maxlen=3)",
        ["D.append(x)", "D.appendleft(x); D.appendleft(D.maxlen)", "D.extend(range(5))"],
    ),
    "subclass of deque": (
        "class Q(collections.deque):\n    def append(self, v):\n        super().append((v, len(self)))\nD = Q([1], maxlen=2)",
        ["D.append(2)", "D.appendleft(x)", "D.name = 'q'"],
    ),
    "UserDict": ("D = collections.UserDict(a=1)", ["D['b'] = x", "del D['a']; D['a'] = 1", "D.update(c=1)"]),
    "UserList": ("D = collections.UserList([1])", ["D.append(x)", "D[0] = 3", "D += [1]"]),
    "ChainMap": ("D = collections.ChainMap({'a': 1}, {'b': 2})", ["D['c'] = x", "D.maps[1]['b'] = 5"]),
    "tensors": (
        "D = {'t': torch.ones(3, 4)}",
        ["D['t'] = D['t'] + x", "D['t'].add_(1)", "D['u'] = D.pop('t'); D['t'] = x"],
    ),
}


@pytest.mark.parametrize(
    "setup, line", [(setup, line) for setup, lines in KINDS.values() for line in lines], ids=lambda text: text[-40:]
)
def test_kinds(setup: str, line: str) -> None:
    check(f"{setup}\ndef f(x):\n    global D\n    {line}\n    return x + 1, D", calls=3, stateful=True)


# --- attributes -------------------------------------------------------------------------------------------------------

CLASSES = """
class Plain:
    shared = 10
    def __init__(self):
        self.a = 1
        self.items = []
class Slotted:
    __slots__ = ("a", "b")
    def __init__(self):
        self.a = 1
class Both(Slotted):
    __slots__ = ("__dict__",)
class Guarded(Plain):
    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)
        object.__setattr__(self, "log", self.__dict__.get("log", ()) + (name,))
    def __delattr__(self, name):
        super().__delattr__(name)
        object.__setattr__(self, "deleted", name)
class Property(Plain):
    @property
    def double(self):
        return self.a * 2
    @double.setter
    def double(self, value):
        self.a = value / 2
    @double.deleter
    def double(self):
        del self.a
class Descriptor:
    def __set_name__(self, owner, name):
        self.name = "_" + name
    def __get__(self, instance, owner):
        return self if instance is None else getattr(instance, self.name, 0)
    def __set__(self, instance, value):
        setattr(instance, self.name, value)
    def __delete__(self, instance):
        delattr(instance, self.name)
class Described(Plain):
    field = Descriptor()
@dataclasses.dataclass
class Data:
    n: int = 0
    parts: list = dataclasses.field(default_factory=list)
class Cached(Plain):
    @functools.cached_property
    def slow(self):
        self.a += 1
        return self.a
class Missing(Plain):
    def __getattr__(self, name):
        self.__dict__[name] = 5
        return 5
"""

ATTRIBUTES = """
Plain: o.a = x
Plain: o.a += 1; o.a += 1
Plain: o.b = [x]; o.b.append(o.a)
Plain: del o.a; assert not hasattr(o, "a"); o.a = 3
Plain: del o.a; o.a = 4
Plain: o.shared += 1; o.shared += o.shared
Plain: o.shared = 1; del o.shared; assert o.shared == 10
Plain: o.items.append(x); o.items = o.items + [1]; o.items.append(2)
Plain: setattr(o, "dy" + "namic", 3); assert o.dynamic == 3
Plain: o.__dict__["k"] = 1; assert o.k == 1
Plain: o.k = 1; assert o.__dict__["k"] == 1 and "k" in vars(o); vars(o)["k"] += 1; assert o.k == 2
Plain: o.__dict__.update(p=1, q=x); del o.__dict__["q"]
Plain: o.me = o; o.me.me.a = 3
Plain: o.new = Plain(); o.new.a = o; o.new.items = o.items
Plain: o.a, o.b = x, o.a
Plain: o.f = lambda t: t + o.a; o.y = o.f(x)
Plain: object.__setattr__(o, "a", 5)
Plain: o.z = 1; o.y = 2; del o.z; o.z = 3; o.order = list(o.__dict__)
Slotted: o.a = x
Slotted: o.b = 2; o.a += o.b
Slotted: del o.a; assert not hasattr(o, "a"); o.a = 1; del o.a; o.a = 2
Slotted: o.b = [1]; o.b.append(x)
Both: o.a = 2; o.free = x; o.b = o.free
Guarded: o.a = x
Guarded: o.n = 1; o.m = 2
Guarded: del o.a; o.a = 1
Property: o.double = 8
Property: o.double += 2; o.a += o.double
Property: del o.double; o.a = 4
Described: o.field = x
Described: o.field += 1; o.field += 1
Described: o.field = 1; del o.field
Data: o.n += 1; o.parts.append(o.n)
Data: o.parts = [x, o.parts]
Cached: y = o.slow + o.slow; o.z = o.slow
Cached: o.slow; del o.slow; o.slow
Missing: o.q + o.q; o.r = o.q
"""


@pytest.mark.parametrize("line", ATTRIBUTES.strip().splitlines())
def test_attributes(line: str) -> None:
    name, _, change = line.partition(": ")
    check(f"{CLASSES}\no = {name}()\ndef f(x):\n    {change}\n    return x + 1, o", calls=3, stateful=True)


def test_errors_in_changes_are_caught() -> None:
    check(
        CLASSES
        + """
o, s = Property(), Slotted()
def f(x):
    log = []
    try:
        o.a = 5
        o.nothing
    except AttributeError as error:
        log.append(str(error))
    try:
        s.missing = 1
    except AttributeError as error:
        log.append(str(error))
    try:
        del s.b
    except AttributeError as error:
        log.append(str(error))
    try:
        o.items.append(1)
        o.items[100] = 2
    except IndexError:
        o.items.append(2)
    finally:
        o.done = True
    return x + 1, log, o, s
""",
        stateful=True,
    )


# --- variables, classes, modules, functions, tensors ------------------------------------------------------------------

PROGRAMS = {
    "global": "N = 1\ndef f(x):\n    global N\n    N = x\n    return N + 1",
    "global counter": "N = 1\ndef f(x):\n    global N\n    N += 1\n    N += 1\n    return x + N",
    "new global": "def f(x):\n    global NEW\n    NEW = [x]\n    return NEW[0] + 1",
    "deleted global": "N = 1\ndef f(x):\n    global N\n    N = 2\n    del N\n    try:\n        return x + N\n    except NameError as e:\n        N = 3\n        return x + 1, str(e)",
    "global of callee": "N = 1\ndef g():\n    global N\n    N += 1\n    return N\ndef f(x):\n    a = N\n    g()\n    return x + a + N + g()",
    "globals()": "N = 1\ndef f(x):\n    globals()['N'] = 5\n    globals()['M'] = x\n    return x + N + M + globals()['N']",
    "global over builtin": "def f(x):\n    global len\n    len = lambda v: 7\n    a = len([])\n    del len\n    return x + a + len([1])",
    "module attribute": "import types as T_\nmod = T_.ModuleType('mod')\nmod.n = 1\ndef f(x):\n    mod.n += 1\n    mod.new = x\n    return x + mod.n + mod.__dict__['n'], mod.new",
    "deleted module attribute": "import types as T_\nmod = T_.ModuleType('mod')\nmod.n = 1\ndef f(x):\n    del mod.n\n    try:\n        mod.n\n    except AttributeError:\n        mod.n = 1\n    return x + mod.n",
    "nonlocal": "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n        n += 1\n        return x + n\n    return f\nf = make()",
    "nonlocal tensor": "def make():\n    last = None\n    def f(x):\n        nonlocal last\n        before, last = last, x * 2\n        return x + 1, before, last\n    return f\nf = make()",
    "nonlocal shared": "def make():\n    n = 0\n    def get():\n        return n\n    def put(v):\n        nonlocal n\n        n = v\n    def f(x):\n        put(get() + 2)\n        return x + n, get(), f.__closure__[0].cell_contents is not None\n    return f\nf = make()",
    "deleted nonlocal": "def make():\n    n = 3\n    def f(x):\n        nonlocal n\n        del n\n        try:\n            n\n        except NameError:\n            n = 3\n        return x + n\n    return f\nf = make()",
    "class attribute": "class C:\n    n = 0\ndef f(x):\n    C.n += 1\n    return x + C.n, C().n",
    "class attribute by instance": "class C:\n    n = 0\n    def __init__(self):\n        type(self).n += 1\n        self.number = C.n\ndef f(x):\n    a, b = C(), C()\n    return x + a.number + b.number, C.n",
    "class attribute through subclass": "class C:\n    n = 1\nclass D(C): pass\ndef f(x):\n    C.n = 5\n    a = D.n\n    D.n = 7\n    b = C.n, D.n, D().n\n    del D.n\n    return x + a, b, D.n, vars(C)['n']",
    "new class attribute": "class C: pass\ndef f(x):\n    C.new = [x]\n    C.new.append(1)\n    return x + len(C.new), hasattr(C, 'new'), C().new",
    "classmethod": "class C:\n    made = 0\n    @classmethod\n    def make(cls):\n        cls.made += 1\n        return cls()\ndef f(x):\n    C.make()\n    return x + C.made",
    "metaclass": "class M(type):\n    def __setattr__(cls, k, v): super().__setattr__(k, v * 2)\n    def __delattr__(cls, k): super().__delattr__(k)\nclass C(metaclass=M): pass\ndef f(x):\n    C.a = 3\n    a = C.a\n    del C.a\n    return x + a, hasattr(C, 'a')",
    "registry": "REG = {}\ndef register(k):\n    def wrap(fn):\n        REG[k] = fn\n        return fn\n    return wrap\ndef f(x):\n    @register('g')\n    def g(v):\n        return v + 1\n    return REG['g'](x), g",
    "function attribute": "def g(v):\n    g.calls += 1\n    return v + g.calls\ng.calls = 0\ndef f(x):\n    return g(x) + g(x)",
    "new function attribute": "def g(v): return v\ndef f(x):\n    g.tag = x\n    return x + 1, g.tag",
    "memo": "CACHE = {}\ndef fib(n):\n    if n in CACHE:\n        return CACHE[n]\n    CACHE[n] = n if n < 2 else fib(n - 1) + fib(n - 2)\n    return CACHE[n]\ndef f(x):\n    return x + fib(8)",
    "mutable default": "def g(v, seen=[]):\n    seen.append(v)\n    return len(seen)\ndef f(x):\n    return x + g(x) + g(1)",
    "keyword default": "def g(v, *, seen={}):\n    seen[v] = len(seen)\n    return seen[v]\ndef f(x):\n    return x + g('a') + g('b')",
    "attribute of tensor": "W = nn.Parameter(torch.ones(4))\ndef f(x):\n    W.tag = 'seen'\n    W.count = getattr(W, 'count', 0) + 1\n    return x * W, W.tag, W.count",
    "deleted attribute of tensor": "W = torch.ones(4)\nW.tag = 1\ndef f(x):\n    if hasattr(W, 'tag'):\n        del W.tag\n    return x * W, hasattr(W, 'tag')",
    "returned and stored": "STORE = []\ndef f(x):\n    made = [x + 1]\n    STORE.append(made)\n    made.append(2)\n    return made, STORE",
    "stored twice": "A, B = [], {}\ndef f(x):\n    made = {'t': x * 2}\n    A.append(made)\n    B['m'] = made\n    B['a'] = A\n    return A[-1] is B['m'], x + 1",
    "cycle through outside": "A = []\ndef f(x):\n    made = [A, x]\n    A.append(made)\n    return made, A",
    "stored closure": "A = {}\ndef f(x):\n    n = 2\n    def g(v):\n        nonlocal n\n        n += 1\n        return v * n\n    A['g'] = g\n    return g(x), A['g'](x)",
    "stored instance": "class C:\n    def __init__(self, v):\n        self.v = v\nA = []\ndef f(x):\n    c = C(x)\n    A.append(c)\n    c.v = c.v + 1\n    return A[-1].v, c",
    "read before and after": "D = {'k': [1]}\ndef f(x):\n    before = D['k']\n    D['k'] = [2]\n    after = D['k']\n    before.append(after)\n    return x + len(before), before, after",
    "swap of globals": "A, B = [1], [2]\ndef f(x):\n    global A, B\n    A, B = B, A\n    A.append(x)\n    return x + len(B), A, B",
    "iterate and change": "A = [1, 2, 3]\ndef f(x):\n    for i, v in enumerate(A):\n        A[i] = v * 2\n    for k in A[:]:\n        A.remove(k)\n        A.insert(0, k)\n    return x + sum(A)",
    "changed while iterated": "D = {'a': 1}\ndef f(x):\n    try:\n        for k in D:\n            D[k + 'a'] = 1\n    except RuntimeError as e:\n        D.clear()\n        D['a'] = 1\n        return x + 1, str(e)",
    "exception on the way": "LOG = []\ndef g(n):\n    LOG.append(n)\n    if n == 2:\n        raise ValueError(n)\n    g(n + 1)\n    LOG.append('never')\ndef f(x):\n    try:\n        g(0)\n    except ValueError as e:\n        LOG.append(str(e))\n    return x + len(LOG)",
    "context manager": "STATE = {'depth': 0}\n@contextlib.contextmanager\ndef deeper():\n    STATE['depth'] += 1\n    try:\n        yield STATE['depth']\n    finally:\n        STATE['depth'] -= 1\ndef f(x):\n    with deeper() as a, deeper() as b:\n        y = x + a * b\n    return y, STATE['depth']",
    "generator": "LOG = []\ndef gen(n):\n    for i in range(n):\n        LOG.append(i)\n        yield i\ndef f(x):\n    for i in gen(3):\n        x = x + i\n        LOG.append('got')\n    return x",
    "effects without a graph": "N = 0\nLOG = []\ndef f(x):\n    global N\n    N += 1\n    LOG.append(x)\n    return N",
    "constant of an effect": "D = {}\ndef f(x):\n    D['t'] = (1, 'a', None, x.shape, x.dtype, slice(1, 2), frozenset([1]))\n    return x + 1",
    "dict views after changes": "D = {'a': 1}\ndef f(x):\n    keys, items = D.keys(), D.items()\n    D['b'] = 2\n    return x + len(keys), list(items), keys",
    "copy, then change": "D = {'a': [1]}\ndef f(x):\n    c = dict(D)\n    d = copy.copy(D)\n    D['a'].append(2)\n    D['n'] = 1\n    return x + len(c['a']), c, d, D",
    "sorted into place": "A = [x for x in 'hello']\ndef f(x):\n    A.sort(key=ord, reverse=True)\n    A[:2], A[2:] = A[-2:], A[:-2]\n    return x + len(A), ''.join(A)",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_variables(name: str) -> None:
    check(PROGRAMS[name], calls=3, stateful=True)


# --- modules ----------------------------------------------------------------------------------------------------------

MODULES = {
    "counter": "self.steps += 1",
    "last input": "self.last = x",
    "history": "self.history.append(x.mean())",
    "buffer": "self.total = self.total + x.sum()",
    "buffer in place": "self.total.add_(x.sum())",
    "new attribute": "self.cache = {'x': x, 'n': self.steps}",
    "deleted attribute": "del self.steps\nself.steps = 5",
    "child": "self.child.seen = x",
    "child's counter": "self.child.steps += self.steps",
    "dict of statistics": "self.stats['n'] = self.stats.get('n', 0) + 1\nself.stats['mean'] = x.mean()",
    "new child": "self.other = self.child",
    "parameter replaced": "self.scale = self.spare",
    "none buffer": "self.empty = x.sum()",
}


@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str) -> None:
    text = f"""
class Child(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0
        self.linear = nn.Linear(4, 4)
    def forward(self, x):
        self.steps += 1
        return self.linear(x)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.child = Child()
        self.steps = 0
        self.history = []
        self.stats = {{}}
        self.scale = nn.Parameter(torch.ones(4))
        self.spare = nn.Parameter(torch.zeros(4))
        self.register_buffer("total", torch.zeros(()))
        self.register_buffer("empty", None)
    def forward(self, x):
{body(body(MODULES[name]))}
        return self.child(x) * self.scale + self.total
model = Model()
def f(x):
    return model(x)
"""
    check(text, calls=3, stateful=True, grads=False)


# --- aliases, guards --------------------------------------------------------------------------------------------------

CHANGED_BETWEEN = {
    "two lists become one": (
        "def f(x, a, b):\n    a.append(1)\n    return x + len(b)",
        [lambda: [0], lambda: [0]],
        ["ARGS[2] = ARGS[1] = [0]", "ARGS[1] = [0]; ARGS[2] = [0]"],
    ),
    "one list becomes two": (
        "def f(x, a, b):\n    a.append(1)\n    return x + len(b)",
        [lambda: [0], lambda: [0]],
        ["ARGS[1] = [0]; ARGS[2] = ARGS[1]"],
    ),
    "two dicts become one": (
        "def f(x, a, b):\n    a['k'] = 1\n    return x + b.get('k', 5)",
        [dict, dict],
        ["ARGS[2] = ARGS[1] = {}"],
    ),
    "two objects become one": (
        "class C:\n    n = 0\nA, B = C(), C()\ndef f(x):\n    A.n = 3\n    return x + B.n",
        [],
        ["A = B", "A = B = C()", "A = C()"],
    ),
    "list and what is in another": (
        "def f(x, a, b):\n    b[0].append(1)\n    return x + len(a)",
        [lambda: [0], lambda: [[0]]],
        ["ARGS[1] = [0]; ARGS[2] = [ARGS[1]]"],
    ),
    "guard before the change": (
        "D = {'n': 1}\ndef f(x):\n    D['m'] = D['n'] + 1\n    return x + D['m']",
        [],
        ["D['n'] = 5", "D['m'] = 7", "del D['m']"],
    ),
    "key comes and goes": (
        "D = {}\ndef f(x):\n    if 'k' in D:\n        del D['k']\n        return x + 1\n    D['k'] = x\n    return x - 1",
        [],
        ["D.clear()", "D['k'] = 1", "D['z'] = 2"],
    ),
    "class attribute": (
        "class C:\n    n = 1\n    m = 0\ndef f(x):\n    C.m = C.n\n    return x + C.m",
        [],
        ["C.n = 2", "C.m = 7", "C.k = 1"],
    ),
    "method": (
        "class C:\n    def put(self, v):\n        self.v = v\nc = C()\ndef f(x):\n    c.put(x)\n    return x + 1",
        [],
        ["C.put = lambda self, v: setattr(self, 'w', v)", "c.put = lambda v: None"],
    ),
}


@pytest.mark.parametrize("name", CHANGED_BETWEEN)
def test_changes_between_calls(name: str) -> None:
    text, makers, mutations = CHANGED_BETWEEN[name]
    check(text, *makers, mutate=mutations, stateful=True)


def test_only_the_asked_keys_are_guarded() -> None:
    """A dict to which a key is added is not guarded on its other keys."""
    text = "D = {'a': 1}\ndef f(x):\n    D['b'] = x\n    return x + D['a']"
    quiet = [("unrelated", change) for change in ("D['c'] = 1", "del D['b']", "D['b'] = 5")]
    check(text, calls=3, mutate=quiet)


@pytest.mark.parametrize("line", ["D.append(x)", "D.extend([x, 1])", "D.append(1); D.append([x])"])
def test_growing_a_list_compiles_once(line: str) -> None:
    check(
        f"D = []\nclass C: pass\nc = C()\nc.d = D\ndef f(x):\n    d = c.d\n    {line.replace('D', 'd')}\n    return x + 1",
        calls=5,
    )


def test_one_append_to_a_long_list() -> None:
    check(
        "D = list(range(10_000))\ndef f(x):\n    D.append(x)\n    D[5] = 1\n    D.pop()\n    return x + 1",
        stateful=True,
    )


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return x + random.random()",
        "def f(x):\n    return x + random.randint(0, 9), random.choice([1, 2])",
        "def f(x):\n    a = [1, 2, 3]\n    random.shuffle(a)\n    return x + a[0]",
        "def f(x):\n    random.seed(3)\n    return x + random.gauss(0, 1)",
        "R = random.Random(5)\ndef f(x):\n    return x + R.random() + R.uniform(1, 2)",
        "def f(x):\n    return x + torch.rand(4) + torch.randn(4)",
    ],
)
def test_random_state(text: str) -> None:
    check(text, fullgraph=False, calls=3)


@pytest.mark.parametrize(
    "text",
    [
        "class K:\n    def __init__(self, n): self.n = n\n    def __hash__(self): return self.n\n    def __eq__(self, o): return self.n == o.n\nD = {}\ndef f(x):\n    D[K(1)] = x\n    D[K(1)] = 2\n    return x + len(D)",
        "class C: pass\no = C()\ndef f(x):\n    o.__dict__ = {'a': x}\n    return x + 1, o.a",
        "class C: pass\nclass D(C): n = 1\no = C()\ndef f(x):\n    o.__class__ = D\n    return x + o.n",
        "class C:\n    def m(self): return 1\ndef f(x):\n    C.m = lambda self: 2\n    return x + C().m()",
        "class C: pass\ndef f(x):\n    C.p = property(lambda self: 3)\n    return x + C().p",
        "def g(v=1): return v\ndef f(x):\n    g.__defaults__ = (2,)\n    return x + g()",
        "def f(x):\n    y = x + 1\n    y.tag = 3\n    return y, y.tag",
    ],
)
def test_what_is_not_replayed_is_right(text: str) -> None:
    check(text, fullgraph=False, calls=3)
