"""Modules with equal hooks, which PyTorch keeps under numbers that differ, share what was captured."""

import copy

import torch
from torch import nn

import stator


def counting():
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    return backend, graphs


def layer(*, kwargs=False, both=False):
    made = nn.Linear(4, 4)
    made.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    if kwargs:
        made.register_forward_hook(lambda module, inputs, kwargs, output: output * 2, with_kwargs=True)
    if both:
        made.register_forward_hook(lambda module, inputs, output: output - 3)
    return made


def same(compiled, module, x):
    torch.testing.assert_close(compiled(x), module(x), rtol=0, atol=0)


def test_layers_compiled_one_by_one_are_one_capture():
    backend, graphs = counting()
    x = torch.ones(2, 4)
    for _ in range(6):
        module = layer(kwargs=True, both=True)
        compiled = stator.compile(module, backend=backend)
        for _ in range(2):
            same(compiled, module, x)
    assert len(graphs) == 1


def test_hooks_that_differ_are_captured_again():
    backend, graphs = counting()
    x = torch.ones(2, 4)
    for kwargs, both in ((False, False), (True, False), (False, True), (True, True)):
        module = layer(kwargs=kwargs, both=both)
        same(stator.compile(module, backend=backend), module, x)
    assert len(graphs) == 4


def test_changes_of_the_hooks_of_one_module():
    with stator.config.patch(recompile_limit=50):
        change_the_hooks(counting()[0])


def change_the_hooks(backend):
    x = torch.ones(2, 4)
    module = layer(kwargs=True, both=True)
    compiled = stator.compile(module, backend=backend)
    same(compiled, module, x)
    handles = [module.register_forward_hook(lambda module, inputs, output: output * 5)]
    same(compiled, module, x)
    handles.append(module.register_forward_hook(lambda module, inputs, output: output + 7, prepend=True))
    same(compiled, module, x)
    for _ in range(3):  # the order of hooks
        module._forward_hooks.move_to_end(next(iter(module._forward_hooks)))
        same(compiled, module, x)
    for handle in handles:
        handle.remove()
        same(compiled, module, x)
    first = next(iter(module._forward_hooks))
    module._forward_hooks[first] = lambda module, inputs, *rest: rest[-1] * 11
    same(compiled, module, x)
    # Which of two hooks takes keyword arguments.
    number = next(iter(module._forward_hooks_with_kwargs))
    other = next(key for key in module._forward_hooks if key != number)
    module._forward_hooks_with_kwargs[other] = module._forward_hooks_with_kwargs.pop(number)
    module._forward_hooks[other], module._forward_hooks[number] = (
        lambda module, inputs, kwargs, output: output * 13,
        lambda module, inputs, output: output * 17,
    )
    same(compiled, module, x)
    module._forward_hooks.clear()
    same(compiled, module, x)


def test_a_key_that_is_no_int():
    module = layer()
    compiled = stator.compile(module, backend="eager")
    x = torch.ones(2, 4)
    same(compiled, module, x)
    hook = module._forward_pre_hooks.popitem()[1]
    for key in ("name", True, 2.5, 10**30, None):
        module._forward_pre_hooks[key] = hook
        same(compiled, module, x)
        del module._forward_pre_hooks[key]
        same(compiled, module, x)


def test_a_hook_is_removed_and_registered_in_the_program():
    def program(module, handle, x):
        y = module(x)
        handle.remove()
        y = module(y)
        again = module.register_forward_hook(lambda module, inputs, output: output * 2)
        return module(y), again

    compiled = stator.compile(program, backend="eager")
    torch.manual_seed(0)
    original = nn.Linear(4, 4)
    for _ in range(4):
        results = []
        for call in (program, compiled):
            module = copy.deepcopy(original)
            module.register_forward_hook(lambda module, inputs, output: output + 1)
            handle = module.register_forward_hook(lambda module, inputs, output: output * 3)
            result, again = call(module, handle, torch.ones(2, 4))
            results.append((result.tolist(), len(module._forward_hooks), list(module._forward_hooks)[-1] == again.id))
        assert results[0] == results[1]


def test_a_number_that_the_program_reads():
    def program(module, x):
        return module(x) + sum(module._forward_pre_hooks)

    compiled = stator.compile(program, backend="eager")
    for _ in range(4):
        module = layer()
        torch.testing.assert_close(compiled(module, torch.ones(2, 4)), program(module, torch.ones(2, 4)))
