"""numpy arrays in compiled programs: as inputs, results, attributes; beside tensors; written to; and what breaks."""

import gc
import sys
import warnings
import weakref

import numpy as np
import pytest
import torch

import stator
from tests.support.counting import counted_calls
from tests.support.harness import Source, T, same


def A(*sizes, dtype=np.float64):
    """A maker of arrays."""
    count = int(np.prod(sizes))
    return lambda: (np.arange(count) % 7 - 2).reshape(sizes).astype(dtype)


def check(program, *makers, **options):
    same(program, *makers, compare_dynamo=False, **options)


def breaks(program, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [str(one) for one in stator.explain(program)(*arguments).breaks]


# --- results


def test_classes_of_results():
    def program(a):
        return a + 1, a.sum(), a.max(axis=0), a[0], a[0, 1], a > 2, (a > 2).any(), np.argmax(a), a.shape, a.size, a.ndim

    check(program, A(3, 4))


def test_a_scalar_is_a_number_of_its_own():
    def program(a):
        first = a[0]
        total = a.sum()
        a += 1
        return first, total, first * 2, a

    check(program, A(4))


def test_views_and_copies():
    def program(a):
        view, copy = a.reshape(-1), a.flatten()
        view[0] = 50
        copy[1] = 60
        return a, view, copy, a.T, a[1:], a[[0, 1]]

    check(program, A(3, 4))


def test_the_array_itself_is_returned():
    def program(a):
        return np.asarray(a), a, a[:]

    check(program, A(3))


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "complex64"]
)
def test_dtypes(dtype):
    def program(a):
        return a + a, a * 2, a.sum(), a.astype(np.float32), a / 2, a == a

    same(program, A(3, 2, dtype=dtype), compare_dynamo=False, fullgraph=False)


def test_dtypes_as_arguments_and_attributes():
    def program(a):
        return (
            np.zeros(3, dtype=a.dtype),
            a.astype(np.dtype("float32")),
            np.ones(2, dtype=int),
            a.dtype == np.float64,
            a.dtype == "int64",
            a.itemsize,
            a.nbytes,
            a.strides,
        )

    check(program, A(3, 2))


def test_iteration_and_unpacking():
    def program(a):
        rows = [row * 2 for row in a]
        first, *rest = a[0]
        return rows, first, rest, list(enumerate(a[:, 0])), len(a), sum(a)

    check(program, A(3, 2))


def test_iteration_reads_items_as_it_goes():
    def program(a):
        seen = []
        for i, item in enumerate(a):
            seen.append(item)
            if i < 2:
                a[i + 1] += item
        return seen, a

    check(program, A(3))


def test_a_break_inside_of_a_loop_over_an_array():
    def program(a):
        total = 0.0
        for row in a:
            total = total + row.sum()
            print(end="")
        return total

    same(program, A(3, 2), compare_dynamo=False, fullgraph=False)


# --- tensors


def test_tensors_of_arrays_share_memory():
    def program(a):
        shared, converted, copied = torch.from_numpy(a), torch.as_tensor(a, dtype=torch.float32), torch.tensor(a)
        a += 1
        shared[0] = 9
        return shared, converted, copied, torch.as_tensor(a) * 2, a

    check(program, A(3))


def test_arrays_of_tensors_share_memory():
    def program(x):
        array = x.numpy()
        array[0] = 5
        x += 1
        return array, x, np.asarray(x), np.array(x), x.detach().numpy()

    check(program, T(3))


def test_numpy_functions_of_tensors():
    def program(x):
        return np.sqrt(x.abs()), np.add(x, 1), np.concatenate([x, x])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(program, T(3), tolerance=1e-6)


def test_forced_arrays_of_tensors_with_gradients():
    def program(x):
        return x.numpy(force=True) * 2, x * 2

    check(program, T(3, grad=True))


def test_numpy_of_a_tensor_with_gradients_raises():
    def program(x):
        try:
            return x.numpy()
        except RuntimeError as error:
            return str(error)

    same(program, T(3, grad=True), compare_dynamo=False, fullgraph=False)


def test_gradients_past_arrays():
    def program(w, a):
        return (w * torch.from_numpy(a)).sum(), (w.detach().numpy() * a).sum()

    for backend in (None, "aot_eager"):
        check(program, T(3, grad=True), A(3, dtype=np.float32), backend=backend, tolerance=1e-6)


def test_a_write_that_autograd_does_not_see():
    def program(w, a):
        y = w * torch.from_numpy(a)
        a[0] = 100
        return y

    same(program, T(3, grad=True), A(3, dtype=np.float32), compare_dynamo=False, fullgraph=False)


def test_operators_between_tensors_and_arrays():
    def program(x, a):
        results = []
        for operate in (lambda: x * a.sum(), lambda: a.sum() * x, lambda: x + a, lambda: a + x, lambda: x > a.mean()):
            try:
                results.append(operate())
            except TypeError as error:
                results.append(str(error))
        return results

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(program, T(3), A(3, dtype=np.float32), compare_dynamo=False, fullgraph=False)


def test_no_grad_and_inference_mode():
    def program(x, a):
        with torch.no_grad():
            first = x.numpy() * 2
        with torch.inference_mode():
            second = torch.from_numpy(a) + 1
        return first, second

    check(program, T(3, grad=True), A(3))


# --- inputs


def test_arrays_in_containers_and_attributes():
    text = """
import numpy as np
import torch
WEIGHTS = np.ones(3)
class Holder:
    def __init__(self): self.scale, self.parts = np.full(3, 2.0), [np.arange(3.0)]
HOLDER = Holder()
def f(x, named):
    named["sum"] = WEIGHTS + HOLDER.scale * HOLDER.parts[0] + x
    HOLDER.last = named["sum"] * 2
    return named, HOLDER.last
"""
    changes = ["WEIGHTS = np.zeros(3)", "HOLDER.scale[0] = 7", "HOLDER.scale = np.ones(3, dtype=np.float32)"]
    changes += ["HOLDER.parts[0] = np.ones((2, 3))", "WEIGHTS = np.ones(3)[::-1]", "WEIGHTS.flags.writeable = False"]
    same(Source(text), A(3), lambda: {}, compare_dynamo=False, fullgraph=False, mutate=changes, stateful=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(6.0)[::2],
        lambda: np.arange(6.0)[::-1],
        lambda: np.broadcast_to(np.arange(3.0), (2, 3)),
        lambda: np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        lambda: np.arange(6.0).astype(">f8"),
        lambda: np.zeros((0, 3)),
        lambda: np.array(3.0),
        lambda: np.array([1, "a", None], dtype=object)[:1],
        lambda: np.array([1, 2], dtype=np.uint16),
        lambda: np.array([(1, 2.0)], dtype=[("a", int), ("b", float)])["b"],
        lambda: np.zeros(9, dtype=np.uint8)[1:].view(np.float64),
        lambda: np.array([1.0, 2.0]).view(np.matrix),
        lambda: np.ma.array([1.0, 2.0], mask=[True, False]).filled(0),
        lambda: np.array(["2020-01-01"], dtype="datetime64[D]").astype(np.int64),
        lambda: np.longdouble([1.0, 2.0]),
    ],
)  # fmt: skip
def test_unusual_arrays(make):
    def program(a):
        return repr(a * 2), repr(a + a.sum())

    same(program, make, compare_dynamo=False, fullgraph=False)


def test_writes_to_read_only_arrays_raise():
    def program(a):
        try:
            a[0] = 1
        except ValueError as error:
            return str(error), a + 1

    same(program, lambda: np.broadcast_to(np.arange(3.0), (2, 3)), compare_dynamo=False, fullgraph=False)


def test_one_array_twice_and_overlapping_arrays():
    def program(a, b):
        a[:-1] = b[1:]
        b += 1
        return a.sum(), b.copy()

    compiled = stator.compile(program)
    memory = [np.arange(8.0) for _ in range(2)]
    apart = [np.arange(5.0), np.arange(5.0)]
    for given in (lambda x: apart, lambda x: (x[:5], x[:5]), lambda x: (x[:5], x[1:6]), lambda x: (x[2:7], x[:5])):
        expected, actual = program(*given(memory[0])), compiled(*given(memory[1]))
        if given(memory[0]) is not apart:
            np.testing.assert_array_equal(expected[1], actual[1])
            assert expected[0] == actual[0]
            np.testing.assert_array_equal(memory[0], memory[1])


def test_shapes_that_change():
    def program(a):
        return a.reshape(a.shape[0], -1) * 2, a.sum(axis=0), a.shape, np.zeros(a.shape[0]) + 1

    compiled = stator.compile(program)
    for size in (3, 4, 5, 6, 1):
        made = A(size, 2)()
        for one, other in zip(program(made), compiled(made), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_size_that_changes_is_captured_once_more():
    sizes = iter((3, 4, 5))
    first, second, third = counted_calls(lambda a: a * 2 + a.sum(), lambda: (A(next(sizes))(),), calls=3)
    assert (first.captures, second.captures, third.captures) == (1, 1, 0)


def test_numpy_scalars_that_change():
    def program(x, n):
        return x + 1, n / 2, n * 3

    numbers = iter(range(6))
    calls = counted_calls(program, lambda: (torch.ones(3), np.int64(next(numbers))), calls=6)
    assert [call.captures for call in calls] == [1, 1, 0, 0, 0, 0]
    compiled = stator.compile(program)
    for number in range(6):
        assert repr(compiled(torch.ones(3), np.int64(number))) == repr(program(torch.ones(3), np.int64(number)))


def test_numpy_scalars_that_change_in_branches_and_sizes():
    def program(x, n):
        if n > 3:
            x = x * 2
        return x[:n], x.sum() + int(n), x + n

    compiled = stator.compile(program)
    x = torch.arange(6.0)
    for number in (1, 2, 5, 4, 1):
        for one, other in zip(program(x, np.int64(number)), compiled(x, np.int64(number)), strict=True):
            assert torch.equal(one, other)


# --- errors


@pytest.mark.parametrize(
    "statement",
    [
        "a.reshape(7)", "a + np.ones(5)", "a[9]", "a[0, 0, 0]", "np.concatenate([a, np.ones((2, 2, 2))])", "a.nothing", "a @ a",
        "np.linalg.inv(np.zeros((2, 2)))", "a.astype('nonsense')", "hash(a)", "bool(a)", "a[1.5]", "np.arange(3)[np.array([7])]",
        "np.take_along_axis(a, np.array([[9]]), 0)", "np.arange(3) ** np.array([-1, 1, 1])", "a.item()", "len(np.array(1))",
        "np.sum(a, axis=5)", "np.zeros(-1)", "iter(np.array(1))", "(a > 0).all() + None", "np.uint8(1) + 300",
    ],
)  # fmt: skip
def test_errors_are_those_of_numpy(statement):
    text = f"""
import numpy as np
def f(a):
    b = a + 1
    try:
        return b, {statement}
    except Exception as error:
        return type(error), str(error), b
"""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(Source(text), A(3, 4), compare_dynamo=False, fullgraph=False)


def test_an_error_after_a_write():
    def program(a, indices):
        a += 1
        return a.take(indices)

    same(program, A(3), lambda: np.array([0, 7]), compare_dynamo=False, fullgraph=False)


def test_nothing_keeps_arrays_alive():
    compiled = stator.compile(lambda a: (a * 2, a[1:], torch.from_numpy(a) + 1))
    array = np.ones(3)
    compiled(array)
    before = sys.getrefcount(array)
    for _ in range(10):
        compiled(array)
    assert sys.getrefcount(array) == before
    kept = weakref.ref(array)
    view = compiled(array)[1]
    del array
    gc.collect()
    assert kept() is not None
    del view
    compiled(np.ones(3))
    gc.collect()
    assert kept() is None


def test_numpy_scalars_that_change_beside_tensors():
    def program(x, n):
        return x * n, n * x, torch.zeros(int(n)), x + 1

    compiled = stator.compile(program, fullgraph=True)
    for number in (1, 2, 3, 2):
        x = torch.ones(2, requires_grad=True)
        for one, other in zip(program(x, np.int64(number)), compiled(x, np.int64(number)), strict=True):
            assert torch.equal(one, other) and one.dtype == other.dtype


# --- what breaks the graph


def test_reasons_of_breaks():
    a = np.arange(6.0).reshape(2, 3)
    assert "np.random" not in str(breaks(lambda a: a * 2, a))
    assert breaks(lambda a: np.random.rand(2) + a.sum(), a)
    assert "depends on data" in breaks(lambda a: a[a > 0], a)[0]
    assert "truth value" in breaks(lambda a: 1 if a.sum() > 0 else 2, a)[0]
    assert "argsort" in breaks(lambda a: a.argsort(), a)[0]


def test_trace_numpy():
    import torch._dynamo

    with torch._dynamo.config.patch(trace_numpy=False):
        assert "trace_numpy" in breaks(lambda a: a + 1, np.ones(2))[0]
        same(lambda a: (a + 1, np.zeros(2)), A(3), compare_dynamo=False, fullgraph=False)


def test_modes_that_would_change_nodes():
    def program(a):
        return a @ a, np.zeros(2) + a[0]

    for mode in (lambda: torch.autocast("cpu"), lambda: torch.device("meta"), lambda: np.errstate(all="raise")):
        same(program, A(2, 2, dtype=np.float32), compare_dynamo=False, fullgraph=False, under=mode)


@pytest.mark.filterwarnings("ignore")
def test_floating_point_errors_that_numpy_raises_later():
    def program(a):
        return a / (a - a)

    before = np.geterr()
    compiled = stator.compile(program, backend="eager")
    try:
        assert np.isinf(compiled(np.ones(2))).all()
        with stator.watch() as report:
            for how in ("ignore", "warn"):
                with np.errstate(all=how):
                    assert np.isinf(compiled(np.ones(2))).all()
        assert not report.captures
        for _ in range(2):
            np.seterr(divide="raise")
            for _ in range(2):
                with pytest.raises(FloatingPointError):
                    compiled(np.ones(2))
            np.seterr(**before)
            assert np.isinf(compiled(np.ones(2))).all()
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            compiled(np.ones(2))
    finally:
        np.seterr(**before)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backends(backend):
    def program(a, x):
        a[0] = 3
        view = a[1:]
        view *= 2
        return a.sum(), view, torch.from_numpy(a) + x, x.numpy() * 2

    check(program, A(3, 4), T(3, 4), backend=backend, tolerance=1e-5)
