"""The text of containers: of builtin classes and of subclasses that inherit `__repr__`."""

import collections

import torch

from tests.support.harness import Source, T, same


class Listed(list):
    pass


class Tabled(dict):
    pass


class Ordered(collections.OrderedDict):
    pass


class Unique(set):
    pass


class Frozen(frozenset):
    pass


class Queue(collections.deque):
    pass


class Shouting(dict):
    def __repr__(self):
        return super().__repr__().upper()


class Own:
    def __repr__(self):
        return "own"


def test_made_in_the_program():
    def program(x):
        texts = [
            f"{Listed([1, (2,)])} {Tabled(a=[1])} {Ordered(a=1)} {Unique([3, 1])} {Frozen([2])} {Queue([1], 4)}",
            f"{Listed()} {Tabled()} {Ordered()} {Unique()} {Frozen()} {Queue()} {set()} {collections.OrderedDict()}",
            repr(Shouting(a="b")),
            str({1: 2}.keys()) + str({1: 2}.values()) + str(collections.OrderedDict(a=1).items()),
            repr([Own(), {Own: 1}.values()]),
            dict.__repr__(Shouting(a=1)) + list.__repr__(Listed([1])) + set.__repr__(Unique([1])),
        ]
        return x + 1, texts

    same(program, T(3))


def test_from_outside():
    text = (
        "import collections\n"
        "class Unique(set): pass\n"
        "d, o, s, q = {'a': 1}, collections.OrderedDict(a=1, b=2), Unique([1, 2]), collections.deque([1], 3)\n"
        "def f(x): return x + 1, f'{d} {o} {s} {q} {d.keys()} {o.items()}'"
    )
    mutations = ["d['a'] = 2", "o.move_to_end('a')", "s.add(7)", "q.append(2)", "Unique.__name__ = 'Other'"]
    same(Source(text), T(3), mutate=mutations)


def test_methods_that_c_code_calls():
    text = (
        "import collections\n"
        "class Ordered(collections.OrderedDict):\n    def items(self): return [('z', 1)]\n"
        "class Unique(set):\n    def __iter__(self): return iter([5])\n"
        "def f(x): return x + 1, repr(Ordered(a=1)), repr(Unique([1])), repr(Ordered()), repr(Unique())"
    )
    same(Source(text), T(3), fullgraph=False)


def test_order_after_moving():
    def program(x):
        ordered = collections.OrderedDict(a=1, b=2)
        ordered.move_to_end("a")
        return x + 1, repr(ordered)

    same(program, T(3))


def test_tensors_in_containers_break():
    def program(x):
        return x + 1, str(Tabled(a=x))

    same(program, T(3), fullgraph=False)


def test_new_containers_by_their_new():
    class Checked(dict):
        def __new__(cls, *arguments, **named):
            made = super().__new__(cls, *arguments, **named)
            made.note = "made"
            return made

        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)

    def program(x):
        listed, unique = list.__new__(Listed), set.__new__(Unique, [1])
        listed.append(x)
        unique.add(2)
        checked = Checked({"a": x + 1}, b=2)
        empty = dict.__new__(Tabled, a=1)
        return listed, unique, checked, checked.note, empty, type(empty) is Tabled

    same(program, T(3))


def test_new_of_another_class_raises():
    def program(x):
        try:
            return dict.__new__(list)
        except TypeError as error:
            return x + 1, str(error)

    same(program, T(3), fullgraph=False)


def test_clearing_the_frames_of_a_traceback():
    import traceback

    def fails(x):
        raise ValueError("no")

    def program(x):
        y = torch.relu(x)
        try:
            fails(y)
        except ValueError as error:
            traceback.clear_frames(error.__traceback__)
            traceback.clear_frames(None)
            y = y + len(str(error))
        return y

    same(program, T(3))
