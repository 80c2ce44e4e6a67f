"""Reports of captures, as text."""

from __future__ import annotations

import pytest
import torch
from expecttest import assert_expected_inline

import stator
from stator import errors
from stator.report import Report

CAPTURED = {
    "code": "block (model.py:12)",
    "entries": [
        {
            "graph": "x = input\nrelu = torch.relu(x)\nreturn (relu,)",
            "nodes": 1,
            "guards": ["local 'x': float32 [2, 4] on cpu"],
            "times": {"trace": 0.0000315, "backend": 0.002, "decode": 0.00001},
        }
    ],
    "breaks": [],
}
BROKEN = {
    "kind": "opaque-call",
    "reason": "call of the C function print",
    "file": "model.py",
    "line": 14,
    "source": "    print(x)",
    "stack": ["forward (model.py:30)"],
    "hint": "move it out of the compiled part",
}


def test_a_report_prints_graphs_guards_times_and_breaks():
    report = Report()
    report.add(CAPTURED)
    report.add({"code": "forward (model.py:28)", "entries": [], "breaks": [BROKEN]})
    assert_expected_inline(
        str(report),
        """\
1 graph, 1 node, 1 guard, 1 break
2.0 ms (decode 10 us, trace 32 us, backend 2.0 ms)

graph 1: block (model.py:12): 1 node, 1 guard, 2.0 ms (decode 10 us, trace 32 us, backend 2.0 ms)
  x = input
  relu = torch.relu(x)
  return (relu,)
  guards
    local 'x': float32 [2, 4] on cpu

break 1: call of the C function print [opaque-call]
  at model.py:14
      print(x)
  called from forward (model.py:30)
  hint: move it out of the compiled part
  see docs/graph-breaks.md#opaque-call""",
    )


def test_unsupported_carries_the_break_and_is_dynamos_too():
    with pytest.raises(stator.Unsupported, match="call of the C function print") as raised:
        errors.raise_unsupported(BROKEN)
    assert isinstance(raised.value, torch._dynamo.exc.Unsupported)
    assert raised.value.break_.line == 14
    assert type(raised.value).__module__ == "stator"


@pytest.mark.usefixtures("engine")
def test_explain_runs_and_reports():
    x = torch.randn(3)
    report = stator.explain(lambda x: torch.relu(x) + 1)(x)
    assert torch.equal(report.result, torch.relu(x) + 1)
    assert (report.graph_count, report.node_count, report.graph_break_count) == (1, 4, 0)
    assert len(report.graph_modules) == 1
    assert report.guards
    assert "relu" in str(report)
    assert list(report.times) == ["decode", "trace", "shapes", "guards", "fx", "backend"]
    assert all(seconds > 0 for seconds in report.times.values())


@pytest.mark.usefixtures("engine")
def test_a_second_capture_decodes_nothing():
    def program(x):
        return x.sum() + 1

    first, second = (stator.explain(program)(torch.ones(size)).times for size in (3, 4))
    assert first["decode"] > 0
    assert second["decode"] == 0
    assert second["shapes"] > 0


@pytest.mark.usefixtures("engine")
def test_explain_captures_anew_what_is_compiled_already():
    compiled = stator.compile(torch.nn.Sequential(torch.nn.ReLU()))
    compiled(torch.randn(3))
    assert stator.explain(compiled)(torch.randn(3)).graph_count == 1
    assert stator.explain(compiled)(torch.randn(3)).graph_count == 1
