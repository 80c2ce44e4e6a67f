"""Programs whose sizes change between calls, on the edge of what a capture may assume: sizes that PyTorch rejects, sizes
that Python computes with, layouts that change, indices beyond the end. Results, arguments and exceptions are compared with
uncompiled, where sizes become dynamic by themselves and where they are from the first call."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.support.compare import assert_same


def halved(x):
    n = x.shape[0]
    while n > 1:
        n //= 2
        x = x[:n] if n else x
    return x


T = torch.randn

CASES = {
    "size of a scalar": (lambda x: x.size(0) if x.dim() else x.size(-1), lambda: [(T(2),), (T(()),), (T(3),)]),
    "stride of a scalar": (lambda x: x.stride(0), lambda: [(T(2),), (T(()),), (T(3),)]),
    "index error": (lambda x: x[5], lambda: [(T(n, 2),) for n in (8, 7, 6, 5, 4, 3, 9)]),
    "shape mismatch": (
        lambda x, y: x + y,
        lambda: [
            (T(4, 3), T(4, 3)),
            (T(5, 3), T(5, 3)),
            (T(5, 3), T(6, 3)),
            (T(5, 3), T(1, 3)),
            (T(1, 3), T(1, 3)),
            (T(0, 3), T(0, 3)),
            (T(2, 3), T(2, 3)),
        ],
    ),
    "matmul mismatch": (
        lambda x, y: x @ y,
        lambda: [(T(4, 3), T(3, 4)), (T(5, 6), T(6, 5)), (T(5, 6), T(5, 6)), (T(2, 2), T(2, 2)), (T(7, 1), T(1, 7))],
    ),
    "view mismatch": (lambda x: x.view(-1, 4), lambda: [(T(n, 2),) for n in (2, 4, 6, 3, 8, 5)]),
    "list of sizes": (lambda x: [x.shape[0]] * 2 + list(x.shape), lambda: [(T(n, 2),) for n in (2, 4, 6, 3)]),
    "dict by size": (lambda x: {x.shape[0]: x.sum()}, lambda: [(T(n, 2),) for n in (2, 4, 6, 3, 4)]),
    "compare": (
        lambda x, y: (x.shape == y.shape, x.shape[0] == y.shape[0], x.shape[0] < y.shape[0], x.shape[0] in (3, 4)),
        lambda: [(T(a, 2), T(b, 2)) for a, b in ((2, 2), (3, 3), (4, 3), (3, 4), (5, 5), (6, 2))],
    ),
    "an operation takes a quotient of a product": (
        lambda x: (y := F.avg_pool1d(x.flatten()[None], 2).flatten(), y / y.shape[0])[1],
        lambda: [(T(8, 4, 3),), (T(31, 7, 3),), (T(9, 5, 3),)],
    ),
    "isinstance": (
        lambda x: (
            isinstance(x.shape[0], int),
            type(x.shape[0]) is int,
            x.shape[0] is None,
            bool(x.shape[0]),
            hash(x.shape[0]) == x.shape[0],
        ),
        lambda: [(T(n),) for n in (2, 4, 6)],
    ),
    "math": (
        lambda x: (
            x.shape[0] ** 0.5,
            x.shape[0] / 3,
            divmod(x.shape[0], 3),
            -x.shape[0],
            abs(-x.shape[0]),
            round(x.shape[0] / 2),
            max(x.shape[0], 5),
            min(x.shape[0], 5),
            sum(x.shape),
            float(x.shape[0]),
            str(x.shape),
            x.shape[0] << 1,
            x.shape[0] & 3,
        ),
        lambda: [(T(n, 2),) for n in (2, 4, 6, 5, 9)],
    ),
    "while": (lambda x: sum(1 for _ in range(x.shape[0])), lambda: [(T(n, 2),) for n in (2, 4, 6, 5, 9)]),
    "halve": (halved, lambda: [(T(n, 2),) for n in (2, 4, 6, 5, 9, 16, 17)]),
    "iterate": (lambda x: [r.sum() for r in x], lambda: [(T(n, 2),) for n in (2, 4, 3)]),
    "unbind": (lambda x: x.unbind(0), lambda: [(T(n, 2),) for n in (2, 4, 3)]),
    "split sizes": (lambda x: x.split([2, x.shape[0] - 2]), lambda: [(T(n, 2),) for n in (3, 4, 5, 2)]),
    "chunk": (lambda x: x.chunk(3), lambda: [(T(n, 2),) for n in (3, 4, 5, 2, 7, 9)]),
    "resize in place": (lambda x: x.unsqueeze_(0), lambda: [(T(n, 2),) for n in (3, 4, 5, 2, 7, 9)]),
    "as_strided": (
        lambda x: x.as_strided((x.shape[0] - 1, 2), (2, 1)),
        lambda: [(T(n, 2),) for n in (3, 4, 5, 2, 7, 9)],
    ),
    "noncontig": (
        lambda x: x.t().reshape(-1),
        lambda: (
            [(T(n, 3),) for n in (3, 4, 5, 2, 7, 9)]
            + [(T(3, n).t(),) for n in (4, 5, 6)]
            + [(T(n, 9)[:, ::3],) for n in (4, 5)]
        ),
    ),
    "contiguous?": (
        lambda x: (x.is_contiguous(), x.stride(), x.t().is_contiguous()),
        lambda: [(T(n, 3),) for n in (3, 4, 5, 1)] + [(T(3, n).t(),) for n in (4, 5, 1)],
    ),
    "expand": (lambda x: x.expand(x.shape[0], 5), lambda: [(T(n, 1),) for n in (3, 4, 5, 1)]),
    "repeat": (lambda x: x.repeat(x.shape[0], 1), lambda: [(T(n, 2),) for n in (3, 4, 5, 1)]),
    "scatter": (
        lambda x: torch.zeros(x.shape[0], 3).scatter_(1, torch.zeros(x.shape[0], 1, dtype=torch.long), x[:, :1]),
        lambda: [(T(n, 2),) for n in (3, 4, 5, 1)],
    ),
    "pad neg": (lambda x: F.pad(x, (0, 0, -1, x.shape[0])), lambda: [(T(n, 2),) for n in (3, 4, 5, 1)]),
    "conv": (lambda x: F.conv1d(x, torch.ones(2, 3, 3)), lambda: [(T(1, 3, n),) for n in (3, 4, 5, 9, 2)]),
    "pool": (lambda x: F.max_pool1d(x, 3, 2, ceil_mode=True), lambda: [(T(1, 3, n),) for n in (3, 4, 5, 9, 10, 11)]),
    "interp": (lambda x: F.interpolate(x, scale_factor=2), lambda: [(T(1, 3, n),) for n in (3, 4, 5, 9, 10, 11)]),
    "unfold": (lambda x: x.unfold(0, 2, 1), lambda: [(T(n),) for n in (3, 4, 5, 9, 2)]),
    "flip": (lambda x: x.flip(0)[::2], lambda: [(T(n),) for n in (3, 4, 5, 9, 2)]),
    "neg slice": (lambda x: x[-3:-1], lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1)]),
    "slice step": (lambda x: x[::3], lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1, 10, 11, 12)]),
    "slice assign": (
        lambda x: (x.__setitem__(slice(1, x.shape[0] - 1), 0.0), x)[1],
        lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1)],
    ),
    "index tensor": (lambda x: x[torch.tensor([0, -1])], lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1)]),
    "list index": (lambda x: x[[0, 2]], lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1)]),
    "linspace": (lambda x: torch.linspace(0, 1, x.shape[0]) + x, lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1)]),
    "eye": (lambda x: torch.eye(x.shape[0]) * x, lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1)]),
    "full": (lambda x: torch.full((x.shape[0],), x.shape[0]), lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1)]),
    "tensor of size": (lambda x: torch.tensor([x.shape[0], 2]), lambda: [(T(n),) for n in (3, 4, 5, 9, 2, 1)]),
    "diag": (lambda x: x.diagonal(1), lambda: [(T(n, n),) for n in (3, 4, 5, 9, 2, 1)] + [(T(3, 5),), (T(5, 3),)]),
    "tril": (lambda x: x.tril(), lambda: [(T(n, n),) for n in (3, 4, 5)] + [(T(3, 5),)]),
    "cdist": (lambda x, y: torch.cdist(x, y), lambda: [(T(a, 3), T(b, 3)) for a, b in ((2, 3), (4, 4), (5, 2))]),
    "stack": (lambda x, y: torch.stack([x, y]), lambda: [(T(3), T(3)), (T(4), T(4)), (T(4), T(5)), (T(6), T(6))]),
    "broadcast": (
        lambda x, y: x[:, None] * y,
        lambda: [(T(a), T(b)) for a, b in ((3, 3), (4, 5), (5, 1), (1, 6), (7, 7))],
    ),
    "rand": (lambda x: torch.rand(x.shape) + x, lambda: [(T(n, 2),) for n in (3, 4, 5, 1)]),
    "closure list": (
        lambda x: (lambda l: (l.append(x.shape[0]), l)[1])([1]),
        lambda: [(T(n, 2),) for n in (3, 4, 5, 1)],
    ),
    "format": (lambda x: f"{x.shape[0]:03d} {x.shape}", lambda: [(T(n, 2),) for n in (3, 4, 5, 1)]),
    "slice obj": (lambda x: slice(0, x.shape[0]), lambda: [(T(n, 2),) for n in (3, 4, 5, 1)]),
    "two ints": (
        lambda x, a, b: x[a:b].sum() + a - b,
        lambda: [(T(9), a, b) for a, b in ((0, 3), (1, 4), (2, 5), (5, 2), (-3, -1), (0, 20), (3, 3))],
    ),
    "out": (lambda x: torch.add(x, 1, out=torch.empty(x.shape)), lambda: [(T(n, 2),) for n in (3, 4, 5, 1)]),
    "einsum": (
        lambda x, y: torch.einsum("ij,kj->ik", x, y),
        lambda: [(T(a, 3), T(b, 3)) for a, b in ((3, 3), (4, 5), (5, 1), (1, 6), (7, 7))],
    ),
}


def outcome(function, arguments):
    """The result or the exception, and the arguments afterwards."""
    copies = [one.detach().clone() if isinstance(one, torch.Tensor) else copy.deepcopy(one) for one in arguments]
    torch.manual_seed(0)
    try:
        return function(*copies), copies
    except Exception as error:
        return (type(error), str(error)), copies


@pytest.mark.parametrize("dynamic", [None, True], ids=["automatic", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_as_uncompiled(name, dynamic):
    program, calls = CASES[name]
    stator.reset()
    compiled = stator.compile(program, dynamic=dynamic)
    for arguments in calls():
        assert_same(outcome(program, arguments), outcome(compiled, arguments))


def test_from_several_threads():
    def program(x):
        return (x @ x.transpose(0, 1)).sum(1).view(x.shape[0], 1) * 2

    compiled = stator.compile(program)
    wrong = []

    def work(number):
        generator = torch.Generator().manual_seed(number)
        for step in range(60):
            x = torch.randn(int(torch.randint(2, 30, (), generator=generator)), 4, generator=generator)
            if not torch.allclose(compiled(x), program(x)):
                wrong.append(x.shape)
            if step % 20 == number:
                stator.reset()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def read_examples(graph_module, inputs):
    """A backend that reads what graphs say about each node."""
    for node in graph_module.graph.nodes:
        node.meta.get("example_value")
    return graph_module


def test_rows_that_leave_at_a_break_have_example_values():
    def program(x):
        first, second = x.min(dim=0).values[:2]
        torch._dynamo.graph_break()
        return first + second

    x = torch.arange(12.0).view(3, 4).requires_grad_()
    assert stator.compile(program, backend=read_examples, dynamic=True)(x) == program(x)


def test_a_size_that_is_known_by_its_own_quotient():
    def program(x):
        chunks = x.view(x.size(0), x.size(1) // 8, 8, x.size(2))
        sizes, strides = list(chunks.size()), list(chunks.stride())
        return chunks.as_strided((sizes[0], sizes[1] * 2 - 1, *sizes[2:]), (strides[0], strides[1] // 2, *strides[2:]))

    graphs = []

    def backend(graph_module, inputs):
        graphs.append(graph_module)
        return read_examples(graph_module, inputs)

    compiled = stator.compile(program, backend=backend, dynamic=True)
    for size in 32, 64, 128:
        x = torch.randn(1, size, 1)
        assert torch.equal(compiled(x), program(x))
    assert len(graphs) == 1
