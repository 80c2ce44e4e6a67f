"""All kinds of arguments and results of modules: the tracker reads none of them."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from torch import nn

from tests.track.watching import lines, watch

Pair = namedtuple("Pair", "left right")


@dataclass
class Box:
    value: torch.Tensor
    more: dict


class Wraps(nn.Module):
    """A layer whose input and output are wrapped in something."""

    def __init__(self, wrap, unwrap):
        super().__init__()
        self.layer, self.wrap, self.unwrap = nn.Linear(4, 4), wrap, unwrap

    def forward(self, wrapped):
        return self.wrap(self.layer(self.unwrap(wrapped)).sin())


SHAPES = {
    "nested containers": (lambda x: {"a": [(x, None)]}, lambda w: w["a"][0][0]),
    "a dataclass": (lambda x: Box(x, {"k": 1}), lambda w: w.value),
    "a named tuple": (lambda x: Pair(1, x), lambda w: w.right),
    "an object": (lambda x: type("Holder", (), {"x": x})(), lambda w: w.x),
    "a closure": (lambda x: lambda: x, lambda w: w()),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_wrapped_inputs_and_outputs(shape):
    wrap, unwrap = SHAPES[shape]
    model = nn.Sequential(Wraps(wrap, unwrap), Wraps(wrap, unwrap))
    x = torch.ones(3, 4, requires_grad=True)
    seen = watch(lambda: unwrap(model(wrap(x))).sum().backward())
    assert lines(seen, "mm", "cos") == "\n".join(
        line
        for part in ("Sequential Sequential.1", "Sequential Sequential.0")
        for line in [f"< cos: {part}"] + [f"< mm: {part} {part.split()[1]}.layer"] * 2
    )


def test_keyword_arguments():
    class Keywords(nn.Module):
        def forward(self, *, x, scale=2):
            return x.sin() * scale

    x = torch.ones(3, 4, requires_grad=True)
    model = Keywords()
    assert (
        lines(watch(lambda: model(x=x, scale=3).sum().backward()), "sin", "cos") == "> sin: Keywords\n< cos: Keywords"
    )


def test_modules_that_return_their_input():
    model = nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.Dropout(0.0), nn.Linear(4, 4)).eval()
    seen = watch(lambda: model(torch.ones(3, 4)).sum().backward())
    assert lines(seen, "mm") == "\n".join(["< mm: Sequential Sequential.3"] * 2 + ["< mm: Sequential Sequential.0"])


def test_modules_that_return_nothing_or_work_in_place():
    class InPlace(nn.Module):
        def forward(self, x):
            x.mul_(2)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.change = nn.Linear(4, 4), InPlace()

        def forward(self, x):
            x = self.layer(x)
            self.change(x)
            return x

    model = Model()
    assert lines(watch(lambda: model(torch.ones(3, 4)).sum().backward()), "mul_", "mul", "mm") == "\n".join(
        ["> mul_: Model Model.change", "< mul: Model Model.change", "< mm: Model Model.layer"]
    )


def test_views_of_inputs_and_several_outputs_of_which_one_is_used():
    class Splits(nn.Module):
        def forward(self, x):
            return x.sin(), x.tanh()

    model = nn.Sequential(nn.Linear(4, 4), Splits())
    seen = watch(lambda: model(torch.ones(3, 4))[1].sum().backward())
    assert lines(seen, "cos", "tanh_backward", "mm") == "\n".join(
        ["< tanh_backward: Sequential Sequential.1", "< mm: Sequential Sequential.0"]
    )


def test_custom_functions():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3 * ctx.saved_tensors[0].square()

    class Cubes(nn.Module):
        def forward(self, x):
            return Cube.apply(x)

    model = nn.Sequential(nn.Linear(4, 4), Cubes())
    assert lines(watch(lambda: model(torch.ones(3, 4)).sum().backward()), "pow") == "\n".join(
        ["> pow: Sequential Sequential.1", "< pow: Sequential Sequential.1"]
    )
