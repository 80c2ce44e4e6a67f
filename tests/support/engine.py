"""The engine that compiles the programs of the tests, and what it captured.

The engine is Stator. STATOR_TEST_IDENTITY=1 puts the identity in its place, which proves that the programs themselves
are sound; STATOR_TEST_ENGINE=dynamo puts torch._dynamo there, which proves that what the tests ask for is possible.
STATOR_TEST_PREPARED=1 runs graphs with the backend `stator` where they would run as they were captured.
"""

import contextlib
import difflib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._dynamo.guards

# To measure the time of guards, torch._dynamo flushes the processor's caches after every capture: that is
# half of the time of a small one.
torch._dynamo.guards.profile_guard_manager = lambda *_: 0.0

ENGINE = "identity" if os.environ.get("STATOR_TEST_IDENTITY") == "1" else os.environ.get("STATOR_TEST_ENGINE", "stator")
CAPTURES = ENGINE != "identity"

if ENGINE == "stator":
    import stator
    from stator import _testing
    from stator.backends import prepared_calls

PREPARED = ENGINE == "stator" and os.environ.get("STATOR_TEST_PREPARED") == "1"
PLAIN_BACKEND = "stator" if PREPARED else "eager"
if PREPARED:
    _testing.observe_first_runs(True)  # most programs are called twice


def compile(program: Callable, backend: Any = "eager", fullgraph: bool = True) -> Callable:
    """The program compiled by the engine under test."""
    if ENGINE == "identity":
        return program
    if ENGINE == "dynamo":
        return torch.compile(program, backend=backend, fullgraph=fullgraph)
    return stator.compile(program, backend=PLAIN_BACKEND if backend == "eager" else backend, fullgraph=fullgraph)


def reset() -> None:
    """Drops everything compiled."""
    if ENGINE == "stator":
        stator.reset()
    elif ENGINE == "dynamo":
        torch._dynamo.reset()


@contextlib.contextmanager
def unbounded() -> Iterator[None]:
    """Removes the recompile limit: with fullgraph=True it is an error."""
    if ENGINE == "stator":
        with stator.config.patch(recompile_limit=1000):
            yield
    else:
        yield


def unsupported() -> type[Exception]:
    """The exception of fullgraph=True for a program that can't be captured."""
    return stator.Unsupported if ENGINE == "stator" else torch._dynamo.exc.Unsupported


def captures() -> int:
    """The number of captures so far, including those without operations."""
    if ENGINE != "stator":
        return 0
    from stator import _testing

    return _testing.captures()


class Recorder:
    """A backend that runs the graphs as they are, counts them and keeps them."""

    def __init__(self, inner: Callable | str | None = None) -> None:
        self.inner = torch._dynamo.lookup_backend(inner) if isinstance(inner, str) else inner
        self.graphs: list[torch.fx.GraphModule] = []

    @property
    def count(self) -> int:
        return len(self.graphs)

    def __call__(self, module: torch.fx.GraphModule, example_inputs: list) -> Callable:
        self.graphs.append(module)
        if self.inner:
            return self.inner(module, example_inputs)
        return prepared_calls(module, example_inputs) if PREPARED else module.forward


def run_as_captured(backend: Recorder) -> Any:
    """The same backend, known to run the graphs as they are, as `eager` does: Stator takes any other for a compiler."""
    if ENGINE != "stator":
        return backend
    known = stator.backends.Backend("eager", backend)
    known.runs_as_captured = True
    return known


@dataclass(frozen=True)
class Node:
    """One node of a graph: what is compared, and its text."""

    op: str
    target: Any
    text: str

    def __str__(self) -> str:
        return self.text


def target_text(target: Any) -> str:
    """A node's target in words; a function object by module and name."""
    if isinstance(target, str):
        return target
    try:
        return torch.fx.node._get_qualified_name(target)
    except Exception:
        return repr(target)


def has_effect(node: torch.fx.Node) -> bool:
    """Whether a node is needed even if its result is unused: it changes a tensor or a mode."""
    if node.op not in ("call_function", "call_method"):
        return node.op == "output"
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    changes_tensor = name.endswith("_") or name in ("setitem", "__setitem__") or "out" in node.kwargs
    may_be_inplace = node.kwargs.get("inplace") is True or any(argument is True for argument in node.args)
    changes_mode = any(word in name for word in ("_enter", "_exit", "set_grad", "seed"))
    return changes_tensor or may_be_inplace or changes_mode


def live_nodes(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    """The nodes that the result depends on. torch._dynamo leaves dead ones in its graphs, Stator removes them."""
    live: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if has_effect(node) or any(user in live for user in node.users):
            live.add(node)
    return [node for node in graph.nodes if node in live]


# What torch._dynamo writes for `x.T`, `x.mT`, `x.H` and `x.mH` since 2.15, instead of `getattr`.
VIEWS_READ_AS_ATTRIBUTES = tuple(getattr(torch.ops.aten, name) for name in ("numpy_T", "mT", "matrix_H", "mH"))


def describe(module: torch.fx.GraphModule, live_only: bool = False) -> list[Node]:
    """The nodes in order: placeholders by name, operations by target, the output by its length."""
    nodes = []
    for node in live_nodes(module.graph) if live_only else module.graph.nodes:
        if node.op == "placeholder":
            nodes.append(Node(node.op, node.name, f"placeholder {node.name}"))
        elif node.op == "output":
            returned = node.args[0]
            length = len(returned) if isinstance(returned, (tuple, list)) else 1
            nodes.append(Node(node.op, length, f"output of {length}"))
        else:
            target = getattr if node.target in VIEWS_READ_AS_ATTRIBUTES else node.target
            nodes.append(Node(node.op, target, f"{node.op} {target_text(target)}"))
    return nodes


def captured(program: Callable, *args: Any, **kwargs: Any) -> list[Node]:
    """The nodes of the one graph that the engine captures for this call; skips the test where nothing is captured."""
    if not CAPTURES:
        pytest.skip("the identity captures nothing")
    return [node for graph in captured_graphs(program, *args, **kwargs) for node in describe(graph)]


def captured_graphs(program: Callable, *args: Any, **kwargs: Any) -> list[torch.fx.GraphModule]:
    """The graphs that the engine captures for this call."""
    reset()
    recorder = Recorder()
    compile(program, backend=recorder, fullgraph=True)(*args, **kwargs)
    reset()
    return recorder.graphs


# Stator writes graphs as torch._dynamo does since 2.13. Before, that writes some comparisons as methods (`__eq__`), orders
# some placeholders otherwise and leaves out what nobody uses.
DYNAMO_WRITES_THE_SAME_GRAPHS = torch.torch_version.TorchVersion(torch.__version__) >= (2, 13)


def captured_by_dynamo(program: Callable, *args: Any, **kwargs: Any) -> list[torch.fx.GraphModule] | None:
    """The graphs that torch._dynamo captures for this call, or None if it can't capture the program."""
    torch._dynamo.reset()
    recorder = Recorder()
    try:
        torch.compile(program, backend=recorder, fullgraph=True)(*args, **kwargs)
    except Exception:
        return None
    finally:
        torch._dynamo.reset()
    return recorder.graphs


def graph_difference(expected: list[Node], actual: list[Node]) -> str | None:
    """A readable difference of two graphs, or None if operations, targets, order, inputs and outputs agree."""
    if [(node.op, node.target) for node in expected] == [(node.op, node.target) for node in actual]:
        return None
    lines = difflib.unified_diff(
        [str(node) for node in expected], [str(node) for node in actual], "torch._dynamo", ENGINE, lineterm="", n=100
    )
    return "\n".join(lines) or "the same texts, but targets that are different objects"
