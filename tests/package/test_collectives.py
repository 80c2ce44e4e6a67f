"""Ranks that compile together: they agree on their graphs, or all report which of them differs."""

import socket

import pytest
import torch

import stator
from tests.support.processes import Fresh

pytestmark = pytest.mark.skipif(
    not torch.distributed.is_available() or not torch.distributed.is_gloo_available(), reason="needs gloo"
)

HEAD = """
import sys, torch, stator
from torch import distributed
rank, count = int(sys.argv[1]), int(sys.argv[2])
distributed.init_process_group("gloo", init_method=sys.argv[3], rank=rank, world_size=count)
stator.config.enable_compiler_collectives = True
stator.config.collective_seconds = 8
graphs = []
def backend(graph_module, inputs):
    graphs.append(str(graph_module.graph).strip())
    return graph_module.forward
try:
"""

TAIL = """
except RuntimeError as error:
    print(type(error).__name__, error)
print("graphs", len(graphs), repr(graphs))
"""


def run(program, folder, ranks=2, address=None):
    """What each rank printed. They meet in a file, or at an address."""
    text = HEAD + "".join(f"    {line}\n" for line in program.strip().splitlines()) + TAIL
    address = address or f"file://{folder / 'store'}"
    running = [Fresh(text, str(rank), str(ranks), address) for rank in range(ranks)]
    return [rank.printed(check=False) for rank in running]


def graphs_of(printed):
    return [text[text.index("graphs ") :] for text in printed]


def test_equal_programs(tmp_path):
    printed = run(
        """
f = stator.compile(lambda x: torch.relu(x) + 1, backend=backend)
print("sum", f(torch.ones(2)).sum().item(), f(torch.ones(3)).sum().item())
""",
        tmp_path,
    )
    assert all("sum 4.0 6.0" in text and "graphs 2" in text for text in printed), printed
    assert len(set(graphs_of(printed))) == 1


def test_numbers_that_differ_become_variables(tmp_path):
    printed = run(
        """
f = stator.compile(lambda x, n: torch.relu(x) * n, backend=backend)
print("sum", f(torch.ones(2), 3 + rank).sum().item())
print("again", f(torch.ones(2), 7).sum().item())
""",
        tmp_path, ranks=3,
    )  # fmt: skip
    for rank, text in enumerate(printed):
        assert f"sum {2.0 * (3 + rank)}" in text and "again 14.0" in text and "graphs 1" in text, printed
    assert len(set(graphs_of(printed))) == 1


def test_sizes_that_differ_become_symbols(tmp_path):
    printed = run(
        """
f = stator.compile(lambda x, w: torch.relu(x @ w) + 1, backend=backend)
for rows in (2 + rank, 5, 9 - rank):
    x, w = torch.ones(rows, 4), torch.ones(4, 3)
    print("same", rows, torch.equal(f(x, w), torch.relu(x @ w) + 1))
""",
        tmp_path, ranks=3,
    )  # fmt: skip
    for rank, text in enumerate(printed):
        assert all(f"same {rows} True" in text for rows in (2 + rank, 5, 9 - rank)), printed
        assert "graphs 1" in text and "RanksDiverged" not in text, printed
    assert len(set(graphs_of(printed))) == 1


def test_an_attribute_of_another_size_becomes_a_symbol(tmp_path):
    printed = run(
        """
table = {"rows": torch.ones(2 + rank, 4)}
def f(x):
    return x + table["rows"].sum(0)
f = stator.compile(f, backend=backend)
print("sum", f(torch.ones(4)).sum().item())
""",
        tmp_path,
    )
    for rank, text in enumerate(printed):
        assert f"sum {4.0 * (3 + rank)}" in text and "graphs 1" in text, printed
    assert len(set(graphs_of(printed))) == 1


def expect_two_equal_captures(printed):
    for rank, text in enumerate(printed):
        assert text.count(f"sum {(2.0 + rank) * (3 + rank)}") == 2 and "graphs 2" in text, printed
    assert len(set(graphs_of(printed))) == 1


@pytest.mark.parametrize("reset", ["stator.reset()", "torch.compiler.reset()"])
def test_what_differs_becomes_a_variable_again_after_a_reset(tmp_path, reset):
    printed = run(
        f"""
f = stator.compile(lambda x, n: torch.relu(x) * n, backend=backend)
for _ in range(2):
    print("sum", f(torch.ones(2 + rank), 3 + rank).sum().item())
    {reset}
""",
        tmp_path,
    )
    expect_two_equal_captures(printed)


def test_what_differs_becomes_a_variable_in_each_callable(tmp_path):
    printed = run(
        """
def f(x, n):
    return torch.relu(x) * n
for _ in range(2):
    compiled = stator.compile(f, backend=backend, isolate_recompiles=True)
    print("sum", compiled(torch.ones(2 + rank), 3 + rank).sum().item())
""",
        tmp_path,
    )
    expect_two_equal_captures(printed)


def test_an_int_that_differs_between_instances_and_ranks_becomes_a_variable(tmp_path):
    printed = run(
        """
class Scale(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
    def forward(self, x):
        return torch.relu(x) * self.factor
f = stator.compile(Scale.forward, backend=backend)
for factor in (3, 4, 5 + rank):
    print("sum", f(Scale(factor), torch.ones(2)).sum().item())
""",
        tmp_path,
    )
    for rank, text in enumerate(printed):
        assert all(f"sum {2.0 * factor}" in text for factor in (3, 4, 5 + rank)), printed
    assert len(set(graphs_of(printed))) == 1


def test_a_number_that_can_not_be_a_variable_is_named(tmp_path):
    """Rank 0 knows from its own calls that the number changes, rank 1 does not."""
    printed = run(
        """
factors = {"3": 2, "4": 5}
f = stator.compile(lambda x, n: torch.relu(x) * factors[str(n)], backend=backend)
stator.config.collective_alone_seconds = 1
f(torch.ones(2), 3)
if rank == 0:
    f(torch.ones(2), 4)
f(torch.ones(2).double(), 4 if rank == 0 else 3)
""",
        tmp_path,
    )
    assert all("RanksDiverged" in text and "4 on rank 0, 3 on rank 1" in text for text in printed), printed


def test_ranks_that_meet_over_tcp(tmp_path):
    """As under torchrun: the exchange goes through a TCPStore."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    printed = run(
        """
f = stator.compile(lambda x, n: torch.relu(x) * n, backend=backend)
for rows in (2 + rank, 5, 9 - rank):
    print("sum", rows, f(torch.ones(rows), 3 + rank).sum().item())
store = distributed.distributed_c10d._get_default_store()
while isinstance(store, distributed.PrefixStore):
    store = store.underlying_store
print(type(store).__name__, store.has_extended_api())
distributed.barrier()
""",
        tmp_path,
        address=f"tcp://127.0.0.1:{port}",
    )
    for rank, text in enumerate(printed):
        assert all(f"sum {rows} {float(rows * (3 + rank))}" in text for rows in (2 + rank, 5, 9 - rank)), printed
        assert "TCPStore True" in text and "graphs 1" in text, printed
    assert len(set(graphs_of(printed))) == 1


def test_a_rank_with_a_size_that_is_no_symbol_is_named(tmp_path):
    printed = run(
        """
f = stator.compile(lambda x: torch.relu(x) + 1, backend=backend)
f(torch.ones(1 if rank == 1 else 2))
""",
        tmp_path, ranks=3,
    )  # fmt: skip
    for text in printed:
        assert "RanksDiverged" in text and "1 on rank 1" in text and "graphs 0" in text, printed


def test_a_rank_with_other_dimensions_is_named(tmp_path):
    printed = run(
        """
f = stator.compile(lambda x: torch.relu(x) + 1, backend=backend)
f(torch.ones(2, 2) if rank == 1 else torch.ones(2))
""",
        tmp_path, ranks=3,
    )  # fmt: skip
    for text in printed:
        assert "RanksDiverged" in text and "rank 1 has the inputs torch.float32 with 2 dimensions on cpu" in text, (
            printed
        )
        assert "ranks 0, 2 have the inputs torch.float32 with 1 dimensions" in text and "graphs 0" in text, printed


def test_what_ranks_exchange_is_data():
    from stator.collectives import Captured

    captured = Captured(
        "f at a.py:1", "returns", ("torch.float32",), {"L['n']": 0.1, "L['k']": 3}, {"x": 2}, ("x",), "graph"
    )
    assert Captured.from_bytes(captured.to_bytes()) == captured
    import pickle

    with pytest.raises(ValueError):
        Captured.from_bytes(pickle.dumps(captured))


def test_the_same_operations_have_the_same_outline_in_each_process():
    from stator.collectives import _outline_of

    def backend(graph_module, inputs):
        graphs.append((graph_module, inputs))
        return graph_module

    graphs = []
    stator.compile(lambda x: torch.relu(x).softmax(0) + torch.nn.functional.gelu(x), backend=backend)(torch.ones(2))
    outline = _outline_of(*graphs[0])
    assert len(outline) == 5 and not any("0x" in line for line in outline), outline


def test_a_rank_that_breaks_elsewhere_is_named(tmp_path):
    printed = run(
        """
def program(x):
    y = x + 1
    if rank == 1:
        print(end="")
    return y * 2
f = stator.compile(program, backend=backend)
f(torch.ones(2))
""",
        tmp_path,
    )
    for text in printed:
        assert "RanksDiverged" in text and "rank 1 captured a part that ends at program" in text, printed


def test_a_rank_that_goes_another_way_is_named(tmp_path):
    printed = run(
        """
f = stator.compile(lambda x: torch.relu(x), backend=backend)
g = stator.compile(lambda x: torch.sigmoid(x), backend=backend)
(g if rank == 1 else f)(torch.ones(2))
""",
        tmp_path,
    )
    assert all("RanksDiverged" in text and "rank" in text for text in printed), printed


def test_a_rank_that_does_not_come_is_named(tmp_path):
    printed = run(
        f"""
import os, time
stator.config.collective_seconds = 2
f = stator.compile(lambda x: torch.relu(x), backend=backend)
if rank == 0:
    try:
        f(torch.ones(2))
    finally:
        os.mkdir({str(tmp_path / "ended")!r})
while not os.path.exists({str(tmp_path / "ended")!r}):
    time.sleep(0.05)
""",
        tmp_path,
    )
    assert "RanksDiverged rank 1 did not compile" in printed[0], printed


def test_a_rank_compiles_alone_what_all_have_compiled_before(tmp_path):
    """Rank 0 meets a size alone, twice, and then all of them meet a new dtype together."""
    printed = run(
        """
stator.config.collective_alone_seconds = 1
f = stator.compile(lambda x, w: torch.relu(x @ w).reshape(x.shape[0] * 3) + 1, backend=backend, dynamic=False)
for step in range(4):
    rows = 5 + step if rank == 0 and step in (1, 2) else 4
    kind = torch.float64 if step == 3 else torch.float32
    x, w = torch.ones(rows, 4, dtype=kind), torch.ones(4, 3, dtype=kind)
    print("same", step, torch.equal(f(x, w), torch.relu(x @ w).reshape(rows * 3) + 1))
distributed.barrier()
""",
        tmp_path, ranks=3,
    )  # fmt: skip
    for rank, text in enumerate(printed):
        assert all(f"same {step} True" in text for step in range(4)) and "RanksDiverged" not in text, printed
        assert f"graphs {4 if rank == 0 else 2}" in text, printed


def test_a_rank_that_captures_something_else_alone_does_not_go_on(tmp_path):
    printed = run(
        f"""
import os, time
stator.config.collective_alone_seconds = 1
stator.config.collective_seconds = 3
f = stator.compile(lambda x, wanted: torch.relu(x) if wanted else torch.sigmoid(x), backend=backend)
f(torch.ones(2), True)
try:
    f(torch.ones(2), rank != 0)
finally:
    if rank == 0:
        os.mkdir({str(tmp_path / "ended")!r})
while not os.path.exists({str(tmp_path / "ended")!r}):
    time.sleep(0.05)
""",
        tmp_path,
    )
    assert "RanksDiverged rank 1 did not compile" in printed[0] and "graphs 1" in printed[0], printed
    assert "RanksDiverged" not in printed[1], printed


def test_a_rank_that_ends_is_named_at_once(tmp_path):
    printed = run(
        """
stator.config.collective_seconds = 100
f = stator.compile(lambda x: torch.relu(x), backend=backend)
f(torch.ones(2))
if rank == 1:
    raise ValueError("no data")
f(torch.ones(2).double())
""",
        tmp_path,
    )
    assert "RanksDiverged rank 1 has ended" in printed[0], printed


def test_alone_nothing_is_asked():
    with stator.config.patch(enable_compiler_collectives=True):
        assert stator.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).item() == 2


def test_what_a_rank_reads_does_not_depend_on_the_number_of_equal_ranks(tmp_path):
    """Nor on what they captured. If they differ, each reads what all of them captured."""
    program = """
from stator import ranks
class Counting:
    read = 0
    def __init__(self, store):
        self.store = store
    def __getattr__(self, name):
        def call(*arguments):
            result = getattr(self.store, name)(*arguments)
            Counting.read += len(repr(result))
            return result
        return call
find = ranks._store
ranks._store = lambda: Counting(find())
ranks._LOOK_EVERY *= 100  # looking again is not counted
for operations in (1, 50, 51 + rank):
    def program(x):
        for _ in range(operations):
            x = torch.relu(x)
        return x
    Counting.read = 0
    try:
        stator.compile(program, backend=backend)(torch.ones(2))
    finally:
        print("read", Counting.read)
"""
    read = {}
    for ranks in (2, 4):
        (tmp_path / str(ranks)).mkdir()
        lines = run(program, tmp_path / str(ranks), ranks)[1].splitlines()
        read[ranks] = [int(line.removeprefix("read ")) for line in lines if line.startswith("read ")]
    (short, long, different), (short_of_4, long_of_4, different_of_4) = read[2], read[4]
    # (Which rank comes first and last is left to chance, and is some characters.)
    assert max(short, long, short_of_4, long_of_4) < 300
    assert different > 2000 and different_of_4 > 1.5 * different
