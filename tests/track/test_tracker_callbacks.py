"""Callbacks on entering and leaving modules, in forward and in backward."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import stator
from tests.track.watching import Block

X = torch.ones(3, 4)


class Recorder:
    """Records the arguments of callbacks: `>` and `<` in forward, `>>` and `<<` in backward."""

    def __init__(self):
        self.lines: list[str] = []
        self.tracker = stator.ModuleTracker(on_enter=self.enter, on_leave=self.leave)

    def enter(self, name, module, is_bw):
        self.record(">>" if is_bw else ">", name, module)

    def leave(self, name, module, is_bw):
        self.record("<<" if is_bw else "<", name, module)

    def record(self, sign, name, module):
        assert self.tracker.path == name and self.tracker.modules[name] is module
        self.lines.append(f"{sign} {name}")

    def __str__(self):
        return "\n".join(self.lines)


def recorded_calls(program) -> list[str]:
    recorder = Recorder()
    with recorder.tracker:
        program()
    return recorder.lines


def block_forward(name="Block"):
    return [f"> {name}", f"> {name}.first", f"< {name}.first", f"> {name}.second", f"< {name}.second", f"< {name}"]


def block_backward(name="Block"):
    return [line.replace("<", "<<").replace(">", ">>") for line in [
        f"> {name}", f"> {name}.second", f"< {name}.second", f"> {name}.first", f"< {name}.first", f"< {name}",
    ]]  # fmt: skip


def test_forward_and_backward():
    model = Block()
    assert recorded_calls(lambda: model(X).sum().backward()) == block_forward() + block_backward()


def test_nested():
    model = nn.Sequential(Block(), nn.Tanh())
    forward = ["> Sequential", *block_forward("Sequential.0"), "> Sequential.1", "< Sequential.1", "< Sequential"]
    backward = [">> Sequential", ">> Sequential.1", "<< Sequential.1", *block_backward("Sequential.0"), "<< Sequential"]
    assert recorded_calls(lambda: model(X).sum().backward()) == forward + backward


def test_every_enter_has_its_leave_when_forward_raises():
    class Raises(nn.Module):
        def forward(self, x):
            raise error("on purpose")

    model = nn.Sequential(nn.Sequential(Raises()))
    names = ["Sequential", "Sequential.0", "Sequential.0.0"]
    for error in (ValueError, KeyboardInterrupt):
        recorder = Recorder()
        with recorder.tracker:
            with pytest.raises(error):
                model(X)
            Block()(X)
        assert (
            recorder.lines == [f"> {name}" for name in names] + [f"< {name}" for name in names[::-1]] + block_forward()
        )


def test_every_enter_has_its_leave_when_backward_raises():
    def fails(gradient):
        raise RuntimeError("in a hook")

    model, recorder = Block(), Recorder()
    handle = model.first.weight.register_hook(fails)
    with recorder.tracker:
        with pytest.raises(RuntimeError, match="in a hook"):
            model(X).sum().backward()
        handle.remove()
        model(X).sum().backward()
    failed = block_backward()
    assert recorder.lines == block_forward() + failed + block_forward() + block_backward()


def test_left_at_the_end_of_the_context_at_the_latest():
    def fails(gradient):
        raise RuntimeError("in a hook")

    model, recorder = Block(), Recorder()
    model.first.weight.register_hook(fails)
    recorder.record = lambda sign, name, module: recorder.lines.append(f"{sign} {name}")
    with pytest.raises(RuntimeError, match="in a hook"), recorder.tracker:
        model(X).sum().backward()
    assert recorder.lines == block_forward() + block_backward()


def test_what_they_raise_in_forward_is_raised_by_the_call():
    def fails(name, module, is_bw):
        if name == "Block.first":
            raise LookupError(name)

    for arguments in ({"on_enter": fails}, {"on_leave": fails}):
        with stator.ModuleTracker(**arguments) as tracker:
            with pytest.raises(LookupError, match=r"Block\.first"):
                Block()(X)
            assert tracker.parents == {"Global"}


def test_what_they_raise_in_backward_is_raised_by_the_pass():
    def fails(name, module, is_bw):
        if is_bw and name == "Block.second":
            raise LookupError(name)

    for arguments in ({"on_enter": fails}, {"on_leave": fails}):
        model = Block()
        with stator.ModuleTracker(**arguments) as tracker:
            with pytest.raises(LookupError, match=r"Block\.second"):
                model(X).sum().backward()
            assert tracker.parents == {"Global"}
        assert model.first.weight.grad is not None  # the pass went on to its end


def test_only_one_of_them():
    names = []
    with stator.ModuleTracker(on_leave=lambda name, module, is_bw: names.append((name, is_bw))):
        nn.Sequential(nn.Linear(4, 4))(X).sum().backward()
    assert names == [(name, is_bw) for is_bw in (False, True) for name in ("Sequential.0", "Sequential")]


def test_modules_computed_again():
    """Their forward is reported inside of the backward that triggered it."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    x = torch.ones(3, 4, requires_grad=True)
    lines = recorded_calls(lambda: checkpoint(model, x, use_reentrant=True).sum().backward())
    forward = ["> Sequential", "> Sequential.0", "< Sequential.0", "> Sequential.1", "< Sequential.1", "< Sequential"]
    assert lines == forward * 2 + [
        ">> Sequential", ">> Sequential.1", "<< Sequential.1", ">> Sequential.0", "<< Sequential.0", "<< Sequential",
    ]  # fmt: skip


def test_a_gradient_inside_of_a_forward():
    class Penalty(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 1)

        def forward(self, x):
            torch.autograd.grad(self.inner(x).sum(), self.inner.weight)
            return x

    assert recorded_calls(lambda: Penalty()(X)) == [
        "> Penalty", "> Penalty.inner", "< Penalty.inner", ">> Penalty.inner", "<< Penalty.inner", "< Penalty",
    ]  # fmt: skip


def test_a_node_that_is_called_by_hand():
    model, recorder = nn.Linear(4, 4), Recorder()
    with recorder.tracker:
        result = model(X)
        gradients = result.grad_fn(torch.ones_like(result))
        assert recorder.tracker.parents == {"Global"} and not recorder.tracker.is_bw
    assert recorder.lines == ["> Linear", "< Linear"] and len(gradients) == 3


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="on_enter and on_leave take a callable"):
        stator.ModuleTracker(on_enter=1)
    with pytest.raises(TypeError):
        stator.ModuleTracker(lambda *_: None)
