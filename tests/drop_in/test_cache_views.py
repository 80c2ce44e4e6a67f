"""What tools that read TorchDynamo's caches see of Stator's entries."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch._dynamo
from torch._dynamo import config as dynamo_config
from torch._dynamo import eval_frame
from torch._dynamo.testing import CompileCounter

from tests.support.processes import fresh

pytestmark = pytest.mark.skipif(
    "isolate_recompiles" not in inspect.signature(torch.compile).parameters, reason="of later versions of PyTorch"
)


@pytest.fixture(autouse=True)
def fresh_caches(installed: None) -> None:
    torch._dynamo.reset()


def make():
    def f(x):
        return x.sin()

    return f


def entries(function):
    return eval_frame._debug_get_cache_entry_list(function)


def test_entries_of_a_function():
    f = make()
    compiled = torch.compile(f, backend="eager", dynamic=False)
    assert entries(f) == []
    for size in (2, 3, 2):
        compiled(torch.ones(size))
    # The last used one first.
    assert [str(entry.compile_id) for entry in entries(f)] == ["0/0", "0/1"]
    first = entries(f)[0]
    assert first.code is f.__code__ and first.isolate_recompiles_id == -1
    assert any("L['x']" in guard for guard in first.guards)
    torch._dynamo.reset()
    assert entries(f.__code__) == []


def test_an_entry_that_two_callables_use_is_listed_once():
    f = make()
    one, other = (torch.compile(f, backend="eager") for _ in range(2))
    assert torch.equal(one(torch.ones(2)), other(torch.ones(2)))
    assert len(entries(f)) == 1


def test_entries_after_a_graph_break():
    from torch._dynamo.resume_execution import ContinueExecutionCache

    held = {"y": torch.ones(2)}

    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x + held["y"].sum()

    compiled = torch.compile(f, backend="eager", dynamic=False)
    with pytest.raises(KeyError):
        ContinueExecutionCache.cache[f.__code__]
    compiled(torch.ones(1))
    held["y"] = torch.ones(3)
    compiled(torch.ones(1))
    (rest,) = ContinueExecutionCache.cache[f.__code__].values()
    assert (len(entries(f)), len(entries(rest))) == (1, 2)
    torch._dynamo.reset()
    with pytest.raises(KeyError):
        ContinueExecutionCache.cache[f.__code__]


def test_regions():
    f = make()
    regions = [torch.compile(f, backend="eager", isolate_recompiles=True) for _ in range(3)]
    for region in reversed(regions):
        region(torch.ones(2))
    torch.compile(f, backend="eager")(torch.ones(2))
    numbers = [region._isolate_recompiles_id for region in regions]
    assert [entry.isolate_recompiles_id for entry in entries(f)] == [-1, *sorted(numbers)]
    assert all(len(eval_frame._get_cache_entries_for_region(f, number)) == 1 for number in [-1, *numbers])
    assert eval_frame._get_total_cache_entry_count(f) == 4


@dynamo_config.patch(accumulated_recompile_limit=3, automatic_dynamic_shapes=False)
def test_the_accumulated_limit_is_for_all_callables_of_a_code():
    f, counter = make(), CompileCounter()
    one, other = (torch.compile(f, backend=counter, dynamic=False, isolate_recompiles=True) for _ in range(2))
    for size, compiled in enumerate((one, other, one, other, one), 2):
        x = torch.ones(size)
        assert torch.equal(compiled(x), f(x))
    assert counter.frame_count == 3


def test_what_changes_is_known_to_isolated_callables():
    f, counter = make(), CompileCounter()
    compiled = torch.compile(f, backend="eager")
    for size in (2, 3):
        compiled(torch.ones(size))
    other = torch.compile(f, backend=counter, isolate_recompiles=True)
    for size in (4, 5):
        other(torch.ones(size))
    assert counter.frame_count == 1


def test_skipped_code_runs_uncompiled():
    def f(x):
        return x.sin()

    def calls(x):
        return f(x) + 1

    counter = CompileCounter()
    eval_frame.skip_code(f.__code__)
    x = torch.ones(2)
    assert torch.equal(torch.compile(f, backend=counter)(x), f(x))
    assert counter.frame_count == 0
    # It is inlined all the same.
    assert torch.equal(torch.compile(calls, backend=counter)(x), calls(x))
    assert (counter.frame_count, counter.op_count) == (1, 2)


def test_the_guards_of_others_that_were_tried_are_told():
    f, failed = make(), {"default": [], "isolated": []}

    def compiled(name, **options):
        told = failed[name]
        return torch._dynamo.optimize(
            "eager", guard_fail_fn=lambda failure: told.append(failure[0]), dynamic=False, **options
        )(f)

    default = compiled("default")
    default(torch.ones(2))
    isolated = compiled("isolated", isolate_recompiles=True)
    isolated(torch.ones(3))
    assert failed == {"default": [], "isolated": []}
    isolated(torch.ones(4))
    assert "expected 2, actual 4" in failed["default"][0] and "expected 3, actual 4" in failed["isolated"][0]


OWN = """
import torch, torch._dynamo, stator
from torch._dynamo import eval_frame
names = ("_debug_get_cache_entry_list", "_get_cache_entries_for_region", "_get_total_cache_entry_count", "skip_code")
before = [getattr(eval_frame, name) for name in names]
for _ in range(2):
    with stator.installed():
        print(sum(getattr(eval_frame, name) is function for name, function in zip(names, before)))
    print(sum(getattr(eval_frame, name) is function for name, function in zip(names, before)))
"""


def test_the_functions_are_torchs_own_again():
    assert fresh(OWN).split() == ["0", "4", "0", "4"]


def test_the_rest_of_a_frame_runs_uncompiled_after_step_unsupported():
    counter = CompileCounter()

    @torch.compile(backend=counter)
    def f(x):
        x = x + 1 + 2
        torch._dynamo.step_unsupported()
        return x + 4

    for _ in range(2):
        assert torch.equal(f(torch.ones(3)), torch.full((3,), 8.0))
    assert (counter.frame_count, counter.op_count) == (1, 2)
