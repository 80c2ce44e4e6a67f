"""Programs whose objects report their deallocation: where one is referenced, how it is dropped, and who is notified."""

import weakref


class Held:
    pass


def is_undisturbed() -> bool:
    """Whether Python hands arguments over to the functions that it calls. With a frame-evaluation hook on, it holds them
    itself until the function returns; torch._dynamo may leave its hook on where it has failed."""
    alive = []

    def drops(value):
        reference = weakref.ref(value)
        value = None
        alive.append(reference() is not None)

    def calls():
        drops(Held())

    calls()
    return not alive[0]


HEAD = """
import collections, contextlib, functools, weakref
import torch._dynamo
log = []
class Plain:
    def __init__(self, name): self.name = name
class Loud(Plain):
    def __del__(self): tell(self.name)
class Slots:
    __slots__ = ('held', '__weakref__')
class Holder:
    def __init__(self, **held): self.__dict__.update(held)
class Net(nn.Module): pass
def tell(name): log.append((name, 'died after', log[-1] if log else None))
references = []
@torch._dynamo.disable
def opaque(): log.append(('opaque', [reference() is None for reference in references]))
@torch._dynamo.disable
def give(): return make('given')
"""

# How a deallocation is observed.
OBSERVERS = {
    "a finalizer": "def make(name): return Loud(name)",
    "a callback": """
def make(name):
    made = Plain(name)
    references.append(weakref.ref(made, lambda reference: tell(name)))
    return made""",
    "weakref.finalize": """
def make(name):
    made = Plain(name)
    weakref.finalize(made, tell, name)
    return made""",
    "a weak dictionary": """
alive = weakref.WeakValueDictionary()
def make(name):
    made = Plain(name)
    alive[name] = made
    return made""",
    "a weak set": """
alive = weakref.WeakSet()
def make(name):
    made = Plain(name)
    alive.add(made)
    return made""",
    "a function's reference": """
def make(name):
    def made(t): return t * 2
    made.name = name
    references.append(weakref.ref(made, lambda reference: tell(name)))
    return made""",
    "a module": """
class Layer(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name
    def __del__(self): tell(self.name)
def make(name): return Layer(name)""",
    "a list's contents": "def make(name): return [Loud(name)]",
    "an object's contents": "def make(name): return Holder(deep=[{'k': (Loud(name),)}])",
    "a tensor": """
def make(name):
    made = torch.ones(2)
    references.append(weakref.ref(made, lambda reference: tell(name)))
    return made""",
    "a question": """
def make(name):
    made = Plain(name)
    references.append(weakref.ref(made))
    return made""",
    "a question for a tensor": """
def make(name):
    made = torch.ones(2)
    references.append(weakref.ref(made))
    return made""",
    "a question for a module": """
def make(name):
    made = nn.Linear(1, 1)
    references.append(weakref.ref(made))
    return made""",
}  # fmt: skip

# name: (done before each call, the captured lines that drop the object)
DROPS = {
    "an attribute set": ("place.held = make('a')", "place.held = None"),
    "an attribute deleted": ("place.held = make('a')", "del place.held"),
    "an attribute by setattr": ("place.held = make('a')", "setattr(place, 'held', 1)"),
    "an attribute popped from __dict__": ("place.held = make('a')", "place.__dict__.pop('held')"),
    "__dict__ cleared": ("place.held = make('a')", "place.__dict__.clear()"),
    "an attribute read, then set": ("place.held = make('a')", "a = place.held\nlog.append(1)\nplace.held = None\nlog.append(2)\na = None"),
    "an attribute read, deleted twice": ("place.held = make('a')", "a = place.held\ndel place.held\nlog.append(2)\ndel a"),
    "a slot set": ("slots.held = make('a')", "slots.held = None"),
    "a slot deleted": ("slots.held = make('a')", "del slots.held"),
    "a slot read, then set": ("slots.held = make('a')", "a = slots.held\nslots.held = 3\nlog.append(1)\na = 4"),
    "a module's attribute": ("net.held = make('a')", "net.held = None"),
    "a class attribute": ("Holder.held = make('a')", "Holder.held = None"),
    "an item of a list": ("things[:] = [make('a'), 1]", "things[0] = None"),
    "an item of a list deleted": ("things[:] = [make('a'), 1]", "del things[0]"),
    "a slice of a list": ("things[:] = [make('a'), make('b'), 1]", "things[:2] = [5]"),
    "a list popped": ("things[:] = [make('a'), 1]", "things.pop(0)"),
    "a list popped into a variable": ("things[:] = [make('a'), 1]", "a = things.pop(0)\nlog.append(1)\na = None"),
    "a list cleared": ("things[:] = [make('a'), make('b')]", "things.clear()"),
    "a list's last removed": ("things[:] = [make('a')]", "a = things[0]\nthings.remove(a)\nlog.append(1)\ndel a"),
    "an item of a dict": ("named['k'] = make('a')", "named['k'] = None"),
    "an item of a dict deleted": ("named['k'] = make('a')", "del named['k']"),
    "a dict popped": ("named['k'] = make('a')", "named.pop('k')"),
    "a dict popped into a variable": ("named['k'] = make('a')", "a = named.pop('k', None)\nlog.append(1)\ndel a"),
    "a dict popitem": ("named['k'] = make('a')", "named.popitem()"),
    "a dict cleared": ("named['k'] = make('a')", "named.clear()"),
    "a dict updated": ("named['k'] = make('a')", "named.update(k=2)"),
    "an ordered dict": ("ordered['k'] = make('a')", "ordered.pop('k')"),
    "a deque popped": ("queue.append(make('a'))", "queue.pop()"),
    "a deque that is full": ("full.extend([make('a'), make('b')])", "full.append(None)\nlog.append(1)\nfull.append(None)"),
    "a deque cleared": ("queue.append(make('a'))", "queue.clear()"),
    "a cell": ("set_cell(make('a'))", "set_cell(None)"),
    "a global": ("g = make('a')", "global g\ng = None"),
    "a global deleted": ("g = make('a')", "global g\ndel g"),
    "two places": ("place.held = named['k'] = make('a')", "place.held = None\nlog.append(1)\nnamed['k'] = None"),
    "moved to another place": ("place.held = make('a')", "named['k'] = place.held\nplace.held = None\nlog.append(1)\ndel named['k']"),
    "moved into a list": ("place.held = make('a')", "things.append(place.held)\nplace.held = None\nlog.append(1)\nthings.pop()"),
    "swapped": ("place.held, named['k'] = make('a'), make('b')", "place.held, named['k'] = named['k'], place.held\nlog.append(1)\nplace.held = None\nlog.append(2)\nnamed.clear()"),
    "a tuple": ("place.held = (make('a'), 1)", "place.held = None"),
    "a tuple unpacked": ("place.held = (make('a'), 1)", "a, b = place.held\nplace.held = None\nlog.append(1)\na = 2"),
    "inside a list": ("place.held = [make('a')]", "place.held = None"),
    "inside a list, read": ("place.held = [make('a')]", "n = len(place.held)\nplace.held = None"),
    "inside of an object": ("place.held = Holder(inner=make('a'))", "place.held = None"),
    "inside of an object, read": ("place.held = Holder(inner=make('a'))", "a = place.held.inner\nplace.held = None\nlog.append(1)\na = None"),
    "in an exception": ("place.held = ValueError(make('a'))", "place.held = None"),
    "in a partial": ("place.held = functools.partial(print, make('a'))", "place.held = None"),
    "a bound method": ("place.held = Holder(a=make('a')).__repr__", "place.held = None"),
    "a closure": ("place.held = closing(make('a'))", "place.held = None"),
    "a generator": ("place.held = generate(make('a'))", "place.held = None"),
    "a generator that waits": ("place.held = generate(make('a')); next(place.held)", "place.held = None"),
    "an iterator over a list": ("place.held = iter([make('a')])", "place.held = None"),
    "a variable after a break": ("", "a = give()\nlog.append(1)\na = None"),
    "a variable deleted after a break": ("", "a = give()\nlog.append(1)\ndel a"),
    "a result nobody takes": ("", "give()"),
    "an attribute of a result": ("", "n = give().__class__"),
    "a result in a list": ("", "a = [give()]\nlog.append(1)\na = None"),
    "a result in a tuple": ("", "a = (give(), 2)\nlog.append(1)\na = None"),
    "a result in a dict": ("", "a = {'k': give()}\nlog.append(1)\na.clear()"),
    "a result in an object": ("", "a = Holder(b=give())\nlog.append(1)\na.b = None"),
    "a result in a function's closure": ("", "a = closing(give())\nlog.append(1)\na = None"),
    "a loop's variable": ("", "for a in [give(), give()]:\n    log.append(1)\nlog.append(2)\na = 3"),
    "a loop over a list": ("things[:] = [make('a'), make('b')]", "while things:\n    a = things.pop()\n    log.append(1)\nlog.append(2)\na = 3"),
    "rebinding in a loop": ("", "a = None\nfor i in range(3):\n    a = give()\n    log.append(i)\na = 0"),
    "leaving a function": ("", "local_of(give())"),
    "leaving a function, held below": ("", "a = give()\nlocal_of(a)\nlog.append(2)\ndel a"),
    "a function that drops its argument": ("", "drops(give())"),
    "handing over": ("place.held = make('a')", "hands_over(place)"),
    "returned and dropped": ("place.held = make('a')", "taken(place)\nlog.append(3)"),
    "leaving a generator": ("", "for i in generate(give()): log.append(i)"),
    "leaving a generator in its middle": ("", "for i in generate(give()):\n    log.append(i)\n    break"),
    "a with block": ("", "with holding(give()): log.append(1)"),
    "a context manager": ("", "with Context(give()) as c: log.append(1)\nlog.append(2)\nc = None"),
    "an exception caught": ("", "try: raise ValueError(give())\nexcept ValueError as e: log.append(1)"),
    "an exception through a function": ("", "try: fails(give())\nexcept ValueError: log.append(1)"),
    "a comprehension": ("things[:] = [make('a'), make('b')]", "n = [1 for a in things]\nlog.append(n)\nthings.clear()"),
    "a starred call": ("things[:] = [make('a')]", "local_of(*things)\nlog.append(3)\nthings.clear()"),
    "an argument of an operation": ("", "n = len([give()])"),
    "an identity test": ("", "n = give() is None"),
    "map": ("things[:] = [make('a'), make('b')]", "n = list(map(local_of, things))\nthings.clear()"),
    "sorted": ("things[:] = [make('a'), make('b')]", "n = len(sorted(things, key=id))\nthings.clear()"),
    "setdefault": ("named['k'] = make('a')", "a = named.setdefault('k', 3)\nnamed.clear()\nlog.append(1)\ndel a"),
    "a set": ("place.held = {1: make('a')}", "place.held.clear()"),
    "changed and dropped": ("place.held = Holder(inner=make('a'), n=1)", "place.held.n = 2\nplace.held = None"),
    "two that go together": ("place.held = [make('a'), make('b')]", "place.held = None"),
    "the dict of an instance": ("place.held = Holder(inner=make('a')).__dict__", "place.held = None"),
    "reversed names": ("place.held = make('a'); named['k'] = place", "named['k'].held = None"),
    "in place addition": ("place.held = [make('a')]", "place.held += [1]\nlog.append(1)\nplace.held = None"),
    "a default value": ("place.held = defaulting(make('a'))", "place.held = None"),
    "two lists, one cleared": ("things[:] = [make('a'), make('b')]; named['k'] = list(things)", "named['k'] = 0\nlog.append(1)\nthings.clear()"),
    "two lists, a copy last": ("things[:] = [make('a'), make('b')]", "n = list(things)\nopaque()\nthings.clear()\nlog.append(1)\nn = None"),
    "two lists, items deleted": ("things[:] = [make('a'), make('b')]; named['k'] = list(things)", "del named['k'][0]\ndel named['k'][0]\nlog.append(1)\nthings.clear()"),
    "a list and a deque": ("queue.extend([make('a'), make('b')]); things[:] = queue", "things.clear()\nlog.append(1)\nqueue.clear()"),
    "a list and a dict": ("named.update(p=make('a'), q=make('b')); things[:] = named.values()", "named.clear()\nlog.append(1)\nthings.__init__()"),
    "a list and an object": ("things[:] = [make('a')]; place.held = Holder(c=things[0])", "place.held = None\nlog.append(1)\nthings.clear()"),
    "nothing": ("place.held = make('a')", "a = place.held\nb = [a]\ndel a, b"),
}  # fmt: skip

HELPERS = """
place, slots, net, things, named = Holder(), Slots(), Net(), [], {}
ordered, queue, full = collections.OrderedDict(), collections.deque(), collections.deque(maxlen=2)
def cell():
    held = None
    def set_it(value):
        nonlocal held
        held = value
    return set_it
set_cell = cell()
def closing(value): return lambda: value
def defaulting(value):
    def inner(a=value): return a
    return inner
def generate(value):
    try:
        for i in range(2): yield i
    finally:
        log.append('the generator ends')
def local_of(value):
    mine = value
    log.append('in the function')
    return 1
def drops(value):
    log.append('still there')
    value = None
    log.append('dropped')
def hands_over(holder):
    mine = holder.held
    holder.held = None
    log.append('mine')
    mine = 3
    log.append('not mine')
def taken(holder):
    mine = holder.held
    holder.held = None
    return mine
def fails(value):
    mine = value
    log.append('in the function')
    raise ValueError('no')
@contextlib.contextmanager
def holding(value):
    log.append('entered')
    yield
    log.append('left')
class Context:
    def __init__(self, value): self.value = value
    def __enter__(self): return self
    def __exit__(self, *error): self.value = None
"""


def program(observer: str, drop: str, breaks: str) -> str:
    """`breaks`: where the program calls what can't be captured around the drop."""
    before, lines = DROPS[drop]
    count = "log.append(len(alive))" if "weak " in observer else "log.append(len(log))"
    if "question" in observer:
        count = "log.append([reference() is None for reference in references])"
    body = [
        "def f(x):",
        "    y = x + 1",
        "    log.append('before')",
        *(["    opaque()"] if "before" in breaks else []),
        *("    " + line for line in lines.split("\n")),
        *(["    opaque()"] if "after" in breaks else []),
        "    log.append('after')",
        "    y = y * 2",
        f"    {count}",
        "    return y * len(log)",
    ]
    # `global` belongs to the top of the function.
    body.sort(key=lambda line: line.strip() != "global g" and not line.startswith("def"))
    setup = ["def prepare():", "    global g, place", f"    {before or 'pass'}"]
    return "\n".join([HEAD, OBSERVERS[observer].strip(), HELPERS, *setup, *body])
