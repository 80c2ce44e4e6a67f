"""Many captures of one function: the lookup of the matching one, and the recompile limit."""

import gc
import itertools
import logging
import textwrap
import warnings

import pytest
import torch
import torch._dynamo

from tests.support.engine import ENGINE, Recorder, captures
from tests.support.log_messages import log_messages
from tests.support.processes import python

if ENGINE == "stator":
    import stator

pytestmark = pytest.mark.skipif(ENGINE != "stator", reason="about Stator's own entries")


@pytest.fixture(autouse=True)
def clean():
    stator.reset()
    yield
    stator.reset()


# --- look-up


class Part:
    def __init__(self, name, scale=1.5):
        self.name, self.scale, self.inner = name, scale, {"name": name}


class OtherPart(Part):
    pass


def by_text(x, key):
    return x + len(key) if key != "a" else x * 2


def by_instance(x, part):
    return x + len(part.name) * part.scale


def by_item(x, part):
    return x + len(part.inner["name"])


def by_class(x, part):
    return x + len(type(part).__name__)


def by_size(x, y):
    return x.sum() + y * y.shape[0]


def by_specialized_size(x, y):
    """The other dimension of `y` stays a symbol."""
    return x.sum() + y * len([None for _ in range(y.shape[1])])


def by_tuple(x, pair):
    return x + len(pair[1]) if pair[0] is None else x - len(pair[0])


SCALE = "one"


def by_global(x, _):
    return x + len(SCALE)


def parts(count):
    return [Part(f"part {i}" + "x" * (i % 7), i + 0.5) for i in range(count)]


CASES = {
    "text": (by_text, ["a", *(f"{i}" + "y" * (i % 5) for i in range(30))]),
    "instance": (by_instance, parts(30)),
    "item": (by_item, parts(30)),
    "class": (by_class, [type(f"Class{'z' * i}", (Part,), {})("n") for i in range(20)]),
    "size": (by_size, [torch.arange(float(i)) for i in range(1, 25)]),
    "a size that is specialized": (by_specialized_size, [torch.ones(i % 4 + 2, i) for i in range(2, 25)]),
    "tuple": (by_tuple, [(None, "t" * i) for i in range(12)] + [("u" * i, None) for i in range(12)]),
    "mixed": (
        lambda x, value: x + len(str(type(value))) if not isinstance(value, torch.Tensor) else x + value.shape[0],
        ["a", b"a", None, True, 2.5, float("nan"), (1, 2), torch.float32, *map(torch.ones, range(1, 9)), Part("p")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_right_one_is_found_among_many(case):
    program, values = CASES[case]
    x = torch.ones(2)
    recorder = Recorder()
    with stator.config.patch(recompile_limit=1000):
        compiled = stator.compile(program, backend=recorder, fullgraph=True)
        for value in values:
            assert torch.equal(compiled(x, value), program(x, value))
        before = captures()
        # In the same order, in the opposite one, each twice, and the last and the first by turns.
        orders = [values, values[::-1], [v for v in values for _ in range(2)], [values[-1], values[0]] * 4]
        for value in itertools.chain(*orders):
            assert torch.equal(compiled(x, value), program(x, value))
        assert captures() == before


def test_what_an_index_relies_on_may_change():
    x = torch.ones(2)
    made = parts(12)
    with stator.config.patch(recompile_limit=1000):
        compiled = stator.compile(by_instance, fullgraph=True)
        for part in made * 2:
            compiled(x, part)
        for part, other in zip(made, made[3:], strict=False):
            part.name = other.name
            assert torch.equal(compiled(x, part), by_instance(x, part))
            part.scale = 7
            assert torch.equal(compiled(x, part), by_instance(x, part))
            del part.name
            with pytest.raises(AttributeError):
                stator.compile(by_instance)(x, part)
            with pytest.raises(Exception, match="name"):
                compiled(x, part)
            part.name = "again"
            assert torch.equal(compiled(x, part), by_instance(x, part))


def test_globals_tell_entries_apart():
    global SCALE
    x, before = torch.ones(2), SCALE
    try:
        with stator.config.patch(recompile_limit=1000):
            compiled = stator.compile(by_global, fullgraph=True)
            for _ in range(2):
                for length in range(12):
                    SCALE = "s" * length
                    assert torch.equal(compiled(x, None), by_global(x, None))
    finally:
        SCALE = before


class Layer(torch.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = f"layer {number}"

    def forward(self, x):
        return x + len(self.number)


def call_layer(self, x):
    return self(x) * 2


def test_instances_do_not_compete_and_are_forgotten():
    x = torch.ones(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = stator.compile(call_layer)
        layers = [Layer(10**i) for i in range(12)] + [Layer(i) for i in range(300)]
        for layer in layers * 2:
            assert torch.equal(compiled(layer, x), call_layer(layer, x))
    kept = len(compiled._entries())
    assert kept >= 300
    del layers, layer
    gc.collect()
    layers = [Layer(f"new {i}") for i in range(2 * kept)]
    for layer in layers:
        assert torch.equal(compiled(layer, x), call_layer(layer, x))
    assert len(compiled._entries()) < 3 * kept


# --- the recompile limit


def sized(x):
    return x * 2 + 1


def test_with_fullgraph_the_bound_is_an_error():
    compiled = stator.compile(sized, fullgraph=True, dynamic=False)
    limit = stator.config.recompile_limit
    for size in range(1, limit + 1):
        compiled(torch.ones(size))
    for _ in range(2):
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit) as caught:
            compiled(torch.ones(limit + 1))
        assert type(caught.value) is stator.RecompileLimitHit
        line = sized.__code__.co_firstlineno
        for part in (
            f"sized ({__file__}:{line})",
            f"{limit} times",
            "size of dimension 0 is 9, was 8",
            "recompile_limit",
        ):
            assert part in str(caught.value)
    # The entries are still used, and the message has a remedy.
    assert torch.equal(compiled(torch.ones(2)), sized(torch.ones(2)))
    with stator.config.patch(recompile_limit=limit + 1):
        assert torch.equal(compiled(torch.ones(limit + 1)), sized(torch.ones(limit + 1)))


def test_a_bound_of_nothing():
    with stator.config.patch(recompile_limit=0):
        with pytest.warns(RuntimeWarning, match="the recompile limit is 0"):
            assert torch.equal(stator.compile(sized, dynamic=False)(torch.ones(2)), sized(torch.ones(2)))
        with pytest.raises(stator.RecompileLimitHit):
            stator.compile(sized, fullgraph=True, dynamic=False)(torch.ones(2))


def test_warnings_that_are_errors_are_logged():
    compiled = stator.compile(sized, dynamic=False)
    with warnings.catch_warnings(), log_messages("stator") as messages:
        warnings.simplefilter("error")
        for size in range(1, 12):
            assert torch.equal(compiled(torch.ones(size)), sized(torch.ones(size)))
    (message,) = messages
    assert "sized" in message and "recompile_limit" in message


def test_whatever_shows_warnings_may_fail():
    compiled = stator.compile(sized, dynamic=False)

    def show(*arguments, **options):
        raise ValueError("not shown")

    with warnings.catch_warnings(), log_messages("stator") as messages:
        warnings.simplefilter("always")
        warnings.showwarning = show
        for size in range(1, 12):
            assert torch.equal(compiled(torch.ones(size)), sized(torch.ones(size)))
    assert messages


def test_python_with_warnings_as_errors():
    text = """
        import warnings
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            import torch, stator
        def sized(x):
            return x * 2
        compiled = stator.compile(sized, dynamic=False)
        for size in range(1, 12):
            assert torch.equal(compiled(torch.ones(size)), sized(torch.ones(size)))
        print("went on")
    """
    printed = python("-W", "error", "-c", textwrap.dedent(text))
    assert "went on" in printed and "recompile_limit" in printed


def test_beyond_the_limit_only_compiled_callables_stay_compiled():
    """A compiled function runs what another call of `compile` captured only if the program calls that callable."""

    def scaled(x):
        return x * 2 if torch.compiler.is_compiling() else x

    def shifted(x):
        return x + 10 if torch.compiler.is_compiling() else x

    compiled_scaled = stator.compile(scaled, backend="eager")
    compiled_shifted = stator.compile(shifted, backend="eager")

    def program(x, n):
        return shifted(compiled_scaled(x)) + n

    x = torch.ones(2)
    assert compiled_shifted(x)[0] == 11
    compiled = stator.compile(program, backend="eager", recompile_limit=1)
    assert compiled(x, 100)[0] == 112
    with pytest.warns(RuntimeWarning, match="recompile limit"):
        assert compiled(x, 200)[0] == 202
    assert compiled(x, 300)[0] == 302
    assert compiled(x, 100)[0] == 112
