"""`torch._dynamo.decorators.mark_unbacked`: one graph for all sizes of an input, 0 and 1 among them."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch._dynamo
from torch._dynamo.decorators import mark_unbacked
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError, guard_size_oblivious

import stator
from tests.support import engine

with_bounds = pytest.mark.skipif(
    "min" not in inspect.signature(mark_unbacked).parameters, reason="of later versions of PyTorch"
)

LINEAR = torch.nn.Linear(3, 5)
PROGRAMS = {
    "elementwise": lambda x: x * 2 + 1,
    "a layer": lambda x: LINEAR(x).relu().sum(0),
    "a view": lambda x: x.view(x.shape[0] * 3) + 1,
    "a size as a number": lambda x: x[:, 0] + torch.zeros(x.shape[0]) * x.shape[0],
    "a range": lambda x: x * torch.arange(x.shape[0])[:, None],
    "both ways": lambda x: torch.cat([x, x]).mean(1),
}


def marked(size: int, **options) -> torch.Tensor:
    x = torch.randn(size, 3, requires_grad=True)
    mark_unbacked(x, 0, **options)
    return x


@pytest.mark.parametrize("name", PROGRAMS)
def test_compilers_get_one_graph_for_all_sizes(name):
    program = PROGRAMS[name]
    engine.reset()
    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    before = engine.captures()
    for size in (4, 1, 7, 0, 2):
        x = marked(size)
        expected, actual = program(x), compiled(x)
        torch.testing.assert_close(actual, expected)
        gradients = [torch.autograd.grad(one.sum(), x)[0] for one in (actual, expected)]
        torch.testing.assert_close(*gradients)
    assert engine.captures() - before == 1


def test_inductor_compiles_it_once():
    engine.reset()
    compiled = stator.compile(lambda x: x * 2, backend="inductor", dynamic=True)
    before = engine.captures()
    x = torch.randn(3, 5, 4, 8).to(memory_format=torch.channels_last)
    mark_unbacked(x, 0)
    for one in (x, torch.randn(1, 5, 4, 8).to(memory_format=torch.channels_last)):
        assert torch.equal(compiled(one), one * 2)
    assert engine.captures() - before == 1


def shape_env_of(program, *inputs):
    """The ShapeEnv that a backend gets, and the sizes of its first input."""
    found = []

    def backend(module, _):
        fake = next(node for node in module.graph.nodes if node.op == "placeholder").meta["example_value"]
        found.append((fake.fake_mode.shape_env, fake.shape))
        return module.forward

    engine.reset()
    stator.compile(program, backend=backend)(*inputs)
    return found[0]


@with_bounds
def test_the_size_is_an_unbacked_symbol_for_the_backend():
    shape_env, shape = shape_env_of(lambda x: x * 2, marked(4, min=2, max=64, hint_override=32))
    symbol = shape[0].node.expr
    assert str(symbol) == "u0"
    assert symbol in shape_env.unbacked_inputs
    assert (shape_env.var_to_range[symbol].lower, shape_env.var_to_range[symbol].upper) == (2, 64)
    assert shape_env.var_to_hint_override[symbol] == 32
    assert not shape_env.pending_fresh_unbacked_symbols


@with_bounds
def test_a_size_out_of_its_bounds_is_an_error():
    compiled = stator.compile(lambda x: x + 1 if x.shape[0] >= 3 else x - 1, fullgraph=True)
    x = marked(4, min=3)
    assert torch.equal(compiled(x), x + 1)
    # The bound has decided the branch: it is a guard.
    y = torch.randn(2, 3)
    assert torch.equal(compiled(y), y - 1)
    with pytest.raises(ConstraintViolationError, match=r"mark_unbacked, at least 3, and is 2"):
        compiled(marked(2, min=3))


def test_sizes_of_one_shape_id_are_one_symbol():
    def program(x, y):
        return x + y if x.shape[0] == y.shape[0] else x

    engine.reset()
    compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
    before = engine.captures()
    for size in (4, 1, 0, 6):
        x, y = marked(size, shape_id="batch"), marked(size, shape_id="batch")
        assert torch.equal(compiled(x, y), x + y)
    assert engine.captures() - before == 1
    x, y = torch.randn(3, 3), torch.randn(1, 3)
    assert torch.equal(compiled(x, y), x)
    with pytest.raises(ConstraintViolationError, match="the same shape_id, but are 3 and 4"):
        compiled(marked(4, shape_id="batch"), marked(3, shape_id="batch"))


def test_a_strict_mark_must_not_be_specialized():
    compiled = stator.compile(lambda x: x * 2, fullgraph=True)
    for size in (5, 1, 0):
        x = marked(size, strict=True)
        assert torch.equal(compiled(x), x * 2)
    y = torch.ones(5, 3)
    with pytest.raises(ConstraintViolationError, match=r"mark_unbacked, but is specialized to 5"):
        stator.compile(lambda x: x * y)(marked(5, strict=True))


def test_sizes_that_settings_name():
    engine.reset()
    with torch.compiler.config.patch(unbacked_sources="L['x']:0"):
        compiled = stator.compile(lambda x: x * 2, fullgraph=True)
        before = engine.captures()
        for size in (5, 1, 0, 7):
            x = torch.randn(size, 3)
            assert torch.equal(compiled(x), x * 2)
        assert engine.captures() - before == 1


def test_size_oblivious_questions_are_about_sizes_of_at_least_2():
    def program(x):
        return x + 3 if guard_size_oblivious(x.shape[0] != 1) else x + 4

    x = marked(5)
    assert torch.equal(stator.compile(program, fullgraph=True)(x), x + 3)
    with pytest.raises(stator.Unsupported, match="u0 > 7"):
        stator.compile(lambda x: x if guard_size_oblivious(x.shape[0] > 7) else -x, fullgraph=True)(x)


def test_the_report_has_unbacked_numbers():
    def program(x, n):
        return x * 2, torch.zeros(n.item())

    engine.reset()
    with stator.watch() as report:
        stator.compile(program, fullgraph=True)(marked(4), torch.tensor(3))
    (capture,) = report.captures
    size, item = capture.symbols
    assert size.startswith("u0 is L['x'].size()[0]: 4 in this call, at least 0; marked with mark_unbacked")
    assert item.startswith("u1 is the result of item in line ")
    assert item.endswith(", at least 0")
