"""Generators that existed before the call: advanced, sent to, closed and thrown into by captured code."""

import gc
import inspect
import sys
import traceback
import weakref

import pytest
import torch

from tests.support.counting import counted_calls
from tests.support.scenarios import same_scenario


def totals(x, count, log):
    total = x
    try:
        for i in range(count):
            total = total + i
            got = yield total * 2
            if got is not None:
                log.append(got)
    except KeyError as error:
        log.append(error.args)
        yield total * 3
    finally:
        log.append("closed")
    return total


def next_twice(generator):
    return next(generator) + next(generator)


def send(generator):
    return generator.send("sent") + 1


def close(generator):
    generator.close()
    return torch.ones(1) + 1


def throw(generator):
    return generator.throw(KeyError("thrown")) + 1


def to_list(generator):
    return [x + 1 for x in generator]


def to_its_end(generator):
    results = []
    try:
        while True:
            results.append(next(generator))
    except StopIteration as error:
        return results, error.value + 1


def with_zip(generator):
    return [a + b for a, b in zip(generator, [torch.ones(2)] * 3, strict=False)]


def in_a_loop_that_breaks(generator):
    result = torch.zeros(2)
    for x in generator:
        result = result + x
        torch._dynamo.graph_break()
        result = result * 2
    return result


def read_state(generator):
    before = generator.gi_frame is None
    x = next(generator)
    return x, before, inspect.getgeneratorstate(generator)


PROGRAMS = [next_twice, send, close, throw, to_list, to_its_end, with_zip, in_a_loop_that_breaks, read_state]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_from_each_position(program):
    def scenario(compile, note):
        compiled = compile(program)
        for advanced in (0, 1, 2, 0, 1, 4, 5):
            log = []
            generator = totals(torch.ones(2), 4, log)
            for _ in range(advanced):
                next(generator, None)
            note(compiled, generator)
            note.value(log)
            note(list, generator)
            note.value(log)

    same_scenario(scenario, "eager")


def test_two_generators_or_one():
    def ones():
        x = torch.ones(2)
        while True:
            x = x + 1
            yield x

    for first_is_one in (False, True):

        def scenario(compile, note, first_is_one=first_is_one):
            compiled = compile(lambda a, b: (next(a) + 1, next(b) * 2))
            for is_one in (first_is_one, not first_is_one, True, False):
                a = ones()
                b = a if is_one else ones()
                note(compiled, a, b)
                note(compiled, a, b)
                note(next, a)
                note(next, b)

        same_scenario(scenario, "eager")


def test_delegates():
    def inner(x, log):
        try:
            log.append((yield x + 1))
            log.append((yield x + 2))
        except KeyError as error:
            log.append(error.args)
            yield x + 10
        return x * 7

    def outer(x, log):
        yield (yield from inner(x, log))

    def scenario(compile, note):
        send = compile(lambda generator, value: generator.send(value) + 1)
        throw = compile(lambda generator: generator.throw(KeyError("k")) + 1)
        for _ in range(2):
            log = []
            generator = outer(torch.ones(2), log)
            next(generator)
            for sent in ("first", "second", None):
                note(send, generator, sent)
                note.value(log)
            generator = outer(torch.ones(2), log)
            next(generator)
            note(throw, generator)
            note.value(log)
            note(list, generator)

    same_scenario(scenario, "eager")


def test_variables_of_enclosing_functions():
    def make():
        count, kept = 0, []

        def generate(x):
            nonlocal count
            while count < 5:
                count += 1
                kept.append(x + count)
                yield x * count

        return generate, lambda: (count, len(kept)), kept

    def program(generator, get):
        result = next(generator) + get()[0]
        return result + next(generator) + get()[1]

    def scenario(compile, note):
        compiled = compile(program)
        for _ in range(3):
            generate, get, kept = make()
            generator = generate(torch.ones(2))
            note(compiled, generator, get)
            note(compiled, generator, get)
            note.value([get(), kept])

    same_scenario(scenario, "eager")


def test_exceptions_that_leave_it():
    def generate(x):
        yield x
        x = x + 1
        raise ValueError("inside")

    def program(generator):
        return next(generator) + next(generator)

    def scenario(compile, note):
        compiled = compile(program)
        for _ in range(3):
            generator = generate(torch.ones(2))
            try:
                compiled(generator)
            except ValueError as error:
                lines = traceback.extract_tb(error.__traceback__)
                note.value([(line.name, line.lineno) for line in lines if line.name in ("program", "generate")])
            note(list, generator)

    same_scenario(scenario, "eager")


def test_suspended_in_a_handler():
    def generate(x, log):
        try:
            yield x
        except ValueError:
            yield x + 1
            log.append(repr(sys.exc_info()[1]))
            yield x + 2

    def scenario(compile, note):
        compiled = compile(lambda generator: next(generator) * 2)
        for _ in range(2):
            log = []
            generator = generate(torch.ones(2), log)
            next(generator)
            generator.throw(ValueError("v"))
            note(compiled, generator)
            note(list, generator)
            note.value(log)

    same_scenario(scenario, "eager")


def test_a_generator_that_runs():
    def generate(log):
        yield torch.ones(2)
        try:
            next(me[0])
        except ValueError as error:
            log.append(str(error))
        yield compiled[0](me[0])

    compiled, me = [None], [None]

    def scenario(compile, note):
        compiled[0] = compile(lambda generator: next(generator) + 1)
        for _ in range(2):
            log = []
            me[0] = generate(log)
            note(compiled[0], me[0])
            note(next, me[0])
            note.value(log)

    same_scenario(scenario, "eager")


def test_a_break_inside_of_it():
    def generate(x):
        for _ in range(4):
            x = x + 1
            torch._dynamo.graph_break()
            x = x * 2
            yield x

    def program(generator, y):
        for x in generator:
            y = y + x
            torch._dynamo.graph_break()
            y = y * 2
        return y

    def scenario(compile, note):
        compiled = compile(program)
        for advanced in (0, 0, 1, 3, 4):
            generator = generate(torch.ones(2))
            for _ in range(advanced):
                next(generator)
            note(compiled, generator, torch.ones(2))
            note(next, generator, None)

    same_scenario(scenario, "eager")


def test_an_operation_that_raises_behind_it():
    def generate(x):
        for i in range(3):
            x = x + i
            yield x

    def program(generator, index):
        return next(generator).sum() + torch.index_select(torch.ones(3), 0, index)

    def scenario(compile, note):
        compiled = compile(program)
        for index in (0, 1, 7, 2):
            generator = generate(torch.ones(2))
            note(compiled, generator, torch.tensor([index]))
            note(list, generator)

    same_scenario(scenario, "eager")


def test_objects_that_its_frame_drops():
    class Noting:
        def __init__(self, name, log):
            self.name, self.log = name, log

        def __del__(self):
            self.log.append(("freed", self.name))

    def generate(name, log):
        held = Noting(name, log)
        yield torch.ones(2)
        held = None
        log.append("dropped")
        held = Noting(name + 1, log)
        yield torch.ones(2) * 2
        log.append(("at its end", held.name))

    def program(generator, log):
        x = next(generator) + 1
        log.append("advanced")
        return x

    def scenario(compile, note):
        compiled = compile(program)
        for name in (0, 10):
            log = []
            generator = generate(name, log)
            for _ in range(4):
                note(compiled, generator, log)
                note.value(log)
        gc.collect()

    same_scenario(scenario, "eager")


def test_a_loop_that_is_left():
    class Noting:
        def __init__(self, log):
            self.log = log

        def __del__(self):
            self.log.append("freed")

    def generate(log):
        held = Noting(log)
        try:
            for i in range(3):
                yield torch.ones(2) * i
        finally:
            log.append(("closed", held is not None))

    def program(log):
        y = torch.ones(2)
        for x in generate(log):
            y = y + x
            torch._dynamo.graph_break()
            if len(log) == 0:
                log.append("once more")
            else:
                break
        log.append("left")
        return y * 2

    def scenario(compile, note):
        compiled = compile(program)
        for _ in range(3):
            log = []
            note(compiled, log)
            note.value(log)

    same_scenario(scenario, "eager")


def test_weak_references_to_it():
    def generate():
        yield torch.ones(2)
        yield torch.ones(2)

    def scenario(compile, note):
        compiled = compile(lambda generator, reference: (next(generator) + 1, reference() is generator))
        for _ in range(2):
            generator = generate()
            note(compiled, generator, weakref.ref(generator))

    same_scenario(scenario, "eager")


def test_gradients():
    def generate(weight):
        for i in range(3):
            yield (weight * i).sum()

    def scenario(compile, note):
        compiled = compile(lambda generator: next(generator) * 2)
        weight = torch.ones(2, requires_grad=True)
        generator = generate(weight)
        for _ in range(3):
            note.gradients(note(compiled, generator), weight)

    same_scenario(scenario, "eager")


def test_numbers_that_it_counts_are_symbols():
    class Loader:
        def __init__(self):
            self.number = 0
            self.items = self.generate()

        def generate(self):
            while True:
                self.number += 1
                yield torch.ones(2) * self.number

    def program(loader):
        return next(loader.items) + loader.number

    def scenario(compile, note):
        compiled = compile(program)
        loader = Loader()
        for _ in range(12):
            note(compiled, loader)
            note.value(loader.number)

    same_scenario(scenario, "eager")
    loader = Loader()
    counted = counted_calls(program, lambda: (loader,), calls=8)
    assert [call.captures for call in counted[4:]] == [0] * 4


def test_one_that_yields_in_many_places_has_entries_of_its_own():
    lines = "\n".join(f"    yield x * {number}" for number in range(20))
    namespace = {}
    exec(f"def generate(x):\n{lines}\n", namespace)
    generate = namespace["generate"]

    def program(x):
        y = x
        for item in generate(x):
            torch._dynamo.graph_break()
            y = y + item
        return y

    same_scenario(lambda compile, note: [note(compile(program), torch.ones(2)) for _ in range(3)], "eager")
    first, second = counted_calls(program, lambda: (torch.ones(2),), calls=2)
    assert (first.operations, second.operations, second.captures) == (40, 40, 0)


def test_a_loop_around_a_break_runs_in_one_graph_for_each_iteration():
    def generate(x):
        for i in range(10):
            yield x * i

    def program(x):
        y = x
        for item in generate(x):
            torch._dynamo.graph_break()
            y = y + item
        return y

    first, second = counted_calls(program, lambda: (torch.ones(2),), calls=2)
    # An addition and the next item in each graph; the first has an item alone, the last an addition alone.
    assert (second.operations, second.graphs_run, second.captures) == (20, 11, 0)
    assert first.graphs_run == 11
