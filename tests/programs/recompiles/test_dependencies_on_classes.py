"""Classes, functions and what can be read of them: each change is noticed."""

from tests.programs.recompiles.dependencies import Dependencies

case = Dependencies()

C = "class C:\n    pass\nc = C()\n"
case("callable", C, "return x+1, callable(c)", "C.__call__ = lambda s: 1", "del C.__call__")
case(
    "len",
    C,
    "try:\n        n = len(c)\n    except TypeError as e: n = str(e)\n    return x+1, n",
    "C.__len__ = lambda s: 3",
    "C.__len__ = lambda s: 4",
    "del C.__len__",
)
case(
    "bool",
    C,
    "return x+1, bool(c), not c, 1 if c else 2",
    "C.__len__ = lambda s: 0",
    "C.__bool__ = lambda s: True",
    "del C.__bool__",
)
case(
    "eq",
    C + "d = C()\n",
    "return x+1, c == d, c != d, d in [c], [c].index(c)",
    "C.__eq__ = lambda s, o: True",
    "C.__ne__ = lambda s, o: True",
    "del C.__eq__",
)
case(
    "hash", C + "D = {c: 3}\n", "return x+1, hash(c) == hash(c), hash(c) == 7", "C.__hash__ = lambda s: 7", "D = {c: 4}"
)
case(
    "iter",
    C,
    "try:\n        n = list(c)\n    except TypeError as e: n = str(e)\n    return x+1, n",
    "C.__iter__ = lambda s: iter([1,2])",
    "C.__iter__ = lambda s: iter([3])",
    "del C.__iter__; C.__getitem__ = lambda s, i: [5,6][i]",
)
case(
    "contains",
    C,
    "try:\n        n = 3 in c\n    except TypeError as e: n = str(e)\n    return x+1, n",
    "C.__contains__ = lambda s, i: True",
    "del C.__contains__; C.__iter__ = lambda s: iter([3])",
)
case(
    "add",
    C,
    "try:\n        n = c + 1\n    except TypeError as e: n = str(e)\n    return x+1, n",
    "C.__add__ = lambda s, i: 11",
    "del C.__add__; int",
    "C.__radd__ = lambda s, i: 12",
)
case(
    "radd",
    C,
    "try:\n        n = 1 + c\n    except TypeError as e: n = str(e)\n    return x+1, n",
    "C.__radd__ = lambda s, i: 11",
    "del C.__radd__",
)
case(
    "lt",
    C + "d=C()\n",
    "try:\n        n = c < d\n    except TypeError as e: n = str(e)\n    return x+1, n",
    "C.__gt__ = lambda s, i: 11",
    "C.__lt__ = lambda s, i: 12",
)
case(
    "index",
    C,
    "try:\n        n = [1,2,3][c]\n    except TypeError as e: n = str(e)\n    return x+1, n",
    "C.__index__ = lambda s: 1",
    "C.__index__ = lambda s: 2",
)
case(
    "int",
    C,
    "try:\n        n = int(c)\n    except TypeError as e: n = str(e)\n    return x+1, n",
    "C.__int__ = lambda s: 1",
    "C.__int__ = lambda s: 2",
    "del C.__int__; C.__index__ = lambda s: 5",
)
case(
    "str",
    C,
    "return x+1, str(c)[:5], f'{c!r}'[:4], '%s' % (c,) == str(c)",
    "C.__repr__ = lambda s: 'hello'",
    "C.__str__ = lambda s: 'there'",
    "C.__format__ = lambda s, f: 'zz'",
)
case(
    "format",
    C,
    "return x+1, f'{c:>3}' if hasattr(C, '__fmt') else 0, format(c)[:4]",
    "C.__format__ = lambda s, f: 'zz' + f",
)
case(
    "enter",
    C,
    "try:\n        with c as y: n = y\n    except Exception as e: n = type(e).__name__\n    return x+1, n",
    "C.__enter__ = lambda s: 4; C.__exit__ = lambda s, *a: None",
    "C.__enter__ = lambda s: 5",
)
case(
    "getattr",
    C,
    "return x+1, getattr(c, 'z', 1)",
    "C.__getattr__ = lambda s, n: 4",
    "c.z = 3",
    "del c.z; C.z = 8",
    "C.z = property(lambda s: 99)",
)
case(
    "getattribute",
    "class C: pass\n_c = C(); _c.z = 1\n",
    "return x+1, _c.z",
    "C.__getattribute__ = lambda s, n: 4",
    "del C.__getattribute__",
)
case(
    "setattr",
    C,
    "c.z = 5\n    return x+1, c.__dict__.get('z')",
    "C.__setattr__ = lambda s, n, v: s.__dict__.__setitem__(n, v+1)",
    "del C.__setattr__",
    stateful=True,
)
case(
    "missing",
    "class M(dict):\n    pass\nm = M(a=1)\n",
    "try:\n        n = m['b']\n    except KeyError as e: n = str(e)\n    return x+1, n",
    "M.__missing__ = lambda s, k: 6",
    "m['b'] = 2",
    "del m['b']; M.__getitem__ = lambda s, k: 9",
)
case(
    "fn attrs",
    "def g(a, b=2, *, k=3):\n    'doc'\n    return a+b+k\n",
    "return g(x), g.__name__, g.__doc__, g.__defaults__, g.__kwdefaults__, g.__qualname__, getattr(g, 'tag', 0), g.__module__",
    "g.__defaults__ = (5,)",
    "g.__kwdefaults__ = {'k': 7}",
    "g.__name__ = 'h'",
    "g.__doc__ = 'other'",
    "g.tag = 3",
    "g.__code__ = (lambda a, b=2, *, k=3: a*b*k).__code__",
    "g.__qualname__='q'",
    "g.__module__='m'",
)
case(
    "inspect",
    "import inspect\ndef g(a, b=2, *, k=3):\n    return a+b+k\n",
    "s = inspect.signature(g)\n    return x+1, list(s.parameters), s.parameters['b'].default, str(s)",
    "g.__defaults__ = (5,)",
    "g.__signature__ = inspect.signature(lambda q, b=1: 1)",
    "del g.__signature__; g.__wrapped__ = lambda z, b=7: 1",
)
case(
    "partial",
    "import functools\ndef g(a, b=2, *, k=3): return a+b+k\np = functools.partial(g, b=4)\n",
    "return p(x), p.args, p.keywords, p.func is g",
    "p.keywords['k'] = 9",
    "p.__setstate__((g, (), {'b': 1}, {}))",
    "p = functools.partial(g, k=1)",
)
case(
    "method",
    "class K:\n    w = 2\n    def m(self, x): return x*self.w\nk = K(); bm = k.m\n",
    "return bm(x), bm.__self__.w, bm.__func__ is K.m",
    "k.w = 3",
    "K.m = lambda s, x: x",
    "bm = K().m",
)
case(
    "enum",
    "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\ne = E.A\n",
    "return x*e.value, e.name, E(2).name, [q.name for q in E], E['A'] is e, isinstance(e, E), len(E), e in E",
    "e = E.B",
    "E.A._value_ = 5",
)
case(
    "intenum",
    "import enum\nclass E(enum.IntEnum):\n    A = 1\n    B = 2\ne = E.A\n",
    "return x*e, e + 1, e == 1, str(e), f'{e}', [q.name for q in E], max(E)",
    "e = E.B",
)
case(
    "flag",
    "import enum\nclass E(enum.Flag):\n    A = 1\n    B = 2\ne = E.A\n",
    "return x+1, (e | E.B).value, bool(e & E.B), E.A in e, ~e",
    "e = E.B",
    "e = E.A | E.B",
)
case(
    "dataclass",
    "import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: int = 1\n    b: list = dataclasses.field(default_factory=list)\nd = D()\n",
    "return x*d.a, dataclasses.asdict(d), [f.name for f in dataclasses.fields(d)], dataclasses.replace(d, a=9).a, d == D(), repr(d), dataclasses.is_dataclass(d), dataclasses.astuple(d)",
    "d.a = 2",
    "d.b.append(1)",
    "D.__eq__ = lambda s, o: 'e'",
)
case(
    "frozen",
    "import dataclasses\n@dataclasses.dataclass(frozen=True, order=True)\nclass D:\n    a: int = 1\nd = D()\n",
    "try:\n        d.a = 3\n        q = 0\n    except Exception as e: q = type(e).__name__\n    return x*d.a, q, d < D(5), hash(d) == hash(D(1))",
    "object.__setattr__(d, 'a', 7)",
)
case(
    "nt",
    "import collections\nP = collections.namedtuple('P', 'a b', defaults=[3])\np = P(1)\n",
    "return x*p.a, p._asdict(), p._replace(a=5), P._fields, p == (1,3), P._make([1,2]), P(7)",
    "p = P(2, 4)",
    "P.a = property(lambda s: 99)",
    "P.__new__.__defaults__ = (8,)",
)
case(
    "singledispatch",
    "import functools\n@functools.singledispatch\ndef g(a): return 0\n@g.register\ndef _(a: int): return 1\n",
    "return x+1, g(3), g('s')",
    "g.register(str, lambda a: 2)",
    "g.register(bool, lambda a: 3)",
)
case(
    "cachedprop",
    "import functools\nclass K:\n    n = 1\n    @functools.cached_property\n    def p(self): return self.n\nk = K()\n",
    "return x*k.p",
    "k.n = 2",
    "del k.__dict__['p']",
    "k.__dict__['p'] = 8",
    stateful=True,
)
case(
    "slots",
    "class K:\n    __slots__ = ('a', 'b')\nk = K(); k.a = 1\n",
    "return x*k.a, hasattr(k, 'b')",
    "k.a = 2",
    "k.b = 2",
    "del k.a; k.a = 4",
)
case(
    "classattr",
    "class K:\n    reg = {'a': 1}\n    n = 1\n    @classmethod\n    def m(cls): return cls.n\n    @staticmethod\n    def s(): return K.n\n",
    "return x*K.n, K.reg.get('a'), K.m(), K.s(), K().m()",
    "K.n = 2",
    "K.reg['a'] = 2",
    "K.m = staticmethod(lambda: 5)",
    "K.s = classmethod(lambda c: 6)",
)
case(
    "super",
    "class A:\n    def m(self): return 1\nclass B(A):\n    def m(self): return super().m() + 10\nclass D(A):\n    def m(self): return 5 + super().m()\nclass E(B, D): pass\nclass Z(A):\n    def m(self): return 1000\ne = E(); b = B()\n",
    "return x+1, e.m(), b.m(), super(B, e).m()",
    "A.m = lambda s: 2",
    "E.__bases__ = (B, Z)",
    "B.__bases__ = (Z,)",
)
case(
    "closure",
    "def make():\n    n = 1\n    def g(x): return x*n\n    def s(v):\n        nonlocal n\n        n = v\n    return g, s\ng, s = make()\n",
    "return g(x)",
    "s(2)",
    "s(torch.ones(2))",
    "s(True)",
)
case(
    "mutdefault",
    "def g(x, l=[1]): return x*l[0], len(l)\n",
    "return g(x)",
    "g.__defaults__[0].append(3)",
    "g.__defaults__[0][0] = 6",
)
case(
    "property",
    "class K:\n    a = 1\n    @property\n    def p(self): return self.a\nk = K()\n",
    "return x*k.p",
    "K.a = 2",
    "K.p = property(lambda s: 9)",
    "K.p = 4",
    "k.__dict__['p'] = 5",
)
case(
    "descr",
    "class D:\n    v = 1\n    def __get__(self, o, t=None): return self.v\nclass K: d = D()\nk = K()\n",
    "return x*k.d, K.d",
    "D.v = 2",
    "D.__set__ = lambda s, o, v: None",
    "k.__dict__['d'] = 8",
    "del D.__set__",
    "D.__get__ = lambda s, o, t=None: 77",
)
case(
    "names",
    "class K: pass\nk = K()\n",
    "return x+1, K.__name__, type(k).__qualname__, K.__module__, K.__doc__, K.__bases__, K.__dict__.get('z'), repr(K)",
    "K.__name__ = 'J'",
    "K.__qualname__ = 'Q'",
    "K.__doc__ = 'd'",
    "K.z = 1",
    "K.__module__ = 'mm'",
)
case(
    "dir",
    "class K: pass\nk = K()\n",
    "return x+1, 'z' in dir(k), sorted(vars(k)), 'z' in k.__dict__",
    "k.z = 1",
    "K.__dir__ = lambda s: []",
    "k.y = 1",
)
case(
    "copy",
    "import copy\nclass K:\n    def __init__(s): s.a = [1]\nk = K()\n",
    "d = copy.deepcopy(k); e = copy.copy(k)\n    return x*d.a[0], e.a is k.a, d.a is k.a",
    "k.a[0] = 3",
    "K.__deepcopy__ = lambda s, m: s",
    "K.__copy__ = lambda s: K()",
)
case("annot", "def g(a: int) -> str: return a\n", "return g(x), g.__annotations__", "g.__annotations__['a'] = float")
case(
    "type()",
    "class A: k = 1\nclass B: k = 2\no = A()\n",
    "return x*type(o).k, type(o) is A, o.__class__.__name__",
    "o = B()",
    "o.__class__ = A",
    "A.k = 5",
)
case(
    "mro",
    "class A: pass\nclass B(A): pass\n",
    "return x+1, [k.__name__ for k in B.__mro__], A.__subclasses__() == [B]",
    "class Q(A): pass",
    "B.__bases__ = (Q,)",
)
case(
    "metaattr",
    "class M(type):\n    z = 1\n    def __getattr__(cls, n): return 5\n    def __len__(cls): return 3\n    def __getitem__(cls, i): return i*2\n    def __call__(cls, *a): return 8\nclass K(metaclass=M): pass\n",
    "return x*K.z, K.other, len(K), K[4], K()",
    "M.z = 2",
    "M.__getattr__ = lambda c, n: 6",
    "K.other = 9",
    "M.__len__ = lambda c: 4",
    "del M.__call__; M.__getitem__ = lambda c, i: 0",
)
case(
    "new",
    "class K:\n    def __new__(cls, v):\n        o = super().__new__(cls); o.n = 1; return o\n    def __init__(self, v): self.v = v\n",
    "k = K(3)\n    return x*k.v, k.n",
    "K.__init__ = lambda s, v: setattr(s, 'v', v+1)",
    "K.__new__ = lambda c, v: object.__new__(c)\nK.n = 6",
)
case(
    "init sub",
    "class K:\n    __slots__=()\n",
    "k = K()\n    return x+1, isinstance(k, K), hasattr(k, 'q')",
    "K.q = 1",
    "K.__init__ = lambda s: None",
)

test_changes_are_noticed = case.test()
