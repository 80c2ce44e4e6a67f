"""Module `random` in compiled programs: numbers are drawn from the real generators, in the order of the program."""

import random

import pytest
import torch

import stator
from tests.support import engine
from tests.support.counting import counted_calls
from tests.support.scenarios import same_scenario

BACKENDS = ("eager", "aot_eager")


def compare(program, *arguments, backend="eager", calls=4, captures=1, fullgraph=True):
    """Calls the program with the same states of the generators uncompiled and compiled."""
    expected = run(program, arguments, calls)
    stator.reset()
    compiled = stator.compile(program, backend=backend, fullgraph=fullgraph)
    before = engine.captures()
    actual = run(compiled, arguments, calls)
    assert repr(actual) == repr(expected)
    if captures is not None:
        assert engine.captures() - before == captures


def run(function, makers, calls):
    random.seed(7)
    arguments = [make() for make in makers]
    seen = []
    for _ in range(calls):
        try:
            seen.append(function(*arguments))
        except Exception as error:
            seen.append((type(error), str(error)))
    states = [one.getstate() for one in arguments if isinstance(one, random.Random)]
    return seen, states, random.getstate()


def ones():
    return torch.ones(3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_call_draws_other_numbers(backend):
    def program(x):
        return (x + 1) * random.uniform(0, 1)

    compare(program, ones, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_ints_and_floats_in_the_order_of_the_program(backend):
    def program(x):
        first = random.randint(1, 9)
        y = x + random.uniform(10, 20)
        z = y + first * random.random()
        return z, first, random.randrange(0, 10), random.randrange(20, 0, -3), random.getrandbits(7)

    compare(program, ones, backend=backend)


def test_distributions():
    def program(x):
        return x * random.gauss(0, 1), random.gauss(1, 2), random.triangular(1, 3, 2), random.expovariate(2.0)

    compare(program, ones)


def test_numbers_that_nobody_uses_are_drawn():
    def program(x):
        random.random()
        random.randint(1, 6)
        return x

    compare(program, ones)


def test_only_a_number():
    def program():
        return random.random(), random.randint(1, 3) + 1

    compare(program)


def test_keyword_arguments():
    def program(x):
        return x + random.uniform(a=1.0, b=2.0)

    compare(program, ones)


@pytest.mark.parametrize("fullgraph", [False, True])
def test_a_random_size(fullgraph):
    def program(x):
        return torch.zeros(random.randint(2, 5)) + x.sum()

    compare(program, ones, fullgraph=fullgraph, calls=6)


def test_a_random_branch():
    def program(x):
        x = x + 1
        if random.random() < 0.5:
            return x * 2
        return x - random.random()

    compare(program, ones, fullgraph=False, captures=None, calls=12)


def test_a_loop_until_another_number_is_drawn():
    def program(x):
        first = second = random.randrange(3)
        while first == second:
            second = random.randrange(3)
        return x * second, first

    compare(program, ones, fullgraph=False, captures=None, calls=12)


def test_a_break_between_two_numbers():
    def program(x):
        first = random.randint(1, 9)
        x = x + first
        print(end="")
        second = random.randint(10, 19)
        return x + second, first, second

    compare(program, ones, fullgraph=False, captures=None)
    first, second = counted_calls(program, lambda: (torch.ones(2),), calls=2)
    assert (first.operations, first.graphs_run) == (2, 2)
    assert second.captures == 0


def test_a_function_of_decisions_is_called_as_a_whole():
    def chosen(count):
        found = []
        for number in range(count):
            if random.random() < 0.5:
                found.append(number)
        return found

    def program(x):
        y = x + 1
        return y * len(chosen(20))

    compare(program, ones, fullgraph=False, captures=None, calls=6)
    first, second = counted_calls(program, lambda: (torch.ones(2),), calls=2)
    assert first.captures <= 3
    assert second.captures <= 1


def test_invalid_arguments_raise():
    def program(x):
        y = x * random.random()
        try:
            return y + random.randint(5, 1)
        except ValueError:
            return y * random.random()

    compare(program, ones, fullgraph=False, captures=None)


def test_numbers_are_drawn_again_where_the_program_runs_uncompiled():
    def program(x):
        scale = random.random()
        try:
            y = x[random.randint(0, 5)]
        except IndexError:
            return x * random.random()
        return y * random.random() * scale

    compare(program, ones, fullgraph=False, captures=None, calls=12)


def test_a_generator_from_outside():
    def program(x, generator):
        return x * generator.random() + generator.randint(1, 3), generator.uniform(0, 2)

    compare(program, ones, lambda: random.Random(5))


def test_two_generators_that_may_be_one():
    def scenario(compile, note):
        program = compile(lambda x, one, other: (x * one.random(), other.random(), one.random()))
        for _ in range(2):
            note(program, torch.ones(2), random.Random(1), random.Random(2))
            both = random.Random(3)
            note(program, torch.ones(2), both, both)

    same_scenario(scenario, "eager")


def test_a_generator_made_in_the_program():
    def program(x):
        generator = random.Random(42)
        first = generator.random()
        return x * first + generator.randint(1, 9), generator.getstate()[2], generator.random()

    compare(program, ones)


def test_a_generator_made_in_the_program_leaves_it_in_its_state():
    def scenario(compile, note):
        def program(x):
            generator = random.Random("seed")
            return x * generator.random(), generator

        program = compile(program)
        for _ in range(2):
            y, generator = program(torch.ones(2))
            note.value(y)
            note.value(generator.getstate())
            note.value(generator.random())

    same_scenario(scenario, "eager")


def test_seeds_and_states():
    def scenario(compile, note):
        def program(x, one, other):
            before = one.random()
            one.seed(3)
            other.setstate(random.Random(9).getstate())
            return x * before + one.random(), other.randint(1, 100), one.gauss(0, 1)

        program = compile(program)
        for seed in range(3):
            one, other = random.Random(seed), random.Random(seed + 10)
            note(program, torch.ones(2), one, other)
            note.value([one.getstate(), other.getstate(), one.random(), other.random()])

    same_scenario(scenario, "eager")


def test_seeding_the_module():
    def program(x):
        first = random.random()
        random.seed(5)
        return x * random.random(), first, random.randint(1, 1000)

    compare(program, ones)


def test_an_unseeded_generator_is_left_to_python():
    def program(x):
        generator = random.Random()
        generator.seed(4)
        return x * generator.random()

    compare(program, ones, fullgraph=False, captures=None)


def test_overridden_methods_are_called():
    calls = []

    def scenario(compile, note):
        program = compile(lambda x, generator: x * generator.uniform(1, 2))
        plain = random.Random(2)
        note(program, torch.ones(2), plain)
        special = random.Random(2)
        original = special.random
        special.random = lambda: calls.append("random") or original()
        note(program, torch.ones(2), special)
        note.value(calls.copy())
        calls.clear()
        note(program, torch.ones(2), plain)

    same_scenario(scenario, "eager")


def test_subclasses_are_not_drawn_from():
    class Fixed(random.Random):
        def random(self):
            return 0.25

    def scenario(compile, note):
        program = compile(lambda x, generator: x * generator.random() + generator.uniform(0, 4))
        note(program, torch.ones(2), random.Random(2))
        note(program, torch.ones(2), Fixed(2))

    same_scenario(scenario, "eager")


def test_the_functions_of_the_module_are_guarded():
    def scenario(compile, note):
        program = compile(lambda x: x * random.random())
        random.seed(1)
        note(program, torch.ones(2))
        original = random.random
        random.random = lambda: 3.0
        try:
            note(program, torch.ones(2))
        finally:
            random.random = original
        note(program, torch.ones(2))
        note.value(random.getstate())

    same_scenario(scenario, "eager")


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients(backend):
    def scenario(compile, note):
        weight = torch.ones(3, requires_grad=True)
        program = compile(lambda x: (x * weight * random.random()).sum() * random.randint(1, 5))
        random.seed(3)
        for _ in range(3):
            note.gradients(note(program, torch.arange(3.0)), weight)

    same_scenario(scenario, backend)


def test_a_number_that_decides_names_its_line():
    def program(x):
        if random.random() < 0.5:
            return x
        return x + 1

    with pytest.raises(stator.Unsupported, match="depends on a random number; zuf0 is a random number that is drawn"):
        stator.compile(program, fullgraph=True)(torch.ones(2))
