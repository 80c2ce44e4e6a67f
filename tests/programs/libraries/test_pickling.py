"""`pickle.dumps` of constants, with which libraries make keys of arguments."""

import pickle

import pytest
import torch

from tests.support.harness import Source, T, same

CACHE = {}


def memoized(x, **options):
    key = pickle.dumps(options)
    if key not in CACHE:
        CACHE[key] = len(CACHE) + 1
    return x * CACHE[key]


def test_options_are_keys():
    def program(x):
        return memoized(x) + memoized(x, scale=2) + memoized(x, scale=2) + memoized(x, name="a", flag=None)

    same(program, T(3), compare_dynamo=False)


@pytest.mark.parametrize(
    "constant", ["{}", "[]", "()", "None", "{'a': 1, 'b': 'c', 3: 2.5}", "[1, True, 'x']", "('a', 'b')", "'text'"]
)
def test_pickles_are_those_of_python(constant):
    same(Source(f"import pickle\ndef f(x):\n    return x + 1, pickle.dumps({constant})"), T(3), compare_dynamo=False)


@pytest.mark.parametrize(
    "value", ["['a', 'a']", "[[], []]", "{'a': 'a'}", "x", "[x]", "object", "pickle.loads(pickle.dumps([1]))", "1, 2"]
)
def test_other_pickles_are_left_to_python(value):
    same(
        Source(f"import pickle, torch\ndef f(x):\n    y = x + 1\n    return y, len(pickle.dumps({value}))"),
        lambda: torch.ones(2),
        fullgraph=False,
    )


def test_a_text_that_changes():
    def program(x, name):
        return x + 1, pickle.dumps({"name": name})

    same(program, T(3), "one", compare_dynamo=False, mutate=["ARGS[1] = 'two'"], calls=2)
