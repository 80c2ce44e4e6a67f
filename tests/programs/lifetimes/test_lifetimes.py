"""Objects are freed where the program drops them: before later side effects, and visible to code that runs then."""

import pytest
import torch

from tests.support.engine import compile
from tests.support.harness import Source
from tests.support.lifetimes import DROPS, OBSERVERS, program
from tests.support.long import every

pytestmark = pytest.mark.usefixtures("undisturbed")


def history(text, wrap):
    """All that happened in three calls, deaths included, in order."""
    namespace = Source(text).namespace()
    function, log = wrap(namespace["f"]), namespace["log"]
    for call in range(3):
        namespace["prepare"]()
        log.append(("call", call))
        result = function(torch.ones(2))
        log.append(("returned", result.tolist()))
    return [repr(event) for event in log]


BREAKS = ["", "before", "after"]


@pytest.mark.parametrize("breaks", BREAKS)
@pytest.mark.parametrize("observer", OBSERVERS)
def test_order(observer, breaks):
    for drop in every(3, DROPS, list(OBSERVERS).index(observer) + BREAKS.index(breaks)):
        text = program(observer, drop, breaks)
        assert history(text, lambda f: compile(f, fullgraph=False)) == history(text, lambda f: f), drop


@pytest.mark.parametrize("drop", [drop for index, drop in enumerate(DROPS) if index % 8 == 0])
def test_order_with_another_backend(drop):
    for observer in ("a finalizer", "a tensor", "a question"):
        text = program(observer, drop, "")
        other = history(text, lambda f: compile(f, fullgraph=False, backend="aot_eager"))
        assert other == history(text, lambda f: f), observer
