"""Programs in which an operation raises because of its data: an operation, something that happens before it, and a
place.

`python -m tests.support.failing_parts BACKEND` runs all combinations of them.
"""

import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo

from tests.support.harness import Source, T, compare_worlds
from tests.support.worlds import World

PREPARED = """
import sys, warnings
TABLE = torch.arange(12.0).reshape(4, 3)
COUNT, COUNTS, BIG = torch.zeros(()), torch.zeros(4), torch.zeros(600, 100)
LOG, STATE = [], {"calls": 0}

class Refused(Exception):
    pass

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.calls = nn.BatchNorm1d(3), 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.linear = nn.Linear(3, 3)
    def forward(self, x):
        self.calls += 1
        self.steps.add_(1)
        return self.norm(x)
NET = Net()

class Guarding:
    def __enter__(self):
        LOG.append("enter")
        return self
    def __exit__(self, kind, error, trace):
        LOG.append(("exit", kind.__name__ if kind else None, str(error), trace.tb_lineno if trace else None))
        return False

class Swallowing(Guarding):
    def __exit__(self, kind, error, trace):
        LOG.append(("swallowed", kind.__name__ if kind else None, str(error)))
        return True
"""

IN_RANGE, BEYOND = lambda: torch.tensor([0, 1, 2]), lambda: torch.tensor([1, 9, 9])
EYE, NOT_A_NUMBER = lambda: torch.eye(3), lambda: torch.full((3, 3), torch.nan)
HALF, TWO, NEGATIVE = lambda: torch.full((3,), 0.5), lambda: torch.full((3,), 2.0), lambda: torch.full((3,), -1.0)
# An expression over `d`, a `d` with which it works, and one with which it fails.
FAILURES: dict[str, tuple[str, Callable[[], Any], Callable[[], Any]]] = {
    "embedding": ("F.embedding(d, TABLE)", IN_RANGE, BEYOND),
    "index": ("TABLE[d]", IN_RANGE, BEYOND),
    "gather": ("TABLE.gather(0, d[None])", IN_RANGE, BEYOND),
    "index_select": ("TABLE.index_select(0, d)", IN_RANGE, BEYOND),
    "scatter": ("torch.zeros(4, 3).scatter(0, d[None], 1.0)", IN_RANGE, BEYOND),
    "index_add": ("torch.zeros(4).index_add_(0, d, torch.ones(3))", IN_RANGE, BEYOND),
    "index_put": ("COUNT.new_zeros(4).index_put_((d,), torch.ones(3))", IN_RANGE, BEYOND),
    "take": ("torch.take(TABLE, d * 2)", IN_RANGE, BEYOND),
    "one_hot": ("F.one_hot(d, 4)", IN_RANGE, BEYOND),
    "cross_entropy": ("F.cross_entropy(TABLE[:3], d)", IN_RANGE, BEYOND),
    "nll_loss": ("F.nll_loss(TABLE[:3], d)", IN_RANGE, BEYOND),
    "embedding_bag": ("F.embedding_bag(d, TABLE, torch.tensor([0, 2]))", IN_RANGE, BEYOND),
    "floor division": ("7 // d", lambda: torch.tensor([1, 2, 3]), IN_RANGE),
    "remainder": ("torch.tensor([7]) % d", lambda: torch.tensor([1, 2, 3]), IN_RANGE),
    "inv": ("torch.linalg.inv(d)", EYE, lambda: torch.zeros(3, 3)),
    "inverse": ("d.inverse()", EYE, lambda: torch.zeros(3, 3)),
    "cholesky": ("torch.linalg.cholesky(d)", EYE, lambda: -torch.eye(3)),
    "solve": ("torch.linalg.solve(d, TABLE[:3])", EYE, lambda: torch.zeros(3, 3)),
    "eigh": ("torch.linalg.eigh(d)[0]", EYE, NOT_A_NUMBER),
    "svd": ("torch.linalg.svdvals(d)", EYE, NOT_A_NUMBER),
    "multinomial": ("torch.multinomial(d, 2)", HALF, NEGATIVE),
    "bernoulli": ("torch.bernoulli(d)", HALF, TWO),
    "normal": ("torch.normal(0.0, d)", HALF, NEGATIVE),
    "poisson": ("torch.poisson(d)", HALF, NEGATIVE),
    "binary_cross_entropy": ("F.binary_cross_entropy(d, d)", HALF, TWO),
    "masked_scatter": ("TABLE.masked_scatter(d, torch.ones(4))", lambda: torch.eye(4, 3) > 0, lambda: torch.ones(4, 3) > 0),
    "assert_async": ("torch._assert_async(d)", lambda: torch.tensor(1), lambda: torch.tensor(0)),
    "repeat_interleave": ("TABLE[:3].repeat_interleave(d, 0)", IN_RANGE, lambda: torch.tensor([1, -1, 2])),
    "bincount": ("torch.bincount(d)", IN_RANGE, lambda: torch.tensor([1, -1, 2])),
    "item": ("TABLE[int(d[1])]", IN_RANGE, BEYOND),
    "a part of a write": ("COUNTS.index_add_(0, d, torch.ones(3))", IN_RANGE, BEYOND),
    "a part of a large write": ("BIG[:, 1].index_add_(0, d * 100, torch.ones(3))", IN_RANGE, BEYOND),
    "a part of a write to a result": ("(x.exp()).view(9).index_add_(0, d, torch.ones(3))", IN_RANGE, BEYOND),
    "an assignment": ("BIG.__setitem__(d * 100, 1.0)", IN_RANGE, BEYOND),
    "custom": ("torch.ops.failing.checked(d)", IN_RANGE, BEYOND),
    "raised": ("refuse(d)", IN_RANGE, BEYOND),
}  # fmt: skip

# What comes before: statements over `x`, after which there is a `y`.
EFFECTS = {
    "nothing": "y = x + 1",
    "a write to an argument": "y = x * 2\nx.add_(1)",
    "a write to a view of it": "y = x * 2\nx[1].mul_(3)",
    "a write to a global": "y = x + 1\nCOUNT.add_(1)",
    "a write to a large global": "y = x.exp()\nBIG.add_(1)",
    "a write to a column": "y = x.exp()\nBIG[:, 1].add_(1)",
    "statistics": "y = NET(x)",
    "dropout": "y = F.dropout(x, 0.5)",
    "random numbers": "y = torch.rand(3, 3) + x",
    "a permutation": "y = x[torch.randperm(3)]",
    "numbers drawn into an argument": "y = x.clone()\nx.bernoulli_(0.5)",
    "numbers drawn and written": "y = F.dropout(x, 0.5)\nCOUNT.add_(y.sum())\ny = y + torch.rand(3, 3)",
    "an append": "y = x + 1\nLOG.append(y)",
    "a write and an append": "y = x + 1\nx.mul_(2)\nLOG.append('start')",
    "a changed dict": "y = x + 1\nSTATE['calls'] += 1\nSTATE['last'] = y",
    "an attribute": "y = x + 1\nNET.last = y\nNET.steps.add_(2)",
    "a print": "y = x + 1\nprint('before')\nCOUNT.add_(1)",
    "a warning": "y = x + 1\nCOUNT.add_(1)\nwarnings.warn_explicit('careful', UserWarning, 'program.py', 7)",
    "a hook": "y = NET.linear(x)\ny.register_hook(lambda g: g * 2)\nCOUNT.add_(1)",
    "another argument for the history": "y = NET.linear(x)\nx = y * 2\nx.add_(1)\nCOUNT.sub_(1)",
    "a parameter's history": "y = NET.linear(x)\nwith torch.no_grad():\n    NET.linear.weight.mul_(0.5)",
    "an operation of its own": "y = torch.ops.failing.noted(x)",
}  # fmt: skip

# Programs with BEFORE, a block, and FAIL, an expression.
PLACES = {
    "plain": "def f(x, d):\n    BEFORE\n    z = FAIL\n    return y, z",
    "unused": "def f(x, d):\n    BEFORE\n    FAIL\n    return y",
    "caught": "def f(x, d):\n    BEFORE\n    try:\n        return FAIL, 1\n    except Exception as error:\n        return y, type(error), str(error)",
    "behind the line": "def f(x, d):\n    BEFORE\n    t = y * 3\n    try:\n        t = t - FAIL.sum()\n    except (RuntimeError, IndexError, Refused):\n        LOG.append(sys.exc_info()[1].__traceback__.tb_lineno)\n    return y, t",
    "finally": "def f(x, d):\n    try:\n        BEFORE\n        z = FAIL\n        LOG.append('not here')\n    finally:\n        LOG.append('finally')\n        COUNT.add_(1)\n    return y, z",
    "with": "def f(x, d):\n    with Guarding():\n        BEFORE\n        z = FAIL\n    return y, z",
    "swallowed": "def f(x, d):\n    z = None\n    with Swallowing():\n        BEFORE\n        z = FAIL\n    return y, z",
    "suppressed": "def f(x, d):\n    with contextlib.suppress(Exception):\n        BEFORE\n        y = FAIL\n    return y",
    "without gradients": "def f(x, d):\n    with torch.no_grad():\n        BEFORE\n        try:\n            z = FAIL\n        except Exception:\n            z = torch.is_grad_enabled()\n    return y, z, torch.is_grad_enabled()",
    "in a loop": "def f(x, d):\n    for i in range(3):\n        BEFORE\n        LOG.append(i)\n        if i == 1:\n            z = FAIL\n    return y, z",
    "caught in a loop": "def f(x, d):\n    out = []\n    for i in range(3):\n        BEFORE\n        try:\n            out.append(FAIL)\n        except Exception as error:\n            out.append(str(error))\n            continue\n        out.append(y)\n    return out",
    "in a generator": "def produce(x, d):\n    BEFORE\n    yield y\n    yield FAIL\ndef f(x, d):\n    out = []\n    try:\n        for one in produce(x, d):\n            out.append(one)\n    except Exception as error:\n        out.append(str(error))\n    return out",
    "of a generator": "def f(x, d):\n    return list(produce(x, d))\ndef produce(x, d):\n    BEFORE\n    try:\n        yield y\n        yield FAIL\n    finally:\n        LOG.append('left')",
    "in a comprehension": "def f(x, d):\n    BEFORE\n    return y, [FAIL for _ in range(2)]",
    "in a key": "def f(x, d):\n    BEFORE\n    def key(i):\n        LOG.append(i)\n        FAIL\n        return -i\n    try:\n        return sorted([1, 2], key=key), y\n    except Exception:\n        LOG.append('caught')\n    finally:\n        LOG.append('finally')\n    return y",
    "all in a key": "def f(x, d):\n    def key(i):\n        BEFORE\n        LOG.append(i)\n        FAIL\n        return -i\n    try:\n        return sorted([1, 2], key=key), x\n    except Exception:\n        return x",
    "in a function": "def inner(y, d):\n    w = y * 2\n    LOG.append('inner')\n    return FAIL, w\ndef f(x, d):\n    BEFORE\n    try:\n        return inner(y, d)\n    except Exception as error:\n        raise Refused('refused') from error",
    "all in a function": "def inner(x, d):\n    BEFORE\n    return FAIL, y\ndef f(x, d):\n    w = x + 1\n    try:\n        return inner(x, d)\n    except Exception:\n        raise Refused(len(LOG))",
    "in a module": "class Outer(nn.Module):\n    def forward(self, x, d):\n        self.started = True\n        BEFORE\n        self.between = y\n        return FAIL\nOUTER = Outer()\nOUTER.register_forward_hook(lambda m, a, o: LOG.append('after'), always_call=True)\nOUTER.register_forward_pre_hook(lambda m, a: LOG.append('before'))\ndef f(x, d):\n    return OUTER(x, d)",
    "after a break": "def f(x, d):\n    BEFORE\n    LOG.append(torch.is_tensor(y) and len(str(y.shape)))\n    _tick()\n    w = y.sin()\n    BEFORE\n    try:\n        return FAIL, w\n    except Exception as error:\n        return w, y, str(error)\n_tick = torch._dynamo.disable(lambda: None)",
    "twice": "def f(x, d):\n    BEFORE\n    try:\n        z = FAIL\n    except Exception:\n        z = None\n    w = y\n    BEFORE\n    try:\n        return FAIL, w, y\n    except Exception as error:\n        return str(error), error.__context__, w, y, z",
    "under autocast": "def f(x, d):\n    with torch.autocast('cpu', dtype=torch.bfloat16):\n        BEFORE\n        w = y @ y\n        try:\n            z = FAIL\n        except Exception:\n            z = torch.is_autocast_enabled('cpu')\n    return w, z, torch.is_autocast_enabled('cpu')",
    "in inference mode": "def f(x, d):\n    with torch.inference_mode():\n        BEFORE\n        z = FAIL\n    return y, z",
    "in a closure": "def f(x, d):\n    seen = []\n    def inner():\n        nonlocal x\n        seen.append(x)\n        x = x + 1\n        BEFORE\n        return FAIL\n    try:\n        return inner(), x\n    except Exception as error:\n        return seen, x, error.__traceback__.tb_next.tb_lineno",
    "thrown into a generator": "def produce(x):\n    BEFORE\n    try:\n        yield y\n    except Exception as error:\n        LOG.append(str(error))\n        yield y + 1\ndef f(x, d):\n    made = produce(x)\n    one = next(made)\n    try:\n        return FAIL, one\n    except Exception as error:\n        return one, made.throw(error)",
    "in a property": "class Holder:\n    @property\n    def value(self):\n        x, d = self.x, self.d\n        BEFORE\n        self.y = y\n        return FAIL\ndef f(x, d):\n    holder = Holder()\n    holder.x, holder.d = x, d\n    try:\n        return holder.value\n    except Exception as error:\n        LOG.append(type(error).__name__)\n    return holder.y",
    "checkpointed": "from torch.utils.checkpoint import checkpoint\ndef part(x, d):\n    w = F.dropout(x, 0.5)\n    return w * 2 + FAIL.sum()\ndef f(x, d):\n    BEFORE\n    try:\n        return checkpoint(part, y, d, use_reentrant=False)\n    except Exception as error:\n        return y, str(error)",
    "in a handler": "def f(x, d):\n    try:\n        raise KeyError('first')\n    except KeyError:\n        BEFORE\n        z = FAIL\n    return y, z",
}  # fmt: skip


@torch.library.custom_op("failing::checked", mutates_args=())
def checked(d: torch.Tensor) -> torch.Tensor:
    if int(d.max()) > 4:
        raise KeyError("too large")
    return d + 1


@checked.register_fake
def _(d):
    return torch.empty_like(d)


@torch.library.custom_op("failing::noted", mutates_args=())
def noted(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


@noted.register_fake
def _(x):
    return torch.empty_like(x)


noted.register_autograd(lambda context, gradient: gradient)

REFUSE = """
def refuse(d):
    t = d * 2
    if t.max() > 10:
        raise Refused("too large")
    return t
"""


def program(failure: str, effect: str, place: str) -> str:
    lines = []
    for line in PLACES[place].replace("FAIL", FAILURES[failure][0]).splitlines():
        if line.strip() == "BEFORE":
            indent = line[: -len("BEFORE")]
            lines += [indent + part for part in EFFECTS[effect].splitlines()]
        else:
            lines.append(line)
    text = PREPARED + (REFUSE if failure == "raised" else "") + "\n".join(lines) + "\n"
    compile(text, "?", "exec")
    return text


ORDERS = {"fails at first": "bgbb", "fails later": "ggbgb"}


def check(
    failure: str, effect: str, place: str, order: str, compiler: Callable, tolerance: float | None = None
) -> None:
    """Calls a program several times, with data that fail and data that do not, compiled and uncompiled."""
    _, good, bad = FAILURES[failure]
    source = Source(program(failure, effect, place))
    worlds = [World(source, (T(3, 3), good), {}, seed=1) for _ in range(2)]
    worlds[1].entry = compiler(worlds[1].program)
    for number, kind in enumerate(ORDERS[order]):
        for world in worlds:
            world.make_arguments(seed=number + 1)
            world.args[1] = (bad if kind == "b" else good)()
        compare_worlds(*worlds, number + 1, f"call {number + 1}", grads=True, tolerance=tolerance)


def opaque(graph_module: torch.fx.GraphModule, example_inputs: list) -> Callable:
    """An unknown backend: it runs the graph, but does not return the graph itself."""
    return lambda *inputs: graph_module.forward(*inputs)


@functools.cache
def is_kept_by_aot(failure: str) -> bool:
    """Whether it raises under this PyTorch's aot_autograd: before 2.13 that drops the checks of `linalg` and `one_hot`."""
    names: dict[str, Any] = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    exec(PREPARED + (REFUSE if failure == "raised" else ""), names)
    checked = eval(f"lambda d: {FAILURES[failure][0]}", names)
    torch._dynamo.reset()
    try:
        torch.compile(checked, backend="aot_eager")(FAILURES[failure][2]())
    except Exception:
        return True
    finally:
        torch._dynamo.reset()
    return False


def combinations() -> Iterator[tuple[str, str, str, str]]:
    return itertools.product(FAILURES, EFFECTS, PLACES, ORDERS)


if __name__ == "__main__":
    import collections
    import random
    import warnings

    import stator

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    backend, seconds = sys.argv[1], float(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    every = list(combinations())
    random.Random(seed).shuffle(every)
    start, tried, found = time.time(), 0, collections.Counter()
    chosen: Any = opaque if backend == "opaque" else backend
    examples: dict[str, tuple] = {}
    where: dict[str, list] = collections.defaultdict(lambda: [collections.Counter() for _ in range(4)])
    for names in every:
        if time.time() - start > seconds:
            break
        stator.reset()
        tried += 1
        try:
            check(*names, lambda f: stator.compile(f, backend=chosen), None if backend == "eager" else 1e-5)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            text = f"{type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}"
            found[text] += 1
            examples.setdefault(text, names)
            for counter, name in zip(where[text], names):
                counter[name] += 1
    print(f"{tried} programs of {len(every)}, {sum(found.values())} differ")
    for text, count in found.most_common(40):
        print(count, text, "   e.g.", examples[text])
        for counter in where[text]:
            print("      ", dict(counter.most_common(8)))
