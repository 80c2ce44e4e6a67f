"""The script that captures all models, on one of them, and what it says of results that differ."""

import pytest
import torch

from bench.models import installed
from tests.support.processes import fresh
from tests.zoo import measure, page


@pytest.mark.skipif(not installed("transformers"), reason="transformers is not installed")
def test_a_model_is_made_small_and_captured(tmp_path) -> None:
    # (In a process of its own: after a backward pass PyTorch refuses to train in forks.)
    printed = fresh(
        """
import pathlib, sys
from tests.zoo import measure, transformers

folder = pathlib.Path(sys.argv[1])
print(measure.run_apart(measure.first_that_runs, (transformers.makers, "llama"), 600, folder))
print(measure.run_apart(measure.capture, (transformers.makers, "llama", 0, "stator"), 600, folder))
""",
        str(tmp_path),
    )
    whole = {"graphs": 1, "breaks": 0, "same": "yes", "error": ""}
    assert [eval(line) for line in printed.splitlines()] == [{"number": 0}, {"eval": whole, "training": whole}]


def test_a_process_that_ends_is_an_error(tmp_path) -> None:
    assert measure.run_apart(exit, (3,), 600, tmp_path) == {"error": "the process ended with 3"}


def test_results_are_compared() -> None:
    one = [torch.ones(3)]
    assert measure.sameness(one, [torch.ones(3)]) == "yes"
    assert measure.sameness(one, [torch.ones(3) + 1e-5]) == "close"
    for other in ([torch.ones(3) + 1], [torch.ones(4)], [torch.ones(3, dtype=torch.int64)], []):
        assert measure.sameness(one, other) == "no"
    nan = [torch.tensor([float("nan"), 1.0])]
    assert measure.sameness(nan, [nan[0].clone()]) == "yes"
    assert measure.sameness(nan, [torch.tensor([0.0, 1.0])]) == "no"


def test_the_page_counts_models(tmp_path) -> None:
    whole = {"graphs": 1, "breaks": 0, "same": "yes", "error": ""}
    broken = {"graphs": 3, "breaks": 2, "same": "close", "error": ""}
    rows = {
        "one": {"stator": {"eval": whole, "training": whole}, "dynamo": {"eval": whole, "training": whole}},
        "two": {"stator": {"eval": whole, "training": broken}, "dynamo": {"eval": whole, "training": whole}},
        "three": {"uncompiled": {"error": "TypeError"}},
    }
    page.write(tmp_path / "models.md", {"torch": rows})
    text = (tmp_path / "models.md").read_text()
    assert "Of 3 model types 2 run uncompiled" in text and "1 have more graph breaks here than there" in text
    assert "| two | 1 | 1 | 1 | 3 (2) | yes | close |" in text
