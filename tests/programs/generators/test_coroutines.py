"""Coroutines: what is ready runs on inside the trace, a real suspension leaves it, and asyncio notices nothing."""

import asyncio
import collections.abc
import contextlib
import gc
import inspect
import types
import warnings

import pytest
import torch

import stator
from tests.support.counting import Counting
from tests.support.scenarios import same_scenario


class Tripled:
    """An awaitable of the program."""

    def __init__(self, x):
        self.x = x

    def __await__(self):
        if False:
            yield
        return self.x * 3


class Manager:
    def __init__(self, log, swallows=False):
        self.log, self.swallows = log, swallows

    async def __aenter__(self):
        self.log.append("enter")
        await asyncio.sleep(0)
        return 2

    async def __aexit__(self, kind, error, traceback):
        self.log.append(("exit", kind and kind.__name__))
        return self.swallows


class Countdown:
    def __init__(self, count):
        self.count = count

    def __aiter__(self):
        return self

    async def __anext__(self):
        if self.count == 0:
            raise StopAsyncIteration
        self.count -= 1
        await asyncio.sleep(0)
        return self.count


@types.coroutine
def suspended(value):
    """A real suspension: the driver sees `value`, and sends the result."""
    return (yield value)


async def double(x):
    return x * 2


async def later(x):
    y = x + 1
    await asyncio.sleep(0)
    return y * 2


async def nested(x):
    return await later(await double(x)) + await Tripled(x)


async def rows(x, log=None):
    try:
        for k in range(3):
            sent = yield x + k
            if log is not None:
                log.append(sent)
    finally:
        if log is not None:
            log.append("closed")


async def slow_rows(x):
    for k in range(3):
        await asyncio.sleep(0)
        yield x * k


@contextlib.asynccontextmanager
async def managed(log):
    log.append("before")
    try:
        yield 5
    except ValueError:
        log.append("caught")
    finally:
        log.append("after")


# --- coroutines that a compiled function drives itself, in one graph


def drive(coroutine, answers=()):
    seen, answers = [], list(answers)
    try:
        while True:
            seen.append(coroutine.send(answers.pop(0) if seen and answers else None))
    except StopIteration as stop:
        return seen, stop.value


async def asks(x):
    first = await suspended("first")
    try:
        second = await suspended("second")
    finally:
        x = x + 1
    return x * first + second


async def of_all_kinds(x):
    log = []
    async with Managed(log) as by:
        x = x * by
    total = [k async for k in rows(x)]
    async for row in rows(x, log):
        total.append(row)
    squares = [k * k async for k in (y + 1 async for y in rows(x))]
    async with managed(log) as by:
        x = x + by
        raise ValueError("caught by the manager")
    return x, total, squares, log


class Managed(Manager):
    async def __aenter__(self):
        self.log.append("enter")
        return 2


async def steps(x):
    log = []
    generator = rows(x, log)
    first = await generator.__anext__()
    second = await anext(generator)
    third = await generator.asend("sent")
    with contextlib.suppress(StopAsyncIteration):
        await generator.asend("last")
    closing, throwing = rows(x, log), rows(x, log)
    await closing.asend(None)
    await closing.aclose()
    await throwing.asend(None)
    try:
        await throwing.athrow(KeyError("thrown"))
    except KeyError as error:
        log.append(repr(error))
    return first + second + third, log


async def misuse(x):
    log = []
    coroutine = double(x)
    x = await coroutine
    for wrong in (coroutine, 5, rows(x)):
        try:
            await wrong
        except (RuntimeError, TypeError) as error:
            log.append(str(error))
    for wrong in (list, iter, next):
        unused = double(x)
        try:
            wrong(unused)
        except TypeError as error:
            log.append(str(error))
        unused.close()
    return x, log


@pytest.mark.parametrize("function", [double, of_all_kinds, steps, misuse], ids=lambda f: f.__name__)
def test_ready_coroutines_are_one_graph(function):
    def scenario(compile, note):
        program = compile(lambda x: drive(function(x)))
        note(program, torch.arange(3.0))
        note(program, torch.arange(3.0) - 1)

    same_scenario(scenario, "eager")
    if function is not misuse:
        same_scenario(scenario, "eager", fullgraph=True)


def test_a_coroutine_is_suspended_and_answered_inside_of_the_trace():
    def scenario(compile, note):
        program = compile(lambda x: drive(asks(x), (3, 4)))
        note(program, torch.arange(3.0))

        def throws(x):
            coroutine = asks(x)
            seen = [coroutine.send(None), coroutine.send(5)]
            try:
                coroutine.throw(KeyError("thrown"))
            except KeyError as error:
                seen.append(str(error))
            return seen, x + 1

        note(compile(throws), torch.ones(2))

        def hands_out(x):
            coroutine = asks(x + 1)
            return coroutine.send(None), coroutine, x * 2

        first, coroutine, _ = compile(hands_out)(torch.ones(2))
        note.value((first, type(coroutine).__name__, coroutine.__name__, coroutine.send(2)))
        note(lambda: finish(coroutine, 3))

    same_scenario(scenario, "eager")


def finish(coroutine, answer):
    with pytest.raises(StopIteration) as stop:
        coroutine.send(answer)
    return stop.value.value


# --- compiled coroutine functions


async def awaits_everything(x, log):
    async with Manager(log) as by:
        x = x * by
    async for k in Countdown(3):
        x = x + k
    async for row in slow_rows(x):
        x = x + row.sum()
        log.append(float(row.sum()))
    with contextlib.suppress(KeyError):
        async with Manager(log):
            raise KeyError("out")
    async with Manager(log, swallows=True):
        raise ValueError("swallowed")
    task = asyncio.ensure_future(later(x))
    both = await asyncio.gather(nested(x), later(x))
    return await task + both[0] + both[1]


def test_compiled_coroutine_functions_run_under_asyncio():
    def scenario(compile, note):
        for function in (double, later, nested):
            compiled = compile(function)
            for value in (1.0, 2.0):
                note(lambda: asyncio.run(compiled(torch.full((3,), value))))
        everything = compile(awaits_everything)
        log = []
        for _ in range(2):
            note(lambda: asyncio.run(everything(torch.ones(3), log)))
        note.value(log)

    same_scenario(scenario, "eager")
    same_scenario(scenario, "aot_eager")


def test_a_graph_on_each_side_of_a_suspension():
    async def program(x):
        y = torch.relu(x) + 1
        await asyncio.sleep(0)
        return (y * 2).sin()

    backend = Counting()
    compiled = stator.compile(program, backend=backend)
    asyncio.run(compiled(torch.ones(3)))
    assert (backend.compiled, backend.graphs_run, backend.executed) == (2, 2, 4)
    asyncio.run(compiled(torch.ones(3)))
    assert (backend.compiled, backend.graphs_run, backend.executed) == (2, 4, 8)


def test_functions_that_are_awaited_are_inlined():
    backend = Counting()
    compiled = stator.compile(lambda_of_double, backend=backend, fullgraph=True)
    assert asyncio.run(compiled(torch.ones(2))).tolist() == [5.0, 5.0]
    assert (backend.compiled, backend.executed) == (1, 2)


async def lambda_of_double(x):
    return await double(x) + 3


def test_a_suspension_is_no_graph_break():
    async def program(x):
        future = asyncio.get_running_loop().create_future()
        return await later(x) + await double(x), future

    async def suspends(x):
        return await later(x) * await tripled_later(x)

    compiled = stator.compile(suspends, backend="eager", fullgraph=True)
    for _ in range(2):
        assert asyncio.run(compiled(torch.ones(2))).tolist() == [12.0, 12.0]
    with pytest.raises(stator.Unsupported):
        asyncio.run(stator.compile(program, backend="eager", fullgraph=True)(torch.ones(2)))


async def tripled_later(x):
    await asyncio.sleep(0)
    return await Tripled(x)


def test_gradients_and_errors_through_suspensions():
    async def fails(x):
        y = await later(x)
        raise ValueError(f"after {tuple(y.shape)}")

    async def catches(x):
        try:
            return await fails(x)
        except ValueError as error:
            return str(error), [frame.name for frame in __import__("traceback").extract_tb(error.__traceback__)]

    def scenario(compile, note):
        weight = torch.ones(3, requires_grad=True)
        trained = compile(later)
        for _ in range(2):
            result = note(lambda: asyncio.run(trained(weight * 2)))
            note.gradients(result, weight)
        note(lambda: asyncio.run(compile(fails)(torch.ones(2))))
        note(lambda: asyncio.run(compile(catches)(torch.ones(2))))

        async def cancelled():
            task = asyncio.ensure_future(compile(forever)(torch.ones(2), log))
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

        log = []
        asyncio.run(cancelled())
        note.value(log)

    same_scenario(scenario, "eager")


async def forever(x, log):
    try:
        await asyncio.Event().wait()
    finally:
        log.append(float((x + 1).sum()))


def test_a_compiled_coroutine_passes_for_a_coroutine():
    compiled = stator.compile(later, backend="eager")
    assert inspect.iscoroutinefunction(compiled) and asyncio.iscoroutinefunction(compiled)
    coroutine = compiled(torch.ones(1))
    assert isinstance(coroutine, types.CoroutineType) and isinstance(coroutine, collections.abc.Coroutine)
    assert inspect.iscoroutine(coroutine) and asyncio.iscoroutine(coroutine) and inspect.isawaitable(coroutine)
    assert (coroutine.__name__, coroutine.__qualname__, coroutine.cr_code) == ("later", "later", later.__code__)
    assert repr(coroutine).startswith("<coroutine object later at")
    assert inspect.getcoroutinestate(coroutine) == "CORO_CREATED"
    assert coroutine.send(None) is None and inspect.getcoroutinestate(coroutine) == "CORO_SUSPENDED"
    with pytest.raises(RuntimeError, match="being awaited already"):
        asyncio.run(lambda_of(coroutine))
    with pytest.raises(StopIteration) as stop:
        coroutine.send(None)
    assert stop.value.value.item() == 4.0
    with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
        coroutine.send(None)


async def lambda_of(awaitable):
    return await awaitable


def test_a_coroutine_that_is_never_awaited_is_warned_of():
    def forgets(x):
        double(x)
        return x + 1

    for call in (
        lambda: stator.compile(forgets, backend="eager")(torch.ones(1)),
        lambda: stator.compile(later, backend="eager")(torch.ones(1)),
    ):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            call()
            gc.collect()
        assert [str(one.message).split("'")[1] for one in seen] in (["double"], ["later"])


def test_a_method_and_a_closure_and_what_they_depend_on():
    class Model:
        scale = 2

        async def forward(self, x):
            await asyncio.sleep(0)
            return x * self.scale * factor

    factor = 3

    def scenario(compile, note):
        nonlocal factor
        factor = 3
        model = Model()
        forward = compile(model.forward)
        note(lambda: asyncio.run(forward(torch.ones(2))))
        model.scale = 5
        note(lambda: asyncio.run(forward(torch.ones(2))))
        factor = 7
        note(lambda: asyncio.run(forward(torch.ones(2))))

    same_scenario(scenario, "eager")


def test_hooks_of_asynchronous_generators():
    import sys

    def scenario(compile, note):
        program = compile(lambda x: drive(collects(x)))
        note(program, torch.ones(2))
        started = []
        before = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=lambda generator: started.append(generator.__name__))
        try:
            note(program, torch.ones(2))
        finally:
            sys.set_asyncgen_hooks(*before)
        note.value(started)
        note(lambda: asyncio.run(compile(stops_early)(torch.ones(2))))

    same_scenario(scenario, "eager")


async def collects(x):
    return [k async for k in rows(x)]


async def stops_early(x):
    log = []
    async for row in rows(x, log):
        x = x + row
        break
    await asyncio.sleep(0)
    async for row in slow_rows(x):
        x = x + row
        await asyncio.sleep(0)
        if row.sum() > 0:
            break
    return x, len(log)
