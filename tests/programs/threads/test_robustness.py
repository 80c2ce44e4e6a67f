"""Failures in a program, a backend or around them do no harm: threads, memory, signals, tracers."""

import copy
import gc
import itertools
import pickle
import sys
import threading
import tracemalloc
import weakref

import pytest
import torch
import torch.nn as nn

from tests.support.engine import CAPTURES, ENGINE, Recorder, compile, reset, unsupported
from tests.support.processes import fresh

captures = pytest.mark.skipif(not CAPTURES, reason="about capture alone")
# A thousand cycles of torch._dynamo take minutes.
CYCLES = 1000 if ENGINE == "stator" else 20


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


def program(x, n=2):
    y = torch.relu(x) * n
    return y + x.sum(), [y, {"n": n}]


def failing(x, when):
    x = x + 1
    if when == "python":
        return {}["missing"]
    if when == "torch":
        return x @ torch.ones(x.size(-1) + 1, 2)
    if when == "raise":
        raise ValueError("asked for")
    return x


@pytest.mark.parametrize("when, kind", [("python", KeyError), ("torch", RuntimeError), ("raise", ValueError)])
def test_exceptions_leave_and_the_next_call_works(when, kind):
    compiled = compile(failing, backend="eager", fullgraph=False)
    x = torch.ones(2)
    for _ in range(3):
        if ENGINE != "dynamo":
            with pytest.raises(kind) as caught:
                compiled(x, when)
            assert caught.traceback[-1].name == "failing"
        assert torch.equal(compiled(x, None), x + 1)


def test_exceptions_leave_no_reference_to_arguments():
    compiled = compile(failing, backend="eager", fullgraph=False)
    x = torch.ones(2)
    alive = weakref.ref(x)
    with pytest.raises(ValueError):
        compiled(x, "raise")
    reset()
    del x
    gc.collect()
    assert alive() is None


def test_recursion_limit_is_the_programs_own():
    def deep(x, k):
        return x if k == 0 else deep(x, k - 1) + 1

    compiled = compile(deep, backend="eager", fullgraph=False)
    assert torch.equal(compiled(torch.zeros(2), 50), torch.full((2,), 50.0))
    with pytest.raises(RecursionError):
        deep(torch.zeros(2), 10_000)
    with pytest.raises(RecursionError):
        compiled(torch.zeros(2), 10_000)
    assert torch.equal(compiled(torch.zeros(2), 30), torch.full((2,), 30.0))


@pytest.mark.skipif(ENGINE == "dynamo", reason="torch._dynamo fails at this depth")
def test_recursion_of_three_hundred():
    def deep(x, k):
        return x if k == 0 else deep(x, k - 1) + 1

    assert torch.equal(compile(deep, backend="eager")(torch.zeros(2), 300), torch.full((2,), 300.0))


def test_four_threads_compile_and_call_at_once():
    def make(k):
        def scaled(x, n):
            for _ in range(3):
                x = torch.sin(x) * n + k
            return x

        return scaled

    shared = make(100)
    shared_compiled = compile(shared, backend="eager", fullgraph=False)
    barrier = threading.Barrier(4)
    problems = []

    def work(number):
        try:
            barrier.wait()
            for k in range(4):
                own = make(k)
                compiled = compile(own, backend="eager", fullgraph=False)
                for n in (1, 2, number):
                    x = torch.randn(3, number + 1)
                    assert torch.equal(compiled(x, n), own(x, n))
                    assert torch.equal(shared_compiled(x, n), shared(x, n))
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems, problems


def test_reset_in_one_thread_while_others_call():
    compiled = compile(program, backend="eager")
    stop = threading.Event()
    problems = []

    def call():
        try:
            while not stop.is_set():
                x = torch.ones(3)
                assert compiled(x)[0].tolist() == [5.0, 5.0, 5.0]
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        reset()
        compiled(torch.ones(2))
    stop.set()
    for thread in threads:
        thread.join()
    assert not problems, problems


@captures
@pytest.mark.skipif(ENGINE == "dynamo", reason="torch._dynamo is armed for each thread alike")
def test_other_threads_are_not_armed():
    recorder = Recorder()

    def helper(x):
        return x * 2

    seen = []

    def backend(module, example_inputs):
        thread = threading.Thread(target=lambda: seen.append(helper(torch.ones(2))))
        thread.start()
        thread.join()
        return recorder(module, example_inputs)

    compile(lambda x: helper(x) + 1, backend=backend)(torch.ones(2))
    assert recorder.count == 1 and len(seen) == 1


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.config = {"scale": 2, "names": ["a"]}

    def forward(self, x, extra=None):
        y = self.linear(x) * self.config["scale"]
        return y if extra is None else y + extra["bias"]


def one_cycle():
    model = Model()
    compiled = compile(model, backend="eager")
    compiled(torch.ones(2, 3))
    compiled(torch.ones(2, 3), {"bias": torch.ones(3)})

    def local(x):
        return x * model.config["scale"]

    compile(local, backend="eager")(torch.ones(2))
    reset()


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_compile_and_reset_cycles_leave_memory_flat():
    for _ in range(max(CYCLES // 20, 3)):
        one_cycle()
    gc.collect()
    objects, resident = len(gc.get_objects()), resident_bytes()
    for _ in range(CYCLES):
        one_cycle()
    gc.collect()
    assert len(gc.get_objects()) - objects < 200
    assert resident_bytes() - resident < 30_000_000


@pytest.mark.skipif(ENGINE == "dynamo", reason="torch._dynamo keeps caches of its own")
def test_python_memory_is_flat_over_cycles():
    for _ in range(20):
        one_cycle()
    gc.collect()
    tracemalloc.start()
    try:
        held = []
        for _ in range(3):
            for _ in range(100):
                one_cycle()
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # Tables that grow once are no leak; what grows by the same amount again and again is.
    assert min(later - earlier for earlier, later in itertools.pairwise(held)) < 20_000


def test_cached_calls_leave_memory_flat():
    compiled = compile(program, backend="eager")
    x = torch.ones(3)
    for _ in range(50):
        compiled(x)
    gc.collect()
    objects = len(gc.get_objects())
    references = sys.getrefcount(x)
    for _ in range(1000):
        compiled(x)
    gc.collect()
    assert abs(len(gc.get_objects()) - objects) < 50
    assert sys.getrefcount(x) == references


def test_uncaptured_calls_leave_memory_flat():
    def prints(x, items):
        items.append(1)
        return x + len(items)

    compiled = compile(prints, backend="eager", fullgraph=False)
    x = torch.ones(3)
    for _ in range(20):
        compiled(x, [])
    gc.collect()
    objects = len(gc.get_objects())
    for _ in range(200):
        compiled(x, [])
    gc.collect()
    assert abs(len(gc.get_objects()) - objects) < 50


def test_nothing_is_kept_alive_after_reset():
    model = Model()
    x, extra = torch.ones(2, 3), {"bias": torch.ones(3)}
    compiled = compile(model, backend="eager")
    result = compiled(x, extra)
    watched = [weakref.ref(one) for one in (model, model.linear, x, extra["bias"], result)]
    reset()
    del model, compiled, x, extra, result
    gc.collect()
    assert [ref() is None for ref in watched] == [True] * len(watched)


def test_inputs_are_not_kept_alive_by_entries():
    compiled = compile(program, backend="eager")
    x = torch.ones(3)
    result = compiled(x)
    watched = [weakref.ref(x), weakref.ref(result[0])]
    del x, result
    gc.collect()
    assert [ref() is None for ref in watched] == [True, True]


def test_a_function_that_dies_takes_its_entries_along():
    def make():
        big = torch.ones(3)

        def local(x):
            return x * big

        return local, weakref.ref(big)

    local, big = make()
    compiled = compile(local, backend="eager")
    compiled(torch.ones(3))
    reset()
    del local, compiled
    gc.collect()
    assert big() is None


@captures
def test_garbage_collection_in_the_backend():
    def backend(module, example_inputs):
        gc.collect()
        return module.forward

    def cyclic(x):
        nodes = []
        for k in range(20):
            nodes.append([x + k, nodes])
        return nodes[3][0] + nodes[19][0]

    x = torch.ones(2)
    assert torch.equal(compile(cyclic, backend=backend, fullgraph=False)(x), cyclic(x))


def test_garbage_collection_at_every_allocation():
    compiled = compile(program, backend="eager")
    before = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for n in range(3):
            result = compiled(torch.ones(3), n)
            assert result[1][1] == {"n": n}
    finally:
        gc.set_threshold(*before)


@captures
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_an_interrupt_in_the_backend_goes_through(kind):
    calls = []

    def backend(module, example_inputs):
        calls.append(1)
        if len(calls) == 1:
            raise kind
        return module.forward

    compiled = compile(lambda x: x + 1, backend=backend)
    expected = (kind, torch._dynamo.exc.BackendCompilerFailed) if kind is MemoryError else kind
    with pytest.raises(expected):
        compiled(torch.ones(2))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert len(calls) == 2


def test_a_tracer_is_active():
    events = []

    def tracer(frame, event, argument):
        if frame.f_code.co_filename == __file__:
            events.append(event)
        return tracer

    compiled = compile(program, backend="eager")
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        results = [compiled(torch.ones(3)) for _ in range(2)]
    finally:
        sys.settrace(before)
    assert all(result[0].tolist() == [5.0, 5.0, 5.0] for result in results)
    assert compiled(torch.ones(3))[0].tolist() == [5.0, 5.0, 5.0]


def test_a_profiler_is_active():
    compiled = compile(program, backend="eager")
    before = sys.getprofile()
    sys.setprofile(lambda frame, event, argument: None)
    try:
        result = compiled(torch.ones(3))
    finally:
        sys.setprofile(before)
    assert result[0].tolist() == [5.0, 5.0, 5.0]


def test_results_can_be_copied_and_pickled():
    compiled = compile(program, backend="eager")
    result = compiled(torch.ones(3))
    for copied in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert torch.equal(copied[0], result[0]) and copied[1][1] == {"n": 2}


def test_functions_keep_their_face():
    def documented(x, n: int = 2) -> torch.Tensor:
        """What it does."""
        return x * n

    compiled = compile(documented, backend="eager")
    assert compiled.__name__ == "documented" and compiled.__doc__ == "What it does."
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_used_as_a_method():
    class Holder:
        factor = 3

        def scale(self, x):
            return x * self.factor

        scale = compile(scale, backend="eager")

    assert torch.equal(Holder().scale(torch.ones(2)), torch.full((2,), 3.0))
    bound = compile(Holder().scale, backend="eager", fullgraph=False)
    assert torch.equal(bound(torch.ones(2)), torch.full((2,), 3.0))


def test_called_from_generator_and_callback():
    compiled = compile(lambda x: x + 1, backend="eager")

    def produce():
        for k in range(3):
            yield compiled(torch.full((2,), float(k)))

    assert [t.tolist() for t in produce()] == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    assert [t.item() for t in map(compiled, torch.arange(3.0))] == [1.0, 2.0, 3.0]


@captures
def test_fullgraph_refuses_what_breaks():
    def prints(x):
        print("no")
        return x + 1

    with pytest.raises(unsupported()) as caught:
        compile(prints, backend="eager", fullgraph=True)(torch.ones(2))
    assert "print" in str(caught.value)
    assert isinstance(caught.value, torch._dynamo.exc.Unsupported)


@captures
@pytest.mark.skipif(ENGINE != "stator", reason="Stator's own report")
def test_explain_names_graphs_and_breaks():
    import stator

    def prints(x):
        y = x + 1
        print("a break")
        return y * 2

    report = stator.explain(prints)(torch.ones(2))
    assert len(report.breaks) == 1
    assert "print" in str(report)
    whole = stator.explain(program)(torch.ones(2))
    assert whole.graph_count == 1 and len(whole.breaks) == 0
    assert "relu" in str(whole)


def test_many_locals_and_a_long_body():
    lines = [f"    v{k} = x * {k} + v{k - 1}" for k in range(1, 400)]
    scope = {}
    exec("def long(x):\n    v0 = x\n" + "\n".join(lines) + "\n    return v399, v17", scope)
    x = torch.ones(2)
    expected = scope["long"](x)
    actual = compile(scope["long"], backend="eager")(x)
    assert all(torch.equal(a, b) for a, b in zip(expected, actual))


def test_a_thousand_operations_in_a_loop():
    def loop(x):
        for _ in range(1000):
            x = torch.add(x, 1)
        return x

    assert torch.equal(compile(loop, backend="eager")(torch.zeros(2)), torch.full((2,), 1000.0))


def test_deeply_nested_result():
    def nest(x):
        out = x + 1
        for _ in range(200):
            out = [out]
        return out

    result = compile(nest, backend="eager")(torch.zeros(2))
    for _ in range(200):
        (result,) = result
    assert result.tolist() == [1.0, 1.0]


def test_interpreter_state_is_left_alone():
    before = (sys.getrecursionlimit(), sys.gettrace(), sys.getprofile(), torch.is_grad_enabled(), sys.exc_info())
    compiled = compile(program, backend="eager")
    try:
        raise KeyError("outer")
    except KeyError as error:
        compiled(torch.ones(2))
        assert sys.exc_info()[1] is error
    after = (sys.getrecursionlimit(), sys.gettrace(), sys.getprofile(), torch.is_grad_enabled(), sys.exc_info())
    assert before == after


FIRST_USE = """
import threading, torch, stator
failures = []
def work(number):
    def program(x, w):
        return torch.linalg.norm(torch.einsum("ij,jk->ik", x, w)) + number
    try:
        compiled = stator.compile(program)
        x, w = torch.randn(3, 4), torch.randn(4, 5)
        assert all(torch.equal(compiled(x, w), program(x, w)) for _ in range(10))
    except BaseException as error:
        failures.append(error)
threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(600)
assert not failures, failures
assert not any(thread.is_alive() for thread in threads), "a thread waits for ever"
print("done")
"""


@pytest.mark.skipif(ENGINE != "stator", reason="about Stator's own tables")
def test_the_first_use_of_all_is_in_several_threads():
    assert fresh(FIRST_USE) == "done"


@captures
def test_a_refused_closure_shows_its_variables():
    """A debugger or a test runner reads the variables of every frame in a traceback."""
    enclosed = [1, 2]

    def program(x, own=3):
        def inner():
            return own

        print(enclosed, inner())
        return x

    try:
        compile(program, fullgraph=True, backend="eager")(torch.ones(2))
    except unsupported() as error:
        trace = error.__traceback__
    seen = {}
    while trace is not None:
        seen[trace.tb_frame.f_code.co_name] = dict(trace.tb_frame.f_locals)
        trace = trace.tb_next
    assert seen["program"]["enclosed"] == [1, 2] and seen["program"]["own"] == 3


@pytest.mark.parametrize("name", ["torch._inductor.config"])
def test_settings_that_another_thread_is_just_importing(name):
    program = f"""
import importlib.machinery, sys, types, torch, stator
half = types.ModuleType({name!r})
half.__spec__ = importlib.machinery.ModuleSpec({name!r}, None)
half.__spec__._initializing = True
sys.modules[{name!r}] = half
with torch.no_grad():
    print(stator.compile(lambda x: x + 1, backend="stator")(torch.ones(2)).tolist())
"""
    assert fresh(program) == "[2.0, 2.0]"
