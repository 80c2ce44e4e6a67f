"""Other Python processes, for tests that need a process of their own.

`fresh` runs a program where torch is imported and nothing else: such processes are forked from one that has imported
it, because the import takes most of the time of a short program. `beside_dynamo` does the same where torch._dynamo is
imported too, as it is by each call of `torch.compile`. `python` starts the interpreter anew, for programs that need flags
or an environment of their own, or no torch.
"""

import atexit
import functools
import importlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import textwrap
import types
from multiprocessing.connection import Connection

# Seconds after which a process is assumed to hang, also on a busy machine.
HANGS = 850


def python(*arguments: str, check: bool = True, **environment: str) -> str:
    """What `python ARGUMENTS` prints; with what this process can import."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        [sys.executable, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANGS,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert not check or done.returncode == 0, done.stdout
    return done.stdout.strip()


class Fresh:
    """A program that runs in a process which has imported only torch."""

    def __init__(self, program: str, *arguments: str) -> None:
        self.output = tempfile.NamedTemporaryFile("r", suffix=".txt")  # noqa: SIM115
        servers = multiprocessing.get_context("forkserver")
        servers.set_forkserver_preload(["torch"])
        self.process = servers.Process(target=run, args=(textwrap.dedent(program), arguments, self.output.name))
        self.process.start()

    def printed(self, check: bool = True) -> str:
        """Waits for the end of the process and returns its output."""
        self.process.join(HANGS)
        ended = self.process.exitcode
        if ended is None:
            self.process.kill()
        with self.output:
            text = self.output.read().strip()
        assert ended is not None, f"it hangs; so far it printed: {text}"
        assert not check or ended == 0, f"exit status {ended}: {text}"
        return text


def run(program: str, arguments: tuple[str, ...], output: str) -> None:
    """In the forked process: the program as `python -c` would run it."""
    descriptor = os.open(output, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = ["-c", *arguments]
    exec(compile(program, "<string>", "exec"), main.__dict__)


def fresh(program: str, *arguments: str, check: bool = True) -> str:
    """The output of a program that runs in a process which has imported only torch."""
    return Fresh(program, *arguments).printed(check)


class Forking:
    """A process that has imported torch._dynamo, and forks for each program."""

    def __init__(self) -> None:
        servers = multiprocessing.get_context("forkserver")
        servers.set_forkserver_preload(["torch"])
        self.requests, there = servers.Pipe()
        self.process = servers.Process(target=fork_for_each, args=(there,), daemon=False)
        self.process.start()
        there.close()
        atexit.register(self.requests.close)  # before multiprocessing waits for its children

    def run(self, program: str, arguments: tuple[str, ...], check: bool) -> str:
        with tempfile.NamedTemporaryFile("r", suffix=".txt") as output:
            self.requests.send((textwrap.dedent(program), arguments, output.name))
            assert self.requests.poll(HANGS), f"it hangs; so far it printed: {output.read()}"
            ended = self.requests.recv()
            text = output.read().strip()
        assert not check or ended == 0, f"exit status {ended}: {text}"
        return text


def fork_for_each(requests: Connection) -> None:
    """In the process that forks: runs one program after the other, until the process of the tests has ended."""
    for name in ("torch._dynamo", "torch._inductor.compiler_bisector", "torch._functorch.aot_autograd"):
        importlib.import_module(name)
    forks = multiprocessing.get_context("fork")
    while True:
        try:
            request = requests.recv()
        except EOFError:
            return
        process = forks.Process(target=run, args=request)
        process.start()
        process.join()
        requests.send(process.exitcode)


@functools.cache
def forking() -> Forking:
    return Forking()


def beside_dynamo(program: str, *arguments: str, check: bool = True) -> str:
    """The output of a program that runs in a process which has imported torch._dynamo, and not Stator."""
    return forking().run(program, arguments, check)
