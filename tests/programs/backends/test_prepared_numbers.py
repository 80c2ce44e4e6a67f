"""`backend="stator"`: numbers and sizes that change between calls are filled into prepared calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.programs.backends.test_prepared_calls import bits, compiled, x

Tensor = torch.Tensor

# (program of a tensor and two ints, how many of its steps are prepared)
PROGRAMS: dict[str, tuple[Callable[[Tensor, int, int], Any], int]] = {
    "by place": (lambda x, a, b: x.narrow(0, a, b), 1),
    "by name": (lambda x, a, b: x.narrow(length=b, dim=0, start=a), 1),
    "functions": (lambda x, a, b: torch.narrow(x, 0, a, b) + torch.roll(x, a, 0)[:1], 4),
    "tensors of numbers": (lambda x, a, b: x * a + b - x / b, 4),
    "on the left": (lambda x, a, b: a - x + a * x + (b < x), 5),
    "scalars": (lambda x, a, b: torch.clamp(x, -a, b) + torch.add(x, x, alpha=a), 3),
    "numbers as floats": (lambda x, a, b: F.elu(x * 1.0, a) + torch.full((1, 1), a * 0.5), 3),
    "rows of sizes": (lambda x, a, b: (x.new_zeros(a, b), x.new_ones((b, 2, a)), torch.zeros([a, b]) + 1), 4),
    "sizes": (lambda x, a, b: x.reshape(x.shape[0] // 2, 2, -1).transpose(0, 1).reshape(-1, x.shape[0]), 3),
    "computed": (lambda x, a, b: x.expand(a + b, *x.shape) * (a * b - 1), 2),
    "factories": (lambda x, a, b: torch.arange(x.shape[0]) + torch.arange(a, a + x.shape[0]), 3),
    "functions in Python": (lambda x, a, b: F.layer_norm(F.softmax(x * a, -1), (4,)) + F.dropout(x, 0.5), 5),
    "several results": (lambda x, a, b: torch.topk(x, b, 0)[0] * a, 3),
    "in place": (lambda x, a, b: x.clone().mul_(a).add_(x, alpha=b), 3),
    "random": (lambda x, a, b: torch.rand(a, b) + torch.randint(a, a + 5, (a, b)), 3),
}
# The first two are equal in the first call: what is not known by its value alone has to be known by its place.
NUMBERS = [(2, 2), (1, 2), (2, 1), (3, 2), (2, 3), (2, 2)]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_numbers_that_change(name: str, grad: bool) -> None:
    program, prepared = PROGRAMS[name]
    runners: list[Any] = []
    entry = compiled(program, runners, dynamic=True)
    for rows in (6, 8):
        for a, b in NUMBERS:
            seen = []
            for function in (program, entry):
                given = x(rows, 4, grad=grad)
                torch.manual_seed(1)
                results = function(given, a, b)
                all_results = results if isinstance(results, tuple) else (results,)
                for result in all_results:
                    if result.requires_grad:
                        result.sum().backward()
                seen.append((bits(results), bits(given.grad), [result.stride() for result in all_results]))
            assert seen[0] == seen[1]
    # A 1 may be a number of its own.
    assert {runner.prepared[0] for runner in runners} == {prepared}


def test_numbers_of_data_are_filled_in() -> None:
    def program(x: Tensor) -> Tensor:
        return (x * 2).clamp(max=x.sum().item()) + x[0].item()

    runners: list[Any] = []
    entry = compiled(program, runners)
    for values in ([1.0, 2.0], [5.0, -3.0], [0.0, 0.25]):
        assert bits(entry(torch.tensor(values))) == bits(program(torch.tensor(values)))
    assert runners[0].prepared[0] >= 4


def test_an_int_that_no_call_takes() -> None:
    """The error is that of the binding, and everything before it is as uncompiled."""

    def program(x: Tensor, y: Tensor, number: Tensor) -> Tensor:
        x.add_(1)
        first, second = torch.max(x, 0)
        by = number.item()
        return (y * (by * by)).sum() + first + second

    given = []
    for function in (program, compiled(program)):
        x, raised = torch.zeros(3), []
        for by in (2, 3, 2**40, 4):
            try:
                raised.append(function(x, torch.ones(2), torch.tensor(by)).item())
            except (RuntimeError, OverflowError) as error:
                raised.append((type(error), str(error)))
        given.append((raised, x.tolist(), x._version))
    assert given[0] == given[1]
    assert any(isinstance(one, tuple) for one in given[0][0])
