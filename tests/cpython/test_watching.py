"""Dict watchers."""

import sys
import threading

import pytest

from tests.cpython.test_objects import (
    Plain,
    changes,
    dict_version,
    made_by_hand,
    of_an_instance,
    of_an_instance_after_many,
    of_keywords,
    versioned,
)
from tests.support.frames_extension import extension

watch = extension._frames_watch_dict
is_watched = extension._frames_is_watched
told = extension._frames_watched_dict_changes

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python has no watchers")
IS_LET_GO = sys.version_info >= (3, 13)


def test_what_is_not_watched_is_not_told_of() -> None:
    before = told()
    dictionary = {"a": 1}
    dictionary["a"] = 2
    del dictionary
    assert told() == before != 0


@pytest.mark.parametrize("make", [made_by_hand, of_an_instance, of_an_instance_after_many, of_keywords])
def test_every_change_is_told(make) -> None:
    dictionary = versioned(make())
    for _ in range(5):
        for number, change in enumerate(changes(dictionary)):
            version = dict_version(dictionary)
            assert watch(dictionary)
            assert dict_version(dictionary) == version, "watching is no change"
            before = told()
            change()
            assert told() > before, number
            assert dict_version(dictionary) != version
            assert is_watched(dictionary) != IS_LET_GO


def test_a_dictionary_is_let_go_after_it_was_told_of() -> None:
    dictionary = {"a": 1}
    assert watch(dictionary)
    before = told()
    for value in range(10):
        dictionary["a"] = value
    assert told() == before + (1 if IS_LET_GO else 10)


def test_the_end_of_a_dictionary_is_told() -> None:
    dictionary = {"a": 1}
    assert watch(dictionary)
    before = told()
    del dictionary
    assert told() == before + 1
    assert not any(is_watched({"a": 1}) for _ in range(200)), "what comes to be where it was is another one"


def test_the_end_of_an_instance_is_told() -> None:
    thing = Plain()
    assert watch(versioned(vars(thing)))
    before = told()
    del thing
    assert told() == before + 1


def test_stores_of_attributes_are_told() -> None:
    def store(thing, value):
        thing.a = value

    def delete(thing):
        del thing.a

    thing = Plain()
    versioned(vars(thing))
    for value in range(300):  # long enough for CPython to specialise the instructions
        for change, arguments in ((store, (value,)), (delete, ()), (store, (-value,))):
            assert watch(vars(thing))
            before = told()
            change(thing, *arguments)
            assert told() == before + 1


def test_globals_are_told_of() -> None:
    def store(value):
        global some_watched_global
        some_watched_global = value

    for value in range(300):
        assert watch(globals())
        before = told()
        store(value)
        assert told() == before + 1


def test_changes_of_many_threads() -> None:
    dictionaries = [{"a": None} for _ in range(4)]
    missed = []

    def work(dictionary):
        for value in range(5000):
            watch(dictionary)
            before = told()
            dictionary["a"] = value
            if told() == before:
                missed.append(value)

    threads = [threading.Thread(target=work, args=(dictionary,)) for dictionary in dictionaries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []
