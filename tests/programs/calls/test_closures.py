"""Closures and cells: read, rebound, shared, nested, returned."""

import functools

import torch

from tests.support.corpus import Corpus
from tests.support.harness import Built, T, same, unrelated

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


@core
def reads_cell(x):
    k = 3

    def inner(t):
        return t * k

    return inner(x)


@core
def cell_changes_after_closure_is_made(x):
    k = 1
    inner = lambda t: t * k
    first = inner(x)
    k = 10
    return first, inner(x)


@core
def loop_variable_is_shared(x):
    return [f(x) for f in [lambda t: t + k for k in range(3)]]


@core
def loop_variable_bound_by_default(x):
    return [f(x) for f in [lambda t, k=k: t + k for k in range(3)]]


@core
def counter_by_nonlocal(x):
    def counter():
        count = 0

        def bump():
            nonlocal count
            count += 1
            return count

        return bump

    one, other = counter(), counter()
    one(), one(), other()
    return x + one(), other()


@core
def two_closures_share_a_cell(x):
    value = x

    def set_to(t):
        nonlocal value
        value = t

    def get():
        return value

    set_to(x * 2)
    middle = get()
    set_to(get() + 1)
    return middle, get(), value


@core
def three_levels(x):
    a = 1

    def level1():
        c = 2

        def level2():
            nonlocal a, c
            d = 3

            def level3():
                nonlocal a
                a += 1
                return x * a + c + d

            c += 5
            return level3()

        return level2() + c

    return level1(), a


@core
def parameter_is_a_cell(x, n):
    def inner():
        nonlocal x
        x = x + n

    inner()
    inner()
    return x


@core
def star_parameters_are_cells(x):
    def outer(*args, **kwargs):
        def inner():
            return args[0] + kwargs["k"]

        return inner()

    return outer(x, k=3)


@core
def recursion_through_cell(x):
    def descend(k):
        return x if k == 0 else descend(k - 1) + k

    return descend(5)


@core
def empty_cell(x):
    def inner():
        return late

    try:
        inner()
    except NameError as error:
        text = str(error)
    late = 5
    return x + inner(), text


@core
def deleted_cell(x):
    k = 1

    def inner():
        return k

    first = inner()
    del k
    try:
        inner()
    except NameError as error:
        return x + first, str(error)


@core
def closure_facts(x):
    k = 3

    def inner():
        return k

    return x + inner.__closure__[0].cell_contents, inner.__code__.co_freevars, inner.__name__


@core
def composed(x):
    def compose(*functions):
        return functools.reduce(lambda f, g: lambda t: g(f(t)), functions)

    return compose(torch.relu, lambda t: t + 1, torch.neg)(x)


@core
def memo_in_closure(x):
    def remember(function):
        seen = {}

        def wrapper(k):
            if k not in seen:
                seen[k] = function(k)
            return seen[k]

        return wrapper

    calls = []

    @remember
    def square(k):
        calls.append(k)
        return k * k

    return x + square(3) + square(3) + square(2), calls


@core
def class_cell_of_super(x):
    return Derived().shifted(x)


class Base:
    def shifted(self, t):
        return t + 1


class Derived(Base):
    def shifted(self, t):
        return super().shifted(t) * 2


@core
def comprehension_scopes(x):
    k = 100
    rows = [[(k, j) for j in range(2)] for k in range(2)]
    return x + k, rows


def make_scaler(scale, offset=0):
    count = 0

    def scaler(t):
        return t * scale + offset

    def rescale(value):
        nonlocal scale
        scale = value

    def counting(t):
        nonlocal count
        count += 1
        return t + count

    scaler.rescale = rescale
    scaler.counting = counting
    return scaler


def test_cell_of_the_compiled_function_is_rebound():
    same(Built(lambda: make_scaler(2)), T(3), mutate=[
        lambda w: w.program.rescale(5),
        lambda w: w.program.rescale(torch.ones(3) * 4),
        unrelated(lambda w: w.program.rescale(torch.ones(3) * 7)),
        lambda w: w.program.rescale(2.5),
    ])  # fmt: skip


def test_cell_holds_a_list():
    def make():
        items = [1, 2]

        def program(x):
            return x * len(items) + items[0]

        program.items = items
        return program

    same(Built(make), T(3), mutate=[
        lambda w: w.program.items.append(3),
        lambda w: w.program.items.__setitem__(0, 10),
        lambda w: w.program.items.clear() or w.program.items.append(1.5),
    ])  # fmt: skip


def test_cells_of_inner_functions_are_guarded():
    def make():
        scale = 2

        def inner(t):
            return t * scale

        def program(x):
            return inner(x) + 1

        def rescale(value):
            nonlocal scale
            scale = value

        program.rescale = rescale
        return program

    same(Built(make), T(3), mutate=[lambda w: w.program.rescale(5), lambda w: w.program.rescale("no")], fullgraph=False)
    same(Built(make), T(3), mutate=[lambda w: w.program.rescale(5), lambda w: w.program.rescale(6.5)])


def test_outer_cell_is_written():
    same(Built(lambda: make_scaler(2).counting), T(3), calls=4, stateful=True, compare_dynamo=False)


@core
def closure_is_returned(x):
    k = 3

    def inner(t):
        return t * k

    return x + 1, inner.__name__


@later_effects
def closures_escape(x):
    k = x + 1

    def inner(t):
        return t * k

    def setter(value):
        nonlocal k
        k = value

    return inner, setter, k, functools.partial(inner, x), lambda: x


test_programs = corpus.test()
