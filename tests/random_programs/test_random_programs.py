"""Some hundred random programs; `python -m tests.random_programs` runs any number."""

import random

import pytest
import torch

from tests.support.long import LONG

from . import check as check_module
from .campaign import Finding, NotCompared, as_file, run_campaign, run_seeds, write_in_full
from .check import Difference, Invalid, check
from .choices import Choices, changed
from .guided import KINDS
from .program import generate
from .shrink import kind, shrunk, symptom

torch.set_num_threads(1)

PROGRAMS, SIZED, BATCH = (320, 80, 20) if LONG else (160, 40, 20)
# Programs that differ today, with the reason; a seed is removed from this list when the bug is fixed.
KNOWN: dict[int, str] = {}


@pytest.mark.parametrize("start", range(0, PROGRAMS, BATCH))
def test_random_programs_behave_alike(start):
    totals = run_seeds(range(start, start + BATCH))
    new = [finding for finding in totals.findings if finding.seed not in KNOWN]
    assert not new, "\n\n".join(as_file(finding, 20) for finding in new[:2])
    assert totals.summary.returned > BATCH / 2, "hardly a program got to its end"
    assert totals.invalid.total() < BATCH / 3, "too many programs can't start"


@pytest.mark.parametrize("start", range(0, SIZED, BATCH))
def test_programs_whose_sizes_change_behave_alike(start):
    totals = run_seeds(range(start, start + BATCH), sizes=True)
    assert not totals.findings, "\n\n".join(as_file(finding, 20) for finding in totals.findings[:2])
    assert totals.summary.returned > BATCH / 2, "hardly a program got to its end"
    assert totals.summary.graphs > BATCH / 2, "hardly a graph was captured"


def test_graphs_are_captured():
    summary = run_seeds(range(320, 380) if LONG else range(320, 335)).summary
    assert summary.graphs > 10 and summary.nodes > 40


@pytest.mark.parametrize("kind", KINDS)
def test_programs_follow_from_their_choices(kind):
    generate_kind, _ = KINDS[kind]
    first = Choices([], 1)
    text = generate_kind(first)
    assert generate_kind(Choices(first.made, 2)) == text
    others = {generate_kind(Choices(changed(first.made, first.made, random.Random(seed)), 3)) for seed in range(10)}
    assert len(others) > 2


def test_programs_follow_from_their_seed():
    assert generate(3) == generate(3) != generate(4)


WRONG = """
G1 = [1]
def f(t1, n2):
    for k in range(2):
        t3 = t1 + k
    return t3, {wrong}
STEPS = [('pass', 'torch.ones(3), 1'), ('G1.append(3)', 'torch.zeros(3), 2')]
"""

ODD = {
    "result": "next(COUNTER)",
    "exception": "1 // (next(COUNTER) % 2)",
    "printed text": "print(next(COUNTER))",
    "outside state": "G1.append(next(COUNTER))",
    "arguments": "t1.add_(next(COUNTER))",
    "random state": "torch.manual_seed(next(COUNTER))",
}


@pytest.mark.parametrize("place", ODD)
def test_differences_are_seen(place, monkeypatch):
    import itertools

    from . import check as checking

    # A counter that is not reset between the two worlds looks like a wrong compiler.
    monkeypatch.setitem(checking.IMPORTED, "COUNTER", itertools.count())
    text = WRONG.format(wrong=ODD[place])
    with pytest.raises(Difference):
        check(text, compiled=False)
    answer = symptom(text)
    assert kind(answer) == place
    if place == "result":
        small, _ = shrunk(text, seconds=600)
        assert "for k" not in small and "COUNTER" in small


def test_crashes_and_endless_loops_are_answers(monkeypatch):
    from . import shrink

    monkeypatch.setattr(shrink, "SECONDS_FOR_ONE", 1)
    program = "def f(t1):\n    {}\nSTEPS = [('pass', 'torch.ones(3),')]\n"
    assert "SIGKILL" in symptom(program.format("import os; os.kill(os.getpid(), 9)"))
    assert symptom(program.format("while True: pass")) == "hangs"
    assert symptom(program.format("return t1 + 1")) is None


def test_why_programs_are_not_compared():
    def reason_of(text):
        with pytest.raises(Invalid) as raised:
            check(text)
        return NotCompared.of(raised.value)

    assert reason_of("G1 = {}['a1']\nSTEPS = []\ndef f(): pass\n") == "KeyError: _"
    assert reason_of("f = =\n") == "SyntaxError: invalid syntax (_, line _)"


def test_a_difference_is_written_in_full(tmp_path):
    path = write_in_full(Finding(3, "eager", "call 1: result differs\n  expected 1"), tmp_path)
    text = path.read_text()
    assert generate(3) in text and "#   expected 1" in text and "run_file(__file__, 'eager')" in text


def test_a_campaign_ends_by_itself():
    totals = run_campaign(0, 10**9, jobs=2, seconds=8)
    assert not totals.findings, str(totals)


def test_a_program_without_end_is_no_program(monkeypatch):
    monkeypatch.setattr(check_module, "LONGEST", 0.3)
    with pytest.raises(Invalid, match="no end"):
        check("def f(t1):\n    while True: pass\nSTEPS = [('pass', 'torch.ones(3),')]\n")
