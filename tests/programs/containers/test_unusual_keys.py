"""Outside dicts with keys that are new objects in each call: devices, dtypes, enum members in tuples."""

import textwrap

import pytest

from tests.support.harness import Source, T, same, unrelated

KINDS = """
import enum, collections
class Color(enum.Enum):
    RED = 1
    BLUE = 2
Point = collections.namedtuple("Point", "x y")
CPU, FLOAT = torch.device("cpu"), torch.float32
TABLE = {(CPU, FLOAT): 2, (Color.RED, 1): 3, Color.BLUE: 4, CPU: 5, FLOAT: 6, Point(1, 2): 7, torch.Size([3]): 8}
"""
PROGRAMS = {
    "device_and_dtype": "def f(x):\n    return x * TABLE[x.device, x.dtype], (x.device, torch.int) in TABLE",
    "enum": "def f(x):\n    return x * TABLE[Color.RED, 1], (Color.BLUE, 1) in TABLE, TABLE.get((Color.RED, 2), 9)",
    "alone": "def f(x):\n    return x * TABLE[x.device] + TABLE[x.dtype], torch.int in TABLE, TABLE[Color.BLUE]",
    "size": "def f(x):\n    return x * TABLE[x.shape], x.unsqueeze(0).shape in TABLE",
    "named": "def f(x):\n    return x * TABLE[Point(1, 2)], Point(2, 1) in TABLE, TABLE[1, 2]",
    "all": "def f(x):\n    total = 0\n    for key, value in TABLE.items():\n        total = total + value * x\n    return total",
    "remembered": """
        def f(x):
            key = (x.device, x.dtype, x.shape[0])
            if key not in CACHE:
                CACHE[key] = torch.arange(x.shape[0], device=x.device, dtype=x.dtype)
            return x + CACHE[key]
        """,
}
CHANGES = ["TABLE[CPU, FLOAT] = 11", "TABLE[Color.BLUE, 1] = 12", "TABLE[torch.Size([1, 3])] = 13", "del TABLE[CPU]"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_looked_up(name: str) -> None:
    text = KINDS + "CACHE = {}\n" + textwrap.dedent(PROGRAMS[name])
    stateful = name == "remembered"
    same(Source(text), T(3), mutate=CHANGES, stateful=stateful, compare_dynamo=False, fullgraph=True)


@pytest.mark.parametrize("error", [False, True])
def test_gradients_are_clipped(error: bool) -> None:
    text = f"""
torch.manual_seed(0)
MODEL = nn.Linear(3, 2)
def f(x):
    for p in MODEL.parameters():
        p.grad = torch.ones_like(p) * x.sum()
    return nn.utils.clip_grad_norm_(MODEL.parameters(), 1.0, error_if_nonfinite={error})
"""
    same(Source(text), T(3), compare_dynamo=False, fullgraph=not error, grads=False, stateful=True)


GROUPED = {
    "one_kind": "[[x, x + 1], [A, B]], True",
    "empty_list": "[[x, x + 1], []], False",
    "several_kinds": "[[x, x.double()]], True",
    "none": "[[x, x], [None, A]], False",
    "nothing": "[[]], False",
}


@pytest.mark.parametrize("name", GROUPED)
def test_grouped(name: str) -> None:
    text = f"""
A, B = torch.ones(3), torch.zeros(3)
def f(x):
    groups = torch._C._group_tensors_by_device_and_dtype({GROUPED[name]})
    return groups, [tensor * 2 for (lists, _) in groups.values() for tensor in lists[0]]
"""
    whole = name in ("one_kind", "empty_list")
    same(Source(text), T(3), compare_dynamo=False, fullgraph=whole)


def test_hashes_of_dataclasses_in_dataclasses():
    text = """
@dataclasses.dataclass(frozen=True)
class Inner:
    x: float
    y: float
@dataclasses.dataclass(frozen=True)
class Outer:
    inner: Inner
    z: int
def f(x):
    key = Outer(Inner(2.4, 4.4), 5)
    table = {key: 2, (key, 1): 3}
    return x + table[Outer(Inner(2.4, 4.4), 5)] + table[key, 1], hash((Inner(1.0, 2.0), 3, ("a", Inner(0.5, 0.5))))
"""
    same(Source(text), T(3), compare_dynamo=False)


def test_the_length_of_a_dict_needs_no_keys():
    text = """
class Key:
    def __init__(self, name): self.name = name
    def __hash__(self): return hash(self.name)
    def __eq__(self, other): return self.name == other.name
TABLE = {Key("a"): 1, Key("b"): 2}
def f(x): return x * len(TABLE) if TABLE else x
"""
    changes = ["TABLE[Key('c')] = 3", unrelated("TABLE[Key('a')] = 5"), "TABLE.clear()"]
    same(Source(text), T(3), compare_dynamo=False, mutate=changes)


HASHED = """
class Key:
    def __init__(self, n): self.n = n
    def __hash__(self): LOG.append(self.n); return hash(self.n) % MODULUS
    def __eq__(self, other): return self.n == other.n
    def __repr__(self): return f"Key({self.n})"
LOG, MODULUS = [], 101
FIRST = Key(1)
TABLE = {FIRST: 2, Key(2): 3, Key(4): 5, "text": 6}
"""


def test_keys_of_existing_dicts_with_a_hash_of_the_program():
    reads = HASHED + "def f(x, n): return x * TABLE[Key(n)] + TABLE.get(Key(7), 1) + (Key(4) in TABLE), len(TABLE)"
    changes = ["TABLE[Key(2)] = 9", "del TABLE['text']", "FIRST.n = 4", "TABLE[Key(7)] = 3", "del TABLE[Key(2)]"]
    same(Source(reads), T(3), 2, compare_dynamo=False, mutate=changes)
    same(Source(reads), T(3), 5, compare_dynamo=False)
    writes = HASHED + (
        "def f(x, n):\n"
        "    TABLE[Key(n)] = TABLE.get(Key(n), 0) + 1\n"
        "    return x * TABLE[Key(n)], [(key if key == 'text' else key.n, TABLE[key]) for key in TABLE]"
    )
    same(Source(writes), T(3), 2, compare_dynamo=False, stateful=True, mutate=["FIRST.n = 5"])
    same(Source(writes), T(3), 8, compare_dynamo=False, stateful=True, mutate=["TABLE.clear()"])
    for program in (reads, writes):
        program = program.replace("101", "3")
        same(Source(program), T(3), 8, compare_dynamo=False, stateful=True, fullgraph=False)


def test_a_dict_keeps_the_hash_that_a_key_had():
    text = HASHED + "def f(x): return x * TABLE.get(FIRST, 9)"
    same(Source(text), T(3), compare_dynamo=False, mutate=["FIRST.n = 2", "TABLE[FIRST] = 7", "FIRST.n = 1"])
