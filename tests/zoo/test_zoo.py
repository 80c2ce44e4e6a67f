"""The script that captures all models, on one of them, and what it says of results that differ."""

import json
import time
from importlib import metadata

import pytest
import torch

import stator
from bench.models import installed
from tests.support.processes import fresh
from tests.zoo import measure, page, processes
from tests.zoo.kept import Kept

WHOLE = {"graphs": 1, "breaks": 0, "operations": 9, "same": "yes", "error": "", "seconds": 0.1, "reasons": {}}


@pytest.mark.skipif(not installed("transformers"), reason="transformers is not installed")
def test_a_model_is_made_small_and_captured(tmp_path) -> None:
    # (In a process of its own: after a backward pass PyTorch refuses to train in forks.)
    printed = fresh(
        """
import json, os, pathlib, sys
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # it can't be initialized in forks
from tests.zoo import measure, processes, transformers

def answer(job, *arguments):
    return processes.run_apart(job, arguments, 600, pathlib.Path(sys.argv[1]))

found = answer(measure.first_that_runs, transformers.makers, "llama")
print(json.dumps([found, answer(measure.capture, transformers.makers, "llama", 0, "stator")]))
""",
        str(tmp_path),
    )
    found, captured = json.loads(printed)
    assert found == {"number": 0}
    for one in captured.values():
        assert one.pop("seconds") > 0 and one.pop("operations") > 50
        assert one == {"graphs": 1, "breaks": 0, "same": "yes", "error": "", "reasons": {}}


def test_a_process_that_ends_is_an_error(tmp_path) -> None:
    assert processes.run_apart(exit, (3,), 600, tmp_path) == {"error": "the process ended with 3"}


def test_a_process_that_does_not_end_is_an_error(tmp_path) -> None:
    assert processes.run_apart(time.sleep, (600,), 0.1, tmp_path) == {"error": "no end after 0 s"}


def test_what_is_not_done_in_time_is_done_by_the_next_run(tmp_path) -> None:
    """Several at a time: one that takes too long is killed, and nothing is said of it."""
    answers = {}

    def steps(name: str, job) -> processes.Steps:
        if name not in answers:
            first = yield processes.Job(job, (), 600)
            answers[name] = first, (yield processes.Job(dict, (), 600))

    def slowly() -> dict:
        time.sleep(600)
        return {}

    def run(slow) -> bool:
        seconds = 2 if slow is slowly else 600
        return processes.Processes(tmp_path, 2, seconds).run(
            steps(*one) for one in [("a", dict), ("b", slow), ("c", dict)]
        )

    assert not run(slowly) and "b" not in answers
    assert run(dict) and answers == dict.fromkeys("abc", ({}, {}))


def test_what_was_measured_is_kept(tmp_path) -> None:
    path = tmp_path / "build" / "zoo.json"
    one = Kept(path)
    one.rows("torch", "torch")["a"] = {"uncompiled": {"number": 0}}
    one.save()
    again = Kept(path)
    assert again.is_of_this_python and again.rows("torch", "torch") == {"a": {"uncompiled": {"number": 0}}}
    path.write_text(path.read_text().replace(metadata.version("torch"), "1.0"))
    assert not Kept(path).is_of_this_python
    assert Kept(path).rows("torch", "torch") == {}  # of another version of the library


def test_results_are_compared() -> None:
    one = [torch.ones(3)]
    assert measure.sameness(one, [torch.ones(3)]) == "yes"
    assert measure.sameness(one, [torch.ones(3) + 1e-5]) == "close"
    for other in ([torch.ones(3) + 1], [torch.ones(4)], [torch.ones(3, dtype=torch.int64)], []):
        assert measure.sameness(one, other) == "no"
    nan = [torch.tensor([float("nan"), 1.0])]
    assert measure.sameness(nan, [nan[0].clone()]) == "yes"
    assert measure.sameness(nan, [torch.tensor([0.0, 1.0])]) == "no"


def test_a_model_that_varies_is_no_wrong_result() -> None:
    def makers(name):
        class Random(torch.nn.Linear):
            def forward(self, x):
                torch.seed() if name == "seeds" else None
                return super().forward(x) * torch.rand(3)

        yield lambda: (Random(3, 3), {"x": torch.ones(2, 3)})

    try:  # (It installs Stator, in processes of their own otherwise.)
        assert measure.capture(makers, "seeds", 0, "stator")["eval"]["same"] == "varies"
        assert measure.capture(makers, "draws", 0, "stator")["eval"]["same"] == "yes"
    finally:
        stator.uninstall()


def test_the_page_counts_models(tmp_path) -> None:
    broken = {
        **WHOLE,
        "graphs": 3,
        "breaks": 2,
        "operations": 7,
        "same": "close",
        "reasons": {"print() | is\ncalled": 2},
    }
    kept = Kept(tmp_path / "zoo.json")
    kept.rows("torch", "torch").update(
        one={"uncompiled": {"number": 0}, "stator": {"eval": WHOLE, "training": WHOLE}, "dynamo": {"error": "a|b"}},
        two={
            "uncompiled": {"number": 0},
            "stator": {"eval": WHOLE, "training": broken},
            "dynamo": {"eval": WHOLE, "training": {**WHOLE, "same": "no"}},
        },
        three={"uncompiled": {"error": "TypeError"}},
        four={},
    )
    page.write(tmp_path / "models.md", kept)
    text = (tmp_path / "models.md").read_text()
    assert f"with Python {kept.python} and torch {torch.__version__}." in text
    assert (
        "Of 3 models (1 others were not tried yet) 2 run uncompiled" in text
        and "1 of them in one graph in both modes" in text
    )
    assert (
        "Of the 2 that are not one graph in both, 0 run more operations in graphs here than there, and 1 fewer" in text
    )
    assert "another one than uncompiled in two." in text
    assert "| one | fails | 1 | fails | 1 | yes | yes |" in text
    assert "| two | 1 | 1 | 1 | 3 (2), 7 | yes | close |" in text
    assert "- two, training: print() / is called" in text and "- one: `a/b`" in text


@pytest.mark.skipif(not installed("torch_geometric"), reason="torch_geometric is not installed")
def test_other_libraries(tmp_path) -> None:
    printed = fresh(
        """
import json, os, pathlib, sys
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # it can't be initialized in forks
from tests.zoo import measure, processes, torch_geometric

assert "SAGEConv" in torch_geometric.names()
found = processes.run_apart(measure.first_that_runs, (torch_geometric.makers, "SAGEConv"), 600, pathlib.Path(sys.argv[1]))
print(json.dumps(found))
""",
        str(tmp_path),
    )
    assert "number" in json.loads(printed)
