"""When parts of a program are recorded by their device, with which inputs copied, and what a replay does.

No device is needed: a recorder in Python takes the place of CUDA. It keeps the calls of a row and makes them again at
a replay, on the tensors that it got when it recorded, into the memory of the first results, as a device does.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator import _testing
from stator.backends import prepared_calls
from stator.cuda_graphs import CudaRecorder
from tests.support.described import described

Tensor = torch.Tensor


class Recorder:
    """Records on the CPU."""

    def __init__(self) -> None:
        self.recorded: list[list[str]] = []  # of each recording, for each input: "copied" or "in place"
        self.replays = 0
        self.pools = 0
        self.captured_by_program = False
        self.failure: BaseException | None = None
        self.before_replay: Callable[[], None] = lambda: None
        self.bytes, self.most_bytes = 1, 1 << 20

    def is_capturing(self) -> bool:
        return self.captured_by_program

    def new_pool(self) -> object:
        self.pools += 1
        return object()

    def limit(self, device: int) -> int:
        return self.most_bytes

    def current_step(self) -> int:
        return CudaRecorder.current_step(self)  # type: ignore[arg-type]

    def record(self, body: Callable, inputs: list[Tensor], copied: list[int], device: int, pool: object) -> Any:
        self.recorded.append(["copied" if place in copied else "in place" for place in range(len(inputs))])
        for place in copied:
            inputs[place] = inputs[place].clone()
        used = list(inputs)
        contents = [each.untyped_storage().clone() for each in used]
        state = torch.get_rng_state()
        try:
            results = body(inputs)
            if self.failure is not None:
                raise self.failure
        finally:
            # Nothing is executed while a device records.
            for each, content in zip(used, contents, strict=True):
                each.untyped_storage().copy_(content)
            torch.set_rng_state(state)

        def replay() -> None:
            self.replays += 1
            self.before_replay()
            versions = [each._version for each in inputs]
            for to, made in zip(results, body(inputs), strict=True):
                to.copy_(made)
            torch._C._autograd._unsafe_set_version_counter(tuple(inputs), tuple(versions))

        return replay, self.bytes


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    _testing.set_recorder("cpu", made)
    yield made
    _testing.set_recorder("cpu", None)


def compiled(program: Callable, runners: list[Any] | None = None, **options: Any) -> Callable:
    def backend(module: Any, inputs: Any) -> Any:
        runner = prepared_calls(module, inputs, options=options)
        if runners is not None:
            runners.append(runner)
        return runner

    return torch.no_grad()(stator.compile(program, backend=backend))


def long(x: Tensor) -> Tensor:
    """Enough calls to be worth a recording."""
    for _ in range(6):
        x = x.sin() + 0.5
    return x


def same(program: Callable, arguments: Callable[[int], tuple[Any, ...]], calls: int = 10, **options: Any) -> Any:
    """Both worlds get their own arguments, made by the same function. Returns the runner of the last graph."""
    runners: list[Any] = []
    function = compiled(program, runners, **options)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    theirs = [arguments(number) for number in range(calls)]
    torch.set_rng_state(state)
    ours = [arguments(number) for number in range(calls)]
    for given, also_given in zip(theirs, ours, strict=True):
        torch.manual_seed(1)
        with torch.no_grad():
            expected = program(*given)
        after = torch.get_rng_state()
        torch.manual_seed(1)
        found = function(*also_given)
        assert described(found, also_given) == described(expected, given)
        assert described(also_given) == described(given)
        assert torch.equal(torch.get_rng_state(), after)
    return runners[-1]


def test_the_third_call_is_recorded(recorder: Recorder) -> None:
    x = torch.randn(4)
    runner = same(long, lambda number: (x,))
    assert (recorder.recorded, recorder.replays, recorder.pools) == ([["in place"]], 8, 1)
    assert runner.recorded == [
        {"first": 0, "last": 12, "name": "sin", "calls": 12, "recordings": 1, "replays": 8, "reason": ""}
    ]


def test_an_input_that_moves_is_copied(recorder: Recorder) -> None:
    kept = []

    def arguments(number: int) -> tuple[Tensor]:
        kept.append(torch.randn(4))
        return (kept[-1],)

    same(long, arguments)
    assert (recorder.recorded, recorder.replays) == ([["copied"]], 8)


def test_an_input_that_moves_later_is_noticed(recorder: Recorder) -> None:
    first = torch.randn(4)
    others = [torch.randn(4) for _ in range(10)]
    same(long, lambda number: (first if number < 5 else others[number],))
    assert (recorder.recorded, recorder.replays) == ([["in place"], ["copied"]], 8)


def test_parameters_stay_where_they_are(recorder: Recorder) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(6))).eval()
    inputs = [torch.randn(2, 4) for _ in range(10)]
    same(lambda x: model(x), lambda number: (inputs[number],))
    assert sorted(recorder.recorded[0]) == ["copied"] + ["in place"] * 12
    # Setting a parameter's data moves it; changing it in place does not.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.5)
    x = inputs[0]
    function = compiled(model)
    for number in range(8):
        if number == 5:
            model[0][0].weight.data = torch.randn(4, 4)
        with torch.no_grad():
            assert torch.equal(function(x), model(x))


def test_calls_that_autograd_records_are_not(recorder: Recorder) -> None:
    def program(x: Tensor) -> Tensor:
        return long(x)

    x = torch.randn(4, requires_grad=True)
    function = stator.compile(program, backend="stator")
    for _ in range(5):
        result = function(x)
        assert torch.autograd.grad(result.sum(), x)[0].shape == (4,)
    assert recorder.recorded == []
    y = torch.randn(4)  # grad mode is on, but there is nothing to record
    for _ in range(5):
        assert torch.equal(function(y), program(y))
    assert len(recorder.recorded) == 1


def test_results_are_fresh(recorder: Recorder) -> None:
    x = torch.randn(4)
    function = compiled(long)
    results = [function(x) for _ in range(6)]
    assert len({each.data_ptr() for each in results}) == 6
    results[-1].zero_()
    assert torch.equal(results[-2], long(x)) and torch.equal(function(x), long(x))


def mark_steps(monkeypatch: pytest.MonkeyPatch, counter: int) -> SimpleNamespace:
    """What `torch.compiler.cudagraph_mark_step_begin` counts, without the import, which takes seconds."""
    box = SimpleNamespace(mark_step_counter=counter)
    monkeypatch.setitem(sys.modules, "torch._inductor.cudagraph_trees", SimpleNamespace(MarkStepBox=box))
    return box


def test_results_that_may_be_overwritten(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_steps(monkeypatch, 0)
    inputs = [torch.randn(4) for _ in range(6)]
    function = compiled(long, overwrite_results=True)
    results = [function(x) for x in inputs]
    assert len({each.data_ptr() for each in results[2:]}) == 1
    assert torch.equal(results[2], long(inputs[-1]))


def test_results_live_as_long_as_the_step_that_the_program_has_marked(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = mark_steps(monkeypatch, 0)
    inputs = [torch.randn(4) for _ in range(3)]
    function = compiled(long, overwrite_results=True)
    for x in inputs:
        function(x)
    steps = []
    for _ in range(2):
        box.mark_step_counter -= 1
        steps.append([function(x) for x in inputs])
        assert all(torch.equal(found, long(x)) for found, x in zip(steps[-1], inputs, strict=True))
    # The first call of a step overwrites that of the step before; the others have memory of their own.
    assert steps[0][0].data_ptr() == steps[1][0].data_ptr()
    assert len({each.data_ptr() for step in steps for each in step}) == 5
    assert recorder.replays == 3


def test_steps_mean_nothing_to_fresh_results(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    mark_steps(monkeypatch, -1)
    x = torch.randn(4)
    same(long, lambda number: (x,))
    assert recorder.replays == 8


def test_without_recordings(recorder: Recorder) -> None:
    x = torch.randn(4)
    same(long, lambda number: (x,), cuda_graphs=False)
    assert recorder.recorded == []


@pytest.mark.parametrize("moves", [False, True])
def test_views_among_results_and_inputs(recorder: Recorder, moves: bool) -> None:
    def program(x: Tensor) -> tuple[Any, ...]:
        y = long(x)
        z = y.add_(1).t()
        a, b = (y * 2).split(2)
        return y, y, z, z[1:], a, x.view(8), x[1].unsqueeze(0), y.expand(2, 4, 2), b[:, 0]

    one = torch.randn(4, 2)
    same(program, lambda number: (torch.randn(4, 2) if moves else one,))
    assert recorder.replays == 8
    function = compiled(program)
    for _ in range(5):
        y, also_y, z, part, a, view, row, expanded, b = function(one)
        y.fill_(3)
        assert also_y is y and bool((z == 3).all()) and bool((part == 3).all()) and bool((expanded == 3).all())
        a.fill_(5)
        assert b.untyped_storage().data_ptr() == a.untyped_storage().data_ptr()
        assert view.data_ptr() == one.data_ptr() and row._base is one


def test_an_input_that_is_written_to(recorder: Recorder) -> None:
    def program(x: Tensor, cache: Tensor, position: Tensor) -> Tensor:
        cache.index_copy_(0, position, long(x)[None])
        return (cache[1:].mul_(1.5) + 1).sum(0)

    caches = [torch.zeros(4, 3), torch.zeros(4, 3)]
    turn = iter(range(1000))

    def arguments(number: int) -> tuple[Tensor, Tensor, Tensor]:
        return torch.randn(3), caches[next(turn) // 10], torch.tensor([number % 4])

    same(program, arguments)
    copied = recorder.recorded[-1]
    assert (copied.count("copied"), copied.count("in place"), recorder.replays) == (2, 1, 8)


def test_a_written_input_that_moves(recorder: Recorder) -> None:
    """As the cache of a decoder, which is another one for each request."""

    def program(x: Tensor, cache: Tensor) -> Tensor:
        cache.add_(long(x))
        return cache * 2

    made: dict[tuple[int, int], Tensor] = {}
    world = iter(range(1000))

    def arguments(number: int) -> tuple[Tensor, Tensor]:
        return torch.randn(3), made.setdefault((next(world) // 40, number // 10), torch.zeros(3))

    same(program, arguments, calls=40)
    assert recorder.replays > 25 and len(recorder.recorded) <= 6


def test_a_written_input_that_never_stays(recorder: Recorder) -> None:
    def program(x: Tensor) -> Tensor:
        x.add_(1)
        return long(x)

    runner = same(program, lambda number: (torch.randn(3),))
    assert recorder.replays == 0
    assert runner.recorded[0]["reason"] == "it writes to an input that changes its address"


def test_a_copied_input_that_shares_memory_with_a_written_one(recorder: Recorder) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        y.add_(1)
        return long(x) + y

    memory = [torch.ones(32), torch.ones(32)]
    worlds = iter(range(1000))

    def arguments(number: int) -> tuple[Tensor, Tensor]:
        base = memory[next(worlds) // 12]
        return base[8:12] if number in (5, 8) else torch.randn(4), base[4:12:2]

    same(program, arguments, calls=12)
    assert recorder.replays == 8


def test_running_statistics_are_written(recorder: Recorder) -> None:
    torch.manual_seed(0)
    models = [nn.Sequential(*(nn.BatchNorm1d(4) for _ in range(10))).train() for _ in range(2)]
    inputs = [torch.randn(8, 4) for _ in range(10)]
    functions = [torch.no_grad()(models[0]), compiled(models[1])]
    for x in inputs:
        results = [function(x) for function in functions]
        assert torch.equal(*results)
        for one, other in zip(models[0].buffers(), models[1].buffers(), strict=True):
            assert torch.equal(one, other)
    assert recorder.replays > 0


def test_random_numbers_are_drawn_anew(recorder: Recorder) -> None:
    def program(x: Tensor) -> Tensor:
        for _ in range(6):
            x = torch.dropout(x, 0.5, True) + torch.dropout(x, 0.25, True)
        return x

    x = torch.randn(8)
    same(program, lambda number: (x,))
    function = compiled(program)
    assert len({function(x).sum().item() for _ in range(8)}) == 8
    assert recorder.replays > 8


def test_one_recording_for_each_size_that_repeats(recorder: Recorder) -> None:
    inputs = {size: torch.randn(size) for size in range(2, 30)}
    runners: list[Any] = []
    function = compiled(long, runners, cuda_graphs=True)
    for size in (2, 3, 4):
        torch._dynamo.mark_dynamic(inputs[size], 0)
    sizes = [2, 2, 3, 3, 3, 4, 5, 4, 5, 4, 5, 3, *range(6, 30)]
    for size in sizes:
        assert torch.equal(function(inputs[size]), long(inputs[size]))
    # 3, 4 and 5 came again, the others did not.
    assert runners[-1].recorded[0]["recordings"] == 3


def test_the_least_recently_used_recording_goes_first(recorder: Recorder) -> None:
    inputs = {size: torch.randn(size) for size in range(2, 15)}
    runners: list[Any] = []
    function = compiled(long, runners)
    torch._dynamo.mark_dynamic(inputs[2], 0)

    def call(size: int, times: int) -> None:
        for _ in range(times):
            assert torch.equal(function(inputs[size]), long(inputs[size]))

    call(2, 2)
    for size in range(3, 11):
        call(size, 20)
    assert (len(recorder.recorded), runners[-1].recorded[0]["recordings"]) == (8, 8)
    call(3, 1)
    call(11, 20)
    assert (len(recorder.recorded), runners[-1].recorded[0]["recordings"]) == (9, 8)
    call(3, 5)  # used after 4 was
    assert len(recorder.recorded) == 9
    call(4, 1)
    assert len(recorder.recorded) == 10


def test_recordings_take_no_more_than_their_share(recorder: Recorder) -> None:
    recorder.bytes, recorder.most_bytes = 400, 1000
    inputs = {size: torch.randn(size) for size in range(2, 8)}
    runners: list[Any] = []
    function = compiled(long, runners)
    torch._dynamo.mark_dynamic(inputs[2], 0)
    for size in range(2, 8):
        for _ in range(20):
            assert torch.equal(function(inputs[size]), long(inputs[size]))
    assert runners[-1].recorded[0]["recordings"] == 3


def test_sizes_that_never_repeat_are_not_recorded_on_and_on(recorder: Recorder) -> None:
    inputs = {size: torch.randn(size) for size in range(2, 40)}
    runners: list[Any] = []
    function = compiled(long, runners)
    torch._dynamo.mark_dynamic(inputs[2], 0)
    for _ in range(6):
        for size in range(2, 14):
            assert torch.equal(function(inputs[size]), long(inputs[size]))
    assert len(recorder.recorded) <= 8 + 6
    assert runners[-1].recorded[0]["reason"] == "its inputs change too often"


def test_a_recording_that_fails(recorder: Recorder) -> None:
    recorder.failure = RuntimeError("operation not permitted when stream is capturing\nmore")
    counts = [torch.zeros(3), torch.zeros(3)]
    worlds = iter(range(1000))

    def program(x: Tensor, count: Tensor) -> Tensor:
        count.add_(1)
        return long(x) + count

    runner = same(program, lambda number: (torch.ones(3), counts[next(worlds) // 10]))
    assert (len(recorder.recorded), recorder.replays) == (1, 0)
    assert runner.recorded[0]["reason"] == "RuntimeError: operation not permitted when stream is capturing"


def test_a_report_tells_of_a_recording_that_fails_later(recorder: Recorder) -> None:
    x = torch.randn(3)
    function = compiled(long)
    for _ in range(2):
        function(x)
    recorder.failure = RuntimeError("out of memory")
    with stator.watch() as report:
        for _ in range(3):
            assert torch.equal(function(x), long(x))
    text = "A part of a graph with 12 calls is not recorded as a CUDA graph any more: RuntimeError: out of memory."
    assert [(note.topic, note.text) for note in report.notes] == [("cuda_graphs", text)]
    with stator.watch() as report:
        function(x)
    assert report.notes == []


def test_an_interrupt_during_a_recording(recorder: Recorder) -> None:
    x = torch.randn(3)
    function = compiled(long)
    function(x), function(x)
    recorder.failure = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        function(x)
    recorder.failure = None
    assert torch.equal(function(x), long(x))


def test_a_replay_that_raises(recorder: Recorder) -> None:
    def fail() -> None:
        raise RuntimeError("device-side assert")

    x = torch.randn(3)
    function = compiled(long)
    for _ in range(4):
        function(x)
    recorder.before_replay = fail
    # As any graph that raises: nothing of it was visible, so that the program runs uncompiled and raises by itself.
    assert torch.equal(function(x), long(x))


def test_what_can_not_be_recorded_runs_in_between(recorder: Recorder) -> None:
    def program(x: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        y = long(x)
        z = torch.einsum("i,i,i->i", y, y, y)  # called as it is
        chosen = long(z)[mask]
        return long(z), chosen, torch.cumsum(z, 0)

    mask = torch.tensor([True, False, True])
    x = torch.randn(3)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        runner = same(program, lambda number: (x, mask))
    found = [(part["name"], part["recordings"] > 0, part["reason"]) for part in runner.recorded]
    assert [name for name, is_recorded, _ in found if is_recorded] == ["sin", "sin", "sin"]
    assert ("einsum", False, "it is called as it is, in Python") in found
    assert [reason for name, _, reason in found if name == "getitem"] in (
        ["it indexes with a mask"],
        ["it is called as it is, in Python"],
    )


def test_the_report_says_what_is_not_recorded(recorder: Recorder) -> None:
    def program(x: Tensor) -> Tensor:
        return torch.einsum("i,i,i->i", long(x), x, x)

    report = stator.explain(program, backend="stator")(torch.randn(3))
    assert [(note.topic, note.text) for note in report.notes] == [
        ("cuda_graphs", "einsum is not part of a CUDA graph: it is called as it is, in Python.")
    ]


def test_too_short(recorder: Recorder) -> None:
    x = torch.randn(3)
    runner = same(lambda x: x.sin() + 1, lambda number: (x,))
    assert recorder.recorded == []
    assert runner.recorded[0]["reason"] == "it is too short: a recording takes 10 calls"


def test_results_that_are_too_large_to_copy(recorder: Recorder) -> None:
    x = torch.randn(4 << 20)
    runner = same(long, lambda number: (x,), calls=4)
    assert recorder.replays == 0
    assert runner.recorded[0]["reason"].startswith("copying its inputs and results")


def test_while_the_program_records(recorder: Recorder) -> None:
    x = torch.randn(3)
    function = compiled(long)
    for _ in range(4):
        function(x)
    before = recorder.replays
    recorder.captured_by_program = True
    assert torch.equal(function(x), long(x))
    assert recorder.replays == before


def test_while_anybody_watches(recorder: Recorder) -> None:
    x = torch.randn(3)
    function = compiled(long)
    for _ in range(4):
        function(x)
    before = recorder.replays
    with torch.profiler.profile() as profile:
        assert torch.equal(function(x), long(x))
    assert recorder.replays == before
    assert {"aten::sin", "aten::add"} <= {event.name for event in profile.events()}


def test_a_setting_that_chooses_kernels(recorder: Recorder) -> None:
    x = torch.randn(3)
    function = compiled(long)
    for _ in range(4):
        function(x)
    before = len(recorder.recorded)
    with torch.backends.cudnn.flags(benchmark=True):
        for _ in range(4):
            assert torch.equal(function(x), long(x))
    assert len(recorder.recorded) == before + 1


def test_inference_mode(recorder: Recorder) -> None:
    def program(x: Tensor, y: Tensor) -> Tensor:
        y.add_(1)
        return long(x)[1:]

    x, y, z = torch.randn(4), torch.zeros(1), torch.zeros(1)
    function = stator.compile(program, backend="stator")
    with torch.inference_mode():
        for _ in range(6):
            found, expected = function(x, y), program(x, z)
            assert torch.equal(found, expected) and torch.equal(y, z)
            assert found.is_inference() and expected.is_inference()
    assert recorder.replays == 4


def test_another_thread_during_a_replay(recorder: Recorder) -> None:
    """It calls the operators one by one: the memory of the recording is in use."""
    inputs = [torch.randn(3) for _ in range(3)]
    function = compiled(long)
    for number in range(4):
        function(inputs[number % 2])
    seen: list[Tensor] = []

    def elsewhere() -> None:
        recorder.before_replay = lambda: None
        thread = threading.Thread(target=lambda: seen.append(function(inputs[2])))
        thread.start()
        thread.join()

    recorder.before_replay = elsewhere
    before = recorder.replays
    assert torch.equal(function(inputs[0]), long(inputs[0]))
    assert recorder.replays == before + 1
    assert torch.equal(seen[0], long(inputs[2]))


def test_recordings_die_with_the_graph(recorder: Recorder) -> None:
    alive: list[weakref.ref] = []

    def once() -> None:
        record = recorder.record

        def watched(*args: Any) -> Any:
            replay, size = record(*args)
            alive.append(weakref.ref(replay))
            return replay, size

        recorder.record = watched  # type: ignore[method-assign]
        model = nn.Sequential(*(nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(6)))
        function = compiled(lambda x: model(x))
        for _ in range(5):
            function(torch.ones(3))

    once()
    stator.reset()
    gc.collect()
    assert alive and all(one() is None for one in alive)


def test_a_number_that_changes_is_not_recorded(recorder: Recorder) -> None:
    def program(x: Tensor, number: int) -> Tensor:
        return long(long(x) * number)

    runners: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        runners.append(prepared_calls(module, inputs))
        return runners[-1]

    entry, x = torch.no_grad()(stator.compile(program, backend=backend, dynamic=True)), torch.ones(4)
    for number in (2, 3, 4, 5, 6, 7):
        assert torch.equal(entry(x, number), program(x, number))
    assert recorder.replays > 0
    reasons = [part["reason"] for part in runners[0].recorded]
    assert reasons == ["", "it takes a number that changes between calls", ""]
