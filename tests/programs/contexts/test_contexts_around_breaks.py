"""Contexts that are entered before a graph break, or by another function, than where they are left."""

import contextlib
import sys
import weakref

import pytest
import torch

from tests.support.counting import counted_calls
from tests.support.scenarios import same_scenario


class Noting:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __del__(self):
        self.log.append(("freed", self.name))


@contextlib.contextmanager
def managed(x, log, name=0):
    held = Noting(name, log)
    log.append("in")
    try:
        yield x.sin()
    except ValueError as error:
        log.append(error.args)
    finally:
        log.append(("out", held.name, x.cos()))


@contextlib.contextmanager
def breaking_at_its_end(x, log, name=0):
    held = Noting(name, log)
    try:
        yield x.sin()
    finally:
        log.append("out")
        torch._dynamo.graph_break()
        log.append(("out", held.name, x.cos()))


class Manager:
    def __init__(self, x, log, name=0):
        self.held, self.log, self.x = Noting(name, log), log, x

    def __enter__(self):
        self.log.append("in")
        return self.x + 1

    def __exit__(self, kind, error, trace):
        self.x = self.x * 2
        torch._dynamo.graph_break()
        self.log.append((kind, self.x * 2))
        return kind is ValueError

    def __del__(self):
        self.log.append("manager freed")


MANAGERS = [managed, breaking_at_its_end, Manager]


def same_three_times(program):
    def scenario(compile, note):
        compiled = compile(program)
        for _ in range(3):
            log = []
            note(compiled, torch.ones(2), log)
            note.value(log)

    same_scenario(scenario, "eager")


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.__name__)
def test_a_break_in_the_body(manager):
    def program(x, log, raises):
        with manager(x, log) as y:
            x = x + y
            torch._dynamo.graph_break()
            x = x * 2
            if raises:
                raise ValueError("in the body")
        log.append("behind")
        return x.sin()

    def scenario(compile, note):
        compiled = compile(program)
        for raises in (False, True, False, True):
            log = []
            note(compiled, torch.ones(2), log, raises)
            # (Docs/limits.md: in 3.12 the traceback keeps what the frames hold for longer, where the program makes it.)
            note.value([one for one in log if sys.version_info < (3, 12) or one[0] != "freed"])

    same_scenario(scenario, "eager")


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.__name__)
def test_two_contexts(manager):
    def program(x, log):
        with manager(x, log, 1) as y, managed(y, log, 2) as z:
            x = x + y
            torch._dynamo.graph_break()
            x = x * z
        log.append("behind")
        return x.sin()

    same_three_times(program)


@pytest.mark.parametrize("manager", MANAGERS, ids=lambda manager: manager.__name__)
def test_entered_in_one_function_and_left_in_another(manager):
    def leave_with(error):
        def leave(context, x):
            x = x * 2
            try:
                kind = None if error is None else type(error)
                suppressed = context.__exit__(kind, error, None)
            except KeyError:
                suppressed = "raised"
            return x + 1, suppressed

        return leave

    def scenario(compile, note):
        enter = compile(lambda context: context.__enter__() + 1)
        for error in (None, ValueError("v"), KeyError("k")):
            leave = compile(leave_with(error))
            for _ in range(3):
                log = []
                context = manager(torch.ones(2), log)
                note(enter, context)
                log.append("between")
                note(leave, context, torch.ones(2))
                del context
                note.value(log)

    same_scenario(scenario, "eager")


def test_an_exit_stack():
    def program(x, log):
        with contextlib.ExitStack() as stack:
            y = stack.enter_context(managed(x, log, 1))
            z = stack.enter_context(managed(y, log, 2))
            torch._dynamo.graph_break()
            x = x * 2 + y
        return x.sin() + z

    same_three_times(program)


def test_a_decorator_made_of_a_manager():
    log = []

    @managed(torch.ones(2), log, 5)
    def decorated(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    def scenario(compile, note):
        compiled = compile(lambda x: decorated(x) + 1)
        for _ in range(3):
            log.clear()
            note(compiled, torch.ones(2))
            note.value(log)

    same_scenario(scenario, "eager")


def test_gradients_off_across_a_break_and_a_call():
    @contextlib.contextmanager
    def without_gradients(log):
        with torch.no_grad():
            try:
                yield
            finally:
                log.append(torch.is_grad_enabled())

    def program(x, log):
        with without_gradients(log):
            y = x * 2
            torch._dynamo.graph_break()
            z = y * 3
        log.append((y.requires_grad, z.requires_grad, torch.is_grad_enabled()))
        return z + x

    def scenario(compile, note):
        compiled = compile(program)
        enter = compile(lambda context, x: (context.__enter__(), x * 2)[1])
        leave = compile(lambda context, x: (x * 3, context.__exit__(None, None, None), x * 4))
        for _ in range(3):
            log = []
            x = torch.ones(2, requires_grad=True)
            note(compiled, x, log)
            context = without_gradients(log)
            note(enter, context, x)
            note.value(torch.is_grad_enabled())
            note(leave, context, x)
            note.value([torch.is_grad_enabled(), log])

    same_scenario(scenario, "eager")


def test_a_manager_that_is_dropped():
    def program(x, log):
        context = managed(x, log)
        y = context.__enter__()
        torch._dynamo.graph_break()
        context.__exit__(None, None, None)
        reference = weakref.ref(context)
        del context
        return y + 1, reference() is None

    same_three_times(program)


def test_what_follows_the_break_is_one_graph():
    @contextlib.contextmanager
    def plain(x, log):
        try:
            yield x.sin()
        finally:
            log.append(x.cos())

    def program(x, log):
        with plain(x, log) as y:
            x = x + y
            torch._dynamo.graph_break()
            x = x * 2
        return x.sin()

    first, second = counted_calls(program, lambda: (torch.ones(2), []), calls=2)
    assert (first.operations, first.graphs_run) == (5, 2)
    assert (second.operations, second.graphs_run, second.captures) == (5, 2, 0)
