"""Everything that a program with graph breaks depends on may change between calls, before and after the break.

The programs and changes are those of test_guards. Each is called from a function that breaks: before it, so that its
guards belong to what comes after a break; behind it, so that its results live across one; and in a loop between.
"""

import contextlib

import pytest
import torch

from tests.programs.recompiles.test_guards import CASES, MODES, under
from tests.support.harness import Source, T, same

WRAPPERS = {
    "after a break": """
@torch._dynamo.disable
def _opaque(t): return 2
def wrapped(*args, **kwargs):
    t = args[0] + 1
    n = _opaque(t)
    return f(*args, **kwargs), t * n
""",
    "before a break": """
@torch._dynamo.disable
def _opaque(t): return 2
def wrapped(*args, **kwargs):
    result = f(*args, **kwargs)
    t = args[0] + 1
    n = _opaque(t)
    return result, t * n
""",
    "between breaks in a loop": """
def wrapped(*args, **kwargs):
    results = []
    t = args[0] + 1
    for k in range(2):
        if t.sum() > -1e9:
            results.append(f(*args, **kwargs))
    return results, t
""",
}

# One place is enough for most programs.
PAIRS = [(name, place) for name in CASES for place in WRAPPERS if place == "after a break" or len(name) % 3 == 0]


@pytest.mark.filterwarnings("ignore:Stator has captured")
@pytest.mark.parametrize("name, place", PAIRS)
def test_change_between_calls_that_break(name, place):
    text, makers, changes, *rest = CASES[name]
    restore = rest[0].get("restore") if rest else None
    kept = getattr(eval(restore[0]), restore[1]) if restore else None
    try:
        same(Source(f"import torch._dynamo\n{text}\n{WRAPPERS[place]}", "wrapped"), *makers, mutate=changes,
             compare_dynamo=False, fresh=False, fullgraph=False)  # fmt: skip
    finally:
        if restore:
            setattr(eval(restore[0]), restore[1], kept)


BREAKING_MODE_PROGRAM = """
import torch._dynamo
@torch._dynamo.disable
def _opaque(t): return 2
def f(w, m):
    before = torch.is_grad_enabled(), torch.get_default_dtype()
    t = w @ m
    n = _opaque(t)
    y = t + torch.zeros(5) * n
    return y * 2 if torch.is_grad_enabled() else y * 3, before, torch.are_deterministic_algorithms_enabled()
"""


@pytest.mark.parametrize("name", MODES)
def test_mode_changes_between_calls_that_break(name):
    changes = [under(MODES[name]), under(contextlib.nullcontext), under(MODES[name])]
    same(
        Source(BREAKING_MODE_PROGRAM),
        T(3, 4, grad=True),
        T(4, 5),
        mutate=changes,
        compare_dynamo=False,
        fullgraph=False,
    )


# Changes that the opaque call itself makes must be visible to the code after it, in the same call.
CHANGED_BY_THE_CALL = {
    "global": ("G = 2", "global G; G += 1", "G"),
    "global tensor": ("G = torch.ones(3)", "global G; G = G + 1", "G"),
    "global tensor in place": ("G = torch.ones(3)", "G.add_(1)", "G"),
    "size of a global tensor": ("G = torch.ones(1)", "global G; G = torch.ones(3) if G.numel() == 1 else torch.ones(1)", "G"),
    "list": ("G = [1]", "G.append(2)", "len(G) + sum(G)"),
    "dict": ("G = {'a': 1}", "G['a'] += 1; G[len(G)] = 0", "G['a'] + len(G)"),
    "order of a dict": ("G = {'a': 1, 'b': 2}", "G['a'] = G.pop('a')", "next(iter(G.values()))"),
    "set": ("G = {1}", "G.add(2 + len(G))", "len(G)"),
    "attribute": ("class C: n = 1\nG = C()", "G.n += 1", "G.n"),
    "attribute deleted": ("class C: n = 1\nG = C()\nG.n = 5", "G.__dict__.pop('n', None)", "G.n"),
    "class attribute": ("class C: n = 1\nG = C()", "C.n += 1", "G.n"),
    "class of an instance": ("class C: n = 1\nclass D: n = 2\nG = C()", "G.__class__ = D if type(G) is C else C", "G.n"),
    "method": ("class C:\n    def g(self): return 1\nG = C()", "C.g = lambda self: 7", "G.g()"),
    "property": ("class C:\n    @property\n    def p(self): return 1\nG = C()", "C.p = property(lambda self: 7)", "G.p"),
    "function": ("def g(): return 1", "global g; g = lambda: 7", "g()"),
    "code": ("def g(): return 1\ndef h(): return 7", "g.__code__ = h.__code__", "g()"),
    "default": ("def g(k=1): return k", "g.__defaults__ = (7,)", "g()"),
    "keyword default": ("def g(*, k=1): return k", "g.__kwdefaults__['k'] += 1", "g()"),
    "closure": ("def make():\n    k = 1\n    def g(): return k\n    def more():\n        nonlocal k\n        k += 1\n    return g, more\ng, more = make()", "more()", "g()"),
    "builtin shadowed": ("", "global len; len = lambda c: 7", "len([1])"),
    "grad mode": ("", "torch.set_grad_enabled(not torch.is_grad_enabled())", "int(torch.is_grad_enabled())"),
    "default dtype": ("", "torch.set_default_dtype(torch.float64)", "torch.zeros(3).dtype.itemsize"),
    "random seed": ("", "torch.manual_seed(3)", "torch.rand(3)"),
    "hook": ("net = nn.ReLU()", "net.register_forward_hook(lambda m, a, t: t + 1)", "net(torch.ones(3))"),
    "train and eval": ("net = nn.Dropout(0.5)", "net.eval()", "net(torch.ones(3))"),
    "parameter": ("net = nn.Linear(3, 3)", "net.weight.data.zero_(); net.bias = None", "net(torch.ones(3))"),
    "parameter without gradient": ("net = nn.Linear(3, 3)", "net.requires_grad_(False)", "net(torch.ones(3))"),
    "submodule": ("net = nn.Sequential(nn.ReLU())", "net[0] = nn.Tanh()", "net(torch.zeros(3) - 1)"),
    "argument": ("", "t.add_(1)", "1"),
    "argument resized": ("", "t.resize_(2)", "t.size(0)"),
    "tensor attribute": ("G = torch.ones(3)", "G.tag = getattr(G, 'tag', 0) + 1", "G.tag"),
}  # fmt: skip


@pytest.mark.parametrize("place", ["straight", "loop", "inlined"])
@pytest.mark.parametrize("name", CHANGED_BY_THE_CALL)
def test_what_the_opaque_call_changes_is_seen(name, place):
    state, change, read = CHANGED_BY_THE_CALL[name]
    opaque = f"import torch._dynamo\n{state}\n@torch._dynamo.disable\ndef _opaque(t):\n    {change.replace('; ', chr(10) + '    ')}\n"
    bodies = {
        "straight": f"def f(x):\n    t = x + 1\n    a = t * ({read})\n    _opaque(t)\n    return a, t * 2 * ({read}), t\n",
        "loop": f"def f(x):\n    t, out = x + 1, []\n    for k in range(3):\n        out.append(t * ({read}))\n        _opaque(t)\n    return out, t\n",
        "inlined": f"def inner(t):\n    a = t * ({read})\n    _opaque(t)\n    return a\ndef f(x):\n    t = x + 1\n    a = inner(t)\n    return a, t * ({read})\n",
    }
    before = torch.get_default_dtype(), torch.is_grad_enabled()
    restore = lambda world: (torch.set_default_dtype(before[0]), torch.set_grad_enabled(before[1]))  # noqa: E731

    @contextlib.contextmanager
    def fresh_modes():
        restore(None)
        try:
            yield
        finally:
            restore(None)

    same(Source(opaque + bodies[place]), T(3), compare_dynamo=False, fullgraph=False, under=fresh_modes, calls=3)


# Values that are on the stack or in a variable during two graph breaks, and are used only afterwards.
LIVING_THROUGH = {
    "a builtin": ("", "len(t.shape[:n])", "len = lambda c: 12"),
    "a class": ("class C:\n    def __init__(self, n): self.n = n", "C(n).n", "C = type('C', (C,), {'n': 7, '__init__': lambda self, n: None})"),
    "a builtin class": ("kind = list", "len(kind('ab') * n)", "kind = tuple; kind = lambda c: [1, 2, 3, 4, 5]"),
    "a Python module": ("import math as library", "library.sqrt(n * 1.0)", "import types; library = types.SimpleNamespace(sqrt=lambda n: n + 9)"),
    "a function": ("def g(n): return n + 1", "g(n)", "g = lambda n: n + 5"),
    "a method of C": ("items = [1, 2]", "items.count(n)", "items = (2, 2, 2)"),
    "a constant": ("k = 3", "max(k, n)", "k = 8"),
    "a tensor": ("w = torch.ones(2)", "torch.add(w, n).sum()", "w = torch.full((2,), 4.0)"),
    "a bound method": ("class C:\n    n = 1\n    def m(self, n): return self.n + n\nc = C()", "c.m(n)", "c = type('D', (C,), {'n': 6})()"),
}  # fmt: skip


@pytest.mark.parametrize("place", ["on the stack", "in a variable", "inlined"])
@pytest.mark.parametrize("name", LIVING_THROUGH)
def test_what_lives_through_breaks_unused_is_what_it_is_now(name, place):
    state, use, change = LIVING_THROUGH[name]
    holder = use.split("(")[0].split(".")[0]
    opaque = f"import torch._dynamo\n{state}\n@torch._dynamo.disable\ndef _opaque(t): return 1\n"
    twice = "_opaque(t) + _opaque(t * 2)"
    bodies = {
        "on the stack": f"def f(x):\n    t = x + 1\n    return t * {use.replace('n)', f'({twice}))').replace('n *', f'({twice}) *')}\n",
        "in a variable": f"def f(x):\n    t = x + 1\n    held = {holder}\n    n = {twice}\n    return t * {use.replace(holder, 'held', 1)}\n",
        "inlined": f"def inner(t, held):\n    n = {twice}\n    return t * {use.replace(holder, 'held', 1)}\ndef f(x):\n    return inner(x + 1, {holder})\n",
    }
    same(Source(opaque + bodies[place]), T(3), mutate=[change], compare_dynamo=False, fullgraph=False, calls=3)
