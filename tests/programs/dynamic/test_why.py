"""Reports and the log say where symbols came from, and which line made constants of them."""

from __future__ import annotations

import logging
import re

import pytest
import torch
import torch._dynamo
import torch.compiler.config

import stator
from tests.support import engine
from tests.support.log_messages import log_messages

T = torch.randn


def symbols_of(program, *calls, **options):
    """The symbols of the last capture."""
    engine.reset()
    compiled = stator.compile(program, **options)
    with stator.watch() as report:
        for arguments in calls:
            compiled(*arguments)
    return report.captures[-1].symbols


def lengths(*sizes):
    return [(T(size, 3),) for size in sizes]


def marked(x, mark=torch._dynamo.mark_dynamic, **options):
    mark(x, 0, **options)
    return (x,)


def test_origins():
    def program(x):
        return x * 2

    line = "s0 is L['x'].size()[0]: 5 in this call, at least 2; "
    assert symbols_of(program, *lengths(4, 5)) == [line + "changed between calls"]
    assert symbols_of(program, marked(T(5, 3))) == [line + "marked with mark_dynamic"]
    maybe = marked(T(5, 3), torch._dynamo.maybe_mark_dynamic)
    assert symbols_of(program, maybe) == [line + "marked with maybe_mark_dynamic"]
    assert symbols_of(program, *lengths(5), dynamic=True)[0] == line + "dynamic=True"
    with torch.compiler.config.patch(dynamic_sources="L['x']:0"):
        assert symbols_of(program, *lengths(5)) == [line + "named by torch.compiler.config.dynamic_sources"]
    if hasattr(torch.compiler.config, "dynamic_values"):  # since torch 2.12
        with torch.compiler.config.patch(dynamic_values="5"):
            assert symbols_of(program, *lengths(5)) == [line + "listed in torch.compiler.config.dynamic_values"]
    assert symbols_of(lambda x, n: x * n, (T(3), 4), (T(3), 5)) == [
        "s0 is L['n']: 5 in this call; changed between calls"
    ]


def test_ranges_and_equalities():
    def program(x, y):
        if x.shape[0] <= 9:
            return x + y
        return x

    calls = [(T(a, 3), T(a, 3)) for a in (4, 5)]
    assert symbols_of(program, *calls) == [
        "s0 is L['x'].size()[0]: 5 in this call, at least 2, at most 9; changed between calls",
        "s1 is L['y'].size()[0]: equal to s0; changed between calls",
    ]


def view(x):
    return x.view(5, 3) + 1


def ranges(x, y):
    z = x + y
    return [z * i for i in range(x.shape[0])]


def text(x):
    return x, f"{x.shape[0]}"


def of_number(x, n):
    return x.softmax(n)


@pytest.mark.parametrize(
    ("program", "calls", "needle", "source"),
    [
        (ranges, [(T(4, 3), T(4, 3)), (T(5, 3), T(5, 3))], "L['x'].size()[0]", "return [z * i for i in"),
        (text, [(T(4, 3),), (T(5, 3),)], "L['x'].size()[0]", 'return x, f"{x.shape[0]}"'),
        (of_number, [(T(4, 3), 0), (T(4, 3), 1)], "L['n']", "return x.softmax(n)"),
    ],
)
def test_the_line_that_specialized(program, calls, needle, source):
    found = symbols_of(program, *calls)
    for line in found:
        match = re.search(r"specialized to \d+ by (.*?) == \d+ at (\w+).*\(.*test_why\.py:(\d+)\): (.*); changed", line)
        assert match, line
        assert match[1] == needle
        assert source in match[4]
    assert found


def test_equal_sizes_are_lost_together():
    found = symbols_of(ranges, (T(4, 3), T(4, 3)), (T(5, 3), T(5, 3)))
    assert len(found) == 2
    assert all("specialized to 5" in line for line in found)


def test_the_log():
    engine.reset()
    compiled = stator.compile(text)
    with log_messages("stator", level=logging.INFO) as messages:
        compiled(T(4, 3))
        assert not messages
        compiled(T(5, 3))
        compiled(T(6, 3))
    assert len(messages) == 2
    assert "text (" in messages[0]
    assert "s0 is L['x'].size()[0]: specialized to 5 by" in messages[0]
    assert "test_why.py" in messages[0]
    assert "docs/graph-breaks.md#dynamic_shapes" in messages[0]


def test_a_marked_size_out_of_its_range_is_an_error():
    compiled = stator.compile(lambda x: x * 2)
    with pytest.raises(RuntimeError, match=r"marked with .*mark_dynamic, at least 8, at most 10, and is 5"):
        compiled(*marked(T(5, 3), min=8, max=10))
    x = marked(T(9, 3), min=8, max=10)
    assert torch.equal(compiled(*x), x[0] * 2)
    y = T(12, 3)
    assert torch.equal(compiled(y), y * 2)


def test_a_branch_within_the_marked_range_is_an_error():
    def program(x):
        return x * 2 if x.shape[0] > 20 else x

    compiled = stator.compile(program)
    with pytest.raises(RuntimeError, match=r"not all of these sizes take the same path; .* <= 20 at .*test_why\.py"):
        compiled(*marked(T(9, 3), min=8, max=100))
    x = marked(T(9, 3), min=8, max=20)
    assert torch.equal(compiled(*x), program(*x))
    x = marked(T(9, 3))
    assert torch.equal(stator.compile(program)(*x), program(*x))


def test_marked_sizes_may_be_specialized_by_a_setting():
    x = marked(T(5, 3))
    with pytest.raises(RuntimeError, match="is specialized to 5"):
        stator.compile(view)(*x)
    with torch._dynamo.config.patch(allow_ignore_mark_dynamic=True):
        assert torch.equal(stator.compile(view)(*x), view(*x))
