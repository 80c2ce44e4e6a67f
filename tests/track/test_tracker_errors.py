"""Exceptions in forward, in hooks and in backward: no state is left behind, and later results are correct."""

import pytest
import torch
from torch import nn

import stator
from tests.track.watching import Block, Net, lines, watch

X = torch.ones(3, 4)


class Raises(nn.Module):
    def __init__(self, error=ValueError):
        super().__init__()
        self.layer, self.error = nn.Linear(4, 4), error

    def forward(self, x):
        self.layer(x)
        raise self.error("on purpose")


class Catches(nn.Module):
    def __init__(self, error=ValueError):
        super().__init__()
        self.inner, self.error = nn.Sequential(nn.Identity(), nn.Sequential(Raises(error))), error

    def forward(self, x):
        try:
            return self.inner(x)
        except self.error:
            return x.sin()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit], ids=lambda error: error.__name__)
def test_in_forward(error):
    def program():
        x = torch.ones(3, 4, requires_grad=True)
        y = model(x)
        (y * x.cos()).sum().backward()

    model = Catches(error)
    seen = watch(program)
    assert lines(seen, "sin", "cos").splitlines()[:2] == ["> sin: Catches", "> cos:"]
    assert lines(seen, "mul").splitlines()[-1] == "< mul: Catches"  # the gradient of the `sin`


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt], ids=lambda error: error.__name__)
def test_out_of_the_outermost_forward(error):
    model, fine = nn.Sequential(Raises(error)), Block()
    with stator.ModuleTracker() as tracker:
        for _ in range(3):
            with pytest.raises(error):
                model(X)
            assert tracker.parents == {"Global"}
        recorded = []
        fine.first.register_forward_pre_hook(lambda *_: recorded.append(tracker.calls))
        fine(X)
        assert recorded == [("Block", "Block.first")] and tracker.parents == {"Global"}


def test_what_is_computed_after_an_interruption():
    model = nn.Sequential(Raises(KeyboardInterrupt))

    def program():
        with pytest.raises(KeyboardInterrupt):
            model(X)
        torch.ones(2, requires_grad=True).sin().sum().backward()

    assert lines(watch(program), "cos") == "< cos:"


def test_while_the_exception_is_handled():
    model = nn.Sequential(Raises(KeyboardInterrupt))
    with stator.ModuleTracker() as tracker:
        try:
            model(X)
        except KeyboardInterrupt:
            assert tracker.parents == {"Global"}


@pytest.mark.parametrize("which", ["pre", "post"])
def test_in_a_modules_own_hooks(which):
    model = Block()

    def fails(*_):
        raise ValueError

    register = model.first.register_forward_pre_hook if which == "pre" else model.first.register_forward_hook
    handle = register(fails)
    with stator.ModuleTracker() as tracker:
        with pytest.raises(ValueError):
            model(X)
        assert tracker.parents == {"Global"}
        handle.remove()
        model(X)
        assert tracker.parents == {"Global"}


@pytest.mark.parametrize("earlier", [True, False], ids=["before the tracker's", "after the tracker's"])
@pytest.mark.parametrize("which", ["pre", "post"])
def test_in_a_global_hook_of_another_library(which, earlier):
    """Also in a call of the module inside of itself: the outer call is still running."""

    class Again(nn.Module):
        def forward(self, x, depth=1):
            if depth == 0:
                return x
            with pytest.raises(ValueError):
                armed.append(True)
                self(x, 0)
            recorded.append(tracker.calls)
            return x.sin()

    armed, recorded = [], []

    def fails(*_):
        if armed and (which == "post" or armed.pop()):
            armed.clear()
            raise ValueError

    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    register = register_module_forward_pre_hook if which == "pre" else register_module_forward_hook
    handle = register(fails) if earlier else None
    try:
        with stator.ModuleTracker() as tracker:
            handle = handle or register(fails)
            Again()(X)
            assert tracker.parents == {"Global"}
    finally:
        handle.remove()
    assert recorded == [("Again",)]


class FailsInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("in backward")


def test_in_backward():
    class Part(nn.Module):
        def forward(self, x):
            return FailsInBackward.apply(x)

    model, fine = nn.Sequential(nn.Linear(4, 4), Part(), nn.Linear(4, 4)), Net()
    with stator.ModuleTracker() as tracker:
        for _ in range(2):
            with pytest.raises(RuntimeError, match="in backward"):
                model(X).sum().backward()
            assert tracker.parents == {"Global"} and not tracker.is_bw
    expected = lines(watch(lambda: fine(X).sum().backward()), "mm")

    def program():
        with pytest.raises(RuntimeError, match="in backward"):
            model(X).sum().backward()
        fine(X).sum().backward()

    assert lines(watch(program), "mm").endswith(expected) and "Net.head" in expected


def test_in_a_tensor_hook():
    def fails(gradient):
        recorded.append(tracker.path)
        raise RuntimeError("in a hook")

    recorded, model = [], Block()
    model.first.register_forward_hook(lambda module, args, output: output.register_hook(fails) and None)
    with stator.ModuleTracker() as tracker:
        with pytest.raises(RuntimeError, match="in a hook"):
            model(X).sum().backward()
        assert tracker.parents == {"Global"} and not tracker.is_bw
    assert recorded == ["Block.first"]


def test_out_of_the_context():
    with pytest.raises(ValueError), stator.ModuleTracker() as tracker:
        nn.Sequential(Raises())(X)
    assert tracker.parents == {"Global"} and not tracker.is_active


def test_is_bw_is_exact():
    model, recorded = Block(), []
    model.first.register_forward_pre_hook(lambda *_: recorded.append(("forward", tracker.is_bw)))
    model.first.weight.register_hook(lambda gradient: recorded.append(("backward", tracker.is_bw)))
    with stator.ModuleTracker() as tracker:
        loss = model(X).sum()
        recorded.append(("between", tracker.is_bw))
        loss.backward()
        recorded.append(("after", tracker.is_bw))
    assert recorded == [("forward", False), ("between", False), ("backward", True), ("after", False)]
    model(X).sum().backward()
    assert recorded[-1] == ("backward", False)  # outside of the context


def test_entered_and_left_inside_of_a_forward():
    class Inside(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            with stator.ModuleTracker() as tracker:
                recorded.append(tracker.calls)
                self.first.register_forward_pre_hook(lambda *_: recorded.append(tracker.calls))
                x = self.first(x)
            return self.second(x)

    recorded = []
    nn.Sequential(Inside())(X)
    assert recorded == [(), ("Linear",)]

    class Enters(nn.Module):
        def forward(self, x):
            trackers.append(stator.ModuleTracker().__enter__())
            return x

    trackers = []
    nn.Sequential(Enters())(X)
    (tracker,) = trackers
    assert tracker.parents == {"Global"}
    seen = []
    layer = nn.Linear(4, 4)
    layer.register_forward_pre_hook(lambda *_: seen.append(tracker.calls))
    layer(X)
    tracker.__exit__(None, None, None)
    assert seen == [("Linear",)]


def test_entered_twice():
    tracker = stator.ModuleTracker()
    with tracker, pytest.raises(RuntimeError, match="active already"), tracker:
        pass
    assert not tracker.is_active
