"""Outside containers: everything that was read is guarded, and nothing more."""

import pytest

from tests.support.harness import Source, T, same, unrelated

CASES = {
    "a key of a dict": (
        "D = {'a': 2, 'b': 3}\ndef f(x): return x * D['a']",
        [unrelated("D['b'] = 9"), unrelated("D['new'] = 1"), "D['a'] = 5", unrelated("del D['b']")],
    ),
    "a key that is there": (
        "D = {'a': 2}\ndef f(x): return x + 1 if 'a' in D else x - 1",
        [unrelated("D['a'] = object()"), unrelated("D['q'] = 1"), "del D['a']", unrelated("D['a'] = None")],
    ),
    "a key that is not there": (
        "D = {'a': 2}\ndef f(x): return x + D.get('b', 7)",
        [unrelated("D['a'] = 3"), unrelated("D['c'] = 3"), "D['b'] = 1"],
    ),
    "a value that is only passed on": (
        "D = {'a': [1]}\ndef f(x): return x + 1, D['a']",
        ["D['a'] = 'other'", "D['a'] = x = torch.ones(2)"],
    ),
    "a key that is missing": (
        "D = {}\ndef f(x):\n    try:\n        return x + D['a']\n    except KeyError as error:\n        return x - 1, error.args",
        [unrelated("D['b'] = 1"), "D['a'] = 3"],
    ),
    "all keys of a dict, in order": (
        "D = {'a': 2, 'b': 3}\ndef f(x):\n    for k, v in D.items(): x = x * v + len(k)\n    return x, list(D)",
        ["D['c'] = 4", "D['a'] = D.pop('a')", "D['a'] = 7", "D.clear()"],
    ),
    "the length of a dict": (
        "D = {'a': 2}\ndef f(x): return x * len(D), bool(D)",
        ["D['b'] = 1", "D.clear()"],
    ),
    "an ordered dict": (
        "from collections import OrderedDict\nD = OrderedDict(a=1, b=2)\n"
        "def f(x):\n    for k, v in D.items(): x = x * v + ord(k)\n    return x, D['a']",
        ["D.move_to_end('a')", "D.move_to_end('a', last=False)", "D['c'] = 3"],
    ),
    "a list": (
        "L = [1, 2]\ndef f(x):\n    for v in L: x = x * v + v\n    return x, L[-1], 2 in L",
        ["L.append(3)", "L[0] = 5", "L.pop()", "L.clear() or L.append(2)"],
    ),
    "the length of a list": (
        "L = [1, 2]\ndef f(x): return x * len(L)",
        [unrelated("L[0] = 'other'"), "L.append(1)", "L.pop()"],
    ),
    "one item of a tuple": (
        "T2 = (1, 2)\ndef f(x): return x * T2[0]",
        [unrelated("T2 = (1, 'x')"), "T2 = (3, 2)", "T2 = (3,)", "T2 = [3]"],
    ),
    "a set": (
        "S = {1, 2}\ndef f(x): return x + 1 if 2 in S else x - 1, len(S), sorted(S)",
        ["S.add(3)", "S.discard(2)", "S.clear()"],
    ),
    "the order of a set": (
        "S = {8, 16}\ndef f(x):\n    for v in S: x = x * 2 + v\n    return x",
        ["S.clear(); S.add(16); S.add(8)", "S.add(0)"],
    ),
    "nested containers": (
        "D = {'k': [(1, {'z': 2})]}\ndef f(x): return x * D['k'][0][1]['z']",
        [unrelated("D['k'][0][1]['y'] = 3"), "D['k'][0][1]['z'] = 5", "D['k'].append(1)"],
    ),
    "a named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'a b')\np = P(1, 2)\ndef f(x): return x * p.a + p[1], p",
        ["p = P(1, 3)", "p = P(5, 3)", "p = (5, 3)[0:2] and P(5, 3)"],
    ),
    "classes and functions as keys": (
        "class A: pass\ndef g(): pass\nD = {A: 2, g: 3, int: 4}\ndef f(x): return x * D[A] * D[g] * D.get(int) * D.get(str, 1)",
        ["D[A] = 7", "D[str] = 2", unrelated("D[bytes] = 2")],
    ),
    "views": (
        "D = {'a': 2}\ndef f(x): return x * sum(D.values()), 'a' in D.keys(), ('a', 2) in D.items(), D.keys() | {'z'} == {'a', 'z'}",
        ["D['a'] = 3", "D['b'] = 3"],
    ),
    "a getter": (
        "import operator\nG = operator.itemgetter(1)\nA = operator.attrgetter('shape')\ndef f(x): return x * G([1, 5]), A(x), sorted([(1, 2), (0, 1)], key=G)",
        ["G = operator.itemgetter(0)"],
    ),
    "a default dict": (
        "from collections import defaultdict\nD = defaultdict(list, a=[2])\ndef f(x): return x * D['a'][0], 'b' in D, D.get('b'), D.default_factory is list",
        ["D['a'] = [3]", "D['b']"],
    ),
    "a range and a slice": (
        "R = range(3)\nS = slice(0, 2)\ndef f(x): return x[S] * sum(R), [1, 2, 3][S], R[1]",
        ["S = slice(1, 2)", "R = range(4)"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_reading(case: str) -> None:
    text, mutations = CASES[case]
    same(Source(text), T(3), mutate=mutations, compare_dynamo=False, fresh=False)


ARGUMENTS = {
    "a list of tensors": (lambda ts: sum(ts) * len(ts), lambda: [T(3)(), T(3)()]),
    "a dict of tensors": (lambda d: d["a"] * 2 + d["b"], lambda: {"a": T(3)(), "b": T(3)()}),
    "a dict, all of it": (lambda d: {k: v + 1 for k, v in d.items()}, lambda: {"a": T(3)(), "b": T(3)()}),
    "what is returned is what came": (lambda d: (d["t"] + 1, d, d["l"]), lambda: {"t": T(3)(), "l": [1, [2]]}),
    "a mixed tuple": (lambda t: t[0] * t[1] + len(t[2]), lambda: (T(3)(), 2.5, ["a", None])),
    "made of what came": (lambda items: [items[0] + 1, *items, {"l": items}], lambda: [T(3)(), 5]),
    "containers made anew": (
        lambda ts: (sorted(ts, key=lambda t: t.shape[0])[0] + 1, ts[::-1], dict(enumerate(ts)), ts + ts, tuple(ts)),
        lambda: [T(3)(), T(2)()],
    ),
    "iterators": (lambda ts: [a * b for a, b in zip(ts, reversed(ts))], lambda: [T(3)(), T(3)()]),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments(case: str) -> None:
    program, maker = ARGUMENTS[case]
    same(program, maker, compare_dynamo=False)
