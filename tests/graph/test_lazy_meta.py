"""`Node.meta`: every way of reading the dict gives what a full dict would give, and no entry is created before it is
read."""

from __future__ import annotations

import collections
import copy
import gc
import json
import operator
import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch

from stator import _C, _testing

KEYS = ["nn_module_stack", "source_fn_stack", "stack_trace", "example_value"]


def here() -> tuple[Any, int]:
    frame = sys._getframe(1)
    return frame.f_code, frame.f_lineno


class Made:
    """Counts what the example maker made."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, sizes: Any, strides: Any, dtype: int, requires_grad: bool, cls: type) -> tuple[Any, ...]:
        self.count += 1
        return ("fake", sizes)


def example() -> tuple[Any, Made, list[tuple[Any, int]]]:
    made = Made()
    frames = [here(), (example.__code__, example.__code__.co_firstlineno)]
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x", result=torch.ones(3))
    y = b.add(
        "call_function",
        operator.add,
        (x, 1),
        result=torch.ones(2, 3),
        location=frames,
        modules=[("L['self'].layers.0", torch.nn.Linear), ("L['self']", torch.nn.Sequential)],
    )
    b.add("output", "output", ((y,),))
    graph = _C.fx_graph(b.finish(made), None)
    return list(graph.nodes)[1].meta, made, frames


def full() -> dict[str, Any]:
    meta, _, _ = example()
    return {key: meta[key] for key in KEYS}


def test_nothing_is_made_before_it_is_read() -> None:
    meta, made, _ = example()
    assert "example_value" in meta and len(meta) == 4 and list(meta) == KEYS and list(meta.keys()) == KEYS
    assert meta.get("val") is None and meta.get("val", 3) == 3
    assert made.count == 0
    assert meta["example_value"] == ("fake", (2, 3)) and made.count == 1
    assert meta["example_value"] is meta.get("example_value") and made.count == 1


def test_the_stack_trace_is_as_python_prints_it() -> None:
    meta, _, frames = example()
    code, line = frames[0]
    outer, outer_line = frames[1]
    summary = [
        traceback.FrameSummary(outer.co_filename, outer_line, outer.co_name),
        traceback.FrameSummary(code.co_filename, line, code.co_name),
    ]
    assert meta["stack_trace"] == "".join(traceback.StackSummary.from_list(summary).format())
    assert "frames = [here()" in meta["stack_trace"].splitlines()[-1]


def test_the_module_stack_is_outermost_first() -> None:
    meta, _, _ = example()
    assert list(meta["nn_module_stack"].values()) == [
        ("L['self']", torch.nn.Sequential),
        ("L['self'].layers.0", torch.nn.Linear),
    ]
    assert meta["source_fn_stack"] == [("add", torch.nn.Linear)]


def called(**entries: Any) -> dict[str, Any]:
    return entries


def merged_in_place(meta: dict[str, Any]) -> dict[str, Any]:
    target: dict[str, Any] = {"before": 1}
    target |= meta
    return target


def updated(meta: dict[str, Any]) -> dict[str, Any]:
    target: dict[str, Any] = {}
    target.update(meta)
    return target


def set_first(meta: dict[str, Any]) -> dict[str, Any]:
    meta["stack_trace"] = "mine"
    meta["val"] = 1
    return dict(meta)


def popped(meta: dict[str, Any]) -> list[Any]:
    return [meta.pop("example_value"), meta.pop("nothing", 2), meta.popitem(), len(meta)]


def defaulted(meta: dict[str, Any]) -> list[Any]:
    return [meta.setdefault("example_value", 1), meta.setdefault("new", 2), list(meta)]


def deleted(meta: dict[str, Any]) -> dict[str, Any]:
    del meta["example_value"]
    return dict(meta)


def cleared(meta: dict[str, Any]) -> dict[str, Any]:
    meta.clear()
    return dict(meta)


READINGS: dict[str, Callable[[Any], Any]] = {
    "subscript": lambda m: [m[key] for key in KEYS],
    "get": lambda m: [m.get(key) for key in [*KEYS, "missing"]],
    "contains": lambda m: [key in m for key in [*KEYS, "missing"]],
    "length": len,
    "truth": bool,
    "iteration": list,
    "reversed": lambda m: list(reversed(m)),
    "keys": lambda m: list(m.keys()),
    "values": lambda m: list(m.values()),
    "items": lambda m: list(m.items()),
    "sorted_items": lambda m: sorted(m.items(), key=lambda item: item[0]),
    "dict": dict,
    "ordered_dict": collections.OrderedDict,
    "unpacked": lambda m: {**m},
    "as_keywords": lambda m: called(**m),
    "merged": lambda m: m | {"more": 1},
    "merged_into": lambda m: {"more": 1} | m,
    "merged_in_place": merged_in_place,
    "updated": updated,
    "copy_method": lambda m: dict(m.copy()),
    "copy": lambda m: dict(copy.copy(m)),
    "dict_copy_of_copy": lambda m: {**m.copy().copy()},
    "deepcopy": copy.deepcopy,
    "pickle": lambda m: pickle.loads(pickle.dumps(m)),
    "pickle_protocol_0": lambda m: pickle.loads(pickle.dumps(m, 0)),
    "equal": lambda m: [m == full(), full() == m, m != full(), m == {}],
    "repr": repr,
    "comprehension": lambda m: {k: v for k, v in m.items() if k != "stack_trace"},
    "set_first": set_first,
    "popped": popped,
    "defaulted": defaulted,
    "deleted": deleted,
    "cleared": cleared,
    "is_dict": lambda m: isinstance(m, dict),
    "chain_map": lambda m: dict(collections.ChainMap(m)),
    "json": lambda m: json.dumps({"value": m["example_value"], "trace": m["stack_trace"]}),
}


@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS.keys())
def test_it_reads_like_a_full_dict(reading: Callable[[Any], Any]) -> None:
    meta, _, _ = example()
    assert type(meta) is not dict
    result, expected = reading(meta), reading(full())
    assert result == expected and type(result) is type(expected)
    half_made, _, _ = example()
    assert half_made["stack_trace"]
    assert reading(half_made) == expected


@pytest.mark.parametrize("operation", [lambda m: m["missing"], lambda m: m.pop("missing"), lambda m: m[[]], hash])
def test_it_fails_like_a_full_dict(operation: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as expected:
        operation(full())
    with pytest.raises(type(expected.value)):
        operation(example()[0])


def test_copies_share_what_is_made_later() -> None:
    meta, made, _ = example()
    other = meta.copy()
    another = copy.copy(meta)
    assert made.count == 0
    assert other["example_value"] is meta["example_value"] is another["example_value"]
    other["val"] = 1
    assert "val" not in meta and made.count == 1


def test_an_error_while_making_reaches_the_reader() -> None:
    def broken(*arguments: Any) -> Any:
        raise ValueError("no fake today")

    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x", result=torch.ones(3))
    b.add("output", "output", ((x,),))
    meta = next(iter(_C.fx_graph(b.finish(broken), None).nodes)).meta
    for read in (lambda: meta["example_value"], lambda: dict(meta), lambda: list(meta.items()), lambda: repr(meta)):
        with pytest.raises(ValueError, match="no fake today"):
            read()


def test_values_that_are_one_object_stay_one() -> None:
    made = Made()
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x", result=torch.ones(3))
    same = b.add("call_method", "add_", (x, 1), result=torch.ones(3), same_as_argument=0, effect=True)
    pair = b.add("call_function", torch.max, (x, 0), result=(torch.ones(1), torch.ones(2)))
    item = b.add("call_function", operator.getitem, (pair, 1), result=torch.ones(2))
    b.add("output", "output", ((same, item),))
    nodes = {n.name: n for n in _C.fx_graph(b.finish(made), None).nodes}
    assert nodes["add_"].meta["example_value"] is nodes["x"].meta["example_value"]
    assert nodes["getitem"].meta["example_value"] is nodes["max_1"].meta["example_value"][1]
    assert made.count == 3


def test_structured_and_constant_results() -> None:
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x", result=torch.ones(3))
    size = b.add("call_method", "size", (x,), result=torch.ones(2, 3).shape)
    values = b.add("call_function", torch.max, (x, 0), result=torch.max(torch.ones(2, 2), 0))
    pieces = b.add("call_function", torch.split, (x, 1), result=[torch.ones(1)])
    b.add("output", "output", ((size, values, pieces),))
    nodes = {n.name: n.meta["example_value"] for n in _C.fx_graph(b.finish(Made()), None).nodes if n.op != "output"}
    assert type(nodes["size"]) is torch.Size and nodes["size"] == (2, 3)
    assert type(nodes["max_1"]) is torch.return_types.max and nodes["max_1"].values == ("fake", (2,))
    assert nodes["split"] == [("fake", (1,))]


def test_extra_entries_are_there() -> None:
    b = _testing.GraphBuilder()
    x = b.add("placeholder", "x", result=torch.ones(3), extra_meta={"tensor_dict": {}, "grapharg": 1})
    b.add("output", "output", ((x,),))
    meta = next(iter(_C.fx_graph(b.finish(Made()), None).nodes)).meta
    assert list(meta) == ["example_value", "tensor_dict", "grapharg"] and meta["grapharg"] == 1


def test_it_outlives_the_graph() -> None:
    meta, made, _ = example()
    gc.collect()
    assert meta["example_value"] == ("fake", (2, 3))
    assert "lineno" not in meta and made.count == 1
