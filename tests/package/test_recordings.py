"""Internal errors: the program continues, the trace is recorded, and replaying it shows the same error."""

import sys
import warnings
from typing import ClassVar

import pytest
import torch
from torch import nn

import stator
from stator import _testing, recordings
from stator.same import Comparison
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
        stator.replay(path, allow=["tests"])
    assert raised.value.break_.kind == "internal-error" and "<lambda>" in str(raised.value.break_.stack)
    failing(None)
    stator.replay(path, allow=["tests"])  # fixed


def test_a_module(failing, tmp_path):
    failing(4)
    net, x = Net(), torch.ones(1, 2)
    with stator.config.patch(record_errors=str(tmp_path)):
        assert torch.equal(stator.compile(net, backend="eager")(x, by=5), net(x, by=5))
    (path,) = recorded(tmp_path)
    with pytest.raises(stator.Unsupported, match="an injected error"):
        stator.replay(path, allow=["tests"])


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
            stator.replay(path, allow=["tests"])
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
if __name__ == "__main__":
    _testing.fail_at_node(3)
    stator.config.record_errors = sys.argv[1]
    print(stator.compile(program, backend="eager")(torch.ones(2)).tolist())
"""


def test_from_another_process(tmp_path):
    script, folder = tmp_path / "main.py", tmp_path / "recordings"
    script.write_text(MAIN)
    assert "[12.0, 12.0]" in python(str(script), str(folder))
    (path,) = recorded(folder)
    call = f"stator.replay({path!r}, allow=['__main__'])"
    seen = fresh(f"import stator; from stator import _testing; _testing.fail_at_node(3); {call}", check=False)
    assert "an injected error" in seen and "program" in seen
    assert fresh(f"import stator; {call}") == ""
    assert "allow=['__main__']" in fresh(f"import stator; stator.replay({path!r})", check=False)
    script.write_text(MAIN.replace("x + 1", "x + 2"))
    assert "another version of program" in fresh(f"import stator; {call}", check=False)


def test_what_can_not_be_pickled_is_left_out(failing, tmp_path):
    failing(1)
    with open(__file__) as handle, stator.config.patch(record_errors=str(tmp_path)):
        stator.compile(lambda x, file: x + 1 if file else x, backend="eager")(torch.ones(2), handle)
    (path,) = recorded(tmp_path)
    assert any(
        isinstance(value, recordings.Missing) and "TextIOWrapper" in value.what
        for slot in recordings.load(path, allow=True).slots
        for value in slot
    )


# ---- a recording is data ---------------------------------------------------------------------------------------------


@pytest.fixture
def path(failing, tmp_path):
    failing(2)
    with stator.config.patch(record_errors=str(tmp_path)):
        stator.compile(lambda x: scale(x + 1, 2), backend="eager")(torch.ones(2))
    failing(None)
    return tmp_path / recorded(tmp_path)[0]


def refused(path, match, allow=True):
    with pytest.raises(recordings.RecordingError, match=match):
        stator.replay(str(path), allow=allow)


def test_a_truncated_recording(path):
    whole = path.read_bytes()
    stator.replay(str(path), allow=["tests"])
    for size in (0, 5, 18, 19, 40, 60, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(path, "is truncated or was altered|is not a recording")


def test_an_altered_recording(path):
    whole = path.read_bytes()
    for at in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        refused(path, "is truncated or was altered|is not a recording")


def test_code_is_imported_only_if_that_is_allowed(path):
    refused(path, r"names .* of tests.package.test_recordings: stator.replay\(path, allow=\['tests'\]\)", allow=())
    refused(path, "names", allow=["other"])
    stator.replay(str(path), allow=["tests.package.test_recordings"])


def test_a_pickle_is_not_read(tmp_path):
    import pickle

    class Harmful:
        def __reduce__(self):
            return open, (str(tmp_path / "written"), "w")

    file = tmp_path / "old.stator"
    file.write_bytes(pickle.dumps(Harmful()))
    refused(file, "is not a recording")
    assert not (tmp_path / "written").exists()


class Harmful:
    """Leaves a trace if any of its code runs."""

    ran: ClassVar = []

    def __new__(cls):
        cls.ran.append("__new__")
        return super().__new__(cls)

    def __init__(self):
        self.ran.append("__init__")

    def __setstate__(self, state):
        self.ran.append("__setstate__")

    def __setattr__(self, name, value):
        self.ran.append("__setattr__")

    def __reduce__(self):
        self.ran.append("__reduce__")
        return Harmful, ()


def content(*objects, slots=(), function=0):
    """A recording with these objects, whose checksum fits."""
    return {
        "python": list(sys.version_info[:2]),
        "function": {"o": function},
        "slots": [[one] for one in slots],
        "at": 0,
        "stack_depth": 0,
        "is_generator": False,
        "error": "",
        "grad_enabled": True,
        "objects": list(objects),
        "memory": [],
    }


SYSTEM = {"k": "builtin", "module": "os", "name": "system"}
TENSOR = {"k": "tensor", "memory": 0, "size": 8, "dtype": "float32", "shape": [1 << 40], "stride": [1], "offset": 0,
          "device": "cpu", "grad": False, "leaf": True, "parameter": False}  # fmt: skip


@pytest.mark.parametrize(
    "crafted, match",
    [
        (content(SYSTEM), "names system of os"),
        (content({"k": "module", "module": "antigravity"}), "names the module itself of antigravity"),
        (content({"k": "class", "module": "subprocess", "name": "Popen"}), "names Popen of subprocess"),
        (content({"k": "decode"}), "not a valid recording"),
        (content({"k": "object", "class": {"o": 0}, "attributes": [], "contents": None}), "not a valid recording"),
        (content({"k": "list", "items": [{"o": 9}]}), "not a valid recording"),
        (content({"k": "bound", "self": "text", "name": "__class__"}), "has no built-in method"),
        (content(TENSOR), "not a valid recording"),
        (content({"k": "named", "text": "load"}), "torch has no dtype"),
        (content({"k": "list", "items": []}), "not a valid recording|must be function"),
        ({"python": [2, 7], "memory": []}, "recorded by Python 2.7"),
        ([], "not a valid recording"),
    ],
)
def test_crafted_recordings(tmp_path, crafted, match):
    file = tmp_path / "crafted.stator"
    file.write_bytes(recordings._packed(crafted, []))
    refused(file, match, allow=())


def test_objects_are_made_without_running_their_code(tmp_path):
    made = Harmful.__new__(Harmful)
    vars(made)["x"] = 3
    Harmful.ran.clear()
    path = recordings.record(str(tmp_path), scale, [(made,)], 0, 0, False, "")
    recording = recordings.load(path, allow=["tests"])
    assert vars(recording.slots[0][0]) == {"x": 3} and Harmful.ran == []


def test_values_come_back_as_they_were(tmp_path):
    base = torch.arange(6.0)
    shared = [1]
    values = (
        (1 << 80, -0.0, float("nan"), 1j, b"x", ..., "text", None, True, slice(1, None), range(3)),
        {"a": shared, "b": shared, (1, 2): {3}},
        (base[:3], base[2:].t(), nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True)),
        (
            torch.float16,
            torch.device("cpu"),
            torch.Size([2]),
            torch.channels_last,
            torch.nn.functional.relu,
            torch.relu,
            len,
        ),
        Net(),
    )
    path = recordings.record(str(tmp_path), scale, [(one,) for one in values], 0, 0, False, "")
    found = recordings.load(path, allow=["tests"])
    for one, (other,) in zip(values, found.slots):
        Comparison(exact=True).same(one, other, "value")
    assert found.slots[1][0]["a"] is found.slots[1][0]["b"]


def test_a_disk_that_can_not_be_written_is_not_silent(failing, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: seen.append(str(found.exc_value)))
    failing(2)
    with stator.config.patch(record_errors="/dev/full/recordings"), warnings.catch_warnings(record=True):
        compiled = stator.compile(lambda x: scale(x + 1, 2), backend="eager")
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))
    assert "Not a directory" in seen[0]


def test_the_first_internal_error_of_a_process_warns_with_its_place():
    printed = fresh(
        """
        import warnings, torch, stator
        from stator import _testing
        _testing.fail_at_node(2)
        def program(x):
            return (x + 1) * 2
        for number in range(2):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                stator.compile(lambda x: (x + 1) * (2 + number), backend="eager")(torch.ones(2))
            print(len(seen), *(f"{one.filename}:{one.lineno} {one.category.__name__} {one.message}" for one in seen))
        """
    )
    first, second = printed.splitlines()
    assert first.startswith("1 <string>:") and "RuntimeWarning Internal error of Stator at <lambda> (<string>:" in first
    assert "set stator.config.record_errors to a folder" in first
    assert second == "0"
