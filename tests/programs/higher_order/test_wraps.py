"""Operations that run one function once: `wrap`, `invoke_subgraph`, those of libraries."""

import pytest
import torch
from torch._higher_order_ops import BaseHOP
from torch._higher_order_ops.wrap import wrap

import stator
from tests.support.harness import Source, T, same

pytestmark = pytest.mark.filterwarnings("ignore")

HEAD = """
from torch._higher_order_ops.wrap import wrap
w = torch.tensor([1.0, 2.0, 3.0])
region = torch.compiler.nested_compile_region
"""
WRAPS = {
    "a function": "def f(x): return wrap(lambda a: a.sin() + 1, x)",
    "by its name": "def f(x): return torch.ops.higher_order.wrap(torch.sin, x)",
    "closures": "def f(x):\n    z = x * 2\n    return wrap(lambda a: a * z + w, x), z",
    "keyword arguments": "def f(x): return wrap(lambda a, *, b: a * b['k'], x, b={'k': x + 1})",
    "any result": "def f(x):\n    r = wrap(lambda a: {'s': [a.sin(), 3, None], 't': (a,)}, x)\n    return r, r['t'][0] is x",
    "an object": "class Pair:\n    def __init__(self, a): self.a = a\ndef f(x): return wrap(lambda a: Pair(a + 1), x).a * 2",
    "one in the other": "def f(x): return wrap(lambda a: wrap(lambda b: b + a.cos(), a.sin()) * w, x)",
    "a view": "def f(x): return wrap(lambda a: a.t(), x) + 1, wrap(lambda a: (a * 2).view(-1), x)",
    "a module": "layer = nn.Linear(3, 3)\nwith torch.no_grad(): layer.weight.fill_(0.5); layer.bias.fill_(1)\ndef f(x): return wrap(layer, x)",
    "without gradients inside": "def f(x):\n    def g(a):\n        with torch.no_grad(): b = a.abs()\n        return a * b\n    return wrap(g, x)",
    "a region": "@region\ndef g(a, b): return (a * b).sin()\ndef f(x): return g(x, w) + g(x + 1, w)",
    "a region with a closure": "def f(x):\n    z = x.sum()\n    @region\n    def g(a): return a * z\n    return g(x) + g(x * 2)",
    "regions of a model": """
class Block(nn.Module):
    def __init__(self, seed):
        super().__init__()
        torch.manual_seed(seed)
        self.layer = nn.Linear(3, 3)
    @region
    def forward(self, x): return self.layer(x).tanh()
model = nn.Sequential(*(Block(i) for i in range(3))).requires_grad_(False)
def f(x): return model(x)""",
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", WRAPS)
def test_wraps(name, backend):
    # (Autograd differentiates a region only where a compiler traces it.)
    gradient = "region" not in name or backend is not None
    same(
        Source(HEAD + WRAPS[name]), T(4, 3, grad=gradient), backend=backend, compare_dynamo=False,
        tolerance=None if backend is None else 1e-5,
    )  # fmt: skip


def test_equal_regions_are_one_subgraph():
    @torch.compiler.nested_compile_region
    def region(a, scale):
        return (a * scale).sin()

    def program(x):
        return region(x, 2) + region(x + 1, 2) + region(x, 3)

    modules = []

    def backend(module, inputs):
        modules.append(module)
        return module

    x = torch.randn(3)
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x), program(x))
    assert [name for name, _ in modules[0].named_children()] == ["subgraph_0", "subgraph_1"]
    calls = [n for n in modules[0].graph.nodes if n.target is torch.ops.higher_order.invoke_subgraph]
    assert [call.args[1] for call in calls] == ["subgraph_0", "subgraph_0", "subgraph_1"]


class Scaled(BaseHOP):
    def __init__(self):
        super().__init__("stator_test_scaled")

    def __call__(self, subgraph, *operands, scheme):
        return super().__call__(subgraph, *operands, scheme=scheme)


scaled = Scaled()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_operation_of_a_library(backend):
    w = torch.ones(3, requires_grad=True)

    def function(x):
        return (x * w).sin()

    compiled = stator.compile(lambda x: scaled(function, x, scheme="four"), backend=backend, fullgraph=True)
    for _ in range(2):
        x, y = torch.randn(3, requires_grad=True), None
        y = x.detach().clone().requires_grad_()
        result, expected = compiled(x), function(y)
        torch.testing.assert_close(result, expected)
        result.sum().backward()
        gradient, w.grad = w.grad, None
        expected.sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
        torch.testing.assert_close(gradient, w.grad)
        w.grad = None


def test_hints():
    hints = torch.ops.higher_order.hints_wrapper
    found = []

    def backend(module, inputs):
        found.extend(n for n in module.graph.nodes if n.target is hints)
        return module

    def program(x, y):
        return hints(lambda a, b: a @ b, (x, y), {}, hints={"outer": True})

    x = torch.randn(3, 3)
    torch.testing.assert_close(stator.compile(program, backend=backend, fullgraph=True)(x, x), x @ x)
    assert found[0].kwargs == {"hints": {"outer": True}}


def test_a_grad_mode():
    operation = torch.ops.higher_order.wrap_with_set_grad_enabled
    compiled = stator.compile(lambda x: operation(False, torch.sin, x), backend="eager", fullgraph=True)
    x = torch.randn(3, requires_grad=True)
    assert not compiled(x).requires_grad


def test_what_functions_read_is_guarded():
    text = "SCALE = 2\ndef f(x): return wrap(lambda a: a * SCALE + w, x)"
    same(Source(HEAD + text), T(3), mutate=["SCALE = 5", "w = torch.zeros(3)", "w.add_(1)"], compare_dynamo=False)


FLOATS = {
    "of the caller": "def f(x, scale): return wrap(lambda a: a * scale + scale / 2, x) + scale",
    "of the data": "def f(x, scale):\n    c = x.sum().item()\n    return wrap(lambda a: a * (c + 1) + scale, x) * c",
    "in one in the other": "def f(x, scale):\n    c = x.sum().item()\n    return wrap(lambda a: wrap(lambda b: b + c * 2, a), x)",
    "of integers": "def f(x, scale):\n    c = x.int().sum().item()\n    return wrap(lambda a: a * c + c / 3, x)",
    "that decides": "def f(x, scale):\n    return wrap(lambda a: a * scale if scale > 1 else a - scale, x)",
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "stator"])
@pytest.mark.parametrize("name", FLOATS)
def test_floats_that_change(name, backend):
    program = Source(HEAD + FLOATS[name]).namespace()["f"]
    with torch._dynamo.config.patch(capture_scalar_outputs=True, specialize_float=False):
        compiled = stator.compile(program, backend=backend, fullgraph=True)
        for scale in (0.5, 1.5, 2.5, -1.0, 0.25):
            x = torch.full((3,), scale * 2)
            torch.testing.assert_close(compiled(x, scale), program(x, scale), rtol=0, atol=0)


def test_a_float_of_the_data_inside_of_cond():
    def program(x):
        number = x.sum().item()
        return torch.cond(x.sum() > 0, lambda a: wrap(lambda b: b + number, a), lambda a: a.sin(), (x,))

    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        with pytest.raises(Exception, match="depends on the data"):
            stator.compile(program, backend="eager", fullgraph=True)(torch.ones(3))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_that_change(backend):
    def program(x, y):
        size = x.shape[0] * 2
        return wrap(lambda a: a.sin().repeat(2).view(size) + y.sum() * size, x)

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for size in (3, 5, 8):
        x, y = torch.randn(size), torch.randn(4)
        torch.testing.assert_close(compiled(x, y), program(x, y))


@pytest.mark.parametrize(
    "text",
    [
        "log = []\ndef f(x):\n    def g(a):\n        log.append(1)\n        return a + 1\n    return wrap(g, x), len(log)",
        "def f(x):\n    kept = []\n    def g(a):\n        kept.append(a * 2)\n        return a + 1\n    return wrap(g, x), kept",
        "def f(x):\n    def g(a):\n        print('here')\n        return a + 1\n    return wrap(g, x) * 2",
        "def f(x):\n    y = x * 1\n    return wrap(lambda a: a.add_(1), y), y",
        "def f(x):\n    def g(a): raise ValueError('no')\n    try: return wrap(g, x)\n    except ValueError as error: return x + 1, str(error)",
    ],
)
def test_not_captured(text):
    same(Source(HEAD + text), T(3, grad=True), fullgraph=False, stateful=True, compare_dynamo=False)


WRITES = {
    "to a result": "def f(x):\n    y = x * 1\n    r = wrap(lambda a: a.add_(1), y)\n    return r is y, y * 2, r",
    "to an input": "def f(x):\n    r = wrap(lambda a: a.mul_(2).sin(), x)\n    return r, x + 1",
    "to a closure": "def f(x):\n    y, z = x * 1, x.sum(0)\n    r = wrap(lambda a: y[0].copy_(z) + a, x)\n    return r, y, z",
    "to a view of an input": "def f(x):\n    v = x[1:]\n    r = wrap(lambda a: a.add_(v.sum()), v)\n    return r is v, x.sum(), v * 2",
    "in one in the other": "def f(x):\n    y = x * 1\n    return wrap(lambda a: wrap(lambda b: b.zero_() + 1, a) * a.exp(), y), y",
    "that gives a gradient": "def f(x):\n    y = torch.zeros(4, 3)\n    r = wrap(lambda a: y.add_(a).cos(), x * 2)\n    return r, y.requires_grad, y * 3",
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", WRITES)
def test_writes(name, backend):
    gradient = "input" not in name
    same(
        Source(HEAD + WRITES[name]), T(4, 3, grad=gradient), backend=backend, compare_dynamo=False,
        tolerance=None if backend is None else 1e-5,
    )  # fmt: skip


def test_writes_that_are_not_captured():
    def program(x):
        y = x * 1
        return torch.cond(x.sum() > 0, lambda a: wrap(lambda b: b.add_(1) + 1, a), lambda a: a * 2, (y,))

    with pytest.raises(stator.Unsupported, match="writes to a tensor that it did not create"):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(3))
