"""Symbols at the hand-off to backends: captures, results and gradients with PyTorch's backends and with those of users."""

from __future__ import annotations

import logging
import math
import subprocess
import sys

import pytest
import torch
from torch import nn

import stator
from tests.programs.dynamic.test_call_sequences import PROGRAMS, captures_of, sequences
from tests.support import engine
from tests.support.log_messages import log_messages
from tests.support.long import every, long_only

LENGTHS = [17, 120, 33, 64, 90]
SPECIALIZES_DERIVED_FLOATS = torch.torch_version.TorchVersion(torch.__version__) < (2, 13)  # aot_autograd does


@pytest.mark.parametrize("name", PROGRAMS)
def test_aot_eager(name):
    program, shape = PROGRAMS[name]
    assert captures_of(program, sequences(*shape, lengths=LENGTHS), backend="aot_eager") == 2


@pytest.mark.parametrize("name", ["elementwise", "reshape", "cat", "slices", "attention", "norm", "einsum", "expand"])
def test_gradients_of_aot_eager(name):
    program, shape = PROGRAMS[name]
    calls = sequences(*shape, lengths=LENGTHS)
    assert captures_of(program, calls, backward=True, backend="aot_eager") == 2


NUMBERS = {
    "float": (lambda x, a: (x * a).softmax(-1), [0.5, 1.5, 2.5, -3.0], 2),
    "floats in expressions": (lambda x, a: x + (a * 2 + 1) - x / (a + 10), [0.5, 1.5, 2.5, -3.0], 2),
    "float in a comparison": (lambda x, a: (x < a, x >= a * a), [0.5, 1.5, 2.5, -3.0], 2),
    "int": (lambda x, n: (x * n).softmax(-1), [2, 3, 4, 17, -5], 2),
    "slice": (lambda x, n: x[:n] + 1, [2, 3, 4, 5], 2),
    "index": (lambda x, n: x[n] + 1, [2, 3, 4, 5], 2),
    "arange": (lambda x, n: torch.arange(n) + x[0, 0], [2, 3, 4, 17], 2),
    "zeros": (lambda x, n: torch.zeros(n, 2).sum(1) + x[0, 0], [2, 3, 4, 17], 2),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_the_program(name):
    program, numbers, captures = NUMBERS[name]
    calls = [(torch.randn(6, 4), number) for number in numbers]
    found = captures_of(program, calls, backend="aot_eager")
    assert found == captures or (name == "floats in expressions" and SPECIALIZES_DERIVED_FLOATS)


# Where torch.compile specializes on floats, a float is a constant; and it never is another call's.
FIXED_FLOATS = {
    "alpha": lambda x, a: (torch.add(x, x, alpha=a), x * a),
    "full_like": lambda x, a: (torch.full_like(x, a), x * a),
    "remainder": lambda x, a: (x % a, x * a),
    "where": lambda x, a: (torch.where(x > 0, x, a), x * a),
    "lerp": lambda x, a: (torch.lerp(x, x + 1, a), x * a),
    "power": lambda x, a: (x.abs() ** a, x * a),
}


@pytest.mark.parametrize("name", every(3, FIXED_FLOATS, 0))
def test_floats_that_the_backend_fixes(name):
    program = FIXED_FLOATS[name]
    x = torch.linspace(-2, 2, 12)
    compiled = stator.compile(program, backend="inductor")
    for number in (0.5, 1.5, 2.5, 3.5, 1.5):
        for one, other in zip(program(x, number), compiled(x, number), strict=True):
            torch.testing.assert_close(one, other)


def test_infinity_and_nan():
    def program(x, a):
        return x * a + 1

    compiled = stator.compile(program, backend="aot_eager")
    for number in (0.5, 1.5, float("inf"), 2.5, float("nan"), -float("inf"), 3.5, float("nan")):
        x = torch.linspace(-2, 2, 12)
        torch.testing.assert_close(program(x, number), compiled(x, number), equal_nan=True)


@long_only
def test_inductor():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    compiled = stator.compile(layer, backend="inductor")
    before = engine.captures()
    for length in LENGTHS:
        inputs = [torch.randn(3, length, 16) for _ in range(1)]
        gradients = []
        for model in (layer, compiled):
            layer.zero_grad()
            x = inputs[0].clone().requires_grad_()
            result = model(x)
            result.square().sum().backward()
            gradients.append([result.detach(), x.grad, *(parameter.grad for parameter in layer.parameters())])
        torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)
    assert engine.captures() - before == 2


# --- what the backend assumes ---------------------------------------------------------------------------------------------


def backend_that(uses):
    """A backend that does something with the sizes of its first tensor."""

    def backend(module, inputs):
        from torch._guards import TracingContext

        mode = TracingContext.get().fake_mode
        uses(mode.from_tensor(next(one for one in inputs if isinstance(one, torch.Tensor))))
        return module.forward

    return backend


ASSUMED = {
    "a multiple": (lambda fake: fake.shape[0] % 8 == 0, [16, 24, 40, 80], 2, [21]),
    "a bound": (lambda fake: fake.shape[0] * 4 < 200, [16, 24, 40, 30], 2, [100]),
    "a value": (lambda fake: int(fake.shape[0]), [16, 24, 16, 24], 2, [40]),
    "several": (lambda fake: fake.shape[0] > 10 and fake.shape[0] // 2 != 11, [16, 24, 40, 80], 2, [9, 22]),
    "nothing": (lambda fake: fake.shape[0] > 1, [16, 24, 3, 80], 2, []),
    "a quotient": (lambda fake: fake.shape[0] / 3 > 4.5, [16, 24, 40, 14], 2, [13]),
    "rounding": (lambda fake: math.floor(fake.shape[0] / 4) >= 4, [16, 24, 17, 80], 2, [15]),
    "a function that the engine does not have": (
        lambda fake: torch._sym_sqrt(fake.shape[0]) > 4.5,
        [24, 32, 40, 21],
        2,
        [20],
    ),
    "a long sum": (
        lambda fake: sum((fake.shape[0] // n) * (fake.shape[0] % n) for n in range(2, 30)) > 10,
        [16, 24, 40, 80],
        2,
        [],
    ),
}


@pytest.mark.parametrize("name", ASSUMED)
def test_assumptions_of_the_backend_are_guards(name):
    uses, lengths, captures, others = ASSUMED[name]

    def program(x):
        return x * 2

    compiled = stator.compile(program, backend=backend_that(lambda fake: bool(uses(fake))))
    before = engine.captures()
    # The messages tell why a backend gets no symbols.
    with log_messages("stator", level=logging.INFO) as messages:
        for length in lengths:
            assert torch.equal(compiled(torch.ones(length)), torch.ones(length) * 2)
    assert engine.captures() - before == captures, messages
    for length in others:
        with stator.watch() as report:
            compiled(torch.ones(length))
        assert len(report.captures) == 1


def test_reports_name_what_the_backend_needs():
    compiled = stator.compile(lambda x: x * 2, backend=backend_that(lambda fake: bool(fake.shape[0] % 8 == 0)))
    compiled(torch.ones(16))
    with stator.watch() as report:
        compiled(torch.ones(24))
    (capture,) = report.captures
    (relation,) = capture.relations
    assert "L['x'].size()[0]" in str(relation) or "L['x']" in str(relation)
    assert "which the backend needs" in str(relation)


def test_what_the_engine_cannot_check_is_checked_in_python():
    compiled = stator.compile(
        lambda x: x * 2, backend=backend_that(lambda fake: bool(torch._sym_sqrt(fake.shape[0]) > 4.5))
    )
    compiled(torch.ones(32))
    with stator.watch() as report, log_messages("stator", level=logging.INFO) as messages:
        compiled(torch.ones(24))
    (capture,) = report.captures
    assert len(capture.relations) == 1, (messages, str(report))
    (relation,) = capture.relations
    assert "(checked in Python)" in str(relation)
    with stator.watch() as report:
        for length in (24, 40, 40, 20, 40):
            assert torch.equal(compiled(torch.ones(length)), torch.ones(length) * 2)
    assert len(report.captures) == 1
    (recompile,) = report.recompiles
    assert "(checked in Python)" in str(recompile)


def test_a_marked_size_that_the_backend_fixes_is_an_error():
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    compiled = stator.compile(lambda x: x * 2, backend=backend_that(lambda fake: int(fake.shape[0])))
    x = torch.ones(16)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(ConstraintViolationError, match="the backend specializes it"):
        compiled(x)


def test_a_backend_that_fails_on_symbols_gets_constants():
    seen = []

    def backend(module, inputs):
        seen.append([type(one) for one in inputs])
        if any(isinstance(one, torch.SymInt) for one in inputs):
            raise RuntimeError("no symbols please")
        return module.forward

    compiled = stator.compile(lambda x: x * 2, backend=backend)
    for length in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(length)), torch.ones(length) * 2)
    assert seen == [[torch.Tensor], [stator.symbols.LazyNumber, torch.Tensor], [torch.Tensor], [torch.Tensor]]


# --- what backends of users see -------------------------------------------------------------------------------------------


def test_symbols_come_before_the_tensors_that_use_them():
    graphs = []

    def backend(module, inputs):
        graphs.append((module, inputs))
        return module.forward

    compiled = stator.compile(lambda x, y: (x @ y, x.sum()), backend=backend, dynamic=True)
    compiled(torch.ones(3, 4), torch.ones(4, 5))
    ((module, inputs),) = graphs
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    kinds = [torch.SymInt if isinstance(one, torch.SymInt) else torch.Tensor for one in inputs]
    assert kinds == [torch.SymInt, torch.SymInt, torch.Tensor, torch.SymInt, torch.Tensor]
    values = [node.meta["example_value"] for node in placeholders]
    assert [value.node.expr for value in (values[0], values[1])] == [size.node.expr for size in values[2].shape]
    assert values[4].shape[0].node.expr == values[2].shape[1].node.expr
    result = next(node for node in module.graph.nodes if node.op == "call_function").meta["example_value"]
    assert result.shape == (values[0], values[3])
    assert [int(value) for value in (values[0], values[1], values[3])] == [3, 4, 5]


def test_a_backend_of_a_user_around_aot_autograd():
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import make_boxed_func

    compiles = []

    def compiler(module, inputs):
        compiles.append(module)
        return make_boxed_func(module.forward)

    program, shape = PROGRAMS["reshape"]
    calls = sequences(*shape, lengths=LENGTHS)
    assert captures_of(program, calls, backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler)) == 2
    assert len(compiles) == 2


def test_a_backend_that_only_calls_the_graph_needs_no_shape_environment():
    text = """
import sys, torch, stator
compiled = stator.compile(lambda x: x[: x.shape[0] // 2] * 2, backend=lambda module, inputs: module.forward)
for length in (8, 6, 12):
    assert compiled(torch.ones(length)).shape == (length // 2,)
assert "torch.fx.experimental.symbolic_shapes" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", text], check=True)
