"""Slices of fixed length that start elsewhere in every call, as in a write to a cache at its position."""

import pytest

from tests.support.changing import same_both

READ = {
    "rows": "def f(x, i): return x[i:i + 2] * 2",
    "columns": "def f(x, i): return x[:, i:i + 1], x[1:3, i:i + 2].sum(), x[..., 0]",
    "rows and columns": "def f(x, i): return x[i:i + 2, i:i + 2] + 1",
    "rows and one column": "def f(x, i): return x[i:i + 2, i] + x[i, i:i + 2]",
    "none in between": "def f(x, i): return x[i:i + 2, None, 1:] * 2",
    "empty": "def f(x, i): return x[i:i], x + i",
    "an offset": "def f(x, i):\n    j = i * 2\n    return x[j - i:j - i + 3] + 1, j",
    "twice": "def f(x, i): return x[i:i + 3][1:] + x[i:i + 3][i:i + 1].sum() if i < 2 else x[i:i + 2]",
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", READ)
def test_read(name, backend):
    same_both(READ[name], [0, 1, 2, 3, 1, 2, 0], captures=5, backend=backend, grads="empty" not in name)


def test_captured_twice():
    same_both(READ["rows"], [0, 1, 2, 3, 4, 2, 0], captures=2)
    same_both(READ["rows and columns"], [0, 1, 2, 3, 1], captures=2)


WRITTEN = {
    "rows": "def f(x, i):\n    y = x.clone()\n    y[i:i + 2] = 7\n    y[i:i + 2] += i\n    return y",
    "from a tensor": "def f(x, i):\n    y = x.clone()\n    y[i:i + 2] = x[:2] * 3\n    y[:, i:i + 1] = x[:, :1]\n    return y",
    "broadcast": "def f(x, i):\n    y = torch.zeros(6, 5)\n    y[i:i + 3] = x[0]\n    return y",
    "of an input": "def f(x, i):\n    with torch.no_grad(): x[i:i + 2, 1:] = 1\n    return x * 2",
    "a view": "def f(x, i):\n    y = x.clone()\n    y[i:i + 2].mul_(3)\n    y.narrow(0, i, 2).add_(1)\n    return y",
}


@pytest.mark.parametrize("backend", [None, "aot_eager"])
@pytest.mark.parametrize("name", WRITTEN)
def test_written(name, backend):
    same_both(WRITTEN[name], [0, 1, 2, 3, 0, 2], captures=6, backend=backend)


def test_written_with_gradients():
    same_both(
        "def f(x, i):\n    y = torch.zeros(6, 5)\n    y[i:i + 2] = x[:2] * 3\n    return y",
        [0, 1, 2, 3],
        captures=5,
        grads=True,
    )


def test_over_the_ends():
    numbers = [0, 1, 4, 5, 6, 7, -1, -2, -3, -8, 3]
    same_both("def f(x, i): return x[i:i + 2] * 2", numbers, captures=None)
    same_both("def f(x, i): return x[i:i - 2] * 2", numbers, captures=None)
    same_both("def f(x, i):\n    y = x.clone()\n    y[i:i + 2] = 5\n    return y", numbers, captures=None)


def test_of_other_lengths():
    pairs = [(0, 2), (1, 3), (2, 4), (0, 3), (1, 4), (2, 2), (3, 1), (1, 6), (1, 9)]
    same_both("def f(x, i, j): return x[i:j] * 2, j - i", pairs, captures=None)


def test_where_it_begins_is_asked():
    source = (
        "def f(x, i):\n    part = x[i:i + 2]\n    return part + 1, part.storage_offset(), part[1:].storage_offset()"
    )
    same_both(source, [0, 1, 2, 3], captures=None)


def test_of_other_sizes():
    """A slice that only ends elsewhere is of another size each time."""
    same_both("def f(x, i): return x[:i] * 2, x[i:] + 1, x[i:5]", [1, 2, 3, 4, 1], captures=5)
