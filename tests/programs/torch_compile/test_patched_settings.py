"""`torch._dynamo.config.patch` and `patch_dynamo_config` in compiled functions: they hold where the program is inside."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._dynamo import config

import stator
from tests.support.counting import counted_calls
from tests.support.harness import Source, T, same

pytestmark = pytest.mark.skipif(
    not hasattr(config.patch(verbose=True), "_prior"),
    reason="patches of this version of PyTorch can't be entered by several threads, and break the graph",
)

PATCHES = [
    "torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)",
    "torch._dynamo.patch_dynamo_config('capture_scalar_outputs', True)",
    "torch._dynamo.config.patch(capture_scalar_outputs=True)",
    "torch._dynamo.config.patch({'capture_scalar_outputs': True, 'verbose': False})",
    "MADE",
]


@pytest.fixture(autouse=True)
def settings_stay() -> Any:
    before = config.get_config_copy()
    yield
    changed = {name: value for name, value in config.get_config_copy().items() if value != before[name]}
    for name in changed:
        setattr(config, name, before[name])
    assert not changed


def program_with(patch: str, text: str) -> Any:
    """The function `f` of a program in which `MADE` is a patch that existed before."""
    names: dict[str, Any] = {"torch": torch}
    names["MADE"] = torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True)
    exec(text.replace("PATCH", patch), names)
    return names["f"]


@pytest.mark.parametrize("patch", PATCHES)
def test_a_context_changes_what_is_captured(patch: str) -> None:
    text = "def f(x):\n    with PATCH:\n        y = x.sum().item()\n    return x * y"
    first, second = counted_calls(program_with(patch, text), lambda: (torch.ones(3),), calls=2)
    assert (first.graphs_run, first.operations, first.captures) == (1, 2, 1)
    assert (second.graphs_run, second.captures) == (1, 0)


@pytest.mark.parametrize("patch", PATCHES)
def test_a_decorator_changes_what_is_captured(patch: str) -> None:
    text = "@PATCH\ndef inner(x):\n    return x.sum().item()\ndef f(x):\n    return x * inner(x)"
    first, second = counted_calls(program_with(patch, text), lambda: (torch.ones(3),), calls=2)
    assert (first.graphs_run, first.operations, first.captures) == (1, 2, 1)
    assert (second.graphs_run, second.captures) == (1, 0)


def test_it_ends_where_the_context_ends() -> None:
    text = "def f(x):\n    with PATCH:\n        y = x + 1\n    return x * x.sum().item() + y"
    for patch in PATCHES:
        first, _ = counted_calls(program_with(patch, text), lambda: (torch.ones(3),), calls=2)
        assert first.graphs_run == 2, patch


def test_an_inner_patch_ends_before_the_outer_one() -> None:
    text = """
def f(x):
    with PATCH:
        with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=False):
            y = x + 1
        return x * x.sum().item() + y
"""
    for patch in PATCHES:
        first, _ = counted_calls(program_with(patch, text), lambda: (torch.ones(3),), calls=2)
        assert first.graphs_run == 1, patch


@torch.compiler.disable
def now() -> bool:
    return config.capture_scalar_outputs


READS = """
import torch
from tests.programs.torch_compile.test_patched_settings import now

def f(x):
    seen = [torch._dynamo.config.capture_scalar_outputs]
    with PATCH:
        seen.append(torch._dynamo.config.capture_scalar_outputs)
        y = x + 1
        BREAK
        seen.append(torch._dynamo.config.capture_scalar_outputs)
    seen.append(torch._dynamo.config.capture_scalar_outputs)
    return y * 2, seen
"""


@pytest.mark.parametrize("patch", PATCHES[:4])
@pytest.mark.parametrize("breaks", [False, True])
def test_the_program_reads_the_patched_value(patch: str, breaks: bool) -> None:
    text = READS.replace("PATCH", patch).replace("BREAK", "seen.append(now())" if breaks else "pass")
    same(Source(text), T(3), fullgraph=not breaks, compare_dynamo=False)


def test_a_break_inside_of_a_patch_that_existed_before() -> None:
    f = program_with("MADE", READS.replace("BREAK", "seen.append(now())"))
    compiled = stator.compile(f, backend="eager")
    for _ in range(3):
        assert compiled(torch.ones(3))[1] == [False, True, True, True, False]


def test_the_value_before_is_that_of_the_call() -> None:
    f = program_with(PATCHES[2], READS.replace("BREAK", "seen.append(now())"))
    compiled = stator.compile(f, backend="eager")
    for outside in (False, True, False):
        with config.patch(capture_scalar_outputs=outside):
            assert compiled(torch.ones(3))[1] == [outside, True, True, True, outside]
            assert config.capture_scalar_outputs is outside


def test_an_exception_leaves_the_patch() -> None:
    text = """
import torch
def f(x, fails):
    try:
        with PATCH:
            y = x + 1
            if fails:
                raise ValueError("inside")
    except ValueError:
        y = x * 2
    return y, torch._dynamo.config.capture_scalar_outputs
"""
    for patch in PATCHES[:4]:
        for fails in (False, True):
            same(Source(text.replace("PATCH", patch)), T(3), fails, compare_dynamo=False)


def test_a_generator_that_is_suspended_inside() -> None:
    text = """
import torch
def numbers(x):
    with torch._dynamo.patch_dynamo_config(capture_scalar_outputs=True):
        yield x + 1
        yield x + 2

def f(x):
    made = numbers(x)
    first = next(made)
    inside = torch._dynamo.config.capture_scalar_outputs
    return first, inside, list(made), torch._dynamo.config.capture_scalar_outputs
"""
    same(Source(text), T(3), compare_dynamo=False)


def test_other_settings_break_the_graph() -> None:
    text = "import torch\ndef f(x):\n    with torch._dynamo.config.patch(recompile_limit=3):\n        y = x + 1\n    return y"
    same(Source(text), T(3), fullgraph=False)
    with pytest.raises(stator.Unsupported, match=r"a setting of torch\._dynamo\.config is changed"):
        stator.compile(program_with("", text), fullgraph=True)(torch.ones(3))


@pytest.mark.parametrize("arguments", ["recompile_limit=1", "nonexistent=1", "'verbose', {'a': 1}"])
def test_what_torch_refuses_is_refused(arguments: str) -> None:
    text = f"import torch\ndef f(x):\n    with torch._dynamo.patch_dynamo_config({arguments}):\n        return x + 1"
    same(Source(text), T(3), fullgraph=False, compare_dynamo=False)


def test_data_sizes_and_gradients_of_the_program() -> None:
    def sizes(x: torch.Tensor) -> torch.Tensor:
        with config.patch(capture_dynamic_output_shape_ops=True):
            return x.nonzero() * 2

    def gradients(x: torch.Tensor) -> Any:
        with config.patch(trace_autograd_ops=True):
            y = x.detach().requires_grad_()
            return torch.autograd.grad((y * y).sum(), y)[0] + 1

    for program in (sizes, gradients):
        report = stator.explain(program)(torch.ones(3))
        assert (len(report.captures), report.breaks) == (1, []), program


def test_marks_of_torch_that_are_patches() -> None:
    text = """
import torch
@torch._dynamo.dont_skip_tracing
def one(x): return x + 1
@torch._dynamo.disable_nested_graph_breaks
def two(x): return one(x) * 2
def f(x):
    with torch._dynamo.disable_nested_graph_breaks():
        return two(x)
"""
    first, second = counted_calls(program_with("", text), lambda: (torch.ones(3),), calls=2)
    assert (first.graphs_run, first.operations, second.captures) == (1, 2, 0)
