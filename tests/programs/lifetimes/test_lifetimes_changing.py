"""Objects whose deallocation runs code in one call and not in another, and finalizers that read and change what is
captured."""

import pytest
import torch

from tests.support.engine import compile
from tests.support.harness import Source
from tests.support.lifetimes import HEAD, HELPERS

pytestmark = pytest.mark.usefixtures("undisturbed")

LOUD = "def make(name): return Loud(name)\n"

# name: (done before each call, the captured lines)
PROGRAMS = {
"absent, then loud": ("if call > 0: place.held = make(call)", "place.held = None\nlog.append(1)\nreturn x * len(log)"),
"None, then loud": ("place.held = make(call) if call % 2 else None", "place.held = None\nlog.append(1)\nreturn x * len(log)"),
"plain, then with a callback": ("""place.held = Plain(call)
    if call % 2: references.append(weakref.ref(place.held, lambda r: tell('cb')))""", "place.held = None\nlog.append(1)\nreturn x * len(log)"),
"plain read, then with a callback": ("""place.held = Plain(call)
    if call % 2: references.append(weakref.ref(place.held, lambda r: tell('cb')))""", "n = place.held.name\nplace.held = None\nlog.append(1)\nreturn x * len(log)"),
"the class gets a __del__": ("""place.held = Plain(call)
    if call == 2: Plain.__del__ = lambda self: tell('late')
    if call == 4: del Plain.__del__""", "n = place.held.name\nplace.held = None\nlog.append(1)\nreturn x * len(log)"),
"contents, then loud": ("place.held = [make(call)] if call % 2 else [1]", "place.held = None\nlog.append(1)\nreturn x * len(log)"),
"list contents, then loud": ("things[:] = [make(call) if call % 2 else 1, 2]", "things[0] = None\nlog.append(1)\nreturn x * len(log)"),
"list popped, then loud": ("things[:] = [make(call) if call % 2 else 1, 2]", "things.pop(0)\nlog.append(1)\nreturn x * len(log)"),
"list cleared, then loud": ("things[:] = [make(call) if call % 2 else 1, 2]", "things.clear()\nlog.append(1)\nreturn x * len(log)"),
"dict cleared, then loud": ("named['k'] = make(call) if call % 2 else 1", "named.clear()\nlog.append(1)\nreturn x * len(log)"),
"dict item, then loud": ("named['k'] = make(call) if call % 2 else 1", "named['k'] = 3\nlog.append(1)\nreturn x * len(log)"),
"cell, then loud": ("set_cell(make(call) if call % 2 else 1)", "set_cell(3)\nlog.append(1)\nreturn x * len(log)"),
"global, then loud": ("global g\n    g = make(call) if call % 2 else 1", "global g\ng = 3\nlog.append(1)\nreturn x * len(log)"),
"slot, then loud": ("slots.held = make(call) if call % 2 else 1", "slots.held = 3\nlog.append(1)\nreturn x * len(log)"),
"a variable, then loud": ("place.next = make(call) if call % 2 else 1", "a = take()\nlog.append(0)\na = None\nlog.append(1)\nreturn x * len(log)"),
"a result, then loud": ("place.next = make(call) if call % 2 else 1", "take()\nlog.append(1)\nreturn x * len(log)"),
"a stored result": ("place.next = make(call)", "place.kept = take()\nlog.append(1)\nreturn x * len(log)"),
"a finalizer that changes state": ("place.held = Changing()", "n = state.n\nplace.held = None\ny = x * state.n\nlog.append((n, state.n))\nreturn y"),
"a finalizer that changes a tensor": ("place.held = Writing()", "y = x * state.t\nplace.held = None\nreturn y + x * state.t"),
"a finalizer that reads a tensor": ("place.held = Reading()", "state.t.add_(1)\nplace.held = None\nstate.t.mul_(2)\nreturn x * state.t"),
"a finalizer that resurrects": ("place.held = Reviving()", "place.held = None\nlog.append(len(state.revived))\nreturn x * len(state.revived)"),
"a finalizer that sees the stack": ("place.held = Looking()", "y = x + 1\nplace.held = None\nlog.append(1)\nreturn y"),
"a tensor of a class": ("place.held = torch.ones(2).as_subclass(LoudTensor)", "y = x + 1\nplace.held = None\nlog.append(1)\nreturn y * len(log)"),
"a module replaced": ("net.held = nn.Linear(2, 2); references[:] = [weakref.ref(net.held, lambda r: tell('module'))]", "y = net.held(x)\nnet.held = None\nlog.append(1)\nreturn y * 0 + len(log)"),
"references counted": ("place.held = Plain(1)", "a = place.held\nb = a\nlog.append(count(a))\nb = None\nlog.append(count(a))\nplace.held = None\nlog.append(count(a))\nreturn x * 2"),
"references of a tensor counted": ("place.held = torch.ones(2)", "a = place.held\ny = a + x\nlog.append(count(a))\nplace.held = None\nlog.append(count(a))\nlog.append(count(y))\nz = y\nlog.append(count(y))\nreturn y * z"),
"references of results counted": ("", "y = x + 1\nl = [y, y]\nlog.append(count(y))\nl.pop()\nlog.append(count(y))\nlog.append(count(l))\nreturn y"),
"a loop over loud ones": ("things[:] = [make(i) for i in range(3)]", "for a in things:\n    log.append(a.name)\n    x = x + 1\nthings.clear()\nlog.append('cleared')\ndel a\nreturn x * len(log)"),
"a loop that pops": ("things[:] = [make(i) for i in range(3)]", "while things:\n    things.pop()\n    log.append(len(things))\n    x = x + 1\nreturn x * len(log)"),
"held by the caller": ("pass", "a = place.other\ndef inner(v):\n    v = None\n    log.append('inner')\ninner(a)\na = None\nlog.append('after')\nreturn x * 2"),
"recursion": ("place.held = [make(1), [make(2), [make(3)]]]", "def walk(l):\n    for i in l:\n        if isinstance(i, list): walk(i)\n        else: log.append(i.name)\nwalk(place.held)\nplace.held[1] = None\nlog.append('cut')\nplace.held = None\nreturn x * len(log)"),
"an exception with the object": ("place.held = make(call)", "try:\n    raise ValueError(place.held)\nexcept ValueError as e:\n    place.held = None\n    log.append('in except')\nlog.append('after')\nreturn x * len(log)"),
"an exception kept": ("place.held = make(call)", "try:\n    raise ValueError(place.held)\nexcept ValueError as e:\n    saved = e\nplace.held = None\nlog.append('held')\nsaved = None\nlog.append('after')\nreturn x * len(log)"),
"with and exit": ("place.held = make(call)", "with Context(place.held) as c:\n    place.held = None\n    log.append('in')\nlog.append('out')\nreturn x * len(log)"),
"unpacking": ("place.held = [make(1), make(2), make(3)]", "a, *b = place.held\nplace.held = None\nlog.append('u')\nb = None\nlog.append('v')\na = None\nreturn x * len(log)"),
"comprehension over": ("place.held = [make(1), make(2)]", "names = [o.name for o in place.held]\nplace.held = None\nlog.append(names)\nreturn x * len(log)"),
"a generator over": ("place.held = [make(1), make(2)]", "names = list(o.name for o in place.held)\nplace.held = None\nlog.append(names)\nreturn x * len(log)"),
"default argument": ("place.held = make(call)", "def inner(v=place.held): return 1\nplace.held = None\nlog.append('f')\ninner = None\nlog.append('g')\nreturn x * len(log)"),
"closure variable": ("place.held = make(call)", "v = place.held\ndef inner(): return v\nplace.held = None\nlog.append('f')\nv = None\nlog.append('g')\nreturn x * len(log)"),
"partial": ("place.held = make(call)", "p = functools.partial(print, place.held)\nplace.held = None\nlog.append('f')\np = None\nlog.append('g')\nreturn x * len(log)"),
"bound method": ("place.held = make(call)", "p = place.held.__repr__\nplace.held = None\nlog.append('f')\np = None\nlog.append('g')\nreturn x * len(log)"),
"zip and enumerate": ("place.held = [make(1), make(2)]", "for i, (a, b) in enumerate(zip(place.held, place.held)):\n    log.append((i, a.name))\n    place.held = None if i else place.held\nlog.append('l')\na = b = None\nlog.append('g')\nreturn x * len(log)"),
"two held by each other's list": ("place.held = make(1); place.other2 = [place.held]", "place.held = None\nlog.append(1)\nplace.other2 = None\nlog.append(2)\nreturn x * len(log)"),
"a deep argument dropped by a function": ("place.held = make(call)", "def take_it(h):\n    v = h.held\n    h.held = None\n    return v\nlog.append(take_it(place).name)\nlog.append('after')\nreturn x * len(log)"),
"a property": ("place.held = make(call)", "class_ = Prop()\nclass_.drop(place)\nlog.append('after')\nreturn x * len(log)"),
"yield in the middle": ("place.held = make(call)", "def gen(h):\n    v = h.held\n    h.held = None\n    yield 1\n    log.append('in')\n    v = None\n    log.append('in2')\n    yield 2\nfor i in gen(place): log.append(i)\nreturn x * len(log)"),
"a generator given up": ("place.held = make(call)", "def gen(h):\n    v = h.held\n    h.held = None\n    yield 1\n    yield 2\nfor i in gen(place):\n    log.append(i)\n    break\nlog.append('after')\nreturn x * len(log)"),
"a generator given up by name": ("place.held = make(call)", "def gen(h):\n    v = h.held\n    h.held = None\n    yield 1\n    yield 2\nit = gen(place)\nnext(it)\nlog.append('next')\nit = None\nlog.append('after')\nreturn x * len(log)"),
}  # fmt: skip

EXTRA = """
class State: pass
state = State(); state.n = 0; state.t = torch.zeros(2); state.revived = []
class Changing:
    def __del__(self): state.n += 1; log.append(('changed', state.n))
class Writing:
    def __del__(self): state.t += 1
class Reading:
    def __del__(self): log.append(state.t.tolist())
class Reviving:
    def __del__(self): state.revived.append(self)
class Looking:
    def __del__(self):
        import sys
        frame = sys._getframe(1)
        log.append((frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)))
class LoudTensor(torch.Tensor):
    def __del__(self): tell('tensor')
class Prop:
    def drop(self, h): h.held = None
place.other = make('other')
@torch._dynamo.disable
def take():
    n, place.next = place.next, None
    return n
import sys
@torch._dynamo.disable
def count(o): return sys.getrefcount(o)
"""


def history(name, wrap):
    before, body = PROGRAMS[name]
    lines = ["log.append('start')", *body.split("\n")]
    lines.sort(key=lambda line: not line.startswith("global "))
    function = "def f(x):\n" + "".join(f"    {line}\n" for line in lines)
    prepare = f"def prepare(call):\n    {before or 'pass'}\n"
    namespace = Source(HEAD + LOUD + HELPERS + EXTRA + prepare + function).namespace()
    run, log = wrap(namespace["f"]), namespace["log"]
    for call in range(6):
        namespace["prepare"](call)
        log.append(("call", call))
        log.append(("returned", run(torch.ones(2)).tolist()))
    return [repr(event) for event in log]


@pytest.mark.parametrize("name", PROGRAMS)
def test_order(name):
    assert history(name, lambda f: compile(f, fullgraph=False)) == history(name, lambda f: f)
