"""Logs of torch that follow a trace step by step."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator

import pytest
import torch
import torch._dynamo
from torch._higher_order_ops.wrap import wrap

from tests.support.log_messages import log_messages
from tests.support.processes import fresh


@pytest.fixture(autouse=True)
def fresh_state(installed: None) -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._logging.set_logs()


def logged(artifact, call):
    """The messages of one artifact of torch's logs."""
    torch._logging.set_logs(**{artifact: True})
    with log_messages(
        *(name for name in logging.root.manager.loggerDict if name.endswith(f".__{artifact}"))
    ) as messages:
        call()
    return messages


def inner(x, notes):
    notes.append(1)
    return x * 2


def program(x, notes):
    y = inner(x, notes)
    notes.append(2)
    return y + 1


def run():
    torch.compile(program, backend="eager")(torch.ones(2), [])


def test_trace_source():
    lines = [text.splitlines() for text in logged("trace_source", run)]
    assert all(head.startswith("TRACE starts_line ") for head, _ in lines)
    sources = [source.strip() for _, source in lines if "def " not in source]
    assert sources == ["y = inner(x, notes)", "notes.append(1)", "return x * 2", "notes.append(2)", "return y + 1"]
    (deep,) = (head for head, source in lines if "return x * 2" in source)
    assert deep.endswith("in inner (inner) (inline depth: 1)")


def test_trace_call():
    first, second, third = logged("trace_call", run)
    assert (
        first.startswith("TRACE inlined call inner from ") and first.splitlines()[-2].strip() == "y = inner(x, notes)"
    )
    assert second.startswith("TRACE FX call mul from ") and second.splitlines()[-1].strip() == "~~^~~"
    assert third.startswith("TRACE FX call add from ")


def test_trace_bytecode():
    assert any(text.startswith("TRACE LOAD_FAST x") for text in logged("trace_bytecode", run))


def test_side_effects():
    (text,) = logged("side_effects", run)
    assert text.startswith("Mutating object of type list (source name: L['notes'])\n")
    first, second = text.split("********")
    assert [line.strip() for line in first.splitlines() if "notes" in line][-2:] == [
        "y = inner(x, notes)",
        "notes.append(1)",
    ]
    assert "in run\n" in first and "notes.append(2)" in second and "inner(" not in second


def test_an_instruction_that_broke_the_graph_has_no_effect():
    def broken(x, notes):
        y = x + 1
        notes.append(torch._dynamo.graph_break() or 1)
        return y + len(notes)

    texts = logged("side_effects", lambda: torch.compile(broken, backend="eager")(torch.ones(2), []))
    assert len(texts) == 1


def test_bytecode():
    original, plan = logged("bytecode", run)
    assert original.startswith("ORIGINAL BYTECODE program ") and "RETURN_VALUE" in original
    assert plan.startswith("PLAN IN PLACE OF MODIFIED BYTECODE program ")


OFF = """
import torch, stator
from stator._engine import engine
stator.install()
reports = []
import torch._dynamo
for artifacts in ({}, {"trace_source": True}, {}):
    torch._dynamo.reset()
    torch._logging.set_logs(**artifacts)
    before = engine().collect(reports.append)
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    engine().collect(before)
print("noted", ["trace" in report for report in reports])
"""


def test_nothing_is_noted_while_the_logs_are_off():
    """(In a process without the handlers of pytest, which torch's structured trace would be kept by.)"""
    assert fresh(OFF).endswith("noted [False, True, False]")


def test_guards_and_recompiles_in_torchs_words():
    def make(n):
        return lambda x: x * n

    compiled = torch.compile(lambda f, x, items: f(x) * items[0], backend="eager", dynamic=False)

    def calls():
        compiled(make(2), torch.ones(2), [3.0, 4.0])
        compiled(make(3), torch.ones(2), [3.0, 4.0])

    header, guards = logged("guards", calls)[:2]
    assert header == "GUARDS:"
    for text in (
        "\nTREE_GUARD_MANAGER:\n+- RootGuardManager\n| +- GLOBAL_STATE: ___check_global_state() against {",
        "\n| +- GuardManager: source=L['items'], accessed_by=FrameLocalsGuardAccessor(key='items')\n",
        "\n| | +- LENGTH_CHECK: len(L['items']) == 2 ",
        "\n| | +- GuardManager: source=L['items'][0], accessed_by=GetItemGuardAccessor(0)\n",
        "\n| | | +- EQUALS_MATCH: L['items'][0] == 3.0 ",
        "\n| | +- TENSOR_MATCH: check_tensor(L['x'], Tensor, torch.float32, device=None, requires_grad=False, "
        "size=[2], stride=[1])  # return lambda x: x * n  # ",
    ):
        assert text in guards, guards
    torch._dynamo.reset()
    (recompiled,) = logged("recompiles", calls)
    failed = next(line for line in recompiled.splitlines() if "f.__closure__[0].cell_contents == 2 " in line)
    assert "  # return lambda x: x * n  # " in failed and ' in <lambda> (HINT: guard on "n")  # ' in failed
    # Where the program needs that guard.
    stack = recompiled.partition("User stack trace:")[2]
    assert stack.strip().endswith("return lambda x: x * n") and " in <lambda>\n" in stack


def test_the_line_that_a_shape_guard_is_for():
    def halves(x):
        if x.size(0) % 2 == 0:
            return x * 2
        return x + 1

    guards = logged("guards", lambda: torch.compile(halves, backend="eager", dynamic=True)(torch.ones(6)))[1]
    line, at_least_2 = (line for line in guards.splitlines() if line.startswith("+- LAMBDA_GUARD: "))
    assert at_least_2.startswith("+- LAMBDA_GUARD: 2 <= L['x'].size()[0] ")
    assert "  # if x.size(0) % 2 == 0:  # " in at_least_2 and "due to 0/1 specialization" in at_least_2
    code, text, place = line.split("  # ")
    assert (code.rstrip(), text) == ("+- LAMBDA_GUARD: L['x'].size()[0] % 2 == 0", "if x.size(0) % 2 == 0:")
    assert place.endswith(" in halves") and os.path.basename(__file__) in place


def test_the_line_that_makes_a_symbol():
    def scaled(x):
        if x.size(0) > 3:
            return x * 2
        return x

    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    torch._logging.set_logs(dynamic=logging.INFO)
    logger.addHandler(handler)
    try:
        torch.compile(scaled, backend="eager", dynamic=True)(torch.ones(5))
    finally:
        logger.removeHandler(handler)
    words = ("marking ", "create_symbol ", "eval ")
    marked, created, added = (text for record in records if (text := record.getMessage()).startswith(words))
    assert marked == "marking L['x'] as dynamic (from assume_static_by_default = False)"
    symbol = re.match(r"create_symbol (s\d+) = 5 for L\['x'\]\.size\(\)\[0\] \[2, int_oo\] if x\.size", created)
    assert symbol is not None and f"{os.path.basename(__file__)}:" in created
    # The guard is on the symbol of which the log has told.
    assert re.match(rf"eval {symbol[1]} > 3 \[guard added\] if x\.size\(0\) > 3:  # .* in scaled$", added), added


class Pair:
    def __init__(self, first):
        self.first = first


def test_side_effects_on_objects_that_the_program_makes():
    def makes(x):
        dropped, kept = Pair(1), Pair(2)
        dropped.first, kept.first = 3, 4
        return x + dropped.first, kept

    (text,) = logged("side_effects", lambda: torch.compile(makes, backend="eager")(torch.ones(2)))
    assert text.startswith("Mutating object of type Pair (source: created in torch.compile region)\n")
    assert text.count("********") == 1 and "self.first = first" in text and "kept.first = 3, 4" in text


def test_a_backend_that_fails_is_logged():
    def failing(graph_module, inputs):
        raise ValueError("too hard")

    def function(x):
        return x + 1

    records = []
    handler = logging.Handler()
    handler.emit = records.append
    logger = logging.getLogger("torch._dynamo.convert_frame")
    logger.addHandler(handler)
    try:
        with torch._dynamo.config.patch(suppress_errors=True), pytest.warns(RuntimeWarning, match="the backend failed"):
            assert torch.compile(function, backend=failing)(torch.ones(1)).item() == 2
    finally:
        logger.removeHandler(handler)
    (text,) = (record.getMessage() for record in records if record.levelno == logging.WARNING)
    assert text.startswith("WON'T CONVERT function ") and text.endswith("ValueError: too hard")


def test_regions_are_logged():
    @torch.compiler.nested_compile_region
    def region(x):
        return x * 2

    # (For the backend `eager` a region is inlined.)
    compiled = torch.compile(lambda x: region(x) + 1, backend=lambda graph_module, inputs: graph_module)
    (text,) = logged("hierarchical_compile", lambda: compiled(torch.ones(2)))
    assert "calls the region subgraph_0" in text


def test_a_graph_has_the_same_names_with_a_log():
    """Also for sizes that a subgraph takes."""
    graphs = []

    def backend(module, examples):
        graphs.append(module.print_readable(print_output=False))
        return module

    def around(x, y):
        return wrap(lambda x: x @ y, x)

    def run():
        torch._dynamo.reset()
        torch.compile(around, backend=backend, dynamic=True)(torch.ones(2, 3), torch.ones(3, 4))

    run()
    logged("trace_call", run)
    assert graphs[0] == graphs[1] and "_size_" not in graphs[0]
