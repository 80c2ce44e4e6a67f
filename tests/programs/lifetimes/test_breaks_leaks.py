"""Hundreds of calls of programs with graph breaks leak nothing: objects, references, blocks of memory."""

import contextlib
import gc
import io
import os
import sys
import weakref

import pytest
import torch

from tests.support.engine import ENGINE, compile, reset
from tests.support.harness import Source

CALLS = 400 if ENGINE == "stator" else 20

PREPARED = """
import sys
import torch._dynamo
KEPT = []
class Custom(Exception): pass
@torch._dynamo.disable
def opaque(t): return 2
@torch._dynamo.disable
def fail(t): raise Custom('failed')
"""

PROGRAMS = {
    "disabled function": "def f(x, l):\n    t = x + 1\n    n = opaque(t)\n    return t * n",
    "branch on a tensor": "def f(x, l):\n    t = x + 1\n    return t * 2 if t.sum() > 0 else t * 3",
    "item": "def f(x, l):\n    t = x + 1\n    return t * t.sum().item()",
    "print": "def f(x, l):\n    t = x + 1\n    print('seen')\n    return t * 2",
    "loop": "def f(x, l):\n    for k in range(5):\n        x = x + 1\n        opaque(x)\n    return x",
    "inlined": "def h(t):\n    n = opaque(t)\n    return t * n\ndef g(t):\n    return h(t + 1) - 1\ndef f(x, l):\n    return g(x) + 1",
    "generator": "def g(t):\n    for k in range(3):\n        yield t + k\n        opaque(t)\ndef f(x, l):\n    return [a * 2 for a in g(x)]",
    "generator left half way": "def g(t):\n    yield t + 1\n    opaque(t)\n    yield t + 2\n    yield t + 3\ndef f(x, l):\n    it = g(x)\n    return next(it) + next(it)",
    "exception handled": "def f(x, l):\n    t = x + 1\n    try:\n        fail(t)\n    except Custom as error:\n        t = t * 2\n    return t",
    "exception that leaves": "def g(t):\n    u = t * 2\n    fail(u)\ndef f(x, l):\n    t = x + 1\n    return g(t)",
    "with": "class M:\n    def __enter__(self): return self\n    def __exit__(self, *error): return True\ndef f(x, l):\n    t = x + 1\n    with M():\n        t = t * opaque(t)\n        raise ValueError\n    return t",
    "objects across": "class C: pass\ndef f(x, l):\n    c = C()\n    c.me, c.t = c, x + 1\n    c.l = [c.t, {'c': c}]\n    n = opaque(x)\n    return c.t * n, c",
    "closure across": "def f(x, l):\n    k = 0\n    def g(t):\n        nonlocal k\n        k += 1\n        return t * opaque(t)\n    return g(x + 1), g",
    "arguments changed": "def f(x, l):\n    x.add_(1)\n    l.append(x)\n    n = opaque(x)\n    l.pop()\n    x.sub_(1)\n    return n",
    "module": "class N(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.w = torch.nn.Parameter(torch.ones(3))\n        self.calls = 0\n    def forward(self, t):\n        self.calls = (self.calls + 1) % 3\n        return t * self.w * opaque(t)\nnet = torch.nn.Sequential(N(), torch.nn.ReLU())\ndef f(x, l):\n    return net(x + 1)",
    "frames read": "def f(x, l):\n    t = x + 1\n    n = sys._getframe().f_lineno % 2 + len(locals())\n    return t * n",
    "recompiled again and again": "STATE = [0]\ndef f(x, l):\n    STATE[0] += 1\n    t = x + STATE[0]\n    n = opaque(t)\n    return t * n",
}  # fmt: skip


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


def made(name):
    namespace = Source(PREPARED + PROGRAMS[name]).namespace()
    return namespace["f"], compile(namespace["f"], fullgraph=False)


def call(compiled, *args):
    with contextlib.suppress(Exception), contextlib.redirect_stdout(io.StringIO()):
        compiled(*args)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_leave_nothing_behind(name):
    """A leak grows with the number of calls; caches that fill up do not."""
    function, compiled = made(name)
    x, items = torch.ones(3), [1]

    def counts_after(calls):
        for _ in range(calls):
            call(compiled, x, items)
        gc.collect()
        references = [sys.getrefcount(one) for one in (x, items, function, function.__code__, function.__globals__)]
        return references, len(gc.get_objects()), sys.getallocatedblocks()

    counted = [counts_after(calls) for calls in (CALLS // 5, CALLS // 5, CALLS // 2, CALLS)]
    references, objects, blocks = zip(*counted)
    assert references[3] == references[2]
    assert abs(objects[3] - objects[2]) < 30, objects
    # The allocator of sanitizers has no blocks that are counted.
    assert "STATOR_SANITIZED" in os.environ or blocks[3] - blocks[2] < CALLS // 4, blocks
    assert items == [1]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_outlives_the_call_or_the_reset(name):
    function, compiled = made(name)
    x, items = torch.ones(3), [torch.ones(2)]
    alive = weakref.ref(x), weakref.ref(items[0])
    call(compiled, x, items)
    call(compiled, x, items)
    del x, items
    gc.collect()
    assert [one() for one in alive] == [None, None], "an entry keeps its arguments"
    entry = weakref.ref(function)
    reset()
    del function, compiled
    gc.collect()
    assert entry() is None


@pytest.mark.skipif(ENGINE != "stator", reason="about Stator alone")
def test_what_captures_make_is_counted():
    """By the fixture that looks after each file of tests for what is left behind."""
    from stator import _testing

    def counts():
        gc.collect()
        return _testing.alive()

    before = counts()
    function, compiled = made("print")
    call(compiled, torch.ones(3), [])
    during = counts()
    assert all(during[name] > before[name] for name in before), (before, during)
    del function, compiled
    reset()
    assert counts() == before
