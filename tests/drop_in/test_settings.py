"""The settings of torch._dynamo.config: each is honoured, has no meaning for Stator, or is warned of when it is set."""

from __future__ import annotations

import re
import warnings
from contextlib import AbstractContextManager

import pytest
import torch
import torch._dynamo
import torch._dynamo.config as dynamo_config
from torch._dynamo.testing import CompileCounter

import stator
from stator import dynamo_settings
from tests.support.log_messages import log_messages
from tests.support.long import long_only
from tests.support.processes import python

pytestmark = pytest.mark.usefixtures("installed")

KEYS = set(dynamo_config._config)
OF_LATER_VERSIONS = {"_dynamic_shapes_spec"}


def test_every_key_of_torch_has_one_meaning():
    honoured, without = set(dynamo_settings.HONOURED), set(dynamo_settings.WITHOUT_MEANING)
    assert not honoured & without
    warned = set(dynamo_settings.warned(KEYS))
    assert warned == KEYS - honoured - without
    # The tables may have keys of other versions of torch, but not a misspelled one.
    unknown = (honoured | without) - KEYS - OF_LATER_VERSIONS
    assert not unknown or not torch.__version__.startswith("2.13.")


def test_a_setting_without_effect_is_warned_of_once(monkeypatch):
    monkeypatch.setattr(dynamo_settings, "_warned", set())

    def called():
        torch._dynamo.reset()
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with dynamo_config.patch(cprofile=False):
            called()
    with dynamo_config.patch(cprofile=True):
        with pytest.warns(RuntimeWarning, match="cprofile = True has no effect"):
            called()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            called()


def _logged() -> AbstractContextManager[list[str]]:
    """Warnings in the log of torch."""
    return log_messages("torch._dynamo.convert_frame")


def sizes(compiled, count=4):
    for size in range(2, 2 + count):
        assert torch.equal(compiled(torch.ones(size)), torch.full((size,), 2.0))


@pytest.mark.parametrize("name", ["recompile_limit", "cache_size_limit", "accumulated_recompile_limit"])
def test_recompile_limits(name):
    counter = CompileCounter()
    with dynamo_config.patch({name: 2}), _logged() as messages:
        sizes(torch.compile(lambda x: x + 1, backend=counter, dynamic=False))
    assert counter.frame_count == 2
    assert len(messages) == 1
    assert messages[0].startswith("torch._dynamo hit config.recompile_limit")
    # What people look for: the function, its place, and the last reason.
    assert re.search(r"\(\d+\)\n   function: '<lambda>' \(.+:\d+\)\n   last reason: .+\n", messages[0]), messages[0]
    assert "L['x']: size of dimension 0 is 4, was 3" in messages[0]


def test_the_limit_of_stator_comes_before_that_of_torch():
    counter = CompileCounter()
    with dynamo_config.patch(recompile_limit=2), stator.config.patch(recompile_limit=3):
        sizes(torch.compile(lambda x: x + 1, backend=counter, dynamic=False))
    assert counter.frame_count == 3


@dynamo_config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True)
def test_the_limit_may_be_an_error():
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
        sizes(compiled)


def test_recompiles_may_be_errors():
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    with dynamo_config.patch(error_on_recompile=True):
        compiled(torch.ones(2))
        compiled(torch.ones(2))
        with pytest.raises(torch._dynamo.exc.RecompileError) as raised:
            compiled(torch.ones(3))
    assert str(raised.value).split("\n") == [
        f"Recompiling function <lambda> in {__file__}:{compiled._torchdynamo_orig_callable.__code__.co_firstlineno}",
        "    triggered by the following guard failure(s):",
        "    - 0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3",
    ]
    sizes(compiled)


def test_instances_do_not_compete_for_the_limit():
    class Scaled(torch.nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by = by

        def forward(self, x):
            return x * self.by

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(64):
            counter = CompileCounter()
            compiled = torch.compile(Scaled(float(number)), backend=counter)
            assert compiled(torch.ones(1)).item() == number
            assert compiled(torch.ones(1)).item() == number


def failing(graph_module, example_inputs):
    raise ValueError("this backend compiles nothing")


def test_errors_of_a_backend_may_be_suppressed():
    def program(x):
        return x + 1

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="compiles nothing"):
        torch.compile(program, backend=failing)(torch.ones(2))
    with dynamo_config.patch(suppress_errors=True):
        with pytest.warns(RuntimeWarning, match="compiles nothing"):
            sizes(torch.compile(program, backend=failing))
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            torch.compile(program, backend=failing, fullgraph=True)(torch.ones(2))


def test_results_of_a_backend_may_be_verified():
    def wrong(graph_module, example_inputs):
        return lambda *inputs: tuple(result + 1 for result in graph_module(*inputs))

    def right(graph_module, example_inputs):
        return graph_module.forward

    with dynamo_config.patch(verify_correctness=True):
        sizes(torch.compile(lambda x: x + 1, backend=right))
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="incorrect results"):
            torch.compile(lambda x: x + 1, backend=wrong)(torch.ones(2))


def test_disable_captures_nothing():
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counter)
    with dynamo_config.patch(disable=True):
        assert compiled(torch.ones(1)).item() == 2
    assert counter.frame_count == 0
    assert compiled(torch.ones(1)).item() == 2
    assert counter.frame_count == 1


def test_disable_is_an_error_for_a_full_graph():
    compiled = torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)
    with dynamo_config.patch(disable=True), pytest.raises(RuntimeError, match="found no compiled frames"):
        compiled(torch.ones(1))
    assert compiled(torch.ones(1)).item() == 2


def test_parameters_may_be_attributes_of_the_graph():
    seen = []

    def backend(graph_module, example_inputs):
        seen.append(len(example_inputs))
        return graph_module

    for value in (False, True):
        with dynamo_config.patch(install_free_tensors=value):
            torch.compile(torch.nn.Linear(2, 2), backend=backend)(torch.ones(2))
    assert seen == [3, 1]


PROGRAM = """
import torch, stator
stator.install()
from torch._dynamo.testing import CompileCounter
counter = CompileCounter()
compiled = torch.compile(lambda x: x + 1, backend=counter)
print(compiled(torch.zeros(1)).item(), counter.frame_count)
"""


@pytest.mark.parametrize(
    ("variable", "graphs"),
    [
        ("TORCH_COMPILE_DISABLE", 0),
        pytest.param("TORCHDYNAMO_DISABLE", 0, marks=long_only),
        pytest.param("TORCHDYNAMO_VERBOSE", 1, marks=long_only),
    ],
)
def test_variables_of_the_environment(variable, graphs):
    assert python("-c", PROGRAM, **{variable: "1"}) == f"1.0 {graphs}"


def test_fx_refuses_a_compiled_function():
    def doubled(x):
        return x + x

    compiled = torch.compile(doubled, backend="eager")
    compiled(torch.ones(2))
    with pytest.raises(RuntimeError, match="Detected that you are using FX"):
        torch.fx.symbolic_trace(compiled)
    with dynamo_config.patch(error_on_nested_fx_trace=False):
        traced = torch.fx.symbolic_trace(compiled)
    assert [node.op for node in traced.graph.nodes] == ["placeholder", "call_function", "output"]


def test_operators_of_libraries_may_have_to_be_compliant():
    with torch.library._scoped_library("stator_compliance", "FRAGMENT") as library:
        define = library.define
        define("one.tensor(Tensor x) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
        define("one.int(Tensor x, int dim) -> Tensor")
        library.impl("one.tensor", torch.sin, "CompositeImplicitAutograd")
        library.impl("one.int", torch.sum, "CompositeImplicitAutograd")
        packet = torch.ops.stator_compliance.one
        x = torch.ones(2, 3)
        with dynamo_config.patch(only_allow_pt2_compliant_ops=True):
            assert torch.equal(torch.compile(lambda x: packet(x), backend="eager", fullgraph=True)(x), x.sin())
            for program in (lambda x: packet(x, 1), lambda x: packet.int(x, 1)):
                with pytest.raises(torch._dynamo.exc.Unsupported, match="not PT2 compliant"):
                    torch.compile(program, backend="eager", fullgraph=True)(x)
                assert torch.equal(torch.compile(program, backend="eager")(x), x.sum(1))
        assert torch.equal(torch.compile(lambda x: packet(x, 1), backend="eager", fullgraph=True)(x), x.sum(1))


def test_a_strict_mark_must_not_be_specialized():
    x = torch.ones(5, 4)
    torch._dynamo.decorators.mark_unbacked(x, 0, strict=True)
    assert torch.equal(torch.compile(lambda x: x * 2, backend="eager")(x), x * 2)
    with pytest.raises(RuntimeError, match="specialized"):
        torch.compile(lambda x, y: x * y, backend="eager")(x, torch.ones(5, 4))


def test_a_function_that_returns_its_argument_has_a_graph():
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x, backend=counter, fullgraph=True)
    x = torch.ones(2, requires_grad=True)
    assert compiled(x) is x
    assert compiled(x) is x
    assert (counter.frame_count, counter.op_count) == (1, 0)
    without = CompileCounter()
    assert torch.compile(lambda x: x, backend=without)(x) is x
    assert without.frame_count == 0


def test_a_compiled_function_on_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    compiled = torch.compile(lambda x: x.sin().cos(), backend="eager", fullgraph=True)
    with FakeTensorMode() as mode:
        assert compiled(mode.from_tensor(torch.ones(3))).shape == (3,)
    with FakeTensorMode() as mode:
        fake = mode.from_tensor(torch.ones(3))
    assert compiled(fake).shape == (3,)
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin().cos())
