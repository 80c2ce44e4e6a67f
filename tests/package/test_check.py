"""`stator.compile(..., check=...)`: calls that run both ways, shown by backends, operators and guards that are wrong."""

from __future__ import annotations

import functools
import random
import re
import sys
import threading
import warnings
from typing import ClassVar

import pytest
import torch
from torch import nn

import stator
from stator import exclusive
from stator.verification import uncompiled
from tests.support.processes import fresh

COUNT, SEEN = 0, []


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path):
    with stator.config.patch(reproduction_folder=str(tmp_path)):
        yield tmp_path


def wrong(graph_module, example_inputs):
    """Adds one to the results of graphs that have a relu."""
    has_relu = any(node.target is torch.relu for node in graph_module.graph.nodes)

    def run(*inputs):
        return tuple(one + has_relu for one in graph_module(*inputs))

    return run


class Counted:
    def __init__(self, scale):
        self.scale = scale
        self.calls = 0


class Net(nn.Module):
    made: ClassVar = []

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.made.append(self.calls)
        return nn.functional.dropout(self.norm(torch.relu(self.linear(x))))


def everything(x, holder, items, *, by=2):
    """Has every effect that is compared."""
    global COUNT
    COUNT += 1
    SEEN.append(by)
    holder.calls += 1
    items["last"] = x.add_(1)
    print("called with", by)
    return x * random.random() + torch.rand(()), items["last"]


@pytest.mark.parametrize("check", ["first", 2, "always"])
def test_effects_happen_once_and_as_uncompiled(check, capsys):
    global COUNT
    seen = []
    for compiled in (everything, stator.compile(everything, check=check)):
        COUNT, holder, items = 0, Counted(2), {}
        SEEN.clear()
        torch.manual_seed(0)
        random.seed(0)
        results = [compiled(torch.ones(2), holder, items, by=number) for number in range(4)]
        assert results[0][1] is not results[1][1] and results[-1][1] is items["last"]
        seen.append((str(results), COUNT, list(SEEN), holder.calls, str(items), capsys.readouterr().out))
    assert seen[0] == seen[1]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_model_in_training(backend):
    models = [Net(), Net()]
    models[1].load_state_dict(models[0].state_dict())
    Net.made.clear()
    for model, called in zip(models, (models[0], stator.compile(models[1], backend=backend, check="always"))):
        torch.manual_seed(0)
        for _ in range(3):
            called(torch.randn(4, 3)).sum().backward()
        assert model.calls == 3
    assert Net.made == [1, 2, 3, 1, 2, 3]
    for one, other in zip(models[0].parameters(), models[1].parameters()):
        torch.testing.assert_close(one.grad, other.grad)


def test_first_runs_one_uncompiled_call_for_each_capture(monkeypatch):
    from stator import runs

    hidden = []
    call_hidden = runs.Run.call_hidden
    monkeypatch.setattr(runs.Run, "call_hidden", lambda self, fn: (hidden.append(fn), call_hidden(self, fn)))
    compiled = stator.compile(lambda x: x + 1, check="first", dynamic=False)
    for size in (2, 2, 3, 2, 3, 4):
        compiled(torch.ones(size))
    assert len(hidden) == 3


def test_a_capture_after_a_break_is_checked_in_the_next_call():
    def program(x, flag):
        y = x + 1
        print(end="")
        return torch.relu(y) if flag else y

    compiled = stator.compile(program, backend=wrong, check="first")
    compiled(torch.ones(2), False)
    compiled(torch.ones(2), False)
    compiled(torch.ones(2), True)  # the start is used again, the rest is captured
    with pytest.raises(stator.Mismatch) as raised:
        compiled(torch.ones(2), True)
    assert raised.value.fault == "backend"


def test_every_nth_call():
    compiled = stator.compile(lambda x: torch.relu(x), backend=wrong, check=3)
    compiled(torch.ones(2))
    compiled(torch.ones(2))
    with pytest.raises(stator.Mismatch, match="call 3"):
        compiled(torch.ones(2))


def shown(file):
    """What the file prints when it is run."""
    return fresh(f"import runpy; runpy.run_path({file!r}, run_name='__main__')", check=False)


def test_the_backend_is_at_fault_and_the_file_shows_it(in_a_folder):
    @stator.compile(backend=wrong, check="first")
    def program(x, by=2):
        return {"a": [torch.relu(x) * by]}

    with pytest.raises(stator.Mismatch) as raised:
        program(torch.ones(2))
    error = raised.value
    assert (error.place, error.fault, error.call) == ("result['a'][0]", "backend", 1)
    assert "torch.relu" in str(error) and error.reproduction in str(error)
    assert "Mismatch: call 1: result['a'][0]: contents differs" in shown(error.reproduction)


def without_scale(guards):
    return ["scale" not in str(guard.name) for guard in guards]


def test_a_missing_guard_is_named(in_a_folder):
    def program(x, holder):
        return x * holder.scale

    holder = Counted(2)
    compiled = stator.compile(program, check="always", options={"guard_filter_fn": without_scale})
    compiled(torch.ones(2), holder)
    holder.scale = 3
    with pytest.raises(stator.Mismatch) as raised:
        compiled(torch.ones(2), holder)
    error = raised.value
    assert error.fault == "guard" and error.missing == ["L['holder'].scale was 2 and is 3"]
    assert "L['holder'].scale was 2 and is 3" in shown(error.reproduction)


@torch.library.custom_op("checked::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x[: len(x) // 2].clone()


@halved.register_fake
def _(x):
    return torch.empty_like(x)  # wrong on purpose


def test_the_capture_is_at_fault():
    compiled = stator.compile(lambda x: x.sum() * halved(x).shape[0], check="first")
    with pytest.raises(stator.Mismatch) as raised:
        compiled(torch.ones(4))
    assert raised.value.fault == "front end"


def wrong_gradients(graph_module, example_inputs):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    return lambda *inputs: tuple(Twice.apply(one) for one in graph_module(*inputs))


def test_gradients_also_of_an_input_with_a_history():
    compiled = stator.compile(lambda x: x * 3, backend=wrong_gradients, check="always")
    x = torch.ones(2, requires_grad=True)
    for given in (x, x * 2):
        with pytest.raises(stator.Mismatch) as raised:
            compiled(given)
        assert raised.value.place == "L['x'].grad"
    assert x.grad is None


def lost(graph_module, example_inputs):
    """Undoes what the graph writes."""

    def run(*inputs):
        before = [one.clone() for one in inputs]
        results = graph_module(*inputs)
        for one, other in zip(inputs, before):
            one.copy_(other)
        return results

    return run


def test_a_lost_write():
    def program(x, y):
        y.add_(1)
        return x.sum()

    with pytest.raises(stator.Mismatch) as raised:
        stator.compile(program, backend=lost, check="first")(torch.ones(2), torch.ones(2))
    assert raised.value.place == "L['y']"


def test_exceptions_of_both_are_raised_and_compared():
    def program(x):
        if x.shape[0] == 3:
            raise KeyError("three")
        return x + 1

    compiled = stator.compile(program, check="always")
    for _ in range(2):
        with pytest.raises(KeyError, match="three"):
            compiled(torch.ones(3))

    def failing(graph_module, example_inputs):
        raise ValueError("no such target")

    with pytest.raises(stator.Mismatch, match="no such target") as raised:
        stator.compile(program, backend=failing, check="first")(torch.ones(2))
    assert raised.value.place == "exception"


def test_small_differences_count_only_bit_for_bit():
    def slightly(graph_module, example_inputs):
        return lambda *inputs: tuple(one * (1 + 1e-6) for one in graph_module(*inputs))

    stator.compile(lambda x: x + 1, backend=slightly, check="first")(torch.ones(2))
    with pytest.raises(stator.Mismatch):
        stator.compile(lambda x: x + 1, backend=slightly, check="first", check_exact=True)(torch.ones(2))


def test_what_can_not_be_copied_is_not_checked():
    lock = threading.Lock()
    compiled = stator.compile(lambda x, lock: torch.relu(x), backend=wrong, check="first")
    with pytest.warns(RuntimeWarning, match="can't be copied"):
        assert compiled(torch.ones(2), lock).tolist() == [2, 2]


def test_compiled_functions_inside_run_uncompiled_in_the_uncompiled_run():
    inner = stator.compile(lambda x: torch.relu(x), backend=wrong)
    assert inner(torch.ones(1)).item() == 2
    with uncompiled():
        assert inner(torch.ones(1)).item() == 1
        assert stator.compile(lambda x: torch.relu(x), backend=wrong)(torch.ones(1)).item() == 1
    assert inner(torch.ones(1)).item() == 2


def test_methods_and_copies():
    class Model:
        def __init__(self):
            self.total = 0

        @stator.compile(check="first")
        def step(self, x):
            self.total += 1
            return x + self.total

    model = Model()
    assert [model.step(torch.zeros(1)).item() for _ in range(3)] == [1, 2, 3] and model.total == 3


def test_memory_that_parameters_share():
    flat = torch.arange(6.0)
    model = nn.Linear(2, 2)
    model.weight, model.bias = nn.Parameter(flat[:4].view(2, 2)), nn.Parameter(flat[4:])
    stator.compile(model, check="always")(torch.ones(1, 2)).sum().backward()
    assert model.weight.grad.tolist() == [[1, 1], [1, 1]] and model.bias.grad.tolist() == [1, 1]


@pytest.mark.parametrize("check", ["second", 0, -1, 1.5, True])
def test_other_policies_are_errors(check):
    with pytest.raises(ValueError, match="check is"):
        stator.compile(lambda x: x, check=check)


def test_nothing_stays_alive():
    import gc
    import weakref

    x = torch.ones(2, requires_grad=True)
    gone = weakref.ref(x)
    compiled = stator.compile(lambda x: x * 2, check="always")
    compiled(x)
    del x
    gc.collect()
    assert gone() is None


def test_without_check_the_callable_is_the_engines():
    assert type(stator.compile(lambda x: x)) is stator._C.Compiled


def in_threads(work, count=8):
    """What the calls raised."""
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=functools.partial(run, number)) for number in range(count)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return failures


@pytest.fixture
def often_another_thread():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_eight_threads_check_at_once():
    compiled = stator.compile(lambda x: x + 1, check="always")

    def work(_):
        for size in range(1, 5):
            assert compiled(torch.ones(size)).tolist() == [2.0] * size

    assert in_threads(work) == []


@pytest.mark.parametrize("check", ["first", "always"])
def test_threads_that_print_draw_and_assign_while_they_are_checked(check, capsys, often_another_thread):
    """Standard output, the random generators and global variables belong to all threads."""
    global COUNT
    COUNT = 0
    stream = sys.stdout

    def work(number):
        def program(x):
            global COUNT
            COUNT = COUNT + 1
            print(f"<{number}>")
            return torch.nn.functional.dropout(x) + random.random(), COUNT

        compiled = stator.compile(program, check=check)
        for size in range(2, 6):
            compiled(torch.ones(size))

    filters = list(warnings.filters)
    assert in_threads(work) == []
    assert sys.stdout is stream and warnings.filters == filters
    # (Another thread may print between a text and the end of its line.)
    assert sorted(re.findall(r"<\d+>", capsys.readouterr().out)) == sorted(
        f"<{number}>" for number in range(8) for _ in range(4)
    )


def test_a_checked_call_that_waits_for_another_one(monkeypatch):
    """It is checked; the other call is not, as it can't wait for its end."""
    monkeypatch.setattr(exclusive, "PATIENCE", 0.2)
    inner = stator.compile(lambda x: x * 2, check="always")

    def program(x):
        made = []
        thread = threading.Thread(target=lambda: made.append(inner(x)))
        thread.start()
        thread.join()
        return made[0] + 1

    with pytest.warns(RuntimeWarning, match="another thread checks one"):
        assert stator.compile(program, check="always")(torch.ones(2)).tolist() == [3, 3]


def test_numbers_that_another_thread_draws_are_no_mismatch():
    """The program's own repetition, uncompiled, shows that it is not the compiled one that differs. (In a process of its
    own: other tests may have left threads.)"""
    printed = fresh(
        """
import threading, warnings
import torch, stator

def main():
    drawn = iter(range(100))

    def program(x):
        return x + opaque()

    def opaque():
        return next(drawn)

    compiled = stator.compile(program, check="always")
    try:
        compiled(torch.ones(2))
    except stator.Mismatch:
        print("mismatch")
    end = threading.Event()
    other = threading.Thread(target=end.wait)
    other.start()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(torch.ones(2))
    print(any("differed once" in str(one.message) for one in caught))
    end.set()
    other.join()

main()
"""
    )
    assert printed.split() == ["mismatch", "True"]
