"""Generators, iterators and itertools, consumed completely, partly and lazily."""

import contextlib
import itertools
import types

import torch

from tests.support.corpus import Corpus

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


def count_to(stop):
    k = 0
    while k < stop:
        yield k
        k += 1


def tensors_from(x, stop):
    for k in count_to(stop):
        yield x + k


def delegating(x):
    yield x
    returned = yield from inner_with_return(x)
    yield returned


def inner_with_return(x):
    yield x * 2
    return x * 3


def with_finally(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("closed")


def echo():
    received = []
    while True:
        value = yield len(received)
        if value is None:
            return received
        received.append(value)


def catches():
    try:
        yield 1
    except ValueError as error:
        yield f"caught {error}"


def endless(start=0):
    while True:
        yield start
        start += 1


class Node:
    def __init__(self, value, *children):
        self.value, self.children = value, children

    def __iter__(self):
        yield self.value
        for child in self.children:
            yield from child


# torch._dynamo loses the value that `yield from` gives, so there is no graph to agree with.
core.lines("list(delegating(x))", using=globals(), compare_dynamo=False)

core.lines(
    """
    [t * 2 for t in tensors_from(x, 3)]
    list(tensors_from(x, 3))
    sum(tensors_from(x, 3))
    torch.stack(tuple(tensors_from(x, 2)))
    [*tensors_from(x, 2), 5]
    dict(zip("ab", tensors_from(x, 5)))
    next(tensors_from(x, 1)) + 1
    [a + c for a, c in zip(tensors_from(x, 3), count_to(2))]
    x + sum(count_to(5))
    x + max(count_to(4)) + min(count_to(4))
    list(map(lambda t: t + 1, tensors_from(x, 2)))
    list(itertools.chain(tensors_from(x, 1), [y], tensors))
    list(itertools.chain.from_iterable([[x + 1], tensors]))
    [a * c for a, c in itertools.product([x, y], [1, 2])]
    [t + 1 for t in itertools.islice(tensors_from(x, 10), 1, 6, 2)]
    [t for t in itertools.islice(endless(), 3)] + [x + 1]
    [a + c for a, c in itertools.combinations([x, y, x * 2], 2)]
    [a - c for a, c in itertools.permutations([x, y], 2)]
    list(itertools.accumulate(tensors, torch.add))
    list(itertools.accumulate(tensors, lambda a, c: a * c, initial=x))
    [t + k for t, k in zip(itertools.repeat(x, 3), itertools.count(1))]
    [t + k for t, k in zip([x] * 4, itertools.cycle([1, 2]))]
    [a + c for a, c in itertools.pairwise(tensors_from(x, 3))]
    [a + c for a, c in itertools.zip_longest([x, y], [1], fillvalue=7)]
    list(itertools.takewhile(lambda k: k < 2, count_to(9))) + [x + 1]
    list(itertools.dropwhile(lambda k: k < 7, count_to(9))) + [x + 1]
    list(itertools.filterfalse(lambda k: k % 2, count_to(5))) + [x + 1]
    list(itertools.compress("abc", [1, 0, 1])) + [x + 1]
    [(key, list(group)) for key, group in itertools.groupby([1, 1, 2])] + [x + 1]
    list(Node(x, Node(y), Node(x + 1, Node(5))))
    (x + 1, 2 in count_to(5), 9 in count_to(5), any(k == 2 for k in endless()))
    (x + 1, list(reversed(list(count_to(3)))), sorted(count_to(3), reverse=True), tuple(enumerate(count_to(2))))
    """,
    using=globals(),
)


@core
def partly_consumed_then_rest(x):
    generator = count_to(5)
    first = next(generator)
    second = next(generator)
    rest = [k for k in generator]
    return x + first + second, rest, next(generator, "end")


@core
def two_interleaved(x):
    one, other = tensors_from(x, 5), tensors_from(x * 10, 5)
    return [next(one), next(other), next(one), next(other)]


@core
def sends(x):
    generator = echo()
    next(generator)
    generator.send(1)
    count = generator.send(2)
    try:
        generator.send(None)
    except StopIteration as stop:
        return x + count, stop.value


@core
def throws_into(x):
    generator = catches()
    first = next(generator)
    caught = generator.throw(ValueError("in"))
    return x + first, caught


@core
def closes(x):
    log = []
    generator = with_finally(log)
    next(generator)
    generator.close()
    return x + 1, log, next(generator, "end")


@core
def finally_runs_at_end(x):
    log = []
    return x + sum(with_finally(log)), log


@core
def stop_iteration_value(x):
    def gives():
        yield 1
        return "value"

    generator = gives()
    next(generator)
    try:
        next(generator)
    except StopIteration as stop:
        return x + 1, stop.value


@core
def exception_inside_generator(x):
    def fails():
        yield x + 1
        raise KeyError("inside")

    got = []
    try:
        for t in fails():
            got.append(t)
    except KeyError as error:
        return got, str(error)


@core
def generator_closes_over_loop_variable(x):
    makers = [(lambda: k) for k in range(3)]
    return x + 1, [make() for make in makers], list(make() * 2 for make in makers)


@core
def generator_sees_late_changes(x):
    scale = 1
    generator = (x * scale for _ in range(2))
    first = next(generator)
    scale = 5
    return first, next(generator)


@core
def generator_with_state_in_list(x):
    seen = []

    def noting():
        for k in range(4):
            seen.append(k)
            yield x + k

    for t in noting():
        if len(seen) == 2:
            break
    return t, seen


@core
def generator_as_coroutine_pipeline(x):
    def doubled(source):
        for t in source:
            yield t * 2

    def shifted(source, by):
        yield from (t + by for t in source)

    return list(shifted(doubled(tensors_from(x, 3)), 1))


@core
def recursive_generator(x):
    def countdown(k):
        if k:
            yield x * k
            yield from countdown(k - 1)

    return list(countdown(4))


@core
def iterators_are_shared(x, numbers):
    iterator = iter(numbers)
    pairs = list(zip(iterator, iterator))
    return x + 1, pairs


@core
def enumerate_and_zip_lazily(x):
    pairs = zip(endless(), "abc")
    first = next(pairs)
    numbered = enumerate(pairs, 10)
    return x + 1, first, list(numbered)


@core
def map_over_endless(x):
    squares = map(lambda k: k * k, itertools.count())
    return x + next(squares) + next(squares) + next(squares)


@core
def tee_splits(x):
    one, other = itertools.tee(count_to(3))
    return x + next(one), list(other), list(one)


@core
def generator_type_facts(x):
    generator = count_to(2)
    return x + 1, isinstance(generator, types.GeneratorType), iter(generator) is generator, hasattr(generator, "send")


@core
def context_inside_generator(x):
    def under():
        with torch.no_grad():
            yield x * 2
        yield x * 3

    return list(under()), torch.is_grad_enabled()


@core
def dict_and_set_iterators(x):
    table = {"a": 1, "b": 2}
    iterator = iter(table.items())
    return x + next(iterator)[1], list(iterator), next(iter({7}))


# Generators that come from outside or go outside.


@later_effects
def generator_is_returned(x):
    generator = tensors_from(x, 3)
    next(generator)
    return generator, x + 1


@later_effects
def generator_expression_is_returned(x):
    return (x + k for k in range(3))


@later_effects
def iterators_are_returned(x, numbers):
    iterator = iter(numbers)
    next(iterator)
    return iterator, zip(numbers, "abc"), map(str, numbers), enumerate(numbers), reversed(numbers), x + 1


@later_effects(generator=lambda: count_to(6), fresh=False)
def outside_generator(x, generator):
    return x + next(generator)


@later_effects(iterator=lambda: iter([1, 2, 3, 4]), fresh=False)
def outside_iterator(x, iterator):
    for k in iterator:
        return x + k


@later_effects
def generator_program(x):
    yield x + 1
    print("between")
    yield x * 2


@later_effects
def break_inside_generator(x):
    def prints():
        for k in range(3):
            print(k)
            yield x + k

    return [t * 2 for t in prints()]


@later_effects
def stop_iteration_becomes_runtime_error(x):
    def bad():
        yield x
        raise StopIteration

    return list(bad())


@later_effects
def given_up_inside_finally(x):
    log = []
    for item in with_finally(log):
        x = x + item
        break
    return x, log


@core
def given_up_without_finally(x):
    for item in (value for value in (1, 2, 3)):
        x = x + item
        break
    return x


@core
def throws_through_delegate(x):
    def inner():
        try:
            yield 1
        except KeyError as error:
            yield f"inner {error.args[0]}"
        return "returned"

    def outer():
        try:
            returned = yield from inner()
            yield returned
            yield 3
        except ValueError as error:
            yield f"outer {error}"

    steps = outer()
    first = [next(steps), steps.throw(KeyError("k")), next(steps), steps.throw(ValueError("v"))]
    other = outer()
    next(other)
    second = [other.throw(ValueError("straight"))]
    try:
        other.throw(TypeError, "typed")
    except TypeError as error:
        second.append(str(error))
    return x + 1, first, second, list(other)


@core
def exceptions_handled_around_yield(x):
    def gives():
        try:
            raise KeyError("inside")
        except KeyError:
            yield 1
            try:
                raise
            except KeyError as again:
                yield again.args

    steps = gives()
    next(steps)
    try:
        raise ValueError("outside")
    except ValueError as error:
        outside = error.__context__
    return x + 1, outside, next(steps)


@core
def closes_with_exit_seen(x):
    def polite(log):
        try:
            yield 1
        except GeneratorExit:
            log.append("exit")
            raise
        finally:
            log.append("finally")

    log = []
    steps = polite(log)
    next(steps)
    steps.close()
    steps.close()
    return x + 1, log, list(steps)


@later_effects
def close_is_ignored(x):
    def stubborn():
        try:
            yield 1
        except GeneratorExit:
            yield 2

    ignoring = stubborn()
    next(ignoring)
    try:
        ignoring.close()
    except RuntimeError as error:
        return x + 1, str(error), list(ignoring)


def unfinished(log, x):
    try:
        log.append("begins")
        yield x + 1
        yield x + 2
    except KeyError:
        yield x * 3
    finally:
        log.append("closed")


@core(log=list)
def dropped_at_the_return(x, log):
    steps = unfinished(log, x)
    return next(steps) * 2, log


@core(log=list)
def two_are_dropped_at_the_return(x, log):
    first, second = unfinished(log, x), unfinished(log, x)
    a, b = next(first), next(second)
    log.append("between")
    return a + b + first.throw(KeyError), log


@core(log=list)
def a_delegating_one_is_dropped(x, log):
    def outer():
        try:
            yield from unfinished(log, x)
        finally:
            log.append("outer")

    steps = outer()
    return next(steps) + 1, log


@core(log=list)
def one_in_a_with_is_dropped(x, log):
    @contextlib.contextmanager
    def noted():
        try:
            yield
        finally:
            log.append("left")

    def inside():
        with noted():
            yield x + 1

    steps = inside()
    return next(steps) + 1, log


@later_effects(log=list)
def dropped_before_the_return(x, log):
    steps = unfinished(log, x)
    y = next(steps)
    del steps
    log.append("after")
    return y * 2, log


test_programs = corpus.test()
