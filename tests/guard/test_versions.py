"""Blocks of unchanged dicts and classes are skipped, and every change is detected."""

import itertools
import random
from typing import Any

import torch

from tests.guard.source_tree import Node, Program, SourceTree


def guard_module(node: Node) -> list[Node]:
    """Guards as capturing a module installs them: its class, `training`, hooks, parameters, children."""
    module = node.object
    node.typed()
    own = node.dict()
    own.key("training").constant()
    for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
        own.key(hooks).typed().guard("Length", number=0)
    own.guard("HasNoKey", "forward")
    found = []
    for name, parameter in module._parameters.items():
        parameters = own.key("_parameters").typed()
        found.append(parameters.key(name).guard("Tensor", parameter))
    for name in module._modules:
        found += guard_module(own.key("_modules").typed().key(name))
    return found


def model_of_80_layers() -> torch.nn.Module:
    layers = [layer for _ in range(40) for layer in (torch.nn.Linear(4, 4), torch.nn.ReLU())]
    return torch.nn.Sequential(*layers)


def settled_steps(program: Program, *slots: Any) -> int:
    """The steps of a check that repeats itself. In 3.13 the dicts of instances get their versions by then."""
    counts = [program.count_steps(*slots) for _ in range(10)]
    assert counts[-2] == counts[-1]
    return counts[-1]


def test_an_unchanged_tree_costs_little() -> None:
    model = model_of_80_layers()
    tree = SourceTree()
    parameters = guard_module(tree.slot(0, "self", model))
    program = tree.program(fetched=parameters, distinct=parameters)
    everything = program.count_steps(model)
    unchanged = settled_steps(program, model)
    assert program.check(model)
    assert [id(p) for p in program.fetched()] == [id(p) for p in model.parameters()]
    # For each module its class and its own dict, the three dicts of hooks and, where it has one, that of parameters or
    # modules; each parameter; the slot, the distinctness and the end.
    assert unchanged == 81 * (1 + 1 + 3) + 41 + 80 + 3
    assert everything > 2 * unchanged
    print(f"80 layers: {program.nanoseconds(model):.0f} ns unchanged, {unchanged} steps; all {everything}")


def test_one_change_costs_one_block() -> None:
    model = model_of_80_layers()
    tree = SourceTree()
    guard_module(tree.slot(0, "self", model))
    program = tree.program()
    unchanged = settled_steps(program, model)
    model[40].extra = 3
    changed = program.count_steps(model)
    # The block of that layer's own dict: the missing `forward`, `training`, hooks and parameters, and leaving it.
    assert unchanged < changed < unchanged + 20
    assert program.count_steps(model) == unchanged
    assert program.check(model)


def test_every_change_is_seen() -> None:
    model = model_of_80_layers()
    tree = SourceTree()
    guard_module(tree.slot(0, "self", model))
    program = tree.program()
    layer = model[22]
    name = "L['self']._modules['22']"

    def hook(*_: Any) -> None: ...

    def swap_parameter() -> None:
        layer.weight, swap_parameter.kept = torch.nn.Parameter(torch.ones(5, 4)), layer.weight

    def restore_parameter() -> None:
        layer.weight = swap_parameter.kept

    def shadow() -> None:
        layer.forward = hook

    def add_hook() -> None:
        add_hook.handle = layer.register_forward_hook(hook)

    def change_class() -> None:
        layer.__class__ = torch.nn.Bilinear

    def change_back() -> None:
        layer.__class__ = torch.nn.Linear

    def replace_dict() -> None:
        replace_dict.kept = layer.__dict__
        layer.__dict__ = {**layer.__dict__, "training": False}

    def restore_dict() -> None:
        layer.__dict__ = replace_dict.kept

    def swap_layer() -> None:
        model[22] = torch.nn.ReLU()

    def restore_layer() -> None:
        model[22] = layer

    def resize() -> None:
        layer.weight.data = torch.ones(6, 4)

    def restore_size() -> None:
        layer.weight.data = torch.ones(4, 4)

    changes = [
        (lambda: layer.eval(), lambda: layer.train(), f"{name}.training is False, was True"),
        (swap_parameter, restore_parameter, f"{name}._parameters['weight']: size of dimension 0 is 5, was 4"),
        (resize, restore_size, f"{name}._parameters['weight']: size of dimension 0 is 6, was 4"),
        (shadow, lambda: delattr(layer, "forward"), f"{name}.__dict__ has the key 'forward', had not"),
        (add_hook, lambda: add_hook.handle.remove(), f"{name}._forward_hooks has 1 item, had 0"),
        (
            change_class,
            change_back,
            f"type of {name} is torch.nn.modules.linear.Bilinear, was torch.nn.modules.linear.Linear",
        ),
        (replace_dict, restore_dict, f"{name}.training is False, was True"),
        (
            swap_layer,
            restore_layer,
            f"type of {name} is torch.nn.modules.activation.ReLU, was torch.nn.modules.linear.Linear",
        ),
    ]
    assert program.check(model)
    for change, restore, words in changes * 2:
        change()
        assert not program.check(model)
        assert program.explain(model) == words
        restore()
        assert program.check(model), words


def test_another_model_of_the_same_class() -> None:
    models = [model_of_80_layers() for _ in range(3)]
    tree = SourceTree()
    parameters = guard_module(tree.slot(0, "self", models[0]))
    program = tree.program(fetched=parameters)
    for model in models * 2:
        assert program.check(model)
        assert [id(p) for p in program.fetched()] == [id(p) for p in model.parameters()]
    models[1][5].training = False
    assert [program.check(model) for model in models] == [True, False, True]


def test_class_attributes_through_the_mro() -> None:
    class Base:
        scale = 2

    class Derived(Base):
        pass

    tree = SourceTree()
    tree.pinned(Derived).class_attribute("scale").constant()
    tree.pinned(Derived).class_attribute("shift").guard("Absent")
    program = tree.program()
    program.count_steps()
    unchanged = program.count_steps()
    assert unchanged == 2, "the class and the end"
    Base.scale = 3
    assert program.explain().endswith(".scale is 3, was 2")
    Base.scale = 2
    assert program.check()
    Derived.scale = 2
    assert program.check()
    Derived.scale = 5
    assert not program.check()
    del Derived.scale
    assert program.check()
    Base.shift = 1
    assert not program.check()
    del Base.shift
    Derived.__bases__ = (type("Other", (), {"scale": 7}),)
    assert not program.check()
    Derived.__bases__ = (Base,)
    assert program.check()
    assert program.count_steps() == unchanged


def test_methods_looked_up_on_a_class() -> None:
    class Model:
        def forward(self) -> int:
            return 1

    def other(self: Any) -> int:
        return 2

    tree = SourceTree()
    tree.pinned(Model).class_attribute("forward").guard("Function", Model.forward)
    program = tree.program()
    assert program.check()
    original = Model.forward
    Model.forward = other
    assert "is the function" in program.explain()
    Model.forward = original
    assert program.check()
    original.__code__, kept = other.__code__, original.__code__
    assert not program.check(), "the class did not change, the function did"
    original.__code__ = kept
    assert program.check()


def test_a_failed_check_is_not_taken_for_a_success() -> None:
    """A block that failed half-way must not be skipped when its dict comes again unchanged."""
    good = {"a": 1, "b": 2}
    bad = {"a": 1, "b": 3}
    tree = SourceTree()
    root = tree.slot(0, "x", good)
    nodes = [root.key("a").constant(), root.key("b").constant()]
    program = tree.program(fetched=nodes)
    for _ in range(3):
        assert program.check(good)
        assert not program.check(bad)
        assert not program.check(bad)
    assert program.check(good)
    assert program.fetched() == [1, 2]


def test_random_changes_agree_with_a_fresh_program() -> None:
    source = random.Random(11)

    class Node_:
        pass

    def build() -> tuple[Any, list[Any]]:
        nodes = [Node_() for _ in range(6)]
        for i, node in enumerate(nodes):
            node.number = i
            node.table = {"k": i, "t": (i, "x")}
            node.items = [i, i + 1]
        for parent, child in itertools.pairwise(nodes):
            parent.child = child
        return nodes[0], nodes

    def guards(tree: SourceTree, root: Any) -> None:
        node = tree.slot(0, "x", root)
        for depth in range(6):
            node.typed()
            node.attribute("number").constant()
            table = node.attribute("table").typed()
            table.key("k").constant()
            table.key("t").typed().item(1).constant()
            node.attribute("items").typed().guard("Length", number=2).item(1).constant()
            node.dict().guard("HasNoKey", "surprise")
            if depth < 5:
                node = node.attribute("child")

    root, nodes = build()
    tree = SourceTree()
    guards(tree, root)
    program = tree.program()
    answers = {True: 0, False: 0}
    for _ in range(2000):
        i = source.randrange(6)
        node = nodes[i]
        match source.randrange(8):
            case 0:
                node.number = source.choice([i, i, int(str(i)), 99])
            case 1:
                node.table["k"] = source.choice([i, 50])
            case 2:
                node.table["t"] = source.choice([(i, "x"), (0, "x"), [i, "x"], (i,)])
            case 3:
                node.items = source.choice([[i, i + 1], [i], [9, i + 1]])
            case 4:
                node.surprise = 1
            case 5:
                node.table = {"k": i, "t": (i, "x")}
            case _:
                _fresh, _nodes = build()
                for mine, theirs in zip(nodes, _nodes):
                    mine.__dict__.clear()
                    mine.__dict__.update(theirs.__dict__)
                for parent, child in itertools.pairwise(nodes):
                    parent.child = child
        # A program that was never checked before has nothing to skip.
        never_asked = tree.program()
        expected = never_asked.check(root)
        answers[expected] += 1
        assert program.check(root) == expected
        assert program.explain(root) == never_asked.explain(root)
    assert min(answers.values()) > 100
