"""What torch's own tools see of captures: counters, callbacks, metrics, logs and the structured trace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch._dynamo
from torch._dynamo.utils import counters

import stator
from tests.support.log_messages import log_messages
from tests.support.long import long_only
from tests.support.processes import python


@pytest.fixture(autouse=True)
def fresh_counters(installed: None) -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    yield
    counters.clear()


def program(x):
    y = torch.relu(x) + 1
    print(end="")
    return y * 2


def test_counters():
    compiled = torch.compile(program, backend="eager", dynamic=False)
    for _ in range(2):
        compiled(torch.ones(3))
    assert counters["stats"] == {"calls_captured": 3, "unique_graphs": 2}
    assert counters["frames"] == {"total": 2, "ok": 2}
    assert sum(counters["graph_break"].values()) == 1
    compiled(torch.ones(4))
    assert counters["stats"]["unique_graphs"] == 4


def test_callbacks():
    events = []
    torch._dynamo.on_compile_start(lambda args: events.append(("start", args.compile_id)))
    torch._dynamo.on_compile_end(lambda args: events.append(("end", args.compile_id)))
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    for size in (2, 2, 3):
        compiled(torch.ones(size))
    assert events == [("start", "0/0"), ("end", "0/0"), ("start", "0/1"), ("end", "0/1")]
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    assert [event for event, _ in events[4:]] == ["start", "end"]


def test_contexts_of_the_user():
    called = []
    torch._dynamo.utils.clear_compilation_metrics()
    torch._dynamo.register_hook_for_recompile_user_context(lambda: called.append(1) or f"epoch {len(called)}")
    try:
        compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
        for size in (2, 2, 3):
            compiled(torch.ones(size))
    finally:
        torch._dynamo.reset_recompile_user_contexts()
    assert [metrics.recompile_user_contexts for metrics in torch._dynamo.utils.get_compilation_metrics()] == [
        {"epoch 1"},
        {"epoch 2"},
    ]


def test_times_and_metrics():
    torch._dynamo.utils.clear_compilation_metrics()
    torch._dynamo.utils.compilation_time_metrics.clear()
    torch.compile(program, backend="eager")(torch.ones(3))
    first, second = torch._dynamo.utils.get_compilation_metrics()
    assert (first.co_name, first.graph_op_count, first.has_guarded_code, first.fail_type) == ("program", 2, True, None)
    assert second.graph_op_count == 1
    assert (first.graph_input_count, second.graph_input_count) == (1, 1)
    assert first.guard_count > 0
    assert (len(first.restart_reasons), len(second.restart_reasons)) == (1, 0)
    assert second.entire_frame_compile_time_s > 0
    assert "_compile.compile_inner" in torch._dynamo.utils.compile_times(repr="str")


def test_metrics_of_a_model_name_its_forward():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + 1

    torch._dynamo.utils.clear_compilation_metrics()
    compiled = torch.compile(Model(), backend="eager", dynamic=False)
    other = torch.compile(torch.nn.ReLU(), backend="eager", dynamic=False)
    for size in (2, 3):
        compiled(torch.ones(size))
        other(torch.ones(size))
    metrics = torch._dynamo.utils.get_compilation_metrics()
    code = Model.forward.__code__
    assert (metrics[0].co_name, metrics[0].co_filename, metrics[0].co_firstlineno) == (
        "forward",
        code.co_filename,
        code.co_firstlineno,
    )
    # Each has a number of its own, as in torch.
    assert [str(one.compile_id) for one in metrics] == ["0/0", "1/0", "0/1", "1/1"]
    assert [one.frame_key for one in metrics] == ["1", "2", "1", "2"]
    reasons = [one.recompile_reason for one in metrics]
    assert reasons[:2] == [None, None]
    assert [reason.partition("  # ")[0] for reason in reasons[2:]] == [
        "0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3",
        "1/0: tensor 'input' size mismatch at index 0. expected 2, actual 3",
    ]


@pytest.mark.parametrize("dynamic", [False, True])
def test_metrics_of_a_compiler_count_parameters(dynamic):
    torch._dynamo.utils.clear_compilation_metrics()
    model = torch.nn.Linear(2, 3)
    torch.compile(model, backend="aot_eager", dynamic=dynamic)(torch.ones(4, 2))
    (metrics,) = torch._dynamo.utils.get_compilation_metrics()
    assert (metrics.param_count, metrics.param_numel, metrics.param_bytes) == (2, 9, 36)
    assert metrics.stack_trace[-1].startswith("Line: ") and "Name: forward" in metrics.stack_trace[-1]


@pytest.mark.filterwarnings("ignore:A graph of")  # runs as it was captured
@pytest.mark.parametrize("is_suppressed", [False, True])
def test_metrics_of_a_backend_that_fails(is_suppressed):
    def failing(graph_module, inputs):
        raise ValueError("too hard")

    torch._dynamo.utils.clear_compilation_metrics()
    compiled = torch.compile(lambda x: x.sin(), backend=failing)
    expected = contextlib.nullcontext() if is_suppressed else pytest.raises(torch._dynamo.exc.BackendCompilerFailed)
    with torch._dynamo.config.patch(suppress_errors=is_suppressed), expected:
        compiled(torch.ones(3))
    (metrics,) = torch._dynamo.utils.get_compilation_metrics()
    assert metrics.fail_type == "BackendCompilerFailed"
    assert metrics.fail_reason == "backend='failing' raised:\nValueError: too hard"
    assert metrics.dynamo_time_before_restart_s > 0
    # The next one is of its own.
    torch.compile(lambda x: x.cos(), backend="eager")(torch.ones(3))
    assert torch._dynamo.utils.get_compilation_metrics()[-1].fail_type is None


def test_metrics_of_a_refused_recompile():
    torch._dynamo.utils.clear_compilation_metrics()

    @torch.compile(backend="eager", fullgraph=True)
    def f(x, flag):
        return x + 1 if flag else x - 1

    f(torch.ones(3), True)
    with torch._dynamo.config.patch(recompile_limit=1), pytest.raises(stator.RecompileLimitHit):
        f(torch.ones(3), False)
    first, second = torch._dynamo.utils.get_compilation_metrics()
    assert (first.shape_env_guard_count, first.recompile_reason, first.fail_type) == (0, None, None)
    assert second.fail_type == "RecompileLimitHit"
    assert "flag" in second.recompile_reason


def test_a_profiler_shows_compiled_regions():
    def regions(run):
        cpu = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=cpu) as profile, torch.profiler.record_function("step"):
            run()
        return [
            (event.name, event.cpu_parent.name)
            for event in profile.events()
            if event.name.startswith("Torch-Compiled Region") or event.name == "aten::relu"
        ]

    def fails(x):
        return x.relu() @ torch.ones(7)

    compiled, failing = torch.compile(program, backend="eager"), torch.compile(fails, backend="eager")
    first, second = "Torch-Compiled Region: 0/0", "Torch-Compiled Region: 1/0"
    for _ in range(2):
        assert regions(lambda: compiled(torch.ones(3))) == [(first, "step"), ("aten::relu", first), (second, "step")]
    with contextlib.suppress(RuntimeError):
        failing(torch.ones(3))
    with pytest.raises(RuntimeError):
        regions(lambda: failing(torch.ones(3)))
    assert regions(lambda: compiled(torch.ones(3))) == [(first, "step"), ("aten::relu", first), (second, "step")]
    stator.uninstall()
    alone = stator.compile(lambda x: x.relu(), backend="eager")
    assert regions(lambda: alone(torch.ones(3))) == [("aten::relu", "step")]


def test_explain_of_torch():
    explained = torch._dynamo.explain(program)(torch.ones(3))
    assert (explained.graph_count, explained.graph_break_count, explained.op_count) == (2, 1, 3)
    assert len(explained.graphs) == 2
    (broken,) = explained.break_reasons
    assert [frame.name for frame in broken.user_stack] == ["program"]
    text = str(explained)
    assert ":\n    Name: \"L['x']\"\n    Source: local\n    Create Function: TENSOR_MATCH\n" in text
    assert "Code List: [\"check_tensor(L['x'], Tensor, torch.float32, " in text


def test_nothing_is_counted_without_install():
    stator.uninstall()
    stator.compile(program)(torch.ones(3))
    assert not counters


LOGGED = """
import torch, stator
stator.install()

def program(x):
    y = torch.relu(x) + 1
    print(end="")
    return y * 2

compiled = torch.compile(program, backend="aot_eager", dynamic=False)
compiled(torch.ones(3))
compiled(torch.ones(4))
"""


WORDS = [
    "Recompiling function program in",
    "triggered by the following guard failure(s):",
    "    - 0/0: tensor 'x' size mismatch at index 0. expected 3, actual 4",
    "Graph break in user code at",
    "Graph Break Reason:",
    "User code traceback:",
    "GUARDS:",
    "[0/0]",
    "TRACED GRAPH",
    "__compiled_fn_1",
    "torch.relu",
    "torch.ops.aten.relu.default",
]


def test_logs():
    said = python("-c", LOGGED, TORCH_LOGS="recompiles,graph_breaks,guards,graph_code,graph,aot_graphs")
    for words in WORDS:
        assert words in said, said


@long_only
def test_logs_without_a_setting_and_without_installation():
    assert python("-c", LOGGED) == ""
    # The same without `install()`.
    beside = LOGGED.replace("stator.install()", "").replace("torch.compile(", "stator.compile(")
    assert "Recompiling function program in" in python("-c", beside, TORCH_LOGS="recompiles")


def test_logs_may_be_set_in_the_program():
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    compiled(torch.ones(2))
    torch._logging.set_logs(recompiles=True)
    try:
        with log_messages("torch._dynamo.guards.__recompiles") as messages:
            compiled(torch.ones(3))
    finally:
        torch._logging.set_logs()
    assert len(messages) == 1 and messages[0].startswith("Recompiling function <lambda> in")


def entries_of_trace(folder: Path) -> list[dict]:
    (file,) = folder.iterdir()
    # (What begins with a tab is a payload.)
    lines = [line for line in file.read_text().splitlines() if not line.startswith("\t")]
    return [json.loads(line[line.index("{") :]) for line in lines]


def test_storages_in_the_structured_trace_have_a_size(tmp_path: Path):
    """tlparse takes numbers alone, also where the sizes are symbols and the compiler gets FakeTensors."""
    program = """import torch, stator
stator.install()
run = torch.compile(lambda x: x.relu() * 2, backend="aot_eager")
for size in (3, 4):
    run(torch.ones(size))
"""
    python("-c", program, TORCH_TRACE=str(tmp_path))
    storages = [entry["describe_storage"] for entry in entries_of_trace(tmp_path) if "describe_storage" in entry]
    assert [storage["size"] for storage in storages] == [12, 16]


def test_the_structured_trace(tmp_path: Path):
    python("-c", LOGGED, TORCH_TRACE=str(tmp_path))
    entries = entries_of_trace(tmp_path)
    kinds = {kind for entry in entries for kind in entry}
    assert {"dynamo_start", "dynamo_output_graph", "dynamo_cpp_guards_str", "compilation_metrics"} <= kinds
    named = {entry["artifact"]["name"] for entry in entries if "artifact" in entry}
    assert {"recompile_reasons", "dynamo_graph_break_reason"} <= named
    graphs = [entry for entry in entries if "dynamo_output_graph" in entry]
    assert [(entry["frame_id"], entry["frame_compile_id"]) for entry in graphs] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert graphs[0]["dynamo_output_graph"]["sizes"]["l_x_"] == [3]
    # The calls that lead to each capture are the program's, and end with the compiled function.
    files = {number: file for entry in entries if "str" in entry for file, number in [entry["str"]]}
    for entry in entries:
        if "dynamo_start" in entry:
            stack = entry["dynamo_start"]["stack"]
            assert [frame["name"] for frame in stack] == ["<module>", "program"], stack
            assert {files[frame["filename"]] for frame in stack} == {"<string>"}
    # What profilers and tlparse show of the time that a capture takes.
    assert "chromium_event" in kinds
