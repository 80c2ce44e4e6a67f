"""Programs under `stator.install()` with what surrounds programs every day: flags of Python, its tools, processes,
interrupts, threads, event loops, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.long import LONG, every, long_only
from tests.support.processes import beside_dynamo, python

# Trains for three steps, breaks the graph, recompiles, and prints what it has computed.
TRAINING = """
import functools
import sys
import types
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 1)

    def forward(self, x, scale):
        \"\"\"Says what it does.\"\"\"
        assert scale > 0
        x = torch.relu(self.first(x)) * scale
        if __debug__ and not self.training:
            print("eval", scale)
        return self.second(x).sum()

def main():
    torch.manual_seed(0)
    model = Model()
    compiled = torch.compile(model, backend="BACKEND")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = compiled(torch.ones(2 + step, 4), 1 + step)
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.5f}")
    compiled.eval()
    print(f"{compiled(torch.ones(2, 4), 2).item():.5f}")
    # Freed when Python ends, by its garbage collector, and after the modules.
    holder = types.SimpleNamespace(compiled=torch.compile(doubled, backend="BACKEND"))
    holder.itself = functools.kept = holder
    holder.compiled(torch.ones(1))

def doubled(x):
    return x * 2

if __name__ == "__main__":
    main()
""".replace("BACKEND", "aot_eager" if LONG else "eager")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("programs") / "training.py"
    path.write_text(TRAINING)
    return path


@pytest.fixture(scope="module")
def expected(script: Path) -> list[str]:
    uncompiled = "import runpy, torch; torch.compile = lambda model, **options: model\n"
    return beside_dynamo(f"{uncompiled}runpy.run_path({str(script)!r}, run_name='__main__')").splitlines()


def run(*flags: str, script: Path, **environment: str) -> list[str]:
    return python(*flags, "-m", "stator", "run", str(script), **environment).splitlines()


def run_module(name: str, *arguments: str, check: bool = True) -> list[str]:
    """What `python -m NAME ARGUMENTS` prints."""
    starting = f"import runpy, sys; runpy.run_module({name!r}, run_name='__main__', alter_sys=True)"
    return beside_dynamo(starting, *arguments, check=check).splitlines()


# torch itself warns at its import in some of its versions: warnings become errors once it is there.
@pytest.mark.parametrize(
    "flags", every(2, [("-X", "dev"), ("-B", "-s"), ("-X", "faulthandler"), ("-X", "no_debug_ranges")], 1)
)
def test_flags(script: Path, expected: list[str], flags: tuple[str, ...]):
    assert run(*flags, script=script) == expected


@pytest.mark.parametrize("flag", ["-O", pytest.param("-OO", marks=long_only)])
def test_without_assertions(script: Path, expected: list[str], flag: str):
    assert run(flag, script=script) == [line for line in expected if not line.startswith("eval")]


def test_warnings_are_errors(script: Path, expected: list[str]):
    program = f"""
import runpy, warnings
import torch, torch._inductor.compile_fx
warnings.simplefilter("error")
import stator
stator.install()
runpy.run_path({str(script)!r}, run_name="__main__")
"""
    assert beside_dynamo(program).splitlines() == expected


def test_cprofile(script: Path, expected: list[str]):
    said = run_module("cProfile", "-m", "stator", "run", str(script))
    assert [line for line in said if line in expected] == expected


def test_pdb(script: Path, expected: list[str]):
    """A breakpoint between compiled calls stops there, and the program goes on to the same end."""
    line = TRAINING.splitlines().index("        loss.backward()") + 1
    commands = [f"break {script}:{line}", "continue", "print('step', step)", "clear 1", "continue", "quit"]
    flags = [part for command in commands for part in ("-c", command)]
    said = run_module("pdb", *flags, "-m", "stator", "run", str(script), check=False)
    assert "step 0" in said
    assert [text for text in said if text in expected] == expected


PROCESSES = """
import multiprocessing, sys
import torch
import stator
stator.install()

@torch.compile(backend="eager")
def function(x):
    y = torch.sin(x)
    print(end="")
    return y * 2

class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return function(torch.full((2,), float(index)))

def work(index):
    return function(torch.full((2,), float(index))).tolist()

def main(way):
    expected = [(torch.sin(torch.full((2,), float(i))) * 2).tolist() for i in range(6)]
    assert work(1) == expected[1]
    with multiprocessing.get_context(way).Pool(2) as pool:
        assert pool.map(work, range(6)) == expected
    loader = torch.utils.data.DataLoader(Numbers(), num_workers=2, multiprocessing_context=way, batch_size=1)
    assert [batch[0].tolist() for batch in loader] == expected
    assert work(2) == expected[2]
    print("done")

if __name__ == "__main__":
    main(sys.argv[1])
"""


@pytest.mark.parametrize("way", ["fork", *(pytest.param(way, marks=long_only) for way in ("spawn", "forkserver"))])
def test_processes_and_loaders(tmp_path: Path, way: str):
    path = tmp_path / "processes.py"
    path.write_text(PROCESSES)
    assert python(str(path), way) == "done"


INTERRUPTS = """
import signal, sys, threading, time
import torch
import stator
stator.install()
when = sys.argv[1]
# (A process that is started in the background ignores interrupts.)
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupt():
    signal.raise_signal(signal.SIGINT)

def backend(graph, inputs):
    if when == "capture" and armed:
        interrupt()
    return graph.forward

armed = True
seen = []

def later(x):
    seen.append("before")
    y = torch.cos(x)
    if when == "call" and armed:
        interrupt()
    for _ in range(3):
        y = y + 1
    seen.append("after")
    return y

function = torch.compile(later, backend=backend)
for _ in range(2):
    seen.clear()
    try:
        function(torch.zeros(2))
    except KeyboardInterrupt:
        print("interrupted", seen)
armed = False
for _ in range(2):
    seen.clear()
    print(function(torch.zeros(2)).tolist(), seen)
"""


@pytest.mark.parametrize("when", ["capture", "call"])
def test_an_interrupt_leaves_and_later_calls_work(when: str):
    said = beside_dynamo(INTERRUPTS, when).splitlines()
    interrupted, works = said[:-2], said[-2:]
    assert works == ["[4.0, 4.0] ['before', 'after']"] * 2
    assert interrupted and all(line in ("interrupted []", "interrupted ['before']") for line in interrupted)
    if when == "call":
        assert interrupted == ["interrupted ['before']"] * 2


TIMER = """
import signal, time
import torch
import stator
stator.install()

def body(x):
    for i in range(3000):
        x = torch.sin(x) + i
    return x

expected = body(torch.zeros(2))
interrupted = 0
for delay in (0.001, 0.003, 0.01, 0.03):
    function = torch.compile(lambda x: body(x), backend="eager")
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        function(torch.zeros(2))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    assert torch.equal(function(torch.zeros(2)), expected)
    assert torch.equal(function(torch.zeros(2)), expected)
print("done", interrupted > 0)
"""


def test_an_interrupt_at_any_time():
    assert beside_dynamo(TIMER) == "done True"


SERVER = """
import asyncio
import torch
import stator
stator.install()

model = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()), backend="aot_eager").eval()

async def handle(reader, writer):
    numbers = [float(word) for word in (await reader.readline()).split()]
    x = torch.tensor([numbers])
    with torch.no_grad():
        here = model(x)
        there = await asyncio.get_running_loop().run_in_executor(None, lambda: model(x.repeat(2, 1)))
    # (A batch of two may go through another kernel.)
    assert torch.allclose(there[0], here[0])
    writer.write(repr(here.tolist()).encode() + b"\\n")
    await writer.drain()
    writer.close()

async def ask(port, numbers):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(" ".join(map(str, numbers)).encode() + b"\\n")
    answer = (await reader.readline()).decode().strip()
    writer.close()
    return answer

async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    questions = [[i, i + 1, i + 2] for i in range(12)]
    answers = await asyncio.gather(*(ask(port, question) for question in questions))
    with torch.no_grad():
        expected = [repr(model._orig_mod(torch.tensor([[float(n) for n in q]])).tolist()) for q in questions]
    assert answers == expected
    server.close()
    print("done")

asyncio.run(main(), debug=True)
"""


def test_an_asyncio_server():
    # In debug mode asyncio tells of callbacks that take long, as those that compile do.
    assert beside_dynamo(SERVER).splitlines()[-1] == "done"


COPIES = """
import copy, io, pickle, sys
import torch
import stator
stator.install()

def fresh():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.0))

def saved(module):
    buffer = io.BytesIO()
    torch.save(module, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)

x = torch.ones(2, 3)
for called_before in (False, True):
    for duplicate in (copy.deepcopy, copy.copy, saved, lambda module: pickle.loads(pickle.dumps(module))):
        module = torch.compile(fresh(), backend="eager")
        if called_before:
            module(x)
        other = duplicate(module)
        assert torch.equal(other(x), fresh()(x))
        assert isinstance(other, torch._dynamo.OptimizedModule)
        other.load_state_dict(module.state_dict())
        in_place = fresh()
        in_place.compile(backend="eager")
        if called_before:
            in_place(x)
        assert torch.equal(duplicate(in_place)(x), fresh()(x))
print("done")
"""


def test_copies_pickles_and_files():
    assert beside_dynamo(COPIES) == "done"
