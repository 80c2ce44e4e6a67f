"""Branches, loops, `match` and `with` in every shape, with tensors in them."""

import collections.abc

import torch

from tests.support.corpus import Corpus
from tests.support.harness import T

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


class Box:
    value = 1


class Point:
    __match_args__ = ("a", "c")

    def __init__(self, a, c):
        self.a, self.c = a, c


class Manager:
    def __init__(self, name, log):
        self.name = name
        self.log = log

    def __enter__(self):
        self.log.append("enter " + self.name)
        return self

    def __exit__(self, kind, value, trace):
        self.log.append(("exit " + self.name, kind is None or kind.__name__))
        return kind is KeyError


class EvenMeta(type):
    def __instancecheck__(cls, value):
        return type(value) is int and value % 2 == 0


class Even(metaclass=EvenMeta):
    pass


class Defaulting(dict):
    def get(self, key, otherwise=None):
        return 7 if key == "absent" else dict.get(self, key, otherwise)


@core
def if_elif_else(x, n):
    if n < 0:
        return x - 1
    elif n == 3:
        return x * 3
    else:
        return x + 1


@core
def if_on_shape(x):
    if x.shape[0] > 2 and x.dim() == 2:
        return x.t()
    return x


@core
def if_on_none(x, none):
    if none is None:
        x = x + 1
    if none is not None:
        x = x * 2
    return x


@core
def if_truthiness(x, numbers, table, s):
    out = []
    for value in (numbers, table, s, 0, 0.0, "", None, [], {}, (), set(), range(0), (0,), b"", 1j):
        out.append(x + 1 if value else x - 1)
    return out


@core
def for_range(x):
    for k in range(4):
        x = x + k
    return x


@core
def for_else_runs(x):
    for k in range(3):
        x = x + k
    else:
        x = x * 2
    return x


@core
def for_else_skipped(x):
    for k in range(3):
        x = x + k
        if k == 1:
            break
    else:
        x = x * 2
    return x


@core
def for_continue(x):
    for k in range(5):
        if k % 2:
            continue
        x = x + k
    return x, k


@core
def for_over_empty(x):
    for k in ():
        x = x + k
    else:
        x = x - 1
    return x


@core
def for_over_tensor(x):
    total = torch.zeros(4)
    for row in x:
        total = total + row
    return total


@core
def for_nested_with_break(x):
    for a in range(3):
        for c in range(3):
            if c > a:
                break
            x = x + a * c
        else:
            x = x * 2
    return x


@core
def for_unpacking(x):
    for a, (c, *rest) in [(1, (2, 3, 4)), (5, (6,))]:
        x = x * a + c + len(rest)
    return x


@core
def for_over_dict(x, named):
    for key, value in named.items():
        x = x + value * len(key)
    for key in named:
        x = x + named[key]
    return x


@core
def for_return_inside(x):
    for k in range(10):
        x = x + 1
        if k == 2:
            return x
    return x * 100


@core
def for_target_is_attribute_and_item(x):
    box, cells = Box(), [0, 0]
    for box.value in range(3):
        x = x + box.value
    for cells[1] in (5, 6):
        x = x + cells[1]
    return x, cells


@core
def while_counts(x, n):
    while n > 0:
        x = x + n
        n -= 1
    return x


@core
def while_else(x, n):
    while n > 0:
        n -= 1
        x = x + 1
    else:
        x = x * 2
    return x


@core
def while_true_break(x):
    k = 0
    while True:
        k += 1
        if k > 3:
            break
        if k == 2:
            continue
        x = x * k
    return x


@core
def while_on_list(x):
    stack = [1, 2, 3]
    while stack:
        x = x + stack.pop()
    return x


@core
def match_values(x):
    out = []
    for subject in (1, "two", None, True, 2.5, (1, 2), [1, 2, 3], {"k": 5, "j": 6}, "other", -3):
        match subject:
            case True:
                out.append("true")
            case 1 | 2:
                out.append("small")
            case "two":
                out.append("text")
            case None:
                out.append("none")
            case float(value):
                out.append(("float", value))
            case (a, c):
                out.append((a, c))
            case [first, *rest]:
                out.append((first, rest))
            case {"k": value, **others}:
                out.append((value, others))
            case int() as number if number < 0:
                out.append(-number)
            case _:
                out.append("default")
    return x + 1, out


@core
def match_classes(x):
    for point in (Point(0, 1), Point(2, 0), Point(3, 4)):
        match point:
            case Point(0, c):
                x = x + c
            case Point(a=a, c=0):
                x = x * a
            case Point(a, c):
                x = x - a * c
    return x


@later_effects
def match_asks_the_class(x):
    for subject in ([1, 2], {"k": 3}, 4, 5, Defaulting(k=1)):
        match subject:
            case collections.abc.Sequence():
                x = x + 1
            case {"absent": value}:
                x = x * value
            case collections.abc.Mapping():
                x = x * 2
            case Even():
                x = x - 3
            case int(n):
                x = x / n
    return x


@later_effects
def match_with_too_many_parts(x):
    outcome = []
    for make in (lambda: Point(1, 2), lambda: 3):
        try:
            match make():
                case int(a, b):
                    x = x + a
                case Point(a, b, c):
                    x = x * 2
        except TypeError as error:
            outcome.append(str(error))
    return x + 1, outcome


@core
def with_in_loop_and_try(x):
    log = []

    for k in range(3):
        with Manager("a", log) as a, Manager("c", log):
            x = x + len(a.name)
            if k == 0:
                continue
            if k == 1:
                raise KeyError
            break
    return x, log


@core
def with_returns_inside(x):
    with torch.no_grad():
        for k in range(3):
            if k == 1:
                return x + k
    return x


@core
def long_jumps_need_extended_arguments(x, n):
    out = 0
    if n == 3:
        # more than 255 instructions and names in between
        out += 1
        out += 2
        out += 3
        out += 4
        out += 5
        out += 6
        out += 7
        out += 8
        out += 9
        out += 10
        a = [out + 1, out + 2, out + 3, out + 4, out + 5, out + 6, out + 7, out + 8, out + 9, out + 10, out + 11]
        c = {"a": out, "b": out, "c": out, "d": out, "e": out, "f": out, "g": out, "h": out, "i": out, "j": out}
        d = (out * 2) + (out * 3) + (out * 4) + (out * 5) + (out * 6) + (out * 7) + (out * 8) + (out * 9) + (out * 10)
        e = [v + 1 if v > 2 else v - 1 if v > 1 else v for v in a] + [v + 1 if v > 2 else v for v in c.values()]
        f = f"{out} {out + 1} {out + 2} {out + 3} {out + 4} {out + 5} {out + 6} {out + 7} {out + 8} {out + 9} {out}"
        out = out + len(a) + len(c) + d + len(e) + len(f) + a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7]
        out = out + c["a"] + c["b"] + c["c"] + c["d"] + c["e"] + c["f"] + c["g"] + c["h"] + c["i"] + c["j"] + e[0]
    return x + out


@core
def recursion_on_python_numbers(x, n):
    def factorial(k):
        return 1 if k < 2 else k * factorial(k - 1)

    return x * factorial(n + 3)


@core
def deeply_nested_blocks(x):
    for a in range(2):
        while True:
            try:
                with torch.enable_grad():
                    if a:
                        x = x + 1
                    else:
                        x = x * 2
                    raise StopIteration
            except StopIteration:
                break
            finally:
                x = x - 3
    return x


@core(w=T(2, grad=True))
def branch_with_grad(w, n):
    y = w * n
    if y.requires_grad:
        y = y * 2
    return y


@core
def parenthesised_with(x):
    log = []
    with (
        Manager("a", log) as a,
        Manager("c", log),
    ):
        x = x + len(a.name)
    return x, log


@core
def nested_conditionals_and_early_returns(x):
    def choose(k):
        if k == 0:
            return x
        if k == 1:
            if x.dim() == 2:
                return x * 2
            return x * 3
        elif k == 2:
            pass
        else:
            return None
        return x * 4

    return [choose(k) for k in range(4)]


@later_effects
def match_on_tensor_branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@later_effects
def while_on_tensor(x):
    x = x.abs()
    while x.max() < 100:
        x = x * 2
    return x


@later_effects
def prints_between(x):
    y = x + 1
    print("shape", y.shape)
    return y * 2


@later_effects
def prints_in_loop(x):
    for k in range(3):
        x = x + k
        print(k)
    return x


@later_effects
def item_in_middle(x):
    total = (x + 1).sum().item()
    return x * total


@later_effects
def break_in_with(x):
    with torch.no_grad():
        x = x + 1
        print(torch.is_grad_enabled())
        x = x * 2
    print(torch.is_grad_enabled())
    return x


@later_effects
def break_in_comprehension(x):
    return [x + k for k in range(3) if print(k) is None]


test_programs = corpus.test()
