"""Ints that change between calls as keys of dicts: captured once, with guards on how they compare with the other keys."""

import collections
import copy

import pytest
import torch

import stator
from tests.support.processes import fresh

NUMBERS = (5, 6, 7, 12, 1, 2, 3, 0, -1, 2**62, 2**70, 6, 1)


def stores_and_reads(x, n):
    d = {}
    d[n] = x
    d[n + 1] = x * 2
    y = d[n] + d[n + 1] if n in d else x
    del d[n]
    return y, len(d), d


def beside_constant_keys(x, n):
    d = {1: x, 2: x * 2, "a": x * 3, None: x, (1, 2): x, 2.5: x}
    d[n] = x * 5
    return list(d.items()), d[1], n in d, n + 1 in d, d.get(n - 1), sorted(k for k in d if isinstance(k, int))


def is_stored_beside(x, n):
    d = {1: x, "a": x * 3, None: x, (1, 2): x, b"b": x}
    d[n] = x * 5
    return list(d.values()), d[1], n in d, n + 1 in d, d.get(n - 1)


def beside_booleans_and_floats(x, n):
    d = {True: x, 0.0: x * 2, 7.0: x * 3}
    before = d.get(n)
    d[n] = x * 4
    return before, list(d), list(d.values()), d.pop(n), len(d)


def two_changing_keys(x, n):
    d = {n: x, 2 * n: x + 1}
    d[3 * n - 4] = x + 2
    return list(d.items()), d[2 * n], len(d)


def is_missing(x, n):
    d = {1: x, 2: x + 1}
    try:
        return d[n]
    except KeyError as error:
        return x, str(error)


def is_deleted(x, n):
    d = {1: x, 2: x + 1, 3: x + 2}
    try:
        del d[n]
    except KeyError:
        d[n] = x
    d[2] = x * 7
    return list(d.items())


def of_other_classes(x, n):
    ordered, counter, default = collections.OrderedDict(), collections.Counter(), collections.defaultdict(list)
    for key in (n, 1, n + 1, 2):
        ordered[key] = x * key if key < 100 else x
        counter[key] += 1
        default[key].append(x)
    ordered.move_to_end(n)
    first = ordered.popitem(last=False)
    return list(ordered), first[0], dict(counter), {k: len(v) for k, v in default.items()}


def copied_and_merged(x, n):
    d = {n: x, 1: x + 1}
    other = dict(d)
    other.update({n + 1: x, 2: x})
    merged = d | other
    return list(merged), d == {n: x, 1: x + 1}.copy() or True, list({**d, 3: x}), list(d.copy()), set(d) >= {n}


def from_outside(x, n, d):
    y = d[1] * x
    d[n] = 4
    y = y + d[n]
    was = d.pop(n)
    return y, was, n in d, list(d)


def left_outside(x, n, d):
    d[n] = "new"
    return x + 1, list(d.items())


def removed_then_set(x, n, d):
    del d[2]
    d[n] = 5
    return x * d[n], list(d.items())


def large_outside(x, n, d):
    d.update({number: number for number in range(100, 130)})
    d[n] = 3
    return x + d[n], len(d)


PROGRAMS = [
    value for name, value in list(globals().items()) if callable(value) and getattr(value, "__module__", "") == __name__
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_same_for_all_numbers(program):
    with stator.config.patch(recompile_limit=100):
        check_all_numbers(program, stator.compile(program, backend="eager"))


def check_all_numbers(program, compiled):
    takes_dict = program.__code__.co_argcount == 3
    for n in NUMBERS:
        x = torch.arange(3.0)
        if takes_dict:
            one, other = {1: 2, 2: 3, "b": 4}, {1: 2, 2: 3, "b": 4}
            expected, actual = outcome(program, x, n, one), outcome(compiled, x, n, other)
            assert list(one.items()) == list(other.items())
        else:
            expected, actual = outcome(program, x, n), outcome(compiled, x, n)
        assert expected == actual, n


def outcome(program, *arguments):
    try:
        return plain(program(*arguments))
    except Exception as error:
        return type(error), str(error)


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return [(plain(key), plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value, type(value)


@pytest.mark.parametrize("program", [stores_and_reads, is_stored_beside, from_outside, left_outside])
def test_one_capture_serves_all_others(program):
    compiled, counted = counting(program)
    takes_dict = program.__code__.co_argcount == 3
    for n in range(10, 20):
        compiled(torch.ones(2), n, *([{1: 2, "b": 4}] if takes_dict else []))
    assert counted() == 2  # with the number as a constant, and as a symbol


def counting(program):
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module.forward

    return stator.compile(program, backend=backend), lambda: len(graphs)


class Counted:
    number = 0


def test_a_number_of_a_class_counts_up():
    def program(x):
        Counted.number += 1
        return x + Counted.number

    compiled, counted = counting(program)
    Counted.number = 3
    results = [compiled(torch.zeros(1)).item() for _ in range(6)]
    assert results == [4, 5, 6, 7, 8, 9] and Counted.number == 9 and counted() == 2
    Counted.number = 2.5
    assert compiled(torch.zeros(1)).item() == 3.5
    Counted.number = True
    assert compiled(torch.zeros(1)).item() == 2 and type(Counted.number) is int


def test_a_class_attribute_that_was_a_number():
    class Holder:
        at = 1

    def program(x):
        return x + (Holder.at if isinstance(Holder.at, int) else 10)

    compiled = stator.compile(program, backend="eager")
    for at in (1, 2, 3, "text", 4, None, 2.0):
        Holder.at = at
        assert compiled(torch.zeros(1)).item() == program(torch.zeros(1)).item()
    Holder.at = property(lambda self: 3)
    assert compiled(torch.zeros(1)).item() == 10


def linear():
    torch.manual_seed(0)
    return torch.nn.Linear(3, 3)


def registers_and_removes(layer, x):
    handle = layer.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,))
    y = layer(x)
    handle.remove()
    return y + 1


def registers_two(layer, x):
    first = layer.register_forward_hook(lambda module, inputs, output: output * 2)
    second = layer.register_forward_hook(lambda module, inputs, kwargs, output: output + 3, with_kwargs=True)
    try:
        y = layer(x)
    finally:
        first.remove()
    z = layer(x)
    second.remove()
    return y, z


def keeps_the_handle(layer, x):
    handle = layer.register_forward_hook(lambda module, inputs, output: output * 2)
    return layer(x), handle


@pytest.mark.parametrize("program", [registers_and_removes, registers_two, keeps_the_handle])
def test_hooks_of_modules_are_registered_in_each_call(program):
    mine, layer = linear(), linear()
    compiled, counted = counting(program)
    for call in range(6):
        x = torch.arange(3.0) + call
        if call == 3:  # another hook has a number of its own
            for one in (mine, layer):
                one.register_forward_hook(lambda module, inputs, output: output - 1)
        before = torch.utils.hooks.RemovableHandle.next_id
        actual = compiled(layer, x)
        numbers = torch.utils.hooks.RemovableHandle.next_id - before
        expected = program(mine, x)
        assert numbers == torch.utils.hooks.RemovableHandle.next_id - before - numbers
        if program is keeps_the_handle:
            assert actual[1].id in layer._forward_hooks
            assert actual[1].id == torch.utils.hooks.RemovableHandle.next_id - 2
            for handle in (actual[1], expected[1]):
                handle.remove()
            actual, expected = actual[0], expected[0]
        torch.testing.assert_close(actual, expected, rtol=0, atol=0)
        assert len(layer._forward_hooks) == len(mine._forward_hooks) and not layer._forward_pre_hooks
    assert counted() == 2  # the number is a symbol at once; with the other hook


def test_a_hook_under_a_number_that_comes_again():
    """`next_id` is put back, so that the next hook replaces one that is there."""

    def program(layer, x):
        layer.register_forward_hook(lambda module, inputs, output: output * 2)
        return layer(x)

    def scenario(call):
        layer = linear()
        layer.register_forward_hook(lambda module, inputs, output: output + 5)
        results = []
        for number in range(4):
            results.append(call(layer, torch.ones(3)).tolist())
            results.append(len(layer._forward_hooks))
            if number == 2:
                torch.utils.hooks.RemovableHandle.next_id = min(layer._forward_hooks)
        return results

    assert scenario(stator.compile(program, backend="eager")) == scenario(program)


def test_copied_keys():
    def program(x, n):
        d = {n: [x], n + 1: [x * 2]}
        return {key: value[0] for key, value in copy.deepcopy(d).items()}, copy.copy(d)[n][0]

    compiled = stator.compile(program, backend="eager")
    for n in (3, 4, 5):
        assert plain(compiled(torch.ones(1), n)) == plain(program(torch.ones(1), n))


def test_numbers_of_handles_in_a_new_process():
    text = """
import torch, stator
layer = torch.nn.Linear(2, 2)
def program(x):
    handle = layer.register_forward_hook(lambda module, inputs, output: output * 2)
    y = layer(x)
    handle.remove()
    return y
compiled = stator.compile(program, backend='eager')
print(all(torch.equal(compiled(torch.ones(2)), program(torch.ones(2))) for _ in range(4)))
"""
    assert fresh(text) == "True"
