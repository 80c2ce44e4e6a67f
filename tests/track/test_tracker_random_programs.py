"""Random programs compared with a manual record: each program states in which module each operation is, and attaches
that to the nodes of the graph, so that forward, backward and recomputation are checked at every operation."""

import random
from contextlib import contextmanager

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import stator

FUNCTIONS = (torch.sin, torch.tanh, torch.relu, torch.exp, lambda x: x * 0.5, lambda x: x.view(4, 3).view(3, 4))


class Record(TorchDispatchMode):
    """Tracks the position of the program itself, and compares it with the tracker at each operation."""

    def __init__(self, tracker):
        super().__init__()
        self.tracker = tracker
        self.forward = {-1: []}  # for each backward pass that computes something again, and for none: modules around
        self.backward = {}  # for each backward pass: modules around the node that runs
        self.wrong = []
        self.count = {"forward": 0, "backward": 0, "again": 0}

    @property
    def around(self) -> list[str]:
        """The modules around, in forward and where something is computed again."""
        return self.forward[torch._C._current_graph_task_id()]

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        backward = torch._C._current_graph_task_id()
        again = backward in self.forward
        # Nothing is known of a pass that starts at a leaf; and checkpointing detaches what it gives back.
        is_known = (again or backward in self.backward) and (backward == -1 or operation.name() != "aten::detach")
        if is_known:
            self.count["forward" if backward == -1 else "again" if again else "backward"] += 1
            recorded, expected = self.tracker.calls, tuple(self.forward[backward] if again else self.backward[backward])
            if recorded != expected or self.tracker.is_bw != (backward != -1):
                self.wrong.append(f"{operation}: {recorded}, not {expected}")
        return operation(*args, **(kwargs or {}))

    @contextmanager
    def inside(self, name):
        self.around.append(name)
        try:
            yield
        finally:
            self.around.pop()

    def made(self, result):
        """Nodes on the way to `result` that are not known yet were created here."""
        around, found = tuple(self.around), [result.grad_fn]
        while found:
            node = found.pop()
            if node is None or "around" in node.metadata or "AccumulateGrad" in node.name():
                continue
            node.metadata["around"] = around
            node.register_prehook(lambda gradients: self.node_runs(around))
            found += [each for each, _ in node.next_functions]
        return result

    def node_runs(self, around):
        self.backward[torch._C._current_graph_task_id()] = around

    def checkpointed(self, function, x, use_reentrant):
        around = list(self.around)

        def again(x):
            backward = torch._C._current_graph_task_id()
            before = self.forward.get(backward)
            self.forward[backward] = list(around)
            try:
                return function(x)
            finally:
                if before is None:
                    del self.forward[backward]
                else:
                    self.forward[backward] = before

        return self.made(checkpoint(again, x, use_reentrant=use_reentrant, preserve_rng_state=False))


class Part(nn.Module):
    """Runs steps: a function, a child, itself, a stretch that is checkpointed, one that fails, or a gradient."""

    def __init__(self, dice, depth, shared):
        super().__init__()
        for i in range(dice.randint(1, 2)):
            kind = dice.random()
            if depth > 0 and kind < 0.6:
                child = Part(dice, depth - 1, shared)
            elif kind < 0.7:
                child = shared
            else:
                child = nn.Linear(4, 4)
            setattr(self, f"part{i}", child)
        self.names = [name for name, _ in self.named_children()]
        self.steps = self.some_steps(dice, 2)

    def some_steps(self, dice, depth):
        steps = []
        for _ in range(dice.randint(1, 3)):
            kind = dice.choice(["function", "child", "child", "child", "checkpoint", "fails", "itself", "gradient"])
            if kind == "function":
                steps.append((kind, dice.choice(FUNCTIONS)))
            elif kind == "child":
                steps.append((kind, dice.choice(self.names)))
            elif kind == "checkpoint" and depth > 0:
                steps.append((kind, self.some_steps(dice, depth - 1), dice.choice([True, False])))
            elif kind in ("fails", "gradient") and depth > 0:
                steps.append((kind, self.some_steps(dice, depth - 1)))
            elif kind == "itself":
                steps.append((kind,))
        return steps

    def run(self, record, name, steps, x):
        for kind, *what in steps:
            if kind == "function":
                x = record.made(what[0](x))
            elif kind == "child":
                x = self.call(record, getattr(self, what[0]), f"{name}.{what[0]}", x)
            elif kind == "checkpoint":
                x = record.checkpointed(lambda x, steps=what[0]: self.run(record, name, steps, x), x, what[1])
            elif kind == "itself" and record.around.count(name) < 2:
                x = self.call(record, self, name, x)
            elif kind == "fails":
                try:
                    self.run(record, name, what[0], x)
                    raise KeyError("after the steps")
                except KeyError:
                    pass
            elif kind == "gradient":
                loss = record.made(self.run(record, name, what[0], x.detach().requires_grad_()).sum())
                if loss.requires_grad:
                    loss.backward()
        return x

    def call(self, record, child, name, x):
        with record.inside(name):
            return child(record, name, x) if isinstance(child, Part) else record.made(child(x))

    def forward(self, record, name, x):
        return self.run(record, name, self.steps, x)


def run_random_program(seed) -> Record:
    dice = random.Random(seed)
    shared = nn.Linear(4, 4)
    models = [Part(dice, 1, shared) for _ in range(dice.randint(1, 2))]
    x = torch.ones(3, 4, requires_grad=True)
    with stator.ModuleTracker() as tracker, Record(tracker) as record:
        for _ in range(2):
            results = []
            for number, model in enumerate(models, 1):
                name = "Part" if number == 1 else f"Part#{number}"
                computed = record.made(x.sin())
                with record.inside(name):
                    results.append(model(record, name, computed))
            loss = record.made(torch.stack(results).sum())
            loss.backward(retain_graph=dice.random() < 0.3)
        assert tracker.parents == {"Global"} and not tracker.is_bw
    return record


@pytest.mark.parametrize("seeds", [range(first, first + 20) for first in range(0, 60, 20)], ids=lambda each: each[0])
def test_random_programs(seeds):
    counts = dict.fromkeys(("forward", "backward", "again"), 0)
    for seed in seeds:
        record = run_random_program(seed)
        assert record.wrong == [], f"program {seed}"
        for kind, count in record.count.items():
            counts[kind] += count
    assert all(count > 100 for count in counts.values())
