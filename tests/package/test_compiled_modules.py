"""A compiled module has the class and the state of the model, and runs it compiled."""

from __future__ import annotations

import abc
import copy
import io
import pickle

import pytest
import torch
from torch import nn

import stator

pytestmark = pytest.mark.usefixtures("engine")


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x):
        return self.inner(x) * self.scale


class Registered(Model):
    names: list[str] = []  # noqa: RUF012

    def __init_subclass__(cls) -> None:
        Registered.names.append(cls.__name__)


class Slotted(Model):
    __slots__ = ("bias",)

    def __init__(self) -> None:
        super().__init__()
        self.bias = 1.0


class Abstract(nn.Module, abc.ABC):
    @abc.abstractmethod
    def forward(self, x): ...


class Concrete(Abstract):
    def forward(self, x):
        return x + 1


def keep_graph(graph_module, example_inputs):
    return graph_module


def test_it_is_of_the_models_class_and_computes_the_same():
    model = Model()
    compiled = stator.compile(model)
    x = torch.randn(2, 4)
    assert isinstance(compiled, Model)
    assert type(compiled).__name__ == "Model"
    assert repr(compiled) == repr(model)
    assert torch.equal(compiled(x), model(x))


def test_two_compiled_models_have_one_class():
    assert type(stator.compile(Model())) is type(stator.compile(Model()))


def test_state_is_shared_and_has_no_prefix():
    model = Model()
    compiled = stator.compile(model)
    assert list(compiled.state_dict()) == ["scale", "inner.0.weight", "inner.0.bias"]
    compiled.eval()
    assert not model.training
    model.extra = 5
    assert compiled.extra == 5
    compiled.scale = torch.zeros(4)
    assert torch.equal(model.scale, torch.zeros(4))
    model.inner[0].weight = nn.Parameter(torch.zeros(4, 4))
    assert compiled.get_parameter("inner.0.weight") is model.inner[0].weight
    compiled.load_state_dict(Model().state_dict())
    assert set(vars(model)) == set(vars(Model())) | {"extra"}


def test_the_original_stays_uncompiled():
    graphs = []
    model = Model()
    compiled = stator.compile(model, backend=lambda graph_module, _: graphs.append(graph_module) or graph_module)
    model(torch.randn(2, 4))
    assert graphs == []
    compiled(torch.randn(2, 4))
    assert len(graphs) == 1


def test_compiled_inside_another_model_keeps_its_names():
    model = Model()
    names = list(model.state_dict())
    model.inner = stator.compile(model.inner)
    assert list(model.state_dict()) == names
    x = torch.randn(2, 4)
    assert model(x).shape == (2, 4)


@pytest.mark.parametrize(
    "copied",
    [
        copy.deepcopy,
        lambda compiled: pickle.loads(pickle.dumps(compiled)),
        lambda compiled: _saved_and_loaded(compiled),
    ],
    ids=["deepcopy", "pickle", "torch.save"],
)
def test_copies_are_compiled_and_independent(copied):
    compiled = stator.compile(Model(), backend=keep_graph, fullgraph=True)
    twin = copied(compiled)
    x = torch.randn(2, 4)
    assert type(twin) is type(compiled)
    assert twin._stator_arguments == compiled._stator_arguments
    assert torch.equal(twin(x), compiled(x))
    with torch.no_grad():
        twin.inner[0].weight.zero_()
    assert compiled.inner[0].weight.abs().sum() > 0


def test_a_shallow_copy_shares_parameters():
    compiled = stator.compile(Model())
    twin = copy.copy(compiled)
    assert twin is not compiled
    assert twin.inner[0].weight is compiled.inner[0].weight


def test_a_register_of_subclasses_gets_no_entry():
    before = list(Registered.names)
    assert isinstance(stator.compile(Registered()), Registered)
    assert Registered.names == before


def test_state_in_slots_is_shared_too():
    model = Slotted()
    compiled = stator.compile(model)
    compiled.bias = 3.0
    assert model.bias == 3.0
    model.bias = 4.0
    assert compiled.bias == 4.0


def test_abstract_classes_still_answer():
    compiled = stator.compile(Concrete())
    assert isinstance(compiled, Abstract)
    assert not isinstance(Model(), type(compiled))
    assert torch.equal(compiled(torch.zeros(2)), torch.ones(2))


def test_compiling_a_compiled_module_starts_from_the_original():
    model = Model()
    twice = stator.compile(stator.compile(model))
    assert twice._stator_original is model


def _saved_and_loaded(compiled):
    file = io.BytesIO()
    torch.save(compiled, file)
    file.seek(0)
    return torch.load(file, weights_only=False)
