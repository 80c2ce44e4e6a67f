"""NumPy scalars, which programs get from `np.sqrt(width)` or an array in a configuration, and NumPy functions of
them."""

import warnings

import numpy
import pytest

from tests.support.harness import Source, T, same

HEAD = """
import numpy as np
class Config:
    scale = np.float64(0.5)
    heads = np.int64(2)
    flag = np.bool_(True)
    narrow = np.float32(0.1)
CONFIG = Config()
SCALE = np.float64(3.0)
"""

WHOLE = {
    "ufunc_of_an_int": "def f(x): return x * np.sqrt(x.shape[-1])",
    "ufunc_of_a_float": "def f(x): return x * np.log(2.5) + np.exp(0.5)",
    "in_front": "def f(x): return np.float64(2.5) * x, np.float64(2.5) - x, np.float64(2.5) / (x * x + 1), np.float64(2) ** x",
    "in_front_of_int": "def f(x): return np.int64(2) * x, np.int64(2) - x, np.int32(7) / (x * x + 1)",
    "compared": "def f(x): return np.float64(0.1) < x, x >= np.int64(0), np.float64(0.1) == x",
    "in_place": "def f(x):\n    y = x.clone()\n    y *= np.sqrt(16)\n    y += np.int64(1)\n    return y",
    "global": "def f(x): return x * SCALE",
    "attribute": "def f(x): return x * CONFIG.scale",
    "as_sizes": "def f(x): return x.view(CONFIG.heads, -1), x.reshape(np.int64(4), np.int32(3)), torch.zeros(np.int64(3), CONFIG.heads)",
    "as_positions": "def f(x): return x[np.int64(1)], x[:np.int64(1)], x[..., np.int8(2)], x.sum(np.int64(0))",
    "as_scalars": "def f(x): return x.clamp(min=np.float64(0.1)), torch.full((2,), np.float64(1.5)), torch.add(x, x, alpha=np.int64(2))",
    "computed": "def f(x): return x * (-(np.log(1e4) / (6 - 1)) + abs(np.float64(-2)) * 3 ** np.int64(2))",
    "decides": "def f(x): return x + 1 if CONFIG.heads > 1 and np.float64(2) <= 2.0 and CONFIG.flag else x - 1",
    "converted": "def f(x): return x * int(np.ceil(2.2)) * float(np.float32(2)) * round(np.float64(2.5)) * math.sqrt(np.float64(4))",
    "item": "def f(x): return x * np.float64(2.5).item() * CONFIG.heads.item()",
    "in_containers": "def f(x):\n    table = {2: 'two', 3: 'three'}\n    row = [10, 20, 30]\n    return x * len(table[np.int64(3)]) * row[np.int64(1)] * sum([np.float64(1), 2])",
    "repeated": "def f(x): return x * len([1, 2] * np.int64(3)) + len('ab' * np.int64(2))",
    "ranges": "def f(x):\n    for i in range(CONFIG.heads):\n        x = x * (i + 1)\n    return x",
    "product": "def f(x): return x * np.prod([2, 3]) * np.sum((1, 2)) * np.max([1.5, 2.5]), np.prod(x.shape)",
    "returned": "def f(x): return np.sqrt(16), np.float64(2) * 3, np.int64(7) // 2, np.float64(1) > 0, x + 1",
    "classes": "def f(x): return x + 1 if isinstance(np.sqrt(4), float) and not isinstance(np.int64(2), int) else x",
    "is_none": "def f(x): return x + 1 if CONFIG.scale is not None else x",
    "formatted": "def f(x): return x + 1, f'{np.float64(2.5):.3f}', str(np.int64(3)), '%d' % np.int64(4)",
    "dtype": "def f(x): return x + np.float64(2).dtype.itemsize",
    "stored": "def f(x):\n    CONFIG.last = np.sqrt(2.0)\n    return x * CONFIG.last",
    "several": "def f(x):\n    whole, rest = np.divmod(7, 2)\n    return x * whole + rest",
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_whole(name: str) -> None:
    same(Source(HEAD + WHOLE[name]), T(4, 3), compare_dynamo=False, stateful=name == "stored")


CHANGES = {
    "global": ["SCALE = np.float64(4.0)", "SCALE = 4.0", "SCALE = np.float32(4.0)", "SCALE = np.float64('nan')", "SCALE = -np.float64(0.0)"],
    "attribute": ["CONFIG.scale = np.float64(0.25)", "CONFIG.scale = np.int64(2)", "Config.scale = 3", "CONFIG.scale = torch.tensor(2.0)"],
    "as_sizes": ["CONFIG.heads = np.int64(4)", "CONFIG.heads = 2", "CONFIG.heads = np.uint8(2)", "CONFIG.heads = np.int64(5)"],
    "decides": ["CONFIG.flag = np.bool_(False)", "CONFIG.heads = np.int64(0)"],
    "ufunc_of_a_float": ["np = types.SimpleNamespace(log=math.log10, exp=np.exp)"],
    "ranges": ["CONFIG.heads = np.int64(3)", "CONFIG.heads = np.int64(0)"],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_changed(name: str) -> None:
    same(Source(HEAD + WHOLE[name]), T(4, 3), mutate=CHANGES[name], compare_dynamo=False, fullgraph=False)


def test_an_equal_number_is_the_same_one() -> None:
    same(
        Source(HEAD + WHOLE["global"]), T(4, 3), mutate=[("unrelated", "SCALE = np.float64(3.0)")], compare_dynamo=False
    )


def test_given_as_an_argument() -> None:
    program = Source("def f(x, scale): return x * scale + (1 if scale > 1 else 2)")
    changes = ["ARGS[1] = numpy.float64(0.5)", "ARGS[1] = numpy.int64(3)", "ARGS[1] = 3"]
    same(program, T(4, 3), lambda: numpy.float64(2.0), mutate=["import numpy", *changes], compare_dynamo=False)


# Captured with graph breaks: only PyTorch or numpy knows the result.
IN_PIECES = {
    "has_a_dtype": "def f(x): return torch.tensor(np.float64(2)).dtype, torch.as_tensor(np.int32(2)).dtype, x.new_tensor(np.float32(2)), torch.tensor([np.float64(1)]).dtype",
    "single_precision": "def f(x): return x * CONFIG.narrow, CONFIG.narrow * x, x + np.float16(0.1)",
    "truth_values": "def f(x): return x * CONFIG.flag, x.sum(0, keepdim=CONFIG.flag)",
    "an_array": "def f(x):\n    a = np.array([1.0, 2.0])\n    a[0] = 5\n    return x * a.sum(), a.tolist()",
    "an_array_of_a_list": "def f(x):\n    a = np.sqrt([1.0, 4.0])\n    a[0] += 1\n    return x * a[0]",
    "times_a_list": "def f(x): return x * (np.float64(2) * [1.0, 2.0])[1]",
    "random": "def f(x): return x * np.random.RandomState(3).rand()",
    "warns": "def f(x): return x * np.log(0.0), x + np.int8(100) * np.int8(2)",
    "raises": "def f(x):\n    try:\n        return np.sqrt('a')\n    except TypeError as error:\n        return x + 1",
    "indexed": "def f(x): return x * np.float64(2)[()]",
    "assigned": "def f(x):\n    y = x.clone()\n    y[0] = np.float64(2)\n    y[1, 0] = np.int64(3)\n    return y",
    "as_a_key": "TABLE = {}\ndef f(x):\n    TABLE[np.int64(1)] = x + 1\n    return TABLE[1]",
    "into": "def f(x):\n    a = np.zeros(())\n    np.sqrt(4.0, out=a)\n    return x * float(a)",
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PIECES)
def test_in_pieces(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(
            Source(HEAD + IN_PIECES[name]),
            T(4, 3),
            fullgraph=False,
            compare_dynamo=False,
            stateful=True,
            tolerance=1e-6,
        )


def test_numpy_warns_in_every_call() -> None:
    import stator

    compiled = stator.compile(lambda x: x * numpy.log(0.0), backend="eager")
    import torch

    for _ in range(3):
        with pytest.warns(RuntimeWarning, match="divide by zero"):
            compiled(torch.ones(2))
