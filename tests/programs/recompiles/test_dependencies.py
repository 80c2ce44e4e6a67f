"""Dependencies of a program, each guarded: classes, functions, containers, modules, settings.

A case is what is there before, the body of the program, and changes made one after the other, with calls after each.
Whether the graph breaks does not matter here; a name with an underscore in front is not compared afterwards.
"""

import sys
import threading
import warnings

import pytest
import torch

from tests.support.harness import Source, T, same

CASES = {}


@pytest.fixture(autouse=True)
def world_put_back():
    """Some cases change what all tests share."""
    depth, threads, name = sys.getrecursionlimit(), torch.get_num_threads(), "MainThread"
    with warnings.catch_warnings():
        yield
    sys.setrecursionlimit(depth)
    torch.set_num_threads(threads)
    torch.set_default_device(None)
    threading.current_thread().name = name
    vars(torch).pop("myattr", None)


def case(name, head, body, *changes, stateful=False):
    CASES[name] = (head, body, changes, stateful)


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
    "dict get",
    "class M(dict):\n    pass\n_m = M(a=1)\n",
    "m = _m\n    return x+1, m.get('a'), 'a' in m, len(m), list(m), list(m.items())",
    "M.get = lambda s, k: 6",
    "M.__contains__ = lambda s, k: False",
    "M.__len__ = lambda s: 77",
    "M.__iter__ = lambda s: iter('qq')",
    "M.items = lambda s: [1]",
)
case(
    "list sub",
    "class L(list):\n    pass\nl = L([1,2])\n",
    "return x+1, l[0], len(l), list(l), 1 in l, sum(l), max(l), [*l], bool(l)",
    "L.__getitem__ = lambda s, i: 9",
    "L.__len__ = lambda s: 5",
    "L.__iter__ = lambda s: iter([7])",
    "L.__contains__ = lambda s, i: False",
    "L.__bool__ = lambda s: False",
)
case(
    "tuple sub",
    "class L(tuple):\n    pass\nl = L([1,2])\n",
    "a, b = l\n    return x+1, l[0], len(l), list(l), 1 in l, sum(l), a, b, l == (1,2)",
    "L.__getitem__ = lambda s, i: 9",
    "L.__len__ = lambda s: 5",
    "L.__iter__ = lambda s: iter([7, 8])",
    "L.__eq__ = lambda s, o: 'e'",
)
case(
    "str sub",
    "class S(str):\n    pass\n_s = S('ab')\n",
    "s = _s\n    return x+1, s + 'c', s.upper(), len(s), s == 'ab', f'{s}', {s: 1}.get('ab')",
    "S.upper = lambda s: 'no'",
    "S.__add__ = lambda s, o: 'no'",
    "S.__len__ = lambda s: 9",
    "S.__eq__ = lambda s, o: False; S.__hash__ = str.__hash__",
    "S.__str__ = lambda s: 'st'",
    "S.__format__ = lambda s, f: 'fo'",
)
case(
    "int sub",
    "class I(int):\n    pass\ni = I(3)\n",
    "return x*i, i + 1, i == 3, bool(i), str(i), -i, i // 2, range(i), [1,2,3,4][i]",
    "I.__add__ = lambda s, o: 100",
    "I.__eq__ = lambda s, o: 'eq'",
    "I.__bool__ = lambda s: False",
    "I.__str__ = lambda s: 'st'",
    "I.__neg__ = lambda s: 'neg'",
    "I.__index__ = lambda s: 0",
    "i = I(2)",
)
case(
    "float sub",
    "class F(float):\n    pass\ni = F(3)\n",
    "return x*i, i + 1, i == 3, bool(i), str(i), -i",
    "F.__add__ = lambda s, o: 100",
    "F.__eq__ = lambda s, o: 'eq'",
    "F.__bool__ = lambda s: False",
    "F.__str__ = lambda s: 'st'",
    "F.__neg__ = lambda s: 'neg'",
    "i = F(2)",
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
    "environ",
    "import os\nos.environ['Q_TEST'] = '1'\n",
    "return x+1, os.environ.get('Q_TEST'), 'Q_TEST' in os.environ, os.getenv('Q_NOT', 'd')",
    "os.environ['Q_TEST'] = '2'",
    "os.environ['Q_NOT'] = '2'",
    "os.environ.pop('Q_TEST', 0), os.environ.pop('Q_NOT', 0)",
)
case(
    "math",
    "import math\n",
    "return x*math.pi, math.sqrt(4)",
    "math.pi2 = math.pi; math.pi = 3",
    "math.pi = math.pi2; math.sqrt2 = math.sqrt; math.sqrt = lambda v: 9",
    "math.sqrt = math.sqrt2",
)
case("builtins", "import builtins\n", "return x+1, len([1,2]), max(1,2)", "max = lambda *a: 'm'")
case(
    "import",
    "import sys, types\nsys.modules['qmod'] = types.ModuleType('qmod'); sys.modules['qmod'].v = 1\n",
    "import qmod\n    from qmod import v\n    return x*v, qmod.v",
    "sys.modules['qmod'].v = 2",
    "m2 = types.ModuleType('qmod'); m2.v = 3; sys.modules['qmod'] = m2",
    "m2.v = 8",
)
case(
    "singledispatch",
    "import functools\n@functools.singledispatch\ndef g(a): return 0\n@g.register\ndef _(a: int): return 1\n",
    "return x+1, g(3), g('s')",
    "g.register(str, lambda a: 2)",
    "g.register(bool, lambda a: 3)",
)
case(
    "contextvar",
    "import contextvars\n_v = contextvars.ContextVar('v', default=1)\n",
    "return x*_v.get()",
    "_v.set(2)",
    "_v.set(3)",
)
case(
    "threadlocal",
    "import threading\nl = threading.local(); l.a = 1\n",
    "return x*l.a, getattr(l, 'b', 0)",
    "l.a = 2",
    "l.b = 3",
)
case(
    "lru",
    "import functools\nstate = [1]\n@functools.lru_cache\ndef g(a): return a*state[0]\n",
    "return x*g(2), g(3)",
    "state[0] = 5",
    "g.cache_clear()",
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
    "logging",
    "import logging\nlog = logging.getLogger('q.t'); log.setLevel(logging.ERROR)\n",
    "return x+1, log.isEnabledFor(logging.INFO), log.level, log.getEffectiveLevel()",
    "log.setLevel(logging.DEBUG)",
    "logging.disable(logging.CRITICAL)",
    "logging.disable(logging.NOTSET)",
)
case(
    "defaultdict",
    "import collections\nd = collections.defaultdict(list)\n",
    "d2 = d['k'] if 'k' in d else None\n    return x+1, d2, d.default_factory is list, len(d)",
    "d['k'].append(1)",
    "d.default_factory = int",
)
case(
    "defaultdict2",
    "import collections\nd = collections.defaultdict(list)\n",
    "d['n'].append(1)\n    return x+1, dict(d)",
    "d.default_factory = None",
    "d.clear(); d.default_factory = lambda: [5]",
    stateful=True,
)
case(
    "odict",
    "import collections\nd = collections.OrderedDict(a=1, b=2)\n",
    "return x+1, list(d), next(iter(d)), list(reversed(d)), d.popitem if 0 else 0",
    "d.move_to_end('a')",
    "d.move_to_end('a', last=False)",
    "d['c'] = 1",
)
case(
    "counter",
    "import collections\nd = collections.Counter('aab')\n",
    "return x+1, d['a'], d['zz'], d.most_common(1), sum(d.values())",
    "d['a'] = 9",
    "d.update('bbbb')",
)
case(
    "chainmap",
    "import collections\na, b = {'u': 1}, {'v': 2}\nd = collections.ChainMap(a, b)\n",
    "return x+1, d['u'], d.get('v'), len(d), list(d)",
    "b['u'] = 4",
    "a['v'] = 9",
    "d.maps.reverse()",
)
case(
    "mappingproxy",
    "import types\na = {'u': 1}\nd = types.MappingProxyType(a)\n",
    "return x+1, d['u'], len(d), list(d.items())",
    "a['u'] = 2",
    "a['w'] = 2",
)
case(
    "simplens",
    "import types\nd = types.SimpleNamespace(a=1)\n",
    "return x*d.a, getattr(d, 'b', 0), vars(d), d == types.SimpleNamespace(a=1)",
    "d.a = 2",
    "d.b = 3",
)
case("bytearray", "d = bytearray(b'abc')\n", "return x+1, d[0], len(d), bytes(d)", "d[0] = 4", "d.append(1)")
case("memoryview", "q = bytearray(b'abc'); d = memoryview(q)\n", "return x+1, d[0], len(d), bytes(d)", "q[0] = 4")
case(
    "array",
    "import array\nd = array.array('i', [1,2])\n",
    "return x*d[0], len(d), list(d), sum(d)",
    "d[0] = 4",
    "d.append(3)",
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
    "zeros",
    "v = 0.0\n",
    "return x*v, str(v), 1 if v == 0 else 2",
    "v = -0.0",
    "v = float('nan')",
    "v = float('inf')",
    "v = 0",
    "v = False",
    "v = 0j",
)
case(
    "bigint",
    "v = 2**70\n",
    "return x+1, v+1, v % 7, v == 2**70",
    "v = 2**71",
    "v = -2**70",
    "v = 5",
    "v = 2**63",
    "v = 2**63-1",
    "v = -2**63",
)
case("truth", "v = True\n", "return x*v, v + 1, v is True, str(v)", "v = 1", "v = False", "v = 0")
case(
    "npscalar",
    "import numpy as np\nv = np.float32(2)\n",
    "return x*float(v), v + 1, v == 2",
    "v = np.float32(3)",
    "v = np.float64(3)",
    "v = np.int64(3)",
)
case(
    "nparray",
    "import numpy as np\n_v = np.ones(2, dtype='float32')\n",
    "return x+torch.from_numpy(_v), _v.shape, _v[0], _v.sum()",
    "_v[0] = 5",
    "_v = np.zeros(2, dtype='float32')",
)
case(
    "dtype",
    "d = torch.float32\n",
    "return x.to(d), d.is_floating_point, str(d), d == torch.float32",
    "d = torch.int32",
    "d = torch.float64",
)
case("slice", "s = slice(0, 1)\n", "return x[s], s.start, s.stop", "s = slice(1, 2)", "s = slice(None, None, 1)")
case("range", "r = range(2)\n", "return [x*i for i in r], len(r), r[0], 1 in r", "r = range(3)", "r = range(1, 2)")
case("size", "s = torch.Size([1, 2])\n", "return x.expand(s), s.numel(), s[0]", "s = torch.Size([2, 2])")
case(
    "tattrs",
    "t = torch.ones(2); t.tag = 1\n",
    "return x+t, getattr(t, 'tag', 0), hasattr(t, 'other'), t.grad is None, t.grad_fn is None, t.is_leaf, t.requires_grad, t._version, t.names",
    "t.tag = 2",
    "t.other = 1",
    "t.grad = torch.ones(2)",
    "t.requires_grad_(True)",
    "t.data.add_(1)",
    "del t.tag",
)
case("tversion", "t = torch.ones(2)\n", "return x+t, t._version", "t.add_(1)", "t.mul_(2)")
case(
    "ptr",
    "t = torch.ones(4); u = t[:2]\n",
    "return x+u, t.data_ptr() == u.data_ptr(), u.storage_offset(), u.is_set_to(t), u._is_view(), u._base is t",
    "u = t[2:]",
    "u = torch.ones(2)",
)
case(
    "grad",
    "w = torch.ones(2, requires_grad=True)\n",
    "return x*w, w.grad, (w.grad is None)",
    "w.grad = torch.ones(2)",
    "w.grad = torch.zeros(2)",
    "w.grad = None",
)
case(
    "alias",
    "a = torch.ones(2); b = torch.ones(2)\n",
    "a.add_(1)\n    return x+a+b, a is b",
    "b = a",
    "b = a.clone()",
    stateful=True,
)
case(
    "alias view",
    "a = torch.ones(4); b = torch.ones(2)\n",
    "y = b + 1\n    a.add_(1)\n    return x+a[:2]+b+y",
    "b = a[:2]",
    "b = a[1:3]",
    "b = a.clone()[:2]",
    stateful=True,
)
for name, get, sets in [
    (
        "dd",
        "torch.get_default_dtype()",
        ["torch.set_default_dtype(torch.float64)", "torch.set_default_dtype(torch.float32)"],
    ),
    ("threads", "torch.get_num_threads()", ["torch.set_num_threads(1)"]),
    (
        "det",
        "torch.are_deterministic_algorithms_enabled()",
        ["torch.use_deterministic_algorithms(True)", "torch.use_deterministic_algorithms(False)"],
    ),
    (
        "prec",
        "torch.get_float32_matmul_precision()",
        ["torch.set_float32_matmul_precision('high')", "torch.set_float32_matmul_precision('highest')"],
    ),
    (
        "mkldnn",
        "torch.backends.mkldnn.enabled",
        ["torch.backends.mkldnn.set_flags(False)", "torch.backends.mkldnn.set_flags(True)"],
    ),
    (
        "tf32",
        "torch.backends.cuda.matmul.allow_tf32",
        ["torch.backends.cuda.matmul.allow_tf32=True", "torch.backends.cuda.matmul.allow_tf32=False"],
    ),
    (
        "cudnn",
        "torch.backends.cudnn.enabled",
        ["torch._C._set_cudnn_enabled(False)", "torch._C._set_cudnn_enabled(True)"],
    ),
    (
        "bench",
        "torch.backends.cudnn.benchmark",
        ["torch._C._set_cudnn_benchmark(True)", "torch._C._set_cudnn_benchmark(False)"],
    ),
    (
        "sdp",
        "torch.backends.cuda.flash_sdp_enabled()",
        ["torch.backends.cuda.enable_flash_sdp(False)", "torch.backends.cuda.enable_flash_sdp(True)"],
    ),
    ("gradmode", "torch.is_grad_enabled()", ["torch._C._set_grad_enabled(False)", "torch._C._set_grad_enabled(True)"]),
    ("seed", "torch.initial_seed()", ["torch.manual_seed(5)", "torch.manual_seed(6)"]),
    (
        "anomaly",
        "torch.is_anomaly_enabled()",
        ["torch.autograd.set_detect_anomaly(True)", "torch.autograd.set_detect_anomaly(False)"],
    ),
    (
        "autocast",
        "torch.is_autocast_enabled('cpu')",
        ["torch.set_autocast_enabled('cpu', True)", "torch.set_autocast_enabled('cpu', False)"],
    ),
    (
        "acdtype",
        "torch.get_autocast_dtype('cpu')",
        ["torch.set_autocast_dtype('cpu', torch.float16)", "torch.set_autocast_dtype('cpu', torch.bfloat16)"],
    ),
    (
        "defdev",
        "str(torch.get_default_device())",
        ["torch.set_default_device('meta')", "torch.set_default_device('cpu')", "torch.set_default_device(None)"],
    ),
    (
        "threadname",
        "__import__('threading').current_thread().name",
        ["__import__('threading').current_thread().name='zz'"],
    ),
    ("reclimit", "__import__('sys').getrecursionlimit()", ["__import__('sys').setrecursionlimit(1234)"]),
    ("warn", "len(__import__('warnings').filters)", ["__import__('warnings').simplefilter('ignore')"]),
    ("modattr", "__import__('torch').myattr if hasattr(torch,'myattr') else 0", ["torch.myattr=3", "torch.myattr=4"]),
]:
    case("state " + name, "", f"return x+1, {get}", *sets)
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
case(
    "sorted",
    "class K:\n    def __init__(s, v): s.v = v\nks = [K(3), K(1)]\n",
    "return x+1, [k.v for k in sorted(ks, key=lambda k: k.v)], min(ks, key=lambda k: k.v).v",
    "ks[0].v = 0",
    "ks.append(K(-1))",
)
case(
    "strmeth",
    "v = 'a,b'\n",
    "return x+1, v.split(','), v.upper(), v.replace('a', 'z'), v.encode(), '%5s|%-3d' % (v, 3), v[::-1], v.partition(',')",
    "v = 'c,d,e'",
)
case(
    "re",
    "import re\nv = 'a1'; p = re.compile(r'\\d')\n",
    "return x+1, bool(re.match('a', v)), p.sub('z', v), p.findall(v)",
    "v = 'b22'",
    "p = re.compile('b')",
)
case("json", "import json\nd = {'a': [1, 2]}\n", "return x+1, json.dumps(d)", "d['a'].append(3)")
case(
    "itertools",
    "import itertools\nl = [1,2,3]\n",
    "return x+1, list(itertools.accumulate(l)), list(itertools.product(l, repeat=2))[:3], list(itertools.chain(l, l)), list(zip(l, l[1:])), list(itertools.islice(l, 2)), list(itertools.groupby(l, key=lambda v: v%2))[0][0]",
    "l.append(9)",
    "l[0] = 4",
)
case(
    "hasattrmod",
    "m = nn.Linear(2,2)\n",
    "return m(x), hasattr(m, 'extra'), getattr(m, 'bias') is None, m.training, m.in_features",
    "m.extra = 1",
    "m.bias = None",
    "m.eval()",
    "m.in_features = 9",
    "m.weight = nn.Parameter(torch.zeros(2,2))",
    "m.weight.requires_grad_(False)",
    "m.double(); m.float()",
)
case(
    "moditer",
    "m = nn.Sequential(nn.Linear(2,2), nn.ReLU())\n",
    "return m(x), len(m), [type(q).__name__ for q in m], len(list(m.parameters())), [n for n, _ in m.named_modules()]",
    "m.append(nn.Tanh())",
    "m[1] = nn.Sigmoid()",
    "del m[0]",
    "m.register_parameter('w', None)",
    "m.insert(0, nn.Linear(2,2))",
)
case(
    "state dict",
    "m = nn.Linear(2,2)\n",
    "sd = m.state_dict()\n    return x+sd['bias'], list(sd)",
    "m.register_buffer('b', torch.ones(2))",
    "m.bias.data.fill_(3)",
)
case(
    "exception",
    "class E(Exception): pass\nclass F(E): pass\nclass G(Exception): pass\nto_raise = [F]\n",
    "try:\n        raise to_raise[0]('a')\n    except E as e: n = 'E' + str(e)\n    except Exception as e: n = 'X' + str(e)\n    return x+1, n",
    "to_raise[0] = G",
    "F.__bases__ = (G,); to_raise[0] = F",
    "E.__str__ = lambda s: 'zz'; to_raise[0] = E",
)
case("gen", "def g(n):\n    for i in range(n): yield i\nN = 3\n", "return [x*i for i in g(N)]", "N = 2", "N = 4")
case(
    "global gen",
    "def g():\n    i = 0\n    while True:\n        yield i\n        i += 1\nit = g()\n",
    "return x*next(it)",
    stateful=True,
)
case(
    "iterglob",
    "it = iter([1,2,3,4,5,6,7,8,9,10,11,12,13,14])\n",
    "return x*next(it)",
    "it = iter([5,6,7,8,9,1,1,1])",
    stateful=True,
)
case(
    "random",
    "import random\nrandom.seed(1)\n",
    "return x*random.random(), random.randint(0, 100)",
    "random.seed(3)",
    stateful=True,
)
case(
    "time", "import time\nclass Fake:\n    t = 1\ntime_ = Fake()\n", "return x*time_.t, time.time() > 0", "time_.t = 4"
)
case(
    "weakdict",
    "import weakref\nclass K: pass\nk = K(); d = weakref.WeakKeyDictionary({k: 1})\n",
    "return x*d[k], len(d), k in d",
    "d[k] = 2",
    "k2 = K(); d[k2] = 3",
)
case(
    "functools reduce",
    "import functools, operator\nl = [1,2,3]\n",
    "return x*functools.reduce(operator.mul, l), operator.itemgetter(1)(l), operator.attrgetter('real')(3)",
    "l.append(4)",
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
case(
    "walrus match",
    "d = {'k': (1, [2, 3]), 'z': 0}\n",
    "match d:\n        case {'k': (a, [b, *r]), **rest}: return x*a*b, r, rest\n        case _: return x, 0, 0",
    "d['k'] = (5, [6])",
    "d['k'] = (5, [])",
    "d['y'] = 1; d['k'] = (1, [2])",
    "del d['k']",
)


@pytest.mark.parametrize("name", CASES)
def test_changes_are_noticed(name):
    head, body, changes, stateful = CASES[name]
    same(
        Source(f"{head}\ndef f(x):\n    {body}\n"), T(2, 2),
        compare_dynamo=False, fullgraph=False, mutate=list(changes), stateful=stateful,
    )  # fmt: skip
