"""`stator.install()`: torch.compile and all that calls it compile with Stator, and torch is as before afterwards."""

from __future__ import annotations

import asyncio
import copy
import functools
import threading
import warnings

import pytest
import torch
import torch._dynamo
from torch import nn
from torch._dynamo import optimize as optimize_held_before
from torch._dynamo.eval_frame import OptimizeContext, OptimizedModule
from torch._dynamo.testing import CompileCounter

import stator
from stator.installation import is_compiled

compile_held_before = torch.compile


def program(x):
    y = torch.relu(x) + 1
    print(end="")
    return y * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


WAYS = {
    "torch.compile": lambda fn, backend: torch.compile(fn, backend=backend),
    "a function held since before": lambda fn, backend: compile_held_before(fn, backend=backend),
    "a decorator": lambda fn, backend: torch.compile(backend=backend)(fn),
    "torch.compiler.compile": lambda fn, backend: torch.compiler.compile(fn, backend=backend),
    "torch._dynamo.optimize": lambda fn, backend: torch._dynamo.optimize(backend)(fn),
    "optimize held since before": lambda fn, backend: optimize_held_before(backend)(fn),
}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_compile_is_stators(way):
    counter = CompileCounter()
    compiled = WAYS[way](program, counter)
    assert is_compiled(compiled)
    x = torch.randn(5)
    for _ in range(2):
        assert torch.equal(compiled(x), program(x))
    # TorchDynamo would have two graphs, too.
    assert counter.frame_count == 2
    assert torch.equal(compiled(torch.randn(7).fill_(2)), torch.full((7,), 6.0))


@pytest.mark.usefixtures("installed")
def test_one_graph_is_required_where_the_program_says_so():
    compiled = torch.compile(program, backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(torch.randn(3))
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch._dynamo.optimize_assert("eager")(program)(torch.randn(3))


@pytest.mark.usefixtures("installed")
def test_a_module_compiled_in_place():
    counter = CompileCounter()
    model, plain = Net().eval(), Net().eval()
    plain.load_state_dict(model.state_dict())
    model.compile(backend=counter)
    x = torch.randn(2, 3)
    for _ in range(2):
        assert torch.equal(model(x), plain(x))
    assert counter.frame_count == 1
    assert is_compiled(model._compiled_call_impl)
    assert list(model.state_dict()) == list(plain.state_dict())


@pytest.mark.usefixtures("installed")
def test_methods_static_methods_partials_and_callable_objects():
    counter = CompileCounter()

    class Scaler:
        by = 3

        @torch.compile(backend=counter)
        def scale(self, x):
            return x * self.by

        @torch.compile(backend=counter)
        @staticmethod
        def negate(x):
            return -x

        def __call__(self, x):
            return x - self.by

    x = torch.randn(3)
    assert torch.equal(Scaler().scale(x), x * 3)
    assert torch.equal(Scaler.negate(x), -x)
    assert torch.equal(torch.compile(Scaler(), backend=counter)(x), x - 3)
    assert torch.equal(torch.compile(functools.partial(torch.add, x), backend=counter)(x), x + x)
    assert counter.frame_count == 4


@pytest.mark.usefixtures("installed")
def test_generators_coroutines_and_properties():
    counter = CompileCounter()

    @torch.compile(backend=counter)
    def counting(x):
        for number in range(3):
            yield x + number

    @torch.compile(backend=counter)
    async def waiting(x):
        await asyncio.sleep(0)
        return x + 1

    class Doubled:
        def __init__(self, x):
            self.x = x

        @property
        @torch.compile(backend=counter)
        def value(self):
            return self.x * 2

    x = torch.zeros(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # an internal error is one
        for _ in range(2):
            assert [value.item() for value in counting(x)] == [0.0, 1.0, 2.0]
            assert asyncio.run(waiting(x)).item() == 1.0
            assert Doubled(x + 3).value.item() == 6.0


@pytest.mark.usefixtures("installed")
def test_compiled_by_both():
    inner, outer = CompileCounter(), CompileCounter()
    x = torch.ones(2)
    assert torch.equal(torch.compile(stator.compile(program, backend=inner), backend=outer)(x), program(x))
    assert torch.equal(stator.compile(torch.compile(program, backend=inner), backend=outer)(x), program(x))
    assert (inner.frame_count, outer.frame_count) == (0, 2)


@pytest.mark.usefixtures("installed")
def test_arguments_that_torch_refuses():
    with pytest.raises(RuntimeError, match="Either mode or options"):
        torch.compile(program, mode="max-autotune", options={"max_autotune": True})
    with pytest.raises(torch._dynamo.exc.InvalidBackend):
        torch.compile(program, backend="no such backend")


@pytest.mark.usefixtures("installed")
def test_a_class_compiles_the_calls_of_its_instances():
    counter = CompileCounter()

    @torch.compile(backend=counter)
    class Adder:
        def __call__(self, x):
            return x + 2

    assert torch.equal(Adder()(torch.ones(2)), torch.full((2,), 3.0))
    assert counter.frame_count == 1


@pytest.mark.usefixtures("installed")
def test_classes_of_modules_and_methods_of_classes():
    counter = CompileCounter()

    @torch.compile(backend=counter, fullgraph=True)
    class Compiled(Net):
        pass

    class Method(nn.Module):
        @torch.compile(backend=counter)
        def forward(self, x):
            return x + 1

    x = torch.randn(2, 3)
    model, method = Compiled().eval(), Method()
    for _ in range(2):
        assert torch.equal(model(x), model.norm(model.linear(x)).relu())
        assert torch.equal(torch.compile(method, backend=counter, fullgraph=True)(x), x + 1)
    assert counter.frame_count == 2


def test_torch_is_as_before():
    call = OptimizeContext.__call__
    stator.install()
    stator.install()
    assert OptimizeContext.__call__ is not call
    assert stator.is_installed()
    stator.uninstall()
    assert OptimizeContext.__call__ is call
    assert not stator.is_installed()
    stator.uninstall()
    compiled = torch.compile(program, backend="eager")
    assert not is_compiled(compiled)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    torch._dynamo.reset()


def test_what_was_compiled_keeps_its_compiler():
    theirs, ours, theirs_again = CompileCounter(), CompileCounter(), CompileCounter()
    before = torch.compile(program, backend=theirs)
    with stator.installed():
        during = torch.compile(program, backend=ours)
        x = torch.randn(3)
        assert torch.equal(before(x), program(x))
        assert torch.equal(during(x), program(x))
        assert theirs.frame_count == 2
    after = torch.compile(program, backend=theirs_again)
    assert [is_compiled(fn) for fn in (before, during, after)] == [False, True, False]
    for fn in (before, during, after):
        assert torch.equal(fn(x), program(x))
    # A new size: the compilers are still there.
    assert torch.equal(during(torch.ones(9)), program(torch.ones(9)))
    assert ours.frame_count == 4
    torch._dynamo.reset()


def test_scopes_nest_and_install_outlives_them():
    with stator.installed():
        with stator.installed():
            pass
        assert stator.is_installed()
        stator.uninstall()
        assert stator.is_installed()
        stator.install()
    assert stator.is_installed()
    stator.uninstall()
    assert not stator.is_installed()


def test_a_scope_ends_with_an_exception():
    with pytest.raises(KeyError), stator.installed():
        raise KeyError
    assert not stator.is_installed()


@pytest.mark.usefixtures("installed")
def test_threads_compile_with_stator():
    counter = CompileCounter()
    results = []

    def work():
        compiled = torch.compile(lambda x: x.sin() + 1, backend=counter)
        results.append((is_compiled(compiled), compiled(torch.zeros(2)).tolist()))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [(True, [1.0, 1.0])] * 4


@pytest.mark.usefixtures("installed")
def test_compiled_inside_compiled_is_one_graph():
    inner = torch.compile(lambda x: x.sin(), backend="eager")
    model = torch.compile(Net().eval(), backend="eager")
    counter = CompileCounter()
    outer = torch.compile(lambda x: model(inner(x)) + 1, backend=counter, fullgraph=True)
    x = torch.randn(2, 3)
    for _ in range(2):
        assert torch.equal(outer(x), model._orig_mod(x.sin()) + 1)
    assert counter.frame_count == 1


@pytest.mark.usefixtures("installed")
def test_disabled_functions_and_environment(monkeypatch):
    assert torch.compile(program, disable=True) is program
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    assert torch.compile(program, backend="eager") is program
    assert stator.compile(program) is program


@pytest.mark.usefixtures("installed")
def test_reset_drops_what_was_captured():
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counter)
    x = torch.ones(2)
    for number, reset in enumerate((torch._dynamo.reset, torch.compiler.reset, torch._dynamo.reset), 2):
        compiled(x)
        compiled(x)
        reset()
        compiled(x)
        assert counter.frame_count == number


@pytest.mark.usefixtures("installed")
def test_run_compiles_nothing():
    counter = CompileCounter()
    compiled = torch.compile(lambda x: x + 1, backend=counter, dynamic=False)
    compiled(torch.ones(2))
    run = torch._dynamo.run(compiled)
    assert run(torch.ones(2)).tolist() == [2.0, 2.0]
    assert run(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert counter.frame_count == 1


@pytest.mark.usefixtures("installed")
def test_export_is_left_to_torch():
    exported = torch.export.export(Net().eval(), (torch.randn(2, 3),), strict=True)
    x = torch.randn(2, 3)
    assert exported.module()(x).shape == (2, 4)


@pytest.mark.usefixtures("installed")
def test_higher_order_operations_of_torch_itself_work_uncompiled():
    x = torch.ones(3)
    assert torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,)).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.usefixtures("installed")
def test_compiled_autograd_is_left_to_torch():
    x = torch.ones(3, requires_grad=True)

    def hook(tensor):
        tensor.grad *= 2

    x.register_post_accumulate_grad_hook(hook)
    counter = CompileCounter()
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend=counter)):
        for _ in range(2):
            x.grad = None
            torch.compile(lambda x: x * 3, backend="eager")(x).sum().backward()
            assert x.grad.tolist() == [6.0, 6.0, 6.0]
    assert counter.frame_count > 0


@pytest.mark.usefixtures("installed")
def test_guards_that_fail_are_told():
    told = []
    compiled = torch._dynamo.optimize("eager", guard_fail_fn=lambda fail: told.append(fail[0]), dynamic=False)(
        lambda x: x + 1
    )
    compiled(torch.ones(2))
    assert told == []
    compiled(torch.ones(3))
    assert len(told) == 1 and "x" in told[0]


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_training_with_backends_of_torch(backend):
    torch.manual_seed(0)
    model = Net()
    plain = copy.deepcopy(model)
    compiled = torch.compile(model, backend=backend)
    for _ in range(2):
        x = torch.randn(5, 3)
        compiled(x).sum().backward()
        plain(x).sum().backward()
    for ours, theirs in zip(compiled.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)
    torch.testing.assert_close(model.norm.running_mean, plain.norm.running_mean)
    assert isinstance(compiled, OptimizedModule)
