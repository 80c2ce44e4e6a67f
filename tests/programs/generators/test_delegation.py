"""Exceptions thrown into generators that wait in `yield from`, and code that awaits."""

from tests.support.corpus import Corpus

corpus = Corpus()
core, later_effects = corpus.core, corpus.later_effects


def delegating_to(inner, log):
    """Delegates, and logs what the delegate returned or raised."""
    try:
        log.append(("returned", (yield from inner)))
    except BaseException as error:
        log.append((type(error).__name__, error.args))
        raise
    yield "after"


@core
def a_delegate_that_returns_when_thrown_into(x):
    def inner():
        try:
            yield x + 1
        except KeyError as error:
            return error.args[0]

    log = []
    steps = delegating_to(inner(), log)
    first = next(steps)
    return first * 2, steps.throw(KeyError("k")), log, list(steps)


@core
def a_delegate_that_raises_another_error(x):
    def inner():
        try:
            yield x + 1
        except KeyError as error:
            raise ValueError("changed") from error

    log = []
    steps = delegating_to(inner(), log)
    first = next(steps)
    try:
        steps.throw(KeyError("k"))
    except ValueError as error:
        return first * 2, log, str(error), type(error.__cause__), list(steps)


@core
def a_chain_of_three(x):
    def innermost():
        while True:
            try:
                yield x
            except KeyError as error:
                yield error.args[0]

    def middle():
        yield from innermost()

    log = []
    steps = delegating_to(middle(), log)
    first = next(steps)
    thrown, second = steps.throw(KeyError("k")), next(steps)
    steps.close()
    return first + 1, thrown, second * 2, log


@core
def thrown_into_a_list_iterator(x):
    log = []
    steps = delegating_to([1, 2, 3], log)
    first = next(steps)
    try:
        steps.throw(KeyError("k"))
    except KeyError as error:
        return x + first, log, error.args, list(steps)


@core
def closed_while_delegating(x):
    def inner(log):
        try:
            yield x + 1
        finally:
            log.append("inner is closed")

    log = []
    steps = delegating_to(inner(log), log)
    first = next(steps)
    steps.close()
    return first * 2, log, list(steps)


@later_effects
def a_delegate_that_ignores_the_end(x):
    def inner():
        try:
            yield x + 1
        except GeneratorExit:
            yield "still here"

    log = []
    steps = delegating_to(inner(), log)
    first = next(steps)
    try:
        steps.close()
    except RuntimeError as error:
        return first * 2, str(error), log


@core
def thrown_before_the_start(x):
    log = []
    steps = delegating_to([1], log)
    try:
        steps.throw(KeyError("early"))
    except KeyError as error:
        return x + 1, error.args, log, list(steps)


@core
def thrown_after_the_end(x):
    log = []
    steps = delegating_to([], log)
    items = list(steps)
    try:
        steps.throw(KeyError("late"))
    except KeyError as error:
        return x + 1, items, error.args, log


@core
def thrown_into_itself(x):
    def inner(own):
        try:
            own[0].throw(KeyError("running"))
        except ValueError as error:
            yield str(error)

    own = []
    own.append(inner(own))
    return x + 1, list(own[0])


@core
def sent_through_a_delegate(x):
    def inner():
        got = yield x
        while got is not None:
            got = yield got * 2
        return "enough"

    log = []
    steps = delegating_to(inner(), log)
    first = next(steps)
    return first + 1, steps.send(x), steps.send(3), steps.send(None), log


@later_effects
def sent_to_an_iterator(x):
    log = []
    steps = delegating_to(iter([1, 2]), log)
    next(steps)
    try:
        steps.send("value")
    except AttributeError as error:
        return x + 1, str(error), log


class Throwable:
    """An iterator with a `throw` of its own."""

    def __init__(self):
        self.thrown = []

    def __iter__(self):
        return self

    def __next__(self):
        return len(self.thrown)

    def throw(self, error):
        self.thrown.append(type(error).__name__)
        return "caught"


@later_effects
def thrown_into_an_iterator_that_takes_it(x):
    inner, log = Throwable(), []
    steps = delegating_to(inner, log)
    y = x + next(steps)
    return y * 2, steps.throw(KeyError("k")), next(steps), inner.thrown, log


def run(coroutine):
    """The result of a coroutine that never has to wait."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value


class Managed:
    def __init__(self, log):
        self.log = log

    async def __aenter__(self):
        self.log.append("enter")
        return len(self.log)

    async def __aexit__(self, kind, error, traceback):
        self.log.append(kind and kind.__name__)
        return kind is KeyError


@later_effects
def async_with(x):
    log = []

    async def work():
        y = x + 1
        async with Managed(log) as entered:
            y = y * entered
            raise KeyError("suppressed")
        return y + 1

    return run(work()), log


@later_effects
def async_for_over_an_async_generator(x):
    async def gives(count):
        for k in range(count):
            yield x * k

    async def work():
        total = x + 1
        async for item in gives(3):
            total = total + item
        return total

    return run(work())


@later_effects
def async_comprehension_with_await(x):
    async def gives(count):
        for k in range(count):
            yield k

    async def doubled(k):
        return x * k

    async def work():
        return [await doubled(k) async for k in gives(3)]

    return run(work())


test_programs = corpus.test()
