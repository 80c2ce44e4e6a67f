"""Iterators leave the compiled code in every state, and return outside what they would have returned."""

import collections
import itertools
import operator

import pytest
import torch

from tests.support.rebuilt import both, same


def some(iterator, most: int = 9) -> list:
    """What it gives: at most so many, and the exception in the end if there is one."""
    items = []
    for _ in range(most):
        try:
            item = next(iterator)
        except StopIteration:
            break
        except Exception as error:
            items.append(repr(error))
            break
        items.append(item)
    return items


def count_up(x):
    for k in range(5):
        yield x + k


class Squares:
    def __getitem__(self, index):
        if index >= 4:
            raise IndexError(index)
        return index * index


def is_small(item) -> bool:
    return bool(item < 3) if not isinstance(item, torch.Tensor) else True


def numbers():
    source = iter([5, 1, 4])
    return lambda: next(source, None)


FORMS = {
    "list": lambda x: iter([x, x + 1, 3]),
    "tuple": lambda x: iter((x, x + 1, 3)),
    "reversed list": lambda x: reversed([x, x + 1, 3]),
    "reversed tuple": lambda x: reversed((x, x + 1, 3)),
    "reversed range": lambda x: reversed(range(4)),
    "reversed string": lambda x: reversed("abcd"),
    "string": lambda x: iter("abcd"),
    "wide string": lambda x: iter("aö€😀"),
    "bytes": lambda x: iter(b"abcd"),
    "range": lambda x: iter(range(3, 11, 2)),
    "dict": lambda x: iter({"a": x, "b": 2, "c": 3}),
    "dict values": lambda x: iter({"a": x, "b": 2, "c": 3}.values()),
    "dict items": lambda x: iter({"a": x, "b": 2, "c": 3}.items()),
    "reversed dict": lambda x: reversed({"a": x, "b": 2, "c": 3}),
    "reversed items": lambda x: reversed({"a": x, "b": 2, "c": 3}.items()),
    "ordered": lambda x: iter(collections.OrderedDict(a=x, b=2, c=3)),
    "ordered items": lambda x: iter(collections.OrderedDict(a=x, b=2, c=3).items()),
    "set": lambda x: iter({1, 20, 3, 99}),
    "frozenset": lambda x: iter(frozenset({1, 20, 3, 99})),
    "deque": lambda x: iter(collections.deque([x, 2, 3])),
    "reversed deque": lambda x: reversed(collections.deque([x, 2, 3])),
    "call": lambda x: iter(numbers(), 4),
    "index": lambda x: iter(Squares()),
    "tensor": lambda x: iter(x),
    "enumerate": lambda x: enumerate([x, 2, 3], 5),
    "enumerate generator": lambda x: enumerate(count_up(x)),
    "zip": lambda x: zip([x, 2, 3], (4, 5, 6, 7), strict=False),
    "strict zip": lambda x: zip([x, 2, 3], (4, 5, 6), strict=True),
    "uneven strict zip": lambda x: zip([x, 2, 3], (4, 5), strict=True),
    "map": lambda x: map(lambda a, b: a + b, [x, 2, 3], count_up(x)),
    "filter": lambda x: filter(is_small, [1, 5, 2, 7, 0]),
    "filter none": lambda x: filter(None, [1, 0, 2, 0, 3]),
    "filterfalse": lambda x: itertools.filterfalse(is_small, [1, 5, 2, 7, 0]),
    "chain": lambda x: itertools.chain([x, 2], (3,), count_up(x)),
    "chain from": lambda x: itertools.chain.from_iterable([[x, 2], "ab"]),
    "islice": lambda x: itertools.islice(count_up(x), 1, 4),
    "islice step": lambda x: itertools.islice(range(20), 2, 15, 3),
    "islice endless": lambda x: itertools.islice(range(20), 2, None, 4),
    "count": lambda x: itertools.count(3, 2),
    "repeat": lambda x: itertools.repeat(x, 3),
    "repeat endless": lambda x: itertools.repeat(x),
    "cycle": lambda x: itertools.cycle([x, 2, 3]),
    "cycle generator": lambda x: itertools.cycle(count_up(x)),
    "takewhile": lambda x: itertools.takewhile(is_small, [1, 2, 5, 1]),
    "dropwhile": lambda x: itertools.dropwhile(is_small, [1, 2, 5, 1, 7]),
    "starmap": lambda x: itertools.starmap(operator.add, [(x, 1), (2, 3), (4, 5)]),
    "accumulate": lambda x: itertools.accumulate([x, 2, 3]),
    "accumulate initial": lambda x: itertools.accumulate([x, 2, 3], operator.mul, initial=10),
    "pairwise": lambda x: itertools.pairwise([x, 2, 3, 4]),
    "compress": lambda x: itertools.compress([x, 2, 3], [1, 0, 1]),
    "zip_longest": lambda x: itertools.zip_longest([x, 2, 3], (4,), fillvalue=x + 9),
    "product": lambda x: itertools.product([1, 2], "ab", repeat=1),
    "permutations": lambda x: itertools.permutations([1, 2, 3], 2),
    "combinations": lambda x: itertools.combinations([1, 2, 3], 2),
    "combinations again": lambda x: itertools.combinations_with_replacement([1, 2], 2),
    "tee": lambda x: itertools.tee(count_up(x))[1],
}


@pytest.mark.parametrize("taken", [0, 1, 2, 6])
@pytest.mark.parametrize("form", FORMS)
def test_any_state(form: str, taken: int) -> None:
    make = FORMS[form]
    if form == "uneven strict zip" and taken > 2:
        return

    def program(x):
        iterator = make(x)
        for _ in range(taken):
            next(iterator, None)
        return iterator

    plain, rebuilt = both(program, torch.ones(2))
    assert type(plain) is type(rebuilt)
    same(some(plain), some(rebuilt))


def test_list_that_grows() -> None:
    def program(x):
        items = [x, 2]
        iterator = iter(items)
        next(iterator)
        return iterator, items

    for iterator, items in both(program, torch.ones(2)):
        items.append("more")
        assert list(iterator) == [2, "more"]


def test_dict_that_grows() -> None:
    def program(x):
        items = {"a": x, "b": 2}
        iterator = iter(items)
        next(iterator)
        return iterator, items, items.keys(), items.values()

    for iterator, items, keys, values in both(program, torch.ones(2)):
        items["c"] = 3
        assert list(keys) == ["a", "b", "c"] and len(values) == 3
        with pytest.raises(RuntimeError, match="changed size"):
            next(iterator)


def test_iterator_inside_its_own_list() -> None:
    def program(x):
        items = [x, 2]
        iterator = iter(items)
        next(iterator)
        items.append(iterator)
        return items if x.dim() else iterator, iterator

    for items, iterator in both(program, torch.ones(2)):
        assert items[2] is iterator
        assert list(iterator) == [2, iterator]


def test_tees_share_what_they_read() -> None:
    def program(x):
        generator = count_up(x)
        one, other = itertools.tee(generator)
        next(one), next(one), next(other)
        return one, other, generator

    results = []
    for one, other, generator in both(program, torch.ones(2)):
        results.append([next(other), next(one), next(other), next(generator), list(one), list(other)])
    same(*results)


def test_groups() -> None:
    def program(x):
        groups = itertools.groupby([1, 1, 2, 2, 3])
        return groups

    plain, rebuilt = both(program, torch.ones(2))
    assert [(key, list(group)) for key, group in plain] == [(key, list(group)) for key, group in rebuilt]

    def begun(x):
        groups = itertools.groupby([1, 1, 2, 2, 3])
        _, stale = next(groups)
        _, group = next(groups)
        return groups, group, stale

    results = []
    for groups, group, stale in both(begun, torch.ones(2)):
        results.append((list(stale), list(group), [(key, list(more)) for key, more in groups]))
    assert results[0] == results[1]


def test_sets_of_objects_give_each_once() -> None:
    class Thing:
        pass

    def program(x):
        things = [Thing(), Thing(), Thing()]
        iterator = iter(set(things))
        first = next(iterator)
        return first, iterator, things

    for first, iterator, things in both(program, torch.ones(2)):
        rest = list(iterator)
        assert len(rest) == 2
        assert {id(each) for each in [first, *rest]} == {id(each) for each in things}


def test_one_iterator_in_two_places() -> None:
    def program(x):
        iterator = iter([x, 2, 3, 4])
        return zip(iterator, iterator, strict=False), iterator

    for pairs, iterator in both(program, torch.ones(2)):
        next(pairs)
        assert next(iterator) == 3


def test_views() -> None:
    def program(x):
        table = {"a": x, "b": 2}
        keys = table.keys()
        return keys, table.items(), keys, table, keys.mapping

    for keys, items, again, table, proxy in both(program, torch.ones(2)):
        assert keys is again
        table["c"] = 3
        assert list(keys) == ["a", "b", "c"] and len(items) == 3 and proxy["c"] == 3


def test_iterators_of_the_program_are_not_asked_again() -> None:
    asked = []

    class Own:
        def __init__(self, count):
            self.count = count
            self.asked = 0

        def __iter__(self):
            self.asked += 1
            return self

        def __next__(self):
            self.count -= 1
            if self.count < 0:
                raise StopIteration
            return self.count

    def program(x):
        own = [Own(5) for _ in range(6)]
        return own, [
            map(abs, own[0]),
            zip(own[1], own[2], strict=True),
            itertools.chain.from_iterable([own[3]]),
            itertools.islice(own[4], 3),
            itertools.pairwise(own[5]),
        ]

    def begun(x):
        own, iterators = program(x)
        for iterator in iterators:
            next(iterator)
        return own, iterators

    for form in (program, begun):
        for own, iterators in both(form, torch.ones(2)):
            asked.append([[list(each) for each in iterators], [each.asked for each in own]])
        assert asked[-2] == asked[-1]
