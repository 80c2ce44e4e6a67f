"""Captures as text: graph, guards and plan next to the program. `make golden` regenerates them."""

import collections

import torch
from expecttest import assert_expected_inline

import stator

Point = collections.namedtuple("Point", "x y")
SCALE = 2.0


def in_words(program, *arguments):
    """The graph and the guards as `explain` has them, and the plan that rebuilds the result."""
    report = stator.explain(program)(*arguments)
    assert not report.breaks, report.breaks
    (capture,) = report.captures
    compiled = stator.compile(program, fullgraph=True)
    compiled(*arguments)
    (entry,) = compiled._entries()
    return (
        f"{capture.graph.strip()}\n--- guards\n" + "\n".join(capture.guards) + f"\n--- plan\n{entry['plan'].strip()}\n"
    )


def test_operators_functions_and_methods():
    def program(x, w):
        return torch.relu(x @ w + SCALE).sum(dim=-1)

    assert_expected_inline(
        in_words(program, torch.ones(8, 4), torch.ones(4, 4)),
        """\
%l_x_ = placeholder L_x_ -> f32[8, 4]
%l_w_ = placeholder L_w_ -> f32[4, 4]
%matmul = call_function operator.matmul(%l_x_, %l_w_) -> f32[8, 4]
%add = call_function operator.add(%matmul, 2.0) -> f32[8, 4]
%relu = call_function torch.relu(%add) -> f32[8, 4]
%sum_1 = call_method sum(%relu, dim=-1) -> f32[8]
output (%sum_1,)
--- guards
G['torch'] exists
G['torch'] is the same module
torch.relu exists
L['x'] is torch.Tensor f32[8, 4] strides [4, 1] cpu
L['w'] is torch.Tensor f32[4, 4] strides [4, 1] cpu
G['SCALE'] exists
G['SCALE'] is 2.0
torch.relu is the same builtin_function_or_method
torch.Tensor.sum is the same method_descriptor
--- plan
r0 = output 0
return r0
""",
    )


def test_what_is_read_is_guarded():
    offset = 3

    def program(x, settings, flags):
        y = x * settings["scale"] + offset
        return y if flags[1] else -y

    assert_expected_inline(
        in_words(program, torch.ones(2), {"scale": 4, "other": 5}, (True, False)),
        """\
%l_x_ = placeholder L_x_ -> f32[2]
%mul = call_function operator.mul(%l_x_, 4) -> f32[2]
%y = call_function operator.add(%mul, 3) -> f32[2]
%neg = call_function operator.neg(%y) -> f32[2]
output (%neg,)
--- guards
type of L['settings'] is dict
L['settings']['scale'] exists
L['x'] is torch.Tensor f32[2] strides [1] cpu
L['settings']['scale'] is 4
L['offset'] is 3
type of L['flags'] is tuple
L['flags'] has 2 items
L['flags'][1] is False
--- plan
r0 = output 0
return r0
""",
    )


def test_containers_are_rebuilt_with_their_aliases():
    def program(x):
        shared = [x + 1]
        return {"a": shared, "b": (shared, x), "p": Point(x, shared[0]), "s": slice(1, None)}

    assert_expected_inline(
        in_words(program, torch.ones(2)),
        """\
%l_x_ = placeholder L_x_ -> f32[2]
%add = call_function operator.add(%l_x_, 1) -> f32[2]
output (%add,)
--- guards
L['x'] is torch.Tensor f32[2] strides [1] cpu
G['Point'] exists
G['Point'] is the same type
tests.run.test_entries.Point.__del__ does not exist
tests.run.test_entries.Point.__new__ is the same staticmethod
type of tests.run.test_entries.Point.__new__ is staticmethod
tests.run.test_entries.Point.__init__ is the same wrapper_descriptor
<function> is a function with the code of <lambda>
G['_tuple_new'] exists
G['_tuple_new'] is the same builtin_function_or_method
G['slice'] does not exist
builtins['slice'] exists
builtins['slice'] is the same type
--- plan
r0 = dict()
r1 = constant 'a'
r2 = output 0
r3 = list(r2)
r0[r1] = r3
r4 = constant 'b'
r5 = fetched 0
r6 = tuple(r3, r5)
r0[r4] = r6
r7 = constant 'p'
r8 = tuple(r5, r2) of class tests.run.test_entries.Point
r0[r7] = r8
r9 = constant 's'
r10 = constant 1
r11 = constant None
r12 = slice(r10, r11, r11)
r0[r9] = r12
return r0
""",
    )


def test_a_closure_leaves_with_its_cells():
    def program(x):
        total = x.sum()

        def add(y, by=2):
            return total + y * by

        return add

    assert_expected_inline(
        in_words(program, torch.ones(2)),
        """\
%l_x_ = placeholder L_x_ -> f32[2]
%total = call_method sum(%l_x_) -> f32[]
output (%total,)
--- guards
L['x'] is torch.Tensor f32[2] strides [1] cpu
torch.Tensor.sum is the same method_descriptor
--- plan
r1 = constant <dict>
r2 = constant 'add'
r3 = constant 2
r4 = tuple(r3)
r5 = cell()
r6 = tuple(r5)
r0 = function test_a_closure_leaves_with_its_cells.<locals>.program.<locals>.add with globals r1, name r2, defaults r4, closure r6
r7 = output 0
r5.cell_contents = r7
return r0
""",
    )


def test_modes_are_switched_in_the_graph():
    def program(x):
        with torch.no_grad():
            y = x * 2
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return y @ x

    # The guards are about the insides of `no_grad` and `autocast`, which differ from one PyTorch to the next.
    assert_expected_inline(
        in_words(program, torch.ones(2, 2)).partition("--- guards")[0],
        """\
%l_x_ = placeholder L_x_ -> f32[2, 2]
%_set_grad_enabled = call_function torch._C._set_grad_enabled(False)
%y = call_function operator.mul(%l_x_, 2) -> f32[2, 2]
%_set_grad_enabled_1 = call_function torch._C._set_grad_enabled(True)
%_enter_autocast = call_function torch.amp.autocast_mode._enter_autocast('cpu', <torch.dtype>, True, True)
%matmul = call_function operator.matmul(%y, %l_x_) -> bf16[2, 2]
%_exit_autocast = call_function torch.amp.autocast_mode._exit_autocast(%_enter_autocast)
output (%matmul,)
""",
    )


def test_several_results_and_an_input_that_is_written_to():
    def program(x):
        values, indices = x.max(dim=0)
        x.mul_(2)
        first, *rest = x.split(1)
        return values, indices, first, len(rest)

    assert_expected_inline(
        in_words(program, torch.ones(3, 2)),
        """\
%l_x_ = placeholder L_x_ -> f32[3, 2]
%max_1 = call_method max(%l_x_, dim=0) -> torch.return_types.max(f32[2], i64[2])
%values = call_function operator.getitem(%max_1, 0) -> f32[2]
%indices = call_function operator.getitem(%max_1, 1) -> i64[2]
%mul_ = call_method mul_(%l_x_, 2) -> f32[3, 2]
%split = call_method split(%mul_, 1) -> (f32[1, 2], f32[1, 2] offset 2, f32[1, 2] offset 4)
%first = call_function operator.getitem(%split, 0) -> f32[1, 2]
output (%values, %indices, %first)
--- guards
L['x'] is torch.Tensor f32[3, 2] strides [2, 1] cpu
torch.Tensor.max is the same method_descriptor
torch.Tensor.mul_ is the same method_descriptor
torch.Tensor.split is a function with the code of Tensor.split
torch.Tensor.split is the same function
G['len'] does not exist
builtins['len'] exists
builtins['len'] is the same builtin_function_or_method
--- plan
r0 = output 0
r1 = output 1
r2 = output 2
r3 = constant 2
r4 = tuple(r0, r1, r2, r3)
return r4
""",
    )
