"""Call-outs: points at which user code runs while Stator is on the stack, and what that code may do there."""

import functools
import gc
import threading

import torch

from tests.support.engine import ENGINE

if ENGINE == "stator":
    import stator


class Callout:
    """The code that runs at a call-out: nothing, or an action, which is not reentered, in the test's own thread."""

    def __init__(self):
        self.action, self.is_busy, self.count, self.thread = None, False, 0, None

    def __call__(self):
        self.count += 1
        if self.action is None or self.is_busy or threading.get_ident() != self.thread:
            return
        self.is_busy = True
        try:
            self.action()
        finally:
            self.is_busy = False


CALLOUT = Callout()


@torch.compiler.disable
def poke():
    CALLOUT()


def scaled(x):
    return x * 2


class Run:
    """A compiled callable and the sequence of its calls."""

    def __init__(self, function, calls, backend, patience=None):
        self.function, self.calls, self.backend = function, calls, backend
        # How long an action waits for its thread. Where compilation is under way, that thread has to wait for its end.
        self.patience, self.threads = patience, []
        CALLOUT.thread = threading.get_ident()
        self.compiled = stator.compile(function, backend=backend)

    def again(self):
        """The same callable, compiled or not yet, with the arguments of another call."""
        (self.compiled or self.function)(*fresh(self.calls[-1]))


def reset(run):
    stator.reset()


def collect(run):
    gc.collect()


def drop(run):
    run.compiled = None
    gc.collect()


def call(run):
    run.again()


def call_and_reset(run):
    run.again()
    stator.reset()
    run.again()


def compile_another(run):
    other = stator.compile(run.function, backend=run.backend)
    other(*fresh(run.calls[0]))


def change_settings(run):
    before = stator.config.recompile_limit
    stator.config.recompile_limit = 1 if before != 1 else 8
    with torch.compiler.set_stance("force_eager"):
        run.again()


def switch_threads(run):
    def work():
        for _ in range(3):
            run.again()
        stator.reset()
        run.again()
        gc.collect()

    thread = threading.Thread(target=work)
    thread.start()
    run.threads.append(thread)
    thread.join(run.patience)


def replace_code(run):
    """Drops the code that is being traced."""
    stator.reset()
    scaled.__code__ = (lambda x: x * 2).__code__.replace(co_name="scaled")
    gc.collect()


ACTIONS = [
    reset,
    collect,
    drop,
    call,
    call_and_reset,
    compile_another,
    change_settings,
    switch_threads,
    replace_code,
]


QUIET = [reset, collect, drop, replace_code]


def fresh(arguments):
    return [one.clone() if isinstance(one, torch.Tensor) else one for one in arguments]


def calls():
    one, two = torch.arange(2.0), torch.arange(6.0).reshape(3, 2)
    return [(one, 2), (one, 2), (two, 2), (two, 3), (one, 3), (one, 4), (one, 2)]


def check(situation, action, backend="eager"):
    """Checks that every call returns what the uncompiled program returns, whatever happens in its middle. Returns how often an action ran."""
    CALLOUT.action = None
    plain = situation()
    expected = []
    for arguments in calls():
        getattr(plain, "before", lambda: None)()
        expected.append(plain(*fresh(arguments)))
    program = situation()
    run = Run(program, calls(), backend)
    CALLOUT.count = 0
    for arguments, wanted in zip(calls(), expected, strict=True):
        if run.compiled is None:
            run.compiled = stator.compile(program, backend=backend)
        getattr(program, "before", lambda: None)()
        CALLOUT.action = functools.partial(action, run)
        got = run.compiled(*fresh(arguments))
        CALLOUT.action = None
        assert torch.equal(got, wanted), f"{situation.__name__} with {action.__name__}"
    return CALLOUT.count
