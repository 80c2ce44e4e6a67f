"""Function transforms in the functions of higher-order operations."""

import pytest
import torch
from torch._higher_order_ops.wrap import wrap
from torch.func import grad, jvp, vmap

import stator
from tests.support.scenarios import same_scenario

BODIES = {
    "vmap": lambda x: vmap(torch.sin)(x) * 2,
    "vmap of vmap": lambda x: vmap(vmap(lambda e: e * e.exp()))(x),
    "vmap along the other dimension": lambda x: vmap(lambda c: c * c.sum(), in_dims=1, out_dims=1)(x),
    "grad": lambda x: grad(lambda y: (y**3).sum())(x),
    "vmap of grad": lambda x: vmap(grad(lambda row: (row * row.sum()).sum()))(x),
    "jvp": lambda x: jvp(torch.sin, (x,), (x * 2,))[1],
}
# PyTorch differentiates the branches of `cond` by tracing them once more, and finds no gradient behind a level of grad.
CAPTURED = {"cond": ("vmap",), "region": ("vmap",), "wrap": ("vmap", "grad"), "nested": ("vmap", "grad")}


def program_of(how, body):
    region = torch.compiler.nested_compile_region(body)
    return {
        "cond": (lambda x: torch.cond(x.sum() > 0, body, torch.cos, (x,)), body),
        "region": (lambda x: region(x) + region(x * 2), lambda x: body(x) + body(x * 2)),
        "wrap": (lambda x: wrap(body, x), body),
        "nested": (lambda x: wrap(lambda y: wrap(body, y) + 1, x), lambda x: body(x) + 1),
    }[how]


def is_captured(how, name):
    return "jvp" not in name and ("grad" not in name or "grad" in CAPTURED[how])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "stator"])
@pytest.mark.parametrize("how", CAPTURED)
@pytest.mark.parametrize("name", BODIES)
def test_results_and_gradients(name, how, backend):
    program, plain = program_of(how, BODIES[name])
    # (Without a compiler, a region is inlined where gradients are on.)
    compiled = stator.compile(program, backend=backend, fullgraph=is_captured(how, name))
    # What breaks the graph is compiled by PyTorch's own `cond`, which does not find these gradients.
    with_gradients = (False, True) if how != "cond" or is_captured(how, name) else (False,)
    for needs_gradient in (*with_gradients, False):
        results = []
        for run in (plain, compiled):
            x = torch.arange(1.0, 7.0).reshape(2, 3).requires_grad_(needs_gradient)
            result = run(x)
            if needs_gradient:
                result.sum().backward()
            results.append((result.tolist(), x.grad.tolist() if needs_gradient else None))
        assert results[0] == results[1]


def test_of_a_closure():
    def scenario(compile, note):
        weights = torch.arange(3.0)
        compiled = compile(lambda x: wrap(lambda y: vmap(lambda row: row @ weights)(y), x))
        for number in range(2):
            note(compiled, torch.arange(6.0).reshape(2, 3).add(number))

    same_scenario(scenario, "eager")
