"""Hooks on saved tensors that the program enters: `saved_tensors_hooks`, `save_on_cpu`."""

import pytest
import torch
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

import stator
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario

HEAD = """
from torch.autograd.graph import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks
SCALE, seen = 2, []
def halve(x): return x * 0.5
def rounded(x): return (x * 8).round() / 8 if x.is_floating_point() else x
def keep(x): return x
def noted(x):
    seen.append(tuple(x.shape))
    return x
def by_global(x): return x.detach() * SCALE
def draws(x): return x * torch.rand_like(x)
def writes(x):
    x += 0
    return x
def stores(x):
    global SCALE
    SCALE = 5
    return x
class Keeper:
    def pack(self, x):
        return x * 3
keeper = Keeper()
"""

# Captured without a break by a backend that runs the graph as it was captured.
CAPTURED = {
    "lambdas": "with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 4):\n        z = (y * y).sin()",
    "functions of the module": "with saved_tensors_hooks(rounded, keep):\n        z = (y * y).sin()",
    "what unpacks may do anything": "with saved_tensors_hooks(keep, noted):\n        z = (y * y).sin()",
    "a global number": "with saved_tensors_hooks(by_global, halve):\n        z = (y * y).sin()",
    "a closure variable": "k = 3\n    with saved_tensors_hooks(lambda t: t * k, lambda t: t):\n        z = (y * y).sin()",
    "packed as a tuple": "with saved_tensors_hooks(lambda t: (t.dtype, t.half()), lambda p: p[1].to(p[0])):\n        z = (y * y).sin()",
    "on the CPU": "with save_on_cpu():\n        z = (y * y).sin()",
    "nested": "with saved_tensors_hooks(halve, keep):\n        y = y * y\n        with save_on_cpu():\n            z = (y * y).sin()\n        z = z * y",
    "one after the other": "with saved_tensors_hooks(halve, keep):\n        y = y * y\n    y = y.exp()\n    with saved_tensors_hooks(rounded, keep):\n        z = y * y",
    "entered by hand": "hooks = saved_tensors_hooks(halve, keep)\n    hooks.__enter__()\n    z = (y * y).sin()\n    hooks.__exit__()",
    "without gradients": "with torch.no_grad(), saved_tensors_hooks(halve, keep):\n        z = (y * y).sin()",
    "left by an exception": "try:\n        with saved_tensors_hooks(halve, keep):\n            z = (y * y).sin()\n            raise ValueError\n    except ValueError:\n        z = z * y",
    "hooks are allowed again": "with disable_saved_tensors_hooks('no'):\n        y = y * y\n    with saved_tensors_hooks(halve, keep):\n        z = y * y",
}

# The graph breaks: results or side effects might differ.
BROKEN = {
    "what packs has side effects": "with saved_tensors_hooks(noted, keep):\n        z = (y * y).sin()\n    seen.append('after')",
    "what packs draws random numbers": "with saved_tensors_hooks(draws, keep):\n        z = (y * y).sin()",
    "what packs writes": "with saved_tensors_hooks(writes, keep):\n        z = (y * y).sin()",
    "what packs assigns": "with saved_tensors_hooks(stores, keep):\n        z = (y * y).sin()\n    z = z * SCALE",
    "what packs is a method": "with saved_tensors_hooks(keeper.pack, keep):\n        z = (y * y).sin()",
    "a global that the program assigns": "global SCALE\n    SCALE = 7\n    with saved_tensors_hooks(by_global, keep):\n        z = (y * y).sin()\n    SCALE = 2",
    "a tensor in the closure": "with saved_tensors_hooks(lambda t: t * y.detach(), keep):\n        z = (y * y).sin()",
    "a break inside": "with saved_tensors_hooks(halve, keep):\n        z = (y * y).sin()\n        print('inside')\n        z = z * y",
    "a function transform": "with saved_tensors_hooks(halve, keep):\n        z = y * torch.func.grad(lambda t: (t * t).sum())(x.detach())",
    "a checkpoint": "with saved_tensors_hooks(halve, keep):\n        z = torch.utils.checkpoint.checkpoint(lambda t: (t * t).sin(), y, use_reentrant=False)",
    "a hook on a result": "with saved_tensors_hooks(halve, keep):\n        z = y * y\n        z.register_hook(lambda g: g * 2)\n        z = z.sin()",
    "disabled": "try:\n        with disable_saved_tensors_hooks('no'), saved_tensors_hooks(halve, keep):\n            z = y * y\n    except RuntimeError as error:\n        z = y * len(str(error))",
    "disabled where some are entered": (
        "hooks = saved_tensors_hooks(halve, keep)\n    hooks.__enter__()\n    try:\n"
        "        torch._C._autograd._saved_tensors_hooks_disable('no')\n    except RuntimeError:\n        y = y + 1\n"
        "    print(torch._C._autograd._saved_tensors_hooks_is_enabled())\n"
        "    torch._C._autograd._saved_tensors_hooks_enable()\n    z = y * y\n"
        "    print(torch._C._autograd._saved_tensors_hooks_is_enabled())\n    hooks.__exit__()"
    ),
    "disabled inside": "z = y\n    try:\n        with saved_tensors_hooks(halve, keep):\n            z = y * y\n            with disable_saved_tensors_hooks('no'):\n                z = z * z\n    except RuntimeError as error:\n        z = z * len(str(error))",
}


def source(body):
    return Source(HEAD + f"def f(x):\n    y = x * 2\n    {body}\n    return z * z, seen")


@pytest.fixture(autouse=True)
def left():
    yield
    disabled = torch._C._autograd._saved_tensors_hooks_is_enabled()
    assert disabled and torch._C._autograd._top_saved_tensors_default_hooks(True) is None


@pytest.mark.parametrize("name", CAPTURED)
def test_captured(name):
    same(source(CAPTURED[name]), T(3, 3, grad=True), compare_dynamo=False, backend="eager")


@pytest.mark.parametrize("name", BROKEN)
def test_broken(name):
    same(source(BROKEN[name]), T(3, 3, grad=True), fullgraph=False, compare_dynamo=False, backend="eager")


def test_what_the_hooks_depend_on_is_guarded():
    body = CAPTURED["a global number"]
    same(
        source(body),
        T(3, 3, grad=True),
        mutate=["SCALE = 5", "def by_global(x): return x * 7", "def by_global(x): return x"],
        compare_dynamo=False,
        backend="eager",
    )


def program(x):
    y = x * 2
    with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 4):
        y = (y * y).sin()
    return y * y


@pytest.mark.parametrize("backend", ["eager", "stator", "aot_eager", "inductor"])
def test_gradients(backend):
    """(A compiler saves inside of the hooks what it saves; these undo what they do.)"""

    def exact(x):
        y = x * 2
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            y = (y * y).sin()
        return y * y

    def scenario(compile, note):
        f = compile(program if backend in ("eager", "stator") else exact)
        for number in range(3):
            x = torch.arange(6.0).add(number).requires_grad_()
            note.gradients(note(f, x), x)
            note(f, x.detach())

    same_scenario(scenario, backend, tolerance=0 if backend in ("eager", "stator") else 1e-5)


def test_all_of_it_is_one_graph():
    for backend in ("eager", "stator"):
        report = stator.explain(program, backend=backend)(torch.ones(2, requires_grad=True))
        assert (report.graph_count, report.graph_break_count) == (1, 0)


def test_a_compiler_gets_no_hooks():
    with pytest.raises(stator.Unsupported, match="which decides itself what to save"):
        stator.compile(program, backend="aot_eager", fullgraph=True)(torch.ones(2, requires_grad=True))


def test_a_region_that_raises_leaves_the_hooks():
    def fails(x, index):
        with saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            y = x * x
            return torch.nn.functional.embedding(index, y) * y[0]

    compiled = stator.compile(fails, backend="eager")
    x = torch.ones(3, 2, requires_grad=True)
    for index in (torch.tensor([1]), torch.tensor([7]), torch.tensor([2])):
        try:
            compiled(x, index)
        except IndexError:
            assert index.item() == 7
        assert torch._C._autograd._top_saved_tensors_default_hooks(True) is None


def test_memory_moves_where_the_hooks_put_it():
    """(`save_on_cpu` packs what is on the CPU as it is.)"""
    packed = []

    def scenario(compile, note):
        def f(x):
            with save_on_cpu():
                return (x * x).sin()

        x = torch.arange(3.0, requires_grad=True)
        y = note(compile(f), x)
        packed.append(type(y.grad_fn).__name__)
        note.gradients(y, x)

    same_scenario(scenario, "eager")
    assert set(packed) == {"SinBackward0"}


def test_disabled_around_the_call():
    def run(x):
        with disable_saved_tensors_hooks("not here"):
            return compiled(x)

    compiled = stator.compile(program, backend="eager")
    compiled(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="not here"):
        run(torch.ones(2, requires_grad=True))
