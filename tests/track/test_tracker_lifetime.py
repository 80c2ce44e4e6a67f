"""A tracker keeps nothing alive, leaks nothing, and changes no module and no graph."""

import copy
import gc
import pickle
import weakref

import torch
import torch.nn.modules.module as torch_module
from torch import nn
from torch.autograd import Variable

import stator
from tests.track.watching import Block, Net

X = torch.ones(3, 4)


def test_a_dropped_model_is_freed_inside_of_the_context():
    gc.collect()
    gc.disable()
    try:
        with stator.ModuleTracker() as tracker:
            model = Net()
            loss = model(X).sum()
            loss.backward()
            parts = [weakref.ref(each) for each in (model, model.head, model.head.weight, loss)]
            mapping = tracker.modules
            assert mapping["Net"] is model
            del model, loss
            assert [part() for part in parts] == [None] * 4 and len(mapping) == 0
    finally:
        gc.enable()


def test_tensors_and_graphs_are_freed():
    class Sentinel:
        pass

    class Marked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.sentinel = Sentinel()
            references.append(weakref.ref(ctx.sentinel))
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    class Part(nn.Module):
        def forward(self, x):
            return Marked.apply(x)

    model, references = nn.Sequential(nn.Linear(4, 4), Part()), []
    with stator.ModuleTracker():
        x = X.clone()
        output = model(x)
        references += [weakref.ref(x), weakref.ref(output)]
        assert all(each() is not None for each in references)
        del x, output
        assert [each() for each in references] == [None] * 3


def test_the_tracker_itself_is_freed():
    model = Net()
    with stator.ModuleTracker() as tracker:
        model(X).sum().backward()
    freed = weakref.ref(tracker)
    del tracker
    assert freed() is None


def test_a_cycle_through_a_callback_is_collected():
    class Holder:
        def entered(self, *_):
            pass

    holder = Holder()
    holder.tracker = stator.ModuleTracker(on_enter=holder.entered)
    freed = weakref.ref(holder)
    del holder
    gc.collect()
    assert freed() is None


def hooks():
    return {
        name: list(table.items())
        for name, table in vars(torch_module).items()
        if name.startswith("_global_") and hasattr(table, "items")
    }


def test_hooks_are_gone_after_the_context():
    before, engine = hooks(), Variable._execution_engine
    with stator.ModuleTracker():
        assert hooks() != before
        with stator.ModuleTracker():
            pass
        assert hooks() != before
    assert hooks() == before and Variable._execution_engine is engine
    tracker = stator.ModuleTracker().__enter__()
    del tracker  # dropped without being left
    gc.collect()
    assert hooks() == before and Variable._execution_engine is engine


def test_hooks_that_another_library_clears():
    with stator.ModuleTracker():
        torch_module._global_forward_hooks.clear()
    assert not torch_module._has_any_global_hook()


def test_hooks_of_other_libraries_see_what_they_always_see():
    def log(*args):
        calls.append((type(args[0]).__name__, [type(each).__name__ for each in args[1:]]))

    model, runs = Block(), []
    x = torch.ones(3, 4, requires_grad=True)
    handles = [
        torch_module.register_module_forward_pre_hook(log),
        torch_module.register_module_forward_hook(log),
        model.register_full_backward_hook(log),
        model.first.register_full_backward_pre_hook(log),
    ]
    for tracked in (False, True):
        calls = []
        if tracked:
            with stator.ModuleTracker():
                model(x).sum().backward()
        else:
            model(x).sum().backward()
        runs.append(calls)
    for handle in handles:
        handle.remove()
    assert runs[0] == runs[1] and len(runs[0]) == 8


def test_no_module_and_no_graph_is_touched():
    model = Net()

    def state():
        return [{key: (id(value), repr(value)) for key, value in vars(each).items()} for each in model.modules()]

    before = state()
    with stator.ModuleTracker():
        output = model(X)
        assert state() == before
        assert output.grad_fn._raw_saved_mat1 is not None and not output.grad_fn.metadata
        assert output._backward_hooks is None
    assert state() == before


def test_deepcopy_and_pickle_of_a_tracked_module():
    model = Block()
    with stator.ModuleTracker() as tracker:
        model(X).sum().backward()
        twin, recorded = copy.deepcopy(model), []
        twin.first.register_forward_pre_hook(lambda *_: recorded.append(tracker.path))
        twin(X)
        assert recorded == ["Block#2.first"] and tracker.modules["Block"] is model
        assert pickle.loads(pickle.dumps(model)).state_dict().keys() == model.state_dict().keys()
    assert twin.first._forward_pre_hooks and not model.first._forward_pre_hooks


def test_results_and_gradients_are_those_of_the_plain_program():
    torch.manual_seed(0)
    model = Net()
    plain = model(X)
    plain.sum().backward()
    gradients = [each.grad.clone() for each in model.parameters()]
    model.zero_grad()
    with stator.ModuleTracker():
        tracked = model(X)
        tracked.sum().backward()
    assert torch.equal(plain, tracked)
    assert all(torch.equal(*pair) for pair in zip(gradients, (each.grad for each in model.parameters())))


def test_many_steps_in_one_context_take_little_memory():
    """The log stores a step once, and grows by a few bytes for each further step."""
    import tracemalloc

    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(10)))
    with stator.ModuleTracker() as tracker:
        for _ in range(20):
            model(X).sum().backward()
        tracemalloc.start()
        for _ in range(200):
            model(X).sum().backward()
        grown, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert grown < 20_000 and len(tracker.modules) == 11
