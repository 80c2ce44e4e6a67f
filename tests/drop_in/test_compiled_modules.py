"""Compiled modules as libraries see them, under `stator.install()` and from `stator.compile`."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo.eval_frame import OptimizedModule
from torch._dynamo.testing import CompileCounter

import stator
from tests.support.processes import fresh


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return self.norm(self.linear(x)).relu()


COMPILERS: dict[str, Callable[..., Any]] = {
    "installed": lambda model, backend="eager": torch.compile(model, backend=backend),
    "stator.compile": lambda model, backend="eager": stator.compile(model, backend=backend),
}
both = pytest.mark.parametrize("compiler", COMPILERS)


@pytest.mark.usefixtures("installed")
@both
def test_libraries_recognize_it(compiler):
    model = Net()
    compiled = COMPILERS[compiler](model)
    assert isinstance(compiled, OptimizedModule)
    assert compiled._orig_mod is model
    assert callable(compiled.dynamo_ctx)
    assert compiled.get_compiler_config() is None
    assert compiled._torchdynamo_orig_callable in (model, model.forward)
    assert torch._dynamo.eval_frame.innermost_fn(compiled) in (model, model.forward)
    assert bool(compiled)
    with pytest.raises(TypeError, match="len"):
        len(compiled)
    compiled.eval()
    assert not model.training
    compiled.steps = 5
    assert model.steps == 5
    assert len(COMPILERS[compiler](nn.Sequential(nn.ReLU(), nn.ReLU()))) == 2
    with_config = COMPILERS[compiler](Net(), "inductor")
    assert "max_autotune" in with_config.get_compiler_config()


@pytest.mark.usefixtures("installed")
@both
def test_functions_have_the_configuration_of_their_backend(compiler):
    def program(x):
        return x + 1

    assert COMPILERS[compiler](program).get_compiler_config() is None
    assert "max_autotune" in COMPILERS[compiler](program, "inductor").get_compiler_config()


def test_it_is_recognized_if_torch_dynamo_is_imported_later():
    said = fresh("""
        import sys, torch, stator
        model = torch.nn.Linear(2, 2)
        compiled = stator.compile(model)
        before = compiled(torch.ones(2))
        print("torch._dynamo" in sys.modules)
        from torch._dynamo.eval_frame import OptimizedModule
        print(isinstance(compiled, OptimizedModule), isinstance(compiled, torch.nn.Linear), compiled.training)
        print(torch.equal(compiled(torch.ones(2)), before), isinstance(model, OptimizedModule))
        compiled.weight = torch.nn.Parameter(torch.zeros(2, 2))
        print(torch.equal(compiled(torch.ones(2)), model.bias), type(compiled) is type(stator.compile(model)))
    """)
    assert said.splitlines() == ["False", "True True True", "True False", "True True"]


@pytest.mark.usefixtures("installed")
def test_the_state_dict_has_torchs_prefix_or_that_of_the_model():
    model = Net()
    names = list(model.state_dict())
    assert list(torch.compile(model, backend="eager").state_dict()) == [f"_orig_mod.{name}" for name in names]
    assert list(stator.compile(model).state_dict()) == names
    with stator.config.patch(wrap_installed_modules=False):
        compiled = torch.compile(model, backend="eager")
    assert list(compiled.state_dict()) == names
    assert isinstance(compiled, Net)


@pytest.mark.usefixtures("installed")
@both
@pytest.mark.parametrize("saved", COMPILERS)
@pytest.mark.parametrize("around", [lambda model: model, lambda model: nn.Sequential(nn.Linear(3, 3), model)])
def test_either_form_of_a_state_dict_loads_into_either(compiler, saved, around):
    source = around(COMPILERS[saved](Net()))
    target = around(COMPILERS[compiler](Net()))
    state = copy.deepcopy(source.state_dict())
    keys = list(state)
    assert target.load_state_dict(state) == nn.modules.module._IncompatibleKeys([], [])
    assert list(state) == keys
    x = torch.randn(2, 3)
    assert torch.equal(source.eval()(x), target.eval()(x))
    del state[keys[0]]
    with pytest.raises(RuntimeError, match="Missing key"):
        target.load_state_dict(state)
    state["unknown"] = torch.ones(1)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        target.load_state_dict(state)


@pytest.mark.usefixtures("installed")
@both
@pytest.mark.parametrize(
    "duplicate",
    [
        copy.deepcopy,
        lambda module: pickle.loads(pickle.dumps(module)),
        lambda module: _saved_and_loaded(module),
    ],
    ids=["deepcopy", "pickle", "torch.save"],
)
def test_copies_are_compiled_and_have_their_own_state(compiler, duplicate):
    compiled = COMPILERS[compiler](Net())
    x = torch.randn(2, 3)
    compiled(x)
    copied = duplicate(compiled)
    assert isinstance(copied, OptimizedModule)
    assert list(copied.state_dict()) == list(compiled.state_dict())
    assert torch.equal(copied(x), compiled(x))
    with torch.no_grad():
        copied.norm.bias.fill_(100.0)
    assert not torch.equal(copied.eval()(x), compiled.eval()(x))


def _saved_and_loaded(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@pytest.mark.usefixtures("installed")
def test_hooks_of_the_wrapper_and_of_the_model_fire():
    fired = []
    model = Net().eval()
    compiled = torch.compile(model, backend="eager")
    x = torch.randn(2, 3)
    expected = model(x)
    model.register_forward_hook(lambda *_: fired.append("model"))
    handle = compiled.register_forward_hook(lambda *_: fired.append("wrapper"))
    assert torch.equal(compiled(x), expected)
    assert fired == ["model", "wrapper"]
    handle.remove()
    assert torch.equal(compiled(x), expected)
    assert fired == ["model", "wrapper", "model"]
    handle = nn.modules.module.register_module_forward_hook(lambda module, *_: fired.append(type(module).__name__))
    with pytest.warns(UserWarning, match="global hooks"):
        compiled(x)
    handle.remove()
    assert fired[-1] == "OptimizedModule"


@pytest.mark.usefixtures("installed")
def test_a_call_of_the_wrapper_is_one_capture():
    counter = CompileCounter()
    model = Net().eval()
    compiled = torch.compile(model, backend=counter)
    x = torch.randn(2, 3)
    for _ in range(3):
        assert torch.equal(compiled(x), compiled.__call__(x))
    assert counter.frame_count <= 2  # `steps` becomes a symbol once
    assert model.steps == 6
