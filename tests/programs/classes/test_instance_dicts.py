"""Attributes of instances and their dicts: from 3.13 on they are stored inline, and the dict is created when it is
read."""

import pytest

from tests.support.harness import Source, T, same

OBJECT = """
class Holder:
    kind = "class"
    def __init__(self):
        self.a = 2
        self.b = 3
holder = Holder()
def set_a(value): holder.a = value
def delete_a(): del holder.a
def f(x):
    return x * holder.a + len(holder.__dict__)
"""
READ_ONLY = OBJECT.replace(" + len(holder.__dict__)", "")
WARM = "for i in range(200): set_a(i)\nset_a(2)\n"

# In 3.13 the values of a dict that was read may be stored in its instance, so that a store through the instance does
# not touch the dict. Whatever the order of asking, changing and checking is, a change must be noticed.
CHANGES = {
    "by attribute": ["set_a(5)", "set_a(6)", "holder.a = 7", "delete_a(); Holder.a = 8", "holder.a = 1"],
    "through the dict": ["vars(holder)['a'] = 5", "holder.__dict__['a'] = 6", "holder.__dict__.update(a=7)"],
    "by attribute once the dict was taken": ["kept = vars(holder); set_a(5)", "set_a(6)", "kept['a'] = 7", "set_a(8)"],
    "in both ways in turn": [
        "vars(holder)['a'] = 5",
        "set_a(6)",
        "vars(holder)['a'] = 7",
        "holder.a = 8",
        "holder.__dict__['a'] = 9",
    ],
    "removed and put back": [
        "delete_a(); set_a(5)",
        "del vars(holder)['a']; set_a(6)",
        "vars(holder).pop('a'); holder.a = 7",
    ],
    "another dict": [
        "holder.__dict__ = {'a': 5}",
        "set_a(6)",
        "holder.__dict__ = dict(a=7, b=1)",
        "vars(holder)['a'] = 8",
    ],
    "the dict outlives its instance": [
        "old = vars(holder); holder = Holder(); holder.a = 5",
        "old['a'] = 1; holder.a = 6",
        "del old; holder.a = 7",
    ],
    "a dict that was replaced": [
        "old = holder.__dict__; holder.__dict__ = {'a': 5, 'b': 1}",
        "old['a'] = 6",
        "holder.a = 7",
        "old.clear(); holder.a = 8",
    ],
    "cleared": [
        "vars(holder).clear(); holder.a = 5",
        "holder.a = 6",
        "holder.b = 1",
        "holder.__dict__.clear(); holder.__dict__['a'] = 4",
    ],
    "updated as one": [
        "vars(holder).update({'a': 5, 'c': 1})",
        "vars(holder).update(a=6)",
        "vars(holder).__ior__({'a': 7})",
        "vars(holder).setdefault('d', 1)",
    ],
    "by the library's ways": [
        "setattr(holder, 'a', 5)",
        "object.__setattr__(holder, 'a', 6)",
        "operator.setitem(vars(holder), 'a', 7)",
        "delattr(holder, 'a'); setattr(holder, 'a', 8)",
    ],
    "many attributes": ["for i in range(40): setattr(holder, f'n{i}', i)", "set_a(6)", "vars(holder)['a'] = 7"],
    "the class is another": [
        "class Other: pass\nholder.__class__ = Other\nholder.a = 5",
        "holder.a = 6",
        "vars(holder)['a'] = 7",
    ],
    "a property appears": [
        "Holder.a = property(lambda self: 50)",
        "del Holder.a; set_a(6)",
        "Holder.a = 9",
        "set_a(7)",
    ],
    "copied": ["holder = copy.copy(holder); holder.a = 5", "set_a(6)", "vars(holder)['a'] = 7"],
    "pickled": ["holder = object.__reduce_ex__(holder, 2)[0](Holder); vars(holder).update(a=5, b=1)", "set_a(6)"],
    "keys in another order": ["vars(holder)['a'] = vars(holder).pop('a'); set_a(5)", "set_a(6)"],
    "keys that are no names": ["vars(holder)[3] = 1; set_a(5)", "set_a(6)", "vars(holder)['a'] = 7"],
}


@pytest.mark.parametrize("program", [OBJECT, READ_ONLY], ids=["with its dict", "attribute alone"])
@pytest.mark.parametrize(
    "prepared",
    ["", "vars(holder)\n", WARM, "kept = vars(holder)\n" + WARM],
    ids=["fresh", "asked", "warm", "warm and asked"],
)
@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_instances(name, prepared, program):
    same(Source(program + prepared), T(3), calls=4, mutate=CHANGES[name], compare_dynamo=False)


@pytest.mark.parametrize("asked", [False, True])
def test_changes_between_many_calls(asked):
    """Long enough for checks to be recorded as quick ones and for dicts to be watched."""
    text = OBJECT + ("kept = vars(holder)\n" if asked else "") + "def other(n): vars(holder)['a'] = n\n"
    changes = []
    for i in range(6):
        changes += [f"set_a({i + 3})", "pass", "pass", "pass", f"other({i + 20})", "pass", "pass", "pass"]
    same(Source(text), T(3), calls=8, mutate=changes, compare_dynamo=False)


@pytest.mark.parametrize(
    "name", ["by attribute", "through the dict", "in both ways in turn", "another dict", "cleared"]
)
def test_changes_of_modules(name):
    text = """
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = 2
    def forward(self, x): return x * self.a
holder = Holder()
initial = dict(vars(holder))
def set_a(value): holder.a = value
def delete_a(): del holder.a
def f(x): return holder(x)
"""
    changes = [
        change.replace("holder.__dict__ = {", "holder.__dict__ = {**initial, ")
        .replace("dict(a=7, b=1)", "dict(initial, a=7)")
        .replace("vars(holder).clear()", "vars(holder).clear(); vars(holder).update(initial)")
        .replace("holder.__dict__.clear()", "holder.__dict__.clear(); vars(holder).update(initial)")
        for change in CHANGES[name]
    ]
    same(Source(text), T(3), calls=5, mutate=changes, compare_dynamo=False)


INSIDE = {
    "attributes set after the dict was taken": """
class Holder: pass
def f(x):
    holder = Holder()
    holder.a = x
    names = vars(holder)
    holder.b = x + 1
    names["c"] = 3
    del holder.a
    return holder, names, names is holder.__dict__, list(names), holder.c
""",
    "an object from outside, its dict taken before": """
class Holder: pass
holder = Holder()
holder.a = 1
names = vars(holder)
def f(x):
    holder.b = holder.a + 1
    names["c"] = x
    seen = list(names)
    print(seen)
    holder.a = names["b"]
    return x + holder.a, names is vars(holder), sorted(vars(holder)), holder.c
""",
    "an object from outside behind a break": """
class Holder:
    def __init__(self): self.a, self.b = 1, 2
holder = Holder()
names = vars(holder)
def f(x):
    holder.a += 1
    print(names)
    y = x * holder.a
    names["a"] += 1
    print(holder.a)
    holder.b = y
    del names["a"]
    print(hasattr(holder, "a"))
    holder.a = 1
    return y + holder.a, list(names)
""",
    "attributes iterated while they change": """
class Holder:
    def __init__(self): self.a, self.b = 1, 2
def f(x):
    holder = Holder()
    try:
        for name in vars(holder):
            setattr(holder, name + "2", x)
    except RuntimeError as error:
        return x + 1, str(error), sorted(vars(holder))
""",
    "dicts swapped": """
class Holder:
    def __init__(self, n): self.n = n
first, second = Holder(1), Holder(2)
def f(x):
    first.__dict__, second.__dict__ = second.__dict__, first.__dict__
    return x + first.n, second.n
""",
    "a dict shared": """
class Holder:
    def __init__(self, n): self.n = n
first, second = Holder(1), Holder(2)
second.__dict__ = first.__dict__
def f(x):
    first.n += 1
    y = x + second.n
    second.n += 1
    print(first.n)
    return y, first.n
""",
    "a class's attributes through its proxy": """
class Holder: n = 1
view = vars(Holder)
def f(x):
    Holder.n += 1
    y = x + view["n"]
    print(view["n"])
    Holder.m = y
    return y + Holder().n, "m" in view
""",
    "slots beside a dict": """
class Base: __slots__ = ("s",)
class Holder(Base):
    def __init__(self): self.s, self.d = 1, 2
holder = Holder()
def f(x):
    holder.s += 1
    holder.d += 1
    print(holder.s, vars(holder))
    return x + holder.s * holder.d
""",
}


@pytest.mark.parametrize("name", INSIDE)
def test_instances_and_their_dicts_inside(name):
    same(Source(INSIDE[name]), T(3), calls=4, fullgraph=False, compare_dynamo=False)
