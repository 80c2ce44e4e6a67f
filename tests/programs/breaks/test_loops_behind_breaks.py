"""Loops that continue after a graph break: the iterator is a real one by then, and the rest of the loop is captured
with it."""

import textwrap

import pytest

import stator
from tests.support.engine import CAPTURES
from tests.support.harness import Source, T, same
from tests.support.worlds import World

# What is iterated over, given `data`, a list of numbers.
ITERABLES = {
    "list": "data",
    "tuple": "tuple(data)",
    "range": "range(len(data))",
    "range_down": "range(len(data), 0, -2)",
    "reversed_list": "reversed(data)",
    "reversed_tuple": "reversed(tuple(data))",
    "dict": "dict.fromkeys(data, 1)",
    "dict_values": "dict(zip(data, data)).values()",
    "dict_items": "dict(zip(data, data)).items()",
    "enumerate": "enumerate(data)",
    "enumerate_from": "enumerate(data, 5)",
    "zip": "zip(data, range(9))",
    "zip_strict": "zip(data, tuple(data), strict=True)",
    "zip_shorter": "zip(range(9), data, (7, 8))",
    "enumerate_zip": "enumerate(zip(data, dict.fromkeys(data, 2).items()))",
    "zip_of_one_iterator": "zip(*[iter(data)] * 2)",
    "set": "{*data}",
    "map": "map(abs, data)",
    "string": "'abcd'",
    "generator": "(3 * one for one in data)",
}

# Where the break is, and what the loop does otherwise; `number` makes a number of an item.
LOOPS = {
    "each_round": """
        for item in ITERABLE:
            x = x * number(item)
            if x.sum() > 1e9:
                x = x - 1
            x = x + 1
        """,
    "first_round": """
        first = True
        for item in ITERABLE:
            x = x * number(item)
            if first:
                print("first")
            first = False
        """,
    "last_round": """
        for item in ITERABLE:
            x = x + number(item)
            if number(item) == 4:
                print(item)
                break
        else:
            x = x - 1
        """,
    "nested": """
        for item in ITERABLE:
            for j, other in enumerate(data):
                if j == 1 and x.sum() > 1e9:
                    continue
                x = x + number(item) * other
        """,
    "twice": """
        iterator = iter(ITERABLE)
        for item in iterator:
            if x.sum() > 1e9:
                x = x - 1
            x = x + number(item) * 2 + number(next(iterator, 0))
        x = x + len(list(iterator))
        """,
    "rest_is_taken": """
        iterator = iter(ITERABLE)
        x = x + number(next(iterator))
        print(x.shape)
        x = x + sum(number(one) for one in iterator)
        """,
}

PROGRAM = """
def number(item):
    if isinstance(item, str):
        return ord(item)
    return sum(number(one) for one in item) if isinstance(item, tuple) else item

def f(x, data):
{body}
    return x
"""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("iterable", ITERABLES)
def test_loops(iterable: str, loop: str) -> None:
    body = textwrap.indent(textwrap.dedent(LOOPS[loop]).replace("ITERABLE", ITERABLES[iterable]), "    ")
    same(Source(PROGRAM.format(body=body)), T(3, grad=True), lambda: [1, 2, 3, 4], fullgraph=False, calls=3)


# What the loop does to the object that it iterates over, or to its iterator. Each has a break in each iteration.
CHANGES = {
    "list_grows": """
        for item in data:
            if x.sum() > 1e9:
                break
            if len(data) < 7:
                data.append(item + 1)
            x = x + item
        """,
    "list_is_written": """
        for i, item in enumerate(data):
            if x.sum() > 1e9:
                break
            data[-1] = item * 3
            x = x + item * i
        """,
    "list_shrinks": """
        for item in data:
            if x.sum() > 1e9:
                break
            data.pop()
            x = x + item
        """,
    "dict_is_written": """
        table = dict.fromkeys(data, 1)
        for key in table:
            if x.sum() > 1e9:
                break
            table[key] += key
            x = x + table[key]
        for value in table.values():
            if x.sum() > 1e9:
                break
            table[4] = value * 2
            x = x * value
        """,
    "dict_grows": """
        table = dict.fromkeys(data, 1)
        try:
            for key in table:
                if x.sum() > 1e9:
                    break
                table[key + 10] = 1
                x = x + key
        except RuntimeError as error:
            print(error)
        """,
    "another_list_grows": """
        seen = []
        for item in data:
            if x.sum() > 1e9:
                break
            seen.append(item)
            x = x + len(seen)
        data.extend(seen)
        """,
    "inner_iterator_is_moved": """
        inner = iter(data)
        for i, item in enumerate(inner):
            if x.sum() > 1e9:
                break
            x = x + item * i + next(inner, 7)
        """,
    "zipped_iterator_is_moved": """
        inner = iter(data)
        for item, other in zip(inner, "abcd"):
            if x.sum() > 1e9:
                break
            x = x + item + next(inner, 7)
        """,
    "iterator_is_kept": """
        class Holder: pass
        Holder.iterator = iter(data)
        for item in Holder.iterator:
            if x.sum() > 1e9:
                break
            x = x + item + next(Holder.iterator, 9)
            print(Holder.iterator.__length_hint__())
        """,
    "strict_zip_ends": """
        try:
            for item, other in zip(data, (1, 2), strict=True):
                if x.sum() > 1e9:
                    break
                x = x + item * other
        except ValueError as error:
            print(error)
        """,
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_meanwhile(name: str) -> None:
    body = textwrap.indent(textwrap.dedent(CHANGES[name]), "    ")
    program = PROGRAM.format(body=body)
    same(Source(program), T(3, grad=True), lambda: [1, 2, 3, 4], fullgraph=False, calls=3)


def test_two_lists_that_become_one() -> None:
    """An entry that was captured for two lists is not used if both are one list: one is iterated over, the other mutated."""
    program = """
    CALLS = []

    def f(x, data, other):
        for item in data:
            if x.sum() > 1e9:
                break
            if len(other) < 6:
                other.append(item)
            x = x + item
        return x, list(data)

    def g(x):
        CALLS.append(1)
        data = [1, 2, 3]
        return f(x, data, data if len(CALLS) % 2 == 0 else [7])
    """
    same(Source(textwrap.dedent(program), "g"), T(3), fullgraph=False, calls=5, stateful=True)


ITERATORS = {
    "list": "iter([1, 2, 3])",
    "enumerate": "enumerate((4, 5))",
    "zip": "zip([1, 2], {3: 4}.items())",
    "dict_values": "iter({'a': 1, 'b': 2}.values())",
    "range": "iter(range(3))",
    "half_way": "ITERATOR",
}


@pytest.mark.parametrize("name", ITERATORS)
def test_iterator_as_argument(name: str) -> None:
    """Nothing breaks, and the caller's iterator has moved on."""
    program = f"""
    ITERATOR = iter([1, 2, 3, 4, 5])
    next(ITERATOR)

    def number(item):
        return sum(number(one) for one in item) if isinstance(item, tuple) else item

    def f(x, iterator):
        x = x * number(next(iterator))
        for item in iterator:
            x = x + number(item)
            if x.ndim == 7:
                break
        return x

    def g(x):
        iterator = {ITERATORS[name]}
        return f(x, iterator), list(iterator)
    """
    program = textwrap.dedent(program)
    if name == "half_way":
        program += "\ndef h(x):\n    return [next(ITERATOR, 0) * x for _ in range(2)]\n"
    same(Source(program, "h" if name == "half_way" else "g"), T(3), stateful=True)


@pytest.mark.skipif(not CAPTURES, reason="about capture alone")
def test_rounds_share_what_is_captured() -> None:
    """A loop of many rounds with a break in each is captured for a few of them, and each break is one break."""
    program = """
    layers = [nn.Linear(3, 3) for _ in range(12)]

    def f(x):
        for i, layer in enumerate(layers):
            if torch.randn([]) < -100:
                continue
            x = layer(x) + i
        return x
    """
    world = World(Source(textwrap.dedent(program)), (T(2, 3),), {}, seed=1)
    stator.reset()
    with stator.watch() as report:
        stator.compile(world.program)(*world.args)
    assert {entry.kind for entry in report.breaks} == {"data-dependent"}
    assert len(report.captures) <= 4, report
