"""Tensor subclasses: `__torch_function__` sees and does the same as uncompiled."""

from __future__ import annotations

import copy
import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import has_torch_function, has_torch_function_unary, has_torch_function_variadic
from torch.utils.checkpoint import checkpoint

import stator
from tests.support.long import every
from tests.support.processes import fresh


class Named(torch.Tensor):
    """Leaves everything to PyTorch, which keeps the class."""


LOG: list[Any] = []


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LOG.append((func.__name__, [t.__name__ for t in types], len(args), sorted(kwargs or {})))
        return super().__torch_function__(func, types, args, kwargs or {})


class Off(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl


class Doubling(torch.Tensor):
    """Changes what some operations do."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (torch.Tensor.add, torch.add):
            args = tuple(2 * a if isinstance(a, (int, float)) else a for a in args)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        if isinstance(result, torch.Tensor) and func is not torch.Tensor.sum:
            return result.as_subclass(cls)
        return result


class Unwrapping(torch.Tensor):
    """Computes on plain tensors."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        plain = [a.as_subclass(torch.Tensor) if isinstance(a, cls) else a for a in args]
        return func(*plain, **(kwargs or {}))


class WithState(torch.Tensor):
    unit = "m"

    @property
    def area(self):
        return self.shape[0] * self.shape[1]

    def scaled(self, by):
        return self * by + self.offset

    def __matmul__(self, other):
        return "mine", torch.matmul(self, other)

    @staticmethod
    def make(data, offset):
        made = data.as_subclass(WithState)
        made.offset = offset
        return made


class Method(torch.Tensor):
    """Its `__torch_function__` is a plain method. Results take the label of the tensor that PyTorch calls it with."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if not isinstance(result, torch.Tensor) or isinstance(result, Method):
            return result
        made = result.as_subclass(Method)
        made.label = getattr(self, "label", "a")
        return made


CLASSES = [Named, Logged, Off, Doubling, Unwrapping, Method]

PROGRAMS: dict[str, Callable[..., Any]] = {
    "operators": lambda x, y: (x + 1) * 2 - y / (x * x + 2),
    "on the right": lambda x, y: (1 + x, 2 - x, 3 * y, 1 / (x + 4), 2**y),
    "beside a plain tensor": lambda x, y: (torch.ones(3, 4) - x, x - torch.ones(3, 4), torch.ones(3, 4) > y),
    "comparisons": lambda x, y: (x > 0, x == y, x != y, 1 < x),
    "unary": lambda x, y: (-x, abs(y), +x),
    "methods": lambda x, y: x.sum(dim=1, keepdim=True).relu() + y.mean(),
    "functions": lambda x, y: torch.cat([x, y]).sum() + torch.add(x, 2, alpha=3),
    "of nn.functional": lambda x, y: F.relu(x) + F.softmax(y, dim=-1) + F.linear(x, torch.eye(4)),
    "Python methods": lambda x, y: (x.norm(), x.split(2)[0], 5 - x),
    "attributes": lambda x, y: (x.shape, x.dtype, x.ndim, x.T, x.requires_grad, x.device, x.is_leaf, x.mT),
    "queries": lambda x, y: (x.size(), x.size(0), x.dim(), x.numel(), x.is_floating_point(), torch.is_tensor(x)),
    "items": lambda x, y: (x[0], x[:, 1:3], x[..., None], y[x > 0].shape if False else y[-1]),
    "views": lambda x, y: (x.view(4, 3), x.reshape(-1), x.t(), x.unsqueeze(0), x.transpose(0, 1).contiguous()),
    "several results": lambda x, y: (x.max(dim=0), torch.topk(y, 2), x.chunk(2), x.unbind()),
    "classes": lambda x, y: (type(x).__name__, isinstance(x, torch.Tensor), type(x + 1).__name__, type(x) is type(y)),
    "into a new object": lambda x, y: {"a": [x * 2, y], "b": (x, x + y)},
    "itself": lambda x, y: (x, y, x.contiguous()),
    "matrix": lambda x, y: (x @ y.t(), torch.einsum("ij,ij->i", x, y), torch.matmul(x, y.T)),
    "without gradients": lambda x, y: no_gradients(x, y),
    "written to what is new": lambda x, y: written(x, y),
    "a break in between": lambda x, y: broken(x, y),
    "data is read": lambda x, y: (x * float(y.sum()), bool(x.sum() > 0), (x + 1).tolist()),
    "length": lambda x, y: (len(x), [row.sum() for row in x]),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "plain again": lambda x, y: x.as_subclass(torch.Tensor) * 2 + y,
    "operator": lambda x, y: (operator.add(x, 1), operator.getitem(x, 0)),
    "a function of autograd": lambda x, y: Twice.apply(x) + y,
    "checkpointed": lambda x, y: checkpoint(lambda a: (a * 2).sin(), x, use_reentrant=False) * y,
    "the gradient": lambda x, y: (x.data * 2, x.detach(), x.grad),
    "the gradient is set": lambda x, y: gradient_set(x),
    "copies": lambda x, y: (copy.copy(x) * 2, copy.deepcopy(x.detach()), x.clone()),
    "identity": lambda x, y: ([i for i, t in enumerate([y, x]) if t is x], {x: 1}[x], x is not y),
    "text": lambda x, y: f"{x.shape} {x.sum()}",
    "in containers": lambda x, y: (
        torch.stack([x, y]),
        torch.cat((x, y), dim=1),
        torch.stack(tuple(t * 2 for t in (x, y))),
    ),
    "vmap": lambda x, y: torch.vmap(lambda a: a * 2)(x),
    "out": lambda x, y: torch.add(x.detach(), y.detach(), out=torch.empty(3, 4)),
    "an index": lambda x, y: torch.arange(12.0).view(3, 4)[x.detach().long().abs() % 3],
    "conversions": lambda x, y: (x.to(torch.float64), x.half().float(), x.cpu(), torch.zeros_like(x), x.new_zeros(2)),
    "autocast": lambda x, y: autocasted(x, y),
    "a loop": lambda x, y: looped(x, y),
    "key functions": lambda x, y: max([x.sum(), y.sum()], key=lambda t: float(t)),
    "changed in place": lambda x, y: (x * 1).unsqueeze_(0).squeeze_().t_(),
    "a new leaf": lambda x, y: (x * 1).detach().requires_grad_() * 2,
    "numpy": lambda x, y: x.detach().numpy().sum(),
}


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def gradient_set(x):
    x.grad = torch.ones(3, 4)
    return x.grad


def autocasted(x, y):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ y.t()


def looped(x, y):
    for i in range(3):
        x = x + y * i if i % 2 else x.relu() - 1
    return x


@torch.no_grad()
def no_gradients(x, y):
    return x * y, torch.is_grad_enabled()


def written(x, y):
    z = x * 2
    z += 1
    z.add_(y)
    z[0] = 3
    z.mul_(2)
    return z


def broken(x, y):
    x = x * 2
    torch._dynamo.graph_break()
    return x + y


@pytest.fixture(autouse=True)
def nothing_logged():
    LOG.clear()


def arguments(cls: type, requires_grad: bool) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    plain = (torch.randn(3, 4, requires_grad=requires_grad) for _ in range(2))
    return tuple(tensor.detach().as_subclass(cls).requires_grad_(requires_grad) for tensor in plain)


def described(value: Any) -> Any:
    with torch._C.DisableTorchFunctionSubclass():
        if isinstance(value, torch.Tensor):
            return type(value), value.requires_grad, value.is_leaf, tuple(value.shape), value.detach().tolist()
    if isinstance(value, dict):
        return {key: described(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value), [described(item) for item in value]
    return value


def first_tensor(value: Any) -> torch.Tensor | None:
    with torch._C.DisableTorchFunctionSubclass():
        if isinstance(value, torch.Tensor):
            return value if value.requires_grad else None
    items = value.values() if isinstance(value, dict) else value if isinstance(value, (tuple, list)) else ()
    return next((found for item in items if (found := first_tensor(item)) is not None), None)


def outcome(program: Callable[..., Any], given: tuple[torch.Tensor, ...]) -> Any:
    LOG.clear()
    try:
        result = program(*given)
    except Exception as error:
        return type(error), str(error), list(LOG)
    seen = list(LOG)
    gradients = None
    if (loss := first_tensor(result)) is not None and all(getattr(x, "requires_grad", False) for x in given):
        with torch._C.DisableTorchFunctionSubclass():
            found = torch.autograd.grad(loss.sum(), given, allow_unused=True)
        # A tensor that the loss does not depend on has no gradient; through a compiled graph, a gradient of zeros.
        gradients = [described(g if g is not None else torch.zeros(x.shape)) for g, x in zip(found, given, strict=True)]
    return described(result), seen, gradients


WAYS = list(itertools.product(["eager", "aot_eager"], [False, True]))


@pytest.mark.parametrize(
    "name, cls, backend, requires_grad",
    [
        (name, cls, *way)
        for i, name in enumerate(PROGRAMS)
        for j, cls in enumerate(CLASSES)
        for way in every(2, WAYS, i + j)
    ],
)
def test_as_uncompiled(name: str, cls: type, requires_grad: bool, backend: str) -> None:
    program = PROGRAMS[name]
    expected = outcome(program, arguments(cls, requires_grad))
    compiled = stator.compile(program, backend=backend)
    for _ in range(3):
        assert outcome(compiled, arguments(cls, requires_grad)) == expected


WHOLE = [
    "operators",
    "on the right",
    "beside a plain tensor",
    "comparisons",
    "methods",
    "functions",
    "of nn.functional",
]
WHOLE += ["attributes", "items", "views", "several results", "classes", "matrix", "where", "written to what is new"]


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", WHOLE)
def test_in_one_graph(name: str, cls: type) -> None:
    with stator.watch() as report:
        stator.compile(PROGRAMS[name], backend="eager", fullgraph=True)(*arguments(cls, False))
    assert len(report.breaks) == 0


def test_the_class_is_guarded() -> None:
    compiled = stator.compile(PROGRAMS["operators"], backend="eager")
    for cls in [*CLASSES, torch.Tensor, *CLASSES]:
        given = arguments(cls, False) if cls is not torch.Tensor else tuple(torch.randn(3, 4) for _ in range(2))
        assert described(compiled(*given)) == described(PROGRAMS["operators"](*given))


def test_another_torch_function_later() -> None:
    class Changing(torch.Tensor):
        pass

    def program(x):
        return x + 1

    compiled = stator.compile(program, backend="eager")
    x = torch.ones(2).as_subclass(Changing)
    assert described(compiled(x)) == described(program(x))
    Changing.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: "changed")
    assert compiled(x) == program(x) == "changed"
    Changing.__torch_function__ = torch._C._disabled_torch_function_impl
    assert described(compiled(x)) == described(program(x))
    assert type(compiled(x)) is torch.Tensor


def test_attributes_and_methods_of_the_class() -> None:
    def program(x):
        doubled = x.scaled(2)
        doubled.offset = x.offset + 1
        return doubled, x.area, x.unit, doubled.offset, x @ x.t(), hasattr(x, "missing"), vars(x)["offset"]

    compiled = stator.compile(program, backend="eager")
    for offset in (1, 1, 5):
        x = WithState.make(torch.ones(2, 3), offset)
        found, expected = compiled(x), program(x)
        assert described(found) == described(expected)
        assert found[0].offset == expected[0].offset


def test_made_inside() -> None:
    def program(data, offset):
        x = WithState.make(data * 2, offset)
        return x.scaled(3), x

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    found, expected = compiled(torch.ones(2, 3), 4), program(torch.ones(2, 3), 4)
    assert described(found) == described(expected)
    assert found[1].offset == 4
    assert type(found[1]) is WithState


class Typed(nn.Parameter):
    """As in libraries that mark the contents of their parameters."""

    def __new__(cls, data, kind=None):
        made = torch.Tensor._make_subclass(cls, data if data is not None else torch.empty(0), False)
        made.kind = kind
        return made

    def as_tensor(self):
        return torch.Tensor._make_subclass(torch.Tensor, self, self.requires_grad)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        kind = next((arg.kind for arg in args if isinstance(arg, cls)), None)
        return cls(result, kind=kind) if isinstance(result, torch.Tensor) else result


def test_parameters_with_a_mark() -> None:
    def program(x):
        doubled = x * 2
        doubled = doubled + doubled.kind
        return doubled, doubled.kind, doubled.as_tensor() * 3

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for kind in (42, 42, 7):
        x = Typed(torch.ones(2), kind=kind)
        found, expected = compiled(x), program(x)
        assert described(found) == described(expected)
        assert found[0].kind == expected[0].kind == kind


def test_made_by_the_class() -> None:
    class Made(torch.Tensor):
        def __init__(self, data, note="none"):
            self.note = note

    def program(x):
        return Named(x + 1) * 2, Named(x), Named(x).sum(), Made(x)

    compiled = stator.compile(program, backend="eager")
    for requires_grad in (False, False, True):
        x = torch.ones(3, requires_grad=requires_grad)
        found, expected = compiled(x), program(x)
        assert described(found) == described(expected)
        assert found[3].note == "none"
        if requires_grad:
            assert torch.equal(*(torch.autograd.grad(one[0].sum(), x)[0] for one in (found, expected)))


def test_a_set_attribute_stays() -> None:
    def program(x):
        x.count = getattr(x, "count", 0) + 1
        return x * x.count

    x, y = (torch.ones(2).as_subclass(Named) for _ in range(2))
    compiled = stator.compile(program, backend="eager")
    for _ in range(4):
        assert described(compiled(x)) == described(program(y))
        assert x.count == y.count


def test_a_write_to_an_input() -> None:
    def program(x):
        x.mul_(2)
        x[0] = 7
        return x + 1

    for cls in CLASSES:
        x, y = (torch.ones(3).as_subclass(cls) for _ in range(2))
        compiled = stator.compile(program, backend="eager")
        for _ in range(3):
            assert described(compiled(x)) == described(program(y))
            assert described(x) == described(y)


def test_a_class_that_does_not_know_the_operation() -> None:
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    def program(x):
        try:
            return x.sin()
        except TypeError as error:
            return str(error)

    x = torch.ones(2).as_subclass(Refusing)
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(x) == program(x)


def test_it_raises() -> None:
    class Raising(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise KeyError(func.__name__)

    def program(x):
        try:
            return torch.add(x, 1)
        except KeyError as error:
            return error.args

    x = torch.ones(2).as_subclass(Raising)
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(x) == program(x) == ("add",)
    assert torch._C._is_torch_function_enabled()


def test_two_classes_meet() -> None:
    def program(x, y):
        return x + y, y + x, torch.cat([x, y])

    for one, other in [(Named, Logged), (Logged, Named), (Off, Named), (Doubling, Logged)]:
        x, y = torch.ones(2).as_subclass(one), torch.ones(2).as_subclass(other)
        compiled = stator.compile(program, backend="eager")
        expected = outcome(program, (x, y))
        for _ in range(2):
            assert outcome(compiled, (x, y)) == expected


def test_turned_off_around_the_call() -> None:
    def program(x):
        return x * 2

    compiled = stator.compile(program, backend="eager")
    x = torch.ones(2).as_subclass(Logged)
    for _ in range(2):
        assert outcome(compiled, (x,)) == outcome(program, (x,))
        with torch._C.DisableTorchFunctionSubclass():
            assert type(compiled(x)) is type(program(x)) is torch.Tensor
    assert torch._C._is_torch_function_enabled()


def test_turned_off_by_the_program() -> None:
    def program(x):
        with torch._C.DisableTorchFunctionSubclass():
            y = x * 2
        return y, x * 3

    for cls in CLASSES:
        x = torch.ones(2).as_subclass(cls)
        compiled = stator.compile(program, backend="eager")
        for _ in range(3):
            assert outcome(compiled, (x,)) == outcome(program, (x,))
    assert torch._C._is_torch_function_enabled()


class Special(nn.Parameter):
    pass


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = Special(torch.randn(4, 4))
        self.linear = nn.Linear(4, 4)
        self.linear.weight = Special(torch.randn(4, 4))
        self.norm = nn.LayerNorm(4)
        self.norm.weight = Special(torch.randn(4))
        self.recurrent = nn.GRU(4, 4)
        self.attention = nn.MultiheadAttention(4, 2)
        self.embedding = nn.Embedding(5, 4)

    def forward(self, x, y):
        sequence, _ = self.recurrent(x[None])
        attended, _ = self.attention(sequence, sequence, sequence)
        added = F.linear(x, self.weight) + self.linear(y) + self.norm(x) + attended[0]
        kinds = isinstance(self.weight, nn.Parameter), type(self.weight).__name__
        return added + self.embedding(torch.tensor([0, 1, 2])), kinds, sum(p.numel() for p in self.parameters())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize("cls", [Named, Logged, Off])
def test_modules_with_special_parameters(cls: type, registers: bool, backend: str) -> None:
    model = Layers()
    compiled = stator.compile(model, backend=backend, options={"register_attributes": registers})
    given = arguments(cls, True)
    expected = outcome(model, given)
    for _ in range(2):
        found = outcome(compiled, given)
        assert str(found[:2]) == str(expected[:2])
        for one, other in zip(found[2], expected[2], strict=True):
            assert torch.allclose(torch.tensor(one[-1]), torch.tensor(other[-1]))


def test_parameters_and_buffers_of_a_module() -> None:
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)
            self.register_buffer("scale", torch.full((4,), 2.0).as_subclass(Named))

        def forward(self, x):
            return self.linear(x) * self.scale

    torch.manual_seed(0)
    model = Scale()
    compiled = stator.compile(model, backend="aot_eager")
    x = torch.randn(2, 4)
    for _ in range(2):
        found, expected = compiled(x), model(x)
        assert type(found) is type(expected) is Named
        assert torch.equal(found.as_subclass(torch.Tensor), expected.as_subclass(torch.Tensor))
        found.sum().backward()
        gradient, model.linear.weight.grad = model.linear.weight.grad, None
        expected.sum().backward()
        assert torch.equal(gradient, model.linear.weight.grad)
        model.linear.weight.grad = None


def asked(x):
    return has_torch_function_unary(x), has_torch_function_variadic(1, x), has_torch_function((x,))


def test_whether_a_class_is_asked_is_guarded() -> None:
    compiled = stator.compile(asked, backend="eager")
    values = [torch.ones(2).as_subclass(cls) for cls in CLASSES]
    for value in [*values, 4, torch.ones(2), [*values], [torch.ones(2)], *values, None]:
        assert compiled(value) == asked(value)


def test_lists_from_outside() -> None:
    def program(tensors):
        return torch.cat(tensors), torch.stack(tensors) * 2

    compiled = stator.compile(program, backend="eager")
    for cls in [*CLASSES, *CLASSES]:
        tensors = [torch.ones(2).as_subclass(cls), torch.zeros(2)]
        assert outcome(compiled, (tensors,)) == outcome(program, (tensors,))
        assert outcome(compiled, (tensors[1:],)) == outcome(program, (tensors[1:],))


def test_one_that_dispatches_is_left_alone() -> None:
    class Dispatching(torch.Tensor):
        @staticmethod
        def __new__(cls, data):
            return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype)

        def __init__(self, data):
            self.data_inside = data

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.data_inside if isinstance(a, cls) else a for a in args]
            return cls(func(*plain, **(kwargs or {})))

    def program(x):
        return x * 2 + 1

    x = Dispatching(torch.ones(3))
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(x).data_inside, program(x).data_inside)


HANDLED = {torch.stack: lambda tensors: Holder(sum(one.held for one in tensors))}


class Holder:
    """No tensor, but with a `__torch_function__`."""

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in HANDLED:
            return HANDLED[func](*args)
        plain = [one.held if isinstance(one, cls) else one for one in args]
        return func(*plain, **(kwargs or {}))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.add(Holder(x), 1.0, alpha=2.0),
        lambda x: torch.stack([Holder(x), Holder(x + 1)]).held,
        lambda x: x * Holder(x),
        lambda x: torch.nn.functional.relu(Holder(x - 1)),
    ],
)
def test_objects_that_are_no_tensors(program: Callable[..., Any]) -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for x in (torch.arange(3.0), torch.ones(3)):
        assert torch.equal(compiled(x), program(x))


def test_functions_as_keys() -> None:
    """Builtin functions of PyTorch are keys of a dict, which changes."""
    table = {torch.add: 2}
    program = lambda x: (x * table.get(torch.add, 5), torch.sin in table, table.get(torch.Tensor.add))  # noqa: E731
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for change in ({}, {torch.sin: 1}, {torch.add: 3}, {torch.Tensor.add: 4}):
        table.update(change)
        got, expected = compiled(torch.ones(2)), program(torch.ones(2))
        assert torch.equal(got[0], expected[0]) and got[1:] == expected[1:]


@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: torch.add(other=y, input=x),
        lambda x, y: torch.add(torch.ones(3, 4), y) + x,
        lambda x, y: torch.cat([y, x]),
        lambda x, y: y - x,
    ],
)
def test_a_plain_method_is_called_with_the_first_operand(program):
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for names in (("b", "c"), ("b", "c"), ("d", "c")):
        outcomes = []
        for run in (program, compiled):
            x, y = arguments(Method, requires_grad=False)
            x.label, y.label = names
            result = run(x, y)
            outcomes.append((described(result), result.label))
        assert outcomes[0] == outcomes[1]


def test_pytorch_warns_of_a_plain_method():
    """Once in a process, compiled or not."""
    run = fresh(
        """
        import warnings, torch, stator
        class Method(torch.Tensor):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                with torch._C.DisableTorchFunctionSubclass():
                    return func(*args, **(kwargs or {}))
        with warnings.catch_warnings(record=True) as issued:
            warnings.simplefilter("always")
            for _ in range(2):
                stator.compile(lambda x: x + 1, backend="eager", fullgraph=True)(torch.ones(2).as_subclass(Method))
        print(["plain method" in str(one.message) for one in issued])
        """
    )
    assert run == "[True]"
