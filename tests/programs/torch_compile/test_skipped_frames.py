"""`disable(recursive=False)` and `skip_frame`: a function runs uncompiled, and what it calls is captured."""

from __future__ import annotations

import pytest
import torch

import stator


class Counting:
    def __init__(self) -> None:
        self.operations: list[int] = []

    def __call__(self, graph_module, example_inputs):
        self.operations.append(sum(node.op.startswith("call") for node in graph_module.graph.nodes))
        return graph_module.forward


def called(x):
    return x + 1


def expect(program, operations, *arguments):
    backend = Counting()
    compiled = stator.compile(program, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(*arguments), program(*arguments))
    assert backend.operations == operations


def test_functions_that_a_disabled_one_calls():
    @torch.compiler.disable(recursive=False)
    def disabled(x):
        assert not torch.compiler.is_compiling()
        return called(x.sigmoid()) * 2

    expect(lambda x: disabled(x.tan()) - 1, [1, 1, 1], torch.ones(3))


def test_functions_that_a_wholly_disabled_one_calls():
    @torch.compiler.disable
    def disabled(x):
        return called(x.sigmoid()) * 2

    expect(lambda x: disabled(x.tan()) - 1, [1, 1], torch.ones(3))


def test_functions_that_a_skipped_frame_calls():
    def program(x):
        torch._dynamo.skip_frame()
        return called(x * 2) * 3

    expect(program, [1], torch.ones(3))


def test_a_skipped_frame_inside():
    def skipped(x):
        torch._dynamo.skip_frame()
        return called(x * 2) * 3

    expect(lambda x: skipped(x + 1) - 1, [1, 1, 1], torch.ones(3))


def test_a_skipped_frame_where_graph_breaks_are_errors():
    def skipped(x):
        with torch._dynamo.error_on_graph_break(False):
            torch._dynamo.skip_frame()
        return called(x * 2) * 3

    @torch._dynamo.error_on_graph_break(True)
    @stator.compile
    def program(x):
        return skipped(x + 1) - 1

    for _ in range(2):
        assert torch.equal(program(torch.ones(3)), torch.full((3,), 14.0))


def test_exceptions_leave_skipped_frames():
    def failing(x):
        raise ValueError(float(x.sum()))

    def program(x):
        torch._dynamo.skip_frame()
        try:
            return failing(x + 1)
        except ValueError as error:
            return called(x) * error.args[0]

    expect(program, [1, 1], torch.ones(3))


def test_one_graph_inside_of_another_compiled_function():
    def broken(x):
        torch._dynamo.graph_break()
        return x + 1

    one_graph, several = stator.compile(broken, fullgraph=True), stator.compile(broken)
    assert torch.equal(stator.compile(lambda x: several(x * 2))(torch.ones(2)), torch.full((2,), 3.0))
    with pytest.raises(stator.Unsupported, match="graph_break"):
        stator.compile(lambda x: one_graph(x * 2) - 1)(torch.ones(2))


def test_symbols_after_an_uncompiled_first_call():
    backend = Counting()

    @stator.compile(backend=backend)
    def program(n, x, table):
        x = x.sin()
        torch._dynamo.graph_break()
        return n * x.cos() * table[0]

    try:
        torch.compiler.set_stance("eager_then_compile")
        for size in range(1, 6):
            x, table = torch.randn(size), {0: torch.randn(size)}
            assert torch.equal(program(size, x, table), size * x.sin().cos() * table[0])
    finally:
        torch.compiler.set_stance("default")
    assert len(backend.operations) == 2
