"""`copy.copy` of instances of user-defined classes: configurations of which a layer gets a changed copy."""

import pytest

from tests.support.harness import Source, T, same

HEAD = """
class Config:
    kinds = {"n_layer": "layers"}
    def __init__(self, layers):
        self.layers = layers
        self.names = ["a", "b"]

    def __getattribute__(self, key):
        if key != "kinds" and key in super().__getattribute__("kinds"):
            key = super().__getattribute__("kinds")[key]
        return super().__getattribute__(key)

    def __setattr__(self, key, value):
        super().__setattr__(key, value * 2 if key == "layers" else value)

CONFIG = Config(2)
"""

WHOLE = {
    "changed": "def f(x):\n    made = copy.copy(CONFIG)\n    made.layers = 5\n    made.other = 1\n    return x * made.n_layer + CONFIG.n_layer, made, hasattr(CONFIG, 'other'), made is CONFIG",
    "shares_its_parts": "def f(x):\n    made = copy.copy(CONFIG)\n    made.names.append('c')\n    return x + len(CONFIG.names), made.names is CONFIG.names",
    "popped": "def f(x):\n    made = copy.copy(CONFIG)\n    made.__dict__.pop('names')\n    return x + 1, made, vars(made) is vars(CONFIG)",
    "of_a_new_one": "def f(x):\n    first = Config(3)\n    second = copy.copy(first)\n    first.layers = 1\n    return x * second.layers, first, second, type(second) is Config",
    "of_a_changed_one": "def f(x):\n    CONFIG.last = x + 1\n    made = copy.copy(CONFIG)\n    CONFIG.last = None\n    return made.last * 2, made",
    "a_list_of_them": "def f(x):\n    for i, one in enumerate([copy.copy(CONFIG) for _ in range(3)]):\n        one.layers = i\n        x = x + one.layers\n    return x, CONFIG.layers",
    "a_dataclass": "@dataclasses.dataclass\nclass Point:\n    a: int\n    b: list\nPOINT = Point(1, [2])\ndef f(x):\n    made = copy.copy(POINT)\n    made.a += 1\n    return x * made.a, made, made == POINT, made.b is POINT.b",
    "a_module": "INNER = nn.Linear(3, 3)\ndef f(x):\n    return copy.copy(CONFIG).layers + INNER(x)",
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole(name: str) -> None:
    same(
        Source(HEAD + WHOLE[name]),
        T(2, 3),
        compare_dynamo=False,
        stateful=name in ("shares_its_parts", "of_a_changed_one"),
    )


CHANGES = [
    "CONFIG.layers = 7",
    "CONFIG.more = 'new'",
    "del CONFIG.names",
    "Config.__copy__ = lambda self: Config(9)",
    "del Config.__copy__; Config.__reduce_ex__ = lambda self, version: (Config, (4,))",
    "del Config.__reduce_ex__; Config.__setstate__ = lambda self, state: self.__dict__.update(state, layers=3)",
    "del Config.__setstate__; Config.__getstate__ = lambda self: {'layers': 8}",
    "del Config.__getstate__; Config.__getnewargs__ = lambda self: ()",
    "del Config.__getnewargs__; Config.__new__ = staticmethod(lambda cls, *a: object.__new__(cls))",
]


def test_changed() -> None:
    program = (
        "def f(x):\n    made = copy.copy(CONFIG)\n    made.seen = True\n    return x * made.n_layer, made, CONFIG\n"
    )
    same(Source(HEAD + program), T(2, 3), mutate=CHANGES, compare_dynamo=False, fullgraph=False)


# The class, one above it or its metaclass has its own way.
OWN_WAYS = {
    "copier": "class K:\n    def __copy__(self): return 5\n",
    "metaclass": "class M(type):\n    def __copy__(cls, *of): return 6\nclass K(metaclass=M):\n    pass\n",
    "slots": "class K:\n    __slots__ = ('a',)\n    def __init__(self): self.a = 2\n",
    "derived_from_a_list": "class K(list):\n    pass\n",
    "derived_from_a_dict": "class K(dict):\n    pass\n",
    "derived_from_an_int": "class K(int):\n    pass\n",
    "asked": "ASKED = []\nclass K:\n    def __getattr__(self, name):\n        ASKED.append(name)\n        raise AttributeError(name)\n",
    "reduced": "class K:\n    def __init__(self, n=1): self.n = n\n    def __reduce__(self): return K, (self.n + 1,)\n",
    "an_error": "class K(Exception):\n    pass\n",
}  # fmt: skip


@pytest.mark.parametrize("name", OWN_WAYS)
def test_own_ways(name: str) -> None:
    program = OWN_WAYS[name] + (
        "OBJECT = K()\n"
        "def f(x):\n"
        "    try:\n"
        "        made = copy.copy(OBJECT)\n"
        "    except Exception as error:\n"
        "        return x, str(error)\n"
        "    return x + 1, type(made).__name__, made is OBJECT, getattr(made, 'n', 0), getattr(made, 'a', 0)\n"
    )
    same(Source(program), T(2, 3), compare_dynamo=False, fullgraph=False, stateful=True)
