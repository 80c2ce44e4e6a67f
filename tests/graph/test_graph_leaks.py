"""Hundreds of graphs leak nothing."""

from __future__ import annotations

import copy
import gc
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stator import _C, _testing
from stator.graph_module import GraphModule
from tests.graph.graph_writing import chain


def build_only() -> None:
    chain(5)


def run() -> None:
    _C.make_runner(chain(5))(torch.ones(1), torch.ones(1))


def make_fx() -> None:
    graph = _C.fx_graph(chain(5), None)
    for node in graph.nodes:
        dict(node.meta)


def make_module() -> None:
    module = GraphModule.from_captured(chain(5))
    module(torch.ones(1), torch.ones(1))
    next(iter(module.graph.nodes)).meta.copy()


def make_ordinary() -> None:
    module = GraphModule.from_captured(chain(2))
    module.recompile()
    module(torch.ones(1), torch.ones(1))


def copy_deeply() -> None:
    copy.deepcopy(GraphModule.from_captured(chain(2)))


def objects() -> int:
    gc.collect()
    return len(gc.get_objects())


@pytest.mark.parametrize(
    ("action", "times"),
    [(build_only, 100), (run, 100), (make_fx, 200), (make_module, 200), (make_ordinary, 15), (copy_deeply, 15)],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_object_counts_are_flat(action: Callable[[], Any], times: int) -> None:
    import linecache

    def clean() -> None:
        # What torch.fx keeps of generated code for tracebacks.
        torch.fx.graph_module._loader.eval_cache.clear()
        linecache.clearcache()

    def growth(count: int) -> tuple[int, int]:
        before, blocks = objects(), sys.getallocatedblocks()
        for _ in range(count):
            action()
        clean()
        return objects() - before, sys.getallocatedblocks() - blocks

    # Free lists and caches fill up at first; a leak grows with the number of graphs.
    growths = [growth(times * rounds) for rounds in (1, 1, 2, 4, 4)]
    assert min(objects for objects, _ in growths) < 5
    assert min(blocks for _, blocks in growths[-2:]) < max(20, 4 * times // 3), growths


def test_references_to_shared_objects_are_flat() -> None:
    target = torch.add
    make_module()
    make_fx()
    gc.collect()
    counts = [sys.getrefcount(o) for o in (target, None, torch.Tensor)]
    for _ in range(200):
        make_module()
        make_fx()
    gc.collect()
    for before, after in zip(counts, [sys.getrefcount(o) for o in (target, None, torch.Tensor)], strict=True):
        assert abs(after - before) < 50


def test_constants_go_with_their_graph() -> None:
    class Constant:
        pass

    constant = Constant()
    end = weakref.ref(constant)
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x")
    b.add("output", "output", ((b.add("call_function", max, (x, constant)),),))
    module = GraphModule.from_captured(b.finish(lambda *a: None))
    graph = module.graph
    assert constant in next(n for n in graph.nodes if n.op == "call_function").args
    del b, x, constant, module
    gc.collect()
    assert end() is not None
    del graph
    gc.collect()
    assert end() is None
