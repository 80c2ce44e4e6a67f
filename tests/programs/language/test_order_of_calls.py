"""Which user-defined special methods Python calls, on what, how often and in which order: each program logs every call,
and the logs have to be those of the uncompiled program."""

import textwrap

import pytest

from tests.support.harness import Source, T, same
from tests.support.logged import CLASSES

MIXED = "5, 2, 9, 1, 5, 6, 2, 0, 8, 7, 3, 3"
GROUPS = {
    "sorts": f"""
        sorted(Ls(3, 1, 2))
        sorted(Ls({MIXED}))
        sorted(Ls({MIXED}), reverse=True)
        sorted(Ls(1, 2, 3, 4, 5, 5, 6))
        sorted(Ls(6, 5, 5, 4, 3, 3, 2, 1))
        sorted(Ls(*range(40, 0, -1), *range(30)))
        sorted(OUT)
        sorted(Ls(3, 1, 2), key=lambda l: note(l).v)
        sorted(Ls(3, 1, 2), key=note)
        sorted([(1, L(3)), (1, L(2)), (0, L(5))])
        sorted([(L(1), 3), (L(1), 2), (L(0), 5)])
        sorted([L(3), 1, 2.5, R(2)])
        sorted([E(3), E(1), E(2)])
        sorted([Color.B, Color.A, Color.B])
        attempt(lambda: sorted([N(3), N(1), N(2)]))
        attempt(lambda: sorted([(N(3),), (N(1),), (N(2),)]))
        attempt(lambda: sorted([N(3), L(1), N(2)]))
        attempt(lambda: sorted([L(3), 1, 'a']))
        sorted([3, 1, 2, 5, 4], key=functools.cmp_to_key(cmp), reverse=True)
        sorted([float('nan'), 1.0, float('nan'), 0.5])
        sorted(Sized(3, 1, 2))
        min(Ls(3, 1, 2)), max(Ls(3, 1, 2)), max(Ls(1, 1)), max([L(1), R(2), L(3)]), max([Color.A, Color.B])
        heapq.nsmallest(2, Ls(3, 1, 2)), bisect.bisect(Ls(1, 2, 3, 4), L(3)), statistics.median(Ls(3, 1, 2))
        """,
    "lengths": """
        list(Indexed(1, 2)), tuple(Indexed(1, 2)), list(reversed(Indexed(1, 2)))
        list(Hinted(1, 2)), tuple(Hinted(1, 2)), set(Hinted(1, 2))
        list(Sized(1, 2)), tuple(Sized(1, 2)), frozenset(Sized(1, 2)), collections.deque(Sized(1, 2))
        [*Sized(1, 2)], (*Sized(1, 2),), {*Sized(1, 2)}
        ', '.join(Sized('a', 'b')), ', '.join(gen('a', 'b'))
        (lambda *p, **k: (p, k))(*Sized(1, 2), note(3), **Mapping(a=1, b=2))
        {**Mapping(a=1, b=2), 'c': note(3), **Mapping(d=4)}
        dict(Mapping(a=1), b=note(2)), dict(Dict(a=1)), Dict(a=1).copy(), Dict(a=1) | {'b': 2}, {'b': 2} | Dict(a=1)
        list(Dict(a=1)), sorted(Dict(b=1, a=1)), bool(Dict(a=1)), {**Dict(a=1)}
        list(List([1, 2])), tuple(List([1, 2])), [*List([1, 2])], bool(List([1])), sum(List([1]))
        sum(Sized(1, 2)), any(Sized(0, 1)), list(zip(Sized(1, 2), Hinted(3))), list(map(note, Sized(1)))
        """,
    "keys": """
        {a: 1, c: 2}, {a, c, b}
        {L(i) for i in (1, 2, 1)}, {L(i): i for i in (1, 2, 1)}
        {a: 1}[c], {a: 1}.get(d), {a: 1}.pop(c), {a: 1}.setdefault(c, 3), {a: 1}.setdefault(d, 3)
        {a: 1} == {c: 1}, {a: 1, b: 2} == {b: 2, c: 1}
        {a} == {c}, {a} <= {c, b}, {a} & {c}, {a} | {c}, {a} - {c}, {a} ^ {c}
        {a}.isdisjoint({c}), {a}.issubset([c]), {a}.union([c, d]), {a, b}.difference([c, d])
        set([a, b, c]), frozenset([a, b]), dict.fromkeys([a, b, c]), dict([(a, 1), (c, 2)])
        set(gen(a, c)), collections.Counter([a, b, c]), collections.OrderedDict([(a, 1), (c, 2)])
        c in TABLE, d in TABLE, TABLE[c], TABLE.get(d), c in SET, SET & {c}, SET <= {c, b}, TABLE | {c: 3}
        c in {a: 1}.keys(), (c, 1) in {a: 1}.items(), {a: 1}.keys() & {c}, {a: 1}.items() == {c: 1}.items()
        1 in {L(1)}, {L(1): 2}[1], {(L(1), 2): 3}[(1, 2)], {**{L(1): 1}, **{L(1): 2}}
        Color.A in {Color.A: 1}, {Color.A: 1}[Color.A], Color.A in {Color.A, Color.B}
        getattr(a, Str('v')), {'v': 1}[Str('v')], repr({a}), hash((a, (b, c)))
        """,
    "comparisons": """
        a == c, a != c, a < b < d, b < a < d, a == R(1), R(1) == a, a < R(1), a + R(1), 1 + a, N(1) == a, N(1) == N(2)
        [a, b] == [c, b], [a, b] != [c, b], [a, b] == [a, b], [a, b] < [c, d], [a] == [a, b], (a,) == (c, b)
        [E(1)] == [E(2)], [E(1)] < [E(2)], not E(1) == E(2), 1 if E(1) < E(2) else 2
        {'k': a} == {'k': c}, {'k': a, 'j': b} == {'j': b, 'k': c}
        c in [b, a], c in (b, a), 1 in OUT, R(1) in [a], a in [R(1)], N(1) in [a], E(2) in [E(1)], c in gen(b, a, d)
        [b, a].index(c), (b, a).count(c), attempt(lambda: [a, b].index(d)), [R(1)].index(a), OUT.count(c)
        [a, b].remove(c), collections.deque([R(1)]).remove(a), c in collections.deque([b, a]), OUT.index(c, L(2), L(4))
        List([1, 2]) == [1, 2], [1, 2] == List([1, 2]), [1, 2] != List([1, 2]), List([1]) != [2]
        Color.A == Color.B, Color.A in [Color.B, Color.A], [Color.A, Color.B].index(Color.B), repr([Color.A])
        bool(a), not a, a and b, L(0) or d, 1 if a else 2, [v for v in Ls(0, 1) if v], all(Ls(1, 0, 1)), any(gen(0, L(1), 2))
        list(range(L(1), L(6), L(2))), [1, 2, 3][L(0):L(2)], 'abc'[L(1)], [1, 2] * L(2), [1, 2, 3].pop(L(1))
        f"{a}{b!r:>5}{c!s}{d:x}", "%s %r" % (a, b), "{} {!r} {:x}".format(a, b, c), str([a, b])
        """,
}
PROGRAMS = {
    "seen_while_sorted": "out = []\nOUT.sort(key=lambda v: (out.append(list(OUT)), v.v)[1])\nreturn x + 1, out",
    "appended_while_sorted": "l = [3, 1, 2]\nreturn x + 1, attempt(lambda: l.sort(key=l.append)), l",
    "cleared_while_sorted": "l = [3, 1, 2]\nreturn x + 1, attempt(lambda: l.sort(key=lambda v: l.clear() or v)), l",
    "read_while_sorted": "l = [3, 1, 2]\nreturn x + 1, attempt(lambda: l.sort(key=lambda v: l[0])), l",
    "sorted_in_sort": "l = [1, 2]\nl.sort(key=lambda v: l.sort() or v)\nreturn x + 1, l",
    "iterated_while_sorted": "it, out = iter(OUT), []\nOUT.sort(key=lambda v: out.append(next(it, 0)) or v.v)\nreturn x + 1, out",
    "key_raises": "l = Ls(3, 1, 0, 5)\nreturn x + 1, attempt(lambda: l.sort(key=lambda v: 1 // v.v)), shown(l)",
    "comparison_raises": """
        l = [3, 1, 2, 5, 'a', 4, 0]
        return x + 1, attempt(l.sort), l, attempt(lambda: l.sort(reverse=True)), l
        """,
    "own_comparison_raises": """
        class K(L):
            def __lt__(self, o): _LOG.append((self.v, o.v)); return 6 // (self.v - 4) > o.v
        l = [K(v) for v in (3, 1, 2, 5, 4, 0)]
        return x + 1, attempt(l.sort), shown(l), attempt(lambda: l.sort(reverse=True)), shown(l)
        """,
    "sorted_twice": "OUT.sort()\nOUT.sort(reverse=True)\nreturn x + 1, shown(OUT)",
    "unpacked": "p, q = gen(1, 2)\np, *q, r = Hinted(1, 2, 3)\n*q, s = Sized(1, 2)\nt, u = Indexed(1, 2)\nreturn x + 1, q",
    "unpacked_too_many": "def go():\n    p, q = gen(1, 2, 3, 4)\nreturn x + 1, attempt(go)",
    "unpacked_endless": "def go():\n    p, q = itertools.count()\nreturn x + 1, attempt(go)",
    "unpacked_too_few": "def go():\n    p, q, *r = gen(1)\nreturn x + 1, attempt(go)",
    "reversed_lazily": "r = reversed(Indexed(1, 2, 3))\nLOG.append('made')\nout = [next(r)]\nprint()\nreturn x + 1, out, list(r)",
    "extended": "l = [1]\nl += Sized(2)\nl.extend(Hinted(3))\nl[0:1] = Sized(4)\nl.extend(Indexed(5))\nreturn x + 1, l",
    "keys_again": "s = {a, b}\nt = set([a, b])\ns.update([b])\nreturn x + 1, a in t, s == t",
    "dict_behind_break": "t = {a: 1}\nprint()\nt[c] = 2\nreturn x + 1, shown(t), t.get(a), a in t, t[a]",
    "default": "t = collections.defaultdict(list)\nt[a].append(1)\nt[c].append(2)\nreturn x + 1, shown(t)",
    "order_of_set": "return x + 1, [v.v for v in {L(5), L(3), L(9), L(1)}]",
    "same_hashes": """
        class H(L):
            def __hash__(self): _LOG.append(('H', self.v)); return 7
        t = {H(1): 1, H(2): 2, H(3): 3}
        return x + 1, t[H(2)], shown(t), H(4) in t, H(2) in {H(1), H(2)}
        """,
    "heap": "h = [L(3), L(1), L(2)]\nheapq.heapify(h)\nheapq.heappush(h, L(0))\nreturn x + 1, heapq.heappop(h).v, shown(h)",
}  # fmt: skip


def program(body: str) -> Source:
    """Gives the log as part of its result: comparing the globals of two worlds writes into it."""
    inner = "def g(x):\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    outer = "def f(x):\n    _LOG.clear()\n    result = g(x)\n    return result, [*_LOG]\n"
    return Source(f"{CLASSES}\n{inner}\n{outer}")


EXPRESSIONS = [line.strip() for group in GROUPS.values() for line in group.strip().split("\n")]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_expression(expression: str) -> None:
    body = f"result = {expression}\nreturn x + 1, shown(result)"
    same(program(body), T(2), fullgraph=False, compare_dynamo=False, calls=3)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str) -> None:
    same(program(PROGRAMS[name]), T(2), fullgraph=False, compare_dynamo=False)


CAPTURED = """
sorted([3, 1, 2], key=lambda v: -v)
sorted({"b": 1, "a": 2}.items(), key=lambda p: p[1])
sorted(Ls(3, 1, 2))[0].v
sorted([x.shape[0], 1], reverse=True)
sorted(OUT, key=lambda v: (v.v, v.name))[0].v
max(Ls(3, 1, 2)).v
[v.v for v in reversed(Indexed(a, b))]
{a: 1}[a]
"""


@pytest.mark.parametrize("expression", CAPTURED.strip().split("\n"))
def test_is_captured_whole(expression: str) -> None:
    same(program(f"return x * 2, {expression}"), T(2), compare_dynamo=False, stateful=True)
