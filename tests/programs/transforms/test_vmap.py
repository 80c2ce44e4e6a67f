"""torch.vmap inside of compiled functions."""

import pytest
import torch

from tests.support.corpus import Corpus
from tests.support.harness import Source, T, same, unrelated
from tests.support.long import long_only

corpus = Corpus()


@corpus.core
def of_a_lambda(x):
    return torch.vmap(lambda row: row.sin() * 2)(x)


@corpus.core(compare_dynamo=False)
def of_a_closure(x, y):
    return torch.vmap(lambda row: row * y.sum() + 1)(x)


@corpus.core
def over_one_of_two(x, y):
    return torch.vmap(lambda row, all: all + row, in_dims=(0, None))(x, y)


@corpus.core
def over_the_last_dimension(x):
    return torch.vmap(torch.sum, in_dims=-1, out_dims=0)(x)


@corpus.core
def over_a_pytree(x, y):
    return torch.vmap(lambda given: {"sum": given["a"] + given["b"][0]}, in_dims=({"a": 0, "b": (0,)},))(
        {"a": x, "b": (y,)}
    )


@corpus.core
def with_several_results(x):
    return torch.vmap(lambda row: (row.exp(), row.sum(), row[0]), out_dims=(1, 0, 0))(x)


@corpus.core
def with_keyword_arguments(x, y):
    return torch.vmap(lambda row, other: row * other)(x, other=y)


@corpus.core
def in_chunks(x):
    return torch.vmap(lambda row: row.cos(), chunk_size=2)(x)


@corpus.core(compare_dynamo=False)
def nested(x, y):
    return torch.vmap(lambda one: torch.vmap(lambda other: (one * other).sum())(y))(x)


@corpus.core
def sizes_are_those_of_one_sample(x):
    def inner(row):
        assert row.dim() == x.dim() - 1
        return row.reshape(-1) * row.shape[0] + row.numel()

    return torch.vmap(inner)(x)


@corpus.core
def strides_are_those_of_one_sample(x):
    return torch.vmap(lambda row: row * sum(row.stride()) if row.is_contiguous() else row)(x.t())


@corpus.core
def appends_to_a_list(x):
    seen = []

    def inner(row):
        seen.append(row.shape)
        return row + 1

    return torch.vmap(inner)(x), seen


@corpus.core
def writes_to_its_own_tensor(x):
    def inner(row):
        copy = row.clone()
        copy += 1
        copy[0] = 5
        return copy

    return torch.vmap(inner)(x)


@corpus.core
def twice(x):
    double = torch.vmap(lambda row: row * 2)
    return double(double(x))


@corpus.core
def of_a_partial(x):
    import functools

    return torch.vmap(functools.partial(torch.add, alpha=3))(x, x)


@corpus.core
def a_condition_on_the_size(x):
    return torch.vmap(lambda row: row.sin() if row.shape[0] > 1 else row.cos())(x)


@corpus.core
def of_an_operation(x):
    return torch.vmap(torch.relu)(x)


test_programs = corpus.test()


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=long_only)])
def test_compilers(backend):
    def program(x, weight):
        y = torch.vmap(lambda row: torch.tanh(row @ weight))(x)
        return y.sum(0), y

    same(program, T(3, 4), T(4, 2, grad=True), backend=backend, tolerance=1e-5, compare_dynamo=False)


def test_gradients_flow_through():
    def program(x, y):
        return torch.vmap(lambda row, other: (row * other).sum())(x, y)

    same(program, T(3, 4, grad=True), T(3, 4))


def test_a_write_to_a_mapped_input():
    def program(x):
        torch.vmap(lambda row: row.mul_(2))(x)
        return x + 1

    same(program, T(3, 4))


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_random_numbers(randomness):
    def program(x):
        return torch.vmap(lambda row: row + torch.rand(4), randomness=randomness)(x)

    same(program, T(3, 4))


def test_what_it_reads_is_guarded():
    text = """
SCALE = 2
DIM = 0
def inner(row): return row * SCALE
def f(x): return torch.vmap(inner, in_dims=DIM)(x)
"""
    same(Source(text), T(3, 4), mutate=["SCALE = 3", "DIM = 1", unrelated("SCALE, DIM = 2, 0")], compare_dynamo=False)


def test_the_function_is_made_outside():
    text = "mapped = torch.vmap(lambda row: row.sin())\ndef f(x): return mapped(x)"
    same(Source(text), T(3, 4))


def raises_on_no_inputs(x):
    return torch.vmap(lambda: 1)()


def raises_on_unequal_sizes(x):
    return torch.vmap(torch.add)(x, x[:2])


def raises_on_a_wrong_dimension(x):
    return torch.vmap(torch.sin, in_dims=5)(x)


def raises_on_a_wrong_structure(x):
    return torch.vmap(lambda row: row, in_dims=({"a": 0},))(x)


def raises_on_a_result_that_is_no_tensor(x):
    return torch.vmap(lambda row: 3)(x)


def raises_on_random_numbers(x):
    return torch.vmap(lambda row: row + torch.rand(4))(x)


def raises_on_item(x):
    return torch.vmap(lambda row: row * row.sum().item())(x)


def raises_on_a_condition(x):
    return torch.vmap(lambda row: row if row.sum() > 0 else -row)(x)


def raises_on_a_write_to_what_is_not_mapped(x):
    total = torch.zeros(4)
    return torch.vmap(lambda row: total.add_(row))(x)


def raises_on_a_wrong_randomness(x):
    return torch.vmap(torch.sin, randomness="none")(x)


def raises_in_the_function(x):
    def inner(row):
        raise KeyError(row.shape)

    return torch.vmap(inner)(x)


@pytest.mark.parametrize("program", [value for name, value in list(globals().items()) if name.startswith("raises_")])
def test_errors(program):
    same(program, T(3, 4), fullgraph=False)


def test_an_error_that_is_caught():
    def program(x):
        try:
            return torch.vmap(lambda row: int("x"))(x)
        except ValueError:
            return torch.vmap(lambda row: row + 1)(x)

    same(program, T(3, 4), compare_dynamo=False)


def test_a_break_inside():
    def program(x):
        y = x + 1

        def inner(row):
            print("inside")
            return row * 2

        return torch.vmap(inner)(y) + 1

    same(program, T(3, 4), fullgraph=False)


def test_a_sample_that_escapes():
    def program(x):
        kept = []

        def inner(row):
            kept.append(row)
            return row * 2

        y = torch.vmap(inner)(x)
        return y, len(kept), kept[0].shape

    same(program, T(3, 4), fullgraph=False)


@pytest.mark.parametrize("inner", [lambda row: row, lambda row: row.mul_(2), lambda row: row.mul_(2).add_(row)])
@pytest.mark.parametrize("place", [0, 1])
def test_the_tensor_itself_comes_back(inner, place):
    def program(x):
        z = x.clone()
        y = torch.vmap(inner, out_dims=place)(x)
        w = torch.vmap(inner)(z)
        y.add_(1)
        w.sub_(1)
        return y, x, y is x, w is z, w is x, z * 2, y

    same(program, T(3, 3), compare_dynamo=False)


def test_a_tensor_that_a_transform_gives_a_gradient():
    def program(x, weight):
        z = x.clone()
        y = torch.vmap(lambda row: row.mul_(weight))(z)
        return y, y is z, z.requires_grad

    same(program, T(3, 3), T(3, grad=True), fullgraph=False, compare_dynamo=False)
