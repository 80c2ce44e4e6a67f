"""Objects whose finalizers would run if a variable were their last reference, but which something outside still holds."""

import pytest
import torch
import torch._dynamo

import stator
from tests.support.engine import ENGINE, compile
from tests.support.harness import Source
from tests.support.lifetimes import HEAD, HELPERS

pytestmark = pytest.mark.usefixtures("undisturbed")

MAKERS = {
    "a finalizer": "def make(name): return Loud(name)\n",
    "a callback": """
def make(name):
    made = Plain(name)
    references.append(weakref.ref(made, lambda reference: tell(name)))
    return made
""",
}

EXTRA = """
@torch._dynamo.disable
def maybe(action=None):
    log.append('maybe')
    if action is not None: action()
class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2) for _ in range(6))
    def forward(self, x):
        for layer in self.layers[:5]:
            maybe()
            x = layer(x)
        log.append('loop over')
        return x + 1
def two(): return [make('a'), make('b')]
def cut_item(): things[0] = None
def cut_both(): things.clear()
def cut_place(): place.held = None
"""

# name: (done before each call, the captured lines)
KEPT = {
    "a loop over a list": (
        "things[:] = things or [make(i) for i in range(3)]",
        "held = things\nfor a in held:\n    maybe()\n    log.append(a.name)\n    x = x + 1\nlog.append('over')\nreturn x + 1",
    ),
    "a loop over a list that only an object holds": (
        "place.held = place.__dict__.get('held') or {'k': [make(i) for i in range(3)]}",
        "b = place\nfor a in b.held['k']:\n    maybe()\n    x = x + 1\na = 2\nlog.append('over')\nreturn x + 1",
    ),
    "enumerate": (
        "things[:] = things or [make(i) for i in range(3)]",
        "held = things\nfor i, a in enumerate(held):\n    maybe()\n    x = x + i\nlog.append('over')\nreturn x + 1",
    ),
    "zip": (
        "things[:] = things or [make(i) for i in range(3)]",
        "held = things\nfor a, b in zip(held, reversed(held)):\n    maybe()\n    x = x + a.name\nlog.append(1)\nreturn x + 1",
    ),
    "reversed": (
        "things[:] = things or [make(i) for i in range(3)]",
        "held = things\nfor a in reversed(held):\n    maybe()\n    x = x + a.name\nlog.append(1)\nreturn x + 1",
    ),
    "items of a dict": (
        "named.update(named or {str(i): make(i) for i in range(3)})",
        "held = named\nfor key, a in held.items():\n    maybe()\n    x = x + a.name\nlog.append(1)\nreturn x + 1",
    ),
    "an attribute": (
        "place.held = place.__dict__.get('held') or make('a')",
        "b = place\na = b.held\nmaybe()\nlog.append(1)\na = None\nlog.append(2)\nreturn x + 1",
    ),
    "a bound method": (
        "place.held = place.__dict__.get('held') or Holder(deep=make('a'))",
        "b = place\na = b.held.__repr__\nmaybe()\nlog.append(1)\na = None\nlog.append(2)\nreturn x + 1",
    ),
    "an argument of a function": (
        "place.held = place.__dict__.get('held') or make('a')",
        "def inner(b, a):\n    maybe()\n    y = x + 1\n    a = None\n    log.append(1)\n    return y * 2\n"
        "return inner(place, place.held)",
    ),
}

DROPPED = {
    "a loop over a new list": (
        "",
        "for a in two():\n    maybe()\n    log.append(a.name)\n    x = x + 1\nlog.append('over')\na = 1\nreturn x + len(log)",
    ),
    "a new list in some calls": (
        "things[:] = things or two()",
        "held = things\nb = two() if call[0] % 2 else held\nfor a in b:\n    b = None\n    maybe()\n    x = x + 1\n"
        "log.append('over')\na = 1\nlog.append(2)\nreturn x + len(log)",
    ),
    "an item replaced by what breaks the graph": (
        "things[:] = two()",
        "held = things\nfor a in held:\n    maybe(cut_item if call[0] % 2 else None)\n    x = x + 1\n"
        "log.append('over')\nreturn x + len(log)",
    ),
    "an item replaced after the break": (
        "things[:] = two()",
        "held = things\nfor a in held:\n    maybe()\n    x = x + 1\n    held[0] = None\n    log.append(1)\n"
        "log.append('over')\nreturn x + len(log)",
    ),
    "an item replaced in the next iteration": (
        "things[:] = two()",
        "held = things\ni = 0\nfor a in held:\n    if i == 0: maybe()\n    if i == 1: held[0] = None\n    i = i + 1\n"
        "    log.append(i)\n    x = x + 1\nlog.append('over')\nreturn x + len(log)",
    ),
    "the list cleared by what breaks the graph": (
        "things[:] = two()",
        "held = things\nfor a in held:\n    maybe(cut_both if call[0] % 2 else None)\n    x = x + 1\n    log.append(1)\n"
        "log.append('over')\nreturn x + len(log)",
    ),
    "the list dropped while it is iterated over": (
        "place.held = two()",
        "b = place\nfor a in b.held:\n    maybe()\n    b.held = None\n    log.append(1)\n    x = x + 1\n"
        "log.append('over')\na = 2\nlog.append(2)\nreturn x + len(log)",
    ),
    "the list dropped after the loop": (
        "place.held = two()",
        "b = place\nfor a in b.held:\n    maybe()\n    log.append(1)\n    x = x + 1\na = 2\n"
        "b.held = None\nlog.append(2)\nreturn x + len(log)",
    ),
    "a loop left early": (
        "",
        "for a in two():\n    maybe()\n    x = x + 1\n    if len(log) > 2: break\nlog.append('over')\na = 1\nlog.append(2)\n"
        "return x + len(log)",
    ),
    "an attribute replaced by what breaks the graph": (
        "place.held = make('a')",
        "b = place\na = b.held\nmaybe(cut_place if call[0] % 2 else None)\nlog.append(1)\na = None\nlog.append(2)\n"
        "return x + len(log)",
    ),
    "an attribute replaced after the variable": (
        "place.held = make('a')",
        "b = place\na = b.held\nmaybe()\nlog.append(1)\na = None\nlog.append(2)\nb.held = None\nlog.append(3)\n"
        "return x + len(log)",
    ),
    "an attribute replaced before the variable": (
        "place.held = make('a')",
        "b = place\na = b.held\nmaybe()\nb.held = None\nlog.append(1)\na = None\nlog.append(2)\nreturn x + len(log)",
    ),
    "its owner is dropped after it": (
        "",
        "b = Holder(held=make('a'))\na = b.held\nmaybe()\nlog.append(1)\na = None\nlog.append(2)\nb = None\nlog.append(3)\n"
        "return x + len(log)",
    ),
    "its owner is dropped with it": (
        "",
        "b = Holder(held=make('a'))\na = b.held\nmaybe()\nlog.append(1)\na = b = None\nlog.append(2)\nreturn x + len(log)",
    ),
    "its owner's owner is dropped before it": (
        "",
        "c = {'k': Holder(held=make('a'))}\na = c['k'].held\nmaybe()\nc['k'] = None\nlog.append(1)\na = None\n"
        "log.append(2)\nreturn x + len(log)",
    ),
    "a bound method that holds the last reference": (
        "place.held = Holder(deep=make('a'))",
        "b = place\na = b.held.__repr__\nmaybe(cut_place if call[0] % 2 else None)\nlog.append(1)\na = None\nlog.append(2)\n"
        "return x + len(log)",
    ),
    "its owner is changed by another name in some calls": (
        "place.held = Holder(inner=make('a')); place.other = place.held if call[0] % 2 else Holder(inner=1)",
        "b = place.held\na = b.inner\nother = place.other\nmaybe()\na = None\nlog.append(1)\nother.inner = None\nlog.append(2)\n"
        "return x + len(log)",
    ),
    "its list is changed by another name in some calls": (
        "things[:] = [make('a')]; place.other = things if call[0] % 2 else [1]",
        "held = things\nother = place.other\nfor a in held:\n    maybe()\n    a = None\n    log.append(1)\n"
        "    other[0] = None\n    log.append(2)\n    break\nreturn x + len(log)",
    ),
    "the variable's list is changed by another name in some calls": (
        "things[:] = [make('a')]; place.other = things if call[0] % 2 else [1]",
        "held = things\nother = place.other\na = held[0]\nmaybe()\na = None\nlog.append(1)\n"
        "other[0] = None\nlog.append(2)\nreturn x + len(log)",
    ),
    "another object in the variable in some calls": (
        "place.held = make('a')",
        "b = place\na = make('c') if call[0] > 1 else b.held\nmaybe()\nlog.append(1)\na = None\nlog.append(2)\n"
        "return x + len(log)",
    ),
}


def namespace_of(maker, before, body):
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    prepare = f"def prepare():\n    {before or 'pass'}\n"
    text = HEAD + MAKERS[maker] + HELPERS + EXTRA + "call = [0]\n" + prepare + f"def f(x):\n{lines}"
    return Source(text).namespace()


def history(namespace, wrap):
    run, log = wrap(namespace["f"]), namespace["log"]
    for call in range(6):
        namespace["call"][0] = call
        namespace["prepare"]()
        log.append(("call", call))
        log.append(("returned", run(torch.ones(2)).tolist()))
    return [repr(event) for event in log]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", [*KEPT, *DROPPED])
def test_order(name, maker):
    program = {**KEPT, **DROPPED}[name]
    expected = history(namespace_of(maker, *program), lambda f: f)
    assert history(namespace_of(maker, *program), lambda f: compile(f, fullgraph=False)) == expected
    if name in DROPPED:
        assert any("died after" in event for event in expected)


def drops(report):
    return [str(each) for each in report.breaks if "weak reference callback" in str(each)]


@pytest.mark.skipif(ENGINE != "stator", reason="what a report says")
@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", KEPT)
def test_no_graph_break(name, maker):
    namespace = namespace_of(maker, *KEPT[name])
    for _ in range(2):
        namespace["prepare"]()
        assert not drops(stator.explain(namespace["f"])(torch.ones(2)))


@pytest.mark.skipif(ENGINE != "stator", reason="what a report says")
def test_one_capture_for_all_layers():
    """The list that the loop is over is made for it."""
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph

    namespace = namespace_of("a callback", "", "return x")
    model = namespace["Layers"]()
    references = [namespace["weakref"].ref(layer, namespace["log"].append) for layer in model.layers]
    x = torch.ones(2)
    assert not drops(stator.explain(model)(x))
    compiled = compile(model, fullgraph=False, backend=backend)
    for _ in range(3):
        assert torch.equal(compiled(x), model(x))
    # The first layer, of which x requires a gradient from then on; any other one; the last one to the end.
    assert len(graphs) == 3
    assert all(reference() is not None for reference in references)
