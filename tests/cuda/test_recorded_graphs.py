"""CUDA graphs that the backend `stator` records by itself: every program does what it does uncompiled, bit for bit.

Needs a GPU. The decisions are tested without one in `tests/graph/test_recorded_parts.py`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from stator.backends import prepared_calls
from tests.support.described import described

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")

Tensor = torch.Tensor


def compiled(program: Callable, runners: list[Any] | None = None, **options: Any) -> Callable:
    def backend(module: Any, inputs: Any) -> Any:
        runner = prepared_calls(module, inputs, options=options)
        if runners is not None:
            runners.append(runner)
        return runner

    return torch.no_grad()(stator.compile(program, backend=backend))


def replays(runners: list[Any]) -> int:
    return sum(part["replays"] for runner in runners for part in runner.recorded)


def reasons(runners: list[Any]) -> list[str]:
    return [part["reason"] for runner in runners for part in runner.recorded if part["reason"]]


def long(x: Tensor) -> Tensor:
    for _ in range(6):
        x = x.sin() + 0.5
    return x


def x(*sizes: int) -> Tensor:
    return torch.randn(*sizes or (4, 8), device="cuda")


def same(
    program: Callable,
    arguments: Callable[[int], tuple[Any, ...]],
    calls: int = 10,
    least_replays: int = 6,
    **options: Any,
) -> list[Any]:
    """Both worlds get their own arguments, made by the same function with the same random state."""
    runners: list[Any] = []
    function = compiled(program, runners, **options)
    worlds: list[list[tuple[Any, ...]]] = []
    for _ in range(2):
        torch.manual_seed(0)
        worlds.append([arguments(number) for number in range(calls)])
    for given, also_given in zip(*worlds, strict=True):
        torch.manual_seed(1)
        with torch.no_grad():
            expected = program(*given)
        after = torch.cuda.get_rng_state()
        torch.manual_seed(1)
        found = function(*also_given)
        assert described(found, also_given) == described(expected, given)
        assert described(also_given) == described(given)
        assert torch.equal(torch.cuda.get_rng_state(), after)
    assert replays(runners) >= least_replays, reasons(runners)
    return runners


def test_inputs_that_stay_and_inputs_that_move() -> None:
    stays, kept = x(), []

    def moves(number: int) -> tuple[Tensor]:
        kept.append(x())
        return (kept[-1],)

    same(long, lambda number: (stays,))
    same(long, moves)
    same(long, lambda number: (stays,) if number < 5 else moves(number))
    # Strides of any kind, alignment of any kind, numbers of elements of any kind.
    same(long, lambda number: (x(8, 4).t(),))
    same(long, lambda number: (x(40)[number:][:7],), least_replays=1)
    same(long, lambda number: (x(8, 4)[::2],))
    same(long, lambda number: (x(1, 4).expand(3, 4),), least_replays=0)
    same(long, lambda number: (x(0, 4),))


def test_dtypes() -> None:
    def program(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return long(a).half() + long(b.float()).half() + long(c)

    same(program, lambda number: (x(), x().mul(10).int(), x().half()))


def test_a_model_and_its_parameters() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16)) for _ in range(6))).cuda()
    same(lambda a: model(a), lambda number: (x(4, 16),))
    function = compiled(model)
    a = x(4, 16)
    for number in range(12):
        if number == 5:
            model[0][0].weight.data = x(16, 16)
        if number == 8:
            with torch.no_grad():
                model[1][0].weight.mul_(0.5)
        with torch.no_grad():
            expected = model(a)
        assert torch.equal(function(a), expected)


def test_training_is_not_recorded() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.ReLU()) for _ in range(6))).cuda()
    runners: list[Any] = []
    function = stator.compile(
        model, backend=lambda module, inputs: runners.append(prepared_calls(module, inputs)) or runners[-1]
    )
    for _ in range(5):
        a = x(4, 16)
        grads = []
        for call in (model, function):
            model.zero_grad()
            call(a).sum().backward()
            grads.append([p.grad.clone() for p in model.parameters()])
        assert all(torch.equal(one, other) for one, other in zip(*grads, strict=True))
    assert replays(runners) == 0


@pytest.mark.parametrize("moves", [False, True])
def test_views_among_results_and_inputs(moves: bool) -> None:
    def program(a: Tensor) -> tuple[Any, ...]:
        y = long(a)
        z = y.add_(1).t()
        b, c = (y * 2).split(2)
        return y, y, z, z[1:], b, a.view(-1), a[1].unsqueeze(0), y.expand(2, 4, 2), c[:, 0], a

    one = x(4, 2)
    same(program, lambda number: (x(4, 2) if moves else one,))
    function = compiled(program)
    for _ in range(5):
        y, also_y, z, part, b, view, row, expanded, c, a = function(one)
        y.fill_(3)
        assert also_y is y and a is one and bool((z == 3).all()) and bool((part == 3).all())
        assert bool((expanded == 3).all()) and row._base is one and view.data_ptr() == one.data_ptr()
        assert c.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_results_are_fresh() -> None:
    a, function = x(), compiled(long)
    results = [function(a) for _ in range(8)]
    expected = long(a)
    assert len({each.data_ptr() for each in results}) == 8
    results[0].zero_()
    assert all(torch.equal(each, expected) for each in results[1:])


def test_results_that_may_be_overwritten() -> None:
    inputs = [x() for _ in range(8)]
    function = compiled(long, overwrite_results=True)
    results = []
    for a in inputs:
        results.append(function(a))
        assert torch.equal(results[-1], long(a))
    assert len({each.data_ptr() for each in results[3:]}) == 1


def test_results_live_as_long_as_the_step_that_the_program_has_marked() -> None:
    inputs = [x() for _ in range(3)]
    function = compiled(long, overwrite_results=True)
    for a in inputs:
        function(a)
    steps = []
    try:
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            steps.append([function(a) for a in inputs])
            assert all(torch.equal(found, long(a)) for found, a in zip(steps[-1], inputs, strict=True))
    finally:
        from torch._inductor.cudagraph_trees import MarkStepBox

        MarkStepBox.mark_step_counter = 0
    assert len({step[0].data_ptr() for step in steps[1:]}) == 1
    assert len({each.data_ptr() for each in steps[-1]}) == 3


def test_a_cache_that_is_written_to() -> None:
    def program(a: Tensor, cache: Tensor, position: Tensor) -> Tensor:
        cache.index_copy_(0, position, long(a)[None])
        return (cache[1:].mul_(1.5) + 1).sum(0)

    for requests in (1, 3):
        caches: dict[tuple[int, int], Tensor] = {}
        turn = iter(range(1000))

        def arguments(number: int, requests: int = requests, caches: Any = caches, turn: Any = turn) -> Any:
            key = (next(turn) // (10 * requests), number // 10)
            return x(3), caches.setdefault(key, torch.zeros(4, 3, device="cuda")), torch.tensor([number % 4]).cuda()

        same(program, arguments, calls=10 * requests)


def test_inputs_that_share_memory() -> None:
    def program(a: Tensor, b: Tensor) -> Tensor:
        b.add_(1)
        return long(a) + b

    memory = [torch.ones(64, device="cuda"), torch.ones(64, device="cuda")]
    worlds = iter(range(1000))

    def arguments(number: int) -> tuple[Tensor, Tensor]:
        base = memory[next(worlds) // 12]
        return base[8:12] if number in (5, 8) else x(4), base[4:12:2]

    same(program, arguments, calls=12, least_replays=4)


def test_running_statistics() -> None:
    torch.manual_seed(0)
    models = [nn.Sequential(*(nn.BatchNorm1d(16) for _ in range(12))).cuda().train() for _ in range(2)]
    functions = [torch.no_grad()(models[0]), compiled(models[1])]
    for _ in range(10):
        a = x(8, 16)
        assert torch.equal(*(function(a) for function in functions))
        for one, other in zip(models[0].buffers(), models[1].buffers(), strict=True):
            assert torch.equal(one, other)


def test_random_numbers() -> None:
    def program(a: Tensor) -> Tensor:
        for _ in range(6):
            a = F.dropout(a, 0.3) + torch.rand_like(a)
        return a

    a = x(64)
    runners = same(program, lambda number: (a,))
    # Also between random numbers drawn elsewhere, without a seed before each call.
    function = compiled(program)
    torch.manual_seed(3)
    expected = [(program(a), torch.randn(5, device="cuda")) for _ in range(6)]
    torch.manual_seed(3)
    found = [(function(a), torch.randn(5, device="cuda")) for _ in range(6)]
    assert described(found) == described(expected)
    assert replays(runners) > 0


def test_sizes_that_repeat() -> None:
    runners: list[Any] = []
    function = compiled(long, runners)
    for number in range(40):
        a = x(2 + number % 5, 8)
        if number < 2:
            torch._dynamo.mark_dynamic(a, 0)
        assert torch.equal(function(a), long(a))
    assert sum(part["recordings"] for part in runners[-1].recorded) == 5
    assert replays(runners) > 20


def test_synchronising_operations_run_in_between() -> None:
    def program(a: Tensor, mask: Tensor) -> tuple[Any, ...]:
        b = long(a)
        chosen = b[mask]
        c = long(b) * b.sum().item()
        return long(c), chosen.sum(), long(c).cpu(), long(c)

    mask = torch.tensor([True, False, True, True], device="cuda")
    with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        same(program, lambda number: (x(4), mask), least_replays=6)


def test_a_capture_that_fails() -> None:
    """An operator that waits for the device without saying so."""

    def program(a: Tensor, count: Tensor) -> Tensor:
        count.add_(1)
        for _ in range(6):
            a = a.sin() + 1
        lengths = torch.arange(4, device="cuda")
        a = torch.segment_reduce(a.float(), "sum", lengths=lengths[:1] + a.shape[0], unsafe=False)
        for _ in range(6):
            a = a.cos() + 1
        return torch.dropout(a, 0.5, True) + count

    runners = same(program, lambda number: (x(8), torch.zeros(1, device="cuda")), calls=6, least_replays=0)
    assert replays(runners) > 0 or reasons(runners)
    # Nothing is left of it: random numbers, allocations and other recordings work.
    test_random_numbers()
    torch.cuda.empty_cache()
    test_results_are_fresh()


def test_streams() -> None:
    """Recordings share memory: replays on two streams wait for each other."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.ReLU()) for _ in range(12))).cuda().eval()
    function = compiled(model)
    inputs = [x(256, 512) for _ in range(24)]
    with torch.no_grad():
        expected = [model(a) for a in inputs]
    for a in inputs[:4]:
        function(a)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    results = []
    for number, a in enumerate(inputs):
        with torch.cuda.stream(streams[number % 3]):
            results.append(function(a))
    torch.cuda.synchronize()
    assert all(torch.equal(one, other) for one, other in zip(results, expected, strict=True))


def test_threads() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(12))).cuda().eval()
    function = compiled(model)
    inputs = [x(8, 64) for _ in range(4)]
    with torch.no_grad():
        expected = [model(a) for a in inputs]
    wrong: list[int] = []

    def work(number: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(100):
                if not torch.equal(function(inputs[number]), expected[number]):
                    wrong.append(number)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_program_captures_by_itself() -> None:
    a = x()
    function = compiled(long)
    for _ in range(4):
        function(a)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(a)
    for _ in range(3):
        a.copy_(x())
        graph.replay()
        assert torch.equal(result, long(a))


def test_the_cache_of_the_allocator_is_emptied() -> None:
    function = compiled(long)
    for number in range(12):
        a = x(100, 100)
        if number % 3 == 2:
            torch.cuda.empty_cache()
        assert torch.equal(function(a), long(a))


def test_several_devices() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one CUDA device")
    function = compiled(long)
    for number in range(12):
        a = torch.randn(4, device=f"cuda:{number % 2}")
        assert torch.equal(function(a), long(a))


def test_modes() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8))).cuda().eval()
    function = stator.compile(model, backend="stator")
    for enter in (
        torch.inference_mode,
        torch.no_grad,
        lambda: torch.autocast("cuda", torch.bfloat16),
        lambda: torch.autocast("cuda", torch.float16, cache_enabled=False),
    ):
        for number in range(8):
            a = x(8, 64)
            with torch.no_grad(), enter():
                expected = model(a)
                found = function(a)
                assert described(found) == described(expected)
    a = x(8, 64)
    with torch.no_grad(), torch.profiler.profile() as profile:
        assert torch.equal(function(a), model(a))
    assert "aten::addmm" in {event.name for event in profile.events()}


def test_settings_that_choose_kernels() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU()) for _ in range(8))).cuda().eval()
    function = compiled(model)
    a = x(2, 8, 32, 32)
    for allow in (False, True, False):
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=allow, deterministic=True), torch.no_grad():
            for _ in range(5):
                assert torch.equal(function(a), model(a))


def test_memory_over_many_graphs() -> None:
    def once() -> None:
        model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8))).cuda()
        function = compiled(model)
        a = x(8, 64)
        for _ in range(5):
            function(a)

    seen = []
    for number in range(1000):
        once()
        if number % 100 == 99:
            stator.reset()
            gc.collect()
            torch.cuda.empty_cache()
            free, _ = torch.cuda.mem_get_info()
            seen.append((torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), free))
    assert seen[-1][0] <= seen[1][0] and seen[-1][1] <= seen[1][1]
    assert seen[1][2] - seen[-1][2] < 64 << 20


def test_nothing_keeps_the_model_alive() -> None:
    import weakref

    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(8))).cuda()
    function = compiled(lambda a: model(a))
    for _ in range(5):
        function(x(8, 64))
    weight = weakref.ref(model[0][0].weight)
    del model, function
    stator.reset()
    gc.collect()
    assert weight() is None


def test_a_decoder() -> None:
    from bench.gpu import Cache, Decoder

    torch.manual_seed(0)
    where = {"device": "cuda", "dtype": torch.bfloat16}
    model = Decoder(4, 256, 4, 64, vocabulary=1000).to(**where).eval()
    runners: list[Any] = []
    function = compiled(model, runners)
    for _ in range(2):
        ours, theirs = Cache(4, 4, 64, 256, **where), Cache(4, 4, 64, 256, **where)
        for number in range(10):
            token = torch.randint(0, 1000, (1, 1), device="cuda")
            position = torch.tensor([number], device="cuda")
            with torch.no_grad():
                expected = model(token, theirs, position)
            assert torch.equal(function(token, ours, position), expected)
            assert all(torch.equal(a, b) for a, b in zip(ours.keys, theirs.keys, strict=True))
    assert replays(runners) >= 14
    assert [part["reason"] for part in runners[-1].recorded] == [""]
