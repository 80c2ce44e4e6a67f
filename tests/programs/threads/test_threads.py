"""Threads that call, capture, compile and reset at the same time."""

import abc
import gc
import os
import random
import sys
import threading
import time

import pytest
import torch
import torch.nn as nn

from tests.support.engine import ENGINE
from tests.support.long import long_only
from tests.support.processes import fresh

if ENGINE == "stator":
    import stator
    from stator import compile_lock

pytestmark = [
    pytest.mark.skipif(ENGINE != "stator", reason="about Stator's own state"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


@pytest.fixture(autouse=True)
def clean():
    before, bound = sys.getswitchinterval(), stator.config.recompile_limit
    stator.reset()
    yield
    sys.setswitchinterval(before)
    stator.config.recompile_limit = bound
    stator.reset()


def in_threads(work, count):
    """Runs `work(number)` in so many threads at once; raises what one of them raised."""
    errors = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    if errors:
        raise errors[0]


class Asked(abc.ABC):  # noqa: B024
    @classmethod
    def __subclasshook__(cls, other):
        time.sleep(0)
        return NotImplemented


@torch.library.custom_op("stator_threads::plus_one", mutates_args=())
def plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1


@plus_one.register_fake
def _(x):
    time.sleep(0)
    return torch.empty_like(x)


class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.linear = nn.Linear(3, 3)

    def forward(self, x, n):
        y = plus_one(self.linear(x) + self.number)
        if isinstance(n, Asked):
            y = y + 1
        torch._dynamo.graph_break()
        return y * n


def yielding(module, inputs):
    time.sleep(0)
    return module.forward


def test_resets_while_others_call():
    layers = [Layer(number) for number in range(6)]

    def through(layer, x, n):
        return layer(x, n) + 1

    shared = stator.compile(through, backend=yielding)
    own = [stator.compile(layer, backend=yielding) for layer in layers]
    end = time.monotonic() + 4
    sys.setswitchinterval(1e-5)

    def work(seed):
        chance = random.Random(seed)
        while time.monotonic() < end:
            number = chance.randrange(len(layers))
            x, n = torch.randn(chance.randrange(1, 4), 3), chance.choice([1, 2, 2.5])
            expected = layers[number](x, n)
            assert torch.equal(own[number](x, n), expected)
            assert torch.equal(shared(layers[number], x, n), expected + 1)
            what = chance.random()
            if what < 0.05:
                stator.reset()
            elif what < 0.08:
                own[number] = stator.compile(layers[number], backend=yielding)
            elif what < 0.1:
                Asked.register(type("Registered", (), {}))
            elif what < 0.12:
                stator.config.recompile_limit = chance.choice([1, 4, 8, 100])
            elif what < 0.13:
                gc.collect(0)

    in_threads(work, 6)


def test_one_entry_for_threads_with_other_arguments():
    """The guards of an entry are checked by all: each gets its own inputs."""

    def program(box, x):
        return box["a"] * 2 + x

    compiled = stator.compile(program)
    compiled({"a": torch.zeros(3)}, torch.zeros(3))
    sys.setswitchinterval(1e-6)

    def work(number):
        for step in range(300):
            a, x = torch.full((3,), float(number)), torch.full((3,), float(step))
            assert torch.equal(compiled({"a": a}, x), a * 2 + x)

    in_threads(work, 4)


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=long_only)])
def test_compilers_run_one_at_a_time(backend):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    shared = stator.compile(model, backend=backend)
    sys.setswitchinterval(1e-4)

    def work(number):
        own = stator.compile(lambda x: model(x) * number, backend=backend)
        x = torch.randn(2, 4)
        assert torch.allclose(shared(x), model(x), atol=1e-5)
        result = own(x)
        assert torch.allclose(result, model(x) * number, atol=1e-5)
        if backend == "aot_eager":
            result.sum().backward()

    in_threads(work, 4 if backend == "aot_eager" else 2)
    assert not torch.is_anomaly_enabled()
    assert not torch.compiler.is_compiling()


def test_beside_torch_compile():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled = [stator.compile(model, backend="aot_eager"), torch.compile(model, backend="aot_eager")]
    sys.setswitchinterval(1e-4)

    def work(number):
        x = torch.randn(2, 4)
        assert torch.allclose(compiled[number % 2](x), model(x))

    in_threads(work, 4)
    assert not torch.compiler.is_compiling()


def test_the_lock_is_that_of_torch_compile():
    from torch._dynamo import convert_frame

    held = []

    def inner(x):
        return x + 1

    def backend(module, inputs):
        held.append(convert_frame.compile_lock._is_owned())
        if len(held) == 1:
            # A compilation inside of a compilation, by both.
            stator.compile(inner, backend=backend)(torch.ones(2))
            torch.compile(inner, backend="eager")(torch.ones(2))
        return module.forward

    stator.compile(lambda x: x * 2, backend=backend)(torch.ones(2))
    assert held == [True, True]
    assert not convert_frame.compile_lock._is_owned()
    assert not compile_lock._own._is_owned()


def test_what_a_failed_compilation_leaves():
    from torch._dynamo import convert_frame

    def backend(module, inputs):
        assert torch.compiler.is_compiling()
        raise ValueError("fails")

    with pytest.raises(stator.BackendCompilerFailed):
        stator.compile(lambda x: x * 2, backend=backend)(torch.ones(2))
    assert not torch.compiler.is_compiling()
    assert not convert_frame.compile_lock._is_owned()
    assert not compile_lock._own._is_owned()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("imported", [False, True], ids=["without torch._dynamo", "with torch._dynamo"])
def test_a_fork_while_another_thread_compiles(imported):
    text = f"""
        import os, sys, threading, time, warnings
        import torch, stator
        {"import torch._dynamo" if imported else ""}
        torch.set_num_threads(1)
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 advises against it
        is_compiling, may_end = threading.Event(), threading.Event()
        def backend(module, inputs):
            is_compiling.set()
            may_end.wait(600)
            return module.forward
        def plain(module, inputs):
            return module.forward
        thread = threading.Thread(target=stator.compile(lambda x: x + 1, backend=backend), args=(torch.ones(2),))
        thread.start()
        is_compiling.wait(600)
        child = os.fork()
        if child == 0:
            result = stator.compile(lambda x: x + 2, backend=plain)(torch.ones(2))
            os._exit(0 if result.tolist() == [3.0, 3.0] else 1)
        end = time.monotonic() + 600
        while (done := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
            time.sleep(0.01)
        may_end.set()
        thread.join()
        if done[0] == 0:
            os.kill(child, 9)
        print(done[1] if done[0] else "the child waits for ever")
    """
    assert fresh(text) == "0"
