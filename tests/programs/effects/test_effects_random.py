"""Random sequences of changes of a small world of containers and objects, with reads in between."""

import random

import pytest

from tests.support.harness import Source, T, same

WORLD = """
class Node:
    shared = 1
    def __init__(self, n):
        self.n = n
        self.items = [n]
class Slots:
    __slots__ = ("a", "b")
    def __init__(self):
        self.a = 0
        self.b = None
L = [3, 1, 2]
M = [L, [4]]
D = {"a": 1, "b": L}
E = collections.OrderedDict(a=1, b=2, c=3)
Q = collections.deque([1, 2, 3], maxlen=4)
S = {1, 2, 3}
O = Node(1)
P = Node(2)
P.other = O
R = Slots()
N = 0
LOG = []
"""

VALUES = ["N", "x", "x * 2", "[x, 1]", "{'k': N}", "L", "D", "O", "(1, L)", "Node(N)", "len(LOG)", "'t'", "None", "O.n"]
LISTS = ["L", "M", "M[1]", "O.items", "P.other.items", "LOG"]
DICTS = ["D", "E", "O.__dict__", "vars(P)"]
OBJECTS = ["O", "P", "P.other"]
KEYS = ["'a'", "'b'", "'c'", "'z'"]

CHANGES = [
    "{list}.append({value})",
    "{list}.append({value})",
    "{list}.insert({index}, {value})",
    "{list}.pop() if {list} else 0",
    "{list}.pop(0) if {list} else 0",
    "{list}[:1] = [{value}, {value}]",
    "{list} += [{value}]",
    "{list}.reverse()",
    "{list}[0] = {value}",
    "del {list}[-1:]",
    "{list}.extend({list}[:2])",
    "{dict}[{key}] = {value}",
    "{dict}[{key}] = {value}",
    "{dict}.pop({key}, None)",
    "{dict}.setdefault({key}, {value})",
    "{dict}.update(a={value}, q={value})",
    "if {key} in {dict}: del {dict}[{key}]",
    "E.move_to_end(next(iter(E))) if E else 0",
    "E.popitem(last=False) if E else 0",
    "Q.append({value})",
    "Q.appendleft({value})",
    "Q.rotate(1)",
    "Q.popleft() if Q else 0",
    "S.add({number})",
    "S.discard({number})",
    "S |= {{{number}, {number}}}",
    "{object}.n = {value}",
    "{object}.new = {value}",
    "if hasattr({object}, 'new'): del {object}.new",
    "{object}.shared += 1",
    "Node.shared += 1",
    "Node.fresh = {value}",
    "R.a = {value}",
    "R.b = R.a",
    "if hasattr(R, 'b'): del R.b",
    "N += 1",
    "N = {value}",
    "x = x + 1",
    "LOG.append(({read}))",
    "LOG.append(({read}))",
    "local = [{value}]; {list}.append(local); local.append({value})",
    "change({value})",
    "for v in {list}[:2]: LOG.append(v)",
    "try:\n        {dict}['missing']\n    except KeyError as e:\n        LOG.append(str(e))",
]
READS = [
    "len({list})",
    "{list}[-1:]",
    "{dict}.get({key})",
    "{key} in {dict}",
    "list({dict})",
    "len({dict})",
    "{number} in S, len(S)",
    "list(Q)",
    "getattr({object}, 'new', 0)",
    "{object}.shared",
    "getattr(R, 'b', 'none')",
    "N",
    "{list} is L",
    "P.other is O",
]


def program(seed: int) -> str:
    chosen = random.Random(seed)

    def fill(text: str) -> str:
        read = chosen.choice(READS)
        for _ in range(2):
            for name, options in {
                "read": [read],
                "list": LISTS,
                "dict": DICTS,
                "object": OBJECTS,
                "value": VALUES,
                "key": KEYS,
                "index": ["0", "1", "-1"],
                "number": ["1", "2", "5"],
            }.items():
                while "{" + name + "}" in text:
                    text = text.replace("{" + name + "}", chosen.choice(options), 1)
        return text.replace("{{", "{").replace("}}", "}")

    lines = [fill(chosen.choice(CHANGES)) for _ in range(chosen.randint(2, 12))]
    guarded = [
        f"    try:\n        {line}\n    except (IndexError, TypeError) as e:\n        LOG.append(type(e))"
        if "\n" not in line and not line.startswith("if ") and not line.startswith("for ")
        else "    " + line
        for line in lines
    ]
    text = "\n".join(guarded)
    return (
        f"{WORLD}\ndef change(v):\n    global N\n    LOG.append(v)\n    N = len(LOG)\n"
        f"def f(x):\n    global N, S, L, M, LOG\n{text}\n    return x + 1, {fill(chosen.choice(READS))}, LOG\n"
    )


@pytest.mark.parametrize("seed", range(60))
def test_random_changes(seed: int) -> None:
    same(Source(program(seed)), T(3), fullgraph=False, calls=3, grads=False)
