"""Copies and pickles of compiled functions, methods and modules that hold them."""

from __future__ import annotations

import copy
import functools
import io
import pickle

import pytest
import torch
from torch import nn

import stator
from tests.support.processes import python

pytestmark = pytest.mark.usefixtures("engine")


@stator.compile
def decorated(x):
    return x * 2


def plain(x, factor=3):
    return x * factor


named = stator.compile(plain, fullgraph=True)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), 2.0))

    def forward(self, x):
        return x * self.weight

    @stator.compile
    def shifted(self, x):
        return x * self.weight + 1


def with_compiled_forward():
    model = Net()
    model.forward = stator.compile(model.forward)
    return model


def saved_and_loaded(thing):
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda thing: pickle.loads(pickle.dumps(thing)),
    "old pickle": lambda thing: pickle.loads(pickle.dumps(thing, 0)),
    "pickle in Python": lambda thing: pickle.loads(pickle._dumps(thing)),
    "torch.save": saved_and_loaded,
}
each_copy = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
X = torch.arange(3.0)


@each_copy
def test_a_decorated_function_is_itself(copied):
    assert copied(decorated) is decorated
    assert copied(Net.shifted) is Net.shifted


@each_copy
def test_a_function_of_another_name_is_compiled_again(copied):
    again = copied(named)
    assert type(again) is type(named)
    assert again.__wrapped__ is plain
    assert torch.equal(again(X), X * 3)
    assert again._stator_options["arguments"] == named._stator_options["arguments"]


@each_copy
@pytest.mark.parametrize(
    "make",
    [lambda: stator.compile(Net().forward), lambda: Net().shifted, with_compiled_forward],
    ids=["compiled method", "method of a compiled function", "compiled forward"],
)
def test_a_method_takes_its_object_along(copied, make):
    original = make()
    expected = original(X)
    again = copied(original)
    assert torch.equal(again(X), expected)
    owner = getattr(again, "__self__", again)
    with torch.no_grad():
        owner.weight.zero_()
    changed = again(X)
    assert not torch.equal(changed, expected)
    assert torch.equal(changed, torch.ones(3) if "shifted" in repr(original) else torch.zeros(3))
    assert torch.equal(original(X), expected)


@each_copy
@pytest.mark.parametrize(
    "make",
    [
        lambda: functools.partial(decorated),
        lambda: stator.compile(functools.partial(plain, factor=5)),
        lambda: stator.compile(torch.sin),
        lambda: nn.Sequential(stator.compile(Net()), with_compiled_forward()),
        lambda: stator.compile(with_compiled_forward()),
    ],
    ids=["partial of it", "of a partial", "of a C function", "inside a model", "model with a compiled forward"],
)
def test_what_holds_it_can_be_copied(copied, make):
    original = make()
    again = copied(original)
    assert type(again) is type(original)
    assert torch.equal(again(X), original(X))


def test_an_average_of_a_model_with_a_compiled_forward():
    model = with_compiled_forward()
    average = copy.deepcopy(model)
    assert average.forward.__self__ is average
    for _ in range(2):
        with torch.no_grad():
            average.weight.lerp_(model.weight + 1, 0.5)
        assert torch.equal(average(X), X * average.weight)
        assert torch.equal(model(X), X * 2)


def test_a_shallow_copy_is_itself():
    compiled = stator.compile(Net().forward)
    assert copy.copy(compiled) is compiled
    assert copy.copy(named) is named


def test_attributes_of_its_own_go_along():
    compiled = stator.compile(plain)
    compiled.tag = ["kept"]
    assert pickle.loads(pickle.dumps(compiled)).tag == ["kept"]
    bound = stator.compile(Net().forward)
    bound.tag = ["kept"]
    again = copy.deepcopy(bound)
    assert again.tag == ["kept"]
    assert again.tag is not bound.tag


def test_two_references_stay_one_object():
    both = pickle.loads(pickle.dumps([named, named]))
    assert both[0] is both[1]


def test_what_the_original_can_not_do_it_can_not_either():
    with pytest.raises((pickle.PicklingError, AttributeError), match=r"local object|not found"):
        pickle.dumps(stator.compile(lambda x: x))


def test_workers_that_are_spawned(tmp_path):
    program = tmp_path / "spawning.py"
    program.write_text(
        """
import multiprocessing
import torch, stator

@stator.compile
def decorated(x):
    return x * 2

def plain(x):
    return x * 3

compiled = stator.compile(plain)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        for function in (decorated, compiled):
            print(pool.map(function, [torch.ones(1)])[0].item())
"""
    )
    printed = python(str(program))
    assert printed.split() == ["2.0", "3.0"]
