"""Functions that are called uncompiled instead of inlined, because they would break the graph at every line."""

import textwrap
import warnings

import pytest
import torch

import stator
from tests.support.counting import counted_calls
from tests.support.engine import CAPTURES
from tests.support.harness import Source, T, same
from tests.support.worlds import World

PROGRAMS = {
    "numpy": (
        """
        import numpy as np

        def spans(shape, length):
            rows, size = shape
            def count(scale):
                return int(np.floor(size / length * scale))
            mask = np.zeros(shape, dtype=bool)
            for row in range(rows):
                starts = np.arange(count(0.5)) * length
                starts = np.broadcast_to(starts[:, None], (len(starts), length)) + np.arange(length)[None]
                np.put_along_axis(mask[row], starts.reshape(-1), True, -1)
            return mask.tolist()

        def f(x):
            x = x * 2
            mask = spans((2, 6), 2)
            return torch.where(torch.tensor(mask), x, -x)
        """,
        1,
    ),
    "random_numbers": (
        """
        def f(x):
            chosen = random.sample(range(100), 5)
            return x * 2 + sum(chosen) + random.randint(1, 6)
        """,
        2,
    ),
    "with_an_effect": (
        """
        import zlib
        SEEN = []

        def sign(text):
            SEEN.append(zlib.crc32(text))
            SEEN.append(zlib.adler32(text))
            return SEEN[-1] % 7

        def f(x):
            y = x + sign(b"one")
            return y * sign(b"two")
        """,
        2,
    ),
    "raises": (
        """
        import zlib

        def checked(text):
            zlib.crc32(b"")
            raise ValueError(text)

        def f(x):
            try:
                checked("no")
            except ValueError as error:
                return x + len(error.args)
        """,
        2,
    ),
    "sees_a_tensor": (
        """
        import zlib

        def both(t, text):
            zlib.crc32(text)
            return t * 2 + zlib.adler32(text) % 5

        def f(x):
            return both(x + 1, b"abc") - 1
        """,
        2,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_whole(name: str) -> None:
    program, most = PROGRAMS[name]
    source = Source(textwrap.dedent(program))
    same(source, T(2, 6, grad=True), fullgraph=False, calls=3)
    if not CAPTURES:
        return
    world = World(source, (T(2, 6),), {}, seed=1)
    stator.reset()
    with stator.watch() as report:
        stator.compile(world.program)(*world.args)
    assert len(report.breaks) <= most, report


TRANSFORMED = {
    "vmap": "torch.vmap(lambda a, b: a * b + a.sum())(x, x + 1)",
    "vmap_of_a_method": "torch.func.vmap(torch.Tensor.sin, in_dims=1)(x)",
    "grad": "torch.func.grad(lambda a: (a * a).sum())(x)",
    "jvp": "torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))",
    "jacrev": "torch.func.jacrev(lambda a: a.sum(0) ** 2)(x)",
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms(name: str) -> None:
    """PyTorch's operations on wrapped tensors run uncompiled: at most creating the function and calling it break the graph."""
    source = Source(f"def f(x):\n    x = x * 2\n    y = {TRANSFORMED[name]}\n    return x + 1, y\n")
    same(source, T(2, 3), fullgraph=False, calls=3)
    if not CAPTURES:
        return
    world = World(source, (T(2, 3),), {}, seed=1)
    stator.reset()
    with stator.watch() as report:
        stator.compile(world.program)(*world.args)
    assert len(report.breaks) <= 2, report


def test_fails_only_where_it_is_compiled() -> None:
    """A program that skips something if `is_compiling()`, and then fails without it: it runs uncompiled."""
    program = """
    def f(x, mask=None):
        if mask is None and not torch.compiler.is_compiling():
            mask = torch.ones(x.shape)
        x = x + mask.shape[0]
        return x * 2
    """
    same(Source(textwrap.dedent(program)), T(2, 3), fullgraph=False)


def test_what_is_called_where_it_fails_only_compiled() -> None:
    """The parts of a model that does so are captured; a function of the library that asks for it is not."""
    text = """
    class Part(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)
        def forward(self, x):
            return torch.relu(self.linear(x))

    def is_compiled():
        return torch.compiler.is_compiling()

    def named(name):
        return name * 2

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Part(), Part()
        def forward(self, x, mask=None):
            y = self.first(x)
            names = [named(str(number)) for number in range(20)]
            if mask is None and not is_compiled():
                mask = torch.ones(3)
            y = y * mask[None, :]
            return self.second(y), names

    model = Model()
    def f(x):
        return model(x)
    """
    same(Source(textwrap.dedent(text)), T(2, 3), fullgraph=False)
    names: dict = {"torch": torch}
    exec(textwrap.dedent(text), names)
    compiled, x = stator.compile(names["model"], backend="eager"), torch.ones(2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = counted_calls(compiled, lambda: (x,), calls=2)
    assert first.operations == second.operations == 4 and second.captures == 0


def test_fails_compiled_or_not() -> None:
    program = """
    def f(x):
        scale = 2 if torch.compiler.is_compiling() else 3
        if x.shape[0] == 2:
            raise ValueError(f"{tuple(x.shape)} is too small")
        return x * scale
    """
    same(Source(textwrap.dedent(program)), T(2, 3), fullgraph=False)
    same(Source(textwrap.dedent(program)), T(2, 3), compare_dynamo=False)


def test_legacy_variables() -> None:
    """`Variable(tensor)` is another tensor with the same data, without a gradient."""
    program = """
    index = torch.tensor([2, 0])

    def f(x):
        y = torch.autograd.Variable(x * 2)
        z = torch.autograd.Variable(index)
        return torch.index_select(x, 1, z) * y.sum(), y, isinstance(y, torch.autograd.Variable), y.requires_grad
    """
    same(Source(textwrap.dedent(program)), T(2, 3, grad=True), compare_dynamo=False)


@pytest.mark.parametrize("name", ["FloatTensor", "LongTensor", "DoubleTensor", "Tensor"])
def test_legacy_classes(name: str) -> None:
    program = f"def f(x):\n    y = x * 2\n    return y + 1 if isinstance(y, torch.{name}) else y - 1\n"
    same(Source(program), T(2, 3), fullgraph=False)
    same(Source(program), T(2, 3, dtype=torch.int64), fullgraph=False)


NEEDS_DATA = """
    @torch.library.custom_op("stator_tests::by_parts", mutates_args=())
    def by_parts(x: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        return torch.cat([part * (i + 1) for i, part in enumerate(x.split(counts.tolist()))])

    @by_parts.register_fake
    def _(x, counts):
        return torch.empty_like(x)

    def backward(ctx, gradient):
        (counts,) = ctx.saved_tensors
        parts = [part * (i + 1) for i, part in enumerate(gradient.split([int(one) for one in counts]))]
        return torch.cat(parts), None

    by_parts.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[1]))

    def f(x):
        return by_parts(x * 2, torch.tensor([1, 3])) + 1
"""


def test_backend_that_needs_data() -> None:
    """If a backend needs the data of tensors, the graph runs as captured; with fullgraph=True the error is raised."""
    namespace = {"torch": torch}
    exec(textwrap.dedent(NEEDS_DATA), namespace)
    program = namespace["f"]
    for fullgraph in (False, True):
        given, other = (torch.arange(8.0).reshape(4, 2).requires_grad_() for _ in range(2))
        stator.reset()
        compiled = stator.compile(program, backend="aot_eager", fullgraph=fullgraph)
        if fullgraph:
            with pytest.raises(stator.BackendCompilerFailed):
                compiled(given)
            continue
        program(other).sum().backward()
        compiled(given).sum().backward()
        torch.testing.assert_close(compiled(given), program(given))
        torch.testing.assert_close(given.grad, other.grad)
