"""Internal errors: the program continues, the trace is recorded, and replaying it shows the same error."""

import pytest
import torch
from torch import nn

import stator
from stator import _testing
from tests.support.processes import fresh, python


@pytest.fixture(autouse=True)
def suppressed():
    with stator.config.patch(suppress_errors=True):
        yield


@pytest.fixture
def failing():
    """Makes the second operation of each trace fail."""

    def at(node):
        _testing.fail_at_node(node)

    yield at
    _testing.fail_at_node(None)


def recorded(folder):
    return sorted(str(path) for path in folder.iterdir())


def scale(x, by):
    return x * by


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x, *, by=2):
        return scale(torch.relu(self.linear(x)), by)


def test_the_program_goes_on(failing, tmp_path):
    failing(2)
    with stator.config.patch(record_errors=str(tmp_path)), stator.watch() as seen:
        compiled = stator.compile(lambda x: scale(x + 1, 2), backend="eager")
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    (path,) = recorded(tmp_path)
    (broken,) = [one for report in seen for one in report.breaks] if not hasattr(seen, "breaks") else seen.breaks
    assert broken.kind == "internal-error" and path in broken.reason and "an injected error" in broken.reason


def test_without_a_folder_nothing_is_written(failing, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failing(2)
    stator.compile(lambda x: scale(x + 1, 2), backend="eager")(torch.ones(2))
    assert recorded(tmp_path) == []


def test_the_same_error_again(failing, tmp_path):
    failing(2)
    factor = 3
    with stator.config.patch(record_errors=str(tmp_path)):
        stator.compile(lambda x, *, more=1: scale(x + more, factor), backend="eager")(torch.ones(2))
    (path,) = recorded(tmp_path)
    with pytest.raises(stator.Unsupported, match="an injected error") as raised:
        stator.replay(path)
    assert raised.value.break_.kind == "internal-error" and "<lambda>" in str(raised.value.break_.stack)
    failing(None)
    stator.replay(path)  # fixed


def test_a_module(failing, tmp_path):
    failing(4)
    net, x = Net(), torch.ones(1, 2)
    with stator.config.patch(record_errors=str(tmp_path)):
        assert torch.equal(stator.compile(net, backend="eager")(x, by=5), net(x, by=5))
    (path,) = recorded(tmp_path)
    with pytest.raises(stator.Unsupported, match="an injected error"):
        stator.replay(path)


def test_in_the_middle_of_a_frame(failing, tmp_path):
    def program(x):
        for row in [1, 2]:
            x = x + row
            print(end="")
        return x * 2 * 3

    failing(2)
    with stator.config.patch(record_errors=str(tmp_path)):
        assert torch.equal(stator.compile(program, backend="eager")(torch.ones(2)), program(torch.ones(2)))
    for path in recorded(tmp_path):
        with pytest.raises(stator.Unsupported, match="an injected error"):
            stator.replay(path)
    assert recorded(tmp_path)


def test_raised_where_that_is_wanted(failing):
    failing(2)
    with stator.config.patch(suppress_errors=False), pytest.raises(stator.Unsupported, match="injected"):
        stator.compile(lambda x: scale(x + 1, 2), backend="eager")(torch.ones(2))


def test_nothing_is_held(failing, tmp_path):
    import gc
    import weakref

    failing(2)
    x = torch.ones(2)
    gone = weakref.ref(x)
    with stator.config.patch(record_errors=str(tmp_path)):
        stator.compile(lambda x: scale(x + 1, 2), backend="eager")(x)
    del x
    gc.collect()
    assert gone() is None


MAIN = """
import sys, torch, stator
from stator import _testing
class Helper:
    def __init__(self, by): self.by = by
    def __call__(self, x): return super().__init__() or double(x) * self.by
def double(x): return x * 2 if depth(3) else x
def depth(n): return n if n == 0 else 1 + depth(n - 1)
helper, handle = Helper(3), open(__file__)
def program(x): return helper(x + 1)
_testing.fail_at_node(3)
stator.config.record_errors = sys.argv[1]
print(stator.compile(program, backend="eager")(torch.ones(2)).tolist())
"""


def test_from_another_process(tmp_path):
    script, folder = tmp_path / "main.py", tmp_path / "recordings"
    script.write_text(MAIN)
    assert "[12.0, 12.0]" in python(str(script), str(folder))
    (path,) = recorded(folder)
    script.unlink()  # what __main__ defined is in the recording
    failing = f"import stator; from stator import _testing; _testing.fail_at_node(3); stator.replay({path!r})"
    seen = fresh(failing, check=False)
    assert "an injected error" in seen and "program" in seen
    assert fresh(f"import stator; stator.replay({path!r})") == ""


def test_what_can_not_be_pickled_is_left_out(failing, tmp_path):
    failing(1)
    with open(__file__) as handle, stator.config.patch(record_errors=str(tmp_path)):
        stator.compile(lambda x, file: x + 1 if file else x, backend="eager")(torch.ones(2), handle)
    (path,) = recorded(tmp_path)
    from stator.recordings import Missing, load

    assert any(
        isinstance(value, Missing) and "TextIOWrapper" in value.what for slot in load(path).slots for value in slot
    )
