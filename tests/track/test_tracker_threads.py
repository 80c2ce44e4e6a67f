"""Trackers and threads: nested trackers, one in each thread, backward in another thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import stator
from tests.track.watching import Block, Net, Watch, lines, watch

X = torch.ones(3, 4)


def in_thread(work):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def test_nested_trackers():
    model, other = Block(), Block()
    with stator.ModuleTracker() as outer:
        other(X)
        with stator.ModuleTracker() as inner, Watch(outer) as by_outer, Watch(inner) as by_inner:
            model(X).sum().backward()
        assert inner.parents == {"Global"} and outer.modules["Block#2"] is model and inner.modules["Block"] is model
    assert lines(by_outer.seen, "mm") == lines(by_inner.seen, "mm").replace("Block", "Block#2") != ""


def test_the_outer_one_left_first():
    model = Block()
    outer, inner = stator.ModuleTracker().__enter__(), stator.ModuleTracker().__enter__()
    outer.__exit__(None, None, None)
    seen = []
    model.register_forward_pre_hook(lambda *_: seen.append((outer.path, inner.path)))
    model(X)
    inner.__exit__(None, None, None)
    model(X)
    assert seen == [("Global", "Block"), ("Global", "Global")]


def test_a_tracker_in_each_thread():
    expected = lines(watch(lambda: Net()(X).sum().backward()))
    barrier = threading.Barrier(4)

    def work(_):
        barrier.wait()
        return [lines(watch(lambda: Net()(X).sum().backward())) for _ in range(10)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(work, range(4)))
    assert all(each == expected for result in results for each in result)
    assert "< mm: Net Net.head" in expected


def test_a_thread_with_a_tracker_is_not_seen_by_others():
    mine, theirs = Block(), Block()
    with stator.ModuleTracker() as tracker:

        def work():
            with stator.ModuleTracker() as other:
                theirs(X)
                return list(other.modules)

        assert in_thread(work) == ["Block", "Block.first", "Block.second"]
        mine(X)
        assert tracker.modules["Block"] is mine and len(tracker.modules) == 3


def test_forward_in_a_thread_without_a_tracker():
    model, recorded = Block(), []
    model.first.register_forward_pre_hook(lambda *_: recorded.append(tracker.calls))
    with stator.ModuleTracker() as tracker:
        in_thread(lambda: model(X))
        assert tracker.parents == {"Global"}
    assert recorded == [("Block", "Block.first")]


def test_backward_in_another_thread():
    model = Net()
    expected = lines([each for each in watch(lambda: model(X).sum().backward()) if each.is_bw], "mm", "tanh_backward")
    with stator.ModuleTracker() as tracker:
        loss = model(X).sum()

        def work():
            with Watch(tracker) as watched:
                loss.backward()
            return watched.seen

        seen = in_thread(work)
        assert tracker.parents == {"Global"} and not tracker.is_bw
    assert lines(seen, "mm", "tanh_backward") == expected != ""


def test_backward_in_a_thread_that_has_its_own_tracker():
    model, other = Block(), nn.Linear(4, 4)
    with stator.ModuleTracker() as tracker:
        loss = model(X).sum()

        def work():
            with stator.ModuleTracker() as own, Watch(tracker) as by_first, Watch(own) as by_own:
                loss.backward()
                other(X).sum().backward()
            return by_first.seen, by_own.seen

        by_first, by_own = in_thread(work)
    assert lines(by_first, "mm") == "\n".join(["< mm: Block Block.second"] * 2 + ["< mm: Block Block.first", "< mm:"])
    assert lines(by_own, "mm") == "\n".join(["< mm:"] * 3 + ["< mm: Linear"])


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["saved tensors", "reentrant"])
def test_recomputed_in_another_thread(use_reentrant):
    model = nn.Sequential(Block(), nn.Linear(4, 4))
    with stator.ModuleTracker() as tracker:
        x = torch.ones(3, 4, requires_grad=True)
        loss = model[1](checkpoint(model[0], x, use_reentrant=use_reentrant)).sum()

        def work():
            with Watch(tracker) as watched:
                loss.backward()
            return watched.seen

        seen = in_thread(work)
    # Where tensors are saved, computing again stops as soon as the last of them is there.
    again = ["< addmm: Block Block.first", "< addmm: Block Block.second"]
    assert lines(seen, "addmm").splitlines() == (again if use_reentrant else again[:1])
    assert lines(seen, "mm") == "\n".join(
        ["< mm: Linear"] * 2 + ["< mm: Block Block.second"] * 2 + ["< mm: Block Block.first"] * 2
    )


def test_concurrent_backward_passes():
    models = [nn.Sequential(nn.Linear(4, 4), nn.Tanh(), Block()) for _ in range(4)]
    barrier = threading.Barrier(4)
    with stator.ModuleTracker() as tracker:
        losses = [model(X).sum() for model in models]

        def work(loss):
            barrier.wait()
            with Watch(tracker) as watched:
                for _ in range(5):
                    loss.backward(retain_graph=True)
            return watched.seen

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(work, losses))
    for number, seen in enumerate(results, 1):
        root = "Sequential" if number == 1 else f"Sequential#{number}"
        assert lines(seen, "tanh_backward") == "\n".join([f"< tanh_backward: {root} {root}.1"] * 5)


def test_double_backward_each_part_in_a_thread():
    """Forward here, the gradient in a second thread, the gradient of that in a third."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.ones(3, 4, requires_grad=True)

    def gradient():
        return torch.autograd.grad(model(x).sum(), x, create_graph=True)[0]

    expected = lines(watch(lambda: gradient().square().sum().backward()), "mm", "tanh_backward")
    with stator.ModuleTracker() as tracker:

        def watched(work):
            with Watch(tracker) as watched:
                result = work()
            return result, watched.seen

        loss = model(x).sum()
        first, seen = in_thread(lambda: watched(lambda: torch.autograd.grad(loss, x, create_graph=True)[0]))
        _, more = in_thread(lambda: watched(lambda: first.square().sum().backward()))
        assert tracker.parents == {"Global"} and not tracker.is_bw
    assert lines(seen + more, "mm", "tanh_backward") == expected
    assert expected.count("< tanh_backward: Sequential Sequential.1") == 2


def test_passes_inside_of_each_other_that_move_to_another_thread():
    """Beyond sixty nested passes, autograd continues in another thread, which has no Python frames."""

    class Nest(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            places.append((tracker.path, tracker.is_bw, threading.get_ident()))
            if ctx.depth:
                with torch.enable_grad():
                    x = torch.ones(2, requires_grad=True)
                    model(x, ctx.depth - 1).sum().backward()
            return gradient, None

    class Part(nn.Module):
        def forward(self, x, depth):
            return Nest.apply(x, depth)

    places, model = [], Part()
    with stator.ModuleTracker() as tracker:
        model(torch.ones(2, requires_grad=True), 70).sum().backward()
        assert tracker.parents == {"Global"}
    assert {place[:2] for place in places} == {("Part", True)} and len(places) == 71
    assert len({thread for _, _, thread in places}) > 1


def test_double_backward_in_several_threads():
    def work(_):
        def program():
            model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
            x = torch.ones(3, 4, requires_grad=True)
            (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            gradient.square().sum().backward()

        return [lines(watch(program)) for _ in range(5)]

    (expected, *_) = work(0)
    with ThreadPoolExecutor(4) as pool:
        assert all(each == expected for result in pool.map(work, range(4)) for each in result)
    assert "< tanh_backward: Sequential Sequential.1" in expected
