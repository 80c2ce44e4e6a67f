"""A backward function that changes attributes and puts them back: what it puts back is read when the backward pass runs.
If it uses that value, or does not put it back, the graph breaks."""

import pytest
import torch

import stator
from tests.support.engine import CAPTURES
from tests.support.harness import Source
from tests.support.scenarios import same_scenario

PROGRAM = """
import contextlib, torch
class State:
    kind = "of the class"
    def __init__(self):
        self.flag, self.depth, self.options, self.seen = False, 0, {"level": 3}, []
    @property
    def level(self):
        return self.options
    @level.setter
    def level(self, value):
        self.seen.append(value)
        self.options = value
class Child(State):
    pass
STATE = State()
@contextlib.contextmanager
def switched():
    old = STATE.flag
    STATE.flag = True
    try:
        yield
    finally:
        STATE.flag = old
class Switch:
    def __enter__(self):
        self.old = STATE.flag
        STATE.flag = True
    def __exit__(self, *error):
        STATE.flag = self.old
def scale(grad):
    {body}
class Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, grad):
        return scale(grad)
def f(x):
    return Function.apply(x).sin()
"""

PUT_BACK = {
    "flag in a context manager": """with switched():
        return grad * 2 if STATE.flag else grad""",
    "flag": """old = STATE.flag
    STATE.flag = True
    result = grad * (3 if STATE.flag else 5)
    STATE.flag = old
    return result""",
    "dict": """old = STATE.options
    STATE.options = {"level": 1}
    result = grad * STATE.options["level"]
    STATE.options = old
    return result""",
    "counter": """STATE.depth += 1
    STATE.depth += 2
    result = grad * 2
    STATE.depth -= 3
    return result""",
    "nested": """with switched():
        with switched():
            return grad * 2 if STATE.flag else grad""",
}

USED = {
    "branch": """old = STATE.flag
    STATE.flag = True
    STATE.flag = old
    return grad * 2 if old else grad""",
    "read again": """old = STATE.depth
    STATE.depth = 7
    STATE.depth = old
    return grad * STATE.depth""",
    "kept in an object": """with Switch():
        return grad * 2""",
    "product": """STATE.depth = STATE.depth * 2
    return grad""",
    "sum with a variable": """more = 1
    STATE.depth += more
    STATE.depth -= more
    return grad""",
    "not put back": """STATE.flag = True
    return grad""",
    "swapped": """old = STATE.flag
    STATE.flag = STATE.depth
    STATE.depth = old
    return grad""",
    "counter that is left higher": """STATE.depth += 2
    STATE.depth -= 1
    return grad""",
    "new attribute": """old = STATE.kind
    STATE.kind = "of the object"
    STATE.kind = old
    return grad""",
    "deleted": """old = STATE.flag
    del STATE.flag
    STATE.flag = old
    return grad""",
    "property": """old = STATE.level
    STATE.level = {}
    STATE.level = old
    return grad""",
    "list that grows": """STATE.seen.append(1)
    STATE.seen.pop()
    return grad""",
    "item": """STATE.options["level"] += 1
    STATE.options["level"] -= 1
    return grad""",
    "passed on": """old = STATE.depth
    STATE.depth = 2
    result = torch.mul(grad, old)
    STATE.depth = old
    return result""",
    "number in a closure": """old = STATE.depth
    result = (lambda: grad * old)()
    STATE.depth = old
    return result""",
}


def scenario_of(body: str):
    def scenario(compile, note):
        namespace = Source(PROGRAM.replace("{body}", body)).namespace()
        state, f = namespace["STATE"], compile(namespace["f"])
        for changes in (False, True, True, False):
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            result = note(f, x)
            if changes:
                state.flag, state.depth, state.options = not state.flag, state.depth + 5, {"level": 11}
            note.gradients(result, x)
            note(lambda: (state.flag, state.depth, state.options, sorted(vars(state)), list(state.seen)))

    return scenario


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("body", PUT_BACK.values(), ids=PUT_BACK)
def test_put_back(body: str, backend: str) -> None:
    same_scenario(scenario_of(body), backend)
    if CAPTURES:
        f = Source(PROGRAM.replace("{body}", body)).namespace()["f"]
        stator.compile(f, backend=backend, fullgraph=True)(torch.ones(3, requires_grad=True))


@pytest.mark.parametrize("body", USED.values(), ids=USED)
def test_used_or_left_changed(body: str) -> None:
    same_scenario(scenario_of(body), "eager")
    if CAPTURES:
        f = Source(PROGRAM.replace("{body}", body)).namespace()["f"]
        with pytest.raises(stator.Unsupported):
            stator.compile(f, backend="eager", fullgraph=True)(torch.ones(3, requires_grad=True))


def test_forward_has_changed_the_attribute() -> None:
    """What `forward` assigns is a side effect; what `backward` puts back is none."""
    text = PROGRAM.replace("{body}", PUT_BACK["counter"]).replace(
        "        return x.clone()\n", "        STATE.depth += 10\n        return x.clone()\n"
    )

    def scenario(compile, note):
        namespace = Source(text).namespace()
        state, f = namespace["STATE"], compile(namespace["f"])
        for _ in range(3):
            x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            result = note(f, x)
            note(lambda: state.depth)
            note.gradients(result, x)
            note(lambda: state.depth)

    same_scenario(scenario, "eager")
