"""`id()` of tensors, containers, constants, and objects that are created in the captured region."""

import pytest
import torch

import stator
from tests.support.counting import counted_calls
from tests.support.harness import T, same

GLOBAL_LIST = [1, 2]
GLOBAL_DICT = {"a": 1}
KNOWN = {123456: "known"}
SMALL = {3: "small", "name": "text", None: "none"}


class Plain:
    pass


def test_objects_are_compared_by_id():
    def program(x, y):
        made, other = [x], [x]
        same_tensor, two_tensors = id(x) == id(x), id(x) != id(y)
        return x + 1, id(made) == id(made), id(made) == id(other), same_tensor, two_tensors, id(None) == id(None)

    same(program, T(3), T(3), compare_dynamo=False)


def test_one_tensor_or_two():
    def program(x, y):
        return (x + y, 1) if id(x) == id(y) else (x - y, 2)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x, y = torch.randn(3), torch.randn(3)
    for first, second in ((x, y), (x, x), (y, x), (y, y), (x.clone(), y)):
        result, which = compiled(first, second)
        expected, of_uncompiled = program(first, second)
        assert which == of_uncompiled
        assert torch.equal(result, expected)


def test_tables_by_id():
    def program(x, y):
        memo = {id(x): "x", id(GLOBAL_LIST): "list", 3: "three", "k": "text"}
        found = [memo.get(id(one)) for one in (x, y, GLOBAL_LIST, GLOBAL_DICT)]
        memo[id(x)] = "again"
        del memo[id(GLOBAL_LIST)]
        seen = set()
        for one in (x, y, x, memo, memo):
            if id(one) in seen:
                found.append("seen")
            seen.add(id(one))
        return x + y, found, list(memo.values()), len(seen), memo[3], memo["k"], 7 in memo

    same(program, T(3), T(3), compare_dynamo=False)


def test_small_numbers_are_no_addresses():
    def program(x):
        return x + 1, id([x]) in SMALL, SMALL.get(id(x)), id(x) == 3, 3 != id(x), id(x) == "x", id(x) == None  # noqa: E711

    same(program, T(3), compare_dynamo=False)


def test_an_id_that_leaves_is_that_of_the_object():
    def program(x, made):
        made.append([x + 1])
        return id(x), id(made[-1]), id(GLOBAL_LIST), id(True), {id(x): x}, {id(made): 1}

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(3):
        x, made = torch.randn(3), []
        of_x, of_made, of_global, of_true, by_tensor, by_list = compiled(x, made)
        assert (of_x, of_made, of_global, of_true) == (id(x), id(made[-1]), id(GLOBAL_LIST), id(True))
        assert list(by_tensor) == [id(x)]
        assert by_list == {id(made): 1}


def test_copies_by_a_table_of_the_program():
    def copied(value, memo):
        if id(value) in memo:
            return memo[id(value)]
        if isinstance(value, list):
            memo[id(value)] = result = []
            result.extend(copied(one, memo) for one in value)
            return result
        return memo.setdefault(id(value), value.clone())

    def program(x):
        inner = [x, x]
        first, second = copied([inner, inner], {})
        return first, first is second, first[0] is first[1], first[0] is x

    same(program, T(3), compare_dynamo=False)


# What needs the number breaks the graph, and is right.
@pytest.mark.parametrize(
    "use",
    [
        lambda x: id(x) % 8 * 0,
        lambda x: f"{id(x)}" == str(id(x)),
        lambda x: "%d" % id(x) == repr(id(x)),
        lambda x: hash(id(x)) == hash((id(x),)),
        lambda x: int(id(x)) == id(x) + 0,
        lambda x: float(id(x)) > 0,
        lambda x: bool(id(x)) and not not id(x),
        lambda x: (id(x) > 5, sorted([id(x), 4])[0], max(id(x), 2) == id(x)),
        lambda x: id(x).bit_length() > 5,
        lambda x: -id(x) < 0,
        lambda x: id(x) in KNOWN,
        lambda x: KNOWN.get(id(x), 4),
        lambda x: {123456: 1, id(x): 2}[id(x)],
        lambda x: (id(x), 1) in {(id(x), 1): 2},
        lambda x: isinstance(id(x), int) and type(id(x)) is int,
        lambda x: id(x) in [4, id(x)],
        lambda x: [id(x), 3].index(id(x)),
        lambda x: torch.full((2,), id(x) * 0),
        lambda x: id(x) is id(x),
        lambda x: (lambda value: value is value)(id(x)),
        lambda x: id(Plain()) != id(x),
        lambda x: [1, 2, 3][id(x) * 0],
        lambda x: list(range(id(x) * 0 + 2)),
    ],
)
def test_uses_of_the_number(use):
    def program(x):
        before = x + 1
        return before, use(x), before * 2

    x = torch.randn(3)
    expected = program(x)
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        result = compiled(x)
        assert torch.equal(result[0], expected[0])
        assert torch.equal(result[2], expected[2])
        assert str(result[1]) == str(expected[1])


def test_new_objects_share_a_capture():
    def program(x, items):
        seen = {id(one) for one in items}
        return x * len(seen)

    a = torch.randn(3)
    calls = counted_calls(program, lambda: (torch.randn(3), [a, torch.randn(3), a]), 3)
    assert [one.captures for one in calls] == [1, 0, 0]
    assert calls[-1].operations == 1
