"""Every kind of guard: succeeds while its object is unchanged, fails when it changes, and explains the failure."""

import collections
import types
from typing import Any

import pytest
import torch

from tests.guard.source_tree import NOTHING, SourceTree, of_slot


class Box:
    pass


class Text(str):
    pass


Point = collections.namedtuple("Point", "x y")  # noqa: PYI024


class Attributed(tuple):
    pass


# (what was seen, an equal one that is not the same object, one that differs)
CONSTANTS = [
    (1000, lambda: int("1000"), 1001),
    (10**40, lambda: int("1" + "0" * 40), 10**40 + 1),
    (1, lambda: 1, True),
    (0, lambda: 0, False),
    (1, lambda: 1, 1.0),
    (2.5, lambda: float("2.5"), 2.25),
    (0.0, lambda: float("0"), -0.0),
    (float("nan"), lambda: float("nan"), 0.0),
    (1 + 2j, lambda: complex("1+2j"), 1 - 2j),
    (0j, lambda: complex(0, 0), complex(0, -0.0)),
    ("abcd", lambda: "".join(["ab", "cd"]), "abce"),
    ("abcd", lambda: "".join(["ab", "cd"]), Text("abcd")),
    (b"abcd", lambda: b"".join([b"ab", b"cd"]), b"abce"),
    (None, lambda: None, False),
    (..., lambda: ..., None),
    (True, lambda: True, False),
    (range(0, 300, 2), lambda: range(0, 300, 2), range(0, 302, 2)),
    (slice(1000, None), lambda: slice(1000, None), slice(1000, 2)),
    ((1000, "a", (2.5, None)), lambda: (int("1000"), "a", (2.5, None)), (1000, "a", (2.0, None))),
    ((1, 2), lambda: (1, 2), (1, 2, 3)),
    ((1, 0), lambda: (1, 0), (True, 0)),
    (frozenset([1000, "a"]), lambda: frozenset(["a", int("1000")]), frozenset([1000, "b"])),
    (frozenset([1]), lambda: frozenset([1]), frozenset([True])),
    (torch.float32, lambda: torch.float32, torch.float64),
    (torch.device("cpu", 0), lambda: torch.device("cpu", 0), torch.device("cpu")),
    (torch.Size([1000, 3]), lambda: torch.Size([1000, 3]), torch.Size([1000, 4])),
    (torch.Size([1000, 3]), lambda: torch.Size([1000, 3]), (1000, 3)),
    (Point(1000, 2), lambda: Point(int("1000"), 2), Point(1000, 3)),
    (torch.strided, lambda: torch.strided, torch.sparse_coo),
    (int, lambda: int, bool),
]


@pytest.mark.parametrize(("seen", "equal", "other"), CONSTANTS)
def test_constant(seen: Any, equal: Any, other: Any) -> None:
    program = of_slot(seen, lambda x: x.constant())
    assert program.check(seen)
    assert program.check(equal())
    assert not program.check(other)
    assert not program.check(Box())
    assert program.check(seen)
    assert program.explain(other).startswith("L['x'] is ")


def test_constants_of_unknown_classes_are_compared_by_identity() -> None:
    class Loud:
        def __eq__(self, other: object) -> bool:
            raise AssertionError("user code")

        __hash__ = None  # type: ignore[assignment]

    for seen, other in [(Loud(), Loud()), (Attributed([1]), Attributed([1])), (torch.finfo(), torch.finfo())]:
        program = of_slot(seen, lambda x: x.constant())
        assert program.check(seen)
        assert not program.check(other)
    program = of_slot((1, Loud()), lambda x: x.constant())
    assert not program.check((1, Loud()))


def test_structseq_hides_items_behind_its_length() -> None:
    import os

    now = os.stat(__file__)
    program = of_slot(now, lambda x: x.constant())
    assert program.check(now)
    assert not program.check(os.stat_result(tuple(now)))


def test_words_for_constants() -> None:
    assert of_slot(2, lambda x: x.constant()).explain(3) == "L['x'] is 3, was 2"
    assert of_slot(0.0, lambda x: x.constant()).explain(-0.0) == "L['x'] is -0.0, was 0.0"
    assert of_slot("a", lambda x: x.constant()).explain(None) == "L['x'] is None, was 'a'"
    assert of_slot("a", lambda x: x.constant()).explain("a") == ""


def test_type() -> None:
    program = of_slot((1,), lambda x: x.typed())
    assert program.check((2, 3))
    assert not program.check(Point(1, 2))
    assert program.explain([1]) == "type of L['x'] is list, was tuple"


def test_type_of_an_instance_that_changes_its_class() -> None:
    class Other:
        pass

    box = Box()
    holder = {"box": box}
    program = of_slot(holder, lambda x: x.key("box").typed())
    assert program.check(holder)
    box.__class__ = Other
    assert not program.check(holder), "the dict did not change, the class of its value did"


def test_type_of_a_constant_that_changes_its_class() -> None:
    class Coordinates(Point):
        __slots__ = ()

    class Same(Point):
        __slots__ = ()

    point = Same(1, 2)
    holder = {"point": point}
    program = of_slot(holder, lambda x: x.key("point").typed().constant())
    assert program.check(holder)
    point.__class__ = Coordinates
    assert not program.check(holder)


def test_identity() -> None:
    box, other = Box(), Box()
    program = of_slot(box, lambda x: x.guard("Identity", box))
    assert program.check(box)
    assert not program.check(other)
    assert program.explain(other) == f"L['x'] is another {__name__}.Box than before"
    assert program.explain(3) == f"L['x'] is 3, was <{__name__}.Box>"


def test_function_is_known_by_code_and_globals() -> None:
    def make(offset: int) -> Any:
        def add(x: int) -> int:
            return x + offset

        return add

    first, second = make(1), make(2)
    program = of_slot(first, lambda x: x.guard("Function", first))
    assert program.check(first)
    assert program.check(second), "another closure of the same code"
    elsewhere = types.FunctionType(first.__code__, {}, "add", None, first.__closure__)
    assert (
        program.explain(elsewhere) == f"L['x'] is {make.__qualname__}.<locals>.add with different globals than before"
    )
    assert program.explain(test_identity).startswith("L['x'] is the function test_identity, was ")
    assert program.explain(3).startswith("L['x'] is of type int, was the function ")
    second.__code__ = make(3).__code__.replace(co_consts=(None, "changed"))
    assert "with different code than before" in program.explain(second)


@pytest.mark.parametrize("kind", [tuple, list, collections.deque, set, frozenset, torch.Size])
def test_length(kind: Any) -> None:
    program = of_slot(kind([1, 2]), lambda x: x.guard("Length", number=2))
    assert program.check(kind([3, 4]))
    assert program.explain(kind([1, 2, 3])) == "L['x'] has 3 items, had 2"
    assert program.explain(kind([1])) == "L['x'] has 1 item, had 2"
    assert not program.check(5)


def test_length_of_a_dict_that_grows() -> None:
    seen = {1: 2}
    program = of_slot(seen, lambda x: x.guard("Length", number=1))
    assert program.check(seen)
    assert program.check(seen)
    seen[3] = 4
    assert not program.check(seen)
    assert program.explain(seen) == "L['x'] has 2 items, had 1"
    del seen[1]
    assert program.check(seen)
    assert not program.check([1])


def test_missing_key() -> None:
    seen = {"a": 1, 5: 2}
    program = of_slot(seen, lambda x: x.guard("HasNoKey", "b").guard("HasNoKey", 6).guard("HasNoKey", Box))
    assert program.check(seen)
    for key in ("b", 6, Box):
        seen[key] = 1
        assert not program.check(seen)
        assert program.explain(seen).endswith(", had not")
        del seen[key]
        assert program.explain(seen) == ""


def test_keys_and_their_order() -> None:
    seen = {"a": 1, "b": 2, 3: 4}
    program = of_slot(seen, lambda x: x.guard("Keys", ("a", "b", 3)))
    assert program.check(seen)
    assert program.check({"a": 5, "b": 6, 3: 7})
    assert not program.check({"b": 6, "a": 5, 3: 7})
    assert not program.check({"a": 5, "b": 6, 3.0: 7})
    assert not program.check({"a": 5, "b": 6})
    assert not program.check(collections.OrderedDict({"a": 5, "b": 6, 3: 7})), "which has an order of its own"
    assert program.explain({"b": 6, "a": 5}) == "keys of L['x'] are ('b', 'a'), were ('a', 'b', 3)"
    seen["a"] = 10
    assert program.check(seen)
    seen["c"] = seen.pop("a")
    assert not program.check(seen)


def test_order_of_an_ordered_dict_changes_without_its_version() -> None:
    seen = collections.OrderedDict(a=1, b=2)
    program = of_slot(seen, lambda x: x.guard("Keys", ("a", "b")))
    assert program.check(seen)
    seen.move_to_end("a")
    assert not program.check(seen)
    assert program.explain(seen) == "keys of L['x'] are ('b', 'a'), were ('a', 'b')"
    seen.move_to_end("b")
    assert program.check(seen)
    assert not program.check({"a": 1, "b": 2})


def test_elements() -> None:
    seen = {"a", "b", 1000, None}
    program = of_slot(seen, lambda x: x.guard("Elements", frozenset(seen)))
    assert program.check(seen)
    assert program.check(set(seen))
    assert not program.check(seen - {"a"})
    assert not program.check(seen | {"c"})
    assert not program.check({"a", "b", 1001, None})
    assert not program.check(list(seen))
    seen.discard("a")
    assert not program.check(seen)
    assert program.explain(seen).startswith("elements of L['x'] are (")
    seen.add("a")
    # A removed element leaves a mark behind that is no element; iteration may have another order now.
    assert program.check(seen) == (list(seen) == list(set(seen)))


def test_equal_sets_that_iterate_differently_differ() -> None:
    one, other = {0, 8}, {8, 0}
    if list(one) == list(other):
        pytest.skip("this Python orders them alike")
    program = of_slot(one, lambda x: x.guard("Elements", frozenset(one)))
    assert program.check({0, 8})
    assert not program.check(other)


def test_absent_slot_cell_and_attribute() -> None:
    tree = SourceTree()
    tree.slot(0, "x", NOTHING).guard("Absent")
    program = tree.program()
    assert program.check(NOTHING)
    assert program.explain(None) == "L['x'] exists, did not before"

    cell = types.CellType()
    program = of_slot(cell, lambda x: x.contents().guard("Absent"))
    assert program.check(cell)
    cell.cell_contents = None
    assert not program.check(cell)
    del cell.cell_contents
    assert program.check(cell)
    assert not program.check(3)

    class Grows:
        pass

    tree = SourceTree()
    tree.pinned(Grows).class_attribute("later").guard("Absent")
    program = tree.program()
    assert program.check()
    assert program.check()
    Grows.later = 3
    assert not program.check()
    assert program.explain() == f"{__name__}.{Grows.__qualname__}.later exists, did not before"


def test_present() -> None:
    seen = {"a": 1}
    program = of_slot(seen, lambda x: x.key("a").guard("Present"))
    assert program.check(seen)
    assert program.check({"a": None})
    del seen["a"]
    assert program.explain(seen) == "L['x']['a'] does not exist any more: L['x'] is of type dict"
    assert program.explain(4) == "L['x'] is of type int, was a dict"

    cell = types.CellType(5)
    program = of_slot(cell, lambda x: x.contents().guard("Present"))
    assert program.check(cell)
    assert not program.check(types.CellType())


TENSOR_CHANGES = [
    (lambda: torch.ones(9, 4), "size of dimension 0 is 9, was 8"),
    (lambda: torch.ones(8, 4, 1), "number of dimensions is 3, was 2"),
    (lambda: torch.ones(4, 8).t(), "stride of dimension 0 is 1, was 4"),
    (lambda: torch.ones(8, 4, dtype=torch.float64), "dtype is torch.float64, was torch.float32"),
    (lambda: torch.ones(8, 4, requires_grad=True), "requires_grad is True, was False"),
    (lambda: torch.nn.Parameter(torch.ones(8, 4)), "type is torch.nn.parameter.Parameter, was torch.Tensor"),
    (lambda: torch.ones(8, 4, device="meta"), "device is meta, was cpu"),
    (lambda: 3, "type is int, was torch.Tensor"),
]


@pytest.mark.parametrize(("change", "words"), TENSOR_CHANGES)
def test_tensor(change: Any, words: str) -> None:
    seen = torch.ones(8, 4)
    program = of_slot(seen, lambda x: x.typed().guard("Tensor", seen))
    assert program.check(seen)
    assert program.check(torch.zeros(8, 4))
    assert not program.check(change())
    assert program.explain(change()) == f"L['x']: {words}"


def test_same_and_different() -> None:
    a, b = Box(), Box()
    tree = SourceTree()
    x, y, z = tree.slot(0, "x", a), tree.slot(1, "y", a), tree.slot(2, "z", b)
    x.guard("Same", other=y)
    x.guard("Different", other=z)
    program = tree.program()
    assert program.check(a, a, b)
    assert program.check(b, b, a)
    assert program.explain(a, b, b) == "L['x'] is not L['y'], was the same object"
    assert program.explain(a, a, a) == "L['x'] is L['z'], was another object"


def test_all_distinct() -> None:
    boxes = [Box() for _ in range(40)]
    tree = SourceTree()
    nodes = [tree.slot(i, f"x{i}", box) for i, box in enumerate(boxes)]
    program = tree.program(distinct=nodes)
    assert program.check(*boxes)
    fresh = [Box(), *boxes[1:]]
    assert program.check(*fresh)
    assert program.explain(*boxes[:-1], boxes[3]) == "L['x39'] is L['x3'], was another object"
    assert program.check(*boxes)
    assert program.check(*reversed(boxes))
    assert not program.check(boxes[1], *boxes[1:])
    assert program.check(*fresh)


def test_all_distinct_agrees_with_a_set() -> None:
    import random

    source = random.Random(5)
    pool = [Box() for _ in range(12)]
    tree = SourceTree()
    chosen = source.sample(pool, 9)
    program = tree.program(distinct=[tree.slot(i, f"x{i}", box) for i, box in enumerate(chosen)])
    answers = set()
    for _ in range(3000):
        for _ in range(source.choice([0, 1, 1, 2, 5])):
            chosen[source.randrange(9)] = source.choice(pool)
        if source.random() < 0.3:
            chosen = source.sample(pool, 9)
        expected = len(set(map(id, chosen))) == 9
        answers.add(expected)
        assert program.check(*chosen) == expected
    assert answers == {True, False}


class Valued:
    """Equal by value, with a user-defined `__eq__`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Valued)

    def __hash__(self) -> int:
        return 3


def test_keys_with_code_of_their_own() -> None:
    key = Valued()
    seen = {key: 1, "a": 2}
    program = of_slot(seen, lambda x: x.key(key).constant())
    assert program.check(seen)
    assert not program.check({Valued(): 1}), "found by identity alone"
    with pytest.raises(RuntimeError, match="looking up the key would run user code"):
        of_slot({"a": 1}, lambda x: x.guard("HasNoKey", key))
    with pytest.raises(RuntimeError, match="looking up the key would run user code"):
        of_slot(seen, lambda x: x.key(Valued()).constant())
    program = of_slot({1: 2}, lambda x: x.guard("HasNoKey", 5))
    assert program.check({1: 3})
    assert "without running their code" in program.explain({Valued(): 3})
    program = of_slot({1: 2}, lambda x: x.guard("HasNoKey", Box))
    assert program.check({"a": 3})
    assert not program.check({Valued(): 3})
