"""Views of dicts that the program gets from outside: `keys()`, `values()`, `items()`."""

import pytest
import torch

from tests.support.harness import Source, T, same, unrelated

MAKERS = ["{'a': 1, 'b': 2}", "__import__('collections').OrderedDict(a=1, b=2)", "Own(a=1, b=2)"]


@pytest.mark.parametrize("maker", MAKERS)
def test_each_view_is_read(maker):
    text = (
        f"class Own(dict): pass\nd = {maker}\nkeys, values, items, other = d.keys(), d.values(), d.items(), 0\n"
        "def f(x):\n"
        "    for key, value in zip(keys, values):\n"
        "        x = x * d[key] + value\n"
        "    return x, 'c' in keys, 2 in values, ('a', 1) in items, len(keys), sorted(items), keys & {'a'}, repr(keys)"
    )
    mutations = ["d['a'] = 5", "d['c'] = 3", "del d['b']", unrelated("other = 1"), "keys = {'z': 1}.keys(); d['z'] = 1"]
    same(Source(text), T(3), mutate=mutations)


def test_the_program_mutates_the_dict_behind_a_view():
    def program(x, d, keys):
        d["new"] = x + 1
        return [x * len(name) for name in keys], list(keys)

    def arguments():
        d = {"a": 1}
        return d, d.keys()

    def unpacked(x, both):
        return program(x, *both)

    same(unpacked, T(3), arguments, stateful=True, compare_dynamo=False)


def test_another_dict_of_the_same_keys():
    text = (
        "d = {'a': 1}\nkeys = d.keys()\n"
        "def f(x):\n"
        "    d['b'] = 2\n"
        "    y = x * len(keys)\n"
        "    del d['b']\n"
        "    return y, keys.mapping == d, list(keys)"
    )
    same(Source(text), T(3), mutate=["keys = {'a': 1}.keys()", "keys = d.keys()", "keys = d.values()"])


def test_a_view_is_returned_and_compared():
    def program(x, both):
        d, keys = both
        return x + 1, keys, keys == d.keys(), keys is d.keys(), keys.isdisjoint({"z"})

    def arguments():
        d = {"a": 1}
        return d, d.keys()

    same(program, T(3), arguments)


def test_views_of_the_dicts_of_modules():
    module = torch.nn.Linear(3, 3)
    names = module._parameters.keys()

    def program(x):
        for name in names:
            x = x + module._parameters[name].sum()
        return x

    same(program, T(3), compare_dynamo=False)
