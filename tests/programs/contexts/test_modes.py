"""Modes and hooks of PyTorch that the program enters: they see what they see uncompiled."""

import pytest
import torch

from tests.support.harness import Source, T, same

HEAD = """
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode
seen = []
class Listening(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(function.__name__)
        return function(*args, **(kwargs or {}))
def pack(tensor):
    seen.append(tuple(tensor.shape))
    return tensor * 2
def unpack(tensor): return tensor + 1
"""
PROGRAMS = {
    "a function mode": "def f(x):\n    y = x + 1\n    with Listening():\n        z = y.sin() * 2\n    return z.cos(), seen",
    "a mode that counts": "def f(x):\n    with FlopCounterMode(display=False) as mode:\n        y = x @ x\n    return y + 1, mode.get_total_flops()",
    "a default device": "def f(x):\n    torch.set_default_device('meta')\n    z = torch.ones(3)\n    torch.set_default_device(None)\n    return x + 1, z.device, torch.ones(1)",
    "hooks on saved tensors": "def f(x):\n    y = x * 2\n    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):\n        z = (y * y).sin()\n    return z * z, seen",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_entered_in_the_program(name):
    same(Source(HEAD + PROGRAMS[name]), T(3, 3, grad="hooks" in name), fullgraph=False, compare_dynamo=False)
    assert torch.ones(1).device == torch.device("cpu")
