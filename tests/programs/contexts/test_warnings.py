"""Filters of warnings, warnings that are ignored, and functions that torch._dynamo.config calls logging."""

import contextlib
import io
import logging
import warnings

import pytest
import torch
import torch._dynamo

import stator
from tests.support.counting import counted_calls
from tests.support.harness import T, same

logger = logging.getLogger(__name__)


@pytest.fixture(autouse=True)
def filters():
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield


def test_filters_are_changed_and_put_back():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("not seen", stacklevel=1)
            y = x + 1
            with warnings.catch_warnings():
                warnings.filterwarnings("error", category=DeprecationWarning)
                warnings.warn("not seen either", stacklevel=2)
        return y * 2

    same(program, T(3), compare_dynamo=False)

    def raises(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.warn("raised", DeprecationWarning, stacklevel=1)
        return x

    same(raises, T(3), fullgraph=False, compare_dynamo=False)

    def stays(x):
        warnings.filterwarnings("ignore", category=UserWarning)
        return x + 1

    def records(x):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            y = x + 1
            warnings.warn("seen", stacklevel=1)
            z = y * 2
            warnings.warn("seen too", DeprecationWarning, stacklevel=1)
        return z, [(str(one.message), one.category) for one in seen]

    same(records, T(3), fullgraph=False, compare_dynamo=False)
    for function in (stays, stator.compile(stays, backend="eager", fullgraph=True)):
        with warnings.catch_warnings(record=True) as seen:
            function(torch.ones(2))
            warnings.warn("ignored", stacklevel=1)
            warnings.warn("seen", DeprecationWarning, stacklevel=1)
        assert [str(one.message) for one in seen] == ["seen"]


def test_the_filters_are_guarded():
    text = "import warnings\ndef f(x):\n    warnings.warn('text', FutureWarning)\n    return x + 1"
    ignored = "warnings.simplefilter('ignore', FutureWarning)"
    seen = []
    names = {}
    exec(text, names)
    function = stator.compile(names["f"], backend="eager")
    for change in ("", ignored, "warnings.simplefilter('error', UserWarning)", "warnings.simplefilter('always')"):
        exec(change)
        with warnings.catch_warnings(record=True) as caught:
            assert function(torch.ones(1)).item() == 2.0
        seen.append([str(one.message) for one in caught])
    assert seen == [["text"], [], [], ["text"]]


def test_ignored_and_reordered_functions():
    calls = []

    def note(value):
        calls.append(value if isinstance(value, str) else value.clone())

    def skipped(value):
        calls.append("skipped")
        return 3

    def program(x):
        y = x + 1
        print("one", y.shape, end=";")
        note(y)
        nothing = skipped(y)
        logger.info("not seen")
        return y * 2, nothing

    ignored, reordered = {skipped, logging.Logger.info}, {print, note}
    config = torch._dynamo.config
    with config.patch(ignore_logging_functions=ignored, reorderable_logging_functions=reordered):
        compiled = stator.compile(program, backend="eager", fullgraph=True)
        for _ in range(2):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                result = compiled(torch.ones(2))
            assert result[0].tolist() == [4.0, 4.0] and result[1] is None
            assert out.getvalue() == "one torch.Size([2]);"
    assert [call.tolist() for call in calls] == [[2.0, 2.0], [2.0, 2.0]]


def test_print_is_no_side_effect_otherwise():
    def program(x):
        y = x + 1
        print(end="")
        return y * 2

    first, _ = counted_calls(program, lambda: (torch.ones(2),), calls=2)
    assert (first.operations, first.graphs_run) == (2, 2)
