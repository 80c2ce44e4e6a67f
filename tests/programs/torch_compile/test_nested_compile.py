"""`torch.compile` and `stator.compile` that the compiled function itself calls."""

import pytest
import torch

import stator
from tests.support.engine import reset
from tests.support.harness import T, same


def double(x, scale=None):
    return x * (2 if scale is None else scale)


@pytest.mark.parametrize("compiler", [torch.compile, stator.compile], ids=["torch", "stator"])
def test_called_at_once(compiler):
    def program(x):
        return compiler(double, backend="eager")(x) + compiler(double, backend="aot_eager", fullgraph=True)(x, scale=3)

    same(program, T(3), compare_dynamo=False)


def test_a_closure():
    def program(x):
        y = x.sum()

        def inner(t):
            return t * y

        compiled = torch.compile(inner, backend="eager", dynamic=True)
        return compiled(x), compiled(x + 1)

    same(program, T(3), compare_dynamo=False)


def test_it_leaves_the_function():
    """What was compiled for real is there after the captured region."""
    graphs = []

    def program(x):
        return x + 1, stator.compile(double, backend="eager")

    reset()
    for _ in range(2):
        result, compiled = stator.compile(program, fullgraph=True)(torch.ones(2))
        assert result.tolist() == [2.0, 2.0]
        with stator.watch() as report:
            assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
        graphs.append(len(report.captures))
    assert graphs[0] == 1
    assert compiled.__wrapped__ is double


@pytest.mark.parametrize("options", [{"backend": "no such backend"}, {"mode": "no such mode"}])
def test_what_the_compiler_rejects(options):
    def program(x):
        try:
            return torch.compile(double, **options)(x)
        except Exception as error:
            return type(error).__name__

    x = torch.ones(2)
    assert stator.compile(program)(x) == program(x)
