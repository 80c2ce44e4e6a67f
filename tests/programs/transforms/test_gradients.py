"""torch.func.grad, vjp, jvp and what is built from them, inside of compiled functions."""

import pytest
import torch
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

from tests.support.corpus import Corpus
from tests.support.harness import Source, T, same
from tests.support.long import long_only

corpus = Corpus()

# The inputs of a closure, and a tensor that an operation returns again, have other places and names in torch._dynamo's
# graphs: such programs pass `compare_dynamo=False`.


def smooth(x):
    return x.sin() * x.sum()


@corpus.core
def of_a_sum(x):
    return grad(lambda x: x.sin().sum())(x)


@corpus.core
def with_value(x):
    return grad_and_value(lambda x: (x**2).sum())(x)


@corpus.core
def with_auxiliary_results(x):
    return grad(lambda x: (x.sin().sum(), (x.cos(), x.exp())), has_aux=True)(x)


@corpus.core
def of_the_second_argument(x, y):
    return grad(lambda x, y: (x * y).sum(), argnums=1)(x, y)


@corpus.core
def of_both_arguments(x, y):
    return grad(lambda x, y: (x * y.sin()).sum(), argnums=(0, 1))(x, y)


@corpus.core
def of_a_dict(x, y):
    return grad(lambda given: (given["a"] * given["b"].cos()).sum())({"a": x, "b": y})


@corpus.core(compare_dynamo=False)
def of_a_closure(x, y):
    return grad(lambda x: (x * y).sum())(x)


@corpus.core
def of_an_unused_argument(x, y):
    return grad(lambda x, y: y.sum(), argnums=0)(x, y)


@corpus.core
def second_derivative(x):
    return grad(lambda x: grad(lambda x: (x**3).sum())(x).sum())(x)


@corpus.core
def of_each_sample(x, y):
    return vmap(grad(lambda x, y: (x * y).sum().sin()))(x, y)


@corpus.core
def reads_requires_grad(x, y):
    def inner(x, y):
        z = x * 2 if x.requires_grad else x * 3
        w = y * 2 if y.requires_grad else y * 3
        return (z * w).sum()

    return grad(inner)(x, y)


@corpus.core
def without_gradients_inside(x):
    def inner(x):
        with torch.no_grad():
            scale = x.sum()
        return (x * scale).sum()

    return grad(inner)(x)


@corpus.core
def detached_inside(x):
    return grad(lambda x: (x * x.detach()).sum())(x)


@corpus.core(compare_dynamo=False)
def vector_jacobian(x, y):
    result, pull_back = vjp(smooth, x)
    return result, pull_back(y)


@corpus.core(compare_dynamo=False)
def vector_jacobian_of_two(x, y):
    results, pull_back = vjp(lambda x, y: (x * y, x + y), x, y)
    return results, pull_back(results)


@corpus.core(compare_dynamo=False)
def vector_jacobian_with_auxiliary_results(x, y):
    result, pull_back, more = vjp(lambda x: (x.sin(), x.cos()), x, has_aux=True)
    return result, pull_back(y), more


@corpus.core(compare_dynamo=False)
def pulled_back_twice(x, y):
    _, pull_back = vjp(smooth, x)
    return pull_back(y), pull_back(y * 2)


@corpus.core
def jacobian_vector(x, y):
    return jvp(smooth, (x,), (y,))


@corpus.core
def jacobian_vector_with_auxiliary_results(x, y):
    return jvp(lambda x: (x.sin(), x.cos()), (x,), (y,), has_aux=True)


@corpus.core
def jacobians(x):
    return jacrev(smooth)(x[0]), jacfwd(smooth)(x[0])


@corpus.core
def jacobian_in_chunks(x):
    return jacrev(smooth, chunk_size=2)(x[0]), jacrev(smooth, chunk_size=1)(x[0])


@corpus.core
def jacobian_of_two(x, y):
    return jacrev(lambda x, y: x * y.sum(), argnums=(0, 1))(x[0], y[0])


@corpus.core
def second_derivatives(x):
    return hessian(lambda x: smooth(x).sum())(x[0])


@corpus.core
def hessian_times_vector(x, y):
    return jvp(grad(lambda x: (x**3).sum()), (x,), (y,))[1]


@corpus.core(compare_dynamo=False)
def hessian_times_vector_in_reverse(x, y):
    _, pull_back = vjp(grad(lambda x: (x**3).sum()), x)
    return pull_back(y)


@corpus.core
def gradient_of_mapped(x):
    return grad(lambda x: vmap(lambda row: row.sin() * row.sum())(x).sum())(x)


@corpus.core
def mapped_jacobians(x):
    return vmap(jacrev(smooth))(x), vmap(jacfwd(smooth))(x)


test_programs = corpus.test()


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=long_only)])
def test_compilers(backend):
    def program(x, y):
        return (
            vmap(grad(lambda x, y: (x * y).sum().sin()))(x, y),
            jvp(smooth, (x,), (y,)),
            hessian(lambda x: smooth(x).sum())(x[0]),
        )

    same(program, T(3, 4), T(3, 4), backend=backend, tolerance=1e-5)


@pytest.mark.parametrize("backend", [None, "aot_eager"])
def test_gradients_of_gradients_outside(backend):
    def program(x, y):
        return grad(lambda x: (x**3 * y).sum())(x)

    same(program, T(3, 4, grad=True), T(3, 4, grad=True), backend=backend, tolerance=1e-6, compare_dynamo=False)


def test_without_gradients_outside():
    def program(x):
        with torch.no_grad():
            return grad(lambda x: (x**2).sum())(x)

    same(program, T(3, 4, grad=True))


def test_under_no_grad():
    def program(x):
        result, pull_back = vjp(smooth, x)
        return result, pull_back(x), grad(lambda x: smooth(x).sum())(x)

    same(program, T(3, 4, grad=True), under=torch.no_grad, compare_dynamo=False)


def test_what_it_reads_is_guarded():
    text = """
POWER = 2
def inner(x): return (x ** POWER).sum()
def f(x): return torch.func.grad(inner)(x)
"""
    same(Source(text), T(3, 4), mutate=["POWER = 3", "inner = lambda x: x.sin().sum()"])


def raises_on_a_result_with_dimensions(x):
    return grad(torch.sin)(x)


def raises_on_a_result_that_is_no_tensor(x):
    return grad(lambda x: 1.0)(x)


def raises_on_integers(x):
    return grad(lambda x: x.sum())(x.long())


def raises_on_a_wrong_argument(x):
    return grad(lambda x: x.sum(), argnums=3)(x)


def raises_on_missing_auxiliary_results(x):
    return grad(lambda x: x.sum(), has_aux=True)(x)


def raises_on_other_structures(x):
    return jvp(torch.sin, (x,), (x, x))


def raises_on_a_write_to_an_input(x):
    def inner(y):
        x.add_(1)
        return y.sum()

    return grad(inner)(x)


def raises_on_requires_grad(x):
    return grad(lambda x: x.requires_grad_().sum())(x)


@pytest.mark.parametrize("program", [value for name, value in list(globals().items()) if name.startswith("raises_")])
def test_errors(program):
    same(program, T(3, 4), fullgraph=False)


def test_the_pulled_back_function_leaves():
    def program(x):
        result, pull_back = vjp(smooth, x)
        print("between")
        return result + 1, pull_back(x)

    same(program, T(3, 4), fullgraph=False)


def test_the_pulled_back_function_is_returned():
    def program(x):
        return vjp(smooth, x)[1](x), vjp(smooth, x)[1].__name__

    same(program, T(3, 4), fullgraph=False)


def test_gradients_of_the_usual_kind_inside():
    def program(x):
        def inner(row):
            row = row.detach().requires_grad_(False)
            return row * 2

        return grad(lambda x: inner(x).sum() + x.sum())(x), torch.is_grad_enabled()

    same(program, T(3, 4), fullgraph=False)
