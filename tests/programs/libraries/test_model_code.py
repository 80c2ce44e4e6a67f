"""Code patterns of model libraries: each program here is the core of something found in one of them."""

import textwrap

import pytest

from tests.support.harness import Built, Source, T, same

# name -> (program, changes after which the answer has to be right again)
PROGRAMS = {
    "attributes_renamed_by_getattribute": (
        """
        class Config:
            names = {"n_layer": "layers"}

            def __init__(self):
                self.layers = 2
                self.scale = 3

            def __setattr__(self, key, value):
                if key in super().__getattribute__("names"):
                    key = super().__getattribute__("names")[key]
                super().__setattr__(key, value)

            def __getattribute__(self, key):
                if key != "names" and key in super().__getattribute__("names"):
                    key = super().__getattribute__("names")[key]
                return super().__getattribute__(key)

            @property
            def doubled(self):
                return self.n_layer * 2

        CONFIG = Config()

        def f(x):
            found = getattr(CONFIG, "n_layer", None), getattr(CONFIG, "nothing", None), hasattr(CONFIG, "other")
            return x * CONFIG.n_layer + CONFIG.doubled, CONFIG.scale, found
        """,
        ["CONFIG.layers = 5", "CONFIG.names = {'n_layer': 'scale'}", "CONFIG.nothing = 1", "del CONFIG.nothing",
         "Config.__getattribute__ = lambda self, key: object.__getattribute__(self, key) if key != 'scale' else 7"],
    ),
    "getattribute_before_getattr": (
        """
        class Config:
            def __getattribute__(self, key):
                if key.startswith("no"):
                    raise AttributeError(key)
                return object.__getattribute__(self, key)

            def __getattr__(self, key):
                if key == "nobody":
                    raise AttributeError("really " + key)
                return len(key)

        CONFIG = Config()
        CONFIG.size, CONFIG.nothing = 4, 100

        def f(x):
            try:
                CONFIG.nobody
            except AttributeError as error:
                said = str(error)
            return x * CONFIG.size + CONFIG.nothing + CONFIG.missing, said
        """,
        ["CONFIG.size = 2", "CONFIG.missing = 2", "Config.__getattr__ = lambda self, key: 50"],
    ),
    "object_getattribute_knows_no_getattr": (
        """
        class Lazy:
            def __getattr__(self, key):
                return 1

        LAZY = Lazy()

        def f(x):
            try:
                return x + object.__getattribute__(LAZY, "size")
            except AttributeError as error:
                return x - LAZY.size, str(error)
        """,
        ["LAZY.size = 4"],
    ),
    "attribute_set_for_the_time_of_a_call": (
        """
        class Config:
            def __getattribute__(self, key):
                return super().__getattribute__(key)

        CONFIG = Config()
        CONFIG.is_causal = False

        def inner(x):
            return x * 2 if CONFIG.is_causal else x

        def f(x, causal=True):
            known = hasattr(CONFIG, "is_causal")
            if known:
                before = CONFIG.is_causal
            CONFIG.is_causal = causal
            try:
                return inner(x)
            finally:
                if known:
                    CONFIG.is_causal = before
                else:
                    del CONFIG.is_causal
        """,
        ["del CONFIG.is_causal", "CONFIG.is_causal = 5"],
    ),
    "signature_counts_parameters": (
        """
        import inspect

        class Layer:
            def chunk(self, t, by=2):
                return t * by

            def run(self, function, *tensors):
                count = len(inspect.signature(function).parameters)
                if count != len(tensors):
                    raise ValueError(f"expects {count}")
                return function(*tensors)

        LAYER = Layer()

        def g(t, *, shift=1): ...

        def f(x):
            known = list(inspect.signature(g).parameters), inspect.signature(g).parameters["shift"].default
            return LAYER.run(LAYER.chunk, x, 3), known
        """,
        ["g.__kwdefaults__['shift'] = 2", "g.__kwdefaults__ = {'shift': 4}", "g.__defaults__ = (2,)", "g = lambda shift, other: 0", "LAYER.chunk = lambda t, b: t + b",
         "g.__signature__ = inspect.signature(f)"],
    ),
    "signature_of_what_is_wrapped": (
        """
        import functools, inspect

        def plain(t, by=1, **rest):
            return t * by

        def wrapped(function):
            @functools.wraps(function)
            def wrapper(*args, **kwargs):
                known = inspect.signature(function).parameters
                return function(*args, **{key: value for key, value in kwargs.items() if key in known})
            return wrapper

        scaled = wrapped(wrapped(plain))

        def f(x):
            return scaled(x, by=2, unknown=3), list(inspect.signature(scaled).parameters)
        """,
        ["scaled = wrapped(lambda t, unknown=1: t * unknown)"],
    ),
    "sequence_given_up_on_the_way": (
        """
        from collections.abc import Sequence

        class Layers(Sequence):
            def __init__(self, *items):
                self.items = items
            def __len__(self):
                return len(self.items)
            def __getitem__(self, index):
                return self.items[index]

        LAYERS = Layers(1, 2, 3)

        def f(x):
            first = next(iter(LAYERS))
            for layer in LAYERS:
                x = x * layer
                if layer == 2:
                    break
            return x + first, any(layer > 1 for layer in LAYERS)
        """,
        ["LAYERS.items = (2, 5, 7)"],
    ),
    "config_copied_deeply": (
        """
        import copy

        class Config:
            kinds = {"n_layer": "layers"}
            __slotnames__ = []  # the real copy would note it here

            def __init__(self, layers, **more):
                self.layers = layers
                self.names = ["a", "b"]
                self.more = {"list": self.names, "inner": more.get("inner"), "self": self}

            def __getattribute__(self, key):
                if key in super().__getattribute__("kinds"):
                    key = super().__getattribute__("kinds")[key]
                return super().__getattribute__(key)

            def __setattr__(self, key, value):
                super().__setattr__(key, value * 2 if key == "layers" else value)

        CONFIG = Config(2, inner=Config(3))

        def f(x):
            made = copy.deepcopy(CONFIG)
            made.names.append("c")
            made.layers = 5
            shared = made.more["list"] is made.names, made.more["self"] is made, made.more["inner"] is CONFIG
            del made.more["inner"].layers
            return x * CONFIG.n_layer + made.n_layer, made, shared, hasattr(made.more["inner"], "n_layer")
        """,
        ["CONFIG.layers = 7", "CONFIG.names.append('d')", "CONFIG.other = (1, [2])",
         "Config.__getstate__ = lambda self: {'layers': 9, 'more': {'list': [], 'self': self, 'inner': self}, 'names': []}"],
    ),
    "copies_that_classes_make": (
        """
        import copy

        class Counted:
            def __init__(self):
                self.count = 1
            def __deepcopy__(self, memo):
                made = Counted()
                made.count = self.count + 1
                return made

        class Stated:
            def __init__(self):
                self.value = 3
            def __setstate__(self, state):
                self.value = state["value"] * 2

        class Slotted:
            __slots__ = ("a",)

        class Asked:
            def __getattr__(self, name):
                if name == "__deepcopy__":
                    return lambda memo: 11
                raise AttributeError(name)

        COUNTED, STATED, SLOTTED, ASKED = Counted(), Stated(), Slotted(), Asked()
        SLOTTED.a = 6

        def f(x):
            y = x + copy.deepcopy(COUNTED).count
            y = y * copy.deepcopy(STATED).value
            return y - copy.deepcopy(SLOTTED).a + copy.deepcopy(ASKED)
        """,
        ["COUNTED.count = 5", "STATED.value = 1"],
    ),
    "types_of_a_union": (
        """
        import typing

        class Config:
            size: int | None = None
            name: typing.Optional[str] = None

        def f(x):
            hints = Config.__annotations__
            known = [part in (int, str) for hint in hints.values() for part in hint.__args__]
            return x * len(typing.get_args(hints["size"])), known
        """,
        ["Config.__annotations__['size'] = int | str | float"],
    ),
    "registered_operations": (
        """
        def f(x):
            y = torch.ops.aten.mul(x, 2) + torch.ops.aten.add.Tensor(x, x, alpha=3)
            torch.ops.aten.add_(y, 1)
            return torch.ops.aten.max.dim(y, 0)[0], y
        """,
        [],
    ),
}  # fmt: skip

IN_PIECES = {"signature_counts_parameters", "config_copied_deeply", "copies_that_classes_make"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    text, changes = PROGRAMS[name]
    source = Source(textwrap.dedent(text))
    if name in IN_PIECES:  # because of what the program does after a change
        same(source, T(3), compare_dynamo=False, fullgraph=name != "copies_that_classes_make", stateful=True)
    same(source, T(3), compare_dynamo=False, mutate=changes, fullgraph=name not in IN_PIECES, stateful=True)


# Given up while GeneratorExit would be caught by the program: it has to see that.
CAUGHT = {
    "named": "except GeneratorExit:\n            SEEN.append('exit')\n            raise",
    "one_of_two": "except (IndexError, GeneratorExit):\n            SEEN.append('exit')\n            raise",
    "base": "except BaseException:\n            SEEN.append('exit')\n            raise",
    "bare": "except:\n            SEEN.append('exit')\n            raise",
    "finally": "finally:\n            SEEN.append('exit')",
    "others": "except (IndexError, KeyError):\n            SEEN.append('other')",
}


@pytest.mark.parametrize("name", CAUGHT)
def test_a_generator_that_is_given_up(name: str) -> None:
    same(
        Source(f"""
SEEN = []

def items():
    while True:
        try:
            yield 2
        {CAUGHT[name]}

def f(x):
    for item in items():
        x = x * item
        break
    return x + 1, len(SEEN)
"""),
        T(3),
        compare_dynamo=False,
        fullgraph=name == "others",
        stateful=True,
    )


CACHES = """
import functools

FLAG = 3

class Logger:
    @functools.lru_cache(None)
    def warn_once(self, text):
        print(text)

    @functools.lru_cache
    def scaled(self, by):
        return by * FLAG

@functools.lru_cache(maxsize=2)
def is_at_least(version, other=(1, 2)):
    return version >= str(FLAG) and other > (1,)

@functools.cache
def table():
    return [1, 2]

@functools.lru_cache(typed=True)
def by_type(value):
    return type(value).__name__

@functools.cache
def of_tensor(t):
    return 5

LOGGER = Logger()
"""


@pytest.mark.parametrize("warm", [True, False])
def test_a_warning_that_is_given_once(warm: bool) -> None:
    text = CACHES + ("LOGGER.warn_once('careful')\n" if warm else "")
    text += "def f(x):\n    y = x + 1\n    LOGGER.warn_once('careful')\n    return y * 2"
    changes = ["Logger.warn_once.cache_clear()", "LOGGER = Logger()"]
    same(Source(text), T(3), compare_dynamo=False, fullgraph=warm, stateful=not warm)
    same(Source(text), T(3), compare_dynamo=False, fullgraph=False, mutate=changes)


# A cached result stays that of the first call, until the cache is cleared.
REMEMBERED = {
    "method": ("LOGGER.scaled(2)", ["FLAG = 7", "Logger.scaled.cache_clear()", "LOGGER.scaled(5)"]),
    "few": ("is_at_least('4') + is_at_least('2', (1, 5))", ["FLAG = 1", "[is_at_least(str(n)) for n in range(9)]"]),
    "typed": ("len(by_type(1)) + len(by_type(True))", []),
    "list": ("len(table()) + (table() is table())", ["table().append(3)", "table.cache_clear()"]),
    "tensor": ("of_tensor(x)", []),
    "keyword": ("is_at_least(version='3')", ["FLAG = 9", "is_at_least.cache_clear()", "is_at_least('3')"]),
    "keywords": ("is_at_least('4', other=None or (1, 3)) + is_at_least(other=(1, 4), version='2')",
                 ["FLAG = 9", "[is_at_least(str(n)) for n in range(9)]", "is_at_least(version='2', other=(1, 4))"]),
}  # fmt: skip


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("name", REMEMBERED)
def test_answers_that_are_remembered(name: str, warm: bool) -> None:
    asked, changes = REMEMBERED[name]
    text = CACHES + (f"x = torch.ones(3)\n{asked}\n" if warm else "") + f"def f(x):\n    return x * ({asked})"
    whole = name in ("method", "few", "keyword", "keywords")
    same(Source(text), T(3), compare_dynamo=False, fullgraph=whole, mutate=changes, stateful=not whole)


def test_a_scripted_function() -> None:
    text = """
@torch.jit.script
def scale(t: torch.Tensor, by: int) -> torch.Tensor:
    return t * by + 1

def f(x):
    return scale(x, 3) - scale(x, by=2)
"""
    same(Built(lambda: Source(text).namespace()["f"]), T(3), compare_dynamo=False)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_a_new_tensor_of_a_size(backend: str | None) -> None:
    text = "def f(x):\n    return x.new(x.shape).fill_(2.0) * x, x.new(2, 3).zero_(), x.new(x.shape[1:]).zero_()"
    same(Source(text), T(3, 4, grad=True), compare_dynamo=False, backend=backend)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_a_buffer_that_is_given_its_size_by_the_first_call(backend: str | None) -> None:
    text = """
class Observer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("largest", torch.tensor([]))

    def forward(self, x):
        found = x.detach().amax(1)
        if self.largest.numel() == 0:
            self.largest.resize_(found.shape)
            self.largest.copy_(found)
        else:
            self.largest.copy_(torch.maximum(found, self.largest))
        return x * 2

f = Observer()
"""
    same(Source(text), T(3, 4, grad=True), compare_dynamo=False, fullgraph=False, backend=backend, calls=3)
