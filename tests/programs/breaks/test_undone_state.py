"""What an instruction has done before it breaks the graph is undone, and what the program set by hand stays set."""

import sys

import torch

from tests.support.harness import T, same


class Noted:
    pass


def test_attributes_that_are_added_after_one_was_changed():
    """The break rolls back to before the call of `sorted`, whose keys are then computed once more."""

    def program(x):
        noted = Noted()
        noted.p = 1

        def key(number):
            noted.p = noted.p + 1
            noted.q, noted.r, noted.s = 1, 2, 3
            sys._getframe()
            return number

        sorted([3, 1], key=key)
        return x + noted.p

    same(program, T(2), fullgraph=False, compare_dynamo=False)


def test_autocast_that_is_switched_inside_of_its_context():
    def switched(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.set_autocast_enabled("cpu", False)
            print(end="")
            y = x @ x
        return y, y.dtype

    def of_another_dtype(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.set_autocast_dtype("cpu", torch.float16)
            print(end="")
            dtype = torch.get_autocast_dtype("cpu")
        return x + 1, dtype

    def nested(x):
        with torch.autocast("cpu"):
            depth = torch.autocast_increment_nesting()
            torch.autocast_decrement_nesting()
        return x + depth

    for program in (switched, of_another_dtype, nested):
        same(program, T(2, 2), fullgraph=False, compare_dynamo=False)


def test_exceptions_from_outside_are_thrown_into_generators():
    error = ValueError("from outside")

    def program(x):
        def generator():
            yield x

        started = generator()
        next(started)
        try:
            started.throw(error)
        except ValueError as caught:
            return x * 3, caught is error
        return x

    same(program, T(2), fullgraph=False, compare_dynamo=False)
