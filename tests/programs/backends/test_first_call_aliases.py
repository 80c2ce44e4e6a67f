"""Inputs that alias when the function is captured, or later, or never: every kind of alias with every kind of write, in
orders that a cache has to distinguish. The example inputs of a compiler must not depend on such a coincidence."""

import itertools

import pytest
import torch

from tests.support.scenarios import same_scenario


def apart():
    return torch.arange(4.0) + 1, torch.arange(4.0) + 5


def overlapping():
    memory = torch.arange(8.0) + 1
    return memory[:4], memory[2:6]


def neighbours():
    memory = torch.arange(8.0) + 1
    return memory[:4], memory[4:]


def base_and_view():
    memory = torch.arange(4.0) + 1
    return memory, memory[:]


def view_and_base():
    memory = torch.arange(4.0) + 1
    return memory.view(4), memory


def one_twice():
    memory = torch.arange(4.0) + 1
    return memory, memory


def detached():
    memory = torch.arange(4.0) + 1
    return memory, memory.detach()


def interleaved():
    memory = torch.arange(8.0) + 1
    return memory[::2], memory[1::2]


ALIASES = [apart, overlapping, neighbours, base_and_view, view_and_base, one_twice, detached, interleaved]


def writes_last(a, b):
    result = b.sum() * a
    a.zero_()
    return result


def writes_first(a, b):
    a.add_(1)
    return b * 2


def writes_both(a, b):
    a.mul_(2)
    b.sub_(1)
    return a + b


def writes_an_item(a, b):
    a[1] = b[-1]
    return a * b


def copies(a, b):
    a.copy_(b.flip(0))
    return a + b


def writes_behind_a_break(a, b):
    torch._dynamo.graph_break()
    result = b.sum() * a
    a.zero_()
    return result


def writes_into_out(a, b):
    torch.add(b, 1, out=a)
    return a * b


WRITES = [writes_last, writes_first, writes_both, writes_an_item, copies, writes_behind_a_break, writes_into_out]
# Each kind is first once, and each follows another one.
ORDERS = [(first, apart, second, apart) for first, second in zip(ALIASES, ALIASES[1:] + ALIASES[:1], strict=True)]


def check(write, order, with_gradient: str, backend: str, tolerance: float = 0.0) -> None:
    def scenario(compile, note):
        f = compile(write)
        for make in order:
            leaf = torch.ones(4, requires_grad=True)
            a, b = make()
            if with_gradient == "of a factor":
                note(lambda a=a, b=b, leaf=leaf: f(a, b) * leaf)
            elif with_gradient == "of both":
                # Views of a result that autograd follows.
                whole = torch.cat([leaf * 2, leaf * 3])
                offset = b.storage_offset() if make is not apart else 4
                a, b = whole[:4], whole[offset : offset + 4]
                result = note(f, a, b)
                if isinstance(result, torch.Tensor) and result.requires_grad:
                    note.gradients(result, leaf)
                note.value(whole.detach())
            else:
                note(f, a, b)
            note.value((a.detach(), b.detach()))

    same_scenario(scenario, backend, tolerance=tolerance)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(make.__name__ for make in order[:3:2]))
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_alias_when_captured(write, order) -> None:
    check(write, order, "of nothing", "aot_eager")


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
@pytest.mark.parametrize("with_gradient", ["of a factor", "of both"])
@pytest.mark.parametrize(
    "order",
    [(overlapping, neighbours, apart), (apart, overlapping, neighbours)],
    ids=["overlapping first", "apart first"],
)
def test_alias_with_gradients(write, order, with_gradient: str) -> None:
    if with_gradient == "of both" and write in (writes_into_out,):
        pytest.skip("autograd refuses `out` for tensors that require gradients")
    check(write, order, with_gradient, "aot_eager")


@pytest.mark.parametrize("write", [writes_last, writes_both], ids=lambda write: write.__name__)
def test_alias_when_captured_by_inductor(write) -> None:
    check(write, (overlapping, neighbours, apart, overlapping), "of nothing", "inductor", 1e-5)


HELD = torch.arange(6.0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("place", ["global", "closure", "buffer"])
def test_alias_of_what_the_program_holds(backend: str, place: str) -> None:
    def scenario(compile, note):
        global HELD
        held = HELD = torch.arange(6.0)
        module = torch.nn.Module()
        module.buffer = torch.nn.Buffer(held)

        def by_global(a):
            a.mul_(2)
            return HELD + 1

        def by_closure(a):
            a.mul_(2)
            held.add_(a.sum())
            return held + 1

        def by_buffer(a):
            module.buffer.add_(1)
            return a * module.buffer.sum()

        f = compile({"global": by_global, "closure": by_closure, "buffer": by_buffer}[place])
        for make in (lambda: held[:3], lambda: torch.ones(3), lambda: held[2:5], lambda: held[3:]):
            note(f, make())
            note.value(held)

    same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_in_one_storage(backend: str) -> None:
    def scenario(compile, note):
        memory = torch.arange(9.0).view(3, 3)
        first, second = torch.nn.Parameter(memory), torch.nn.Parameter(memory.t())

        def f(x):
            with torch.no_grad():
                first.add_(1)
            return x @ second

        f = compile(f)
        for _ in range(3):
            note.gradients(note(f, torch.ones(1, 3)), first, second)
            note.value(memory)

    same_scenario(scenario, backend)


def test_elements_that_share_memory() -> None:
    def scenario(compile, note):
        f = compile(lambda x: x.add_(1))
        for sizes, strides in itertools.product([(2, 2), (3, 2)], [(1, 1), (2, 1), (1, 2), (0, 1)]):
            memory = torch.arange(12.0)
            note(f, memory.as_strided(sizes, strides))
            note.value(memory)

    same_scenario(scenario, "aot_eager")
