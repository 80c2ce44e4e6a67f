"""Hooks, `Function.backward` and checkpointed functions that read values which may change before they run: the graph
breaks, and `fullgraph=True` raises with the line, the reason and the remedy. Values that can't change are read in one
graph."""

import enum
import functools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator
from tests.support.engine import captured_graphs
from tests.support.scenarios import same_scenario

FACTOR = 2.0
CONFIG = {"factor": 2.0}
ITEMS = [2.0]
again = functools.partial(checkpoint, use_reentrant=False)


class Mode(enum.Enum):
    FAST = 3.0


class Flag(enum.IntEnum):
    ON = 2


class Settings:
    factor = 2.0

    @staticmethod
    def twice(g):
        return g * 2


def helper(g, by=4.0):
    return torch.nn.functional.relu(g) * by


HALF = functools.partial(helper, by=0.5)


class Holder:
    def __init__(self, value):
        self.value = value


class Reads(torch.autograd.Function):
    """Its backward calls the function that it is given."""

    @staticmethod
    def forward(ctx, x, read, given):
        ctx.read = read
        ctx.given = given
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ctx.read(g, ctx.given) * x, None, None


def reads_argument(g, given):
    return g * given["factor"]


# --- what the program has from outside -------------------------------------------------------------------------------


def hook(x):
    y = x * 2
    y.register_hook(lambda g: g * FACTOR)
    return y * y


def function(x):
    return Reads.apply(x, lambda g, given: g * FACTOR, None) * x


def item_of_the_context(x):
    return Reads.apply(x, reads_argument, CONFIG) * x


def checkpointed(x):
    return again(lambda y: (y * FACTOR).sin(), x) * 2


def of_a_class(x):
    return Reads.apply(x, lambda g, given: g * Settings.factor, None)


def line_of(f, text: str) -> int:
    with open(__file__) as file:
        lines = file.read().split("\n")
    start = f.__code__.co_firstlineno
    return next(number for number in range(start, start + 10) if text in lines[number - 1])


@pytest.mark.parametrize(
    ("f", "read", "text"),
    [
        (hook, "global variable 'FACTOR'", "FACTOR"),
        (function, "global variable 'FACTOR'", "FACTOR"),
        (checkpointed, "global variable 'FACTOR'", "FACTOR"),
        (of_a_class, "attribute 'factor' of", "Settings"),
    ],
)
def test_fullgraph_raises(f, read: str, text: str) -> None:
    with pytest.raises(stator.Unsupported) as caught:
        stator.compile(f, backend="aot_eager", fullgraph=True)(torch.ones(3, requires_grad=True))
    message = str(caught.value)
    assert read in message and "[read-in-backward]" in message
    assert f"({__file__}:{line_of(f, text)})" in message, "where it is read"
    assert f"at {__file__}" in message and "pass the value on" in message
    stator.reset()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", [hook, function, item_of_the_context, checkpointed, of_a_class])
def test_read_when_it_runs(f, backend: str) -> None:
    def scenario(compile, note):
        global FACTOR
        f_ = compile(f)
        for later in (2.0, 5.0, 7.0):
            FACTOR = CONFIG["factor"] = Settings.factor = 2.0
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            result = note(f_, x)
            FACTOR = CONFIG["factor"] = Settings.factor = later
            note.gradients(result, x)
        FACTOR = CONFIG["factor"] = Settings.factor = 2.0

    same_scenario(scenario, backend)


# --- what the trace has made, and the program changes afterwards -----------------------------------------------------


def dict_changed_behind(x):
    given = {"factor": 2.0}
    y = Reads.apply(x, reads_argument, given)
    given["factor"] = 5.0
    return y


def dict_given_back(x):
    given = {"factor": 2.0}
    return Reads.apply(x, reads_argument, given), given


def list_changed_behind(x):
    given = [2.0, 3.0]
    y = Reads.apply(x, lambda g, given: g * sum(given), given)
    given.append(4.0)
    return y


def object_changed_behind(x):
    given = Holder(2.0)
    y = Reads.apply(x, lambda g, given: g * given.value, given)
    given.value = 4.0
    return y


def changed_by_another_name(x):
    given = {"factor": 2.0}
    other = [given]
    y = Reads.apply(x, reads_argument, given)
    other[0]["factor"] = 4.0
    return y


def changed_in_a_loop(x):
    given = {"factor": 2.0}
    for number in range(3):
        given["factor"] = number + 1.0
        x = Reads.apply(x, reads_argument, given)
    return x


def changed_by_the_caller(x):
    given = {"factor": 2.0}
    y = applies(x, given)
    given["factor"] = 4.0
    return y


def applies(x, given):
    return Reads.apply(x, reads_argument, given)


def kept_outside(x):
    given = CONFIG["kept"] = {"factor": 2.0}
    return Reads.apply(x, reads_argument, given)


def list_of_a_partial(x):
    y = x * 2
    hook = functools.partial(lambda g, by: g * by[0], by=[3.0])
    y.register_hook(hook)
    hook.keywords["by"][0] = 5.0
    return y * y


def list_of_a_partial_from_outside(x):
    y = x * 2
    y.register_hook(functools.partial(lambda g, by: g * by[0], by=ITEMS))
    ITEMS[0] += 1.0
    return y * y


def list_as_a_default(x):
    y = x * 2
    by = [3.0]
    y.register_hook(lambda g, by=by: g * by[0])
    by[0] = 7.0
    return y * y


def variable_assigned_behind(x):
    factor = 2.0
    y = again(lambda y: (y * factor).sin(), x)
    factor = 5.0
    return y * factor


def variable_of_a_hook_assigned_behind(x):
    factor, y = 2.0, x * 2
    y.register_hook(lambda g: g * factor)
    factor = 5.0
    return y * y


def variable_of_a_loop(x):
    for number in range(3):
        y = x * 2
        y.register_hook(lambda g: g + number)
        x = y * y
    return x


def variable_assigned_by_another_function(x):
    factor = 2.0

    def assign():
        nonlocal factor
        factor = 7.0

    y = again(lambda y: (y * factor).sin(), x)
    assign()
    return y


CHANGED = [
    dict_changed_behind,
    dict_given_back,
    list_changed_behind,
    object_changed_behind,
    changed_by_another_name,
    changed_in_a_loop,
    changed_by_the_caller,
    kept_outside,
    list_of_a_partial,
    list_of_a_partial_from_outside,
    list_as_a_default,
    variable_assigned_behind,
    variable_of_a_hook_assigned_behind,
    variable_of_a_loop,
    variable_assigned_by_another_function,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", CHANGED)
def test_changed_after_it_was_made(f, backend: str) -> None:
    def scenario(compile, note):
        ITEMS[0] = 2.0
        compiled = compile(f)
        for _ in range(3):
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            result = compiled(x)
            if isinstance(result, tuple):
                result, given = result
                given["factor"] = 9.0
            CONFIG.get("kept", {})["factor"] = 11.0
            note.gradients(result, x)
            CONFIG.pop("kept", None)

    same_scenario(scenario, backend)


# --- one graph -------------------------------------------------------------------------------------------------------


def local_variable(x):
    factor = FACTOR
    y = x * 2
    y.register_hook(lambda g: g * factor)
    return again(lambda z: (z * factor).sin(), y)


def parameter(x, factor=3.0):
    y = x * 2
    y.register_hook(lambda g: g * factor)
    return y * y


def code(x):
    y = Reads.apply(x, lambda g, given: helper(Settings.twice(g)) + HALF(g), None)
    return again(HALF, y)


def enum_members(x):
    return Reads.apply(x, lambda g, given: g * Mode.FAST.value * Flag.ON if given is Mode.FAST else g, Mode.FAST)


def containers_of_the_context(x):
    sizes = [float(size) for size in x.shape]
    return Reads.apply(x, lambda g, given: g * given["sizes"][0] + len(given["sizes"]), {"sizes": sizes})


def container_nobody_reads_again(x):
    given = {"factor": 2.0}
    y = Reads.apply(x, reads_argument, given)
    return y * 2


def containers_of_backward(x):
    def read(g, given):
        parts, total = [], 0.0
        for number in range(3):
            parts.append(g * number)
            total += number
        return sum(parts) * total + [total for _ in range(2)][0]

    return Reads.apply(x, read, None)


def checkpoint_in_a_checkpoint(x):
    return again(lambda y: again(helper, y).sin(), x)


ONE_GRAPH = [
    local_variable,
    parameter,
    code,
    enum_members,
    containers_of_the_context,
    container_nobody_reads_again,
    containers_of_backward,
    checkpoint_in_a_checkpoint,
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("f", ONE_GRAPH)
def test_one_graph(f, backend: str) -> None:
    def gradient(program):
        x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        program(x).sum().backward()
        return x.grad

    compiled = stator.compile(f, backend=backend, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(gradient(compiled), gradient(f))
    assert len(captured_graphs(f, torch.ones(3, requires_grad=True))) == 1
    stator.reset()
