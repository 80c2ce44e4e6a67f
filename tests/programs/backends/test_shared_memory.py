"""Aliased inputs of a program that writes to one of them: a backend that assumes that inputs don't alias would compute
something else. Which inputs alias may change from call to call."""

import pytest
import torch

import stator


def writes_then_reads(a, b):
    a.add_(1)
    return b * 2 + a


def reads_then_writes_to_both(a, b):
    product = a * b
    a.mul_(2)
    b.sub_(1)
    return product + a + b


def writes_through_a_view(a, b):
    a[1:].zero_()
    return b + 1, a * 2


def writes_to_an_attribute(a, b):
    HELD.add_(a)
    return b * HELD


HELD = torch.zeros(3)


def calls():
    """Pairs of inputs, with their memory, in orders that a cache has to distinguish."""
    apart = torch.arange(3.0), torch.arange(3.0) + 5
    yield "apart", apart, apart
    memory = torch.arange(12.0)
    yield "overlapping in part", (memory[0:3], memory[1:4]), (memory,)
    yield "next to each other", (memory[0:3], memory[3:6]), (memory,)
    yield "the other way round", (memory[4:7], memory[2:5]), (memory,)
    yield "the same elements", (memory[0:3], memory[0:3]), (memory,)
    yield "detached", (memory[6:9], memory[6:9].detach()), (memory,)
    yield "interleaved", (memory[0:6:2], memory[1:7:2]), (memory,)
    numbers = memory.numpy()
    yield "through numpy", (torch.from_numpy(numbers[0:3]), torch.from_numpy(numbers[1:4])), (memory,)
    single = torch.ones(3)
    yield "one tensor", (single, single), (single,)
    yield "with the attribute", (torch.ones(3), HELD[:]), (HELD,)
    yield "apart again", (torch.ones(3), torch.ones(3)), ()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "function", [writes_then_reads, reads_then_writes_to_both, writes_through_a_view, writes_to_an_attribute]
)
def test_inputs_in_the_same_memory(function, backend):
    outcomes = []
    for run in (function, stator.compile(function, backend=backend)):
        HELD.zero_()
        found = []
        for name, inputs, memory in calls():
            result = run(*inputs)
            result = result if isinstance(result, tuple) else (result,)
            found.append((name, [part.clone() for part in result], [part.clone() for part in memory]))
        outcomes.append(found)
    for (name, expected, memory), (_, result, memory_after) in zip(*outcomes, strict=True):
        torch.testing.assert_close(result, expected, rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")
        torch.testing.assert_close(memory_after, memory, rtol=0, atol=0, msg=lambda text, name=name: f"{name}: {text}")


def test_buffers_that_a_module_writes_to():
    """Many inputs, some of them written to, and one of them is handed in as an argument too."""
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)) for _ in range(4)]
    model = torch.nn.Sequential(*layers)
    state = {name: value.clone() for name, value in model.state_dict().items()}

    def f(x, offset):
        return model(x) + offset

    outcomes = []
    for run in (f, stator.compile(f, backend="aot_eager")):
        model.load_state_dict(state)
        x = torch.linspace(-1, 1, 12).reshape(3, 4)
        mean = model[3][1].running_mean
        results = [run(x, torch.ones(4)), run(x, mean.view(4)), run(x, torch.ones(4)), run(x, mean.detach())]
        outcomes.append([result.detach().clone() for result in results] + [mean.clone()])
    torch.testing.assert_close(outcomes[0], outcomes[1], rtol=1e-6, atol=1e-6)


WEIGHT = torch.nn.Parameter(torch.tensor([1.0, 2.0, -1.0]))


def gives_back_one(a, b, c):
    a *= 3
    b *= 5
    c += WEIGHT
    return b


def gives_back_all(a, b, c):
    a *= 3
    b *= 5
    c += b * WEIGHT
    return a, b, c


def gives_back_parts(a, b, c):
    a *= 3
    b *= 5
    c += WEIGHT
    return b[1:], c[1:], a + 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", [gives_back_one, gives_back_all, gives_back_parts])
def test_written_inputs_of_which_one_begins_to_require_a_gradient(function, backend):
    outcomes = []
    for run in (function, stator.compile(function, backend=backend)):
        for _ in range(2):
            inputs = [torch.full((3,), float(i + 1)) for i in range(3)]
            result = run(*inputs)
            result = result if isinstance(result, tuple) else (result,)
            given_back = [[one is other for other in inputs] for one in result]
            WEIGHT.grad = None
            inputs[2].sum().backward()
            outcomes.append(([part.detach() for part in (*result, *inputs)], given_back, WEIGHT.grad))
    for values, given_back, gradient in outcomes[1:]:
        torch.testing.assert_close(values, outcomes[0][0], rtol=0, atol=0)
        assert given_back == outcomes[0][1]
        torch.testing.assert_close(gradient, outcomes[0][2], rtol=0, atol=0)


def test_tensor_that_is_only_asked_about_may_be_the_one_that_is_written_to():
    def f(a, b):
        a += WEIGHT
        return b.requires_grad, a is b

    compiled = stator.compile(f, backend="eager")
    one, other = torch.ones(3), torch.ones(3)
    assert compiled(one, other) == f(torch.ones(3), torch.ones(3)) == (False, False)
    assert compiled(other, other) == (True, True)
    assert compiled(torch.ones(3), torch.ones(3)) == (False, False)
