"""Breaks of every kind at every place: the program behaves as uncompiled, and all its operations run in graphs.

A place is a program with a hole; a trigger is an expression that ends a graph and gives a number. The hole sees a tensor
`t`. What must be in graphs is counted by hand: the operations of the place, and for each time the hole is passed those
of the trigger.
"""

import contextlib
import io
import warnings

import pytest
import torch

from tests.support.counting import counted_calls
from tests.support.engine import CAPTURES
from tests.support.harness import Source, T, same
from tests.support.worlds import World

captures = pytest.mark.skipif(not CAPTURES, reason="about capture alone")

PREPARED = """
import inspect, io, logging, os, sys, time, traceback, warnings, zlib
import torch._dynamo
SEEN = []
class _Keep(logging.Handler):
    def emit(self, record):
        SEEN.append((record.getMessage(), record.funcName, record.lineno))
_LOG = logging.Logger("program")
_LOG.addHandler(_Keep())
_LOG.isEnabledFor(logging.INFO)  # which the logger remembers
inspect.stack(0)  # for which the module remembers where modules lie
_FILE = io.StringIO()
@torch.compiler.disable
def _disabled(t):
    return t.dim() + 1
@torch._dynamo.disable
def _disabled_too(t, *, scale=2):
    SEEN.append((t * scale).sum().item())
    return scale
def _hook(*args):
    SEEN.append(sys._getframe(1).f_lineno)
    return None
def _breakpoint():
    before, sys.breakpointhook = sys.breakpointhook, _hook
    try:
        return breakpoint()
    finally:
        sys.breakpointhook = before
def _lines():
    frame, found = sys._getframe(1), []
    while frame is not None:
        if frame.f_code.co_filename == _lines.__code__.co_filename:
            found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found
"""

# An expression over `t`, and how many operations of its own belong in a graph.
TRIGGERS = {
    "branch on a tensor": ("(3 if t.sum() > 0 else 2)", 2),
    "branch on a comparison": ("(3 if (t > 0).all() else 2)", 2),
    "not and or": ("(3 if not t.sum() or t.max() > 1 else 2)", None),
    "item": ("(1 + int(t.sum().item() > 0))", 1),
    "tolist": ("len(t.tolist())", 0),
    "int": ("int(t.sum().clamp(1, 3))", 2),
    "float": ("float(t.sum().clamp(1, 3))", 2),
    "bool": ("(1 + bool(t.sum() > 0))", 2),
    "print": ("(print('seen', 1) or 2)", 0),
    "print of a tensor": ("(print(t) or 2)", 0),
    "logging": ("(_LOG.info('seen %d', 1) or 2)", 0),
    "warning for another file": ("(warnings.warn_explicit('seen', UserWarning, 'other.py', 1) or 2)", 0),
    "disabled function": ("_disabled(t)", 0),
    "disabled function with effects": ("_disabled_too(t, scale=3)", 0),
    "unknown C function": ("(zlib.crc32(b'abc') % 3 + 1)", 0),
    "clock": ("((time.perf_counter() > 0) + 1)", 0),
    "reading a file": ("(len(open(os.devnull).read()) + 2)", 0),
    "writing a file": ("_FILE.write('ab')", 0),
    "graph_break": ("(torch._dynamo.graph_break() or 2)", 0),
    "breakpoint": ("(_breakpoint() or 2)", 0),
    "line of the frame": ("(sys._getframe().f_lineno % 3 + 1)", 0),
    "lines of the stack": ("(SEEN.append(_lines()) or 2)", 0),
    "inspect.stack": ("(SEEN.append([(one.function, one.lineno) for one in inspect.stack(0)[:1]]) or 2)", 0),
    "names of locals": ("(SEEN.append(sorted(locals())) or 2)", 0),
}

# A program with HOLE, its operations outside the hole, and how often the hole is passed.
PLACES = {
    "straight code": ("""
def f(x):
    t = x + 1
    n = HOLE
    return t * n
""", 2, 1),
    "twice": ("""
def f(x):
    t = x + 1
    n = HOLE
    t = t * n
    n = HOLE
    return t - n
""", 3, 2),
    "in the middle of an expression": ("""
def f(x):
    t = x + 1
    return t * 2 + [t - 1, t][0] * HOLE
""", 5, 1),
    "among arguments": ("""
def g(a, *rest, k, **named): return a * k + sum(rest)
def f(x):
    t = x + 1
    return g(t * 2, 1, HOLE, k=3, z=t)
""", None, 1),
    "loop": ("""
def f(x):
    t = x
    for k in range(3):
        t = t + 1
        n = HOLE
        t = t * n
    return t
""", 6, 3),
    "loop with continue and break": ("""
def f(x):
    t = x
    for k in range(6):
        if k == 1: continue
        t = t + 1
        n = HOLE
        if k == 3: break
        t = t * n
    else:
        t = t * 100
    return t
""", 5, 3),
    "while loop": ("""
def f(x):
    t, k = x, 0
    while k < 3:
        k += 1
        n = HOLE
        t = t * n + k
    return t
""", 6, 3),
    "nested loops": ("""
def f(x):
    t = x + 1
    for i in range(2):
        for j in range(2):
            t = t + HOLE
        t = t * 2
    return t
""", 7, 4),
    "loop over a list that the program makes": ("""
def f(x):
    t, parts = x + 1, []
    for a in [x + 1, x + 2]:
        parts.append(a * HOLE)
    return parts, t
""", 5, 2),
    "loop over a dict, zip and enumerate": ("""
def f(x):
    t = x + 1
    for (key, a), (i, b) in zip({'p': t, 'q': t * 2}.items(), enumerate((1, 2))):
        t = t + a * b + HOLE
    return t
""", 8, 2),
    "with a class": ("""
class M:
    def __enter__(self): SEEN.append('enter'); return self
    def __exit__(self, *error): SEEN.append('exit')
def f(x):
    t = x + 1
    with M() as m:
        t = t * 2
        n = HOLE
        t = t * n
    return t + 1
""", 4, 1),
    "with no_grad": ("""
def f(x):
    t = x + 1
    with torch.no_grad():
        a = t * 2
        n = HOLE
        a = a * n
    return t + a
""", None, 1),
    "with a contextlib manager": ("""
@contextlib.contextmanager
def m(k):
    SEEN.append('enter')
    try:
        yield k
    finally:
        SEEN.append('exit')
def f(x):
    t = x + 1
    with m(2) as k:
        t = t * k
        n = HOLE
        t = t * n
    return t + 1
""", 4, 1),
    "in two managers": ("""
class M:
    def __enter__(self): return 2
    def __exit__(self, *error): SEEN.append(len(error))
def f(x):
    t = x + 1
    with M() as k, M():
        t = t * k * HOLE
    return t + 1
""", 4, 1),
    "try": ("""
def f(x):
    t = x + 1
    try:
        t = t * HOLE
    except ValueError:
        t = t - 100
    else:
        t = t + 5
    finally:
        t = t + 6
    return t
""", 4, 1),
    "except": ("""
def f(x):
    t = x + 1
    try:
        raise ValueError('a')
    except ValueError as error:
        t = t * HOLE
        s = str(error)
    return t + 1, s
""", 3, 1),
    "except with reraise": ("""
def g(t):
    try:
        {}['k']
    except KeyError:
        n = HOLE
        raise
def f(x):
    t = x + 1
    try:
        g(t)
    except KeyError as error:
        t = t * 2
    return t + 1
""", 3, 1),
    "finally": ("""
def f(x):
    t = x + 1
    try:
        t = t * 2
    finally:
        t = t * HOLE
    return t + 1
""", 4, 1),
    "finally while an exception passes": ("""
def g(t):
    try:
        raise KeyError('a')
    finally:
        SEEN.append(HOLE)
def f(x):
    t = x + 1
    try:
        g(t)
    except KeyError:
        t = t * 3
    return t
""", 2, 1),
    "return in finally": ("""
def g(t):
    try:
        return t * 2
    finally:
        SEEN.append(HOLE)
def f(x):
    t = x + 1
    return g(t) + 1
""", 3, 1),
    "comprehension": ("""
def f(x):
    t = x + 1
    return [t * k + HOLE for k in (1, 2)], t - 1
""", 6, 2),
    "dict comprehension": ("""
def f(x):
    t = x + 1
    return {k: t * HOLE for k in 'ab'}
""", 3, 2),
    "condition of a comprehension": ("""
def f(x):
    t = x + 1
    return [t * k for k in (1, 2, 3) if HOLE > k]
""", None, 3),
    "generator": ("""
def g(t):
    for k in range(2):
        yield t * k
        n = HOLE
        yield t + n
def f(x):
    t = x + 1
    return [a - 1 for a in g(t)]
""", 9, 2),
    "while iterating a generator": ("""
def g(t):
    for k in range(3):
        t = t + 1
        yield t
def f(x):
    t = x + 1
    for a in g(t):
        t = a * HOLE
    return t
""", 7, 3),
    "generator expression": ("""
def f(x):
    t = x + 1
    return sum((t * HOLE for k in range(2)), t)
""", 3, 2),  # `sum` adds in C code
    "generator with send": ("""
def g(t):
    k = yield t * 2
    n = HOLE
    yield t * k * n
def f(x):
    t = x + 1
    it = g(t)
    a = next(it)
    return a + it.send(3)
""", 5, 1),
    "closure": ("""
def f(x):
    t, k = x + 1, 1
    def g(y):
        nonlocal k
        k += 1
        n = HOLE
        return y * n + k
    return g(t) + g(t), k
""", 6, 2),
    "lambda": ("""
def f(x):
    t = x + 1
    return (lambda y: y * HOLE)(t) + (lambda t: HOLE + t)(t)
""", 4, 2),
    "callback of map": ("""
def f(x):
    t = x + 1
    return list(map(lambda t: t * HOLE, [t, t + 1]))
""", 4, 2),
    "callback of sorted": ("""
def f(x):
    t = x + 1
    return [t * k for k in sorted([3, 1, 2], key=lambda k: k * HOLE)]
""", 4, 3),
    "recursion": ("""
def g(t, k):
    if k == 0:
        return t * HOLE
    return g(t + 1, k - 1) * 2
def f(x):
    t = x + 1
    return g(t, 3)
""", 8, 1),
    "method": ("""
class C:
    def __init__(self, k): self.k = k
    def g(self, t): return t * self.k + HOLE
C1 = C(3)
def f(x):
    t = x + 1
    return C1.g(t) - 1
""", 4, 1),
    "property": ("""
class C:
    def __init__(self, t): self.t = t
    @property
    def p(self):
        t = self.t * 2
        return t + HOLE
def f(x):
    t = x + 1
    return C(t).p - 1
""", 4, 1),
    "__init__": ("""
class C:
    def __init__(self, t):
        self.t = t * 2
        self.n = HOLE
        self.u = self.t + self.n
def f(x):
    t = x + 1
    c = C(t)
    return c.u - 1, c.n, c
""", 4, 1),
    "__init__ of a base": ("""
class B:
    def __init__(self, t):
        self.n = HOLE
class C(B):
    def __init__(self, t):
        super().__init__(t)
        self.t = t * self.n
def f(x):
    t = x + 1
    return C(t).t - 1
""", 3, 1),
    "__enter__": ("""
class M:
    def __init__(self, t): self.t = t
    def __enter__(self):
        t = self.t
        return t * HOLE
    def __exit__(self, *error): SEEN.append(len(error))
def f(x):
    t = x + 1
    with M(t) as a:
        t = a - 1
    return t
""", 3, 1),
    "__exit__": ("""
class M:
    def __init__(self, t): self.t = t
    def __enter__(self): return self
    def __exit__(self, kind, error, trace):
        t = self.t
        SEEN.append((kind, HOLE))
        return True
def f(x):
    t = x + 1
    with M(t):
        t = t * 2
        raise ValueError('swallowed')
    return t + 1
""", 3, 1),
    "body of a contextlib manager": ("""
@contextlib.contextmanager
def m(t):
    n = HOLE
    yield t * n
    SEEN.append(n)
def f(x):
    t = x + 1
    with m(t) as a:
        t = a - 1
    return t
""", 3, 1),
    "operator method": ("""
class C:
    def __init__(self, t): self.t = t
    def __mul__(self, other):
        t = self.t
        return C(t * other + HOLE)
def f(x):
    t = x + 1
    return (C(t) * 3).t - 1
""", 4, 1),
    "__getattr__ and __getitem__": ("""
class C:
    def __init__(self, t): self.t = t
    def __getattr__(self, name):
        if name != 'late': raise AttributeError(name)
        t = self.t
        return t + HOLE
    def __getitem__(self, key):
        t = self.t
        return t * HOLE
def f(x):
    t = x + 1
    c = C(t)
    return c.late - c[1]
""", 4, 2),
    "iterator class": ("""
class C:
    def __init__(self, t): self.t, self.k = t, 0
    def __iter__(self): return self
    def __next__(self):
        if self.k == 2: raise StopIteration
        self.k += 1
        t = self.t
        return t * HOLE
def f(x):
    t = x + 1
    return [a - 1 for a in C(t)]
""", 5, 2),
    "decorated function": ("""
def twice(g):
    @functools.wraps(g)
    def wrapper(*args): return g(*args) * 2
    return wrapper
@twice
def g(t): return t + HOLE
def f(x):
    t = x + 1
    return g(t)
""", 3, 1),
    "objects alive across the break": ("""
class C: pass
def f(x):
    t = x + 1
    c, d = C(), {'t': t}
    c.d, c.l = d, [t, t]
    c.me = c
    view = t.view(-1)
    n = HOLE
    c.l.append(view * n)
    d['n'] = n
    return c, t, d, view
""", 3, 1),
    "iterators alive across the break": ("""
def f(x):
    t = x + 1
    it = iter([t, t * 2, t * 3])
    pairs = enumerate(zip('abc', range(3)))
    a = next(it); p = next(pairs)
    n = HOLE
    return a + next(it) * n, next(pairs), p, list(it)
""", 5, 1),
    "an input changed before and after": ("""
def f(x):
    t = x + 1
    x.add_(t)
    n = HOLE
    x.mul_(n)
    return x, t
""", 3, 1),
    "outside state changed before and after": ("""
G = {'l': [], 'n': 0}
def f(x):
    t = x + 1
    G['l'].append(t)
    G['n'] += 1
    n = HOLE
    G['l'].append(t * n)
    G['n'] += n
    return len(G['l'])
""", 2, 1),
    "match": ("""
def f(x):
    t = x + 1
    match HOLE:
        case 1: return t * 5
        case 2 | 3: return t * 6
        case _: return t * 7
""", 2, 1),
    "assert and chained comparison": ("""
def f(x):
    t = x + 1
    assert 0 < HOLE < 50, 'never'
    return t * 2
""", 2, 1),
    "clauses of except*": ("""
def f(x):
    t = x + 1
    try:
        t = t * 2
        raise ExceptionGroup('both', [ValueError('v'), ExceptionGroup('inner', [TypeError('t'), KeyError(3)])])
    except* (ValueError, KeyError) as group:
        t = t + len(group.exceptions)
        t = t * HOLE
        SEEN.append([type(one).__name__ for one in group.exceptions])
    except* TypeError as group:
        t = t - HOLE
        SEEN.append(group.message)
    t = t + 5
    return t
""", 6, 2),
    "inside and behind except* of a plain exception": ("""
def f(x):
    t = x + 1
    try:
        t = t * HOLE
        raise ValueError('plain')
    except* TypeError:
        t = t * 100
    except* ValueError as group:
        t = t + 1
        SEEN.append(repr(group))
    n = HOLE
    return t * n
""", 4, 2),
    "except* that leaves a part": ("""
def g(t):
    try:
        t = t * 3
        raise ExceptionGroup('g', [ValueError('v'), TypeError('t')])
    except* ValueError:
        SEEN.append(HOLE)
        raise KeyError('new')
def f(x):
    t = x + 1
    try:
        g(t)
    except ExceptionGroup as error:
        SEEN.append([repr(one) for one in error.exceptions])
        t = t - len(error.exceptions)
    return t * 2
""", 4, 1),
    "class pattern with a property": ("""
class P:
    __match_args__ = ('a', 'b')
    def __init__(self, t): self.t = t
    @property
    def a(self):
        t = self.t + 1
        return HOLE
    @property
    def b(self): return self.t * 2
def f(x):
    t = x + 1
    match P(t):
        case P(0, b): t = t * 100
        case P(a, b=b): t = t * a + b
    return t - 1
""", 8, 2),
    "mapping pattern, which asks `get` itself": ("""
class D(dict):
    def get(self, key, otherwise=None):
        t = dict.get(self, 't') + 1
        SEEN.append((key, HOLE))
        return dict.get(self, key, otherwise)
def f(x):
    t = x + 1
    match D(t=t, k=2):
        case {'missing': value}: t = t * 100
        case {'t': a, 'k': b, **rest}: t = t + a * b + len(rest)
    return t - 1
""", None, 3),
    "keywords of two mappings": ("""
def g(**named): return named['t'] * named['k'] + named['n']
def f(x):
    t = x + 1
    return g(**{'t': t, 'k': 2}, **dict(n=HOLE)) - 1
""", 4, 1),
}  # fmt: skip

MODULES = {
    "forward": ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4))
    def forward(self, t):
        t = t * self.w
        n = HOLE
        return t + n
net = M()
def f(x): return net(x) * 2
""", 3, 1),
    "forward in Sequential": ("""
class M(nn.Module):
    def forward(self, t):
        n = HOLE
        return t * n
net = nn.Sequential(nn.ReLU(), M(), nn.Sequential(M(), nn.ReLU()))
def f(x): return net(x + 1) + 1
""", 6, 2),
    "forward in ModuleList and ModuleDict": ("""
class M(nn.Module):
    def forward(self, t): return t * HOLE
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([M(), nn.ReLU()])
        self.named = nn.ModuleDict({'a': M()})
    def forward(self, t):
        for layer in self.layers: t = layer(t)
        return self.named['a'](t)
net = Outer()
def f(x): return net(x + 1) + 1
""", 5, 2),
    "forward hook": ("""
net = nn.ReLU()
def hook(module, args, t):
    return t * HOLE
net.register_forward_hook(hook)
def f(x): return net(x + 1) + 1
""", 4, 1),
    "forward pre-hook": ("""
net = nn.ReLU()
def hook(module, args):
    t, = args
    return (t * HOLE,)
net.register_forward_pre_hook(hook)
def f(x): return net(x + 1) + 1
""", 4, 1),
    "buffer changed in forward": ("""
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('seen', torch.zeros(()))
        self.calls = 0
    def forward(self, t):
        self.seen.add_(1)
        self.calls += 1
        n = HOLE
        return t * n + self.seen
net = M()
def f(x): return net(x + 1)
""", 4, 1),
}  # fmt: skip


def at_depth(depth: int) -> tuple[str, int, int]:
    """The hole inside so many functions, each with an operation before and behind the call."""
    functions = ["def g0(t):\n    t = t * 2\n    n = HOLE\n    return t + n\n"]
    for level in range(1, depth):
        functions.append(f"def g{level}(t):\n    t = t + {level}\n    a = g{level - 1}(t)\n    return a - t\n")
    return "".join(functions) + f"def f(x):\n    t = x + 1\n    return g{depth - 1}(t) * 3\n", 4 + 2 * (depth - 1), 1


PLACES |= MODULES
PLACES |= {f"inlined, depth {depth}": at_depth(depth) for depth in range(1, 6)}

# Every place with three triggers, every trigger at a few places: all pairs would only take longer.
FIRST = ["disabled function with effects", "item", "print"]
AT_ALL = ["straight code", "loop", "except", "generator", "inlined, depth 3"]
PAIRS = [(place, trigger) for place in PLACES for trigger in TRIGGERS if trigger in FIRST or place in AT_ALL]


# State on which the next call depends, put back so that it compiles nothing.
PUT_BACK = {
    "outside state changed before and after": "G['l'].clear(); G['n'] = 0",
    "buffer changed in forward": "net.calls = 0",
}


def program(place: str, trigger: str) -> Source:
    return Source(PREPARED + PLACES[place][0].replace("HOLE", TRIGGERS[trigger][0]))


@pytest.mark.parametrize("place, trigger", PAIRS)
def test_behaviour(place, trigger):
    if trigger == "inspect.stack" and "comprehension" in place:
        pytest.skip("frames of the machinery differ")
    same(program(place, trigger), T(2, 4), fullgraph=False, compare_dynamo=False, calls=3,
         mutate=["ARGS[0] = torch.full((2, 4), -3.0)", "ARGS[0] = torch.full((3, 4), 2.0)", "SEEN = []"])  # fmt: skip


@captures
@pytest.mark.parametrize("place, trigger", PAIRS)
def test_every_operation_is_in_a_graph(place, trigger):
    operations, passes = PLACES[place][1:]
    own = TRIGGERS[trigger][1]
    world = World(program(place, trigger), (T(2, 4),), {}, seed=1)

    def arguments():
        world.change(f"SEEN.clear(); {PUT_BACK.get(place, 'pass')}")
        return (torch.full((2, 4), 1.0),)

    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first, second, third = counted_calls(world.program, arguments, 3)
    assert (second.compiled, second.captures) == (0, 0), "the second call compiles something"
    assert (third.compiled, third.captures) == (0, 0), "the third call compiles something"
    assert first.operations == second.operations == third.operations > 0
    if operations is not None and own is not None:
        assert second.operations == operations + passes * own


@captures
@pytest.mark.parametrize(
    "loop", ["for k in range(COUNT):", "for k in list(range(COUNT)):", "while (k := k + 1) < COUNT:"]
)
@pytest.mark.parametrize("trigger", FIRST)
def test_a_loop_compiles_once(loop, trigger):
    text = f"def f(x, COUNT):\n    t, k = x + 1, 0\n    {loop}\n        t = t + 1\n        n = HOLE\n        t = t * 2 % 5\n    return t"
    compiled = []
    for length in (4, 30):
        world = World(Source(PREPARED + text.replace("HOLE", TRIGGERS[trigger][0])), (T(2),), {}, seed=1)
        with contextlib.redirect_stdout(io.StringIO()):
            (counted,) = counted_calls(world.program, lambda n=length: (torch.ones(2), n), 1)
        compiled.append(counted)
    assert compiled[1].operations > 60
    assert compiled[1].captures <= compiled[0].captures <= 6


@captures
def test_a_frame_that_captures_nothing_is_left_alone():
    text = "def f(x):\n    for k in range(50):\n        print(k)\n    return x"
    world = World(Source(PREPARED + text), (T(2),), {}, seed=1)
    with contextlib.redirect_stdout(io.StringIO()):
        first, second = counted_calls(world.program, lambda: (torch.ones(2),), 2)
    assert first.captures < 20 and second.captures == 0
