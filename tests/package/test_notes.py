"""Notes are given once, at the program's line, with the remedy."""

from __future__ import annotations

import logging
import warnings

import pytest
import torch

import stator
from stator import notes
from tests.package.stand_in import real_engine
from tests.support.log_messages import log_messages
from tests.support.processes import fresh

pytestmark = pytest.mark.skipif(real_engine() is None, reason="needs the engine")


@pytest.fixture(autouse=True)
def nothing_issued(monkeypatch, engine):
    monkeypatch.setattr(notes, "_issued", set())


@pytest.fixture
def logged():
    with log_messages("stator", level=logging.INFO) as messages:
        yield messages


FAILING = """
    import sys, warnings, logging, torch, stator
    from stator import _testing
    logging.basicConfig(stream=sys.stdout, format="%(name)s %(levelname)s %(message)s", level=logging.INFO)
    def show(message, category, filename, lineno, file=None, line=None):
        print(category.__name__, lineno, message)
    warnings.showwarning = show
    def f(x):
        return x.sin() + 1
    def g(x):
        return x.cos() + 1
    x = torch.ones(3)
    _testing.fail_at_node(1)
    SETTING
    for function in (f, g):
        compiled = stator.compile(function)
        for _ in range(2):
            assert torch.equal(compiled(x), function(x))
    report = stator.explain(g)(x)
    assert report.breaks[0].kind == "internal-error", report
    assert [note.topic for note in report.notes] == ["internal_error"]
    assert "Internal error of Stator at g" in str(report)
"""


def test_the_first_internal_error_warns_and_later_ones_are_logged():
    first, second = fresh(FAILING.replace("SETTING", "")).splitlines()
    assert first.startswith("RuntimeWarning 9 Internal error of Stator at f (<string>:9): an injected error")
    for words in ("runs uncompiled, with correct results", "stator.config.record_errors", "python -m stator"):
        assert words in first
    assert second.startswith("stator INFO Internal error of Stator at g (<string>:11)")


def test_a_warning_that_is_an_error_does_not_come_out_of_the_call():
    first, _ = fresh(FAILING.replace("SETTING", "warnings.simplefilter('error')")).splitlines()
    assert first.startswith("stator WARNING Internal error of Stator at f (<string>:9)")


def test_the_recompile_limit_is_reported_without_raising(logged):
    def scaled(x, n):
        return x * float(str(n))

    compiled = stator.compile(scaled)
    x = torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(12):
            assert torch.equal(compiled(x, n + 0.5), scaled(x, n + 0.5))
    (message,) = [message for message in logged if "recompile limit" in message]
    assert "stator.config.recompile_limit" in message


def test_a_backend_that_needs_data(logged):
    from torch._subclasses.fake_tensor import DataDependentOutputException

    def backend(module, examples):
        raise DataDependentOutputException("item")

    def f(x):
        return x + 1

    compiled = stator.compile(f, backend=backend)
    with pytest.warns(RuntimeWarning, match="without the backend") as caught:
        for _ in range(2):
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    (warning,) = caught
    assert warning.filename == __file__ and warning.lineno == f.__code__.co_firstlineno
    with pytest.raises(stator.BackendCompilerFailed):
        stator.compile(f, backend=backend, fullgraph=True)(torch.ones(2))


def test_a_frame_that_has_nothing_to_capture(logged):
    def opaque(n):
        print(end="")
        return n

    def f(x):
        total = 0
        for n in range(150):
            total += opaque(n)
        return x + total

    compiled = stator.compile(f)
    assert torch.equal(compiled(torch.ones(2)), f(torch.ones(2)))
    topics = [message for message in logged if "captures in a row" in message]
    assert len(topics) == 1 and __file__ in topics[0]


def test_inputs_that_share_memory(logged):
    def f(x, y):
        x.add_(1)
        return x + y

    def backend(module, examples):
        return lambda *inputs: module(*inputs)

    compiled = stator.compile(f, backend=backend)
    base = torch.zeros(4)
    with stator.watch() as report:
        for _ in range(2):
            compiled(base[:2], base[1:3])
    assert [note.topic for note in report.notes] == ["shared_memory"]
    assert sum("shares memory" in message for message in logged) == 1


def test_options_for_a_backend_that_takes_none():
    def f(x):
        return x + 1

    def backend(module, examples):
        return module

    with pytest.raises(ValueError, match="has no options"):
        stator.compile(f, backend=backend, options={"fast": True})
    configured = stator.backends.resolve(backend, dynamic=None, options=None, mode=None)
    with pytest.raises(ValueError, match="configured already"):
        stator.compile(f, backend=configured, options={"fast": True})
    with pytest.raises(RuntimeError, match="fast"):
        stator.compile(f, backend="inductor", options={"fast": True})


WATCHED = """
    import sys, logging, ctypes, torch, stator
    logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s", level=logging.INFO)
    def f(x):
        return x + 1
    compiled = stator.compile(f, fullgraph=True)
    def follow(frame, event, argument): return follow
    def ignore(frame, event, argument): return None
    x = torch.ones(3)
    for trace in (follow, ignore):
        for _ in range(2):
            sys.settrace(trace); compiled(x); sys.settrace(None)
    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)
    def in_c(holder, frame, what, argument): return 0
    for _ in range(2):
        ctypes.pythonapi.PyEval_SetTrace(in_c, ctypes.py_object(x)); compiled(x)
        ctypes.pythonapi.PyEval_SetTrace(None, None)
"""


def test_debuggers_and_coverage():
    debugger, tracer, coverage = fresh(WATCHED).splitlines()
    assert debugger.startswith("WARNING f (<string>:4) runs uncompiled, because a debugger")
    assert tracer.startswith("WARNING f (<string>:4) runs compiled while a trace function is set")
    assert coverage.startswith("INFO f (<string>:4) runs compiled, so that coverage")
