"""`warnings.warn` is a side effect of the captured region: the same text, class, line and number of times."""

import warnings

import pytest
import torch

import stator
from tests.support.counting import counted_calls

LIBRARY = """
import functools, torch, warnings
class Old(DeprecationWarning): pass
def helper(t, level):
    warnings.warn("from a helper", stacklevel=level)
    return t * 2
def here(x):
    y = x + 1
    warnings.warn("here")
    return y * 2
def classes(x):
    y = x + 1
    warnings.warn("old", Old)
    warnings.warn("later", FutureWarning)
    warnings.warn(message="named", category=RuntimeWarning, stacklevel=1)
    return y * 2
def caller(x):
    y = helper(x, 2)
    return helper(y, 1)
class Part:
    def __init__(self, level):
        warnings.warn("made", stacklevel=level)
    def method(self, t, level):
        warnings.warn("method", stacklevel=level)
        return t
    def __call__(self, t):
        warnings.warn("called", stacklevel=2)
        return t
    @property
    def value(self):
        warnings.warn("property", stacklevel=2)
        return 3
class Made(Part): pass
def deprecated(function):
    def wrapper(*arguments, **keywords):
        warnings.warn("deprecated", DeprecationWarning, stacklevel=2)
        return function(*arguments, **keywords)
    return wrapper
@deprecated
def double(t, factor=2):
    return t * factor
def through(t, level):
    return helper(t, level) + 1
def callers(x):
    y = through(x, 3)
    y = through(y, 2) + through(level=1, t=y)
    part = Made(2)
    y = part.method(y, 2)
    y = double(
        y, factor=3)
    bound = part.method
    return helper(*(bound(y, 2), 2))
def indirect_callers(x):
    part = Made(3)
    y = part(x)
    y = y + part.value
    y = sum(map(lambda k: helper(y, 2) * k, [1, 2]))
    return functools.partial(helper, level=2)(y) + sorted([y], key=lambda t: float(helper(t, 3).sum()))[0]
def turns(x):
    for turn in range(3):
        warnings.warn(f"turn {turn % 2}")
        x = x + turn
    return x
def outside(x):
    y = x + 1
    warnings.warn("for the caller", stacklevel=2)
    return y * 2
def fatal(x):
    y = x + 1
    try:
        warnings.warn("fatal", Old)
    except Old as error:
        return y * 3, str(error)
    return y * 2
"""


def seen(function, action, argument, calls=3):
    """What is shown in each call, under a filter; and the results."""
    shown = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        for _ in range(calls):
            try:
                result = function(argument)
            except Warning as error:
                result = type(error), str(error), error.__traceback__.tb_next.tb_lineno
            shown.append((repr(result), [(str(w.message), w.category.__name__, w.filename, w.lineno) for w in caught]))
            caught.clear()
    return shown


def make():
    globals = {"__name__": "library_that_warns"}
    exec(compile(LIBRARY, "library_that_warns.py", "exec"), globals)
    return globals


NAMES = ["here", "classes", "caller", "callers", "indirect_callers", "turns", "outside", "fatal"]


# aot_autograd changes the filters while it compiles what follows a graph break, so Python forgets what it has shown.
@pytest.mark.parametrize(
    "name, backend",
    [*((name, "eager") for name in NAMES), *((name, "aot_eager") for name in NAMES if "caller" not in name)],
)
def test_warnings_are_issued(name, backend):
    plain, compiled = make(), make()
    function = stator.compile(compiled[name], backend=backend)
    # (A warning for the caller is in the registry of this module, which both share.)
    actions = ("always", "error", "ignore") if name == "outside" else ("default", "always", "once", "error", "default")
    for action in actions:
        expected = seen(plain[name], action, torch.ones(2))
        assert seen(function, action, torch.ones(2)) == expected, action


def test_a_warning_is_no_graph_break():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, count in (("here", 1), ("classes", 3), ("turns", 3), ("caller", 2), ("callers", 8)):
            caught.clear()
            first, second = counted_calls(make()[name], lambda: (torch.ones(2),), calls=2)
            assert (first.captures, first.graphs_run, second.captures, second.graphs_run) == (1, 1, 0, 1)
            assert len(caught) == 2 * count


def test_a_warning_beside_other_effects():
    def program(x, log):
        log.append("before")
        warnings.warn("between", stacklevel=1)
        log.append("after")
        return x.sum() + len(log)

    log = []
    compiled = stator.compile(program, fullgraph=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            compiled(torch.ones(2), log)
    assert log == ["before", "after"] * 2
    assert [str(one.message) for one in caught] == ["between"] * 2


def test_filters_that_have_patterns_are_changed():
    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.warn("not shown", stacklevel=1)
            y = x + 1
        warnings.warn("shown", stacklevel=1)
        return y * 2

    compiled = stator.compile(program, backend="eager")
    for function in (program, compiled, compiled):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", message="a pattern", module="of no module")
            before = list(warnings.filters)
            assert torch.equal(function(torch.ones(2)), torch.full((2,), 4.0))
            assert warnings.filters == before
        assert [str(one.message) for one in caught] == ["shown"]


class Custom(UserWarning):
    def __str__(self):
        return "custom"


def test_warnings_that_run_code_of_the_program():
    """Instances with a text or attributes of their own, and functions that show warnings."""

    def program(x, log, how):
        log.append("before")
        try:
            if how == "text":
                warnings.warn(Custom("boo"))
            elif how == "attribute":
                warning = UserWarning("a")
                warning.code = 5
                warnings.warn(warning)
            else:
                warnings.warn("shown")
        except (Custom, ValueError) as error:
            log.append(str(error))
        log.append("after")
        return x + 1

    def raises(*arguments):
        raise ValueError("by the function that shows warnings")

    def events(function, how):
        log = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("error", message="custom")
            if how == "shown":
                warnings.showwarning = raises
            for _ in range(2):
                function(torch.ones(2), log, how)
        return log, [(str(one.message), getattr(one.message, "code", 0), one.filename, one.lineno) for one in caught]

    for how in ("text", "attribute", "shown"):
        assert events(stator.compile(program, backend="eager"), how) == events(program, how), how
