"""The logs of torch, record by record, beside those of torch._dynamo for the same programs.

What differs by design is taken out of both (`without_differences`): docs/design/drop-in.md lists it.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.support.processes import fresh

PROGRAMS = """
import torch

def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)

def constant_sizes():
    def f(x, w):
        y = torch.relu(x @ w)
        return y.sum(dim=-1)
    run = compiled(f, dynamic=False)
    for size in (3, 3, 4):
        run(torch.ones(size, 4), torch.ones(4, 5))

def sizes_that_change():
    def f(x):
        if x.shape[0] > 5:
            return x * 2
        return x.sum()
    run = compiled(f)
    for size in (8, 9, 10, 4):
        run(torch.ones(size))

def marked_sizes():
    x = torch.ones(8, 3)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=100)
    compiled(lambda x: x * 2)(x)

def graph_breaks():
    def g(x):
        x = x + 1
        print(end="")
        return x * 2
    def f(x):
        x = x.relu()
        torch._dynamo.graph_break()
        return g(x).cos()
    compiled(f)(torch.ones(3))

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 3

    def forward(self, x):
        return x * self.scale

def a_model():
    model = Model()
    run = compiled(model, dynamic=False)
    run(torch.ones(2))
    run(torch.ones(3))
    model.scale = 4
    run(torch.ones(3))

def kinds_of_guards():
    def f(x, a):
        if isinstance(a, list):
            return x + len(a)
        if isinstance(a, dict):
            return x + a["k"]
        if isinstance(a, torch.Tensor):
            return x + a
        if a is None:
            return x + 7
        return x * a
    run = compiled(f, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=100):
        for a in ([1], [1, 2], {"k": 1}, {"k": 2}, None, 3, 4, 1.5, 2.5, torch.ones(3), torch.ones(1, 3),
                  torch.ones(3).double(), torch.ones(3, requires_grad=True)):
            run(torch.ones(3), a)

def a_training_step():
    model = torch.nn.Linear(4, 2)
    def step(x):
        return model(x).square().mean()
    compiled(step)(torch.ones(3, 4)).backward()
"""

RUN = """
import json, logging, linecache, sys, types
{install}
import torch
import torch._dynamo

module = types.ModuleType("programs")
linecache.cache["programs.py"] = (len(PROGRAMS), None, PROGRAMS.splitlines(True), "programs.py")
exec(compile(PROGRAMS, "programs.py", "exec"), vars(module))
records = []
handle = logging.Logger.handle

def keep(logger, record):
    if logger.name.startswith("torch.") and logger.name != "torch.__trace":
        records.append((logger.name, record.levelname, record.getMessage()))

logging.Logger.handle = keep
logging.getLogger().handlers.clear()
torch._logging.set_logs(recompiles=True, graph_breaks=True, guards=True, graph_code=True, dynamic=logging.INFO)
told = {{}}
for name in {names}:
    torch._dynamo.reset()
    getattr(module, name)()
    told[name], records[:] = list(records), []
logging.Logger.handle = handle
print(json.dumps(told))
"""

NAMES = re.findall(r"^def (\w+)\(\):", PROGRAMS, re.MULTILINE)


@pytest.fixture(scope="module")
def told() -> dict[str, dict[str, list[tuple[str, str, str]]]]:
    """By engine and program: the records, with the names of their loggers and their levels."""

    def run(install: str) -> dict[str, list[tuple[str, str, str]]]:
        said = fresh(f"PROGRAMS = {PROGRAMS!r}\n" + RUN.format(install=install, names=NAMES))
        return json.loads(said.splitlines()[-1])

    return {"torch": run(""), "stator": run("import stator; stator.install()")}


def of(records: list[tuple[str, str, str]], logger: str) -> list[str]:
    return [text for name, level, text in records if name.endswith(logger)]


def without_addresses(text: str) -> str:
    return re.sub(r"\((L\[.*?|\w[\w.\[\]']*), \d{6,}\)", r"(\1)", text)


@pytest.mark.parametrize("name", NAMES)
def test_loggers_and_levels(told, name):
    """Every logger of torch that tells of a program does, on the same level."""
    by_torch, by_stator = ({(logger, level) for logger, level, _ in told[engine][name]} for engine in told)
    assert by_torch == by_stator


@pytest.mark.parametrize("name", NAMES)
def test_recompiles(told, name):
    """The functions, and for each recompile why the last capture does not fit."""

    def told_by(engine):
        lines = []
        for text in of(told[engine][name], ".__recompiles"):
            first, second, reason, *_ = without_addresses(text).splitlines()
            # Stator's words follow as a comment, the help for a guard of torch as a hint.
            code, _, rest = reason.partition("  # ")
            place = re.search(r"programs\.py:\d+ in \w+", rest)
            lines.append((first, second, code.rstrip(), place[0] if place and "mismatch" not in code else ""))
        return lines

    by_torch, by_stator = told_by("torch"), told_by("stator")
    if name == "sizes_that_change":  # torch writes a range, Stator the condition of the program
        by_torch[-1], by_stator[-1] = ((*line[:2], "", line[3]) for line in (by_torch[-1], by_stator[-1]))
    assert by_torch == by_stator


def test_graph_breaks(told):
    def told_by(engine):
        texts = of(told[engine]["graph_breaks"], ".__graph_breaks")
        # (Carets are under what breaks, where Python has columns. TorchDynamo breaks twice in an inlined function.)
        texts = [re.sub(r"\n +[~^]+(?=\n|$)", "", text) for text in texts if "duplicate graph break" not in text]
        return [
            (text.partition("\n")[0], program_frames(text.partition("User code traceback:\n")[2])) for text in texts
        ]

    def program_frames(text):
        return re.findall(r'  File "programs\.py", line \d+, in \w+\n    .+\n', text)

    assert told_by("torch") == told_by("stator")
    assert [len(frames) for _, frames in told_by("stator")] == [2, 3]
    for text in of(told["stator"]["graph_breaks"], ".__graph_breaks"):
        assert re.search(r"\nGraph Break Reason: .+\n  Hint: .+\n", text)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "graph_breaks"])
def test_graph_code(told, name):
    def told_by(engine):
        texts = []
        for text in of(told[engine][name], ".__graph_code"):
            text = re.sub(r"__compiled_fn_\d+_[0-9a-f]{8}(_[0-9a-f]+)+", "__compiled_fn", text)
            text = re.sub(r"\n .* class GraphModule", "\n class GraphModule", text)
            # Where only tensors have a symbolic size, Stator's graph does not take the size.
            texts.append(re.sub(r"(?<=self, )(s\d+: \"Sym\(s\d+\)\", )+", "", text).rstrip())
        return texts

    assert told_by("torch") == told_by("stator")
    assert told_by("stator")


@pytest.mark.parametrize("name", ["constant_sizes", "sizes_that_change", "kinds_of_guards"])
def test_guards_on_arguments(told, name):
    """Kind, code and line of the guards on arguments. Stator has others on functions, and has more of them."""

    def told_by(engine):
        trees = [text for text in of(told[engine][name], ".__guards") if "TREE_GUARD_MANAGER" in text]
        assert all(text.startswith("\nTREE_GUARD_MANAGER:\n+- RootGuardManager\n") for text in trees)
        assert all("\n| +- GLOBAL_STATE: ___check_global_state() against {" in text for text in trees)
        return [guards_of(text) for text in trees]

    def guards_of(tree):
        tree = re.sub(r"DispatchKeySet\([^)]*\), ", "", without_addresses(tree))
        kinds = "TENSOR_MATCH|EQUALS_MATCH|LENGTH_CHECK"
        found = re.findall(rf"\| \+- ({kinds}): (.*?)(?<! ) *  # .*  # .*?(programs\.py:\d+) in (\w+)", tree)
        # (Which line comes first may differ: a constant is guarded where its type is read.)
        return {(kind, code) for kind, code, _, _ in found if "L['" in code}

    assert told_by("torch") == told_by("stator")
    assert of(told["stator"][name], ".__guards").count("GUARDS:") == len(told_by("stator"))


@pytest.mark.parametrize("name", ["sizes_that_change", "marked_sizes"])
def test_symbols(told, name):
    def told_by(engine):
        texts = []
        for text in of(told[engine][name], "symbolic_shapes"):
            if re.match(r"create_symbol|eval|marking", text):
                # The place in the framework, and how to find out more, are torch's own.
                text = re.sub(r" \(\S+\.py:\d+ in .*", "", text)
                texts.append(re.sub(r" \[-?\w+, \w+\] ", " ", text) if name == "marked_sizes" else text)
        return texts

    by_torch, by_stator = told_by("torch"), told_by("stator")
    # TorchDynamo does not say again what it has said of an earlier capture.
    assert list(dict.fromkeys(by_torch)) == [text for text in dict.fromkeys(by_stator) if text in by_torch]
    assert by_torch


PERF_HINTS = """
import json, logging
{install}
import torch
import torch._inductor.utils

records = []
handle = logging.Logger.handle

def keep(logger, record):
    if logger.name.endswith("__perf_hints"):
        records.append((logger.name, record.levelname, record.getMessage()))

logging.Logger.handle = keep
logging.getLogger().handlers.clear()
torch._logging.set_logs(perf_hints=True)

def program(x):
    return torch.linalg.qr(x)[0], torch.linalg.eigvalsh(x)

# (No kernel that a compiler of C++ would be needed for. Nothing from a cache, or nothing is told.)
with torch._inductor.utils.fresh_inductor_cache():
    compiled = torch.compile(program, backend="inductor")
    for size in (3, 3, 4):
        compiled(torch.eye(size))
print(json.dumps(records))
"""


def test_perf_hints():
    """Those of inductor. (TorchDynamo has one of its own, for gradients on a GPU.)"""
    by_torch, by_stator = (
        json.loads(fresh(PERF_HINTS.format(install=install)).splitlines()[-1])
        for install in ("", "import stator; stator.install()")
    )
    assert by_torch == by_stator
    texts = [text for _, _, text in by_torch]
    assert [texts.count(text) for text in dict.fromkeys(texts)] == [2, 2, 2]
    assert "Using FallbackKernel: torch.ops.aten.linalg_qr.default" in texts
