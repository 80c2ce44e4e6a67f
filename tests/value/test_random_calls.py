"""Random calls of builtin functions and methods, with valid and invalid arguments."""

import builtins
import collections
import copy
import functools
import itertools
import math
import operator
import random

import pytest

from tests.value.calls import MORE_OPERANDS, differences

CALLS_FOR_A_SEED = 500

NOT_CALLED = {
    # They read the frame, or never end.
    *(
        "print",
        "input",
        "open",
        "exit",
        "quit",
        "breakpoint",
        "help",
        "copyright",
        "credits",
        "license",
        "exec",
        "eval",
    ),
    *("compile", "id", "globals", "locals", "vars", "dir", "hash", "super", "memoryview", "object", "aiter", "anext"),
    *("cycle", "repeat", "count", "tee", "factorial", "perm", "comb"),
    # Decorators and classes of the library that are written in Python.
    *("lru_cache", "cache", "cached_property", "singledispatch", "singledispatchmethod", "total_ordering"),
    *("update_wrapper", "wraps", "namedtuple", "UserDict", "UserList", "UserString", "Error", "error", "GenericAlias"),
    *("RLock", "recursive_repr", "get_cache_token"),
}
NOT_CALLED_METHODS = {
    *("__class__", "__init_subclass__", "__subclasshook__", "__reduce__", "__reduce_ex__", "__getstate__"),
    *("__sizeof__", "__dir__", "__doc__", "__hash__", "__new__", "__init__", "__dict__", "__weakref__", "__module__"),
    *("__getnewargs__", "__format__", "__class_getitem__", "__getattribute__", "__setattr__", "__delattr__"),
    *("__str__", "__repr__", "__del__", "__mro__", "gi_frame"),
}


def functions():
    found = {}
    for module in (builtins, itertools, operator, functools, math, collections, copy):
        for name in dir(module):
            function = getattr(module, name)
            is_exception = isinstance(function, type) and issubclass(function, BaseException)
            if callable(function) and not name.startswith("_") and name not in NOT_CALLED and not is_exception:
                found[f"{module.__name__}.{name}"] = function
    return found


FUNCTIONS = functions()


def random_call(source):
    """A title, a function, and the names of its arguments."""
    given = [source.choice(sorted(MORE_OPERANDS)) for _ in range(source.choice([0, 1, 1, 1, 2, 2, 3]))]
    if source.random() < 0.4:
        title = source.choice(sorted(FUNCTIONS))
        return f"{title}({', '.join(given)})", FUNCTIONS[title], given
    receiver = source.choice(sorted(MORE_OPERANDS))
    methods = [name for name in dir(type(MORE_OPERANDS[receiver]())) if name not in NOT_CALLED_METHODS]
    namespace = {}
    method = source.choice(methods)
    exec(f"def call(self, *given): return self.{method}(*given)", namespace)
    return f"{receiver}.{method}({', '.join(given)})", namespace["call"], [receiver, *given]


def is_identity_of_equals(expected, found):
    """Whether only the identity of a string, frozenset or size that equals an operand differs, which depends on CPython's caches."""
    return (
        expected[0] == "gave" == found[0]
        and expected[1] == found[1]
        and expected[1][0] in ("str", "Text", "frozenset", "Size", "bytes")
        and expected[3] == found[3]
    )


def means_the_same(expected, found):
    """The words of exceptions are compared elsewhere: here those of a wrong number of arguments would drown the rest."""
    if expected[0] == "raised" and found[0] == "raised":
        return expected[1] == found[1] and expected[3] == found[3]
    return expected == found or is_identity_of_equals(expected, found)


# How each of them differs, and why that is accepted.
KNOWN = {
    "int.": "the order in which two wrong arguments are complained about",
    "itertools.combinations": "the length is looked at before the iterable",
    "itertools.permutations": "the length is looked at before the iterable",
    "collections.deque(": "a length that no machine has",
}


@pytest.mark.parametrize("seed", range(6))
def test_random_calls(seed):
    source = random.Random(seed)
    found = []
    for _ in range(CALLS_FOR_A_SEED):
        title, call, given = random_call(source)
        for difference in differences(call, [MORE_OPERANDS[name] for name in given], means_the_same):
            if not any(title.startswith(known) for known in KNOWN):
                found.append(f"{title} {difference}")
    assert not found, "\n".join(found)
