"""All user code that runs while Stator is on the stack may call back into Stator, without an effect on the results."""

import abc
import functools
import itertools
import weakref

import pytest
import torch
import torch.nn as nn
from torch.utils._python_dispatch import TorchDispatchMode

from tests.support.callouts import ACTIONS, QUIET, check, poke, scaled
from tests.support.engine import ENGINE

pytestmark = [
    pytest.mark.skipif(ENGINE != "stator", reason="about Stator's own state"),
    pytest.mark.usefixtures("callouts_end"),
]


numbers = itertools.count()


def new_operator(on_fake=None, on_real=None):
    """A custom operator. Each is a new one, so that no answer is cached for it."""

    def real(x: torch.Tensor) -> torch.Tensor:
        if on_real is not None:
            on_real()
        return x + 1

    def fake(x):
        if on_fake is not None:
            on_fake()
        return torch.empty_like(x)

    operator = torch.library.custom_op(f"stator_reentrancy::operator{next(numbers)}", real, mutates_args=())
    operator.register_fake(fake)
    return operator


def fake_implementation():
    operator = new_operator(on_fake=poke)

    def program(x, n):
        return operator(scaled(x) + n) * 2

    return program


def fake_implementation_in_inlined_call():
    operator = new_operator(on_fake=poke)

    def inner(x, keep):
        keep.append(operator(x))
        return keep[0] * 3

    def program(x, n):
        kept = []
        y = inner(scaled(x), kept)
        return y + kept[0] + n

    return program


def real_implementation():
    operator = new_operator(on_real=poke)

    def program(x, n):
        y = operator(scaled(x))
        return operator(y * n) + y

    return program


class Poking(abc.ABC):  # noqa: B024
    @classmethod
    def __subclasshook__(cls, other):
        poke()
        return NotImplemented


def subclass_hook():
    # Its result is cached until a class is registered with any abstract base class.
    class Unrelated(abc.ABC):  # noqa: B024
        pass

    class Fresh(Poking):
        pass

    def program(x, n):
        y = scaled(x)
        Unrelated.register(type("Registered", (), {}))
        if isinstance(n, Fresh):
            y = y + 1
        return y * n

    return program


def subclass_hook_in_guards():
    class Unrelated(abc.ABC):  # noqa: B024
        pass

    class Fresh(Poking):
        pass

    def asked(x, n):
        return scaled(x) + 1 if isinstance(n, Fresh) else scaled(x) * n

    def program(x, n):
        y = asked(x, n)
        return y + 1

    def register():
        Unrelated.register(type("Registered", (), {}))

    program.before = register
    return program


class AskingType(type):
    def __instancecheck__(cls, instance):
        poke()
        return False


class Asking(metaclass=AskingType):
    pass


def instance_check():
    def program(x, n):
        y = scaled(x)
        return y + 1 if isinstance(n, Asking) else y * n

    return program


class Wrapped(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        poke()
        return super().__torch_function__(function, types, args, kwargs or {})


def torch_function():
    def program(x, n):
        y = x.as_subclass(Wrapped) + n
        return (scaled(x) + y.as_subclass(torch.Tensor)) * 2

    return program


class Key:
    def __init__(self, text):
        self.text = text

    def __hash__(self):
        poke()
        return hash(self.text)

    def __eq__(self, other):
        poke()
        return other == self.text or (isinstance(other, Key) and other.text == self.text)


def key_with_methods():
    table = {Key("a"): 2}

    def program(x, n):
        y = scaled(x)
        return y * table[Key("a")] + n

    return program


class Holder:
    pass


def key_beside_names():
    """Looking a name up calls `__eq__` of another key with the same hash, also in guards."""
    holder = Holder()
    holder.__dict__[Key("factor")] = 3
    holder.__dict__["other"] = 1

    def program(x, n):
        return scaled(x) * holder.factor + n * holder.other

    return program


def cached_function():
    @functools.lru_cache(maxsize=2)
    def cached(n):
        poke()
        return n + 1

    def program(x, n):
        return scaled(x) * cached(n)

    return program


def disabled_function():
    def program(x, n):
        y = scaled(x) + n
        poke()
        z = y * 2
        poke()
        return z + y

    return program


def sorting_key():
    def key(item):
        poke()
        return -item

    def program(x, n):
        y = scaled(x)
        order = sorted([1, n, 2], key=key)
        return y * order[0] + order[-1]

    return program


def generator():
    def items(n):
        for i in range(n):
            poke()
            yield i

    def program(x, n):
        y = scaled(x)
        for i in items(n):
            y = y + i
        return y

    return program


class Finalized:
    def __init__(self, value):
        self.value = value

    def __del__(self):
        poke()


def replaced_value():
    """The plan drops the replaced object."""
    holder = Holder()
    holder.last = None

    def program(x, n):
        y = scaled(x) + n
        holder.last = Finalized(n)
        holder.kept = y
        return holder.kept * 2

    return program


def removed_items():
    items = []

    def before():
        items[:] = [Finalized(1), Finalized(2), torch.ones(2)]

    def program(x, n):
        y = scaled(x) + items[2]
        items.clear()
        items.append(y)
        return items[0] * n

    program.before = before
    return program


def weak_reference_callback():
    holder = Holder()
    references = []

    def before():
        holder.value = Holder()
        references[:] = [weakref.ref(holder.value, lambda _: poke())]

    def program(x, n):
        y = scaled(x) + n
        holder.value = y
        return y * 2

    program.before = before
    return program


class WithSetter:
    def __setattr__(self, name, value):
        poke()
        object.__setattr__(self, name, value)

    def __getattr__(self, name):
        poke()
        return 3


def attribute_methods():
    holder = WithSetter()

    def program(x, n):
        holder.last = scaled(x) * holder.missing
        return holder.last + n

    return program


def module_hook():
    class Hooked(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_forward_hook(lambda module, args, output: poke())
            self.register_forward_pre_hook(lambda module, args: poke())

        def forward(self, x, n):
            return scaled(x) + n

    hooked = Hooked()

    def program(x, n):
        return hooked(x, n) * 2

    return program


def lazy_module():
    def program(x, n):
        class Lazy(nn.LazyLinear):
            def initialize_parameters(self, input):
                super().initialize_parameters(input)
                poke()
                nn.init.ones_(self.weight)
                nn.init.zeros_(self.bias)

        if program.lazy is None:
            program.lazy = Lazy(2)
        return program.lazy(scaled(x)) + n

    program.lazy = None

    def before():
        program.lazy = None

    program.before = before
    return program


def tensor_hook():
    # Hooks run without gradients being recorded.
    @torch.enable_grad()
    def program(x, n):
        leaf = x.clone().requires_grad_()
        y = scaled(leaf) * n
        y.register_hook(lambda gradient: poke())
        y.sum().backward()
        return leaf.grad + y.detach()

    return program


def backward_hook_behind_a_graph():
    def program(x, n):
        return scaled(x) * n

    @torch.enable_grad()
    def train(x, n):
        leaf = x.clone().requires_grad_()
        leaf.register_hook(lambda gradient: poke())
        program(leaf, n).sum().backward()
        return leaf.grad

    return train


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        poke()
        return function(*args, **(kwargs or {}))


def dispatch_mode():
    def program(x, n):
        y = scaled(x)
        with Watching():
            y = y + n
        return y * 2

    return program


def exceptions():
    class Raised(Exception):
        def __init__(self):
            super().__init__()
            poke()

        def __del__(self):
            poke()

    def program(x, n):
        y = scaled(x)
        try:
            poke()
            if n > 0:
                raise Raised
        except Raised:
            y = y + n
        return y * 2

    return program


def context_manager():
    class Managed:
        def __enter__(self):
            poke()
            return 2

        def __exit__(self, *error):
            poke()

    def program(x, n):
        with Managed() as factor:
            y = scaled(x) * factor
            poke()
        return y + n

    return program


SITUATIONS = [
    fake_implementation,
    fake_implementation_in_inlined_call,
    real_implementation,
    subclass_hook,
    subclass_hook_in_guards,
    instance_check,
    torch_function,
    key_with_methods,
    key_beside_names,
    cached_function,
    disabled_function,
    sorting_key,
    generator,
    replaced_value,
    removed_items,
    weak_reference_callback,
    attribute_methods,
    module_hook,
    lazy_module,
    tensor_hook,
    backward_hook_behind_a_graph,
    dispatch_mode,
    exceptions,
    context_manager,
]


WITH_STATE = [subclass_hook_in_guards, replaced_value, removed_items, weak_reference_callback, lazy_module]


@pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.__name__)
def test_callout(situation, action):
    if situation in WITH_STATE and action not in QUIET:
        pytest.skip("a call in the middle changes what the outer one works on")
    assert check(situation, action) > 0
