"""Modes with `__torch_function__`, default devices among them, and autocast that is switched by hand: entered in the
program, or around it. What a mode sees, and what it returns, is what it is uncompiled."""

import pytest
import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

import stator
from tests.support.counting import counted_calls
from tests.support.harness import Source, T, same
from tests.support.scenarios import same_scenario

HEAD = """
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
seen = []
class Listening(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append((function.__name__, len(types), len(args), sorted(kwargs or {})))
        return function(*args, **(kwargs or {}))
class Adding(TorchFunctionMode):
    def __init__(self, number): self.number, self.count = number, 0
    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.count += 1
        result = function(*args, **(kwargs or {}))
        return result + self.number if function in (torch.sin, torch.Tensor.sin) else result
class Raising(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.cos: raise ValueError("no cosines")
        return function(*args, **(kwargs or {}))
class Quiet(torch.overrides.BaseTorchFunctionMode): pass
class Plain(TorchFunctionMode):
    number = 4
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {})) if function is not torch.sin else torch.cos(args[0] * self.number)
plain = Plain()
ADD = torch.ops.aten.add.Tensor
WEIGHT, OFFSET = torch.ones(3, requires_grad=True), torch.ones(3)
"""
CAPTURED = {
    "operators and methods": "with Listening():\n  z = 1 - (y.sin() * 2)[0:2] @ x\n  z += x.shape[0]\n  w = -z == z\n return z, w, len(y), seen",
    "functions of Python code": "with Listening():\n  z = F.relu(F.linear(y, x))\n  n = F.layer_norm(z, (3,))\n return n, seen",
    "functions that create": "with Listening():\n  z = torch.ones(2, dtype=torch.float64) + torch.tensor([1., 2.])\n return z, seen",
    "attributes": "with Listening():\n  z = y.T, y.dtype, y.device, y.requires_grad, y.size(0), y.dim()\n return z, seen",
    "a mode that changes results": "with Adding(3) as one:\n  z = torch.sin(y) * y.sin()\n return z, one.count",
    "nested": "with Adding(3), Listening():\n  z = torch.sin(y)\n with Listening(), Adding(2):\n  z = torch.sin(z)\n return z, seen",
    "a mode from outside": "mode = plain\n with mode:\n  z = torch.sin(y)\n return z, mode.number",
    "gradients": "with Listening():\n  with torch.no_grad():\n   z = y * 2\n return z, seen",
    "an exception": "try:\n  with Raising():\n   z = torch.sin(y); torch.cos(y)\n except ValueError as error:\n  z = str(error)\n return z, len(_get_current_function_mode_stack())",
    "the stack": "with Quiet() as one, Listening() as two:\n  stack = _get_current_function_mode_stack()\n return len(stack), stack[0] is one, stack[1] is two",
    "builtins": "with Listening():\n  z = abs(y), pow(y, 2), round(y), sum(y)\n return z, seen",
    "disabled for subclasses": "with torch._C.DisableTorchFunctionSubclass():\n  z = y * 2\n with torch._C.DisableTorchFunction():\n  z = z + torch._C._is_torch_function_enabled()\n return z, torch._C._is_torch_function_enabled()",
    "overloads of operators": "with Listening():\n  z = ADD(y, y)\n return z, seen",
    "a default device": "with torch.device('meta'):\n  z = torch.ones(3), torch.get_default_device(), F.relu(y) + 1\n return z[0].device, z[1:], torch.ones(1)",
    "nested devices": "with torch.device('cpu'), torch.device('meta'), Listening():\n  z = torch.zeros(2)\n  w = torch.zeros(2, device='cpu')\n return z.device, w, seen",
    "set_default_device": "torch.set_default_device('meta')\n z = torch.ones(3)\n torch.set_default_device(None)\n return z.device, torch.ones(1)",
    "autocast by hand": "m = torch.amp.autocast_mode._enter_autocast('cpu')\n z = y @ x\n torch.amp.autocast_mode._exit_autocast(m)\n return z, y @ x, torch.is_autocast_enabled('cpu')",
    "autocast switched": "torch.set_autocast_enabled('cpu', True)\n torch.set_autocast_dtype('cpu', torch.float16)\n z = y @ x\n torch.set_autocast_enabled('cpu', False)\n torch.set_autocast_dtype('cpu', torch.bfloat16)\n return z, y @ x",
}


@pytest.mark.parametrize("name", CAPTURED)
def test_entered_in_the_program(name):
    same(Source(HEAD + f"def f(x):\n y = x + 1\n {CAPTURED[name]}"), T(3, 3), compare_dynamo=False)
    assert not _get_current_function_mode_stack() and not torch.is_autocast_enabled("cpu")


BROKEN = {
    "autocast inside of autocast": "with torch.autocast('cpu'):\n  torch.set_autocast_enabled('cpu', False)\n  z = y @ x\n return z, y @ x, torch.is_autocast_enabled('cpu')",
    "in a mode": "with Adding(3), Listening():\n  z = torch.sin(y)\n  print(end='')\n  z = torch.sin(z)\n return z, y.sin(), seen",
    "in __torch_function__": "class Printing(TorchFunctionMode):\n  def __torch_function__(self, function, types, args=(), kwargs=None):\n   print(function.__name__)\n   return function(*args, **(kwargs or {}))\n with Printing():\n  z = torch.sin(y)\n return z.cos()",
    "where it is disabled": "with torch._C.DisableTorchFunctionSubclass():\n  z = y * 2\n  print(torch._C._is_torch_function_enabled())\n  z = z + torch._C._is_torch_function_enabled()\n return z, torch._C._is_torch_function_enabled()",
    "with a default device": "with torch.device('meta'):\n  z = torch.ones(3)\n  print(end='')\n  w = torch.ones(3)\n return z.device, w.device, torch.ones(1)",
    "in a call": "def inner():\n  with Listening():\n   print(end='')\n   return y * 2\n return inner() + 1, seen",
    "before views of an input that is written to": "with Listening():\n  print(end='')\n for row in x:\n  pass\n x += WEIGHT + OFFSET\n return x, seen",
    "in autocast by hand": "m = torch.amp.autocast_mode._enter_autocast('cpu')\n z = y @ x\n print(end='')\n z = z @ x\n torch.amp.autocast_mode._exit_autocast(m)\n return z, y @ x",
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", BROKEN)
def test_graph_breaks(name, backend):
    source = Source(HEAD + f"def f(x):\n y = x + 1\n {BROKEN[name]}")
    same(source, T(3, 3), fullgraph=False, compare_dynamo=False, backend=backend)
    assert not _get_current_function_mode_stack() and not torch.is_autocast_enabled("cpu")


class Adding(TorchFunctionMode):
    def __init__(self, number):
        self.number = number

    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result + self.number if function is torch.sin else result


class Doubling(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.sin else result


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_around_the_program(backend):
    def scenario(compile, note):
        def program(x):
            y = torch.sin(x * 2)
            with torch.no_grad():
                z = torch.sin(y)
            return y.sum() + z

        step = compile(program)
        leaf = torch.ones(3, requires_grad=True)
        changing = Adding(1)
        for mode in (changing, Adding(1), Adding(2), Doubling(), changing):
            with mode:
                note.gradients(note(step, leaf).sum(), leaf)
        changing.number = 5
        with changing, Doubling():
            note(step, leaf)
            note(step, leaf)
        with torch.device("meta"):
            note(step, leaf)
        note(step, leaf)

    same_scenario(scenario, backend)


def test_an_equal_mode_is_no_recompile():
    def program(x):
        with Adding(2):
            y = torch.sin(x)
        return y * torch.cos(x)

    def under_new_mode(x):
        return torch.sin(x) + 1

    first, second = counted_calls(program, lambda: (torch.ones(2),), calls=2)
    assert (first.captures, first.graphs_run, second.captures) == (1, 1, 0)
    import stator

    with stator.watch() as report:
        compiled = stator.compile(under_new_mode)
        for _ in range(3):
            with Adding(2):
                compiled(torch.ones(2))
    assert len(report.captures) == 1 and not report.breaks


def test_custom_backward_of_autocast():
    """`torch.amp.custom_bwd` closes over its arguments: they are as constant as the package."""

    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a.mm(b)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, gradient):
            a, b = ctx.saved_tensors
            return gradient.mm(b.t()), a.t().mm(gradient)

    def scenario(compile, note):
        step = compile(lambda a, b: Product.apply(a, b) * 2)
        a, b = torch.ones(2, 2, requires_grad=True), torch.full((2, 2), 1.5, requires_grad=True)
        for _ in range(2):
            note.gradients(note(step, a, b), a, b)

    same_scenario(scenario, "eager", fullgraph=True)


def test_calls_that_an_active_mode_sees():
    """As many as uncompiled, with the same keywords: none by guards that are checked inside of it."""

    class Counting(TorchFunctionMode):
        def __init__(self, seen):
            super().__init__()
            self.seen = seen

        def __torch_function__(self, function, types, arguments=(), keywords=None):
            self.seen.append((getattr(function, "__name__", str(function)), keywords))
            return function(*arguments, **(keywords or {}))

    for program in (lambda x: x.grad, lambda x: torch.sin(x), lambda x: torch.add(x, 1, alpha=2)):
        counts = []
        for function in (program, stator.compile(program, backend="eager")):
            seen = []
            for _ in range(3):
                with Counting(seen):
                    function(torch.ones(2))
            counts.append(seen)
        assert counts[0] == counts[1]
