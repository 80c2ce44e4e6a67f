"""All other values that can leave the compiled code: bound methods, `super` objects, subclasses of containers,
contexts, deques."""

import collections
import functools
import operator

import pytest
import torch

from tests.support import engine
from tests.support.rebuilt import both


def test_methods_of_builtins() -> None:
    def program(x):
        items, table, text = [x], {"a": x}, "text"
        return items.append, items, table.get, table, text.upper, dict.fromkeys, [].__len__, x.add, {1, 2}.add

    plain, rebuilt = both(program, torch.ones(2))
    for append, items, get, table, upper, fromkeys, length, add, into_set in (plain, rebuilt):
        append(3)
        assert items[1] == 3 and append.__self__ is items
        assert get("a") is items[0] and get.__self__ is table
        assert upper() == "TEXT"
        assert fromkeys("a") == {"a": None}
        assert length() == 0
        assert torch.equal(add(1), torch.full((2,), 2.0))
        assert into_set(3) is None and into_set.__self__ == {1, 2, 3}
    for one, other in zip(plain, rebuilt, strict=True):
        assert type(one) is type(other)


def test_methods_in_cycles() -> None:
    def program(x):
        items = []
        items.append(items.append)
        return items

    for items in both(program, torch.ones(2)):
        assert items[0].__self__ is items


class Base:
    def name(self):
        return "base"

    @classmethod
    def made(cls):
        return "base", cls


class Derived(Base):
    def name(self):
        return "derived"

    def above(self):
        return super()

    @classmethod
    def above_class(cls):
        return super()

    def method_above(self):
        return super().name


def test_super() -> None:
    def program(x):
        thing = Derived()
        return thing.above(), Derived.above_class(), thing.method_above(), thing

    for above, of_class, method, thing in both(program, torch.ones(2)):
        assert type(above) is super and above.__self__ is thing and above.__thisclass__ is Derived
        assert above.name() == "base"
        assert of_class.made() == ("base", Derived)
        assert method() == "base" and method.__self__ is thing


class Numbers(list):
    pass


class Table(dict):
    pass


class Bag(set):
    pass


class Frozen(frozenset):
    pass


class Queue(collections.deque):
    pass


class Pair(tuple):
    pass


Point = collections.namedtuple("Point", "x y")


class Slotted:
    __slots__ = ("a", "b")


@pytest.mark.parametrize("make", [Numbers, Table, Bag, Frozen, Queue, Pair])
def test_subclasses_of_containers_with_attributes(make) -> None:
    def program(x):
        made = make([(1, 2), (3, 4)])
        made.label = x + 1
        made.own = made
        return made

    plain, rebuilt = both(program, torch.ones(2))
    assert type(plain) is type(rebuilt)
    assert plain == rebuilt and list(plain) == list(rebuilt)
    assert torch.equal(plain.label, rebuilt.label)
    assert rebuilt.own is rebuilt


def test_queue_of_limited_length() -> None:
    def program(x):
        made = Queue([1, 2, 3], maxlen=2)
        made.append(x)
        plain = collections.deque(maxlen=3)
        plain.append(plain)
        return made, plain

    for made, plain in both(program, torch.ones(2)):
        assert made.maxlen == 2 and made[0] == 3 and type(made) is Queue
        assert plain[0] is plain and plain.maxlen == 3


def test_slots_structseqs_and_slices() -> None:
    def program(x):
        thing = Slotted()
        thing.a = thing
        point = Point(x, [x])
        return thing, point, slice(x.shape[0], None, thing), x.max(0)

    for thing, point, part, best in both(program, torch.ones(2)):
        assert thing.a is thing and not hasattr(thing, "b")
        assert type(point) is Point and point.y[0] is point.x
        assert part.start == 2 and part.step is thing
        assert best.values == 1


def test_partials_and_callers() -> None:
    def program(x):
        def add(a, b, c=0):
            return a + b + c

        partial = functools.partial(add, x, c=1)
        caller = operator.methodcaller("sum", dim=0, keepdim=True)
        return partial, caller, operator.itemgetter(1, 0), operator.attrgetter("shape")

    plain, rebuilt = both(program, torch.ones(2))
    for partial, caller, items, shape in (plain, rebuilt):
        assert torch.equal(partial(1), torch.full((2,), 3.0))
        assert caller(torch.ones(3)).tolist() == [3.0]
        assert items("ab") == ("b", "a")
        assert shape(torch.ones(3)) == (3,)


def test_cells_are_shared() -> None:
    def program(x):
        count = 0

        def up():
            nonlocal count
            count += 1
            return count

        def read():
            return count

        up()
        return up, read, read.__closure__[0]

    for up, read, cell in both(program, torch.ones(2)):
        assert up() == 2 and read() == 2 and cell.cell_contents == 2
        assert up.__closure__[0] is read.__closure__[0] is cell


def test_contexts_of_torch() -> None:
    def program(x):
        context = torch.no_grad()
        context.__enter__()
        context.__exit__(None, None, None)
        return context, torch.enable_grad(), torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode()

    for context, enabling, autocast, inference in both(program, torch.ones(2)):
        assert context.prev is True
        with enabling:
            assert torch.is_grad_enabled()
        with autocast:
            assert torch.is_autocast_enabled("cpu")
        assert not torch.is_autocast_enabled("cpu")
        with inference:
            assert torch.is_inference_mode_enabled()


def test_deques_from_outside() -> None:
    queue = collections.deque([torch.ones(2), 2, "text"], maxlen=5)

    def program(x, queue):
        total = x + queue[0] * queue[1]
        return total, len(queue), list(queue), queue[-1], queue.maxlen, queue

    plain, rebuilt = both(program, torch.ones(2), queue)
    assert torch.equal(plain[0], rebuilt[0])
    assert plain[1] == rebuilt[1] == 3 and plain[3] == rebuilt[3] and plain[4] == rebuilt[4] == 5
    assert rebuilt[5] is queue
    assert rebuilt[2][0] is queue[0]


def test_deques_from_outside_are_guarded() -> None:
    def program(x, queue):
        result = x
        for item in queue:
            result = result + item
        return result

    engine.reset()
    captured = engine.compile(program)
    queue = collections.deque([1, 2])
    for change in (lambda: None, lambda: queue.append(3), lambda: queue.rotate(1), lambda: queue.popleft()):
        change()
        assert torch.equal(captured(torch.ones(2), queue), program(torch.ones(2), queue))
    assert torch.equal(captured(torch.ones(2), [1, 2]), torch.full((2,), 4.0))
    many = collections.deque(range(200))
    assert torch.equal(captured(torch.ones(2), many), program(torch.ones(2), many))


def test_iterators_over_deques_from_outside() -> None:
    queue = collections.deque([1, 2, 3])

    def program(x, queue):
        iterator = iter(queue)
        return next(iterator), iterator

    for first, iterator in both(program, torch.ones(2), queue):
        assert first == 1 and list(iterator) == [2, 3]
