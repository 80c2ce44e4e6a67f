"""Every other statement of Python 3.11, with tensors in it: assignments, names, imports, functions, coroutines."""

import torch

from tests.support.corpus import Corpus

corpus = Corpus()
core, effects, later_effects = corpus.core, corpus.effects, corpus.later_effects

FACTOR = 2.5


SETTINGS = {"scale": 3, "names": ["a", "b"]}


class Box:
    value = 1


class Tally:
    """Has every augmented operator, each leaving its name."""

    def __init__(self):
        self.log = []

    def note(self, name, other):
        self.log.append((name, other))
        return self

    def __iadd__(self, other):
        return self.note("+", other)

    def __isub__(self, other):
        return self.note("-", other)

    def __imul__(self, other):
        return self.note("*", other)

    def __itruediv__(self, other):
        return self.note("/", other)

    def __ifloordiv__(self, other):
        return self.note("//", other)

    def __imod__(self, other):
        return self.note("%", other)

    def __ipow__(self, other):
        return self.note("**", other)

    def __imatmul__(self, other):
        return self.note("@", other)

    def __ilshift__(self, other):
        return self.note("<<", other)

    def __irshift__(self, other):
        return self.note(">>", other)

    def __iand__(self, other):
        return self.note("&", other)

    def __ixor__(self, other):
        return self.note("^", other)

    def __ior__(self, other):
        return self.note("|", other)


COUNTER = 0


@core
def walrus(x, numbers):
    if (count := len(numbers)) > 2:
        x = x + count
    while (last := numbers[-1] + count) < 9:
        count += 1
        x = x + last
    return x, [double for v in numbers if (double := v * 2) > 2], count


@core
def chained_comparison(x, n):
    if 1 < n < 5 <= n + 2 != 4:
        x = x + 1
    if 1 < n < 2 < undefined_name:
        x = x * 100
    return x


@core
def star_unpacking(x, tensors):
    a, *rest = (x, *tensors)
    *front, last = rest
    (c, d), *e = [(1, 2), 3, 4]
    first, second = tensors
    return a + last, front, [*rest, *front], {**{"k": c}, "d": d}, e


@core(graphs=None)
def swaps(x, y, z):
    x, y = y, x
    a, c, d, e = 1, 2, 3, 4
    a, c, d, e = e, d, c, a
    x, y, z = z, x, y
    return x, y, z, (a, c, d, e)


@core
def augmented_on_names(x, n):
    n += 2
    n -= 1
    n *= 5
    n //= 3
    n **= 2
    n %= 7
    n <<= 3
    n >>= 1
    n |= 9
    n &= 13
    n ^= 5
    q = 1.0
    q /= 4
    text = "a"
    text += "b"
    text *= 2
    items = [1]
    alias = items
    items += [2]
    items *= 2
    pair = (1,)
    other = pair
    pair += (2,)
    return x + n + q, text, alias is items, items, other, pair


@core
def augmented_on_items_and_attributes(x):
    box = Box()
    box.value += 2
    cells = [1, 2, 3]
    cells[0] += 5
    cells[1:] += [9]
    table = {"k": x}
    table["k"] += 1
    table["k"] = table["k"] * 2
    return table, cells, box.value, Box.value


@core
def augmented_on_tensors(x, y):
    x = x.clone()
    alias = x
    x += y
    x *= 2
    x -= 1
    x /= 3
    x[0] += 10
    x[:, 1] *= 0
    return x, alias is x


@core
def formatted_strings(x, n, r, s):
    width = 8
    return (
        x + 1,
        f"{n}", f"{n:>5}|{n:05d}|{n:#x}|{n:,}", f"{r:.3f} {r:8.2e} {r:%}", f"{s!r} {s!s} {s!a} {s:>{width}}",
        f"{n=} {r = :.1f}", f"{x.shape} {x.dtype} {x.dim()}", f"{{literal}} {n + 1}", f"{s:{'^'}{width}}", "" f"{''}",
        f"{None} {True} {[1, 'a']} {(1,)} { {'k': 2} }",
    )  # fmt: skip


@core
def lambdas(x):
    add = lambda a, c=2, *rest, d=3, **more: a + c + d + len(rest) + len(more)
    return add(x), add(x, 1), add(x, 1, 2, 3, d=4, e=5), (lambda: x * 2)()


@core
def global_reads(x):
    return x * FACTOR + SETTINGS["scale"] + len(SETTINGS["names"])


@core
def nonlocal_inside(x):
    count = 0

    def bump(by=1):
        nonlocal count, x
        count += by
        x = x + count
        return count

    bump()
    bump(5)
    return x, count


@core
def deletes(x):
    a = 1
    del a
    cells = [1, 2, 3, 4]
    del cells[0]
    del cells[1:]
    table = {"k": 1, "j": 2}
    del table["k"]

    box = Box()
    box.extra = 1
    del box.extra
    try:
        a
    except UnboundLocalError as error:
        return x + 1, cells, table, hasattr(box, "extra"), str(error)


@core
def comprehensions(x, numbers):
    return (
        [x + v for v in numbers],
        [v * w for v in numbers if v > 1 for w in range(v) if w != 1],
        {v: x * v for v in numbers},
        {v % 2 for v in numbers},
        [[x + a for a in range(c)] for c in range(3)],
        {a: {c: a * c for c in range(2)} for a in range(2)},
        [a for a, _ in sorted({"z": 1, "y": 2}.items())],
        tuple(v for v in numbers),
    )


@core
def comprehension_closes_over_locals(x, n):
    k = 4
    return [x + k + n + j for j in range(2)], [(lambda: j + k)() for j in range(3)]


@core
def generator_expressions(x, numbers):
    total = sum(v * 2 for v in numbers)
    largest = max((v for v in numbers if v < 3), default=0)
    both = any(v > 2 for v in numbers) and all(v > 0 for v in numbers)
    return x + total + largest, both, list(v + w for v in numbers for w in (1, 2)), sum((x * v for v in numbers), x)


@core
def conditional_expressions(x, n, flag):
    return x + 1 if flag else x - 1, (n if n > 5 else -n) + x, "a" if not flag else "b" if n == 3 else "c"


@core
def boolean_operators(x, n):
    return x + 1, n and "yes", 0 or n, not n, n > 1 and n < 5 or None, [] or {} or 0, 1 and [] and 2, None or x


@core
def imports_inside(x):
    import collections.abc as abc
    import math
    from functools import reduce
    from os import path as p

    return x * math.pi + reduce(lambda a, c: a + c, [1, 2, 3]), isinstance([], abc.Sequence), p.join("a", "b")


@core
def import_star_names(x):
    import torch.nn.functional as F2
    from torch.nn import functional

    return F2.relu(x) + functional.gelu(x)


@core
def pass_and_expression_statements(x):
    pass
    "a text"
    x + 5
    ...
    x.sum()
    return x * 1


@core
def returns_none(x):
    x.sum() + 1
    x = x.add_(1)


@core(graphs=None)
def bare_return(x, flag):
    if flag:
        return
    return x + 1


@core
def annotations(x: torch.Tensor, n: int) -> torch.Tensor:
    y: torch.Tensor = x + n
    unset: int
    return y


@later_effects
def nested_functions_and_classes(x):
    def outer(a):
        def inner(c):
            class Local:
                factor = 3

                def scale(self, t):
                    return t * self.factor + c

            return Local()

        return inner(a).scale

    return outer(5)(x)


@core
def augmented_on_objects(x):
    tally = Tally()
    tally += 1
    tally -= 2
    tally *= 3
    tally /= 4
    tally //= 5
    tally %= 6
    tally **= 7
    tally @= 8
    tally <<= 9
    tally >>= 10
    tally &= 11
    tally ^= 12
    tally |= 13
    return x + len(tally.log), tally.log


@core
def augmented_on_tensors_of_every_kind(x, y, i, b):
    x, i, b = x.clone(), i.clone(), b.clone()
    x **= 2
    x //= 0.5
    x %= 3
    i <<= 1
    i >>= 1
    i |= 4
    i &= 6
    i ^= 1
    b |= True
    b &= b
    z = y
    z = z @ y.t()
    z @= torch.eye(3)
    return x, i, b, z


@core
def starred_subscripts(x, u):
    index = (0, slice(1, None))
    return x[*index], u[1, *index], {(1, 2): "k"}[*(1, 2)]


@core
def conditional_on_every_comparison(x, n, s):
    out = []
    for a, c in ((1, 2), (2, 1), (1, 1), ("a", "b"), ((1,), (1, 2)), (1.5, 2), (True, 1)):
        out.append((a < c, a <= c, a == c, a != c, a > c, a >= c, a is c if a is None else None))
    return x + 1, out, n is not None, s not in ("q",), not n == 3


@core
def shadowed_names(x):
    x = x + 1
    for x in [x, x * 2]:
        pass
    y = [x for x in range(3)]
    return x, y


@core
def global_and_builtin_names(x):
    return x + len(str(__name__)) * 0 + (1 if __debug__ else 2), NotImplemented is NotImplemented, Ellipsis is ...


@later_effects
def coroutine_is_driven_by_hand(x):
    async def work(t):
        return t * 2

    async def outer():
        return await work(x) + 1

    coroutine = outer()
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


@later_effects
def asyncio_runs(x):
    import asyncio

    async def work():
        await asyncio.sleep(0)
        return x + 1

    return asyncio.run(work())


@effects
def writes_global(x):
    global COUNTER
    COUNTER = 5
    return x + COUNTER


test_programs = corpus.test()
