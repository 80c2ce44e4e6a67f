"""Locks around mutations of outside objects, and switches of autograd that change nothing."""

import sys
import textwrap
import threading
import types

import pytest
import torch

import stator
from tests.support.harness import Source, T, same

# In a module of their own: two worlds share it, as locks are equal to themselves alone.
LOCKS = types.ModuleType("locks_of_tests")
LOCKS.Lock, LOCKS.RLock = threading.Lock(), threading.RLock()
sys.modules["locks_of_tests"] = LOCKS


def with_lock(program: str, kind: str) -> Source:
    program = textwrap.dedent(program).replace("LOCK", f"locks_of_tests.{kind}")
    return Source(f"import locks_of_tests, threading\nKIND = '{kind}'\n{program}")


LOCKED = {
    "install_once": """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(3, 3)
                self.seen = []
                self.ready = False

            def install(self):
                if self.ready:
                    return
                with LOCK:
                    if self.ready:
                        return
                    self.inner.register_forward_hook(lambda module, given, result: self.seen.append(result) or result * 2)
                    self.ready = True

            def forward(self, x):
                self.install()
                x = self.inner(x)
                return x, len(self.seen)

        torch.manual_seed(3)
        f = Model()
        """,
    "counter": """
        COUNTS = []
        def f(x):
            with LOCK:
                COUNTS.append(x.shape[0])
                y = x * len(COUNTS)
            with LOCK as held:
                COUNTS.append(held)
            return y + 1
        """,
    "by_hand": """
        TABLE = {}
        def f(x):
            got = LOCK.acquire()
            try:
                TABLE["last"] = x * 2
            finally:
                LOCK.release()
            return TABLE["last"] + got
        """,
    "raised_inside": """
        def f(x):
            try:
                with LOCK:
                    raise KeyError("inside")
            except KeyError as error:
                return x + len(error.args)
        """,
}


@pytest.mark.parametrize("kind", ["Lock", "RLock"])
@pytest.mark.parametrize("name", LOCKED)
def test_locked(name: str, kind: str) -> None:
    same(with_lock(LOCKED[name], kind), T(2, 3), stateful=True, compare_dynamo=False, fullgraph=False)


def test_what_a_lock_protects_is_read_while_it_is_held() -> None:
    """The lock is acquired at its place in the program: everything read and changed inside belongs to one thread."""
    lock, counts = threading.Lock(), {"calls": 0}

    def program(x):
        with lock:
            before = counts["calls"]
            y = torch.relu(x) + before
            counts["calls"] = before + 1
        return y

    compiled = stator.compile(program, backend="eager")

    def work():
        for _ in range(50):
            compiled(torch.ones(2))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts["calls"] == 200


IN_PIECES = {
    "break_inside": """
        def f(x):
            with LOCK:
                y = x * 2
                print(LOCK.acquire(blocking=False) if KIND == "Lock" else "held")
                y = y + 1
            return y, LOCK.acquire(False), LOCK.release()  # it is free again
        """,
    "nested": """
        def f(x):
            with LOCK:
                if KIND == "RLock":
                    with LOCK:
                        x = x + 1
                x = x * 2
            return x
        """,
    "never_taken": """
        def f(x):
            try:
                LOCK.release()
            except RuntimeError as error:
                return x * len(str(error))
        """,
    "asked": """
        def f(x):
            with LOCK:
                free = LOCK.acquire(timeout=0.001)
                if free:
                    LOCK.release()
            return x + free
        """,
    "new": """
        def f(x):
            lock = threading.Lock()
            with lock:
                x = x + lock.locked()
            return x, lock.locked()
        """,
}


@pytest.mark.parametrize("kind", ["Lock", "RLock"])
@pytest.mark.parametrize("name", IN_PIECES)
def test_in_pieces(name: str, kind: str) -> None:
    same(with_lock(IN_PIECES[name], kind), T(2, 3), fullgraph=False)


SWITCHES = {
    "of_a_result": "y = x * 2\n    y.requires_grad_(True)\n    return y.requires_grad_() * 3",
    "of_an_input": "x.requires_grad_(x.requires_grad)\n    return x * 2",
    "off": "y = x.detach()\n    y.requires_grad_(False)\n    return y * x",
}


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_that_are_on(name: str) -> None:
    same(Source(f"def f(x):\n    {SWITCHES[name]}\n"), T(2, 3, grad=True), compare_dynamo=False)


def test_switches_that_are_off() -> None:
    program = (
        "def f(x):\n    y = x * 2\n    y.requires_grad_(True)\n    return (y * 3).requires_grad, y.requires_grad, y\n"
    )
    same(Source(program), T(2, 3), fullgraph=False)


def test_locks_that_the_program_makes():
    def guarded(x):
        lock, again = threading.Lock(), threading.RLock()
        seen = [lock.locked()]
        with lock as taken, again, again:
            seen += [taken, lock.locked(), lock.acquire(blocking=False)]
            x = x + 1
        try:
            lock.release()
        except RuntimeError as error:
            seen.append(str(error))
        return x * 2, seen

    same(guarded, T(3), compare_dynamo=False)

    def handed_out(x):
        lock, again = threading.Lock(), threading.RLock()
        lock.acquire()
        again.acquire()
        return x + 1, {"lock": lock, "again": again}

    held = stator.compile(handed_out, backend="eager", fullgraph=True)(torch.ones(2))[1]
    assert held["lock"].locked() and type(held["lock"]) is type(threading.Lock())
    held["lock"].release()
    held["again"].release()
    with pytest.raises(RuntimeError):
        held["again"].release()

    def breaks(x):
        lock = threading.Lock()
        with lock:
            print(end="")
            held = lock.locked()
        return x + 1, held, lock.locked()

    same(breaks, T(3), fullgraph=False, compare_dynamo=False)


def test_a_logger_remembers_whether_a_level_is_enabled():
    """It takes a lock where it does not remember it: that protects the memory alone."""
    text = textwrap.dedent("""
        import logging
        manager = logging.Manager(logging.RootLogger(logging.WARNING))
        logger = manager.getLogger("of this world")
        logger.propagate = False
        def f(x):
            logger.debug("not shown")
            if logger.isEnabledFor(logging.INFO):
                x = x + 1
            return x * 2, logger.isEnabledFor(25), logger.isEnabledFor(40)
    """)
    changes = [
        "logger.setLevel(logging.INFO)",
        "manager.disable = 45; manager._clear_cache()",
        "manager.disable = 0; manager._clear_cache()",
        "logger.disabled = True",
    ]
    same(Source(text), T(3), mutate=changes, compare_dynamo=False)
