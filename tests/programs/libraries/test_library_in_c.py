"""Modules that Python has in C: heapq, bisect, struct, choices of module random, and descriptors that programs call."""

import bisect
import collections
import heapq
import random
import struct
import weakref

import pytest
import torch

import stator
from tests.support.harness import Source, T, same


class Plain:
    def name(self):
        return "plain"


class Other:
    def name(self):
        return "other"

    @property
    def level(self):
        return self._level

    @level.setter
    def level(self, level):
        self._level = level + 1

    @level.deleter
    def level(self):
        del self._level


class Slotted:
    __slots__ = ("level",)


def heaps(x):
    heap = [5, 2, 8, 1, 9]
    heapq.heapify(heap)
    heapq.heappush(heap, 0)
    seen = [heapq.heappop(heap), heapq.heapreplace(heap, 7), heapq.heappushpop(heap, 3)]
    seen += [heapq.nlargest(2, heap), heapq.nsmallest(2, heap, key=lambda one: -one), *heapq.merge([1, 4], [2, 3])]
    return x + heap[0], heap, seen, collections.Counter("hello world").most_common(2)


def empty_heap(x):
    try:
        return heapq.heappop([])
    except IndexError as error:
        return x + 1, str(error)


def bisections(x):
    items = [1, 3, 5]
    bisect.insort(items, 4)
    bisect.insort_left(items, 3)
    found = bisect.bisect(items, 3), bisect.bisect_left(items, 3), bisect.bisect_left(items, -3, key=lambda one: -one)
    return x * found[0], found, items


def packs(x):
    return x * struct.calcsize("q"), struct.unpack("<if", struct.pack("<if", 3, 1.5))


def draws_from_a_made_generator(x):
    generator, items = random.Random(3), [1, x, 3, 4, 5]
    generator.shuffle(items)
    drawn = generator.choice([1, 2, 3]), generator.choice("abc"), generator.choice(range(9)), generator.random()
    return x + drawn[0], drawn, generator.sample(range(100), 5), generator.sample(items, 2), items


def too_large_a_sample(x):
    try:
        return random.Random(3).sample([1], 4)
    except ValueError as error:
        return x + 1, str(error)


def another_class(x):
    one = Plain()
    one.level = 3
    one.__class__ = Other
    return x * 2, one.name(), type(one).__name__, isinstance(one, Plain), one.__dict__


def a_class_of_another_layout(x):
    one = Plain()
    try:
        one.__class__ = Slotted
    except TypeError as error:
        return x + 1, str(error), type(one).__name__


def properties(x):
    one = Other()
    Other.level.__set__(one, 4)
    level = one.level
    Other.level.__delete__(one)
    return x * level, hasattr(one, "_level"), list((i for i in range(3)).__iter__())


@pytest.mark.parametrize(
    "program",
    [heaps, bisections, packs, draws_from_a_made_generator, too_large_a_sample, another_class, properties]
    + [a_class_of_another_layout],
    ids=lambda program: program.__name__,
)
def test_program(program):
    same(program, T(3), compare_dynamo=False)


def test_an_empty_heap_is_left_to_python():
    same(empty_heap, T(3), fullgraph=False, compare_dynamo=False)


def test_draws_from_the_module_after_a_seed():
    text = (
        "import random\nITEMS = [1, 2, 3, 4]\n"
        "def f(x):\n    random.seed(7)\n    random.shuffle(ITEMS)\n    return x, [*ITEMS], random.choice((1, 2, 3))"
    )
    same(Source(text), T(3), compare_dynamo=False, stateful=True)
    same(
        Source("import random\ndef f(x): return x * random.choice([1, 2])"), T(3), fullgraph=False, compare_dynamo=False
    )


def test_an_object_that_changed_its_class_leaves_the_graph():
    def program(x):
        one = Plain()
        one.seen = x + 1
        one.__class__ = Other
        return one

    one = stator.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    assert type(one) is Other and one.seen.tolist() == [2.0, 2.0]


def test_a_proxy_follows_its_referent():
    referent = Other()
    referent._level = 7
    proxy = weakref.proxy(referent)
    compiled = stator.compile(lambda x: (x * proxy.level, proxy.name()), backend="eager", fullgraph=True)
    for level in (7, 9):
        referent._level = level
        assert compiled(torch.ones(1)) == (torch.tensor([float(level)]), "other")
    del referent
    with pytest.raises(ReferenceError, match="no longer exists"):
        compiled(torch.ones(1))
