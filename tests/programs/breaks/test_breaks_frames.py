"""Opaque calls see the same frames as uncompiled, and their exceptions reach the same handlers."""

import traceback

import pytest
import torch

from tests.support.engine import compile, reset
from tests.support.harness import Source, T, same

PREPARED = """
import inspect, linecache, sys, traceback, warnings
import torch._dynamo
SEEN = []
class Custom(Exception): pass
def _program_frames(frame):
    while frame is not None:
        if frame.f_code.co_filename == _program_frames.__code__.co_filename:
            yield frame
        frame = frame.f_back
@torch._dynamo.disable
def _look():
    for frame in _program_frames(sys._getframe(1)):
        SEEN.append((frame.f_code.co_name, frame.f_lineno, sorted(k for k in frame.f_locals if not k.startswith('.'))))
    return 2
@torch._dynamo.disable
def _values():
    for frame in _program_frames(sys._getframe(1)):
        SEEN.append({k: v for k, v in frame.f_locals.items() if isinstance(v, (int, str, torch.Tensor, list))})
    return 2
@torch._dynamo.disable
def _fail(n=1):
    if n > 0:
        raise Custom('failed', n)
    return n
@torch._dynamo.disable
def _call(g, *args):
    return g(*args)
def _lines(error):
    return [(one.name, one.lineno, one.line) for one in traceback.extract_tb(error.__traceback__)
            if one.filename == _program_frames.__code__.co_filename]
"""

# Each place has CALL where an opaque call stands, and every frame has names and values of its own.
STACKS = {
    "one frame": "def f(x):\n    a, n = x + 1, 3\n    r = CALL\n    b = a * 2\n    return b, r",
    "two lines": "def f(x):\n    a = x + 1\n    r = (a.dim() +\n         CALL)\n    return a * r",
    "inlined": "def g(t):\n    u = t * 2\n    r = CALL\n    return u + r\ndef f(x):\n    a, s = x + 1, 'word'\n    return g(a) - 1",
    "inlined three times": "def h(t):\n    w = t - 1\n    return w * CALL\ndef g(t):\n    v = t * 2\n    return h(v) + 1\ndef f(x):\n    a = x + 1\n    b = g(a)\n    return b - 1",
    "loop": "def f(x):\n    a = x\n    for k in range(3):\n        a = a + k\n        r = CALL\n        a = a * r\n    return a",
    "comprehension": "def f(x):\n    a = x + 1\n    return [a * k + CALL for k in (1, 2)]",
    "generator": "def g(t):\n    for k in range(2):\n        yield t * CALL\ndef f(x):\n    a = x + 1\n    return [b + 1 for b in g(a)]",
    "closure": "def f(x):\n    a, k = x + 1, 0\n    def g(t):\n        nonlocal k\n        k += 1\n        return t * CALL\n    return g(a) + g(a), k",
    "method": "class C:\n    def g(self, t):\n        u = t + 1\n        return u * CALL\nC1 = C()\ndef f(x):\n    a = x + 1\n    return C1.g(a)",
    "init": "class C:\n    def __init__(self, t):\n        self.t = t + 1\n        self.r = CALL\ndef f(x):\n    a = x + 1\n    return C(a).t * 2",
    "with": "class M:\n    def __enter__(self): return 5\n    def __exit__(self, kind, error, trace):\n        SEEN.append(kind and kind.__name__)\ndef f(x):\n    a = x + 1\n    with M() as m:\n        a = a * CALL\n    return a + m",
    "forward": "class N(nn.Module):\n    def forward(self, t):\n        u = t * 2\n        return u + CALL\nnet = nn.Sequential(N(), nn.ReLU())\ndef f(x):\n    a = x + 1\n    return net(a) * 2",
    "with unset names": "def f(x):\n    a = x + 1\n    r = CALL\n    later = a * r\n    del a\n    q = CALL\n    return later + q",
    "many kinds of locals": "def f(x):\n    a = x + 1\n    l, d, t2, s = [1, [2]], {'k': 1}, (1, 'z'), 'text'\n    l2 = l\n    l.append(3)\n    r = CALL\n    l.append(4)\n    return a * r, l, l2 is l",
}  # fmt: skip

CALLS = {
    "frames": "_look()",
    "values of locals": "_values()",
    "own line": "sys._getframe().f_lineno",
    "own name": "len(sys._getframe().f_code.co_name)",
    "locals": "len(SEEN.append(sorted(k for k in locals() if k[0] != '.')) or 'ab')",
    "inspect.stack": "(SEEN.append([(i.function, i.lineno, i.code_context) for i in inspect.stack() if i.filename == _program_frames.__code__.co_filename]) or 2)",
    "inspect.currentframe": "inspect.currentframe().f_lineno",
    "extract_stack": "(SEEN.append([(i.name, i.lineno) for i in traceback.extract_stack() if i.filename == _program_frames.__code__.co_filename]) or 2)",
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("stack", STACKS)
def test_frames_are_seen(stack, call):
    text = PREPARED + STACKS[stack].replace("CALL", CALLS[call])
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False, mutate=["ARGS[0] = torch.ones(2, 3)"])


@pytest.mark.parametrize("stack", STACKS)
def test_its_exception_leaves_the_program(stack):
    """Type, text, every line of the traceback, and the state up to there: the harness compares them."""
    text = PREPARED + STACKS[stack].replace("CALL", "_fail(1)")
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False)


HANDLED = {
    "by the caller": "    try:\n        a = inner(a)\n    except Custom as error:\n        SEEN.append(_lines(error))\n        a = a * 5\n",
    "by a base class": "    try:\n        a = inner(a)\n    except (KeyError, Exception) as error:\n        SEEN.append(error.args)\n        a = a * 5\n",
    "by a handler that does not fit": "    try:\n        try:\n            a = inner(a)\n        except KeyError:\n            a = a - 100\n    except Custom:\n        a = a * 5\n",
    "with finally": "    try:\n        try:\n            a = inner(a)\n        finally:\n            a = a + 7\n            SEEN.append(sys.exc_info()[0].__name__)\n    except Custom:\n        a = a * 5\n",
    "with else": "    try:\n        b = a + 1\n    except Custom:\n        a = a * 5\n    else:\n        try: a = inner(b)\n        except Custom: a = b - 1\n",
    "in a loop": "    for k in range(3):\n        try:\n            a = inner(a)\n        except Custom as error:\n            SEEN.append(error.__traceback__.tb_lineno)\n            a = a + k\n            continue\n",
    "and raised again": "    try:\n        try:\n            a = inner(a)\n        except Custom:\n            a = a + 1\n            raise\n    except Custom as error:\n        SEEN.append(_lines(error))\n        a = a * 5\n",
    "and chained": "    try:\n        try:\n            a = inner(a)\n        except Custom as error:\n            raise ValueError('other') from error\n    except ValueError as error:\n        SEEN.append((_lines(error), _lines(error.__cause__)))\n        a = a * 5\n",
    "and followed by another": "    try:\n        try:\n            a = inner(a)\n        except Custom:\n            {}['missing']\n    except KeyError as error:\n        SEEN.append((type(error.__context__).__name__, _lines(error)))\n        a = a * 5\n",
    "swallowed by a manager": "    class M:\n        def __enter__(self): return self\n        def __exit__(self, kind, error, trace):\n            SEEN.append((kind.__name__, trace.tb_lineno))\n            return True\n    with M():\n        a = inner(a)\n    a = a * 5\n",
    "suppressed": "    with contextlib.suppress(Custom):\n        a = inner(a)\n    a = a * 5\n",
    "in a contextlib manager": "    @contextlib.contextmanager\n    def m():\n        try:\n            yield 1\n        except Custom as error:\n            SEEN.append(error.args)\n    with m():\n        a = inner(a)\n    a = a * 5\n",
    "thrown into a generator's consumer": "    def g(t):\n        yield t\n        yield inner(t)\n    it = g(a)\n    a = a + next(it)\n    try:\n        next(it)\n    except Custom:\n        a = a * 5\n    SEEN.append(list(it))\n",
    "kept for later": "    kept = None\n    try:\n        a = inner(a)\n    except Custom as error:\n        kept = error\n    a = a * len(kept.args)\n    SEEN.append(_lines(kept))\n",
}  # fmt: skip

INNER = {
    "the call itself": "def inner(t):\n    return t + _fail(1)\n",
    "two frames down": "def deeper(t):\n    u = t * 2\n    return u + _fail(1)\ndef inner(t):\n    u = t + 1\n    return deeper(u) - 1\n",
    "after effects": "def inner(t):\n    SEEN.append('before')\n    t.add_(1)\n    n = _fail(1)\n    SEEN.append('never')\n    return t\n",
    "an operation": "def inner(t):\n    u = t * 2\n    if u.sum() > -1e9:\n        raise Custom('tensor', 1)\n    return u\n",
    "through a callback": "def raising(t):\n    raise Custom('callback', t.dim())\ndef inner(t):\n    return _call(raising, t + 1)\n",
}


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("handled", HANDLED)
def test_its_exception_is_handled(handled, inner):
    text = f"{PREPARED}{INNER[inner]}def f(x):\n    a = x + 1\n{HANDLED[handled]}    return a - 1\n"
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False)


WARNINGS = {
    "here": "def f(x):\n    a = x + 1\n    warnings.warn('here')\n    return a * 2",
    "caller": "def g(t):\n    warnings.warn('caller', stacklevel=2)\n    return t * 2\ndef f(x):\n    a = x + 1\n    return g(a)",
    "caller's caller": "def h(t):\n    warnings.warn('caller', UserWarning, 3)\n    return t * 2\ndef g(t):\n    return h(t) + 1\ndef f(x):\n    a = x + 1\n    return g(a)",
    "in a loop": "def f(x):\n    a = x\n    for k in range(3):\n        a = a + k\n        warnings.warn(f'turn {k}')\n    return a",
    "in a method": "class C:\n    def g(self, t):\n        warnings.warn('old', DeprecationWarning, stacklevel=2)\n        return t\nC1 = C()\ndef f(x):\n    return C1.g(x + 1) * 2",
    "as an error": "def f(x):\n    a = x + 1\n    with warnings.catch_warnings():\n        warnings.simplefilter('error')\n        try:\n            warnings.warn('fatal')\n        except UserWarning as w:\n            a = a * 3\n    return a",
}


@pytest.mark.parametrize("name", WARNINGS)
def test_warnings_name_the_users_lines(name):
    import warnings

    from tests.support.worlds import World

    found = []
    for compiled in (False, True):
        reset()
        world = World(Source(PREPARED + WARNINGS[name]), (T(3),), {}, seed=1)
        entry = compile(world.program, fullgraph=False) if compiled else world.program
        for _ in range(2):
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                result = entry(torch.ones(3))
            found.append((compiled, result.tolist(), [(str(w.message), w.category, w.lineno) for w in warned]))
    reset()
    assert [one[1:] for one in found if one[0]] == [one[1:] for one in found if not one[0]]
    assert found[0][2] or name == "as an error"


def test_the_text_of_a_traceback():
    """As `traceback.print_exc` shows it to the user, word by word, from the program's first frame on."""
    text = PREPARED + INNER["two frames down"] + "def f(x):\n    a = x + 1\n    return inner(a)\n"

    def shown(program):
        try:
            program(torch.ones(3))
        except Exception as error:
            lines = "".join(traceback.format_exception(error)).splitlines()
            first = next(index for index, line in enumerate(lines) if 'File "<program' in line)
            return [line.split('">')[0] if "File" in line else line for line in lines[first:]]
        raise AssertionError("returned")

    from tests.support.worlds import World

    reset()
    source = Source(text)
    plain, other = World(source, (T(3),), {}, seed=1).program, World(source, (T(3),), {}, seed=1).program
    compiled = compile(other, fullgraph=False)
    expected = shown(plain)
    assert any("_fail" in line for line in expected) and len(expected) > 8
    for _ in range(3):
        assert shown(compiled) == expected
    reset()
