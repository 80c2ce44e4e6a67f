"""Versions of dictionaries and types, and the parts of objects."""

import sys
from collections import deque

import pytest

from tests.support.frames_extension import extension

NULL = extension._frames_NULL
dict_version = extension._frames_dict_version
type_version = extension._frames_type_version
parts = extension._frames_parts


def versioned(dictionary: dict) -> dict:
    before = list(dictionary.items())
    assert extension._frames_make_versioned(dictionary)
    assert list(dictionary.items()) == before
    return dictionary


def changes(dictionary: dict) -> list:
    """Ways to change a dictionary that has the keys a and b, each leaving it with them."""
    unique = iter(range(1000, 100_000))
    return [
        lambda: dictionary.__setitem__("a", next(unique)),
        lambda: dictionary.__setitem__("a", object()),
        lambda: dictionary.__setitem__("new", 1),
        lambda: dictionary.__delitem__("new"),
        lambda: dictionary.update(a=next(unique)),
        lambda: dictionary.update({"b": next(unique), "c": 3}),
        lambda: dictionary.pop("c"),
        lambda: dictionary.setdefault("d", 1),
        lambda: dictionary.popitem(),
        lambda: dictionary.__ior__({"a": next(unique)}),
        lambda: dictionary.__setitem__(("not", "a string"), 1),
        lambda: dictionary.pop(("not", "a string")),
        lambda: dictionary.clear(),
        lambda: dictionary.update(a=1, b=2),
    ]


class Plain:
    def __init__(self) -> None:
        self.a = 1
        self.b = 2


def made_by_hand() -> dict:
    return {"a": 1, "b": 2}


def of_an_instance() -> dict:
    keep.append(Plain())
    return keep[-1].__dict__


def of_an_instance_after_many() -> dict:
    for _ in range(50):
        Plain().c = 1  # names that all instances share by now
    return of_an_instance()


def of_keywords() -> dict:
    return (lambda **keywords: keywords)(a=1, b=2)


keep: list = []


@pytest.mark.parametrize("make", [made_by_hand, of_an_instance, of_an_instance_after_many, of_keywords])
def test_every_change_of_a_dictionary_changes_its_version(make) -> None:
    dictionary = versioned(make())
    versions = [dict_version(dictionary)]
    assert versions[0] != 0
    for change in changes(dictionary):
        change()
        versions.append(dict_version(dictionary))
    assert len(set(versions)) == len(versions), versions


@pytest.mark.parametrize("make", [made_by_hand, of_an_instance, of_keywords])
def test_reading_a_dictionary_does_not(make) -> None:
    dictionary = versioned(make())
    before = dict_version(dictionary)
    assert dictionary["a"] == dictionary.get("a") == 1
    assert list(dictionary) == ["a", "b"]
    dictionary.copy()
    assert dict_version(dictionary) == before


def test_attributes_change_the_version_of_the_instance_dictionary() -> None:
    for prepare in (
        lambda point: None,
        lambda point: setattr(point, "other", 1),
        lambda point: vars(point).update(x=1),
    ):
        point = Plain()
        prepare(point)
        dictionary = versioned(extension._frames_instance_dict(point))
        assert dictionary is point.__dict__

        def store(value, point=point):
            point.a = value

        def delete(point=point):
            del point.a

        seen = set()
        for round_ in range(300):  # long enough for CPython to specialise the instructions
            seen.add(dict_version(dictionary))
            store(object())
            seen.add(dict_version(dictionary))
            delete()
            seen.add(dict_version(dictionary))
            store(round_)
            object.__setattr__(point, "b", object())
            seen.add(dict_version(dictionary))
        assert len(seen) == 300 * 3 + 1


def test_values_shared_with_an_instance_have_no_version() -> None:
    point = Plain()
    dictionary = point.__dict__
    before = dict_version(dictionary)
    point.a = object()
    assert dict_version(dictionary) != before or before == 0
    if before != 0:
        assert sys.version_info < (3, 13), "not seen to share its values"
    empty = type("Empty", (), {})()
    assert extension._frames_make_versioned(empty.__dict__) == (dict_version(empty.__dict__) != 0)


def test_a_dictionary_is_versioned_while_somebody_iterates() -> None:
    point = Plain()
    point.c = 3
    iterator = iter(vars(point).items())
    assert next(iterator) == ("a", 1)
    versioned(vars(point))
    assert list(iterator) == [("b", 2), ("c", 3)]
    assert (point.a, point.b, point.c) == (1, 2, 3)


def test_globals_change_the_version() -> None:
    before = dict_version(globals())
    global some_global
    some_global = object()
    after = dict_version(globals())
    assert before != after
    del some_global
    assert dict_version(globals()) not in (before, after)


def test_two_dictionaries_never_have_the_same_version() -> None:
    versions = []
    for _ in range(1000):
        versions.append(dict_version({"a": 1}))
        versions.append(dict_version(versioned(Plain().__dict__)))
    assert len(set(versions)) == len(versions)


def test_every_change_of_a_type_changes_its_version() -> None:
    class Base:
        attribute = 1

    class Other:
        pass

    class Derived(Base):
        pass

    versions = [type_version(Derived)]
    assert versions[0] != 0
    assert type_version(Derived) == versions[0]
    for change in (
        lambda: setattr(Derived, "own", 1),
        lambda: setattr(Derived, "own", 2),
        lambda: setattr(Base, "attribute", 2),
        lambda: setattr(Base, "__len__", lambda self: 0),
        lambda: delattr(Base, "attribute"),
        lambda: setattr(Derived, "__bases__", (Other, Base)),
        lambda: setattr(Other, "new", 1),
    ):
        change()
        versions.append(type_version(Derived))
    assert len(set(versions)) == len(versions)
    assert all(versions)
    assert type_version(int) != type_version(str) != 0


def test_instance_dictionaries() -> None:
    class Slotted:
        __slots__ = ("x",)

    def function() -> None: ...

    point = Plain()
    assert extension._frames_instance_dict_if_made(point) is None
    dictionary = extension._frames_instance_dict(point)
    assert dictionary == {"a": 1, "b": 2}
    assert dictionary is point.__dict__ is extension._frames_instance_dict_if_made(point)
    point.__dict__ = replaced = {"z": 1}
    assert extension._frames_instance_dict(point) is replaced
    assert extension._frames_instance_dict(function) is function.__dict__
    assert extension._frames_instance_dict(Slotted()) is None
    assert extension._frames_instance_dict(1) is None
    assert extension._frames_instance_dict(sys) is sys.__dict__


def test_instance_attributes_without_a_dictionary() -> None:
    class Fresh:
        def __init__(self) -> None:
            self.a, self.b, self.late = 1, 2, 3
            del self.b

    get = extension._frames_instance_attribute
    point = Fresh()
    assert get(point, "a") == 1
    assert get(point, "late") == 3
    assert get(point, "".join(["l", "a", "te"])) == 3
    assert get(point, "b") is NULL
    assert get(point, "__init__") is NULL
    assert extension._frames_instance_dict_if_made(point) is None
    assert point.__dict__ == {"a": 1, "late": 3}
    assert get(point, "late") == 3
    assert get(sys, "path") is sys.path
    assert get(5, "real") is NULL


def test_lookup_in_the_order_of_resolution() -> None:
    class Base:
        shared = "base"
        method = property(lambda self: pytest.fail("nothing may be run"))

    class Middle(Base):
        shared = "middle"

    class Derived(Middle):
        pass

    look_up = extension._frames_lookup_in_mro
    assert look_up(Derived, "shared") == ("middle", Middle)
    assert look_up(Derived, "method") == (Base.__dict__["method"], Base)
    assert look_up(Derived, "__repr__") == (object.__repr__, object)
    assert look_up(bool, "__add__") == (int.__add__, int)
    assert look_up(Derived, "missing") is None


def test_parts() -> None:
    captured = object()

    def function(a, b=1, *, c=2):
        return captured

    assert parts(function) == (
        function.__code__,
        globals(),
        __builtins__ if isinstance(__builtins__, dict) else vars(__builtins__),
        (1,),
        {"c": 2},
        function.__closure__,
    )
    assert parts(lambda: 0)[3:] == (None, None, None)
    assert parts(function.__closure__[0]) == (captured,)
    generator = (n for n in range(3))
    assert parts(generator) == (generator.gi_code,)
    assert parts(range(2, 10**20, 3)) == (2, 10**20, 3, (10**20 - 2 + 2) // 3)
    assert parts(slice(1, None, "x")) == (1, None, "x")
    assert parts(staticmethod(len)) == (len,)
    assert parts(classmethod(len)) == (len,)
    assert parts(property(len, None, hash)) == (len, None, hash)
    plain = Plain()
    assert parts(super(Plain, plain)) == (Plain, plain, Plain)


def test_items_of_deques() -> None:
    class Derived(deque):
        pass

    for made in (deque(), deque(range(3)), deque(range(64)), Derived(range(200)), deque(range(500), 130)):
        assert extension._frames_parts(made) == tuple(made)
        for turn in range(150):
            made.appendleft(turn)
            if turn % 3 == 0:
                made.pop()
            made.rotate(7)
            assert extension._frames_parts(made) == tuple(made)
