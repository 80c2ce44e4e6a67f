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
change_count = extension._frames_watched_dict_changes

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python has no watchers")
UNWATCHES_AT_A_CHANGE = sys.version_info >= (3, 13)


def test_changes_of_other_dicts_are_not_counted() -> None:
    before = change_count()
    dictionary = {"a": 1}
    dictionary["a"] = 2
    del dictionary
    assert change_count() == before != 0


@pytest.mark.parametrize("make", [made_by_hand, of_an_instance, of_an_instance_after_many, of_keywords])
def test_every_change_is_counted(make) -> None:
    dictionary = versioned(make())
    for _ in range(5):
        for number, change in enumerate(changes(dictionary)):
            version = dict_version(dictionary)
            assert watch(dictionary)
            assert dict_version(dictionary) == version, "watching is no change"
            before = change_count()
            change()
            assert change_count() > before, number
            assert dict_version(dictionary) != version
            assert is_watched(dictionary) != UNWATCHES_AT_A_CHANGE


def test_a_dictionary_is_unwatched_after_its_first_change() -> None:
    dictionary = {"a": 1}
    assert watch(dictionary)
    before = change_count()
    for value in range(10):
        dictionary["a"] = value
    assert change_count() == before + (1 if UNWATCHES_AT_A_CHANGE else 10)


def test_the_end_of_a_dictionary_is_counted() -> None:
    dictionary = {"a": 1}
    assert watch(dictionary)
    before = change_count()
    del dictionary
    assert change_count() == before + 1
    assert not any(is_watched({"a": 1}) for _ in range(200)), "what comes to be where it was is another one"


def test_the_end_of_an_instance_is_counted() -> None:
    thing = Plain()
    assert watch(versioned(vars(thing)))
    before = change_count()
    del thing
    assert change_count() == before + 1


def test_stores_of_attributes_are_counted() -> None:
    def store(thing, value):
        thing.a = value

    def delete(thing):
        del thing.a

    thing = Plain()
    versioned(vars(thing))
    for value in range(300):  # long enough for CPython to specialise the instructions
        for change, arguments in ((store, (value,)), (delete, ()), (store, (-value,))):
            assert watch(vars(thing))
            before = change_count()
            change(thing, *arguments)
            assert change_count() == before + 1


def test_changes_of_globals_are_counted() -> None:
    def store(value):
        global some_watched_global
        some_watched_global = value

    for value in range(300):
        assert watch(globals())
        before = change_count()
        store(value)
        assert change_count() == before + 1


def test_changes_of_many_threads() -> None:
    dictionaries = [{"a": None} for _ in range(4)]
    missed = []

    def work(dictionary):
        for value in range(5000):
            watch(dictionary)
            before = change_count()
            dictionary["a"] = value
            if change_count() == before:
                missed.append(value)

    threads = [threading.Thread(target=work, args=(dictionary,)) for dictionary in dictionaries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missed == []
