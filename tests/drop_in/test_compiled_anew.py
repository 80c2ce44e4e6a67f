"""Callables that are compiled alike share what they captured: a wrapper that is made anew in a loop captures nothing."""

from __future__ import annotations

import gc
import inspect
import threading
import weakref

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

import stator

pytestmark = pytest.mark.usefixtures("installed")


def add_one(x):
    return x + 1


def breaks(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


class Net(nn.Module):
    def __init__(self, by=2.0):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.by = by

    def forward(self, x):
        return self.linear(x) * self.by

    def compiled_in_each_call(self, x, backend):
        return torch.compile(self.forward, backend=backend)(x)


COMPILED_ANEW = {
    "function": (add_one, 1),
    "lambda": (lambda: lambda x: x + 1, 1),
    "graph break": (breaks, 2),
    "module": (Net(), 1),
    "method": (Net().forward, 1),
    "equal modules": (lambda: Net(), 1),
}


@pytest.mark.parametrize("made", COMPILED_ANEW)
@pytest.mark.parametrize("compile", [torch.compile, stator.compile])
def test_a_wrapper_made_anew_does_not_capture_again(made, compile):
    thing, graphs = COMPILED_ANEW[made]
    counter = CompileCounter()
    x = torch.ones(2)
    for _ in range(10):
        fn = thing() if made in ("lambda", "equal modules") else thing
        assert torch.equal(compile(fn, backend=counter)(x), fn(x))
    assert counter.frame_count == graphs


def test_a_method_that_compiles_in_each_call():
    counter = CompileCounter()
    net = Net()
    for _ in range(10):
        assert torch.equal(net.compiled_in_each_call(torch.ones(2), counter), net(torch.ones(2)))
    assert counter.frame_count == 1


def test_what_changes_is_learned_across_wrappers():
    counter = CompileCounter()
    for size in range(2, 20):
        x = torch.ones(size)
        assert torch.equal(torch.compile(lambda x: x * 3, backend=counter)(x), x * 3)
    for by in range(2, 20):
        x = torch.ones(5)
        assert torch.equal(torch.compile(lambda x, by=by: x + by, backend=counter)(x), x + by)
    assert counter.frame_count == 4


def test_wrappers_that_live_share_too():
    counter = CompileCounter()
    x = torch.ones(2)
    wrappers = [torch.compile(breaks, backend=counter) for _ in range(20)]
    for wrapper in wrappers:
        assert torch.equal(wrapper(x), breaks(x))
    assert counter.frame_count == 2


def test_other_options_are_other_captures():
    counter = CompileCounter()
    x = torch.ones(2)
    for options in (
        {},
        {"fullgraph": True},
        {"dynamic": True},
        {"options": {"guard_filter_fn": lambda gs: [True] * len(gs)}},
    ):
        for _ in range(3):
            options = {name: dict(value) if name == "options" else value for name, value in options.items()}
            assert torch.equal(torch.compile(add_one, backend=counter, **options)(x), x + 1)
    assert counter.frame_count == 4
    with torch._dynamo.config.patch(assume_static_by_default=False):
        torch.compile(add_one, backend=counter)(x)
    assert counter.frame_count == 5


@pytest.mark.skipif(
    "isolate_recompiles" not in inspect.signature(torch.compile).parameters, reason="of later versions of PyTorch"
)
def test_isolated_wrappers_use_what_others_captured_but_not_the_reverse():
    counter = CompileCounter()
    x = torch.ones(2)
    isolated = torch.compile(add_one, backend=counter, dynamic=False, isolate_recompiles=True)
    isolated(x)
    shared = torch.compile(add_one, backend=counter, dynamic=False)
    shared(x)
    assert counter.frame_count == 2
    shared(torch.ones(3))
    isolated(torch.ones(3))
    assert counter.frame_count == 3
    assert isolated._isolate_recompiles_id >= 0
    assert shared._isolate_recompiles_id == -1


def test_the_limit_holds_across_wrappers_of_one_function():
    counter = CompileCounter()
    with torch._dynamo.config.patch(recompile_limit=2):
        for size in range(2, 8):
            torch.compile(add_one, backend=counter, dynamic=False)(torch.ones(size))
    assert counter.frame_count == 2


def test_instances_do_not_compete():
    counter = CompileCounter()
    nets = [Net(float(number)) for number in range(64)]
    x = torch.ones(2)
    for _ in range(2):
        for net in nets:
            assert torch.equal(torch.compile(net, backend=counter, dynamic=False)(x), net(x))
    assert counter.frame_count <= 64


def test_nothing_of_the_program_is_kept():
    counter = CompileCounter()
    net = Net()
    parameter, model = weakref.ref(net.linear.weight), weakref.ref(net)
    torch.compile(net, backend=counter)(torch.ones(2))
    del net
    gc.collect()
    assert parameter() is None and model() is None
    backend = weakref.ref(counter)
    del counter
    torch._dynamo.reset()
    gc.collect()
    assert backend() is None


def test_functions_that_are_gone_leave_nothing():
    scope: dict = {}
    exec("def program(x): return x + 1", scope)
    code = weakref.ref(scope["program"].__code__)
    torch.compile(scope["program"], backend="eager")(torch.ones(2))
    del scope
    gc.collect()
    # Noticed when the next callable is freed.
    torch.compile(add_one, backend="eager")(torch.ones(2))
    gc.collect()
    assert code() is None


def test_a_loop_does_not_grow():
    def objects(count):
        for _ in range(count):
            # torch itself keeps the backend of each call of torch.compile until its reset.
            stator.compile(add_one, backend="eager")(torch.ones(2))
        gc.collect()
        return len(gc.get_objects())

    objects(10)
    before = objects(10)
    assert objects(200) <= before + 20


def test_threads_share_what_they_captured():
    """An entry may be checked by another thread as soon as it is found."""
    counter = CompileCounter()
    results = []

    def work(number):
        for round_ in range(20):
            x = torch.full((3,), float(number))
            compiled = torch.compile(lambda x, round_=round_: x.sin() + round_, backend=counter, dynamic=False)
            results.append(torch.equal(compiled(x), x.sin() + round_))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 80


def test_functions_with_other_globals_share_nothing():
    code = compile("def f(x): return x + NUMBER, TEXT", "<program>", "exec")
    counter = CompileCounter()

    def make(number):
        namespace = {"__name__": __name__, "NUMBER": number, "TEXT": f"text {number}"}
        exec(code, namespace)
        return namespace["f"]

    for keeps in (False, True):
        kept = []
        for _ in range(3):
            function = make(2)
            compiled = torch.compile(function, backend=counter)
            result, text = compiled(torch.ones(2))
            assert torch.equal(result, torch.full((2,), 3.0))
            assert text is function.__globals__["TEXT"]
            kept += [compiled] if keeps else []
