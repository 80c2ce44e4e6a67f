"""Generators leave the compiled code in every state, and continue outside as they would have."""

import gc
import traceback
import weakref

import pytest
import torch

from tests.support import engine
from tests.support.rebuilt import both, compiled, same


def drain(generator) -> list:
    items = []
    try:
        while True:
            items.append(next(generator))
    except StopIteration as stop:
        return [*items, ("returned", stop.value)]


def rows(x, count=3, *rest, scale=2, **named):
    for k in range(count):
        sent = yield x * scale + k
        if sent is not None:
            yield sent
    return x - 1


def closing(x):
    log = []
    try:
        for k in (1, 2, 3):
            yield x + k, log
    finally:
        log.append("closed")


def handling(x):
    try:
        raise ValueError("first")
    except ValueError as error:
        yield x, error
        try:
            raise
        except ValueError as again:
            yield again is error
    yield x + 1


def delegating(x):
    total = yield from rows(x, 2)
    yield total
    total = yield from [x, x + 1]
    yield total


@pytest.mark.parametrize("taken", range(4))
@pytest.mark.parametrize("make", [rows, delegating], ids=lambda make: make.__name__)
def test_any_state(make, taken: int) -> None:
    def program(x):
        generator = make(x)
        for _ in range(taken):
            next(generator)
        return generator

    plain, rebuilt = both(program, torch.ones(2))
    assert plain.__name__ == rebuilt.__name__ and plain.__qualname__ == rebuilt.__qualname__
    assert plain.gi_frame.f_lineno == rebuilt.gi_frame.f_lineno
    assert plain.gi_frame.f_locals.keys() == rebuilt.gi_frame.f_locals.keys()
    assert (plain.gi_yieldfrom is None) == (rebuilt.gi_yieldfrom is None)
    same(drain(plain), drain(rebuilt))


def test_one_that_ended() -> None:
    def program(x):
        generator = rows(x, 1)
        return list(generator), generator

    (_, plain), (_, rebuilt) = both(program, torch.ones(2))
    assert plain.gi_frame is rebuilt.gi_frame is None
    assert list(rebuilt) == []


def test_sent_thrown_and_closed() -> None:
    def program(x):
        generator = rows(x)
        next(generator)
        other = closing(x)
        _, log = next(other)
        return generator, other, log

    plain, rebuilt = both(program, torch.ones(2))
    same(plain[0].send("sent"), rebuilt[0].send("sent"))
    texts = []
    for generator, other, log in (plain, rebuilt):
        assert next(other)[1] is log
        other.close()
        assert log == ["closed"]
        try:
            generator.throw(KeyError("thrown"))
        except KeyError as error:
            texts.append(traceback.format_exception(error))
    assert texts[0] == texts[1]


def test_one_that_handles_an_exception() -> None:
    def program(x):
        generator = handling(x)
        return next(generator), generator

    ((_, error), plain), ((_, rebuilt_error), rebuilt) = both(program, torch.ones(2))
    assert traceback.format_exception(error) == traceback.format_exception(rebuilt_error)
    same(drain(plain), drain(rebuilt))


def test_expressions_and_shared_variables() -> None:
    def program(x):
        factor = 2
        items = [x, x + 1]
        expression = (item * factor for item in items)

        def change(value):
            nonlocal factor
            factor = value

        next(expression)
        items.append(x + 5)
        return expression, change, items

    plain, rebuilt = both(program, torch.ones(2))
    for expression, change, items in (plain, rebuilt):
        change(10)
        items.append(torch.zeros(2))
        same([*expression], [torch.ones(2) * 20, torch.ones(2) * 60, torch.zeros(2)])


def test_what_it_holds_is_shared() -> None:
    def program(x):
        bag = [x]
        holder = {"bag": bag}
        generator = rows(bag, 1, scale=1)
        inner = (each for each in bag)
        return generator, inner, bag, holder

    _, (generator, inner, bag, holder) = both(program, torch.ones(2))
    assert holder["bag"] is bag
    assert generator.gi_frame.f_locals["x"] is bag
    assert next(inner) is bag[0]


def test_one_among_its_own_variables() -> None:
    def own(box):
        yield box
        yield box[0]

    def program(x):
        box = []
        generator = own(box)
        box.append(generator)
        next(generator)
        return generator

    plain, rebuilt = both(program, torch.ones(2))
    assert next(plain) is plain and next(rebuilt) is rebuilt
    gone = weakref.ref(rebuilt)
    del rebuilt
    gc.collect()
    assert gone() is None


def test_one_in_its_own_cell() -> None:
    def program(x):
        def walk():
            yield x
            yield generator

        generator = walk()
        next(generator)
        return generator

    _, rebuilt = both(program, torch.ones(2))
    assert next(rebuilt) is rebuilt


def test_iterators_over_generators() -> None:
    def program(x):
        generator = rows(x, 6)
        numbered = enumerate(generator)
        next(numbered)
        return map(lambda pair: pair[1] + pair[0], numbered), generator

    plain, rebuilt = both(program, torch.ones(2))
    same(next(plain[0]), next(rebuilt[0]))
    same(next(plain[1]), next(rebuilt[1]))
    same(list(plain[0]), list(rebuilt[0]))


def test_given_up_inside_try_before_the_return_is_refused() -> None:
    def program(x):
        generator = closing(x)
        first = next(generator)[0]
        del generator
        return first

    if engine.ENGINE == "stator":
        with pytest.raises(engine.unsupported(), match="is dropped while suspended"):
            compiled(program)(torch.ones(2))


def test_generators_own_what_they_hold() -> None:
    def program(x):
        generator = rows(x * 2)
        first = next(generator)
        return generator, first

    captured = compiled(program)
    generator, first = captured(torch.ones(2))
    gone = weakref.ref(generator.gi_frame.f_locals["x"])
    assert gone() is not None
    del generator, first
    gc.collect()
    assert gone() is None
