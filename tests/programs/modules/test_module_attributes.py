"""Attributes of modules in Python's order: class, instance, parameters, buffers, submodules, then a user-defined
`__getattr__`."""

import pytest
import torch
import torch.nn as nn

from tests.support.engine import CAPTURES, Recorder, compile, reset, unsupported
from tests.support.harness import Source, T, same

# Each text defines `Model`; `f` is an object of it.
MODELS = {
    "class attribute, class method, static method": """
class Model(nn.Module):
    factor = 3
    sizes = (2, 4)
    @classmethod
    def scaled(cls, x): return x * cls.factor
    @staticmethod
    def shifted(x, by=1): return x + by
    def forward(self, x):
        return Model.shifted(self.scaled(x), by=self.sizes[0]) + type(self).factor + self.shifted(x)
""",
    "property over a parameter, with a setter": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.ones(4))
        self._gain = 2
    @property
    def weight(self): return self.raw.exp() * self._gain
    @property
    def gain(self): return self._gain
    @gain.setter
    def gain(self, value): self._gain = value * 2
    def forward(self, x):
        if self.gain == 2:
            self.gain = 3
        return x * self.weight + self.gain
""",
    "a __dict__ entry that shadows a submodule": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.__dict__["layer"] = torch.relu
    def forward(self, x):
        return self.layer(x) + self._modules["layer"](x)
""",
    "a __dict__ entry that shadows a parameter and a buffer": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("offset", torch.ones(4))
        self.__dict__["weight"] = 5
        self.__dict__["offset"] = torch.full((4,), 7.0)
    def forward(self, x):
        return x * self.weight + self.offset + self._parameters["weight"] + self._buffers["offset"]
""",
    "a class attribute that hides a submodule": """
class Model(nn.Module):
    layer = None
    def __init__(self):
        super().__init__()
        self._modules["layer"] = nn.Linear(4, 4)
    def forward(self, x):
        return x + 1 if self.layer is None else self.layer(x)
""",
    "slots": """
class Model(nn.Module):
    __slots__ = ("scale", "unset")
    def __init__(self):
        super().__init__()
        self.scale = 4
    def forward(self, x):
        return x * self.scale, hasattr(self, "unset"), getattr(self, "unset", "nothing")
""",
    "__dict__, __class__ and training": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 4
    def forward(self, x):
        y = x * self.__dict__["scale"] + len(self.__class__.__name__)
        return y if self.training and "scale" in self.__dict__ and "other" not in vars(self) else x
""",
    "a missing attribute is caught": """
class Model(nn.Module):
    def forward(self, x):
        try:
            return x + self.absent
        except AttributeError as error:
            return x + 1, str(error)
""",
    "a missing attribute": """
class Model(nn.Module):
    def forward(self, x):
        return x + self.absent
""",
    "hasattr and getattr with a default": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_parameter("bias", None)
        self.register_buffer("cache", None)
    def forward(self, x):
        found = [hasattr(self, name) for name in ("weight", "bias", "cache", "absent", "forward")]
        return x + getattr(self, "weight", 0) + getattr(self, "absent", 5), getattr(self, "bias", 1), found
""",
    "own __getattr__ over a config": """
class Config:
    width, depth = 4, 3
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.layer = nn.Linear(4, 4)
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.config, name)
    def forward(self, x):
        return self.layer(x) * self.depth + self.width, hasattr(self, "height")
""",
    "__getattr__ to a wrapped module": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wrapped = nn.Linear(4, 4)
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("wrapped"), name)
    def forward(self, x):
        return self.wrapped(x) + self.weight.sum() + self.in_features
""",
    "own __setattr__": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = []
        self.last = 0
    def __setattr__(self, name, value):
        if name == "last" and "names" in self.__dict__:
            self.names.append(value)
        super().__setattr__(name, value)
    def forward(self, x):
        self.last = 5
        return x + self.last
""",
    "own __call__ around the module's": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
    def __call__(self, x, *rest, **named):
        return super().__call__(x * 2, *rest, **named) + 1
    def forward(self, x, by=3):
        return self.layer(x) * by
""",
    "forward of the instance": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.forward = self.other
        plain = self.layer.forward
        self.layer.forward = lambda x: plain(x) * 2
    def other(self, x):
        return self.layer(x) + 1
""",
    "methods by super through two classes": """
class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
    def forward(self, x): return self.layer(x)
class Mixin:
    def forward(self, x): return super().forward(x) * 2
class Model(Mixin, Base):
    def __init__(self): super().__init__(4)
    def forward(self, x): return super().forward(x) + super(Mixin, self).forward(x)
""",
    "tied weights by two ways": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.c = self.a
    def forward(self, x):
        return self.c(self.b(self.a(x))), self.a.weight is self.b.weight, self.a is self.c
""",
    "buffers: none, not persistent": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", None)
        self.register_buffer("table", torch.arange(4.0), persistent=False)
    def forward(self, x):
        return x + self.table if self.mask is None else x + self.mask
""",
    "attributes added and deleted inside": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = 1
    def forward(self, x):
        self.temporary = x * 2
        y = self.temporary + self.before
        del self.temporary
        return y, hasattr(self, "temporary")
""",
    "module in a plain list and dict": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = [nn.Linear(4, 4)]
        self.by_name = {"a": nn.Linear(4, 4)}
    def forward(self, x):
        return self.hidden[0](x) + self.by_name["a"](x), len(list(self.parameters()))
""",
}

MODELS |= {
    "a property that has no answer asks __getattr__": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.asked = []
    def __getattr__(self, name):
        self.__dict__['asked'].append(name)
        return 5 if name == 'gain' else super().__getattr__(name)
    @property
    def gain(self): raise AttributeError('inner')
    @property
    def lost(self): return self.nowhere
    def forward(self, x):
        try:
            self.lost
        except AttributeError as error:
            words = str(error)
        return x * self.gain, words, hasattr(self, 'lost'), getattr(self, 'lost', 3)
""",
    "a property that has no answer in a plain module": """
class Model(nn.Module):
    @property
    def lost(self): return self.nowhere
    def forward(self, x):
        try:
            self.lost
        except AttributeError as error:
            return x + 1, str(error)
""",
    "a descriptor and a slot that have no answer": """
class Nothing:
    def __get__(self, instance, owner): raise AttributeError('nothing')
class Kept:
    __slots__ = ('set', 'unset')
    nothing = Nothing()
    def __init__(self): self.set = 2
    def __getattr__(self, name): return len(name)
class Model(nn.Module):
    nothing = Nothing()
    def forward(self, x):
        kept = Kept()
        try:
            self.nothing
        except AttributeError as error:
            words = str(error)
        return x * kept.set + kept.unset + kept.nothing, words
""",
}

# torch._dynamo names placeholders after `__dict__` or the wrapper around a module here, or returns unused results.
OTHER_GRAPH = {
    "own __getattr__ over a config", "__getattr__ to a wrapped module", "property over a parameter, with a setter",
    "forward of the instance", "attributes added and deleted inside", "a property that has no answer asks __getattr__",
    "a property that has no answer in a plain module", "a descriptor and a slot that have no answer",
}  # fmt: skip
STATEFUL = {"property over a parameter, with a setter", "a property that has no answer asks __getattr__"}


@pytest.mark.parametrize("name", MODELS)
def test_attributes(name):
    raises = name == "a missing attribute"
    same(
        Source(MODELS[name] + "f = Model()\n"), T(2, 4), fullgraph=not raises, compare_dynamo=name not in OTHER_GRAPH,
        stateful=name in STATEFUL,
    )  # fmt: skip


CHANGES = {
    "a __dict__ entry that shadows a submodule": ["del PROGRAM.__dict__['layer']", "PROGRAM.__dict__['layer'] = torch.tanh"],
    "class attribute, class method, static method": ["Model.factor = 9", "PROGRAM.factor = 2", "PROGRAM.sizes = (5, 5)"],
    "property over a parameter, with a setter": ["PROGRAM._gain = 9", "PROGRAM.raw = nn.Parameter(torch.zeros(4))"],
    "hasattr and getattr with a default": [
        "PROGRAM.absent = 4", "del PROGRAM.absent", "PROGRAM.bias = nn.Parameter(torch.ones(4))", "del PROGRAM.weight",
        "PROGRAM.weight = nn.Parameter(torch.ones(4))", "PROGRAM.cache = torch.ones(4)",
    ],
    "own __getattr__ over a config": ["Config.depth = 7", "PROGRAM.config.width = 1", "PROGRAM.depth = 0", "PROGRAM.config.height = 2"],
    "buffers: none, not persistent": ["PROGRAM.mask = torch.ones(4)", "PROGRAM.mask = None", "PROGRAM.table = torch.zeros(4)"],
    "tied weights by two ways": ["PROGRAM.b.weight = nn.Parameter(torch.ones(4, 4))", "PROGRAM.c = nn.Linear(4, 4)"],
    "slots": ["PROGRAM.scale = 8", "PROGRAM.unset = 1", "del PROGRAM.unset"],
    "a missing attribute is caught": ["PROGRAM.absent = 3", "del PROGRAM.absent", "Model.absent = 5"],
    "forward of the instance": ["del PROGRAM.layer.forward", "PROGRAM.forward = lambda x: x * 7"],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_attributes_change_between_calls(name):
    same(
        Source(MODELS[name] + "f = Model()\n"), T(2, 4), compare_dynamo=False, mutate=CHANGES[name],
        stateful=name in STATEFUL,
    )  # fmt: skip


REFUSED = {
    "a __getattribute__ in Python": """
class Watched(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 3
    def __getattribute__(self, name):
        return object.__getattribute__(self, name) + 1 if name == "scale" else super().__getattribute__(name)
    def forward(self, x):
        return x * self.scale, hasattr(self, "absent")
f = Watched()
""",
    "a __getattribute__ of a base": """
class Base:
    seen = 0
    def __getattribute__(self, name):
        return 7 if name == "seen" else super().__getattribute__(name)
class Watched(Base, nn.Module):
    def forward(self, x):
        return x * self.seen
f = Watched()
""",
    "a __getattribute__ that is no function": """
class Watched(nn.Module):
    __getattribute__ = functools.partialmethod(nn.Module.__getattribute__)
    def forward(self, x):
        return x * 2
f = Watched()
""",
    "a __getattr__ that is no function": """
class Watched(nn.Module):
    __getattr__ = functools.partial(print)
    def forward(self, x):
        return x * 2, self.absent
f = Watched()
""",
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_attribute_access_names_the_class(name):
    same(Source(REFUSED[name]), T(2, 4), fullgraph=False, compare_dynamo=False)
    if CAPTURES:
        module = Source(REFUSED[name]).namespace()["f"]
        with pytest.raises(unsupported(), match="Watched"):
            compile(lambda x: module(x), fullgraph=True)(torch.ones(2, 4))
        reset()


def test_a_parameter_as_another_attribute():
    """One tensor by two names is one input."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.same_weight = self.weight
            self.__dict__["hidden"] = self.weight

        def forward(self, x):
            return x * self.weight + self.same_weight * self.hidden

    recorder, module, x = Recorder(), Model(), torch.randn(4)
    assert torch.equal(compile(module, backend=recorder)(x), module(x))
    if CAPTURES:
        assert sum(node.op == "placeholder" for node in recorder.graphs[0].graph.nodes) == 2
    reset()


def test_compiling_asks_the_model_for_nothing():
    asked = []

    class Model(nn.Module):
        def __getattr__(self, name):
            asked.append(name)
            return super().__getattr__(name)

        def forward(self, x):
            return x + 1

    model = Model()
    asked.clear()
    compiled = compile(model)
    assert asked == []
    torch.testing.assert_close(compiled(torch.ones(2)), torch.full((2,), 2.0))
    reset()
