"""Placeholders of sizes have the names of their symbols, as in the graphs of torch._dynamo."""

import torch

import stator


def captured_codes(program, *arguments, **options):
    codes = []

    def backend(module, examples):
        codes.append([(node.target, node.type) for node in module.graph.nodes if node.op == "placeholder"])
        values = [node.meta["example_value"] for node in module.graph.nodes if node.op == "placeholder"]
        shapes.append([str(value) for value in values if isinstance(value, torch.SymInt)])
        return module

    shapes: list[list[str]] = []
    compiled = stator.compile(program, backend=backend, **options)
    compiled(*arguments)
    return codes[0], shapes[0]


def names_of_dynamo(program, *arguments):
    found = []

    def backend(module, examples):
        found.append([(node.target, node.type) for node in module.graph.nodes if node.op == "placeholder"])
        return module

    torch._dynamo.reset()
    torch.compile(program, backend=backend, dynamic=True)(*arguments)
    torch._dynamo.reset()
    return found[0]


def test_sizes_and_numbers():
    def program(x, y, n):
        return x.reshape(x.shape[1], -1) * n, y + x.shape[0]

    arguments = torch.ones(6, 4), torch.ones(3, 5), 7
    placeholders, symbols = captured_codes(program, *arguments, dynamic=True)
    assert placeholders == names_of_dynamo(program, *arguments)
    # The names are those in the shapes of the fake tensors.
    names = [name for name, kind in placeholders if kind is torch.SymInt and name.startswith("s")]
    assert names == [symbol for symbol in symbols if symbol in names]


def test_many_sizes_have_different_names():
    def program(*tensors):
        return [tensor * tensor.shape[0] for tensor in tensors]

    arguments = [torch.ones(size) for size in range(2, 42)]
    placeholders, symbols = captured_codes(program, *arguments, dynamic=True)
    names = [name for name, kind in placeholders if kind is torch.SymInt]
    assert len(set(names)) == len(names) == 40
    assert names == symbols


def test_runs_by_position_and_by_name():
    modules = []

    def backend(module, examples):
        modules.append(module)
        return module.forward

    compiled = stator.compile(lambda x: x * x.shape[0], backend=backend, dynamic=True)
    for size in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(size)), torch.full((size,), float(size)))
    (module,) = modules
    names = [node.target for node in module.graph.nodes if node.op == "placeholder"]
    assert torch.equal(module(**dict(zip(names, (2, torch.ones(2)), strict=True)))[0], torch.full((2,), 2.0))
