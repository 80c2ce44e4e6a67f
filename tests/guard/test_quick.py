"""The quick check of an unchanged model: it is recorded, it succeeds, and it never succeeds after a change."""

import gc
import os
import random
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.guard.source_tree import Node, Program, SourceTree
from tests.guard.test_versions import guard_module


def make_model() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.nn.Linear(4, 4))


def guarded(model: Any) -> Program:
    tree = SourceTree()
    parameters = guard_module(tree.slot(0, "self", model))
    program = tree.program(fetched=parameters, distinct=parameters)
    tree.forget()
    return program


def hits(program: Program) -> int:
    return program.raw.quick_hits()


def make_quick(program: Program, *slots: Any) -> None:
    """Repeats the check until the quick check is used."""
    for _ in range(200):
        assert program.check(*slots)
        if program.raw.print_quick():
            break
    assert answers_quickly(program, *slots)


def answers_quickly(program: Program, *slots: Any) -> bool:
    before = hits(program)
    assert program.check(*slots)
    return hits(program) == before + 1


def test_what_is_compared() -> None:
    model = torch.nn.Linear(4, 4)
    program = guarded(model)
    assert program.raw.print_quick() == []
    make_quick(program, model)
    assert (
        "\n".join(program.raw.print_quick())
        == """\
level 0
slot r0 = L['self']
type r0: type of L['self'] is torch.nn.modules.linear.Linear
same address r0: L['self']
same state r0: L['self']
level 1
same dict r3: L['self']._forward_hooks
same dict r4: L['self']._forward_pre_hooks
same dict r5: L['self']._backward_hooks
same dict r6: L['self']._parameters
level 2
tensor r7: L['self']._parameters['weight']
tensor r8: L['self']._parameters['bias']"""
    )


def test_it_costs_less() -> None:
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(40)])
    program = guarded(model)
    make_quick(program, model)
    before = hits(program)
    nanoseconds = program.nanoseconds(model, repeat=200)
    assert hits(program) == before + 1000, "all of them are answered quickly"
    assert [id(p) for p in program.fetched()] == [id(p) for p in model.parameters()]
    print(f"40 layers: {nanoseconds:.0f} ns")


def hook(*_: Any) -> None: ...


class Other(torch.nn.Linear):
    pass


def replace_dict(layer: Any) -> None:
    layer.__dict__ = {**layer.__dict__, "training": False}


def replace_dict_by_an_equal_one_with_a_hook(layer: Any) -> None:
    layer.__dict__ = {**layer.__dict__, "_forward_hooks": OrderedDict({1: hook})}


def set_class(layer: Any) -> None:
    layer.__class__ = Other


def resize(layer: Any) -> None:
    layer.weight.data = torch.ones(6, 4)


def restride(layer: Any) -> None:
    layer.weight.data = torch.ones(4, 4).t()


def retype(layer: Any) -> None:
    layer.weight.data = torch.ones(4, 4, dtype=torch.float64)


def swap_tensors(layer: Any) -> None:
    torch.utils.swap_tensors(layer.weight, torch.nn.Parameter(torch.ones(7, 4)))


def replace_parameter(layer: Any) -> None:
    layer.weight = torch.nn.Parameter(torch.ones(5, 4))


def replace_parameter_below(layer: Any) -> None:
    layer._parameters["weight"] = torch.nn.Parameter(torch.ones(5, 4))


def set_parameter_class(layer: Any) -> None:
    layer.weight.__class__ = type("Special", (torch.nn.Parameter,), {})


def tie_parameters(layer: Any) -> None:
    layer.weight = layer.model[1].weight


CHANGES: list[Callable[[Any], object]] = [
    lambda layer: layer.eval(),
    lambda layer: setattr(layer, "forward", hook),
    lambda layer: layer.__dict__.update(forward=hook),
    lambda layer: layer.register_forward_hook(hook),
    lambda layer: layer.register_forward_pre_hook(hook),
    lambda layer: layer._forward_hooks.update({7: hook}),
    lambda layer: layer.weight.requires_grad_(False),
    lambda layer: layer.bias.requires_grad_(False),
    lambda layer: layer.__dict__.pop("_backward_hooks"),
    lambda layer: layer._parameters.pop("bias"),
    replace_dict,
    replace_dict_by_an_equal_one_with_a_hook,
    set_class,
    resize,
    restride,
    retype,
    swap_tensors,
    replace_parameter,
    replace_parameter_below,
    set_parameter_class,
    tie_parameters,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", ["1", "0.0"])
def test_a_change_is_noticed(change: Callable[[Any], object], path: str) -> None:
    model = make_model()
    program = guarded(model)
    make_quick(program, model)
    layer = model.get_submodule(path)
    if change is tie_parameters:
        layer = model[0][0]
        layer.__dict__["model"] = model
        make_quick(program, model)
    change(layer)
    assert not program.check(model)
    assert program.explain(model) != ""
    assert not program.check(model)


def test_a_harmless_change_is_let_through_and_recorded_again() -> None:
    model = make_model()
    program = guarded(model)
    make_quick(program, model)
    changes: list[Callable[[], object]] = [
        lambda: setattr(model[1], "extra", 1),
        lambda: setattr(model[1], "weight", torch.nn.Parameter(torch.zeros(4, 4))),
        lambda: model[0].__setitem__(0, torch.nn.Linear(4, 4)),
        lambda: model[1].__setattr__("__dict__", dict(model[1].__dict__)),
        lambda: torch.utils.swap_tensors(model[1].weight, torch.nn.Parameter(torch.zeros(4, 4))),
    ]
    for change in changes:
        change()
        assert program.check(model)
        assert [id(p) for p in program.fetched()] == [id(p) for p in model.parameters()]
        make_quick(program, model)
        assert [id(p) for p in program.fetched()] == [id(p) for p in model.parameters()]


def test_another_instance() -> None:
    models = [make_model() for _ in range(3)]
    program = guarded(models[0])
    make_quick(program, models[0])
    for model in [*models, *models]:
        assert program.check(model)
        assert [id(p) for p in program.fetched()] == [id(p) for p in model.parameters()]
    models[1][1].training = False
    assert [program.check(model) for model in models] == [True, False, True]


addresses_come_again = pytest.mark.skipif(
    "STATOR_SANITIZED" in os.environ, reason="the sanitizer keeps what was freed from being used again"
)


@addresses_come_again
def test_another_instance_at_the_same_address() -> None:
    """A model is freed, and another one, which must not match, is allocated at its address."""
    met = 0
    for _ in range(50):
        model = torch.nn.Linear(4, 4)
        program = guarded(model)
        make_quick(program, model)
        address = id(model)
        del model
        others = [torch.nn.Linear.__new__(torch.nn.Linear) for _ in range(200)]
        for other in others:
            if id(other) != address:
                continue
            met += 1
            assert not program.check(other)
            other.__dict__.update(torch.nn.Linear(4, 5).__dict__)
            assert not program.check(other)
            other.__dict__.update(torch.nn.Linear(4, 4).__dict__)
            assert program.check(other)
            assert [id(p) for p in program.fetched()] == [id(p) for p in other.parameters()]
        if met > 3:
            return
    assert met > 0, "no address was used again"


@addresses_come_again
def test_something_of_another_kind_at_the_same_address() -> None:
    class First:
        pass

    class Second:
        __slots__ = ("__dict__", "a", "b")

    met = 0
    for _ in range(50):
        found = First()
        found.value = 1
        tree = SourceTree()
        tree.slot(0, "x", found).dict().key("value").constant()
        program = tree.program()
        make_quick(program, found)
        address = id(found)
        tree.forget()
        del found, tree
        others: list[Any] = [(Second if i % 2 else First)() for i in range(200)]
        for other in others:
            if id(other) != address:
                continue
            met += 1
            other.value = 2
            assert not program.check(other)
            other.value = 1
            assert program.check(other)
        if met > 3:
            return
    assert met > 0, "no address was used again"


def test_a_dict_that_is_new_in_each_call() -> None:
    """As the keyword arguments of a call: its items are checked again, and the rest stays quick."""
    model = make_model()
    tree = SourceTree()
    parameters = guard_module(tree.slot(0, "self", model))
    tree.slot(1, "kwargs", {"scale": 2}).typed().guard("Keys", ("scale",)).key("scale").constant()
    program = tree.program(fetched=parameters)
    for _ in range(10):
        assert program.check(model, {"scale": 2})
    assert answers_quickly(program, model, {"scale": 2})
    assert not program.check(model, {"scale": 3})
    assert not program.check(model, {"scale": 2, "shift": 1})
    assert not program.check(model, {})
    assert not program.check(model, OrderedDict(scale=2))
    assert answers_quickly(program, model, {"scale": 2}), "what fails for an argument leaves the record as it is"
    model[0][0].training = False
    assert not program.check(model, {"scale": 2})


def test_a_dict_that_changes_in_each_call() -> None:
    model = make_model()
    program = guarded(model)
    for i in range(40):
        model[0].count = i
        assert program.check(model)
    assert hits(program) > 20, "one block is walked, and the rest is quick"
    model[0].count = 100
    model[0][0].training = False
    assert not program.check(model)


def test_tensors_of_the_call() -> None:
    model = make_model()
    tree = SourceTree()
    parameters = guard_module(tree.slot(0, "self", model))
    given = tree.slot(1, "x", torch.ones(2, 4)).guard("Tensor", torch.ones(2, 4))
    program = tree.program(fetched=[given, *parameters], distinct=[given, *parameters])
    make_quick(program, model, torch.ones(2, 4))
    for _ in range(5):
        x = torch.ones(2, 4)
        assert answers_quickly(program, model, x)
        assert [id(p) for p in program.fetched()] == [id(x), *(id(p) for p in model.parameters())]
        assert not program.check(model, torch.ones(3, 4))
    assert answers_quickly(program, model, torch.zeros(2, 4))


def test_an_argument_that_is_a_parameter() -> None:
    weight = torch.nn.Parameter(torch.ones(4, 4))
    model = make_model()
    tree = SourceTree()
    parameters = guard_module(tree.slot(0, "self", model))
    given = tree.slot(1, "x", weight).guard("Tensor", weight)
    program = tree.program(distinct=[given, *parameters])
    for _ in range(3):
        make_quick(program, model, weight)
        assert not program.check(model, model[1].weight)
        assert "was another object" in program.explain(model, model[0][0].weight)


def test_same_and_different_of_arguments() -> None:
    model = make_model()
    tree = SourceTree()
    node = tree.slot(0, "self", model)
    parameters = guard_module(node)
    left, right = tree.slot(1, "x", 1), tree.slot(2, "y", 1)
    left.guard("Same", other=right)
    left.guard("Different", other=parameters[0])
    program = tree.program()
    thing = object()
    make_quick(program, model, thing, thing)
    assert not program.check(model, thing, object())
    assert not program.check(model, model[0][0].weight, model[0][0].weight)
    assert program.check(model, thing, thing)


def test_classes_and_functions() -> None:
    class Base:
        scale = 2

        def forward(self) -> int:
            return 1

    class Derived(Base):
        pass

    original = Base.forward

    def other(self: Any) -> int:
        return 2

    tree = SourceTree()
    node = tree.pinned(Derived)
    node.class_attribute("scale").constant()
    node.class_attribute("shift").guard("Absent")
    node.class_attribute("forward").guard("Function", Derived.forward)
    program = tree.program()

    def set_code() -> None:
        original.__code__, set_code.kept = other.__code__, original.__code__

    def restore_code() -> None:
        original.__code__ = set_code.kept

    changes = [
        (lambda: setattr(Base, "scale", 3), lambda: setattr(Base, "scale", 2)),
        (lambda: setattr(Derived, "scale", 3), lambda: delattr(Derived, "scale")),
        (lambda: setattr(Base, "shift", 3), lambda: delattr(Base, "shift")),
        (lambda: setattr(Base, "forward", other), lambda: setattr(Base, "forward", original)),
        (set_code, restore_code),
    ]
    for change, restore in changes:
        make_quick(program)
        change()
        assert not program.check()
        assert not program.check()
        restore()
        assert program.check()


def test_lists_cells_and_defaults() -> None:
    """A dict without a version is read in each check, below a dict that has one."""

    def outer(value: Any) -> Any:
        def inner(number: int = 5, *, key: int = 6) -> Any:
            return value, number, key

        return inner

    class Holder:
        pass

    holder = Holder()
    holder.function = outer(3)
    holder.items = [1, [2, 3]]
    holder.plain = 4
    tree = SourceTree()
    node = tree.slot(0, "x", holder).typed()
    items = node.attribute("items").typed().guard("Length", number=2)
    items.item(0).constant()
    items.item(1).typed().item(1).constant()
    function = node.attribute("function").guard("Function", holder.function)
    function.cell(0).contents().constant()
    function.default(0).constant()
    function.keyword_default("key").constant()
    node.attribute("plain").constant()
    program = tree.program()
    inner = holder.function

    def set_cell(value: Any) -> None:
        inner.__closure__[0].cell_contents = value

    changes = [
        (lambda: holder.items.append(1), lambda: holder.items.pop()),
        (lambda: holder.items.__setitem__(0, 7), lambda: holder.items.__setitem__(0, 1)),
        (lambda: holder.items[1].__setitem__(1, 7), lambda: holder.items[1].__setitem__(1, 3)),
        (lambda: holder.items.__setitem__(1, [2]), lambda: holder.items.__setitem__(1, [2, 3])),
        (lambda: set_cell(4), lambda: set_cell(3)),
        (lambda: setattr(inner, "__defaults__", (6,)), lambda: setattr(inner, "__defaults__", (5,))),
        (lambda: setattr(inner, "__kwdefaults__", {"key": 0}), lambda: setattr(inner, "__kwdefaults__", {"key": 6})),
        (lambda: inner.__kwdefaults__.update(key=0), lambda: inner.__kwdefaults__.update(key=6)),
        (lambda: setattr(holder, "function", outer(9)), lambda: setattr(holder, "function", inner)),
    ]
    for change, restore in changes:
        holder.__dict__  # noqa: B018  (an instance without a dict has no version)
        make_quick(program, holder)
        change()
        assert not program.check(holder)
        restore()
        assert program.check(holder)


def test_a_shared_function_is_compared_once() -> None:
    def shared(x: Any = 5) -> Any:
        return x

    class Holder:
        pass

    holder = Holder()
    holder.first = holder.second = shared
    tree = SourceTree()
    node = tree.slot(0, "x", holder).typed()
    for name in ("first", "second"):
        node.attribute(name).guard("Function", shared).member("__defaults__").guard("Identity", shared.__defaults__)
    program = tree.program()
    code, defaults = shared.__code__, shared.__defaults__
    changes = [
        (lambda: setattr(shared, "__code__", (lambda x: 6).__code__), lambda: setattr(shared, "__code__", code)),
        (lambda: setattr(shared, "__defaults__", (6,)), lambda: setattr(shared, "__defaults__", defaults)),
        (lambda: setattr(holder, "second", lambda x: 6), lambda: setattr(holder, "second", shared)),
    ]
    for change, restore in changes:
        holder.__dict__  # noqa: B018  (an instance without a dict has no version)
        make_quick(program, holder)
        assert sum(line.startswith("function code") for line in program.raw.print_quick()) == 1
        change()
        assert not program.check(holder)
        restore()
        assert program.check(holder)


def is_as_guarded(model: torch.nn.Module) -> bool:
    for module in model.modules():
        if not module.training or module._forward_hooks or type(module) is Other:
            return False
        for parameter in module._parameters.values():
            if not parameter.requires_grad or parameter.shape not in [(4, 4), (4,)]:
                return False
    return True


def test_random_changes_agree_with_what_is_guarded() -> None:
    source = random.Random(5)
    model = make_model()
    program = guarded(model)
    answers = {True: 0, False: 0}
    quick = 0
    handles = []
    for _ in range(10000):
        layer = source.choice([model, model[0], model[0][0], model[0][1], model[1]])
        leaf = source.choice([model[0][0], model[1]])
        match source.randrange(1500):
            case 0:
                layer.training = not layer.training
            case 1:
                handles.append(layer.register_forward_hook(hook))
            case 2:
                leaf.weight.data = torch.ones(source.choice([4, 4, 5]), 4)
            case 3:
                leaf.weight.requires_grad_(source.random() < 0.7)
            case 4:
                leaf.weight = torch.nn.Parameter(torch.ones(4, 4))
            case 5:
                leaf.__class__ = source.choice([torch.nn.Linear, Other])
            case 6:
                layer.__dict__ = dict(layer.__dict__)
            case 7:
                layer.extra = source.random()
            case 8 | 9 | 10:
                for handle in handles:
                    handle.remove()
                model.train()
                for leaf in (model[0][0], model[1]):
                    leaf.__class__ = torch.nn.Linear
                    leaf.weight = torch.nn.Parameter(torch.ones(4, 4))
            case _:
                pass
        expected = is_as_guarded(model)
        before = hits(program)
        assert program.check(model) == expected
        quick += hits(program) == before + 1
        answers[expected] += 1
        if expected:
            assert [id(p) for p in program.fetched()] == [id(p) for p in model.parameters()]
    assert min(answers.values()) > 100
    assert quick > 2000


def test_it_holds_nothing() -> None:
    model = make_model()
    program = guarded(model)
    held = len(program.raw.held())
    make_quick(program, model)
    assert len(program.raw.held()) == held
    gone: list[int] = []
    torch.nn.Module.__del__ = lambda self: gone.append(id(self))  # type: ignore[attr-defined]
    try:
        ids = {id(m) for m in model.modules()}
        del model
        gc.collect()
    finally:
        del torch.nn.Module.__del__  # type: ignore[attr-defined]
    assert ids <= set(gone)


def test_nodes_without_a_type() -> None:
    """If no guard fixes the class, the dict is fetched in each check."""

    class Plain:
        pass

    outer, inner = Plain(), Plain()
    outer.inner, inner.value = inner, 1
    outer.__dict__, inner.__dict__  # noqa: B018
    tree = SourceTree()

    def below(node: Node) -> Node:
        return node.dict().key("inner")

    below(tree.slot(0, "x", outer)).dict().key("value").constant()
    program = tree.program()
    make_quick(program, outer)
    inner.value = 2
    assert not program.check(outer)
    inner.value = 1
    make_quick(program, outer)
    inner.__class__ = type("Another", (), {})
    assert program.check(outer)
    make_quick(program, outer)
    inner.__dict__ = {"value": 2}
    assert not program.check(outer)
