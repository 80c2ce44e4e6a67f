"""Operators of `torch.ops`, also those that nobody has used before the trace."""

import torch

import stator
from tests.support.processes import fresh


def test_an_operator_that_is_first_used_in_a_compiled_function():
    with torch.library._scoped_library("stator_tests", "FRAGMENT") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")

        def program(x):
            return torch.ops.stator_tests.twice(x) + torch.ops.stator_tests.twice.default(x)

        compiled = stator.compile(program, fullgraph=True)
        x = torch.arange(3.0)
        for _ in range(2):
            torch.testing.assert_close(compiled(x), x * 4)


def test_overloads_and_namespaces_in_a_fresh_process():
    program = """
import torch, stator
def program(x):
    return torch.ops.aten.hypot.default(x, x), torch.ops.aten.logaddexp2(x, x)
compiled = stator.compile(program, fullgraph=True)
x = torch.arange(3.0)
print(all(torch.equal(one, other) for one, other in zip(program(x), compiled(x))))
"""
    assert fresh(program.replace("program(x), compiled(x)", "compiled(x), program(x)")) == "True"


def test_an_operator_that_does_not_exist_raises():
    def program(x):
        try:
            return torch.ops.stator_tests.no_such_operator(x)
        except AttributeError as error:
            return x + 1, str(error)

    expected, actual = program(torch.ones(2)), stator.compile(program)(torch.ones(2))
    assert torch.equal(expected[0], actual[0])
    assert expected[1] == actual[1]
