"""With dict watchers, an unchanged model is checked without reading dict versions, and every change is detected."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from tests.guard.source_tree import Program, SourceTree
from tests.guard.test_quick import guarded, make_model, make_quick
from tests.support.processes import fresh

HAS_WATCHERS = sys.version_info >= (3, 12)
#: A dict that was reported is no longer watched, so that it can keep changing.
UNWATCHES_AT_A_CHANGE = sys.version_info >= (3, 13)


def answers_watched(program: Program, *slots: Any) -> bool:
    before = program.raw.watched_hits()
    assert program.check(*slots)
    return program.raw.watched_hits() == before + 1


def make_watched(program: Program, *slots: Any) -> None:
    make_quick(program, *slots)
    assert answers_watched(program, *slots) == HAS_WATCHERS


def of_table(holder: dict, table: dict) -> Program:
    """Guards `holder['table']`: the key 'a' is 1, 'b' is absent."""
    tree = SourceTree()
    node = tree.slot(0, "x", holder).key("table").typed()
    node.key("a").constant()
    node.guard("HasNoKey", "b")
    program = tree.program()
    tree.forget()
    return program


def test_an_unchanged_model_is_answered_for_by_the_watchers() -> None:
    model = make_model()
    program = guarded(model)
    make_watched(program, model)
    before = program.raw.watched_hits()
    for _ in range(10):
        assert program.check(model)
    assert program.raw.watched_hits() == (before + 10 if HAS_WATCHERS else 0)
    assert [id(p) for p in program.fetched()] == [id(p) for p in model.parameters()]


def merge(table: dict, other: dict) -> None:
    table |= other


CHANGES: dict[str, Callable[[dict], object]] = {
    "set another value": lambda table: table.__setitem__("a", 2),
    "set a new key": lambda table: table.__setitem__("b", 2),
    "delete": lambda table: table.__delitem__("a"),
    "pop": lambda table: table.pop("a"),
    "popitem": lambda table: table.popitem(),
    "clear": lambda table: table.clear(),
    "update": lambda table: table.update(a=2),
    "update by pairs": lambda table: table.update([("b", 2)]),
    "merge": lambda table: merge(table, {"a": 3}),
    "merge a new key": lambda table: merge(table, {"b": 3}),
    "setdefault": lambda table: table.setdefault("b", 1),
    "init": lambda table: table.__init__(a=2),
    "clear and fill": lambda table: (table.clear(), table.update({"a": 4, "c": 5})),
    "exec": lambda table: exec("a = 2", table),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_a_dict_is_noticed(change: Callable[[dict], object]) -> None:
    table = {"a": 1}
    holder = {"table": table}
    program = of_table(holder, table)
    make_watched(program, holder)
    for _ in range(3):
        change(table)
        assert not program.check(holder)
        table.clear()
        table["a"] = 1
        make_watched(program, holder)


ATTRIBUTE_CHANGES: dict[str, Callable[[Any], object]] = {
    "set": lambda thing: setattr(thing, "a", 2),
    "set a new one": lambda thing: setattr(thing, "b", 2),
    "delete": lambda thing: delattr(thing, "a"),
    "vars": lambda thing: vars(thing).update(a=2),
    "pop": lambda thing: vars(thing).pop("a"),
    "another dict": lambda thing: setattr(thing, "__dict__", {"a": 2}),
    "another dict, the old one lives": lambda thing: setattr(
        thing, "__dict__", {**vars(thing), "kept": vars(thing), "a": 2}
    ),
    "no dict": lambda thing: delattr(thing, "__dict__"),
    "another class": lambda thing: setattr(thing, "__class__", type("Another", (), {})),
}


class Thing:
    def __init__(self) -> None:
        self.a = 1


def of_thing(holder: dict) -> Program:
    tree = SourceTree()
    node = tree.slot(0, "x", holder).key("thing").typed()
    node.dict().key("a").constant()
    node.dict().guard("HasNoKey", "b")
    program = tree.program()
    tree.forget()
    return program


@pytest.mark.parametrize("change", ATTRIBUTE_CHANGES.values(), ids=ATTRIBUTE_CHANGES)
@pytest.mark.parametrize("has_dict", [False, True])
def test_every_change_of_an_instance_is_noticed(change: Callable[[Any], object], has_dict: bool) -> None:
    thing = Thing()
    if has_dict:
        thing.__dict__  # noqa: B018
    holder = {"thing": thing}
    program = of_thing(holder)
    for _ in range(300):
        assert program.check(holder)
    change(thing)
    for _ in range(3):
        assert not program.check(holder)


def store(thing: Thing, value: int) -> None:
    thing.a = value


def test_stores_that_python_has_specialized_are_noticed() -> None:
    things = [Thing() for _ in range(50)]
    for thing in things:
        thing.__dict__  # noqa: B018
    for _ in range(20):
        for thing in things:
            store(thing, 1)
    holder = {"thing": things[0]}
    program = of_thing(holder)
    for _ in range(300):
        assert program.check(holder)
    for _ in range(10):
        store(things[0], 2)
        assert not program.check(holder)
        store(things[0], 1)
        assert program.check(holder)
        make_quick(program, holder)


def test_a_dict_that_is_freed_is_noticed() -> None:
    holder = {"table": {"a": 1}}
    program = of_table(holder, holder["table"])
    make_watched(program, holder)
    for i in range(50):
        del holder["table"]
        # One of these is likely to get the address of the old one.
        tables = [{"a": 2 + i} for _ in range(20)]
        for table in tables:
            holder["table"] = table
            assert not program.check(holder)
        holder["table"] = {"a": 1}
        assert program.check(holder)


def test_one_dict_below_several_programs() -> None:
    table = {"a": 1}
    holders = [{"table": table, "number": i} for i in range(4)]
    programs = [of_table(holder, table) for holder in holders]
    for program, holder in zip(programs, holders):
        make_watched(program, holder)
    for value in (2, 3):
        table["a"] = value
        assert not any(program.check(holder) for program, holder in zip(programs, holders))
        table["a"] = 1
        for program, holder in zip(programs, holders):
            make_watched(program, holder)


def test_the_change_of_another_dict_costs_one_look() -> None:
    mine, other = {"table": {"a": 1}}, {"table": {"a": 1}}
    program, another = of_table(mine, mine["table"]), of_table(other, other["table"])
    make_watched(another, other)
    make_watched(program, mine)
    other["table"]["a"] = 2
    assert not answers_watched(program, mine), "something changed, so the versions were read"
    assert answers_watched(program, mine) == HAS_WATCHERS
    assert not another.check(other)


@pytest.mark.skipif(not UNWATCHES_AT_A_CHANGE, reason="this Python goes on watching a dict that has changed")
def test_a_dict_that_goes_on_changing_holds_up_nobody() -> None:
    mine, other = {"table": {"a": 1}}, {"table": {"a": 1}}
    program, another = of_table(mine, mine["table"]), of_table(other, other["table"])
    make_watched(another, other)
    make_watched(program, mine)
    other["table"]["a"] = 0
    assert program.check(mine)
    for i in range(10):
        other["table"]["a"] = i
        assert answers_watched(program, mine)


def test_programs_that_are_gone_are_not_missed() -> None:
    table = {"a": 1}
    holder = {"table": table}
    for i in range(300):
        program = of_table(holder, table)
        for _ in range(8):
            assert program.check(holder)
        if i % 3 == 0:
            del program
        table["a"] = 2
        if i % 3 != 0:
            assert not program.check(holder)
        table["a"] = 1


def test_threads_that_change_and_check() -> None:
    tables = [{"a": 1} for _ in range(8)]
    holders = [{"table": table} for table in tables]
    programs = [of_table(holder, table) for holder, table in zip(holders, tables)]
    locks = [threading.Lock() for _ in tables]
    wrong: list[str] = []

    def work(number: int) -> None:
        for i in range(4000):
            k = (i * 7 + number) % 8
            with locks[k]:
                if i % 97 == number:
                    tables[k]["a"] = 3 - tables[k]["a"]
                answer = programs[k].check(holders[k])
                if answer != (tables[k]["a"] == 1):
                    wrong.append(f"thread {number}, step {i}: {answer} for {tables[k]}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0
        self.table = {"shift": 1.0}
        self.inner = torch.nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.scale + self.table["shift"]


def assert_same(model: torch.nn.Module, compiled: Any, x: torch.Tensor) -> None:
    torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)


def test_a_compiled_model_that_changes_after_many_calls() -> None:
    model = Scaled()
    compiled = stator.compile(model, backend="eager", dynamic=False)
    x = torch.ones(2, 2)

    def replace_table() -> None:
        model.table = {"shift": 4.0}

    changes: list[Callable[[], object]] = [
        lambda: setattr(model, "scale", 3.0),
        lambda: model.table.update(shift=2.0),
        lambda: merge(model.table, {"shift": 3.0}),
        replace_table,
        lambda: setattr(model, "inner", torch.nn.Linear(2, 2)),
        lambda: model.inner.register_forward_hook(lambda module, args, output: output * 2),
        lambda: model.inner._forward_hooks.clear(),
        lambda: setattr(model.inner, "forward", lambda x: x),
        lambda: delattr(model.inner, "forward"),
        lambda: model.inner._parameters.update(bias=None),
    ]
    for change in changes:
        for _ in range(8):
            assert_same(model, compiled, x)
        change()
        assert_same(model, compiled, x)


def test_compiling_and_forgetting_again_and_again() -> None:
    x = torch.ones(2, 2)
    model = Scaled()
    for i in range(30):
        compiled = stator.compile(model, backend="eager", dynamic=False)
        for _ in range(6):
            assert_same(model, compiled, x)
        model.table["shift"] = float(i)
        assert_same(model, compiled, x)
        stator.reset()
        model.scale = float(i)
        if i % 10 == 9:
            model = Scaled()


@pytest.mark.skipif(not HAS_WATCHERS, reason="this Python has no watchers")
def test_without_a_free_watcher_versions_are_read() -> None:
    script = """
        import ctypes
        from tests.guard.test_watched_dicts import of_table
        from tests.guard.test_quick import answers_quickly, make_quick
        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, *[ctypes.c_void_p] * 3)(lambda *_: 0)
        taken = 0
        try:
            while ctypes.pythonapi.PyDict_AddWatcher(callback) >= 0:
                taken += 1
        except RuntimeError:
            pass
        assert taken > 0
        holder = {"table": {"a": 1}}
        program = of_table(holder, holder["table"])
        make_quick(program, holder)
        for _ in range(5):
            assert answers_quickly(program, holder)
        assert program.raw.watched_hits() == 0
        holder["table"]["a"] = 2
        assert not program.check(holder)
        print("as it should be")
    """
    assert fresh(script) == "as it should be"
