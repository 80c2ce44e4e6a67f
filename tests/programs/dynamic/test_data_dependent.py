"""Sizes and numbers that depend on the data of tensors: captured with fullgraph=True and with torch._dynamo's settings."""

from __future__ import annotations

import random
import traceback

import pytest
import torch
import torch._dynamo
from torch.fx.experimental.symbolic_shapes import sym_and
from torch.nn import functional as F

import stator
from tests.support import engine
from tests.support.compare import assert_same

SETTINGS = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}


def outcome_of(function, program, arguments):
    """What a call returns, or its exception and the line of the program that raised it."""
    copies = [one.clone() if isinstance(one, torch.Tensor) else one for one in arguments]
    try:
        return [function(*copies), copies]
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == program.__code__.co_filename and frame.name == program.__name__
        ]
        return [type(error), str(error), lines, copies]


def captures_of(program, calls, **options):
    """Makes the calls both ways, twice, compares, and returns the number of captures."""
    engine.reset()
    compiled = stator.compile(program, **options)
    before = engine.captures()
    for arguments in [*calls, *calls]:
        assert_same(outcome_of(program, program, arguments), outcome_of(compiled, program, arguments))
    return engine.captures() - before


def graphs_of_dynamo(program, calls, **options):
    """How many graphs torch._dynamo makes of the calls; None where it fails."""
    torch._dynamo.reset()
    count = 0

    def backend(module, _):
        nonlocal count
        count += 1
        return module

    compiled = torch.compile(program, backend=backend, **options)
    try:
        for arguments in calls:
            outcome_of(compiled, program, arguments)
    finally:
        torch._dynamo.reset()
    return count


def masks(*shape):
    """All, none, one, and some elements."""
    one = torch.zeros(*shape, dtype=torch.bool)
    one.view(-1)[-1] = True
    some = torch.arange(one.numel()).view(shape) % 3 == 1
    return [torch.ones(*shape, dtype=torch.bool), torch.zeros(*shape, dtype=torch.bool), one, some]


def numbers(*values):
    return [(torch.tensor(value),) for value in values]


X = torch.arange(24.0).view(4, 6) - 7
CASES = {}


def case(*calls):
    def add(program):
        CASES[program.__name__] = (program, list(calls))
        return program

    return add


# --- numbers


@case(*numbers(3, 0, 1, -2))
def an_item_is_returned(t):
    n = t.item()
    return n, n + 1, n * 2 - 3, [n // 3], {"n": n % 5}, t * n


@case(*numbers(3.5, 0.0, -1.0, float("inf"), float("nan")))
def a_float_is_used_in_arithmetic(t):
    f = t.item()
    return X * f, f * 2 + 1 if f is not None else 0, -f


@case(*numbers(3, 0, 1))
def int_and_float_of_a_tensor(t):
    return torch.ones(2) * float(t), int(t) + 1, int(t * 1.5), float(t)


@case(*numbers(True, False))
def a_bool_is_returned(t):
    b = t.item()
    return b, t


@case(*numbers(3, 0, -1))
def the_truth_of_an_int_is_returned(t):
    return bool(t.item()), not t.item(), not bool(t.item())


@case(*numbers(3.5, 0.0, -0.0, float("nan")))
def the_truth_of_a_float_is_returned(t):
    return bool(t.item()), not t.item()


@case(*numbers(True, False))
def the_truth_of_a_bool_is_returned(t):
    return bool(t.item()), not t.item()


@case(*numbers(3, 0), *numbers(-1))
def the_truth_of_a_tensor_is_returned(t):
    return bool(t), bool((X == 0).all()), bool(t.reshape(1, 1) == 3)


@case(*numbers(3, 1, 0, -2))
def a_divisor(t):
    n = t.item()
    return 7 // n, 7 % n, n // 2


# (pytest rewrites the assertions of a test file.)
ASSERTIONS = """
def an_assertion_about_a_tensor(t):
    y = X + t
    assert t > 0, "it has to be positive"
    return y * 2

def an_assertion_about_a_number(t):
    n = t.item()
    assert n >= 1
    return torch.zeros(n)

def an_assertion_that_is_caught(t):
    y = X * 2
    try:
        assert t.isfinite() & (t > 0.5)
    except AssertionError:
        return y - 1
    return y + t
"""
ASSERTING = {"X": X, "torch": torch}
exec(compile(ASSERTIONS, "assertions", "exec"), ASSERTING)
case(*numbers(3, 1, 0, -2))(ASSERTING["an_assertion_about_a_tensor"])
case(*numbers(3, 1, 0, -2))(ASSERTING["an_assertion_about_a_number"])
case(*numbers(3.5, 1.0, 0.0))(ASSERTING["an_assertion_that_is_caught"])


@case(*numbers(3.5, 0.0, float("nan")))
def a_factor_that_is_a_tensor(t):
    return X.addcmul(X, X, value=t), torch.add(X, X, alpha=t), X.clone().addcdiv_(X, X + 1, value=1 - t)


@case(*numbers(3.5, 0.0, -1.0, 1e30, float("inf"), float("nan")))
def a_float_becomes_a_tensor(t):
    f = t.item()
    return torch.tensor(f), torch.tensor([f, 2.0]), torch.tensor([[f], [1.0]]), torch.tensor((f * 2,))


@case(*numbers(3, 0, 1))
def the_same_number_twice(t):
    return torch.zeros(t.item()) + torch.ones(t.item())


@case(*numbers(3, 1))
def a_number_that_is_read_again_after_a_write(t):
    n = t.item()
    t.add_(1)
    return n, t.item(), torch.zeros(n), torch.zeros(t.item())


@case((torch.tensor([2, 0, 3]),), (torch.tensor([1, 1, 1]),), (torch.tensor([0, 0, 0]),))
def a_list_of_known_length(t):
    a, b, c = t.tolist()
    return torch.zeros(a, b + 1), c, [a, b]


@case((torch.tensor([[2, 0], [3, 1]]),))
def a_nested_list(t):
    rows = t.tolist()
    return rows, t + 1


@case((torch.tensor([2, 0, 4]),), (torch.tensor([1, 5, 0]),), (torch.tensor([6, 0, 0]),), (torch.tensor([2, 2, 1]),))
def split_by_items(t):
    sizes = t.tolist()
    return [part * 2 for part in torch.split(X, sizes, dim=1)]


# --- sizes that are numbers


@case(*numbers(3, 0, 1, -1))
def factories(t):
    n = t.item()
    return torch.zeros(n), torch.ones(n, 2), torch.arange(n), torch.full((n, 3), 2.5), torch.empty(2, n).fill_(1)


@case(*numbers(3, 0, 1, -1, -5, 4, 9))
def slices(t):
    n = t.item()
    return X[:n], X[n:], X[:, :n] * 2, X[:n].sum(0)


@case(*numbers(3, 0, 1, -1, -4, 4))
def an_index(t):
    return X[t.item()] * 2, X[:, t.item()]


@case(*numbers(2, 0, 1, 4, 3, 24, -1))
def view_of_parts(t):
    n = t.item()
    return X.view(n, -1) + 1


@case(*numbers(6, 4, 0, -1))
def view_of_all(t):
    return X[:, : t.item()].contiguous().view(-1), X.contiguous().view(4, t.item())


@case(*numbers(2, 0, 1, 4, 5, -1))
def narrow(t):
    return X.narrow(0, 0, t.item()), torch.narrow(X, 1, 1, t.item()) * 2


@case(*numbers(2, 0, 1, 3))
def pad(t):
    return F.pad(X, (0, t.item()))


@case(*numbers(2, 0, 1, 3, -2))
def expand_and_repeat(t):
    n = t.item()
    return X[0].expand(n, 6) + 1, X[0].unsqueeze(0).repeat(n, 1)


@case(*numbers(2, 0, 1, 3))
def a_tensor_of_numbers(t):
    n = t.item()
    return torch.tensor([n, n + 1]), torch.tensor(n) * 2


@case(*numbers(2, 0, 1, 6, 4))
def a_number_is_scaled(t):
    n = t.item()
    return torch.zeros(2 * n + 1, n), torch.zeros(n // 2), (n + 3) % 7


# --- operations whose results have such sizes


@case(*((mask,) for mask in masks(4, 6)))
def a_mask_as_index(mask):
    return X[mask], X[mask] * 2 + 1, X[mask].sum(), (X + 1)[mask] - X[mask]


@case(*((mask,) for mask in masks(4)))
def a_mask_of_rows(mask):
    rows = X[mask]
    return rows, rows @ torch.ones(6, 3), rows.t(), rows.relu().mean(1), rows.shape[0], rows.size(), rows.numel()


@case(*((mask,) for mask in masks(6)))
def a_mask_of_columns(mask):
    return X[:, mask], X[1:, mask].sum(0), X[..., mask].transpose(0, 1)


@case(*((mask,) for mask in masks(4)))
def write_by_mask(mask):
    y = X.clone()
    y[mask] = 0
    y[mask] += 1.0
    return y


@case(*((mask.float(),) for mask in masks(4, 6)))
def positions(x):
    places = x.nonzero()
    rows, columns = torch.nonzero(x, as_tuple=True)
    return places, rows, columns, X[rows, columns], torch.where(x > 0)[0], torch.argwhere(x).shape


@case(*((mask,) for mask in masks(4, 6)))
def masked_select(mask):
    return torch.masked_select(X, mask), X.masked_select(mask[:1]).sum()


@case((torch.tensor([3, 1, 3, 2]),), (torch.tensor([1, 1, 1, 1]),), (torch.tensor([4, 3, 2, 1]),))
def unique(t):
    values, inverse, counts = torch.unique(t, return_inverse=True, return_counts=True)
    return values, inverse, counts, values * 2, values[inverse], t.unique().shape[0], t.unique_consecutive()


@case((torch.tensor([3, 1, 0, 2]),), (torch.tensor([0, 0, 0, 0]),), (torch.tensor([0, 1, 0, 0]),))
def repeat_interleave(t):
    return torch.repeat_interleave(X, t, dim=0), torch.repeat_interleave(t), X.repeat_interleave(t, dim=0).shape[0]


@case((torch.tensor([3, 1, 0, 2]),), (torch.tensor([0, 0, 0, 0]),))
def bincount(t):
    return torch.bincount(t), torch.bincount(t, minlength=6) + 1


@case(*((mask,) for mask in masks(4)))
def two_masks(mask):
    return torch.cat([X[mask], X[~mask]]), torch.cat([X[mask], X], dim=0).sum()


@case(*((mask,) for mask in masks(4)))
def scatter_back(mask):
    rows = torch.nonzero(mask).flatten()
    out = torch.zeros(4, 6)
    out.index_add_(0, rows, X[rows] * 2)
    return out, torch.zeros(4).scatter_add(0, rows, torch.ones(rows.shape[0])), X.index_select(0, rows)


@case(*((mask,) for mask in masks(4)))
def normalization(mask):
    rows = X[mask]
    return F.layer_norm(rows, (6,)), rows.softmax(-1), F.linear(rows, torch.ones(2, 6)), F.gelu(rows)


@case(*((mask,) for mask in masks(4)))
def sizes_are_used_again(mask):
    rows = X[mask]
    n = rows.shape[0]
    return torch.arange(n), rows.view(n, 2, 3), rows.reshape(-1, 3), rows + torch.zeros(n, 1), n * 2


@case(*((mask,) for mask in masks(4)))
def broadcasting(mask):
    rows = X[mask]
    return rows + torch.ones(6), rows * torch.ones(1, 6), rows[:, :1] * torch.ones(6), rows.unsqueeze(1) - rows


@case(*((mask,) for mask in masks(4)))
def sizes_that_may_not_fit(mask):
    return X[mask] + torch.ones(4, 6)


@case(*((mask,) for mask in masks(4)))
def the_largest_of_none_raises(mask):
    return X[mask].max()


@case(*((mask,) for mask in masks(4)))
def dead_code_raises(mask):
    X[mask].max()
    return X + 1


# --- checks


@case(*numbers(3, 5, 0, 1, -1))
def a_check(t):
    n = t.item()
    torch._check(n >= 2)
    torch._check(n < 5, lambda: f"n is {n}")
    if n > 1:
        return torch.zeros(n)
    return torch.ones(n)


@case(*numbers(3, 5, 0, 1, -1))
def a_check_of_several_conditions(t):
    n = t.item()
    torch._check(sym_and(n >= 2, True, n < 5, n != 1), lambda: f"n is {n}")
    return torch.zeros(n) if n > 1 and n <= 4 and sym_and(n > 0, n < 9) else torch.ones(n)


@case(*numbers(3, -1))
def a_check_of_a_size(t):
    n = t.item()
    torch._check_is_size(n)
    return torch.zeros(n) if n >= 0 else None


@case(*numbers(3, -1, 9))
def a_check_of_a_value(t):
    n = t.item()
    torch._check_value(n >= 0, lambda: "too small")
    torch._check_index(n < 4)
    return X[n]


@case(*numbers(3, 4))
def a_check_that_says_the_number(t):
    n = t.item()
    torch._check(n == 3)
    return [i * 2 for i in range(n)], X.view(n, 8)


@case(*numbers(3, 0, 7))
def the_larger_one(t):
    n = t.item()
    return max(n, 2), min(n, 4), torch.sym_max(n, 1), torch.zeros(torch.sym_min(n, 3)), torch.sym_float(n)


@case(*numbers(3, 0, 7))
def sym_functions(t):
    n = t.item()
    return torch.sym_ite(n > 2, n, 5), torch.sym_not(n > 2), torch.sym_int(t.item() * 1.5)


@case(*((mask,) for mask in masks(4)))
def products(mask):
    rows = X[mask]
    attention = F.scaled_dot_product_attention(rows[None], rows[None], rows[None])
    return (
        rows @ rows.t(),
        torch.einsum("ij,ij->i", rows, rows),
        torch.bmm(rows[:, None], rows[..., None]),
        attention.shape,
    )


@case(*((mask,) for mask in masks(4)))
def joined(mask):
    rows = X[mask]
    return torch.stack([rows, rows * 2]), torch.cat([rows[:, 0], torch.ones(1)]), rows.flip(0), rows.cumsum(0)


@case(*numbers(3, 0, 1, 4, -1, 7))
def write_to_a_slice(t):
    y = X.clone()
    y[: t.item()] += 1
    y[:, : t.item()] = 0
    z = y[: t.item()]
    z.mul_(2)
    return y, z


@case(*((mask,) for mask in masks(4)))
def copies_that_may_be_views(mask):
    y = X[mask].t().contiguous()
    z = X[mask].t().reshape(-1)
    y.add_(1)
    return y, z, X[mask].is_contiguous()


@case(*((torch.tensor(one), torch.tensor(other)) for one, other in [(3, 3), (0, 0), (1, 3), (3, 1), (2, 3), (1, 1)]))
def two_sizes_are_taken_to_be_equal(one, other):
    return torch.ones(one.item()) + torch.arange(other.item())


@pytest.mark.parametrize("name", CASES)
def test_one_graph_as_uncompiled(name):
    program, calls = CASES[name]
    assert captures_of(program, calls, fullgraph=True) == 1


@pytest.mark.parametrize("name", CASES)
def test_no_more_graphs_than_dynamo(name):
    program, calls = CASES[name]
    with torch._dynamo.config.patch(SETTINGS):
        assert captures_of(program, calls) <= max(graphs_of_dynamo(program, calls), 1)


# Assertions about tensors need no numbers.
WITHOUT_BREAK = {"an_assertion_about_a_tensor", "an_assertion_that_is_caught"}


@pytest.mark.parametrize("name", CASES)
def test_without_the_settings_it_breaks(name):
    program, calls = CASES[name]
    assert (captures_of(program, calls) > 1) == (name not in WITHOUT_BREAK)


def test_a_number_that_nothing_uses_is_not_read():
    def program(x):
        y = x * 2
        y.sum().item()
        int(x[0])
        return y + 1

    with stator.watch() as report:
        stator.compile(program, fullgraph=True)(torch.ones(3))
    assert "sum" not in report.captures[0].graph
    # An infinity is no int.
    compiled = stator.compile(program, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(3)), program(torch.ones(3)))
        with pytest.raises(OverflowError):
            compiled(torch.full((3,), float("inf")))


def test_more_numbers_than_a_trace_has_room_for():
    """The graph breaks where there are too many, and goes on."""

    def program(x, count):
        number = 0
        for _ in range(count):
            number = random.randint(0, 9)
        return x + number

    compiled = stator.compile(program)
    seen = []
    for function in (program, compiled, compiled):
        random.seed(1)
        with stator.watch() as report:
            seen.append((function(torch.ones(2), 66_000).tolist(), random.random()))
        for broken in report.breaks:
            assert broken.kind == "instruction" and "too many numbers that change" in broken.reason
    assert seen[1] == seen[2] == seen[0]


def question_of(program, *arguments):
    """The message of fullgraph=True, and the line that it names."""
    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(program, fullgraph=True)(*arguments)
    assert caught.value.break_.kind == "data-dependent"
    return str(caught.value)


def test_a_question_without_an_answer_names_it_its_line_and_the_remedy():
    def program(t):
        n = t.item()
        if n > 2:
            return n
        return t

    text = question_of(program, torch.tensor(3))
    first = program.__code__.co_firstlineno
    assert f"the answer to u0 > 2 depends on the data of a tensor; u0 is the result of item in line {first + 1}" in text
    assert "torch._check(u0 > 2) before it would answer the question" in text
    assert f"test_data_dependent.py:{first + 2}" in text


@pytest.mark.parametrize(
    "program",
    [
        lambda t: f"{t.item()}",
        lambda t: [i for i in range(t.item())],
        lambda t: {t.item(): 1},
        lambda t: [1, 2, 3, 4][t.item()],
        lambda t: torch.zeros(3, t.item()).stride(),
        lambda t: torch.zeros(t.item(), 4).t().is_contiguous(),
        lambda t: torch.zeros(2, t.item()).squeeze(),
        lambda t: list(torch.zeros(t.item())),
        lambda t: (t.item() > 2) is True,
    ],
)
def test_who_needs_the_number_breaks_and_is_right(program):
    assert "depends on the data of a tensor" in question_of(program, torch.tensor(3))
    with torch._dynamo.config.patch(SETTINGS):
        captures_of(program, numbers(3, 1, 2))


def test_gradients():
    def program(x, mask):
        rows = x[mask]
        return (rows * rows.sum()).relu().sum() + x[: mask.sum().item()].exp().mean()

    compiled = stator.compile(program, fullgraph=True)
    for mask in masks(4):
        one, other = X.clone().requires_grad_(), X.clone().requires_grad_()
        program(one, mask).backward()
        compiled(other, mask).backward()
        torch.testing.assert_close(other.grad, one.grad, rtol=0, atol=0, equal_nan=True)


def test_guards_do_not_mention_them():
    def program(x, mask):
        return x[mask].shape[0] + x.shape[0]

    report = stator.explain(program)(X, masks(4)[0])
    assert not any("u0" in str(guard) for capture in report.captures for guard in capture.guards)


def test_the_answers_of_symbolic_shapes():
    from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true, statically_known_true

    def program(t):
        n = t.item()
        torch._check(n >= 2)
        return guard_or_false(n > 5), guard_or_true(n > 5), statically_known_true(n > 1), statically_known_true(n > 3)

    assert stator.compile(program, fullgraph=True)(torch.tensor(9)) == (False, True, True, False)


def test_experts_of_a_mixture():
    class Experts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(4))
            self.gate = torch.nn.Linear(6, 4)

        def forward(self, x):
            weights, chosen = torch.topk(self.gate(x).softmax(-1), 2, dim=-1)
            mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
            out = torch.zeros_like(x)
            for number, expert in enumerate(self.experts):
                place, token = torch.where(mask[number])
                state = expert(x[None, token].reshape(-1, 6)) * weights[token, place, None]
                out.index_add_(0, token, state)
            return out

    model = Experts()
    engine.reset()
    compiled = stator.compile(model, fullgraph=True, dynamic=True)
    before = engine.captures()
    for size in (5, 2, 9):
        one = torch.randn(size, 6, requires_grad=True)
        other = one.detach().clone().requires_grad_()
        expected, actual = model(one), compiled(other)
        assert_same(expected, actual)
        expected.sum().backward()
        actual.sum().backward()
        torch.testing.assert_close(other.grad, one.grad, rtol=0, atol=0)
    assert engine.captures() - before == 1


def test_marked_sizes_of_inputs():
    def program(x):
        return x * 2, x.shape[0], x.sum(0), torch.zeros(x.shape[0])

    engine.reset()
    compiled = stator.compile(program, fullgraph=True)
    before = engine.captures()
    for size in (5, 1, 0, 7):
        x = torch.randn(size, 3)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        assert_same(program(x), compiled(x))
    assert engine.captures() - before == 1
    x = torch.randn(4, 3)
    torch._dynamo.decorators.mark_unbacked(x, 0)
    assert "the answer to u0 > 3 depends on the data" in question_of(lambda x: x if x.shape[0] > 3 else -x, x)


@pytest.mark.parametrize("name", ["GCN", "GAT", "GraphSAGE", "GIN"])
def test_graph_neural_networks_are_one_graph(name):
    networks = pytest.importorskip("torch_geometric.nn")
    model = getattr(networks, name)(8, 16, 2, 4).eval()
    engine.reset()
    compiled = stator.compile(model, dynamic=True, fullgraph=True)
    before = engine.captures()
    for nodes, edges in ((10, 30), (12, 44), (7, 9)):
        x, links = torch.randn(nodes, 8), torch.randint(0, nodes, (2, edges))
        torch.testing.assert_close(compiled(x, links), model(x, links))
    assert engine.captures() - before == 1


def test_the_length_of_a_tensor_is_a_number():
    assert captures_of(lambda t: len(torch.zeros(t.item())), numbers(3, 0, 1, 7), fullgraph=True) == 1


def test_a_break_without_the_settings_does_not_last():
    def program(x, mask):
        return x[mask] * 2

    x, mask = torch.arange(5.0), torch.tensor([True, False, True, False, True])
    engine.reset()
    assert torch.equal(stator.compile(program)(x, mask), program(x, mask))
    assert torch.equal(stator.compile(program, fullgraph=True)(x, mask), program(x, mask))


@pytest.mark.parametrize("value", [3.5, 3])
def test_numbers_in_the_metadata_of_nodes(value):
    found = []

    def backend(module, _):
        found.extend(node.meta.get("example_value") for node in module.graph.nodes if node.op != "output")
        return module.forward

    def program(t):
        return X * t.item()

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    assert_same(program(torch.tensor(value)), compiled(torch.tensor(value)))
    assert any(isinstance(one, (torch.SymInt, torch.SymFloat, torch.SymBool)) for one in found)


@pytest.mark.parametrize("value", [2, 2.5])
def test_arithmetic_with_such_numbers_is_compiled(value):
    compiled_graphs = []

    def backend(module, _):
        compiled_graphs.append(module)
        return lambda *inputs: [one + 1 for one in module.forward(*inputs)]

    def program(x, t):
        return (x + t.item()) / 2 * t.item()

    actual = stator.compile(program, backend=backend, fullgraph=True)(torch.ones(2), torch.tensor(value))
    assert_same(program(torch.ones(2), torch.tensor(value)) + 1, actual)
    assert len(compiled_graphs) == 1


@pytest.mark.parametrize("name", ["an_assertion_about_a_tensor", "an_assertion_about_a_number"])
def test_assertions_hold_for_compilers_too(name):
    assert captures_of(ASSERTING[name], numbers(3, 1, 0, -2), fullgraph=True, backend="aot_eager") == 1


def test_a_backend_sees_floats_as_floats():
    """The example values of numbers that only the graph knows have the class and the name that PyTorch gives them."""

    def program(x):
        number = x.sum().item()
        return x + number * 2, x.int().sum().item() + 1

    seen = []

    def backend(module, inputs):
        seen.append({node.name: node.meta.get("example_value") for node in module.graph.nodes})
        return module

    x = torch.tensor([1.5, 2.25])
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        result, count = stator.compile(program, backend=backend, fullgraph=True)(x)
        assert torch.equal(result, program(x)[0]) and count == program(x)[1]
    if engine.CAPTURES:
        numbers = [value for value in seen[0].values() if isinstance(value, (torch.SymInt, torch.SymFloat))]
        assert [type(number) for number in numbers[:2]] == [torch.SymFloat, torch.SymFloat]
        assert isinstance(numbers[2], torch.SymInt) and str(numbers[0]) == "zuf0"


SIZES_IN_TENSORS = {
    "zeros": lambda x, n: torch.cat([torch.zeros(n).repeat(2)] * 2) + x.sum(),
    "of a tensor": lambda x, n: x.new_zeros(n) + 1,
    "arange": lambda x, n: torch.arange(n) * 2,
    "two of them": lambda x, n: torch.full((n, n), 3.0),
    "keyword": lambda x, n: torch.ones(size=(n, 3)).sum(1),
    "narrow": lambda x, n: x.narrow(0, 0, n),
    "roll": lambda x, n: x.roll(n),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "stator"])
@pytest.mark.parametrize("program", SIZES_IN_TENSORS.values(), ids=SIZES_IN_TENSORS)
def test_tensors_that_are_given_as_sizes(program, backend):
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        compiled = stator.compile(program, backend=backend)
        if engine.CAPTURES:
            assert not stator.explain(program, backend=backend)(torch.arange(6.0), torch.tensor(3)).breaks
        for count in (3, 5, 1, 0, 2, -1):
            for shape in ((), (1,)):
                results = []
                for f in (program, compiled):
                    try:
                        results.append(f(torch.arange(6.0), torch.full(shape, count)))
                    except (RuntimeError, TypeError) as error:
                        results.append(type(error))
                assert_same(*results)
