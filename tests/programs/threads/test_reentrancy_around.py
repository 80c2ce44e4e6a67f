"""Backends, listeners, warnings and finalizers may call back into Stator as well."""

import functools
import gc
import logging
import types
import warnings

import pytest
import torch

from tests.support.callouts import ACTIONS, CALLOUT, Run, calls, fresh, poke, scaled
from tests.support.engine import ENGINE

if ENGINE == "stator":
    import stator
    from stator import _C

pytestmark = [
    pytest.mark.skipif(ENGINE != "stator", reason="about Stator's own state"),
    pytest.mark.usefixtures("callouts_end"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]


def program(x, n):
    y = scaled(x) * n
    torch._dynamo.graph_break()
    return y + 1


class Layer(torch.nn.Module):
    def forward(self, x, n):
        return scaled(x) * n


def check(action, function, backend, patience=None):
    run = Run(function, calls(), backend, patience)
    CALLOUT.count = 0
    for arguments in calls():
        if run.compiled is None:
            run.compiled = stator.compile(function, backend=backend)
        CALLOUT.action = None
        expected = function(*fresh(arguments))
        CALLOUT.action = functools.partial(action, run)
        assert torch.equal(run.compiled(*fresh(arguments)), expected)
    CALLOUT.action = None
    for thread in run.threads:
        thread.join()
    assert CALLOUT.count > 0


every_action = pytest.mark.parametrize("action", ACTIONS, ids=lambda action: action.__name__)


@every_action
def test_while_a_backend_compiles(action):
    def backend(module, inputs):
        poke()
        return module.forward

    check(action, program, backend, patience=0.01)


@every_action
def test_while_a_compiled_graph_runs(action):
    def backend(module, inputs):
        def compiled(*inputs):
            poke()
            results = module(*inputs)
            poke()
            return list(results)

        return compiled

    check(action, program, backend)


@every_action
def test_while_what_a_backend_made_goes(action):
    class Compiled:
        def __init__(self, module):
            self.module = module

        def __call__(self, *inputs):
            return self.module(*inputs)

        def __del__(self):
            poke()

    def more_than_once(run):
        action(run)
        stator.reset()

    more_than_once.__name__ = action.__name__
    check(more_than_once, program, lambda module, inputs: poke() or Compiled(module), patience=0.01)


@every_action
def test_while_a_listener_gets_a_report(action):
    before = _C.collect(lambda report: poke())
    try:
        check(action, program, "eager")
    finally:
        _C.collect(before)


@every_action
def test_while_backends_are_compared(action):
    class Backend:
        def __call__(self, module, inputs):
            return module.forward

        def __eq__(self, other):
            poke()
            return isinstance(other, Backend)

        __hash__ = object.__hash__

    others = [stator.compile(Layer(), backend=Backend()) for _ in range(3)]
    for other in others:
        other(torch.ones(2), 2)
    layer = Layer()
    run = Run(layer, calls(), Backend())
    CALLOUT.action = functools.partial(action, run)
    for arguments in calls():
        if run.compiled is None:
            run.compiled = stator.compile(layer, backend=Backend())
        assert torch.equal(run.compiled(*fresh(arguments)), layer(*fresh(arguments)))


@every_action
def test_while_a_warning_is_shown(action):
    stator.config.recompile_limit = 1
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *arguments, **options: poke()
        check(action, program, "eager")


@every_action
def test_while_a_warning_is_logged(action):
    class Handler(logging.Handler):
        def emit(self, record):
            poke()

    logger, handler = logging.getLogger("stator"), Handler()
    logger.addHandler(handler)
    stator.config.recompile_limit = 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check(action, program, "eager")
    finally:
        logger.removeHandler(handler)


@every_action
def test_under_a_stance_with_a_backend(action):
    def backend(module, inputs):
        poke()
        return module.forward

    with torch.compiler.set_stance("default", force_backend=backend):
        check(action, program, "eager", patience=0.01)


def test_nobody_but_the_call_holds_the_callable():
    def called(x, n):
        y = scaled(x) * n
        gc.collect()
        stator.reset()
        torch._dynamo.graph_break()
        gc.collect()
        return y + 1

    for _ in range(3):
        assert torch.equal(stator.compile(called)(torch.ones(2), 2), torch.full((2,), 5.0))


def test_the_code_of_an_inlined_function_goes_while_it_is_traced():
    def real(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def fake(x):
        if replaced:
            replaced.pop()()
        return torch.empty_like(x)

    operator = torch.library.custom_op("stator_reentrancy::replacing", real, mutates_args=())
    operator.register_fake(fake)
    replaced = []

    def template(x, n):
        values = {"a": operator(x) * n, "b": [x + i for i in range(n)]}
        return values["a"] + values["b"][-1]

    for size in range(2, 12):
        # A code object that only the function has.
        inner = types.FunctionType(
            template.__code__.replace(co_name=f"inner{size}"), globals(), "inner", None, template.__closure__
        )

        def outer(x, n, inner=inner):
            return inner(x, n) * 2

        def replace(inner=inner, operator=operator):
            inner.__code__ = (lambda x, n: (operator, x - n)[1]).__code__
            stator.reset()
            gc.collect()

        replaced[:] = [replace]
        compiled = stator.compile(outer)
        for _ in range(3):
            got = compiled(torch.ones(size), 2)
            assert not replaced
            assert torch.equal(got, outer(torch.ones(size), 2))


def test_the_same_guards_are_checked_in_the_middle_of_a_check():
    """Looking a name up calls `__eq__` of another key with the same hash, which calls the same program."""

    class Key:
        asked = None

        def __hash__(self):
            return hash("factor")

        def __eq__(self, other):
            if Key.asked is not None and other == "factor":
                asked, Key.asked = Key.asked, None
                asked()
            return False

    class Holder:
        def __init__(self, value):
            self.__dict__[Key()] = 1
            self.factor, self.value = 3, torch.full((2,), float(value))

    def read(holder, x, y):
        return x * holder.factor + holder.value + y

    compiled = stator.compile(read)

    def again(number):
        assert compiled(Holder(1000), torch.zeros(2), torch.zeros(2)).tolist() == [1000.0, 1000.0]
        if number % 3 == 0:
            stator.reset()
        gc.collect()

    for number in range(20):
        holder = Holder(number)
        Key.asked = functools.partial(again, number)
        assert compiled(holder, torch.ones(2), torch.full((2,), 2.0)).tolist() == [number + 5.0] * 2
        assert Key.asked is None
