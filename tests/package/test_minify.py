"""`stator.minify`: programs with an error on purpose, in the backend, the capture or the guards, reduced to a few lines."""

from __future__ import annotations

import ast

import pytest
import torch
from torch import nn

import stator
from stator.written_values import Names, Writer
from tests.package.test_check import Counted, halved, without_scale, wrong

SCALES = [1, 2, 3]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.norm = nn.LayerNorm(3)

    def forward(self, x):
        if x.shape[0] > 1:
            x = self.norm(self.first(x))
        return self.second(torch.relu(x)) + x


def helper(x):
    y = x.sin() + 1
    for scale in SCALES:
        y = y * scale
    return y


def deep(x, block):
    a = helper(x)
    b = {"x": block(a), "y": torch.cos(x)}
    return b["x"].mean() + b["y"]


def mismatched(folder, compiled, *calls):
    with stator.config.patch(reproduction_folder=str(folder)), pytest.raises(stator.Mismatch) as raised:
        for call in calls:
            call()
    return raised.value


def statements(program):
    """The statements of the program, without those of every reproduction."""
    bodies = [node.body for node in ast.walk(ast.parse(program)) if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    return sum(map(len, bodies))


def test_a_backend(tmp_path):
    compiled = stator.compile(deep, backend=wrong, check="first")
    error = mismatched(tmp_path, compiled, lambda: compiled(torch.randn(4, 3), Block()))
    small = stator.minify(error.reproduction)
    assert small.fault == "backend" and "torch.relu" in small.program
    assert "Block" not in small.program and "sin" not in small.program and "no_grad" not in small.program
    # The backend itself is part of the program.
    assert statements(small.program) <= 9, small.program


def test_the_capture(tmp_path):
    def program(x, block):
        if block is not None:
            x = block(x).sum() * halved(x).shape[0]
        return x

    compiled = stator.compile(program, check="first")
    error = mismatched(tmp_path, compiled, lambda: compiled(torch.randn(4, 3), Block()))
    small = stator.minify(error.reproduction, tmp_path / "small.py")
    assert small.fault == "front end" and small.path == str(tmp_path / "small.py")
    assert "halved" in small.program and "Block" not in small.program
    assert statements(small.program) <= 5, small.program


def test_a_guard(tmp_path):
    def program(x, holder):
        z = torch.cos(x) + 1
        return z * holder.scale

    holder = Counted(2)
    compiled = stator.compile(program, check="always", options={"guard_filter_fn": without_scale})

    def change():
        holder.scale = 5
        compiled(torch.ones(2), holder)

    error = mismatched(tmp_path, compiled, lambda: compiled(torch.ones(2), holder), change)
    small = stator.minify(error.reproduction)
    assert small.fault == "guard" and "scale = 5" in small.program
    assert "cos" not in small.program and "sin" not in small.program
    assert statements(small.program) <= 10, small.program


def test_a_file_without_a_mismatch(tmp_path):
    file = tmp_path / "fine.py"
    file.write_text("print('fine')")
    with pytest.raises(ValueError, match="shows no mismatch"):
        stator.minify(file)


def made(value):
    """The value that the written text makes."""
    tensors = [one for one in torch.utils._pytree.tree_leaves(value) if isinstance(one, torch.Tensor)]
    writer = Writer(Names(), tensors, lambda code: code.__name__)
    expression = writer.expression(value)
    from stator import reproductions

    scope = {"torch": torch, "reproductions": reproductions, "Counted": Counted, "Block": Block}
    import collections

    exec("\n".join(writer.description.lines()), scope | {"collections": collections}, scope)
    return eval(expression, scope)


@pytest.mark.parametrize(
    "value",
    [
        [1, 2.5, "text", None, (1,), {"a": {1}}, float("inf"), frozenset([1])],
        torch.arange(4.0).requires_grad_(),
        torch.ones(2, 3).t(),
        torch.tensor([float("nan"), 1.0]),
        torch.tensor([1, 2], dtype=torch.int8),
        nn.Parameter(torch.ones(2)),
        torch.Size([1, 2]),
        slice(1, None),
    ],
)
def test_values_as_text(value):
    from stator.same import Comparison

    Comparison(exact=True).same(value, made(value), "value")


def test_objects_and_modules_as_text():
    assert vars(made(Counted(3))) == {"scale": 3, "calls": 0}
    block = made(Block().eval())
    assert not block.training and block.second.weight.shape == (3, 3)
    sequential = made(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))
    assert str(sequential) == str(nn.Sequential(nn.Linear(2, 3), nn.ReLU()))


def test_views_of_one_tensor_as_text():
    base = torch.arange(6.0)
    one, other = made((base[:4], base[2:]))
    one.zero_()
    assert other.tolist() == [0, 0, 4, 5]
