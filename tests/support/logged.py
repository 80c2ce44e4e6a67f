"""Classes whose special methods log each call, for programs that show which user code runs, and when."""

CLASSES = '''
import heapq, bisect, statistics
_LOG = []
def name(value):
    return getattr(value, "name", value)
class L:
    """An int that logs what is done with it."""
    def __init__(self, v, label=None):
        self.v, self.name = v, label or f"L{v}"
    def __repr__(self): _LOG.append(("repr", self.name)); return self.name
    def __str__(self): _LOG.append(("str", self.name)); return "s" + self.name
    def __format__(self, spec): _LOG.append(("format", self.name, spec)); return "f" + self.name
    def __hash__(self): _LOG.append(("hash", self.name)); return hash(self.v)
    def __bool__(self): _LOG.append(("bool", self.name)); return bool(self.v)
    def __index__(self): _LOG.append(("index", self.name)); return self.v
    def __eq__(self, o): _LOG.append(("eq", self.name, name(o))); return self.v == getattr(o, "v", o)
    def __ne__(self, o): _LOG.append(("ne", self.name, name(o))); return self.v != getattr(o, "v", o)
    def __lt__(self, o): _LOG.append(("lt", self.name, name(o))); return self.v < getattr(o, "v", o)
    def __gt__(self, o): _LOG.append(("gt", self.name, name(o))); return self.v > getattr(o, "v", o)
    def __add__(self, o): _LOG.append(("add", self.name, name(o))); return self.v + getattr(o, "v", o)
    def __radd__(self, o): _LOG.append(("radd", self.name, name(o))); return getattr(o, "v", o) + self.v
class R(L):
    """A subclass: its reflected methods are called first."""
    def __eq__(self, o): _LOG.append(("R.eq", self.name, name(o))); return self.v == getattr(o, "v", o)
    def __gt__(self, o): _LOG.append(("R.gt", self.name, name(o))); return self.v > getattr(o, "v", o)
    def __radd__(self, o): _LOG.append(("R.radd", self.name, name(o))); return 3
    def __hash__(self): _LOG.append(("R.hash", self.name)); return hash(self.v)
class N:
    """Returns NotImplemented."""
    def __init__(self, v): self.v, self.name = v, f"N{v}"
    def __eq__(self, o): _LOG.append(("N.eq", self.name, name(o))); return NotImplemented
    def __lt__(self, o): _LOG.append(("N.lt", self.name, name(o))); return NotImplemented
    def __gt__(self, o): _LOG.append(("N.gt", self.name, name(o))); return NotImplemented
    __hash__ = object.__hash__
class E:
    """Returns objects that log the calls of their `__bool__`."""
    def __init__(self, v): self.v, self.name = v, f"E{v}"
    def __eq__(self, o): _LOG.append(("E.eq", self.name, name(o))); return L(self.v == getattr(o, "v", o), "t")
    def __lt__(self, o): _LOG.append(("E.lt", self.name, name(o))); return L(self.v < getattr(o, "v", o), "t")
    __hash__ = object.__hash__
class Indexed:
    """A sequence defined by `__len__` and `__getitem__`."""
    def __init__(self, *items): self.items = items
    def __len__(self): _LOG.append("len"); return len(self.items)
    def __getitem__(self, i): _LOG.append(("getitem", i)); return self.items[i]
class Hinted:
    """An iterator with `__length_hint__`."""
    def __init__(self, *items): self.items, self.at = items, 0
    def __iter__(self): _LOG.append("iter"); return self
    def __length_hint__(self): _LOG.append("hint"); return len(self.items)
    def __next__(self):
        _LOG.append(("next", self.at))
        if self.at >= len(self.items): raise StopIteration
        self.at += 1
        return self.items[self.at - 1]
class Sized(Hinted):
    def __len__(self): _LOG.append("len"); return len(self.items)
class Mapping:
    def __init__(self, **items): self.items = items
    def keys(self): _LOG.append("keys"); return Hinted(*self.items)
    def __getitem__(self, k): _LOG.append(("value", k)); return self.items[k]
class Dict(dict):
    def __getitem__(self, k): _LOG.append(("D.getitem", k)); return dict.__getitem__(self, k)
    def keys(self): _LOG.append("D.keys"); return dict.keys(self)
    def __iter__(self): _LOG.append("D.iter"); return dict.__iter__(self)
    def __len__(self): _LOG.append("D.len"); return dict.__len__(self)
class List(list):
    def __iter__(self): _LOG.append("List.iter"); return list.__iter__(self)
    def __len__(self): _LOG.append("List.len"); return list.__len__(self)
    def __eq__(self, o): _LOG.append("List.eq"); return list.__eq__(self, o)
    __hash__ = None
class Color(enum.Enum):
    A = 1
    B = 2
    def __lt__(self, o): _LOG.append(("Color.lt", self.name, o.name)); return self.value < o.value
    def __eq__(self, o): _LOG.append(("Color.eq", self.name, name(o))); return self is o
    def __hash__(self): _LOG.append(("Color.hash", self.name)); return self.value
    def __repr__(self): _LOG.append(("Color.repr", self.name)); return self.name
class Str(str):
    def __eq__(self, o): _LOG.append("Str.eq"); return str.__eq__(self, o)
    def __hash__(self): _LOG.append("Str.hash"); return str.__hash__(self)
def note(v): _LOG.append(("note", name(v))); return v
def gen(*items):
    for item in items:
        _LOG.append(("yield", name(item)))
        yield item
    _LOG.append("end")
def cmp(a, b): _LOG.append(("cmp", a, b)); return (a > b) - (a < b)
def attempt(f):
    try: return f()
    except Exception as e: return type(e).__name__, str(e)
def Ls(*values): return [L(v, f"L{v}#{i}") for i, v in enumerate(values)]
a, b, c, d = L(1, "a"), L(2, "b"), L(1, "c"), L(3, "d")
OUT = Ls(3, 1, 2, 1)
TABLE, SET = {a: 1, b: 2}, {a, b}
_LOG.clear()
def shown(v):
    if isinstance(v, (L, N, E)): return v.name
    if isinstance(v, (list, tuple)): return [shown(i) for i in v]
    if isinstance(v, dict): return [(shown(k), shown(i)) for k, i in v.items()]
    if isinstance(v, (set, frozenset)): return sorted(map(str, map(name, v)))
    return v
'''
