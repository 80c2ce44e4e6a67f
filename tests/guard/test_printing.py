"""Guards and steps as text."""

import weakref

import torch

from tests.guard.source_tree import NOTHING, SourceTree, of_slot


def scale(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def linear_with_input() -> SourceTree:
    layer = torch.nn.Linear(2, 3)
    tree = SourceTree()
    own = tree.slot(0, "self", layer).typed()
    own.attribute("training").constant()
    own.attribute("weight").guard("Tensor", layer.weight)
    own.dict().guard("HasNoKey", "forward")
    tree.pinned(torch.nn.Linear).class_attribute("forward").guard("Function", torch.nn.Linear.forward)
    x = tree.slot(1, "x", torch.ones(4, 2))
    x.guard("Tensor", x.object)
    x.guard("Different", other=own.attribute("weight"))
    return tree


def test_steps() -> None:
    assert (
        linear_with_input().program().print_steps()
        == """\
slot r0 = L['self']
slot r7 = L['x']
tensor r7: L['x'] is torch.Tensor f32[4, 2] strides [2, 1] cpu
type r0: type of L['self'] is torch.nn.modules.linear.Linear
enter instance dict r1: L['self'].__dict__
no key r1: L['self'].__dict__ has no key 'forward'
item r2 = L['self'].training
constant r2: L['self'].training is True
item r3 = L['self']._parameters
leave dict r1: L['self'].__dict__
enter dict r3: L['self']._parameters
item r4 = L['self']._parameters['weight']
leave dict r3: L['self']._parameters
tensor r4: L['self']._parameters['weight'] is torch.nn.parameter.Parameter f32[3, 2] strides [2, 1] cpu requires_grad
enter class r5: torch.nn.modules.linear.Linear
class attribute r6 = torch.nn.modules.linear.Linear.forward
leave class r5: torch.nn.modules.linear.Linear
function code r6: torch.nn.modules.linear.Linear.forward is a function with the code of Linear.forward
different r7: L['x'] is not L['self']._parameters['weight']
done"""
    )


def test_guards() -> None:
    tree = SourceTree()
    x = tree.slot(0, "x", (1, 2))
    x.typed().guard("Length", number=2)
    x.item(0).constant()
    x.item(0).constant()
    table = tree.slot(1, "table", {"a": {1, 2}, "b": scale})
    table.guard("Keys", ("a", "b")).guard("HasNoKey", "c")
    table.key("a").guard("Length", number=1).guard("Elements", frozenset([1, 2]))
    table.key("b").guard("Function", scale).guard("Identity", scale).guard("Present")
    tree.slot(2, "later", NOTHING).guard("Absent")
    tree.slot(3, "y", torch.ones(2, dtype=torch.int64)).guard("Tensor", torch.ones(2, dtype=torch.int64))
    x.guard("Same", other=tree.slot(4, "z", x.object)).guard("Different", other=table)
    program = tree.program()
    assert len(program.raw) == len(tree.guards) - 1, "one was there twice"
    assert (
        program.print()
        == """\
type of L['x'] is tuple
L['x'] has 2 items
L['x'][0] is 1
L['table'] has the keys ('a', 'b')
L['table'] has no key 'c'
L['table']['a'] has 1 item
L['table']['a'] has the elements (1, 2)
L['table']['b'] is a function with the code of scale
L['table']['b'] is the same function
L['table']['b'] exists
L['later'] does not exist
L['y'] is torch.Tensor i64[2] strides [1] cpu
L['x'] is L['z']
L['x'] is not L['table']"""
    )


def test_sources_can_be_used_for_another_program() -> None:
    tree = linear_with_input()
    assert tree.program().print() == tree.program().print()


def test_a_referent_is_fetched() -> None:
    layer = torch.nn.Linear(2, 3)
    program = of_slot(weakref.ref(layer), lambda x: x.referent().typed())
    assert (
        program.print_steps()
        == """\
slot r0 = L['x']
referent r1 = L['x']()
type r1: type of L['x']() is torch.nn.modules.linear.Linear
done"""
    )
    assert program.explain([]) == "L['x']() does not exist any more: L['x'] is of type list"
