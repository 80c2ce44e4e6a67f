"""Sizes that Python code computes with. They stay symbols as long as no one needs the number, so that one capture serves
all sizes; never more captures than torch._dynamo takes for the same calls."""

from __future__ import annotations

import functools
import math
import operator
from collections import namedtuple

import pytest
import torch

import stator
from tests.support.changing_sizes import assert_as_dynamo, captures_of

T = torch.randn
KEPT: list = []
SEEN = 0
Point = namedtuple("Point", ["a", "b"])


class Holder:
    pass


HOLDER = Holder()


def stored_in_globals(x):
    global SEEN
    SEEN = x.shape[0] + 1
    HOLDER.size = x.shape[0] * 2
    KEPT[:] = [x.shape[0], x.numel()]
    return x + 1


def of_several(x, *rest, scale=1, **named):
    return x.shape[0] * scale + len(rest) + named.get("more", 0)


def unpacked(x):
    length, width = x.shape
    first, *others = x.size()
    return x.reshape(length * width) + length, first, others


def branches(x):
    n = x.shape[0]
    if n > 3 and n % 1 == 0:
        return x + n
    return x - n


# `n` is the size that changes. These need no number: two captures serve all sizes.
SYMBOLIC = {
    "product": lambda x, n: x.expand(n, 3) * (n * 2),
    "sums": lambda x, n: x + (n + 1) - (3 - n),
    "quotients": lambda x, n: (x * (n // 2), n % 5, n // 3 * 3),
    "true division": lambda x, n: x * (n / 3),
    "powers": lambda x, n: (n**2, x * n**3),
    "square root": lambda x, n: x * n**-0.5,
    "bits": lambda x, n: (n << 1, n >> 1, n & 6, n | 1, n ^ 3, ~n),
    "signs": lambda x, n: (-n, +n, abs(2 - n)),
    "divmod": lambda x, n: (divmod(n, 3), x),
    "min": lambda x, n: x[: min(n, 100)] + 1,
    "max": lambda x, n: x.new_zeros(max(n, 4), 2),
    "min of several": lambda x, n: (min(n, n + 2, 2 * n), max([n, 3, n - 1]), x),
    "max of a difference": lambda x, n: x[max(n - 64, 0) :] * 2,
    "floor": lambda x, n: (math.floor(n / 2), x[: math.floor(n / 2)]),
    "ceil": lambda x, n: (math.ceil(n / 4), x.new_ones(math.ceil(n / 4) * 4)),
    "trunc": lambda x, n: (math.trunc(n / 3), x),
    "sqrt": lambda x, n: x / math.sqrt(n),
    "log2": lambda x, n: x * math.log2(n),
    "sines": lambda x, n: (x * math.sin(n), math.cos(n), math.atan(n), math.tanh(n)),
    "int of a quotient": lambda x, n: x[: int(n / 2)],
    "int of a product": lambda x, n: x[: int(n * 0.75)],
    "round": lambda x, n: (round(n / 2), round(n), x),
    "int": lambda x, n: (int(n), x[: int(n) - 1]),
    "float": lambda x, n: x * float(n),
    "prod": lambda x, n: (math.prod(x.shape), x),
    "sum": lambda x, n: (sum(x.shape), sum([n, n, 1]), x),
    "len": lambda x, n: (len(x), x.new_zeros(len(x))),
    "numel": lambda x, n: x.flatten() / x.numel(),
    "size with a dimension": lambda x, n: (x.size(0), x.size(-1), x.size()[0], x),
    "arange": lambda x, n: torch.arange(n) + torch.arange(1, n + 1),
    "arange with steps": lambda x, n: torch.arange(0, 2 * n, 2),
    "positions": lambda x, n: torch.arange(n, device=x.device).unsqueeze(0).expand(2, -1),
    "slices": lambda x, n: (x[: n // 2], x[n // 2 :], x[1 : n - 1], x[-(n // 2) :]),
    "slice object": lambda x, n: x[slice(1, n)],
    "index": lambda x, n: x[n - 1] + x[n // 2],
    "unpacking": lambda x, n: unpacked(x),
    "torch.Size": lambda x, n: (x.shape + (1,), x.shape[1:], torch.Size([n, 2]), x.shape[:1] + x.shape[1:], x),
    "numel of a torch.Size": lambda x, n: (x.shape.numel(), torch.Size((n, 3)).numel(), x),
    "view of torch.Size": lambda x, n: x.flatten().view(x.shape) + x.view(*x.shape),
    "isinstance": lambda x, n: (isinstance(n, int), isinstance(n, (float, str)), type(n) is int, callable(n), x),
    "comparisons": lambda x, n: (n > 2, n >= 3, n != 1, 0 < n < 10000, n == n, n is not None, x),
    "comparisons of shapes": lambda x, n: (
        x.shape == (n, 3),
        x.shape != (x + 1).shape,
        x.t().shape == x.shape,
        [n, 2] == [n, 3],
        (n, 2) < (n, 3),
        x,
    ),  # fmt: skip
    "search in a list": lambda x, n: (n in x.shape, n in [1, 2, 3], x.shape.count(n), [1, n].index(n), x),
    "shapes as values": lambda x, n: ({"shape": x.shape} == {"shape": (n, 3)}, x),
    "branches": lambda x, n: branches(x),
    "truth": lambda x, n: (bool(n), not n, n and 5, n or 7, x if n else 0),
    "conditional": lambda x, n: x * (n if n > 2 else 2),
    "assert": lambda x, n: x if n > 1 else None,
    "passing on": lambda x, n: (of_several(x, 1, 2, scale=n, more=n), x),
    "tuples": lambda x, n: ((n, n + 1)[0], [n, 2, 3][::-1], (n,) * 2, [n] + [1], x),
    "list of sizes": lambda x, n: [list(x.shape), [s * 2 for s in x.shape], x],
    "dict values": lambda x, n: ({"n": n, "x": x}["n"] + 1, {"n": n}, x),
    "named tuple": lambda x, n: (Point(n, x), Point(n, 1).a + 1),
    "stored": lambda x, n: (stored_in_globals(x), x),
    "enumerate": lambda x, n: ([i * size for i, size in enumerate(x.shape)], x),
    "zip": lambda x, n: ([a + b for a, b in zip(x.shape, x.stride(), strict=True)], x),
    "map": lambda x, n: (list(map(lambda size: size + 1, x.shape)), x),
    "operator": lambda x, n: (operator.add(n, 1), operator.mul(n, n), operator.floordiv(n, 2), operator.index(n), x),
    "reduce": lambda x, n: (functools.reduce(operator.mul, x.shape, 1), x),
    "strides": lambda x, n: (x.t().contiguous().stride(), x.stride(0), x),
    "identity": lambda x, n: (n is None, x.shape is None, x),
    "all and any": lambda x, n: (all(size > 0 for size in x.shape), any(size > 10**6 for size in x.shape), x),
    "full": lambda x, n: torch.full((n,), n),
    "tensor of a size": lambda x, n: torch.tensor(n) + torch.tensor([n, 2]),
    "split": lambda x, n: torch.split(x, [n // 2, n - n // 2]),
    "pad": lambda x, n: torch.nn.functional.pad(x, (0, 0, 0, n)),
    "nested functions": lambda x, n: (lambda m: (lambda k: x[: k - m])(n))(1),
    "default": lambda x, n: (lambda m=n: m + 1)(),
    "clamp": lambda x, n: x.clamp(max=n),
    "complex shapes": lambda x, n: x.reshape(n, 3, 1).expand(n, 3, 2).permute(2, 0, 1).reshape(2 * n, 3),
}

# These need the number: as many captures as sizes.
SPECIALIZING = {
    "range": lambda x, n: [x + i for i in range(n)],
    "list length": lambda x, n: ([0] * n, x),
    "dict key": lambda x, n: ({n: 1, 2: 3}, x),
    "f-string": lambda x, n: (f"{n:>4}", x),
    "str": lambda x, n: (str(n), repr(n), x),
    "percent": lambda x, n: ("%d" % n, x),
    "hash": lambda x, n: (hash(n) == hash(int(n)), x),
    "set": lambda x, n: ({n, 3}, x),
    "membership": lambda x, n: (n in {5, 6}, x),
    "rows": lambda x, n: [row.sum() for row in x],
    "list index": lambda x, n: ([10, 20, 30, 40, 50, 60, 70, 80, 90][n], x),
    "factorial": lambda x, n: (math.factorial(n), x),
    "bit length": lambda x, n: (n.bit_length(), x),
    "index protocol": lambda x, n: (n.__index__(), n.__add__(1), x),
    "range as a value": lambda x, n: (range(n)[-1], len(range(2, n)), x),
    "bytes": lambda x, n: (bytes(n), x),
}

SIZES = [7, 6, 5, 8, 7, 4, 5, 6]
MANY = [7, 6, 5, 200, 8, 101, 7, 4, 100, 5, 64, 6]


def calls_of(sizes):
    return [(T(size, 3),) for size in sizes]


def program_of(function):
    def program(x):
        return function(x, x.shape[0])

    return program


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", SYMBOLIC)
def test_sizes_stay_symbols(name, dynamic):
    sizes = SIZES if name in ("branches",) else MANY
    calls = calls_of(sizes)
    count = captures_of(program_of(SYMBOLIC[name]), calls, dynamic=dynamic)
    assert count <= (2 if dynamic is None else 1)


@pytest.mark.parametrize("name", SPECIALIZING)
def test_who_needs_the_number_specializes(name):
    program = program_of(SPECIALIZING[name])
    assert captures_of(program, calls_of(SIZES)) <= len(set(SIZES))


@pytest.mark.parametrize("name", SPECIALIZING)
def test_the_report_names_who_needed_the_number(name):
    with stator.watch() as report:
        stator.compile(program_of(SPECIALIZING[name]), dynamic=True, fullgraph=True)(T(7, 3))
    (capture,) = report.captures
    needed = [relation for relation in capture.relations if "size()[0] == 7" in relation]
    assert needed and all("needed by" in one and "test_sizes_in_python.py:" in one for one in needed), capture
    assert any("specialized to 7" in symbol for symbol in capture.symbols)


@pytest.mark.parametrize("name", [*SYMBOLIC, *SPECIALIZING])
def test_never_more_captures_than_dynamo(name):
    program = program_of({**SYMBOLIC, **SPECIALIZING}[name])
    assert_as_dynamo(program, calls_of(SIZES))
