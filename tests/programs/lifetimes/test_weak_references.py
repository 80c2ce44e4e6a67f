"""Weak references: calling one returns the object, or None."""

import weakref

import pytest
import torch

import stator
from tests.support.harness import Source, T, same

HEAD = """
import weakref
class Holder:
    def __init__(self, value): self.value = value
holder = Holder(3)
layer = nn.Linear(4, 4)
weight = torch.ones(4)
_to_holder, _to_layer, _to_weight = weakref.ref(holder), weakref.ref(layer), weakref.ref(weight)
"""

LINES = {
    "an object": "return x * _to_holder().value",
    "a module": "return _to_layer()(x), _to_layer() is layer",
    "a tensor": "return x + _to_weight(), _to_weight() is weight, _to_weight() is x",
    "gone or not": "return x * 2 if _to_holder() is None else x + _to_holder().value",
    "changed through": """
    _to_holder().value += 1
    return x * holder.value""",
}


@pytest.mark.parametrize("name", LINES)
def test_called(name):
    same(
        Source(f"{HEAD}\ndef f(x):\n    {LINES[name].strip()}\n"),
        T(2, 4),
        compare_dynamo=False,
        stateful=name == "changed through",
    )


def test_changes_between_calls():
    same(
        Source(f"{HEAD}\ndef f(x):\n    {LINES['gone or not']}\n"), T(2, 4), compare_dynamo=False,
        mutate=["holder.value = 9", "del holder", "holder = Holder(1); _to_holder = weakref.ref(holder)"],
    )  # fmt: skip


def test_made_inside_of_what_was_there():
    same(
        Source(f"""{HEAD}
kept = []
def f(x):
    r = weakref.ref(holder)
    kept.append(r)
    return x * r().value, r is weakref.ref(holder), r is _to_holder
"""),
        T(2, 4), compare_dynamo=False, mutate=["holder.value = 7", "holder = Holder(8)"],
    )  # fmt: skip


def test_a_hook_registered_inside():
    same(
        Source("""
log = []
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.hooked = False
    def forward(self, x):
        if not self.hooked:
            self.hooked = True
            self.layer.register_forward_hook(lambda m, a, o: log.append(tuple(o.shape)) or o * 2)
        return self.layer(x)
f = Model()
"""),
        T(2, 4), fullgraph=False, compare_dynamo=False, calls=3, stateful=True,
    )  # fmt: skip


def test_made_inside():
    same(
        Source("import weakref\nclass A: pass\ndef f(x):\n    a = A()\n    r = weakref.ref(a)\n    return x + 1, r() is a"),
        T(2, 4), fullgraph=False, compare_dynamo=False,
    )  # fmt: skip


def test_to_tensors():
    def program(x, y):
        to_input, doubled = weakref.ref(x), y * 2
        return to_input() + doubled, to_input() is x, weakref.ref(doubled), doubled

    same(program, T(2, 4), T(2, 4), compare_dynamo=False)


def test_to_a_result_that_is_dropped():
    def program(x):
        y = x * 2
        reference = weakref.ref(y)
        before = reference() is y
        del y
        return x + 1, before, reference() is None

    same(program, T(2, 4), fullgraph=False, compare_dynamo=False)


def test_one_plain_reference_for_each_object():
    def program(x):
        first, second = weakref.ref(x), weakref.ref(x)
        return x + 1, first is second, first == second, len({first, second})

    same(program, T(2, 4), fullgraph=False, compare_dynamo=False)


def test_with_a_callback():
    def program(x):
        called = []
        y = x * 2
        reference = weakref.ref(y, called.append)
        del y
        return x + 1, len(called), reference() is None

    same(program, T(2, 4), fullgraph=False, compare_dynamo=False)


def test_of_the_fake_mode_of_a_backend():
    """A graph module that is kept keeps the fake mode alive, which has weak references to inputs."""
    kept = []

    def backend(graph_module, inputs):
        kept.append(graph_module)
        return torch._dynamo.lookup_backend("aot_eager")(graph_module, inputs)

    @torch.compiler.disable
    def opaque(x):
        return x + 1

    @stator.compile(backend=backend)
    def program(x):
        x = opaque(x) * 2
        x = opaque(x) * 3
        return opaque(x) * 4

    for _ in range(2):
        assert torch.equal(program(torch.ones(2)), torch.full((2,), 64.0))
        assert len(kept) == 3
