"""Compiled modules: the parents are the user's modules, with names as uncompiled."""

import warnings

import pytest
import torch
from torch import nn

import stator
from tests.track.watching import Block, Net, lines, watch

X = torch.ones(3, 4)
COMPILERS = {"torch.compile": torch.compile, "stator.compile": stator.compile}
BACKENDS = ("eager", "aot_eager")
OPERATIONS = ("addmm", "mm", "relu", "threshold_backward", "tanh", "tanh_backward")


@pytest.fixture(autouse=True)
def fresh_compilers():
    torch._dynamo.reset()
    stator.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Using `torch.compile\\(module\\)` when there are global hooks")
        warnings.filterwarnings("ignore", message="Dynamo does not know how to trace the builtin `stator.module_")
        yield


@pytest.fixture(params=[(name, backend) for name in COMPILERS for backend in BACKENDS], ids=" ".join)
def compiler(request):
    name, backend = request.param
    return lambda model: COMPILERS[name](model, backend=backend)


def step(model):
    return lambda: model(X).sum().backward()


def test_a_compiled_model(compiler):
    expected = lines(watch(step(Net())), *OPERATIONS)
    compiled = compiler(Net())
    for _ in range(3):
        assert lines(watch(step(compiled)), *OPERATIONS) == expected


def test_a_model_that_was_compiled_and_run_before(compiler):
    """The graph that was captured without the tracker's hooks is not used with them."""
    expected = lines(watch(step(Net())), *OPERATIONS)
    compiled = compiler(Net())
    step(compiled)()
    compiled.zero_grad()
    assert lines(watch(step(compiled)), *OPERATIONS) == expected
    assert all(parameter.grad is not None for parameter in compiled.parameters())


def test_a_compiled_part(compiler):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block, self.head = Block(), nn.Linear(4, 2)

        def forward(self, x):
            return self.head(self.block(x))

    expected = lines(watch(step(Model())), *OPERATIONS)
    model = Model()
    model.block = compiler(model.block)
    assert lines(watch(step(model)), *OPERATIONS) == expected
    assert "Model.block.first" in expected
    with stator.ModuleTracker() as tracker:
        model(X)
        assert list(tracker.modules) == [
            "Model",
            "Model.block",
            "Model.block.first",
            "Model.block.second",
            "Model.head",
        ]


def test_a_compiled_function_that_calls_modules(compiler):
    model = Block()
    function = compiler(lambda x: model(x).cos())
    assert lines(watch(lambda: function(X)), "addmm", "cos") == "\n".join(
        ["> addmm: Block Block.first", "> addmm: Block Block.second", "> cos:"]
    )


def test_results_without_a_dispatch_mode(compiler):
    """As in training: nothing reads the tracker at each operation, only hooks in the model do."""
    model, recorded = Net(blocks=1), []
    expected = model(X)
    compiled = compiler(model)
    model.layers[0].first.register_forward_pre_hook(lambda *_: recorded.append(tracker.path))
    with stator.ModuleTracker() as tracker:
        for _ in range(2):
            result = compiled(X)
            result.sum().backward()
    assert torch.equal(result, expected) and recorded == ["Net.layers.0.first"] * 2
    assert tracker.parents == {"Global"}


asked: list[str] = []
tracker = stator.ModuleTracker()


@torch.library.custom_op("stator_tests::ask", mutates_args=())
def ask(x: torch.Tensor) -> torch.Tensor:
    """An operation that asks the tracker: compilers put it into their graphs, and nobody needs a dispatch mode, under
    which `torch.compile` does not compile."""
    asked.append(f"{'<' if tracker.is_bw else '>'} {' '.join(tracker.calls)}")
    return x.clone()


ask.register_fake(torch.empty_like)
ask.register_autograd(lambda context, gradient: ask(gradient))


class Asks(nn.Module):
    def __init__(self, size=4):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return ask(x * self.weight)


class AsksInParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = Asks(), nn.Sequential(Asks(), nn.ReLU(), Asks())

    def forward(self, x):
        return ask(self.rest(ask(self.first(x))))


def asked_in_a_step(model) -> str:
    asked.clear()
    with tracker:
        step(model)()
    return "\n".join(asked)


EACH_IN_ITS_MODULE = """
> AsksInParts AsksInParts.first
> AsksInParts
> AsksInParts AsksInParts.rest AsksInParts.rest.0
> AsksInParts AsksInParts.rest AsksInParts.rest.2
> AsksInParts
< AsksInParts
< AsksInParts AsksInParts.rest AsksInParts.rest.2
< AsksInParts AsksInParts.rest AsksInParts.rest.0
< AsksInParts
< AsksInParts AsksInParts.first
""".strip()


def test_operations_inside_of_graphs(compiler):
    model = AsksInParts()
    assert asked_in_a_step(model) == EACH_IN_ITS_MODULE
    compiled = compiler(model)
    for _ in range(2):
        assert asked_in_a_step(compiled) == EACH_IN_ITS_MODULE


@pytest.mark.parametrize("backend", BACKENDS)
def test_operations_inside_of_graphs_captured_before(backend):
    """Stator captures anew, because there are hooks now. `torch.compile` does not look at hooks again: what it made one
    graph of is recorded under the module that it compiled."""
    ours = stator.compile(AsksInParts(), backend=backend)
    step(ours)()
    assert asked_in_a_step(ours) == EACH_IN_ITS_MODULE
    theirs = torch.compile(nn.Sequential(Asks(), Asks()), backend=backend)
    step(theirs)()
    assert asked_in_a_step(theirs).splitlines() == ["> Sequential"] * 2 + ["< Sequential"] * 2


def test_stator_captures_every_operation_between_the_hooks():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 6))
            self.head = nn.Linear(6, 7)

        def forward(self, x):
            return self.head(self.block(x.sin()).cos()).exp() * 2

    def operations():
        kinds = ("call_function", "call_method")
        return sorted(str(node.target) for graph in graphs for node in graph.nodes if node.op in kinds)

    def backend(graph_module, inputs):
        graphs.append(graph_module.graph)
        return graph_module.forward

    graphs: list[torch.fx.Graph] = []
    compiled = stator.compile(Model(), backend=backend)
    step(compiled)()
    everything = operations()
    assert len(graphs) == 1 and len(everything) == 8
    graphs.clear()
    for _ in range(2):
        with stator.ModuleTracker():
            step(compiled)()
        step(compiled)()
    assert operations() == everything  # each once: the second time all graphs are there, those without hooks too
    assert len(graphs) == 7  # only the last two operations have no module call between them


def test_a_graph_module_is_none_of_the_programs_modules():
    names: list[str] = []
    for compiler in COMPILERS.values():
        function = compiler(lambda x: x.sin().cos(), backend=lambda graph_module, inputs: graph_module)
        with stator.ModuleTracker(on_enter=lambda name, module, is_bw: names.append(name)):
            function(torch.ones(3, requires_grad=True)).sum().backward()
        assert names == []
    own = torch.fx.symbolic_trace(Block())  # a class of its own, of the same name
    with stator.ModuleTracker(on_enter=lambda name, module, is_bw: names.append(name)):
        own(X)
    assert names == ["Block", "Block.first", "Block.second"]


def test_callbacks(compiler):
    def recorded_calls(model):
        recorded = []
        callbacks = {
            "on_enter": lambda name, module, is_bw: recorded.append((">", name, is_bw)),
            "on_leave": lambda name, module, is_bw: recorded.append(("<", name, is_bw)),
        }
        with stator.ModuleTracker(**callbacks):
            step(model)()
        return recorded

    expected = recorded_calls(Net())
    compiled = compiler(Net())
    assert recorded_calls(compiled) == recorded_calls(compiled) == expected


def test_scripted_and_traced_modules():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(model, X)
    with stator.ModuleTracker() as tracker:
        assert torch.equal(traced(X), model(X))
        assert len(tracker.modules) > 3 and tracker.parents == {"Global"}


def test_fx_tracing_under_a_tracker():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    with stator.ModuleTracker() as tracker:
        graph = torch.fx.symbolic_trace(model)
        assert tracker.parents == {"Global"}
    assert torch.equal(graph(X), model(X))
