"""Attributes of instances without a dict of their own, whose names are in their class: with few names and with many."""

import pytest

from tests.support.harness import Source, T, same, unrelated


@pytest.mark.parametrize("names", [1, 5, 6, 11, 20, 29])
def test_names(names):
    text = f"""
class C:
    def __init__(self):
        for k in range({names}):
            setattr(self, "x" + str(k), k)
c = C()
def f(x): return x + c.x0 + getattr(c, "missing", 5) + getattr(c, "other", 7)
"""
    mutations = [
        "c.x0 = 100",
        "c.missing = 3",
        "del c.missing",
        "setattr(c, ''.join(['oth', 'er']), 4)",
        unrelated("c.third = 4"),
        "c.__dict__['x0'] = 1",
        "c = C()",
    ]
    same(Source(text), T(3), mutate=mutations, compare_dynamo=False)
