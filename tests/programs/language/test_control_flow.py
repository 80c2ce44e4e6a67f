"""Every statement of Python 3.11, with tensors in it."""

import collections.abc

import torch

from tests.support.corpus import Corpus
from tests.support.harness import T

corpus = Corpus()
core, effects, later_effects = corpus.core, corpus.effects, corpus.later_effects

FACTOR = 2.5
SETTINGS = {"scale": 3, "names": ["a", "b"]}


class Box:
    value = 1


class Coded(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


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
def try_no_exception(x):
    try:
        y = x + 1
    except ValueError:
        y = x - 1
    else:
        y = x * 3 + y
    finally:
        x = x * 2
    return x, y


@core
def try_caught(x):
    try:
        x = x + 1
        raise ValueError("inside")
    except ValueError as error:
        x = x * 2
        text = str(error)
    return x, text


@core
def try_caught_by_base(x):
    try:
        raise KeyError("k")
    except (TypeError, LookupError) as error:
        return x + 1, type(error).__name__, error.args


@core
def try_bare_except(x):
    try:
        [][0]
    except:
        return x + 1
    return x


@core
def try_wrong_handler_then_right(x):
    try:
        raise KeyError("k")
    except ValueError:
        return x - 1
    except KeyError:
        return x + 1


@core
def try_nested_reraise(x):
    out = []
    try:
        try:
            raise ValueError("a")
        except ValueError:
            out.append(1)
            raise
        finally:
            out.append(2)
    except ValueError:
        out.append(3)
    return x + 1, out


@core
def try_from_called_function(x):
    def thrower(k):
        if k > 1:
            raise RuntimeError(f"at {k}")
        return k

    total = 0
    try:
        for k in range(5):
            total += thrower(k)
    except RuntimeError as error:
        return x + total, str(error)


@core
def try_finally_return(x):
    try:
        return x + 1
    finally:
        x = x * 2


@core
def try_finally_overrides_return(x):
    try:
        return x + 1
    finally:
        return x * 2


@core
def try_in_loop_with_continue_and_break(x):
    out = []
    for k in range(5):
        try:
            if k == 1:
                continue
            if k == 3:
                break
            out.append(k)
        finally:
            out.append(-k)
    return x + 1, out


@core
def try_exception_attributes(x):
    try:
        raise Coded(7)
    except Coded as error:
        return x + error.code, str(error), error.args


@core
def try_exception_variable_is_deleted(x):
    try:
        raise ValueError
    except ValueError as error:
        pass
    try:
        error
    except UnboundLocalError:
        return x + 1
    return x - 1


@core
def try_raise_from(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
    except ValueError as error:
        return x + 1, repr(error.__cause__)


@core
def try_context_is_set(x):
    try:
        try:
            raise KeyError("inner")
        except KeyError:
            raise ValueError("outer")
    except ValueError as error:
        return x + 1, repr(error.__context__)


@core
def try_python_errors_caught(x):
    out = []
    for thrower in (
        lambda: 1 // 0, lambda: [][3], lambda: {}["k"], lambda: int("q"), lambda: None.a, lambda: 1 + "a",
        lambda: len(3), lambda: next(iter([])), lambda: "a".missing, lambda: (1, 2, 3)[7], lambda: {1: 2}.pop(3),
        lambda: [1].index(9), lambda: [1].remove(4), lambda: float("no"), lambda: undefined_name,
    ):  # fmt: skip
        try:
            thrower()
        except Exception as error:
            out.append((type(error).__name__, str(error)))
    return x + len(out), out


@core
def assert_holds(x):
    assert x.shape[0] == 3
    assert x.dim() == 2, "two dimensions"
    return x + 1


@core
def assert_caught(x):
    try:
        assert x.shape[0] == 9, f"nine, not {x.shape[0]}"
    except AssertionError as error:
        return x + 1, str(error)


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


class EvenMeta(type):
    def __instancecheck__(cls, value):
        return type(value) is int and value % 2 == 0


class Even(metaclass=EvenMeta):
    pass


class Defaulting(dict):
    def get(self, key, otherwise=None):
        return 7 if key == "absent" else dict.get(self, key, otherwise)


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


@later_effects
def exception_groups(x):
    out = []
    try:
        raise ExceptionGroup("both", [ValueError("v"), TypeError("t")])
    except* ValueError as group:
        out.append(len(group.exceptions))
    except* TypeError as group:
        out.append(str(group.exceptions[0]))
    return x + 1, out


@core
def unbound_local_in_branch(x, flag):
    if not flag:
        late = 1
    try:
        return x + late
    except UnboundLocalError as error:
        return x - 1, error.args


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


@later_effects
def import_that_fails(x):
    try:
        import no_such_module_anywhere
    except ImportError as error:
        return x + 1, error.name


@core
def from_import_that_fails(x):
    try:
        from math import no_such_name
    except ImportError as error:
        return x + 1, error.name


@core
def unpacking_errors(x):
    out = []
    for given in ((1, 2), (1, 2, 3, 4), 5, "ab", []):
        try:
            a, c, d = given
            out.append("no error")
        except (ValueError, TypeError) as error:
            out.append(str(error))
        try:
            a, c, d, *e = given
            out.append(e)
        except (ValueError, TypeError) as error:
            out.append(str(error))
    return x + 1, out


@core
def raising_odd_things(x):
    out = []
    for thing in (ValueError, ValueError("text"), 5, "text", None, int):
        try:
            raise thing
        except BaseException as error:
            out.append((type(error).__name__, str(error)))
    return x + 1, out


@core
def reraise_without_exception(x):
    try:
        raise
    except RuntimeError as error:
        return x + 1, str(error)


@core
def exceptions_compare_by_class_tree(x):
    out = []
    for kind in (KeyError, IndexError, ZeroDivisionError, UnicodeError, NotImplementedError, FileNotFoundError):
        try:
            raise kind("t")
        except LookupError:
            out.append("lookup")
        except ArithmeticError:
            out.append("arithmetic")
        except (ValueError, RuntimeError) as error:
            out.append(type(error).__mro__[1].__name__)
        except Exception as error:
            out.append(isinstance(error, OSError))
    return x + 1, out


@core
def exception_notes_and_args(x):
    try:
        raise ValueError("a", 2)
    except ValueError as error:
        error.add_note("noted")
        return x + 1, error.args, error.__notes__, repr(error)


@core
def finally_in_every_exit(x):
    log = []

    def exits(how):
        for _ in range(2):
            try:
                if how == "return":
                    return "returned"
                if how == "break":
                    break
                if how == "continue":
                    continue
                if how == "raise":
                    raise KeyError(how)
            finally:
                log.append(how)
        return "end"

    out = []
    for how in ("return", "break", "continue", "raise", "none"):
        try:
            out.append(exits(how))
        except KeyError as error:
            out.append(error.args)
    return x + len(log), out, log


@core
def else_of_try_in_loops(x):
    out = []
    for value in ("1", "q", "3"):
        try:
            number = int(value)
        except ValueError:
            out.append("bad")
            continue
        else:
            out.append(number)
        finally:
            out.append("done")
    else:
        out.append("all")
    return x + 1, out


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


@later_effects
def raises_with_notes(x):
    error = ValueError("a")
    error.add_note("a note")
    raise error from None


@later_effects
def raises_group(x):
    raise ExceptionGroup("several", [ValueError("a"), KeyError("c")])


@later_effects
def system_exit_is_caught(x):
    import sys

    try:
        sys.exit(3)
    except SystemExit as error:
        return x + error.code


# What leaves the function with an exception, changes the outside or has to break.


@later_effects
def raises_out(x):
    x = x + 1
    raise ValueError(f"shape {tuple(x.shape)}")


@later_effects
def raises_out_of_inner(x):
    def inner(t):
        if t.dim() == 2:
            raise KeyError("inner")
        return t

    return inner(x + 1)


@later_effects
def raises_from(x):
    try:
        {}["k"]
    except KeyError as error:
        raise RuntimeError("outer") from error


@later_effects
def raises_in_finally(x):
    try:
        x = x + 1
        raise ValueError("first")
    finally:
        x = x * 2
        raise TypeError("second")


@later_effects
def assert_fails(x):
    assert x.shape[0] == 4, "four"
    return x


@later_effects
def unbound_leaves(x, flag):
    if not flag:
        late = 1
    return x + late


@later_effects
def undefined_leaves(x):
    return x + undefined_name


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
def break_in_try(x):
    try:
        x = x + 1
        print("in try")
        raise ValueError(str(x.shape))
    except ValueError as error:
        print(error)
        x = x * 2
    finally:
        print("finally")
        x = x + 3
    return x


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


COUNTER = 0


@effects
def writes_global(x):
    global COUNTER
    COUNTER = 5
    return x + COUNTER


@later_effects
def assert_on_tensor(x):
    assert (x == x).all()
    return x + 1


test_programs = corpus.test()
