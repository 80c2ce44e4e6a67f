"""Operations whose results the program does not use: a backend sees them, and no call runs them."""

import torch

from tests.support.engine import compile, reset


def seen_by_backend(program, *arguments, **options):
    reset()
    graphs, runs = [], []

    def backend(module, examples):
        graphs.append([node.op for node in module.graph.nodes])

        def run(*inputs):
            runs.append(len(inputs))
            return module(*inputs)

        return run

    compiled = compile(program, backend=backend, **options)
    results = [compiled(*arguments), compiled(*arguments)]
    assert results == [program(*arguments)] * 2
    return graphs, runs


def test_metadata_alone():
    def program(x):
        return (x + 1).dim()

    graphs, runs = seen_by_backend(program, torch.ones(2, 3), fullgraph=True)
    assert graphs == [["placeholder", "call_function", "output"]]
    assert runs == []


def test_unused_in_a_container():
    def program(x):
        return not [torch.relu(x) * 2]

    graphs, runs = seen_by_backend(program, torch.ones(2, 3))
    assert graphs == [["placeholder", "call_function", "call_function", "output"]]
    assert runs == []


def test_nothing_is_computed():
    def program(x):
        return x.dim()

    graphs, runs = seen_by_backend(program, torch.ones(2, 3))
    assert graphs == [] and runs == []


def test_unused_beside_used():
    def program(x):
        torch.relu(x)
        return (x + 1).sum().item()

    graphs, runs = seen_by_backend(program, torch.ones(2, 3))
    assert "call_function" in graphs[0] and len(runs) == 2 * len(graphs)


def test_a_switched_mode_alone():
    def program(x):
        with torch.no_grad():
            return x.dim()

    graphs, runs = seen_by_backend(program, torch.ones(2, 3))
    assert graphs == [] and runs == []


def test_random_numbers_are_drawn():
    def program(x):
        torch.rand_like(x)
        return x.dim()

    torch.manual_seed(0)
    graphs, runs = seen_by_backend(program, torch.ones(2, 3))
    assert len(graphs) == 1 and len(runs) == 2


def test_with_the_other_backends():
    def program(x):
        y = torch.sin(x)
        return y.shape[0]

    for backend in ("eager", "aot_eager"):
        reset()
        compiled = compile(program, backend=backend)
        assert [compiled(torch.ones(size)) for size in (2, 3, 4, 4)] == [2, 3, 4, 4]
