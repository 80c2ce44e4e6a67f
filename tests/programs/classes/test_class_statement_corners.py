"""Classes that the compiled function defines, in less usual programs: three calls of each do what they do uncompiled."""

import re
import traceback

import pytest
import torch

import stator

OUTSIDE = """
import asyncio, copy, functools, torch, weakref
import torch.utils.checkpoint

class Outside:
    def step(self, t): return t * 5

def f(x):
"""

# The program after `def f(x):`.
PROGRAMS = {
    "loop": """
    out=[]
    for i in range(3):
        class A:
            k = i
            def s(self): return x * self.k
        out.append(A)
    return [a().s() for a in out], len(set(map(id, out)))
""",
    "factory": """
    def make(n):
        class A:
            def s(self): return x * n
        return A
    A, B = make(2), make(3)
    return A().s(), B().s(), A is B, A.__name__ == B.__name__, isinstance(A(), B)
""",
    "returned closure": """
    class A:
        def s(self): return x * 2
    def g(): return A().s()
    return g
""",
    "generator": """
    class A:
        def __iter__(self):
            for i in range(3):
                yield x * i
    it = iter(A())
    return next(it), it
""",
    "checkpoint": """
    class A:
        def s(self, t): return t * 2
    return torch.utils.checkpoint.checkpoint(lambda t: A().s(t), x, use_reentrant=False)
""",
    "class in checkpoint": """
    def g(t):
        class A:
            def s(self, t): return t * 2
        return A().s(t)
    return torch.utils.checkpoint.checkpoint(g, x, use_reentrant=False)
""",
    "cond": """
    class A:
        def s(self, t): return t * 2
    return torch.cond(x.sum() > 0, lambda t: A().s(t), lambda t: t + 1, (x,))
""",
    "vmap": """
    class A:
        def s(self, t): return t * 2
    return torch.vmap(A().s)(x)
""",
    "grad": """
    class A:
        def s(self, t): return (t * 2).sum()
    return torch.func.grad(A().s)(x)
""",
    "deepcopy": """
    class A:
        def __init__(self): self.l = [x]
    a = copy.deepcopy(A())
    return a.l[0] + 1
""",
    "deepcopy leaves": """
    class A:
        def __init__(self): self.l = [x]
    a = copy.copy(A())
    return a.l[0] + 1, type(a).__name__, a
""",
    "dunder class": """
    class A:
        n = 2
    a = A()
    return x * a.__class__.n, type(a)().n
""",
    "set class": """
    class A:
        n = 2
    class B:
        n = 3
    a = A()
    a.__class__ = B
    return x * a.n, isinstance(a, B)
""",
    "hash": """
    class A:
        pass
    a = A()
    d = {a: 1}
    return x * d[a]
""",
    "hash class": """
    class A:
        pass
    d = {A: 1}
    return x * d[A]
""",
    "user hash": """
    class A:
        def __init__(self, k): self.k = k
        def __hash__(self): return hash(self.k)
        def __eq__(self, o): return self.k == o.k
    d = {A(1): 2}
    return x * d[A(1)], d
""",
    "super cls": """
    class A:
        @classmethod
        def m(cls): return cls.__name__
    class B(A):
        @classmethod
        def m(cls): return super().m() + '!'
    return x + len(B.m()), B.m(), B().m()
""",
    "mro": """
    class A: pass
    class B(A): pass
    return x + len(B.__mro__), [c.__name__ for c in B.__mro__]
""",
    "bases": """
    class A: pass
    class B(A): pass
    return x + 1, B.__bases__[0] is A, B.__base__ is A
""",
    "dict": """
    class A:
        n = 1
    return x + 1, 'n' in A.__dict__, sorted(k for k in vars(A))
""",
    "bad slots": """
    class A:
        __slots__ = ('n',)
        n = 1
    return x
""",
    "bad bases": """
    class A(int, str): pass
    return x
""",
    "dup mro": """
    class A: pass
    class B(A): pass
    class C(A, B): pass
    return x
""",
    "raise in method": """
    class A:
        def s(self): raise ValueError('a')
    try: A().s()
    except ValueError as e: return x + 1, str(e)
""",
    "raise out": """
    class A:
        def s(self): raise ValueError('a')
    A().s()
    return x
""",
    "getattribute": """
    class A:
        def __getattribute__(self, n): return 3
    return x + A().q
""",
    "setattr": """
    class A:
        def __setattr__(self, n, v): object.__setattr__(self, n, v * 2)
    a = A(); a.q = 2
    return x + a.q
""",
    "delattr": """
    class A:
        def __delattr__(self, n): object.__delattr__(self, n)
    a = A(); a.q = 2; del a.q
    return x + hasattr(a, 'q')
""",
    "call": """
    class A:
        def __call__(self, *a, **k): return len(a) + len(k)
    return x + A()(1, 2, b=3)
""",
    "ops": """
    class A:
        def __init__(self, v): self.v = v
        def __radd__(self, o): return self.v + o
        def __iadd__(self, o): self.v = self.v + o; return self
        def __lt__(self, o): return self.v < o.v
        def __contains__(self, o): return o == self.v
        def __bool__(self): return self.v > 1
        def __index__(self): return self.v
        def __format__(self, s): return 'F' + s
        def __str__(self): return 'S'
    a = A(1); a += 2
    return 1 + a, a.v, A(1) < A(2), 1 in A(1), bool(A(0)), [1,2,3][A(1)], f'{A(1):q}', str(A(1)), sorted([A(2), A(1)])[0].v, max(A(1), A(4)).v, x + 1
""",
    "unsupported op": """
    class A: pass
    try: A() + 1
    except TypeError as e: return x, str(e)
""",
    "missing arg": """
    class A:
        def __init__(self, q): pass
    try: A()
    except TypeError as e: return x, str(e)
""",
    "no args": """
    class A: pass
    try: A(1)
    except TypeError as e: return x, str(e)
""",
    "exception chain": """
    class E(Exception): pass
    class F(E): pass
    try:
        try: raise E('a')
        except E as e: raise F('b') from e
    except E as f: return x + 1, type(f).__name__, str(f.__cause__), f.args
""",
    "exception leaves": """
    class E(Exception):
        def __init__(self, v): self.v = v
    return x, E(x), E
""",
    "module leaves": """
    class M(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))
        def forward(self, t): return t * self.w
    m = M()
    return m(x), [n for n, p in m.named_parameters()], repr(m)
""",
    "module break": """
    class M(torch.nn.Module):
        def forward(self, t):
            y = t * 2
            print(end='')
            return y + 1
    return M()(x)
""",
    "nested class": """
    class A:
        class B:
            n = 2
        def s(self): return A.B.n + self.B.n
    return x + A().s(), A.B.__qualname__
""",
    "walrus comp": """
    class A:
        ns = [i * 2 for i in range(3)]
        total = sum(ns)
    return x + A.total
""",
    "lambda attr": """
    class A:
        f = lambda self, t: t * 2
        g = staticmethod(lambda t: t * 3)
        h = torch.relu
        i = len
    return A().f(x), A.g(x), A().g(x), A.h(x), A().i([1])
""",
    "partial attr": """
    class A:
        f = functools.partial(torch.add, alpha=2)
    return A().f(x, x)
""",
    "init none": """
    class A:
        def __init__(self): return 3
    try: A()
    except TypeError as e: return x, str(e)
""",
    "new other": """
    class A:
        def __new__(cls): return 3
    return x + A()
""",
    "singleton": """
    class A:
        _i = None
        def __new__(cls):
            if cls._i is None: cls._i = super().__new__(cls)
            return cls._i
    return x + 1, A() is A()
""",
    "weakref": """
    class A: pass
    a = A()
    r = weakref.ref(a)
    return x + 1, r() is a
""",
    "isinstance tuple": """
    class A: pass
    return x, isinstance(A(), (int, A)), issubclass(A, object), callable(A), callable(A())
""",
    "eq default": """
    class A: pass
    a = A()
    return x, a == a, a == A(), a != A(), A == A
""",
    "match": """
    class P:
        __match_args__ = ('a', 'b')
        def __init__(self, a, b): self.a, self.b = a, b
    match P(1, 2):
        case P(1, q): return x + q
""",
    "annotations": """
    class A:
        q: int = 1
        r: 'str'
    return x + A.q, A.__annotations__
""",
    "type3 leave": """
    A = type('A', (object,), dict(n=x, f=lambda self: self.n))
    return A, A().f()
""",
    "del name": """
    class A:
        n = 1
        m = n + 1
        del n
    return x + A.m, hasattr(A, 'n')
""",
    "global in body": """
    class A:
        global Q
        Q = 3
    return x + Q
""",
    "nonlocal in body": """
    q = 1
    class A:
        nonlocal q
        q = 5
    return x + q
""",
    "staticmethod call": """
    s = staticmethod(lambda t: t + 1)
    return s(x)
""",
    "property leave": """
    return x, property(lambda s: 1)
""",
    "try in body": """
    class A:
        try:
            n = 1 / 0
        except ZeroDivisionError:
            n = 4
        with torch.no_grad():
            t = x * 2
    return A.t + A.n
""",
    "tensor op in body": """
    class A:
        t = x.sin()
        x.add_(1)
    return A.t, x
""",
    "break in body": """
    class A:
        n = 2
        print(end='')
        m = n + 1
    return x + A.m
""",
    "two inst": """
    class A:
        def __init__(self): self.n = 1
    a = [A() for _ in range(3)]
    a[0].n = 5
    return x, [b.n for b in a], a
""",
    "instance attr fn": """
    class A: pass
    a = A()
    a.f = lambda t: t * 2
    return a.f(x)
""",
    "getattr dyn": """
    class A:
        n1 = 1
        n2 = 2
    return x + sum(getattr(A, f'n{i}') for i in (1, 2)) + getattr(A, 'n3', 4)
""",
    "setattr dyn": """
    class A: pass
    setattr(A, 'q', 3)
    setattr(A, 'f', lambda self: self.q)
    return x + A().f(), A
""",
    "set dunder": """
    class A: pass
    A.__len__ = lambda self: 3
    return x + len(A())
""",
    "subclass of outside": """
    class A(Outside):
        def step(self, t): return super().step(t) + 1
    return A().step(x), A(), isinstance(A(), Outside)
""",
    "change outside base": """
    class A(Outside): pass
    Outside.step = lambda self, t: t * 7
    return A().step(x)
""",
    "shadow outside": """
    class A(Outside):
        z = 4
    Outside.z = 3
    r = A.z
    del Outside.z
    return x + r
""",
    "iterate next": """
    class A:
        def __init__(self): self.i = 0
        def __iter__(self): return self
        def __next__(self):
            self.i += 1
            if self.i > 3: raise StopIteration
            return self.i
    return x + sum(A()), list(zip(A(), 'ab'))
""",
    "enter": """
    class A:
        def __enter__(self): return self
        def __exit__(self, *e): return True
    with A() as a:
        print(end='')
        raise ValueError
    return x + 1
""",
}  # fmt: skip


def described(value):
    """What a program can see of a value, without addresses: classes of two calls are two classes."""
    if isinstance(value, torch.Tensor):
        return ("tensor", value.tolist())
    if isinstance(value, list | tuple):
        return [described(item) for item in value]
    if isinstance(value, dict):
        return [(described(key), described(item)) for key, item in value.items()]
    if isinstance(value, type):
        return ("class", value.__qualname__, value.__module__, sorted(vars(value)))
    if hasattr(value, "__next__"):
        return [described(item) for item in value]
    if getattr(value, "__name__", "") == "g":
        return described(value())
    if hasattr(value, "__dict__"):
        parts = [(name, described(part)) for name, part in vars(value).items()]
        return (type(value).__qualname__, parts, str(value) if isinstance(value, BaseException) else "")
    return re.sub("0x[0-9a-f]+", "0x", repr(value))


def outcomes(compile, body):
    namespace = {"__name__": "program"}
    exec(compile_text(OUTSIDE + body), namespace)
    function, found = compile(namespace["f"]), []
    for number in range(3):
        x = torch.arange(3.0) + number
        try:
            found.append((described(function(x)), x.tolist()))
        except Exception as error:
            entries = traceback.extract_tb(error.__traceback__)
            lines = [entry.lineno for entry in entries if entry.filename == "<program>"]
            found.append((type(error).__qualname__, str(error), lines))
    return found


def compile_text(text):
    return compile(text, "<program>", "exec")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    compiled = outcomes(lambda function: stator.compile(function, backend="eager"), PROGRAMS[name])
    assert compiled == outcomes(lambda function: function, PROGRAMS[name])
