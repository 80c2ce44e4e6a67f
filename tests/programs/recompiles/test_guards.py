"""Everything that a program read may change between calls: the result is correct each time, and nothing else
recompiles.

A case is a program as text, its arguments and the changes. Every world runs the text anew, so a change of a global, a
class or a function's code reaches that world alone. A change in `same_as_before(...)` puts things back to a state met
before, or touches what the program does not read: it must compile nothing.
"""

import contextlib

import pytest
import torch

from tests.support.engine import CAPTURES, Recorder, compile, reset
from tests.support.harness import Source, T, same
from tests.support.harness import unrelated as same_as_before
from tests.support.torch_settings import default_dtype, deterministic

X = T(3, 4)

CASES = {
    # arguments
    "int argument": ("def f(x, n): return x * n", [X, 2], ["ARGS[1] = 3", "ARGS[1] = -1", same_as_before("ARGS[1] = 2")]),
    "number of defaults": ("def g(a, b=1, c=2): return a * b + c\ndef f(x): return g(x, 3)", [X], ["g.__defaults__ = (5,)", "g.__defaults__ = (7, 8, 9)", "g.__defaults__ = (1, 2)"]),
    "float argument": ("def f(x, r): return x * r", [X, 0.5], ["ARGS[1] = 1.5", "ARGS[1] = 0.0", "ARGS[1] = -0.0", "ARGS[1] = float('nan')"]),
    "str argument": ("def f(x, s): return getattr(torch, s)(x)", [X, "relu"], ["ARGS[1] = 'tanh'", same_as_before("ARGS[1] = 'relu'")]),
    "bool argument": ("def f(x, c): return x + 1 if c else x - 1", [X, True], ["ARGS[1] = False", same_as_before("ARGS[1] = True")]),
    "none argument": ("def f(x, c): return x if c is None else x + c", [X, None], ["ARGS[1] = 2", "ARGS[1] = torch.ones(4)", same_as_before("ARGS[1] = None")]),
    "complex argument": ("def f(x, c): return x * c", [X, 1j], ["ARGS[1] = 2j"]),
    "type of argument": ("def f(x, n): return x * n, type(n)", [X, 2], ["ARGS[1] = 2.0", "ARGS[1] = True", "ARGS[1] = torch.tensor(2)"]),
    "int and bool differ": ("def f(x, n): return x + 1, n, n is True", [X, 1], ["ARGS[1] = True", "ARGS[1] = 1.0"]),
    "int subclass": ("class I(int):\n    def __mul__(self, o): return 7\ndef f(x, n): return x + n * 2", [X, 3], ["ARGS[1] = I(3)"]),
    "dtype argument": ("def f(x, d): return x.to(d)", [X, torch.float64], ["ARGS[1] = torch.float16", same_as_before("ARGS[1] = torch.float64")]),
    "enum argument": ("class E(enum.Enum):\n    A = 1\n    B = 2\nCHOICE = E.A\ndef f(x): return x + 1 if CHOICE is E.A else x * 2", [X], ["CHOICE = E.B", same_as_before("CHOICE = E.A")]),
    "function argument": ("def f(x, g): return g(x)", [X, lambda: torch.relu], ["ARGS[1] = torch.tanh", "ARGS[1] = lambda t: t + 1", same_as_before("ARGS[1] = torch.relu")]),
    "number of positional arguments": ("def f(x, *rest): return x + len(rest) + sum(rest)", [X, 1], ["ARGS.append(5)", "ARGS.append(torch.ones(4))", "del ARGS[1:]"]),
    "keyword arguments": ("def f(x, **k): return x + sum(k.values()), list(k)", [X], ["KWARGS['a'] = 1", "KWARGS['b'] = 2", "KWARGS.pop('a')", same_as_before("KWARGS.clear()")]),
    "order of keywords": ("def f(x, **k): return x + 1, list(k)", [X], ["KWARGS.update(a=1, b=2)", "KWARGS.clear(); KWARGS.update(b=2, a=1)"]),
    "argument left to its default": ("def f(x, n=2): return x * n", [X], ["ARGS.append(3)", "ARGS.pop()", "KWARGS['n'] = 5"]),
    "slice and range": ("def f(x, c): return x[c] if isinstance(c, slice) else x + len(c)", [X, lambda: slice(1, 2)], ["ARGS[1] = slice(0, 2)", "ARGS[1] = range(3)", "ARGS[1] = range(5)"]),
    # tensors
    "dtype": ("def f(x): return x + 1, x.dtype", [X], ["ARGS[0] = torch.ones(3, 4, dtype=torch.float64)", "ARGS[0] = torch.ones(3, 4, dtype=torch.int32)"]),
    "size": ("def f(x): return x * x.size(0)", [X], ["ARGS[0] = torch.ones(5, 4)", "ARGS[0] = torch.ones(7)", same_as_before("ARGS[0] = torch.zeros(3, 4)")]),
    "size that broadcasts": ("def f(x, y): return x + y", [X, T(4)], ["ARGS[1] = torch.ones(3, 1)", "ARGS[1] = torch.ones(1)", "ARGS[1] = torch.ones(2, 3, 4)"]),
    "stride": ("def f(x): return x + 1, x.is_contiguous()", [X], ["ARGS[0] = torch.ones(4, 3).t()", "ARGS[0] = torch.ones(3, 1).expand(3, 4)", same_as_before("ARGS[0] = torch.zeros(3, 4)")]),
    "requires_grad": ("def f(x): return x * 2 if x.requires_grad else x * 3", [X], ["ARGS[0] = torch.ones(3, 4, requires_grad=True)", same_as_before("ARGS[0] = torch.ones(3, 4)")]),
    "parameter instead of tensor": ("def f(x): return x * 2, type(x)", [X], ["ARGS[0] = nn.Parameter(torch.ones(3, 4))"]),
    "subclass": ("class S(torch.Tensor): pass\ndef f(x): return x * 2, type(x).__name__", [X], ["ARGS[0] = torch.ones(3, 4).as_subclass(S)"], {"fullgraph": False}),
    "values are not guarded": ("def f(x): return x * 2", [X], [same_as_before("ARGS[0] = torch.ones(3, 4)"), same_as_before("ARGS[0].add_(5)")]),
    "storage offset": ("def f(x): return x + 1", [T(4)], ["ARGS[0] = torch.arange(8.0)[4:]", "ARGS[0] = torch.arange(8.0)[::2]"]),
    "layout": ("def f(x): return x * 2", [X], ["ARGS[0] = torch.eye(3).to_sparse()"], {"fullgraph": False}),
    "meta device": ("def f(x): return (x * 2).shape, x.device.type", [X], ["ARGS[0] = torch.ones(2, device='meta')"], {"graphs": None, "fullgraph": False}),
    "tensor against number": ("def f(x, c): return x * c", [X, T(4)], ["ARGS[1] = 3", "ARGS[1] = torch.tensor(3)", "ARGS[1] = 2.5"]),
    "dtype of a scalar tensor": ("def f(x, c): return x * c", [X, T()], ["ARGS[1] = torch.tensor(2.0, dtype=torch.float64)", "ARGS[1] = torch.tensor([2.0], dtype=torch.float64)"]),
    "aliasing appears": ("def f(x, y):\n    x.add_(1)\n    return x + y", [X, X], ["ARGS[1] = ARGS[0]", "ARGS[1] = torch.ones(3, 4)"]),
    "aliasing goes": ("def f(x, y): return x is y, x + y", [X, X], ["ARGS[0] = ARGS[1]", "ARGS[0] = ARGS[1].clone()"]),
    "views of one tensor": ("def f(x, y):\n    x.mul_(2)\n    return y + 1", [X, T(4)], ["ARGS[0] = torch.ones(3, 4); ARGS[1] = ARGS[0][0]"]),
    "aliasing through a list": ("def f(x, items):\n    x.add_(1)\n    return items[0] * 2", [X, lambda: [torch.ones(3, 4)]], ["ARGS[1] = [ARGS[0]]"]),
    "aliasing of global and argument": ("G = torch.ones(3, 4)\ndef f(x):\n    x.add_(1)\n    return G * 2", [X], ["ARGS[0] = G", "G = torch.zeros(3, 4)"]),
    "tensor in inference mode": ("def f(x): return x * 2", [X], ["with torch.inference_mode(): ARGS[0] = torch.ones(3, 4)"]),
    # containers
    "length of list": ("def f(x, items): return x + len(items)", [X, lambda: [1, 2]], ["ARGS[1].append(3)", "ARGS[1].clear()", same_as_before("ARGS[1].extend([1, 2])")]),
    "item of list": ("def f(x, items): return x * items[0]", [X, lambda: [1, 2]], ["ARGS[1][0] = 5", "ARGS[1][0] = torch.ones(4)", "ARGS[1] = (7, 8)"]),
    "list of tensors": ("def f(items): return sum(items)", [lambda: [torch.ones(2)]], ["ARGS[0].append(torch.ones(2))", "ARGS[0][0] = torch.ones(1)", "ARGS[0][1] = 5"]),
    "nested list": ("def f(x, items): return x + items[1][0]", [X, lambda: [1, [2]]], ["ARGS[1][1][0] = 5", "ARGS[1][1] = [6, 7]"]),
    "tuple": ("def f(x, p): return x + p[0] * len(p)", [X, (1, 2)], ["ARGS[1] = (3, 4)", "ARGS[1] = (3,)", "ARGS[1] = [3]"]),
    "named tuple": ("P = collections.namedtuple('P', 'a c')\nG = P(1, 2)\ndef f(x): return x + G.a", [X], ["G = P(5, 2)", "G = collections.namedtuple('P', 'c a')(7, 8)"]),
    "keys of dict": ("def f(x, d): return x + len(d), list(d)", [X, lambda: {"a": 1}], ["ARGS[1]['b'] = 2", "del ARGS[1]['a']"]),
    "order of keys": ("def f(x, d): return x + 1, list(d)", [X, lambda: {"a": 1, "b": 2}], ["ARGS[1]['a'] = ARGS[1].pop('a')"]),
    "value in dict": ("def f(x, d): return x * d['a']", [X, lambda: {"a": 1}], ["ARGS[1]['a'] = 2", "ARGS[1]['a'] = torch.ones(4)", "ARGS[1] = {'a': 3}"]),
    "another key of dict": ("def f(x, d): return x * d['a']", [X, lambda: {"a": 2}], ["ARGS[1]['z'] = 5"]),
    "membership": ("def f(x, d): return x + 1 if 'k' in d else x - 1", [X, lambda: {}], ["ARGS[1]['k'] = 0", "ARGS[1] = {'j': 1}"]),
    "get with default": ("def f(x, d): return x + d.get('k', 5)", [X, lambda: {}], ["ARGS[1]['k'] = 0", "ARGS[1].pop('k')"]),
    "set": ("def f(x, c): return x + len(c), 2 in c", [X, lambda: {1, 2}], ["ARGS[1].add(3)", "ARGS[1].remove(2)"]),
    "defaultdict": ("G = collections.defaultdict(int, a=1)\ndef f(x): return x + G['a']", [X], ["G['a'] = 9", "G = {'a': 3}"]),
    "ordered dict": ("G = collections.OrderedDict(a=1, b=2)\ndef f(x): return x + 1, list(G)", [X], ["G.move_to_end('a')", "G['c'] = 1"]),
    "deque": ("G = collections.deque([1, 2])\ndef f(x): return x + G[0] + len(G)", [X], ["G.rotate(1)", "G.append(3)"], {"fullgraph": False}),  # a deque from outside is not modelled
    "list subclass": ("class L(list):\n    def __len__(self): return 50\nG = [1]\ndef f(x): return x + len(G)", [X], ["G = L([1])", "L.__len__ = lambda self: 60"]),
    "list or tuple": ("def f(x, c): return x + 1, isinstance(c, list)", [X, lambda: [1]], ["ARGS[1] = (1,)", "ARGS[1] = {1}"]),
    # attributes and classes
    "attribute": ("class C: n = 1\nG = C()\nG.a = 2\ndef f(x): return x * G.a", [X], ["G.a = 3", "G.a = torch.ones(4)", "G.a = 2.5", same_as_before("G.other = 1")]),
    "attribute appears": ("class C: pass\nG = C()\ndef f(x): return x + getattr(G, 'a', 1)", [X], ["G.a = 5", "del G.a", "C.a = 7"]),
    "hasattr": ("class C: pass\nG = C()\ndef f(x): return x + 1 if hasattr(G, 'a') else x - 1", [X], ["G.a = 5", "del G.a", "C.a = 5"]),
    "nested attribute": ("class C: pass\nG = C()\nG.c = C()\nG.c.d = C()\nG.c.d.v = 2\ndef f(x): return x * G.c.d.v", [X], ["G.c.d.v = 3", "G.c.d = C(); G.c.d.v = 4", "G.c = C(); G.c.d = C(); G.c.d.v = 5"]),
    "attribute of an argument": ("class C:\n    def __init__(self): self.a = 2\ndef f(x, c): return x * c.a", [X, lambda: Holder(a=2)], ["ARGS[1].a = 3", "ARGS[1].b = 4", "ARGS[1] = C()"]),
    "class of an argument": ("class C: a = 2\nclass D: a = 5\nG = C()\ndef f(x): return x * G.a", [X], ["G = D()", "G.__class__ = C"]),
    "slot": ("class C: __slots__ = ('a', 'b')\nG = C()\nG.a = 2\ndef f(x): return x * G.a + hasattr(G, 'b')", [X], ["G.a = 3", "G.b = 1"]),
    "class attribute": ("class C: a = 2\nG = C()\ndef f(x): return x * G.a", [X], ["C.a = 3", "G.a = 4", "del G.a"]),
    "class attribute of a base": ("class A: a = 2\nclass B(A): pass\nclass C(B): pass\nG = C()\ndef f(x): return x * G.a", [X], ["A.a = 3", "B.a = 4", "C.a = 5", "del C.a, B.a"]),
    "class attribute read from the class": ("class C: a = 2\ndef f(x): return x * C.a", [X], ["C.a = 3", "C = type('C', (), {'a': 9})"]),
    "bases are replaced": ("class A: a = 2\nclass B: a = 3\nclass C(A): pass\nclass Z: pass\nG = C()\ndef f(x): return x * G.a", [X], ["C.__bases__ = (B,)"]),
    "method replaced on the class": ("class C:\n    def g(self, t): return t + 1\nG = C()\ndef f(x): return G.g(x)", [X], ["C.g = lambda self, t: t * 5", "del C.g; C.g = lambda self, t: t - 1"]),
    "method replaced on a base": ("class A:\n    def g(self, t): return t + 1\nclass C(A): pass\nG = C()\ndef f(x): return G.g(x)", [X], ["A.g = lambda self, t: t * 5", "C.g = lambda self, t: t - 1"]),
    "method replaced on the instance": ("class C:\n    def g(self, t): return t + 1\nG = C()\ndef f(x): return G.g(x)", [X], ["G.g = lambda t: t * 5", "del G.g"]),
    "property appears": ("class C:\n    def __init__(self): self.a = 2\nG = C()\ndef f(x): return x * G.a", [X], ["C.a = property(lambda self: 7)", "del C.a"]),
    "property replaced": ("class C:\n    @property\n    def a(self): return 2\nG = C()\ndef f(x): return x * G.a", [X], ["C.a = property(lambda self: 3)", "C.a = 4"]),
    "property reads an attribute": ("class C:\n    b = 2\n    @property\n    def a(self): return self.b\nG = C()\ndef f(x): return x * G.a", [X], ["G.b = 3", "C.b = 4", "del G.b"]),
    "__getattr__ appears": ("class C: pass\nG = C()\ndef f(x): return x + getattr(G, 'a', 1)", [X], ["C.__getattr__ = lambda self, name: 8"]),
    "__call__ replaced": ("class C:\n    def __call__(self, t): return t + 1\nG = C()\ndef f(x): return G(x)", [X], ["C.__call__ = lambda self, t: t * 5"]),
    "__init__ replaced": ("class C:\n    def __init__(self): self.a = 2\ndef f(x): return x * C().a", [X], ["C.__init__ = lambda self: setattr(self, 'a', 6)"]),
    "__bool__ appears": ("class C: pass\nG = C()\ndef f(x): return x + 1 if G else x - 1", [X], ["C.__bool__ = lambda self: False"]),
    "__len__ and __eq__ appear": ("class C: pass\nG = C()\nH = C()\ndef f(x): return x + (G == H)", [X], ["C.__eq__ = lambda self, other: True"]),
    "descriptor replaced": ("class D:\n    def __init__(self, v): self.v = v\n    def __get__(self, i, o): return self.v\nclass C: a = D(2)\nG = C()\ndef f(x): return x * G.a", [X], ["C.__dict__['a'].v = 3", "C.a = D(4)", "D.__get__ = lambda self, i, o: 9"]),
    "super": ("class A:\n    def g(self, t): return t + 1\nclass C(A):\n    def g(self, t): return super().g(t) * 2\nG = C()\ndef f(x): return G.g(x)", [X], ["A.g = lambda self, t: t - 5"]),
    "dataclass": ("@dataclasses.dataclass\nclass C:\n    a: int\n    b: int = 2\nG = C(1)\ndef f(x): return x * G.a + G.b", [X], ["G.a = 3", "G = C(5, 6)", "G = dataclasses.replace(G, b=9)"]),
    "metaclass attribute": ("class M(type): a = 2\nclass C(metaclass=M): pass\ndef f(x): return x * C.a", [X], ["M.a = 3", "C.a = 4"]),
    "isinstance": ("class A: pass\nclass B(A): pass\nG = B()\ndef f(x): return x + 1 if isinstance(G, A) else x - 1", [X], ["G = 5", "G = A()"]),
    # globals, closures, functions
    "global number": ("G = 2\ndef f(x): return x * G", [X], ["G = 3", "G = 2.0", "G = torch.ones(4)", same_as_before("OTHER = 1")]),
    "global appears": ("def f(x):\n    try:\n        return x + G\n    except NameError:\n        return x - 1", [X], ["G = 3", "del G"]),
    "builtin is shadowed": ("def f(x): return x + len([1, 2])", [X], ["len = lambda c: 50", "del len"]),
    "global function": ("def g(t): return t + 1\ndef f(x): return g(x)", [X], ["def g(t): return t * 5", "g = torch.relu"]),
    "global read by another function": ("G = 2\ndef g(t): return t * G\ndef f(x): return g(x) + 1", [X], ["G = 3"]),
    "global module attribute": ("import types\nM = types.SimpleNamespace(scale=2)\ndef f(x): return x * M.scale", [X], ["M.scale = 3", "M = types.SimpleNamespace(scale=4)"]),
    "attribute of a Python module": ("import types\nM = types.ModuleType('m')\nM.scale = 2\nM.g = torch.relu\ndef f(x): return M.g(x) * M.scale", [X], ["M.scale = 3", "M.g = torch.tanh"]),
    "global tensor": ("G = torch.ones(4)\ndef f(x): return x * G", [X], ["G = torch.zeros(4)", "G.add_(5)", "G = torch.ones(1)", "G = torch.ones(4, dtype=torch.float64)"]),
    "global list": ("G = [1, 2]\ndef f(x): return x * sum(G)", [X], ["G.append(3)", "G[0] = 7", "G = [9]"]),
    "global dict of functions": ("G = {'act': torch.relu}\ndef f(x): return G['act'](x)", [X], ["G['act'] = torch.tanh", "G = {'act': lambda t: t}"]),
    "code replaced": ("def g(t): return t + 1\ndef h(t): return t * 5\ndef f(x): return g(x)", [X], ["g.__code__ = h.__code__"]),
    "code of the program replaced": ("def h(x): return x * 5\ndef f(x): return x + 1", [X], ["f.__code__ = h.__code__"]),
    "default argument": ("def g(t, k=2): return t * k\ndef f(x): return g(x)", [X], ["g.__defaults__ = (3,)", "g.__defaults__ = (torch.ones(4),)"]),
    "default of the program": ("def f(x, k=2): return x * k", [X], ["f.__defaults__ = (3,)", "f.__defaults__ = (torch.ones(4),)"]),
    "keyword default": ("def g(t, *, k=2): return t * k\ndef f(x): return g(x)", [X], ["g.__kwdefaults__ = {'k': 3}", "g.__kwdefaults__['k'] = 4"]),
    "keyword default of the program": ("def f(x, *, k=2): return x * k", [X], ["f.__kwdefaults__ = {'k': 3}", "f.__kwdefaults__['k'] = 4"]),
    "mutable default": ("def g(t, k=[1]): return t * k[0]\ndef f(x): return g(x)", [X], ["g.__defaults__[0][0] = 5"]),
    "closure of a global function": ("def make(k):\n    def g(t): return t * k\n    return g\ng = make(2)\ndef f(x): return g(x)", [X], ["g = make(3)", "g.__closure__[0].cell_contents = 4"]),
    "closure of the program": ("def make():\n    k = 2\n    def f(x): return x * k\n    return f\nf = make()", [X], ["f.__closure__[0].cell_contents = 3", "f.__closure__[0].cell_contents = torch.ones(4)"]),
    "function attribute": ("def g(t): return t * g.scale\ng.scale = 2\ndef f(x): return g(x)", [X], ["g.scale = 3"]),
    "partial": ("def g(t, k): return t * k\nP = functools.partial(g, k=2)\ndef f(x): return P(x)", [X], ["P = functools.partial(g, k=3)", "P.keywords['k'] = 4"]),
    "bound method": ("class C:\n    def __init__(self, k): self.k = k\n    def g(self, t): return t * self.k\nG = C(2).g\ndef f(x): return G(x)", [X], ["G = C(3).g", "G.__self__.k = 4"]),
    "decorated function": ("def deco(g):\n    @functools.wraps(g)\n    def w(*a): return g(*a) * SCALE\n    return w\nSCALE = 2\n@deco\ndef g(t): return t + 1\ndef f(x): return g(x)", [X], ["SCALE = 3", "g.__wrapped__.__code__ = (lambda t: t - 1).__code__"]),
    "imported inside": ("def f(x):\n    import math\n    return x * math.floor(2.5)", [X], []),
    "monkeypatched torch function": ("def f(x): return torch.nn.functional.silu(x)", [X], ["WORLD.keep = torch.nn.functional.silu; torch.nn.functional.silu = torch.neg", "torch.nn.functional.silu = WORLD.keep"], {"restore": ("torch.nn.functional", "silu")}),
}  # fmt: skip


class Holder:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@pytest.mark.parametrize("name", CASES)
def test_change_between_calls(name):
    text, makers, changes, *rest = CASES[name]
    options = dict(rest[0]) if rest else {}
    restore = options.pop("restore", None)
    kept = None
    if restore:
        kept = getattr(eval(restore[0]), restore[1])
    try:
        same(Source(text), *makers, mutate=changes, compare_dynamo=False, fresh=False, **options)
    finally:
        if restore:
            setattr(eval(restore[0]), restore[1], kept)


# PyTorch's global state. The program runs under each mode in turn; coming back compiles nothing.

MODES = {
    "grad mode": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "autocast with another dtype": lambda: torch.autocast("cpu", dtype=torch.float16),
    "default dtype": lambda: default_dtype(torch.float64),
    "deterministic": deterministic,
    "default device": lambda: torch.device("cpu"),
}


def under(mode):
    return lambda world: setattr(world, "under", mode)


def uses_modes(w, m):
    grad = torch.is_grad_enabled()
    y = (w @ m) + torch.zeros(5)
    return y * 2 if grad else y * 3, torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("name", MODES)
def test_mode_changes_between_calls(name):
    back = same_as_before(under(contextlib.nullcontext))
    changes = [under(MODES[name]), back, same_as_before(under(MODES[name]))]
    same(uses_modes, T(3, 4, grad=True), T(4, 5), mutate=changes, compare_dynamo=False)


def test_many_sizes_stay_right():
    same(lambda x: (x * x.size(0)).sum(0), T(2, 4), compare_dynamo=False,
         mutate=[f"ARGS[0] = torch.ones({size}, 4)" for size in range(3, 8)])  # fmt: skip


def test_more_variants_than_entries_are_kept():
    same(lambda x, n: x * n, T(3), 0, compare_dynamo=False, fullgraph=False,
         mutate=[f"ARGS[1] = {number}" for number in (*range(1, 40), 0, 20)])  # fmt: skip


def test_unchanged_calls_compile_once():
    reset()
    recorder = Recorder()
    compiled = compile(lambda x, n: torch.relu(x) * n, backend=recorder)
    counts = []
    for _ in range(4):
        for n in (1, 2, 3):
            assert torch.equal(compiled(torch.ones(3), n), torch.ones(3) * n)
        counts.append(recorder.count)
    if CAPTURES:
        assert 1 <= counts[0] <= 3 and set(counts) == {counts[0]}
    reset()


def test_reset_forgets():
    reset()
    recorder = Recorder()
    compiled = compile(lambda x: x + 1, backend=recorder)
    compiled(torch.ones(2))
    reset()
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    if CAPTURES:
        assert recorder.count == 2
    reset()


def test_function_modes_are_seen():
    class Doubling(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            return result * 2 if function is torch.relu else result

    same(lambda x: torch.relu(x) + 1, T(3), fullgraph=False, mutate=[under(Doubling), under(contextlib.nullcontext)])


def test_dispatch_modes_are_seen():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            Counting.seen += 1
            return function(*args, **(kwargs or {}))

    same(lambda x: torch.relu(x) + 1, T(3), fullgraph=False, mutate=[under(Counting), under(contextlib.nullcontext)])
    assert Counting.seen > 0


def test_two_programs_share_a_function():
    def shared(t, n):
        return t * n

    reset()
    one = compile(lambda x: shared(x, 2) + 1, backend="eager")
    other = compile(lambda x: shared(x, 3) - 1, backend="eager")
    x = torch.arange(3.0)
    for _ in range(2):
        assert torch.equal(one(x), x * 2 + 1)
        assert torch.equal(other(x), x * 3 - 1)
        assert torch.equal(shared(x, 5), x * 5)
    reset()


def test_one_function_compiled_for_two_backends():
    def program(x):
        return x + 1

    reset()
    first, second = Recorder(), Recorder()
    one, other = compile(program, backend=first), compile(program, backend=second)
    x = torch.arange(3.0)
    for _ in range(2):
        assert torch.equal(one(x), x + 1)
        assert torch.equal(other(x), x + 1)
    if CAPTURES:
        assert (first.count, second.count) == (1, 1)
    reset()


def test_a_dispatch_mode_runs_a_full_graph_uncompiled():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            result = function(*args, **(kwargs or {}))
            return result * 2 if function is torch.ops.aten.relu.default else result

    reset()
    graphs = []
    compiled = compile(
        lambda x: torch.relu(x) + 1, backend=lambda graph, _: graphs.append(graph) or graph, fullgraph=True
    )
    x = torch.arange(3.0)
    with Doubling():
        assert torch.equal(compiled(x), x * 2 + 1)
    assert graphs == []
    assert torch.equal(compiled(x), x + 1)
    assert len(graphs) == 1
    with Doubling():
        assert torch.equal(compiled(x), x * 2 + 1)
    reset()


@pytest.mark.parametrize("operator", [torch.ops.aten.add.Tensor, torch.ops.aten.add])
def test_an_operator_is_compiled(operator):
    reset()
    x = torch.arange(3.0)
    assert torch.equal(compile(operator, backend="eager", fullgraph=True)(x, x), x + x)
    reset()
