"""`record_function` around parts of a program, and which of PyTorch's modes a context restores on exit."""

import textwrap

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

import stator
from tests.support.harness import Source, T, same

RECORDED = {
    "block": """
        def f(x):
            with torch.profiler.record_function("first"):
                x = x + 1
                with torch.autograd.profiler.record_function("second", "more") as record:
                    x = x * 2
            return x - 1, record.name
        """,
    "raised": """
        def f(x):
            try:
                with torch.profiler.record_function("first"):
                    x = x + 1
                    raise KeyError("inside")
            except KeyError as error:
                return x, str(error)
        """,
    "switch_inside": """
        def f(x):
            before = torch.is_grad_enabled()
            with torch.profiler.record_function("first"):
                torch.set_grad_enabled(False)
            y, seen = x * 2, torch.is_grad_enabled()
            torch.set_grad_enabled(before)
            return y, seen
        """,
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", RECORDED)
def test_recorded(name: str, backend: str | None) -> None:
    source = Source(textwrap.dedent(RECORDED[name]))
    same(source, T(3, grad=True), backend=backend, compare_dynamo=False)


IN_PIECES = {
    "break_inside": """
        def f(x):
            with torch.profiler.record_function("first"):
                x = x + 1
                print("inside")
                x = x * 2
            return x - 1
        """,
    "decorated": """
        @torch.profiler.record_function("whole")
        def inner(x):
            return x * 3

        def f(x):
            return inner(x) + inner(x + 1)
        """,
}


@pytest.mark.parametrize("name", IN_PIECES)
def test_in_pieces(name: str) -> None:
    def run(compiled: bool) -> object:
        f = Source(textwrap.dedent(IN_PIECES[name])).namespace()["f"]
        f = stator.compile(f, backend="eager") if compiled else f
        return [f(torch.arange(3.0)), f(torch.arange(3.0) + 1)]

    torch.testing.assert_close(run(True), run(False), rtol=0, atol=0)
    stator.reset()


@pytest.mark.parametrize("broken", [False, True])
def test_a_profiler_sees_them(broken: bool) -> None:
    def program(x):
        with torch.profiler.record_function("outer"):
            x = x + 1
            if broken:
                torch._dynamo.graph_break()
            with torch.profiler.record_function("inner"):
                x = x * 2
        return x

    compiled = stator.compile(program, backend="eager")
    for call in (compiled, compiled):
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            call(torch.ones(3))
        names = [event.name for event in profiler.events() if event.name in ("outer", "inner")]
        # A context that is open at a graph break is entered again after it.
        assert names == ["outer"] * (1 + broken) + ["inner"]
    stator.reset()


def test_entered_before_a_break_and_nothing_else() -> None:
    """No graph enters and leaves it: the program enters it once."""

    def program(x):
        with torch.profiler.record_function("outer"), torch.profiler.record_function("inner"):
            torch._dynamo.graph_break()
            return x * 2

    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    compiled = stator.compile(program, backend=backend)
    for call in (compiled, compiled):
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            assert torch.equal(call(torch.ones(3)), torch.full((3,), 2.0))
        assert [event.name for event in profiler.events() if event.name in ("outer", "inner")] == ["outer", "inner"]
    assert len(graphs) == 1
    stator.reset()


LEFT = {
    "autocast": "with torch.autocast('cpu', dtype=torch.bfloat16):\n        torch.set_grad_enabled(False)",
    "autocast_off": "with torch.autocast('cpu', enabled=False):\n        torch.set_grad_enabled(False)",
    "inference": "with torch.inference_mode():\n        torch.set_grad_enabled(True)",
    "nested": "with torch.inference_mode(False), torch.autocast('cpu'):\n        torch.set_grad_enabled(False)",
}


@pytest.mark.parametrize("is_broken", [False, True])
@pytest.mark.parametrize("name", LEFT)
def test_switched_inside_of_a_context(name: str, is_broken: bool) -> None:
    inside = "\n        print(torch.is_grad_enabled())" if is_broken else ""
    program = f"""
def f(x):
    before = torch.is_grad_enabled()
    {LEFT[name]}{inside}
    y, seen = x * 2, (torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled())
    torch.set_grad_enabled(before)
    return y, seen
"""
    same(Source(program), T(3, grad=True), fullgraph=not is_broken, compare_dynamo=False)
