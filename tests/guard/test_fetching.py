"""Every access of a source: found again, changed, removed, and replaced by an object of another class."""

import collections
import functools
import gc
import types
from typing import Any

import pytest
import torch

from tests.guard.source_tree import NOTHING, Program, SourceTree, of_slot

#: Objects that any source may hold when it is checked. None of them may crash a check.
ANYTHING = [None, 3, "text", (), (1,), [], [1], {}, {"a": 1}, {1: 2}, {1}, int, len, lambda: 0, types.CellType(), torch.ones(1),
            types, object(), types.MethodType(len, 3), range(3), NotImplementedError()]  # fmt: skip


class Slotted:
    __slots__ = ("empty", "full")

    def __init__(self) -> None:
        self.full = 5


class Plain:
    def method(self) -> int:
        return 1


def closing_over(value: Any) -> Any:
    def inner(x: int = 1, y: int = 2, *, z: int = 3) -> Any:
        return value

    return inner


def with_attribute() -> Plain:
    plain = Plain()
    plain.a = 1
    return plain


def module() -> types.ModuleType:
    made = types.ModuleType("made")
    made.a = 1
    return made


# (name, what is in the slot, how the source is reached, the text of it)
WAYS = [
    ("item of tuple", lambda: (1, 2), lambda x: x.item(1), "L['x'][1]"),
    ("item of list", lambda: [1, 2], lambda x: x.item(1), "L['x'][1]"),
    ("item of deque", lambda: collections.deque([1, 2]), lambda x: x.item(1), "L['x'][1]"),
    ("key", lambda: {"a": 1}, lambda x: x.key("a"), "L['x']['a']"),
    ("number key", lambda: {7: 1}, lambda x: x.key(7), "L['x'][7]"),
    ("class key", lambda: {int: 1}, lambda x: x.key(int), "L['x'][int]"),
    ("key of ordered", lambda: collections.OrderedDict(a=1), lambda x: x.key("a"), "L['x']['a']"),
    ("globals", lambda: closing_over(1), lambda x: x.globals(), "L['x'].__globals__"),
    ("builtins", lambda: closing_over(1), lambda x: x.builtins(), "builtins"),
    ("closure", lambda: closing_over(1), lambda x: x.cell(0).contents(), "L['x'].__closure__[0].cell_contents"),
    ("default", lambda: closing_over(1), lambda x: x.default(1), "L['x'].__defaults__[1]"),
    ("keyword default", lambda: closing_over(1), lambda x: x.keyword_default("z"), "L['x'].__kwdefaults__['z']"),
    ("attribute", with_attribute, lambda x: x.attribute("a"), "L['x'].a"),
    ("instance dict", with_attribute, lambda x: x.dict(), "L['x'].__dict__"),
    ("of module", module, lambda x: x.attribute("a"), "L['x'].a"),
    ("of function", lambda: functools.wraps(with_attribute)(closing_over(1)), lambda x: x.attribute("__wrapped__"), "L['x'].__wrapped__"),
    ("class attribute", lambda: Plain, lambda x: x.class_attribute("method"), "L['x'].method"),
    ("slot member", Slotted, lambda x: x.member("full"), "L['x'].full"),
    ("member of slice", lambda: slice(1, 2), lambda x: x.member("stop"), "L['x'].stop"),
    ("computed member", lambda: 2 + 3j, lambda x: x.member("imag"), "L['x'].imag"),
    ("member of partial", lambda: functools.partial(len, 3), lambda x: x.member("func"), "L['x'].func"),
    ("code", lambda: closing_over(1), lambda x: x.member("__code__"), "L['x'].__code__"),
    ("defaults", lambda: closing_over(1), lambda x: x.member("__defaults__"), "L['x'].__defaults__"),
    ("no defaults", lambda: with_attribute, lambda x: x.member("__defaults__"), "L['x'].__defaults__"),
    ("keyword defaults", lambda: closing_over(1), lambda x: x.member("__kwdefaults__"), "L['x'].__kwdefaults__"),
    ("method self", lambda: Plain().method, lambda x: x.method_self(), "L['x'].__self__"),
    ("method function", lambda: Plain().method, lambda x: x.method_function(), "L['x'].__func__"),
]  # fmt: skip


def leads_somewhere(thing: Any, reach: Any) -> bool:
    try:
        return reach(SourceTree().slot(0, "x", thing)).object is not NOTHING
    except (AttributeError, TypeError, IndexError, KeyError, RuntimeError):
        return False


@pytest.mark.parametrize(("make", "reach", "text"), [way[1:] for way in WAYS], ids=[way[0] for way in WAYS])
def test_way(make: Any, reach: Any, text: str) -> None:
    seen = make()
    tree = SourceTree()
    node = reach(tree.slot(0, "x", seen))
    node.guard("Present")
    program = tree.program(fetched=[node])
    for _ in range(2):
        assert program.check(seen)
        (found,) = program.fetched()
        assert found is node.object or found == node.object
    again = make()
    assert program.check(again), "what matters is the way, not the object"
    assert program.print() == f"{text} exists"
    for thing in ANYTHING:
        if not leads_somewhere(thing, reach):
            assert not program.check(thing)
            assert program.explain(thing) != ""
    assert program.check(seen)
    assert program.explain(NOTHING) == "L['x'] is unbound, was not before"


def test_bounds() -> None:
    for kind in (tuple, list):
        program = of_slot(kind([1, 2, 3]), lambda x: x.item(2).guard("Present"))
        assert program.check(kind("abc"))
        assert program.explain(kind("ab")) == f"L['x'][2] does not exist any more: L['x'] is of type {kind.__name__}"
        assert not program.check(kind())
    program = of_slot(closing_over(1), lambda x: x.default(1).guard("Present"))
    changed = closing_over(1)
    changed.__defaults__ = (5,)
    assert not program.check(changed)
    changed.__defaults__ = None
    assert not program.check(changed)


def test_empty_slot_member() -> None:
    seen = Slotted()
    program = of_slot(seen, lambda x: x.member("empty").guard("Absent"))
    assert program.check(seen)
    seen.empty = 1
    assert program.explain(seen) == "L['x'].empty exists, did not before"
    del seen.empty
    assert program.check(seen)


def test_locals_globals_and_closure_of_the_entered_function() -> None:
    value = 4
    scale = {"scale": 2, "__builtins__": __builtins__}
    code = closing_over(value).__code__
    function = types.FunctionType(code, scale, "f", (1, 2), (types.CellType(value),))
    tree = SourceTree()
    root = tree.function(function)
    root.globals().key("scale").constant()
    root.cell(0).contents("value").constant()
    root.builtins().key("len").guard("Identity", len)
    program = tree.program()
    assert program.print() == "G['scale'] is 2\nL['value'] is 4\nbuiltins['len'] is the same builtin_function_or_method"
    assert program.check(function=function)
    scale["scale"] = 3
    assert program.explain(function=function) == "G['scale'] is 3, was 2"
    scale["scale"] = 2
    function.__closure__[0].cell_contents = 5
    assert program.explain(function=function) == "L['value'] is 5, was 4 (closure variable value)"
    del function.__closure__[0].cell_contents
    assert not program.check(function=function)
    assert not program.check(function=len)


def test_attribute_of_an_instance_without_a_dict() -> None:
    def fresh(training: bool) -> Plain:
        plain = Plain()
        plain.training = training
        return plain

    tree = SourceTree()
    node = tree.slot(0, "self", fresh(True))
    node.typed()
    node.attribute("training").constant()
    node.dict().guard("HasNoKey", "other")
    program = tree.program()
    for _ in range(3):
        assert program.check(fresh(True))
        assert program.explain(fresh(False)) == "L['self'].training is False, was True"
    kept = fresh(True)
    assert program.check(kept)
    kept.training = False
    assert not program.check(kept)
    kept.training = True
    assert program.check(kept)
    assert vars(kept) == {"training": True}
    assert program.check(kept)
    kept.other = 1
    assert program.explain(kept) == "L['self'].__dict__ has the key 'other', had not"
    del kept.other
    kept.__dict__ = {"training": False}
    assert not program.check(kept)
    kept.__dict__ = {"training": True}
    assert program.check(kept)
    del kept.training
    assert program.explain(kept).startswith("L['self'].training does not exist any more")


def test_keys_of_an_instance_need_its_dict() -> None:
    plain = with_attribute()
    program = of_slot(plain, lambda x: x.dict().guard("Keys", ("a",)))
    assert program.check(with_attribute())
    assert program.check(plain)
    plain.b = 2
    assert not program.check(plain)
    assert not program.check(3)


def test_sources_may_be_gone_when_the_program_is_used() -> None:
    seen = {f"key {i}": [i] for i in range(50)}
    tree = SourceTree()
    root = tree.slot(0, "x", seen)
    for key in seen:
        root.key(key).item(0).constant()
    program = tree.program()
    del tree, root
    gc.collect()
    assert program.check({f"key {i}": [i] for i in range(50)})
    assert program.explain({f"key {i}": [i + (i == 30)] for i in range(50)}) == "L['x']['key 30'][0] is 31, was 30"


def test_reading_from_what_is_absent_is_refused() -> None:
    tree = SourceTree()
    node = tree.slot(0, "x", {"a": {}}).key("a")
    node.guard("Absent")
    node.key("b").guard("Absent")
    with pytest.raises(RuntimeError, match="an absent source has children"):
        tree.program()


def test_what_is_computed_is_released() -> None:
    import sys

    seen = 2 + 3.5j
    tree = SourceTree()
    node = tree.slot(0, "x", seen).member("imag")
    program = tree.program(fetched=[node])
    assert program.check(seen)
    (found,) = program.fetched()
    assert found == 3.5
    count = sys.getrefcount(found)
    assert program.check(1 + 4j)
    assert sys.getrefcount(found) == count - 1
    assert program.fetched() == [4.0]


def referents(program: Program) -> list:
    return program.raw.held()


def test_what_a_program_keeps() -> None:
    import sys
    import weakref

    class Model:
        pass

    tensor, model, code = torch.ones(3), Model(), closing_over(1)
    tree = SourceTree()
    tree.slot(0, "x", tensor).guard("Tensor", tensor)
    tree.slot(1, "self", model).guard("Identity", model)
    tree.slot(2, "f", code).guard("Function", code)
    tensor_alive, function_alive, model_alive = weakref.ref(tensor), weakref.ref(code), weakref.ref(model)
    program = tree.program(fetched=[])
    assert program.check(tensor, model, code)
    held = referents(program)
    assert any(thing is model for thing in held)
    assert any(thing is code.__code__ for thing in held)
    assert torch.Tensor in held
    assert not any(thing is tensor or thing is code for thing in held)
    del tree, tensor, code, held, model
    gc.collect()
    assert tensor_alive() is None
    assert function_alive() is None
    references = sys.getrefcount(model_alive())
    assert references == 2, "the program's and the argument's"
    del program
    assert model_alive() is None


def test_cycles_through_a_program_are_collected() -> None:
    import weakref

    class Model:
        pass

    model = Model()
    tree = SourceTree()
    tree.slot(0, "self", model).guard("Identity", model)
    model.program = tree.program().raw
    alive = weakref.ref(model)
    del tree, model
    gc.collect()
    assert alive() is None


def test_building_and_checking_leak_nothing() -> None:
    import sys

    model = torch.nn.Linear(3, 3)

    def once() -> None:
        tree = SourceTree()
        node = tree.slot(0, "self", model).typed()
        node.attribute("weight").guard("Tensor", model.weight)
        node.attribute("training").constant()
        program = tree.program(fetched=[node.attribute("bias")])
        assert program.check(model)
        assert not program.check(3)
        assert program.explain(3) != ""

    once()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in (model, model.weight, torch.nn.Linear, model._parameters)]
    blocks = sys.getallocatedblocks()
    for _ in range(200):
        once()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in (model, model.weight, torch.nn.Linear, model._parameters)] == before
    assert sys.getallocatedblocks() - blocks < 50
