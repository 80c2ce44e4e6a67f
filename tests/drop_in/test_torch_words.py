"""Reasons for recompiles in the words that people search for in the logs of TorchDynamo."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("installed")

A = torch.ones(3, 4, 5)

CHANGES = {
    "tensor 'a' size mismatch at index 0. expected 3, actual 2": (A, A[:2]),
    "tensor 'a' stride mismatch at index 0. expected 20, actual 1": (A, A.clone().as_strided((3, 4, 5), (1, 3, 12))),
    "tensor 'a' rank mismatch. expected 3, actual 2": (A, A[0]),
    "tensor 'a' dispatch key set mismatch.": (A, A.to("meta")),
    "tensor 'a' dtype mismatch. expected Float, actual Half": (A, A.half()),
    "tensor 'a' requires_grad mismatch. expected requires_grad=0": (A, A.clone().requires_grad_()),
    "expected type of 'a' to be a tensor type, ' but found <class 'int'>": (A, 3),
    "a == 3": (3, 4),
    "a == 'x'": ("x", "y"),
    "len(a) == 1": ([1], [1, 2]),
}


@pytest.mark.parametrize("words", CHANGES)
def test_reasons_of_recompiles(words):
    def program(x, a):
        return (x + 1, a + a if not isinstance(a, (list, str)) else len(a) if isinstance(a, list) else a == "x")

    told: list[str] = []
    compiled = torch._dynamo.optimize("eager", guard_fail_fn=lambda failed: told.append(failed[0]), dynamic=False)(
        program
    )
    before, after = CHANGES[words]
    compiled(torch.ones(2), before)
    compiled(torch.ones(2), after)
    assert len(told) == 1 and told[0].startswith(words) and "  # " in told[0], told


def test_reasons_of_a_module_name_the_parameters_of_forward():
    class Module(torch.nn.Module):
        def forward(self, x, y):
            return x + y.add_(x)

    told: list[str] = []
    compiled = torch._dynamo.optimize("eager", guard_fail_fn=lambda failed: told.append(failed[0]))(Module())
    a = torch.ones(3)
    compiled(a, a)
    compiled(a, torch.ones(3))
    compiled(a, torch.ones(3, dtype=torch.float64))
    assert told[0].startswith("x is y  # L['y'] is not L['x']"), told
    assert any(words.startswith("tensor 'y' dtype mismatch. expected Float, actual Double") for words in told), told


def test_guards_that_are_exported():
    """Each has the code and the kind of torch's own."""
    exported: list[tuple[str, str]] = []

    def export(guards):
        exported.extend((guard.code_list[0], guard.guard_types[0]) for guard in guards if guard.code_list is not None)

    compiled = torch._dynamo.optimize("eager", nopython=True, guard_export_fn=export)(lambda x, y: x + y)
    x = torch.ones(3)
    compiled(x, x)
    assert ("L['x'] is L['y']", "OBJECT_ALIASING") in exported
    assert any(code.startswith("check_tensor(L['x']") and kind == "TENSOR_MATCH" for code, kind in exported)
