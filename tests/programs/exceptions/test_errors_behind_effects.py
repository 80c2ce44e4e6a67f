"""Operations that raise because of their data after effects that the program can see: as uncompiled, with every
backend."""

import gc
import itertools
import weakref

import pytest
import torch

from tests.support.compare import Difference
from tests.support.engine import compile, reset
from tests.support.failing_parts import EFFECTS, FAILURES, ORDERS, PLACES, check, is_kept_by_aot, opaque
from tests.support.harness import Source, T, same
from tests.support.long import every

BACKENDS = {"eager": "eager", "aot_eager": "aot_eager", "opaque": opaque}
# Where aot_autograd differs without any failure: it makes one object of two equal results and no inference tensors, and
# does not compile a checkpoint with random numbers that needs no gradient.
NOT_WITH_AOT = {"in a comprehension", "caught in a loop", "twice", "in inference mode", "checkpointed"}


def check_all(names: list[tuple[str, str, str, str]], backend: str) -> None:
    for one in names:
        reset()
        try:
            check(*one, lambda f: compile(f, BACKENDS[backend], fullgraph=False), 1e-5 if backend != "eager" else None)
        except Difference as difference:
            raise Difference(f"{one}: {difference}") from difference
    reset()


def rotated(values: dict, by: str) -> list[str]:
    """The names, each time from another one on."""
    names = list(values)
    start = sum(by.encode()) % len(names)
    return names[start:] + names[:start]


@pytest.mark.parametrize("backend", ["eager", "opaque"])
@pytest.mark.parametrize("place", PLACES)
def test_each_effect_in_each_place(place, backend):
    failures, orders = itertools.cycle(rotated(FAILURES, place + backend)), itertools.cycle(ORDERS)
    effects = every(2 if backend == "eager" else 5, EFFECTS, list(PLACES).index(place))
    check_all([(next(failures), effect, place, next(orders)) for effect in effects], backend)


@pytest.mark.parametrize("failure", FAILURES)
def test_each_failure_behind_each_effect(failure):
    places, orders = itertools.cycle(rotated(PLACES, failure)), itertools.cycle(ORDERS)
    check_all(
        [(failure, effect, next(places), next(orders)) for effect in every(5, EFFECTS, list(FAILURES).index(failure))],
        "eager",
    )


@pytest.mark.parametrize("place", [place for place in PLACES if place not in NOT_WITH_AOT])
def test_with_aot_eager(place):
    failures, effects = filter(is_kept_by_aot, rotated(FAILURES, place)), rotated(EFFECTS, place)
    check_all(list(zip(failures, effects, [place] * 3, [*ORDERS, *ORDERS])), "aot_eager")


MODEL = """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.table, self.log = nn.BatchNorm1d(3), nn.Embedding(4, 3), []
    def forward(self, x, k):
        y = self.norm(x)
        self.log.append(1)
        y = F.dropout(y, 0.5)
        return y + self.table(k)
f = Model()
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_in_training(backend):
    bad, good = "ARGS[1] = torch.tensor([9, 9, 9])", "ARGS[1] = torch.tensor([1, 0, 1])"
    same(Source(MODEL), T(3, 3), lambda: torch.tensor([0, 1, 2]), mutate=[bad, good, bad], fullgraph=False, calls=2,
         compare_dynamo=False, backend=BACKENDS[backend] if backend != "eager" else None, tolerance=1e-5,
         stateful=True)  # fmt: skip


UNUSED = ["torch.rand(3)", "F.dropout(x, 0.5)", "torch.randperm(4)", "torch.empty(3).uniform_()", "torch.bernoulli(x.sigmoid())"]  # fmt: skip


@pytest.mark.parametrize("drawn", UNUSED)
def test_random_numbers_that_nobody_uses_are_drawn(drawn):
    same(Source(f"def f(x):\n    {drawn}\n    return x + torch.rand(3)"), T(3), backend="aot_eager", tolerance=1e-5,
         compare_dynamo=False)  # fmt: skip


def test_an_operation_runs_once():
    """An operation with side effects that raises is not executed a second time."""
    calls = []

    @torch._dynamo.allow_in_graph
    def counted(x, limit):
        calls.append(1)
        if x.sum() > limit:
            raise ValueError("too large")
        return x + 1

    def program(x):
        y = x * 2
        try:
            return counted(y, 100)
        except ValueError as error:
            return y, str(error)

    compiled = compile(program, fullgraph=False)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    before = len(calls)
    result = compiled(torch.full((3,), 100.0))
    assert result[1] == "too large" and torch.equal(result[0], torch.full((3,), 200.0))
    assert len(calls) == before + 1


def test_nothing_stays_behind():
    table, count = torch.zeros(4, 3), torch.zeros(())

    def program(x, k):
        y = x.exp()
        alive.append(weakref.ref(y))
        count.add_(1)
        return y + table[k]

    alive: list = []
    compiled = compile(program, fullgraph=False)
    compiled(torch.ones(3, 3), torch.tensor([0, 1, 2]))
    for _ in range(3):
        with pytest.raises(IndexError):
            compiled(torch.ones(3, 3), torch.tensor([9, 9, 9]))
    gc.collect()
    assert len(alive) == 4 and all(one() is None for one in alive)
    assert count == 4
