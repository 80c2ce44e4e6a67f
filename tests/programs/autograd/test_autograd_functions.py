"""`torch.autograd.Function` in compiled programs: results and gradients. What breaks the graph is in
`test_broken_autograd_functions`."""

import warnings

import pytest
import torch
import torch.nn as nn

import stator
from tests.support.engine import CAPTURES, Recorder, compile, reset, unsupported
from tests.support.harness import Source, T, same


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


SQUARE = """
class Square(torch.autograd.Function):
    factor = 3.0
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.factor = Square.factor
        return x * x * ctx.factor
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * 10 * ctx.factor
"""

WHOLE = {
    "saved input": SQUARE
    + """
def f(x):
    return Square.apply(x.sin()).cos()
""",
    "twice in a row": SQUARE
    + """
def f(x):
    y = Square.apply(x)
    return Square.apply(y) + y
""",
    "saved output and an intermediate result": """
class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        half = x * 0.5
        y = half.tanh()
        ctx.save_for_backward(y, half)
        return y
    @staticmethod
    def backward(ctx, grad):
        y, half = ctx.saved_tensors
        return grad * (1 - y * y) + half

def f(x):
    return Tanh.apply(x) * 2
""",
    "attributes of the context": """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor, names=("a", "b")):
        ctx.factor = factor
        ctx.shape = x.shape
        ctx.lengths = [len(name) for name in names]
        ctx.kept = x
        return (x * factor).sum(0)
    @staticmethod
    def backward(ctx, grad):
        return grad.expand(ctx.shape) * ctx.factor * sum(ctx.lengths) + ctx.kept, None

def f(x):
    return Scale.apply(x, 2.5) + 1
""",
    "setup_context": """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x, factor=2.0):
        y = x ** 3 * factor
        return y, x * 2
    @staticmethod
    def setup_context(ctx, inputs, output):
        x, factor = inputs
        ctx.save_for_backward(x, output[1])
        ctx.factor = factor
    @staticmethod
    def backward(ctx, grad, other):
        x, doubled = ctx.saved_tensors
        return grad * 3 * x * x * ctx.factor + other * doubled, None

def f(x):
    y, z = Cube.apply(x)
    return y + z.sin()
""",
    "keyword arguments": """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor=1.0, y=None):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return torch.sin(x) * factor
    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.cos(x) * ctx.factor, None
class Sum(torch.autograd.Function):
    @staticmethod
    def forward(x, y, factor=2.0):
        return (x + y) * factor
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[2]
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, grad * 3, None
def f(x):
    return Scaled.apply(x, factor=6.0) + Scaled.apply(x=x, factor=2.0) + Sum.apply(y=x * 2, x=x)
""",
    "several inputs, some without a gradient": """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, flag, z):
        ctx.save_for_backward(x, y, None, z)
        ctx.flag = flag
        ctx.needs = ctx.needs_input_grad
        return x * y + z
    @staticmethod
    def backward(ctx, grad):
        x, y, nothing, z = ctx.saved_tensors
        assert nothing is None
        first = grad * y if ctx.needs_input_grad[0] else None
        second = grad * x if ctx.needs_input_grad[1] else None
        return first, second, None, grad * 100 if ctx.needs[3] else None

def f(x):
    return Product.apply(x, torch.ones(4), True, x.exp()) + Product.apply(torch.ones(4), x, False, torch.ones(4))
""",
    "the same tensor twice": """
class Add(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y
    @staticmethod
    def backward(ctx, grad):
        return grad * 2, grad * 3

def f(x):
    return Add.apply(x, x)
""",
    "an output without a gradient": """
class Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, places = x.sort()
        rank = x * 2
        ctx.mark_non_differentiable(rank)
        ctx.save_for_backward(places)
        return values, places, rank, None, 7
    @staticmethod
    def backward(ctx, grad, of_places, of_rank, nothing, number):
        (places,) = ctx.saved_tensors
        assert nothing is None and number is None
        return torch.zeros_like(grad).scatter(0, places, grad) + of_rank + of_places

def f(x):
    values, places, rank, nothing, number = Largest.apply(x)
    return values * 2, places, rank.requires_grad, values.requires_grad, nothing, number
""",
    "gradient reversal by a view": """
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)
    @staticmethod
    def backward(ctx, grad):
        return -ctx.factor * grad, None

def f(x):
    return Reverse.apply(x * 2, 0.5).sin()
""",
    "an input given back": """
class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, y
    @staticmethod
    def backward(ctx, grad, other):
        return grad * 2, other * 3

def f(x):
    y, z = Same.apply(x, x * 3)
    return y is x, y + z
""",
    "straight through": """
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()
    @staticmethod
    def backward(ctx, grad):
        return grad

def f(x):
    return Round.apply(x) * x
""",
    "writes to what it made": """
class Fill(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        y.copy_(x)
        y.mul_(3)
        y[0] = 1
        ctx.save_for_backward(y)
        return y
    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        result = torch.zeros_like(grad)
        result += grad * 3
        result[0] = y[1]
        return result

def f(x):
    return Fill.apply(x).sin()
""",
    "in-place on the output": SQUARE
    + """
def f(x):
    y = Square.apply(x)
    y.add_(1)
    return y.relu_()
""",
    "marked as written": """
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x
    @staticmethod
    def backward(ctx, grad):
        return grad * 7

def f(x):
    y = x.sin()
    z = Double.apply(y)
    return z * 3, y is z
""",
    "once differentiable": """
class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        with torch.no_grad():
            return grad * ctx.saved_tensors[0] * (5 if torch.is_grad_enabled() else 2)

def f(x):
    return Once.apply(x) + 1
""",
    "calls functions": """
SCALE = {"up": 3}
def helper(x, scale):
    return torch.nn.functional.gelu(x) * scale

class Gelu(torch.autograd.Function):
    @classmethod
    def factor(cls):
        return SCALE["up"]
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.scale = SCALE["up"]
        return helper(x, Gelu.factor())
    @staticmethod
    def backward(ctx, grad):
        x, = ctx.saved_tensors
        return helper(grad, ctx.scale) + torch.where(x > 0, x, 0)

def f(x):
    return Gelu.apply(x)
""",
    "a function inside a function": SQUARE.replace("= Square.factor", "= 3.0")
    + """
class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Square.apply(x) + 1
    @staticmethod
    def backward(ctx, grad):
        return Square.apply(grad) + ctx.saved_tensors[0]

def f(x):
    return Outer.apply(x)
""",
    "forward changes things": """
LOG = []
class Counted(torch.autograd.Function):
    calls = 0
    @staticmethod
    def forward(ctx, x):
        LOG.append(float(x.shape[0]))
        Counted.calls += 1
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 5

def f(x):
    LOG.append("before")
    y = Counted.apply(x)
    LOG.append(Counted.calls)
    return y, len(LOG)
""",
    "a tensor from outside": """
WEIGHT = torch.arange(4.0)
PARAMETER = nn.Parameter(torch.ones(4))
class Weighted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(WEIGHT, PARAMETER)
        return x * WEIGHT + PARAMETER
    @staticmethod
    def backward(ctx, grad):
        weight, parameter = ctx.saved_tensors
        return grad * weight * 2 + parameter

def f(x):
    return Weighted.apply(x), PARAMETER
""",
    "without gradients": SQUARE
    + """
def f(x):
    with torch.no_grad():
        y = Square.apply(x)
        z = x * 2
    return y, y.requires_grad, Square.apply(z), torch.is_grad_enabled()
""",
    "raises and is caught": """
class Checked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        if x.shape[0] > limit:
            raise ValueError(f"too long: {x.shape[0]}")
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad, None

def f(x):
    try:
        return Checked.apply(x, 2)
    except ValueError as error:
        return Checked.apply(x, 9) + 1, str(error), torch.is_grad_enabled()
""",
    "random numbers": """
class Noise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        noise = torch.rand_like(x)
        ctx.save_for_backward(noise)
        return x + noise
    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0]

def f(x):
    return Noise.apply(x)
""",
    "a subclass and its own apply": SQUARE
    + """
class Own(Square):
    @classmethod
    def apply(cls, x, extra=1):
        return super().apply(x) + extra

def f(x):
    return Own.apply(x, extra=3)
""",
    "in a module": """
class GeLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input * 0.5 * (1.0 + torch.tanh(0.79788456 * input * (1 + 0.044715 * input * input)))
    @staticmethod
    def backward(ctx, grad_output):
        input = ctx.saved_tensors
        input = input[0]
        t = torch.tanh(0.79788456 * input * (1 + 0.044715 * input * input))
        ff = 0.5 * input * ((1 - t * t) * (0.79788456 + 0.1070322243 * input * input)) + 0.5 * (1 + t)
        return ff * grad_output

class Act(nn.Module):
    def forward(self, x):
        return GeLU.apply(x) if self.training else x

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), Act(), nn.Linear(8, 4), Act())
    def forward(self, x):
        return self.layers(x)
f = Model()
""",
}

# The value that backward reads may have changed when it runs: these break.
READS_IN_BACKWARD = {
    "reads what the program has set": """
class Settings:
    scale = 1.0
SETTINGS = Settings()
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * SETTINGS.scale
    @staticmethod
    def backward(ctx, grad):
        return grad * SETTINGS.scale

def f(x):
    SETTINGS.scale = 4.0
    return Scaled.apply(x)
""",
    "reads a number of its class": SQUARE.replace("10 * ctx.factor", "10 * Square.factor")
    + """
def f(x):
    return Square.apply(x.sin()).cos()
""",
    "reads an item of a global dict": WHOLE["calls functions"].replace("grad, ctx.scale", 'grad, SCALE["up"]'),
    "reads global tensors": WHOLE["a tensor from outside"].replace("ctx.saved_tensors", "WEIGHT, PARAMETER"),
}

WHOLE["returns what is no tensor"] = """
import dataclasses
@dataclasses.dataclass
class Parts:
    first: torch.Tensor
    number: int

class Split(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, name):
        y = x * 2
        return y, Parts(y + 1, 5), [y * 3], name, {"y": x.sum()}
    @staticmethod
    def backward(ctx, grad, parts, listed, name, mapped):
        assert parts is None and listed is None and name is None and mapped is None
        return grad * 7, None

def f(x):
    y, parts, listed, name, mapped = Split.apply(x, "name")
    return y.sin() + parts.first * parts.number, listed, name, mapped["y"], parts.first.requires_grad
"""
WHOLE["returns a list"] = """
class Listed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return [x * 2]
    @staticmethod
    def backward(ctx, grad):
        return grad

def f(x):
    made = Listed.apply(x)
    return made[0] + x, made[0].requires_grad
"""
WHOLE["vjp instead of backward"] = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def vjp(ctx, grad):
        return grad * ctx.saved_tensors[0] * 5

def f(x):
    return Scale.apply(x).sin()
"""
WHOLE["gradients that may be None"] = """
class Both(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        ctx.scale = scale
        whole = x.new_ones(2, dtype=torch.int64)
        return x * 2, x * 3, whole
    @staticmethod
    def backward(ctx, grad, other, of_whole):
        assert of_whole is None
        if grad is None and other is None:
            return None, None
        if other is None:
            return grad * ctx.scale, None
        if grad is None:
            return other * ctx.saved_tensors[0], None
        return grad * 7 + other * ctx.saved_tensors[0], None

def f(x):
    first, unused, whole = Both.apply(x, 3)
    unused, second, _ = Both.apply(x, 5)
    a, b, _ = Both.apply(x, 11)
    return first.sin() + second.cos() + a * b, whole
"""
WHOLE["gradients that may be None, and must not be"] = """
class Plain(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3
    @staticmethod
    def backward(ctx, grad, other):
        if grad is None or other is None:
            raise ValueError("needs both", 2)
        return grad * 5 + other

def f(x):
    first, second = Plain.apply(x)
    return first.sin() + second
"""
WHOLE["autocast around it"] = """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.outer(x, x)
        z = y @ y
        ctx.save_for_backward(x, z)
        ctx.was = z.dtype
        return z
    @staticmethod
    def backward(ctx, grad):
        x, z = ctx.saved_tensors
        assert ctx.was == torch.bfloat16
        product = grad @ z
        return (product.float() @ torch.outer(x, x)).sum(0) * (2 if product.dtype == torch.bfloat16 else 3)

def f(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = Product.apply(x * 0.1)
        return y.sin(), x.sum()
"""

STATEFUL = {"forward changes things"}


def takes_keywords() -> bool:
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

    try:
        Same.apply(x=torch.ones(1))
    except TypeError:
        return False
    return True


if not takes_keywords():  # before torch 2.12
    del WHOLE["keyword arguments"]


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", WHOLE)
def test_captured_whole(name, grad):
    same(Source(WHOLE[name]), T(4, grad=grad), compare_dynamo=False, stateful=name in STATEFUL)


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", READS_IN_BACKWARD)
def test_reads_in_backward(name, grad):
    same(Source(READS_IN_BACKWARD[name]), T(4, grad=grad), compare_dynamo=False, fullgraph=False)
    if CAPTURES and grad:
        with pytest.raises(unsupported(), match="in backward, which may change before the backward pass runs"):
            compile(Source(READS_IN_BACKWARD[name]).namespace()["f"], fullgraph=True)(torch.ones(4, requires_grad=True))


@pytest.mark.parametrize("name", [*WHOLE, *READS_IN_BACKWARD])
def test_through_aot_autograd(name):
    source = Source(WHOLE.get(name) or READS_IN_BACKWARD[name])
    made, plain = source.namespace(), source.namespace()
    if isinstance(made["f"], nn.Module):
        made["f"].load_state_dict(plain["f"].state_dict())
    compiled = compile(made["f"], backend="aot_eager", fullgraph=name in WHOLE)
    for seed in (0, 0, 1):
        outcomes = []
        for program in (plain["f"], compiled):
            torch.manual_seed(seed)
            x = torch.randn(4, requires_grad=True)
            result = program(x)
            tensors = [
                one for one in (result if isinstance(result, tuple) else (result,)) if isinstance(one, torch.Tensor)
            ]
            loss = sum((one * one).sum() for one in tensors if one.requires_grad)
            outcomes.append([*tensors, *(torch.autograd.grad(loss, [x]) if name != "without gradients" else ())])
        for expected, actual in zip(*outcomes, strict=True):
            torch.testing.assert_close(actual, expected)
            assert actual.requires_grad == expected.requires_grad


CHANGES = {
    "saved input": ["Square.factor = 5.0", "Square.factor = 7.0", "Square.factor = 11.0"],
    "attributes of the context": [
        "Scale.backward = staticmethod(lambda ctx, grad: (grad.expand(ctx.shape) * 9, None))",
        "Scale.forward = staticmethod(lambda ctx, x, f: (setattr(ctx, 'shape', x.shape), x.sum(0) * 3)[1])",
    ],
    "calls functions": ["SCALE['up'] = 4", "SCALE['up'] = 5", "SCALE['up'] = 6", "Gelu.factor = lambda: 0.5"],
    "a tensor from outside": ["WEIGHT = torch.ones(4) * 5", "WEIGHT.add_(1)", "PARAMETER.requires_grad_(False)"],
    "in a module": ["PROGRAM.eval()", "PROGRAM.train()", "GeLU.backward = staticmethod(lambda ctx, grad: grad)"],
}  # fmt: skip
CHANGES |= {
    "reads a number of its class": CHANGES["saved input"],
    "reads an item of a global dict": CHANGES["calls functions"],
    "reads global tensors": CHANGES["a tensor from outside"],
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_between_calls(name):
    source = Source(WHOLE.get(name) or READS_IN_BACKWARD[name])
    same(source, T(4, grad=True), compare_dynamo=False, mutate=CHANGES[name], fullgraph=name in WHOLE)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_number_that_backward_reads_changes(backend):
    """Where a graph takes any int, the backward pass must not keep the one that it was captured with."""
    source = """
FACTOR = 1
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, number):
        ctx.number = number
        return x * FACTOR * number
    @staticmethod
    def backward(ctx, grad):
        return grad * FACTOR * ctx.number, None
def f(x, number):
    return Scaled.apply(x, number)
"""
    made, plain = Source(source).namespace(), Source(source).namespace()
    compiled = compile(made["f"], backend=backend, fullgraph=False)
    for factor, number in [(1, 2), (3, 2), (4, 3), (5, 4), (6, 5), (1, 2)]:
        made["FACTOR"] = plain["FACTOR"] = factor
        x = torch.ones(3, requires_grad=True)
        for program in (compiled, plain["f"]):
            assert torch.equal(
                torch.autograd.grad(program(x, number).sum(), x)[0], torch.full((3,), 1.0 * factor * number)
            )


def test_double_backward():
    space = Source(WHOLE["saved input"]).namespace()

    def second(program):
        x = torch.linspace(0.1, 1, 4, requires_grad=True)
        (first,) = torch.autograd.grad(program(x).sum(), x, create_graph=True)
        return torch.autograd.grad((first * first).sum(), x)[0]

    expected = second(space["f"])
    compiled = compile(space["f"], fullgraph=True)
    assert torch.equal(second(compiled), expected)
    assert torch.equal(second(compiled), expected)


def test_once_differentiable_is_kept():
    space = Source(WHOLE["once differentiable"]).namespace()
    x = torch.randn(4, requires_grad=True)
    y = compile(space["f"], fullgraph=True)(x)
    (first,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


def test_node_of_the_function_is_its_own():
    """A program that reads the node of its Function finds the attributes that it has set."""
    space = Source(WHOLE["attributes of the context"]).namespace()

    def program(x):
        y = space["Scale"].apply(x, 3.0)
        return y, y.grad_fn.factor, len(y.grad_fn.next_functions)

    same(program, T(2, 4, grad=True), compare_dynamo=False, fullgraph=False)


def test_writing_to_a_saved_tensor_is_noticed():
    space = Source(WHOLE["saved output and an intermediate result"]).namespace()

    def program(x):
        y = space["Tanh"].apply(x)
        y.mul_(2)
        return y.sum()

    for one in (program, compile(program, fullgraph=True)):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            one(torch.ones(4, requires_grad=True)).backward()


def test_backward_twice_needs_retain_graph():
    space = Source(WHOLE["saved input"]).namespace()
    y = compile(space["f"], fullgraph=True)(torch.ones(4, requires_grad=True)).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_hooks_around():
    space = Source(WHOLE["saved input"]).namespace()

    def program(x):
        y = space["Square"].apply(x)
        y.register_hook(lambda grad: grad * 2)
        x.register_hook(lambda grad: grad + 1)
        return y.sin()

    same(program, T(4, grad=True), compare_dynamo=False)


def test_history_of_the_result():
    space = Source(WHOLE["straight through"]).namespace()
    y = compile(lambda x: space["Round"].apply(x), fullgraph=True)(torch.ones(3, requires_grad=True))
    assert y.grad_fn.name() == "RoundBackward" and not y.is_leaf and not y._is_view()


def test_graph_shows_the_forward_pass():
    if not CAPTURES:
        pytest.skip("shows graphs")
    recorder, space = Recorder(), Source(SQUARE).namespace()
    compile(lambda x: space["Square"].apply(x), backend=recorder, fullgraph=True)(torch.ones(3, requires_grad=True))
    names = [getattr(node.target, "__name__", node.target) for node in recorder.graphs[0].graph.nodes]
    assert names.count("mul") == 2 and names.count("Square") == 1


def test_a_function_that_is_allowed_in_the_graph():
    class Allowed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            print(end="")
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.scale * 2, None

    torch._dynamo.allow_in_graph(Allowed)
    recorder = Recorder()
    f = compile(lambda x: Allowed.apply(x, 3) + 1, backend=recorder, fullgraph=True)
    for _ in range(2):
        x = torch.ones(3, requires_grad=True)
        f(x).sum().backward()
        assert torch.equal(x.grad, torch.full((3,), 6.0))
    if CAPTURES:
        targets = [node.target for node in recorder.graphs[0].graph.nodes if node.op == "call_function"]
        assert len(recorder.graphs) == 1 and targets[0] == Allowed.apply and len(targets) == 2


def test_a_gradient_that_is_none_where_backward_expects_one():
    source = Source(WHOLE["gradients that may be None, and must not be"]).namespace()
    errors = []
    apply = lambda x: source["Plain"].apply(x)
    for one in (apply, compile(apply, fullgraph=True)):
        x = torch.ones(4, requires_grad=True)
        with pytest.raises(ValueError) as error:
            one(x)[0].sum().backward()
        errors.append(str(error.value))
    assert errors[0] == errors[1]


def test_apply_of_an_instance():
    source = SQUARE + "\ndef f(x):\n    return Square().apply(x.sin()).cos()\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        same(Source(source), T(4, grad=True), compare_dynamo=False, fullgraph=False)


@pytest.mark.parametrize("grad_of", ["both", "one"])
def test_a_compiled_backward_reads_its_context(grad_of):
    recorder = Recorder()

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            product = x * y
            ctx.save_for_backward(product, y)
            return product

        @staticmethod
        def backward(ctx, grad):
            product, y = ctx.saved_tensors
            return grad * product * y, grad * 3 if ctx.needs_input_grad[1] else None

    plain = Product.backward
    results = []
    for backward in (plain, compile(plain, backend=recorder, fullgraph=True)):
        Product.backward = staticmethod(backward)
        for factor in (1.0, 2.0, 5.0):
            x = torch.full((3,), factor, requires_grad=True)
            y = torch.full((3,), factor + 1, requires_grad=grad_of == "both")
            Product.apply(x, y).sum().backward()
            results.append((x.grad, y.grad))
    for expected, actual in zip(results[:3], results[3:], strict=True):
        torch.testing.assert_close(actual, expected)
    if CAPTURES:
        assert len(recorder.graphs) == 1


COMPILED_ALIKE = {
    "saved inputs and a result": (lambda ctx, x, w: (x @ w).sin(), lambda ctx, g, x, w: (g @ w.t(), x.t() @ g)),
    "much to save": (
        lambda ctx, x, w: (x @ w).sin() * (x @ w).cos(),
        lambda ctx, g, x, w: ((g * (x @ w).cos()) @ w.t(), x.t() @ (g * (x @ w).sin())),
    ),
}


@pytest.mark.parametrize("name", COMPILED_ALIKE)
def test_a_compiler_gets_the_graphs_that_it_gets_from_torch_dynamo(name):
    """aot_autograd splits both into the same forward and backward graphs: the node hides nothing from it."""
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
    from torch._dynamo.backends.common import aot_autograd

    forward, backward = COMPILED_ALIKE[name]

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return forward(ctx, x, w)

        @staticmethod
        def backward(ctx, gradient):
            x, w = ctx.saved_tensors
            return backward(ctx, gradient, x, w)

    def program(x, w):
        return Function.apply(torch.relu(x) + 1, w).sum()

    def graphs_of(compile):
        graphs = []

        def note(graph_module, inputs):
            graphs.append([str(node.target) for node in graph_module.graph.nodes if node.op == "call_function"])
            return make_boxed_func(graph_module.forward)

        backend = aot_autograd(fw_compiler=note, bw_compiler=note, partition_fn=min_cut_rematerialization_partition)
        x, w = torch.ones(3, 4, requires_grad=True), torch.ones(4, 2, requires_grad=True)
        compile(program, backend=backend, fullgraph=True)(x, w).backward()
        return graphs

    assert graphs_of(stator.compile) == graphs_of(torch.compile)
