"""Backends: by name and as callables, their arguments, their failures, training with them."""

import pytest
import torch
import torch.nn as nn

from tests.support.engine import CAPTURES, ENGINE, Recorder, captured, compile, describe, reset
from tests.support.harness import Built, T, same
from tests.support.long import long_only

captures = pytest.mark.skipif(not CAPTURES, reason="about capture alone")


@pytest.fixture(autouse=True)
def clean():
    reset()
    yield
    reset()


def arithmetic(x, w):
    return torch.relu(x @ w).sum(dim=-1) * 2


def several(x, w):
    y = x @ w
    values, indices = y.max(dim=1)
    return {"y": y, "values": values, "indices": indices}, [y + 1, x]


def mutating(x, w):
    x.add_(1)
    return x @ w


def with_dropout(x, w):
    return nn.functional.dropout(x @ w, 0.5)


def make_model():
    return nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 2))


@pytest.mark.parametrize("program", [arithmetic, several, mutating, with_dropout], ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_functions(backend, program):
    needs_grad = program is not mutating
    same(program, T(3, 4, grad=needs_grad), T(4, 5, grad=True), backend=backend, compare_dynamo=False, tolerance=1e-6)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("training", [True, False])
def test_modules(backend, training):
    same(
        Built(lambda: make_model().train(training)),
        T(3, 4, grad=True),
        backend=backend,
        compare_dynamo=False,
        tolerance=1e-6,
    )


@pytest.fixture
def own_cache(tmp_path, monkeypatch):
    """Inductor caches its code for all processes of a machine; one may read a file that another has not finished writing."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))


@long_only
@pytest.mark.usefixtures("own_cache")
def test_inductor_with_a_model():
    same(Built(make_model), T(3, 4, grad=True), backend="inductor", compare_dynamo=False, tolerance=1e-4)


@pytest.mark.usefixtures("own_cache")
def test_inductor_with_a_function():
    same(arithmetic, T(3, 4, grad=True), T(4, 5, grad=True), backend="inductor", compare_dynamo=False, tolerance=1e-4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_named_backend_without_recorder(backend):
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    compiled = compile(arithmetic, backend=backend)
    for _ in range(2):
        assert torch.allclose(compiled(x, w), arithmetic(x, w))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_training_run_agrees(backend):
    torch.manual_seed(0)
    losses = []
    data, targets = torch.randn(16, 4), torch.randn(16, 2)
    for compiled in (False, True):
        torch.manual_seed(1)
        model = make_model()
        step = compile(model, backend=backend) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        run = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (step(data) - targets).pow(2).mean()
            loss.backward()
            optimizer.step()
            run.append(loss.item())
        losses.append(run)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] < losses[0][0]


def test_gradients_through_aot_with_views_and_mutation():
    def program(x, w):
        y = x * w
        y.mul_(2)
        z = y.view(-1)[::2]
        y[0] = 0
        return y, z, x[0]

    same(program, T(3, 4, grad=True), T(3, 4, grad=True), backend="aot_eager", compare_dynamo=False, tolerance=1e-6)


@captures
def test_the_backend_is_handed_a_graph_module_with_example_inputs():
    seen = []

    def backend(module, example_inputs):
        seen.append((module, example_inputs))
        assert isinstance(module, torch.fx.GraphModule)
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        assert len(placeholders) == len(example_inputs) == 2
        for node, example in zip(placeholders, example_inputs):
            assert isinstance(example, torch.Tensor)
            assert node.meta["example_value"].shape == example.shape
        assert torch._guards.TracingContext.try_get() is not None
        assert (
            torch._guards.detect_fake_mode(example_inputs) is not None or torch._guards.TracingContext.get().fake_mode
        )
        return module.forward

    x, w = torch.randn(3, 4), torch.randn(4, 5)
    assert torch.equal(compile(arithmetic, backend=backend)(x, w), arithmetic(x, w))
    assert len(seen) == 1
    module = seen[0][0]
    assert "relu" in module.code and "def forward(self" in module.code
    module.graph.lint()
    assert torch.equal(module(x, w)[0], arithmetic(x, w))


@captures
def test_nodes_carry_metadata():
    recorder = Recorder()
    compile(arithmetic, backend=recorder)(torch.randn(3, 4), torch.randn(4, 5))
    for node in recorder.graphs[0].graph.nodes:
        if node.op in ("call_function", "call_method"):
            assert node.meta["example_value"].dtype is torch.float32
            assert __file__ in node.stack_trace and "return torch.relu" in node.stack_trace
    matmul = next(node for node in recorder.graphs[0].graph.nodes if node.op == "call_function")
    assert tuple(matmul.meta["example_value"].shape) == (3, 5)


@captures
def test_a_module_in_the_graph_can_be_changed_by_the_backend():
    def backend(module, example_inputs):
        for node in module.graph.nodes:
            if node.target is torch.relu:
                node.target = torch.neg
        module.recompile()
        return module

    x = torch.randn(3)
    assert torch.equal(compile(lambda x: torch.relu(x) + 1, backend=backend)(x), 1 - x)


@captures
def test_what_the_backend_returns_is_called():
    calls = []

    def backend(module, example_inputs):
        def run(*args):
            calls.append(len(args))
            return tuple(value + 100 for value in module(*args))

        return run

    compiled = compile(lambda x, y: x * y, backend=backend)
    x, y = torch.ones(2), torch.ones(2)
    assert compiled(x, y).tolist() == [101.0, 101.0]
    compiled(x, y)
    assert calls == [2, 2]


@captures
def test_a_backend_that_raises_is_named():
    def broken_backend(module, example_inputs):
        raise RuntimeError("cannot do this graph")

    compiled = compile(lambda x: x + 1, backend=broken_backend)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="broken_backend") as caught:
        compiled(torch.ones(2))
    assert "cannot do this graph" in str(caught.value)


@captures
def test_after_a_backend_failed_the_program_can_be_compiled_by_another():
    def program(x):
        return x + 1

    def broken_backend(module, example_inputs):
        raise RuntimeError("no")

    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
        compile(program, backend=broken_backend)(torch.ones(2))
    assert torch.equal(program(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(compile(program, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))


@captures
def test_an_exception_of_the_running_graph_reaches_the_caller():
    def backend(module, example_inputs):
        def run(*args):
            raise ZeroDivisionError("while running")

        return run

    with pytest.raises(ZeroDivisionError, match="while running"):
        compile(lambda x: x + 1, backend=backend)(torch.ones(2))


@captures
def test_an_unknown_backend_lists_the_known_ones():
    with pytest.raises(Exception, match="no_such_backend") as caught:
        compile(lambda x: x + 1, backend="no_such_backend")(torch.ones(2))
    if ENGINE == "stator":
        assert "inductor" in str(caught.value) and "aot_eager" in str(caught.value)


@captures
def test_a_program_without_tensors_needs_no_backend():
    def backend(module, example_inputs):
        raise AssertionError("there is no graph")

    assert compile(lambda a, c: a * 2 + len(c), backend=backend)(3, "ab") == 8


@captures
def test_graph_of_a_small_program():
    nodes = captured(arithmetic, torch.randn(3, 4), torch.randn(4, 5))
    assert [node.text for node in nodes] == [
        "placeholder l_x_",
        "placeholder l_w_",
        "call_function _operator.matmul",
        "call_function torch.relu",
        "call_method sum",
        "call_function _operator.mul",
        "output of 1",
    ]


@captures
def test_dead_nodes_and_unused_inputs_are_gone():
    def program(x, y, z):
        unused = y * 5
        del unused
        return x + z

    nodes = captured(program, *(torch.ones(2) for _ in range(3)))
    assert [node.text for node in nodes] == [
        "placeholder l_x_",
        "placeholder l_z_",
        "call_function _operator.add",
        "output of 1",
    ]


@captures
def test_names_of_parameters_as_inputs():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    names = [node.target for node in captured(model, torch.ones(1, 2)) if node.op == "placeholder"]
    assert len(names) == 3
    assert sum("weight" in name for name in names) == 1 and sum("bias" in name for name in names) == 1


@captures
def test_one_tensor_by_two_paths_is_one_input():
    weight = torch.ones(2)
    nodes = captured(lambda x, items: x * items[0] + items[1]["k"], torch.ones(2), [weight, {"k": weight}])
    assert sum(node.op == "placeholder" for node in nodes) == 2


@captures
def test_backend_runs_with_the_hook_off():
    inner = Recorder()

    def helper(x):
        return x * 3

    compiled_helper = compile(helper, backend=inner)

    def backend(module, example_inputs):
        assert torch.equal(helper(torch.ones(2)), torch.full((2,), 3.0))
        return module.forward

    assert torch.equal(compile(lambda x: x + 1, backend=backend)(torch.ones(2)), torch.full((2,), 2.0))
    assert inner.count == 0
    compiled_helper(torch.ones(2))
    assert inner.count == 1
    assert any(node.op == "call_function" for node in describe(inner.graphs[0]))


def test_a_compiled_function_calls_a_compiled_function():
    inner = compile(lambda x: x * 3, backend="eager")

    def outer(x):
        return inner(x) + 1

    compiled = compile(outer, backend="eager", fullgraph=False)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 4.0))


def test_disabled_functions_run_uncompiled():
    seen = []

    @torch.compiler.disable
    def opaque(x):
        seen.append(torch.compiler.is_compiling())
        return x * 3

    compiled = compile(lambda x: opaque(x + 1) + 1, backend="eager", fullgraph=False)
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 7.0))
    assert seen == [False, False]


@captures
def test_is_compiling_is_true_inside():
    def program(x):
        return x + 1 if torch.compiler.is_compiling() else x - 1

    assert torch.equal(compile(program, backend="eager")(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(program(torch.ones(2)), torch.zeros(2))
