"""Changes of a model after it was compiled also change its compiled module, and the other way round: both have one
state, one class and one set of hooks, and compute what an uncompiled model computes."""

from __future__ import annotations

import copy

import pytest
import torch
import torch._dynamo
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

import stator

pytestmark = [
    pytest.mark.usefixtures("engine"),
    pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated"),
]


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3) * 2 + 0.1)
        self.register_buffer("shift", torch.ones(3))
        self.factor = 1
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def forward(self, x):
        return self.inner(x @ self.weight + self.shift) * self.factor + self.more()

    def more(self):
        return 0

    @property
    def tenfold(self):
        return self.factor * 10


class Other(Net):
    def more(self):
        return 5

    @property
    def tenfold(self):
        return self.factor * 100

    def only_here(self):
        return "here"


class Sharded:
    def reshard(self):
        return "resharded"


def become(cls):
    def change(module):
        module.__class__ = cls

    return change


def become_sharded(module):
    module.__class__ = type("Sharded" + module.__class__.__name__, (Sharded, module.__class__), {})


def become_subclass_of_type(module):
    module.__class__ = type("Own", (type(module),), {"more": lambda self: 9})


def get_property_later(module):
    module.__class__ = type("WithProperty", (module.__class__,), {})
    module.__class__.factor = property(lambda self: 7)
    del module.__dict__["factor"]


def replace_dict(module):
    module.__dict__ = {**module.__dict__, "factor": 3}


def parametrize_and_remove(module):
    parametrize.register_parametrization(module, "weight", Symmetric())
    parametrize.remove_parametrizations(module, "weight")


def replace_attributes(module):
    del module.shift
    module.shift = torch.zeros(3)
    module.inner = nn.Linear(3, 3)
    nn.init.ones_(module.inner.weight)
    nn.init.ones_(module.inner.bias)


CHANGES = {
    "class": become(Other),
    "class that has one more base": become_sharded,
    "class made from type(module)": become_subclass_of_type,
    "property of a new class": get_property_later,
    "dict": replace_dict,
    "attributes": replace_attributes,
    "parametrization": lambda module: parametrize.register_parametrization(module, "weight", Symmetric()),
    "parametrization removed": parametrize_and_remove,
    "weight_norm": lambda module: weight_norm(module, "weight"),
    "parametrized weight_norm": lambda module: parametrizations.weight_norm(module, "weight"),
    "spectral_norm": lambda module: spectral_norm(module, "weight"),
    "pruning": lambda module: prune.l1_unstructured(module, "weight", 0.5),
    "hook": lambda module: module.register_forward_hook(lambda module, inputs, output: output * 2),
    "hooks everywhere": lambda module: module.apply(
        lambda one: one.register_forward_pre_hook(lambda m, x: (x[0] + 1,))
    ),
    "forward": lambda module: setattr(module, "forward", lambda x: Net.forward(module, x) + 1),
    "dtype": lambda module: module.double(),
    "state": lambda module: module.load_state_dict({n: v * 0.5 for n, v in module.state_dict().items()}),
    "nothing": lambda module: None,
}


def made():
    torch.manual_seed(0)
    return Net()


def seen(module):
    """What a user can see of a module."""

    def attribute(name):
        try:
            value = getattr(module, name)
        except AttributeError as error:
            return str(error)
        if isinstance(value, torch.Tensor):
            return value.tolist()
        return value() if callable(value) and not isinstance(value, nn.Module) else str(value)

    names = ("weight", "shift", "factor", "tenfold", "more", "only_here", "reshard", "weight_orig", "parametrizations")
    return {
        **{name: attribute(name) for name in names},
        "state": list(module.state_dict()),
        "parameters": [name for name, _ in module.named_parameters()],
        "text": repr(module),
        "class": module.__class__.__name__,
        "classes": (isinstance(module, Net), isinstance(module, Other), isinstance(module, Sharded)),
    }


def result_of(module):
    torch.manual_seed(1)
    return module(torch.randn(2, 3, dtype=next(module.parameters()).dtype))


@pytest.mark.parametrize("is_called_first", [False, True], ids=["", "called"])
@pytest.mark.parametrize("target", ["model", "twin"])
@pytest.mark.parametrize("name", CHANGES)
def test_both_see_a_change_of_either(name, target, is_called_first):
    expected, model = made(), made()
    twin = stator.compile(model)
    if is_called_first:
        result_of(expected), result_of(twin)
    torch.manual_seed(2)
    CHANGES[name](expected)
    torch.manual_seed(2)
    CHANGES[name](twin if target == "twin" else model)
    for _ in range(2):
        assert seen(twin) == seen(model) == seen(expected)
        assert torch.equal(result_of(twin), result_of(expected))
        assert torch.equal(result_of(model), result_of(expected))
    assert isinstance(twin, type(model))


def test_changes_one_after_the_other():
    model = made()
    twin = stator.compile(model)
    parametrize.register_parametrization(model, "weight", Symmetric())
    assert torch.equal(twin.weight, model.weight)
    parametrize.remove_parametrizations(twin, "weight")
    assert isinstance(model.weight, nn.Parameter)
    assert twin.weight is model.weight
    model.__class__ = Other
    assert twin.only_here() == "here"
    twin.__class__ = Net
    assert type(model) is Net
    assert not isinstance(twin, Other)
    assert torch.equal(result_of(twin), result_of(made()))


def test_a_parametrized_twin_is_copied():
    twin = stator.compile(made())
    parametrize.register_parametrization(twin, "weight", Symmetric())
    again = copy.deepcopy(twin)
    assert torch.equal(result_of(again), result_of(twin))
    with torch.no_grad():
        again.parametrizations.weight.original.zero_()
    assert not torch.equal(result_of(again), result_of(twin))


def test_a_model_with_slots_changes_its_class():
    class Slotted(Net):
        __slots__ = ("kept",)

    class More(Slotted):
        __slots__ = ()

        def only_here(self):
            return "here"

    model = Slotted()
    twin = stator.compile(model)
    model.__class__ = More
    assert twin.only_here() == "here"
    assert isinstance(twin, More)
    assert torch.equal(result_of(twin), result_of(model))


def replicated(module):
    """As nn.DataParallel does: a replica has plain tensors where the module has parameters."""
    replica = module._replicate_for_data_parallel()
    for name, parameter in module._parameters.items():
        setattr(replica, name, parameter.clone())
    return replica


TOOLS = {
    "fx": lambda module: torch.fx.symbolic_trace(module)(torch.ones(2, 3)),
    "functional_call": lambda module: torch.func.functional_call(
        module, {name: value * 2 for name, value in module.state_dict().items()}, (torch.ones(2, 3),)
    ),
    "replicate": lambda module: replicated(module)(torch.ones(2, 3)),
    "trace": lambda module: torch.jit.trace(module, torch.ones(2, 3))(torch.ones(2, 3)),
    "vmap": lambda module: torch.vmap(module)(torch.ones(2, 3)),
    "grad": lambda module: torch.func.grad(lambda x: module(x).sum())(torch.ones(2, 3)),
    "share_memory": lambda module: module.share_memory()(torch.ones(2, 3)),
    "by its class": lambda module: type(module).__call__(module, torch.ones(2, 3)),
    "another of its class": lambda module: type(module)().load_state_dict(module.state_dict()) and None,
    "explicit forward": lambda module: module.forward(torch.ones(2, 3)),
}


@pytest.mark.parametrize("name", TOOLS)
def test_tools_that_take_modules(name):
    tool = TOOLS[name]
    expected = tool(made())
    twin = stator.compile(made())
    for _ in range(2):
        got = tool(twin)
        assert got is expected is None or torch.equal(got, expected)


def test_another_object_of_its_class_is_an_ordinary_module():
    compiled = stator.compile(made())
    torch.manual_seed(0)
    other = type(compiled)()
    assert torch.equal(result_of(other), result_of(made()))
    assert other.weight is not compiled.weight


def test_scripting_takes_the_model():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    x = torch.ones(2, 3)
    assert torch.equal(torch.jit.script(stator.compile(model))(x), model(x))


def test_code_that_is_compiled_reads_a_twin_without_a_break():
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = stator.compile(made())

        def forward(self, x):
            inner = self.inner
            names = len(inner.__class__.__name__) + len(type(inner).__name__) + isinstance(inner, Net)
            inner.noted = 5
            return inner(x) + inner.shift + inner.factor + inner.tenfold + inner.noted + names + inner.more()

    model = Outer()
    x = torch.ones(2, 3)
    compiled = stator.compile(model, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(x), model(x))
    model.inner._stator_original.factor = 4
    assert torch.equal(compiled(x), model(x))
    parametrize.register_parametrization(model.inner, "weight", Symmetric())
    assert torch.equal(stator.compile(model)(x), model(x))
    assert torch.equal(compiled(x), model(x))


@pytest.mark.parametrize("compiler", [torch.compile, stator.compile])
def test_a_twin_that_is_replaced_by_another_is_noticed(compiler):
    torch._dynamo.reset()
    held = [None]
    outer = compiler(lambda x: held[0](x) * 2, backend="eager")
    x = torch.ones(2, 3)
    first, second = made(), Other()
    for model in (first, second, first):
        held[0] = stator.compile(model)
        torch.testing.assert_close(outer(x), model(x) * 2)
