"""Containers, numbers, tensors and iterators that a program depends on: each change is noticed."""

from tests.programs.recompiles.dependencies import Dependencies

case = Dependencies()

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
    "itertools",
    "import itertools\nl = [1,2,3]\n",
    "return x+1, list(itertools.accumulate(l)), list(itertools.product(l, repeat=2))[:3], list(itertools.chain(l, l)), list(zip(l, l[1:])), list(itertools.islice(l, 2)), list(itertools.groupby(l, key=lambda v: v%2))[0][0]",
    "l.append(9)",
    "l[0] = 4",
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
case(
    "walrus match",
    "d = {'k': (1, [2, 3]), 'z': 0}\n",
    "match d:\n        case {'k': (a, [b, *r]), **rest}: return x*a*b, r, rest\n        case _: return x, 0, 0",
    "d['k'] = (5, [6])",
    "d['k'] = (5, [])",
    "d['y'] = 1; d['k'] = (1, [2])",
    "del d['k']",
)

test_changes_are_noticed = case.test()
