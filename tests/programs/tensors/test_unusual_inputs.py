"""Inputs that are not strided, not dense or without data: results are those of the uncompiled program."""

import functools

import pytest
import torch
import torch._dynamo
from torch import nn

from tests.support.scenarios import same_scenario

KINDS = {
    "quantized": lambda: torch.quantize_per_tensor(torch.arange(4.0).view(2, 2), 0.5, 1, torch.qint8),
    "quantized by channel": lambda: torch.quantize_per_channel(
        torch.arange(4.0).view(2, 2), torch.tensor([0.5, 0.1]), torch.tensor([0, 1]), 0, torch.qint8
    ),
    "sparse": lambda: torch.arange(4.0).view(2, 2).to_sparse(),
    "sparse by rows": lambda: torch.arange(4.0).view(2, 2).to_sparse_csr(),
    "oneDNN": lambda: torch.arange(4.0).view(2, 2).to_mkldnn(),
    "conjugate": lambda: torch.tensor([[1 + 2j, 3 - 1j], [0j, 1j]]).conj(),
    "negative": lambda: torch.tensor([[1 + 2j, 3 - 1j], [0j, 1j]]).conj().imag,
    "meta": lambda: torch.ones(2, 2, device="meta"),
    "empty": lambda: torch.ones(0, 2),
    "expanded": lambda: torch.arange(2.0).expand(2, 2),
    "windows": lambda: torch.arange(8.0).as_strided((2, 2), (1, 1)),
    "parts of a nested one": lambda: torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 2)]).unbind()[0],
}
OPERATIONS = {
    "times": lambda x: x * 2,
    "sum": lambda x: x.sum(),
    "written": lambda x: (x.mul_(2), x),
    "item": lambda x: x[0],
    "item set": lambda x: (x.__setitem__(0, 1), x),
    "dense": lambda x: x.to_dense(),
    "dequantized": lambda x: (x.dequantize(), x.q_scale()),
    "questions": lambda x: (x.is_quantized, x.is_sparse, x.is_mkldnn, x.is_nested, x.is_conj(), str(x.layout)),
    "sizes": lambda x: (tuple(x.shape), x.dim(), x.numel(), x.dtype == torch.float32),
    "strides": lambda x: (x.stride(), x.storage_offset()),
    "rows": lambda x: [row * 2 for row in x],
    "same": lambda x: x,
    "number": lambda x: x.sum().item(),
}


@functools.cache
def aot_eager_knows(operation: str) -> bool:
    """Whether this PyTorch's `aot_eager` compiles it: 2.11's fails at `to_dense`, with `torch.compile` as well."""
    torch._dynamo.reset()
    try:
        torch.compile(OPERATIONS[operation], backend="aot_eager")(torch.ones(2, 2))
    except torch._dynamo.exc.BackendCompilerFailed:
        return False
    finally:
        torch._dynamo.reset()
    return True


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind: str, operation: str, backend: str) -> None:
    if backend == "aot_eager" and operation == "dense" and not aot_eager_knows(operation):
        pytest.skip("aot_eager does not compile it")

    def scenario(compile, note):
        f = compile(OPERATIONS[operation])
        for make in (KINDS[kind], KINDS[kind], lambda: torch.arange(4.0).view(2, 2), KINDS[kind]):
            x = make()
            note(f, x)
            note.value(x)

    same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_nested(backend: str) -> None:
    def scenario(compile, note):
        f = compile(lambda x: [part * 2 for part in x.unbind()])
        g = compile(lambda x: (x.is_nested, [part + 1 for part in x]))
        for _ in range(2):
            x = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
            note(f, x)
            note(g, x)

    same_scenario(scenario, backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_swapped_tensors(backend: str) -> None:
    def scenario(compile, note):
        torch.manual_seed(0)
        model = nn.Linear(2, 2)
        f = compile(model)
        g = compile(lambda x: x.add_(1))
        other, x, y = nn.Parameter(torch.ones(2, 2) * 3), torch.ones(2), torch.zeros(2)
        for _ in range(2):
            note(f, torch.ones(1, 2))
            note(lambda: torch.utils.swap_tensors(model.weight, other))
            note(f, torch.ones(1, 2))
            note(g, x)
            note(lambda: torch.utils.swap_tensors(x, y))
            note(g, x)

    same_scenario(scenario, backend)
