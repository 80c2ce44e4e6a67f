"""`stator.compile` on everything it accepts, and its errors for everything else."""

from __future__ import annotations

import functools
import inspect

import pytest
import torch

import stator
from tests.support.engine import Recorder

pytestmark = pytest.mark.usefixtures("engine")


def double(x: torch.Tensor) -> torch.Tensor:
    """Doubles."""
    return x + x


def test_plain_decorator_and_decorator_with_arguments():
    backend = Recorder()
    plain = stator.compile(double)
    with_arguments = stator.compile(backend=backend, fullgraph=True)(double)
    x = torch.randn(3)
    assert torch.equal(plain(x), x + x)
    assert torch.equal(with_arguments(x), x + x)
    assert backend.count == 1


def test_a_compiled_function_looks_like_its_function():
    compiled = stator.compile(double)
    assert compiled.__name__ == "double"
    assert compiled.__doc__ == "Doubles."
    assert compiled.__wrapped__ is double


def test_methods_bind():
    class Scaler:
        def __init__(self, by):
            self.by = by

        @stator.compile
        def scale(self, x):
            return x * self.by

        @stator.compile
        @staticmethod
        def negate(x):
            return -x

        @stator.compile
        @classmethod
        def named(cls, x):
            return x, cls.__name__

    x = torch.randn(3)
    assert torch.equal(Scaler(2).scale(x), x * 2)
    assert torch.equal(Scaler(3).scale(x), x * 3)
    assert torch.equal(Scaler.negate(x), -x)
    assert Scaler.named(x)[1] == "Scaler"


def test_bound_methods_partials_builtins_and_callable_objects():
    class Adder:
        def add(self, x):
            return x + 1

        def __call__(self, x):
            return x + 2

    x = torch.randn(3)
    assert torch.equal(stator.compile(Adder().add)(x), x + 1)
    assert torch.equal(stator.compile(Adder())(x), x + 2)
    assert torch.equal(stator.compile(functools.partial(torch.add, torch.ones(3)))(x), x + 1)
    assert torch.equal(stator.compile(torch.sin)(x), x.sin())


def test_compiling_what_is_compiled_starts_from_the_original():
    first, second = Recorder(), Recorder()
    compiled = stator.compile(stator.compile(double, backend=first), backend=second)
    assert compiled.__wrapped__ is double
    compiled(torch.randn(3))
    assert (first.count, second.count) == (0, 1)


def test_reset_captures_anew():
    backend = Recorder()
    compiled = stator.compile(double, backend=backend)
    compiled(torch.randn(3))
    compiled(torch.randn(3))
    assert backend.count == 1
    stator.reset()
    compiled(torch.randn(3))
    assert backend.count == 2


@pytest.mark.parametrize(
    ("wrong", "words"), [(torch.nn.Linear, "Linear is a class: compile an instance"), (3, "methods and modules, not 3")]
)
def test_what_cannot_be_compiled_is_refused_in_words(wrong, words):
    with pytest.raises(TypeError, match=words):
        stator.compile(wrong)


def test_mode_and_options_exclude_each_other():
    with pytest.raises(ValueError, match="not both"):
        stator.compile(double, mode="default", options={"a": 1})


def test_the_signature_has_what_torch_compile_has():
    ours, theirs = inspect.signature(stator.compile).parameters, inspect.signature(torch.compile).parameters
    assert set(theirs) <= set(ours)
    for name, parameter in theirs.items():
        assert ours[name].kind == parameter.kind
        if name != "backend":
            assert ours[name].default == parameter.default


def test_a_model_by_keyword():
    assert torch.equal(stator.compile(model=double)(torch.ones(2)), torch.full((2,), 2.0))


def test_disable_leaves_the_function_alone(monkeypatch):
    assert stator.compile(double, disable=True) is double
    assert stator.compile(disable=True)(double) is double
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert stator.compile(double) is double


def test_a_mode_for_a_backend_without_modes_is_an_error():
    def own(graph_module, example_inputs):
        return graph_module

    for backend in ("eager", "aot_eager", own):
        with pytest.raises(ValueError, match="has no mode"):
            stator.compile(double, backend=backend, mode="max-autotune")
        with pytest.raises(ValueError, match="has no options"):
            stator.compile(double, backend=backend, options={"max_autotune": True})
        stator.compile(double, backend=backend, mode="default")


def test_a_backend_with_modes_gets_them():
    seen = []

    def with_mode(graph_module, example_inputs, *, mode):
        seen.append(mode)
        return graph_module

    def with_anything(graph_module, example_inputs, **given):
        seen.append(given)
        return graph_module

    stator.compile(double, backend=with_mode, mode="fast")(torch.ones(2))
    stator.compile(double, backend=with_anything, options={"a": 1})(torch.ones(2))
    assert seen == ["fast", {"options": {"a": 1}}]
    with pytest.raises(RuntimeError, match="no_such_option"):
        stator.compile(double, backend="inductor", options={"no_such_option": 1})


def test_an_argument_that_is_not_supported_names_itself():
    for name in ("shapes_spec", "dynamic_shapes"):
        with pytest.raises(NotImplementedError, match=name):
            stator.compile(double, **{name: {}})
        if name in inspect.signature(torch.compile).parameters:
            with stator.installed(), pytest.raises(NotImplementedError, match=name):
                torch.compile(lambda x: x, backend="eager", **{name: {}})

    def described(x):
        return x + 1

    described._dynamic_spec = {}  # what `dynamic_spec` of torch 2.15 does
    with pytest.raises(NotImplementedError, match="dynamic_spec"):
        stator.compile(described)


def test_the_recompile_limit_of_one_call():
    backend, other = Recorder(), Recorder()
    compiled = stator.compile(double, backend=backend, recompile_limit=1, dynamic=False)
    second = stator.compile(double, backend=other, dynamic=False, isolate_recompiles=True)
    with pytest.warns(RuntimeWarning, match="recompile limit"):
        for size in (2, 3, 4):
            assert torch.equal(compiled(torch.ones(size)), torch.full((size,), 2.0))
            assert torch.equal(second(torch.ones(size)), torch.full((size,), 2.0))
    assert (backend.count, other.count) == (1, 3)
    limited = stator.compile(double, fullgraph=True, recompile_limit=1, dynamic=False)
    limited(torch.ones(2))
    with pytest.raises(stator.RecompileLimitHit):
        limited(torch.ones(3))
    with pytest.raises(TypeError, match="recompile_limit is an int"):
        stator.compile(double, recompile_limit="3")


def test_options_of_the_process_are_checked():
    assert stator.config.recompile_limit == 8
    with stator.config.patch(recompile_limit=2):
        assert stator.config.recompile_limit == 2
    assert stator.config.recompile_limit == 8
    with pytest.raises(AttributeError, match="no setting 'recompile_limt'"):
        stator.config.recompile_limt = 3
    with pytest.raises(TypeError, match="recompile_limit is a int"):
        stator.config.recompile_limit = "3"
    assert "recompile_limit = 8" in repr(stator.config)
