"""Programs called with a sequence of numbers, uncompiled and compiled."""

import torch

from tests.support.engine import CAPTURES, Recorder, compile, reset, unbounded


@unbounded()
def same_both(source, numbers, captures=2, backend=None, grads=False, extra=(), fullgraph=True, check=True):
    """Runs the program `f` of the text both ways with each number, compares results, types and gradients; the recorder."""
    reset()
    worlds = []
    for _ in range(2):
        namespace = {"torch": torch}
        exec(source, namespace)
        worlds.append(namespace["f"])
    recorder = Recorder(backend)
    plain, compiled = worlds[0], compile(worlds[1], backend=recorder, fullgraph=fullgraph)
    torch.manual_seed(0)
    x = torch.randn(6, 5)
    for number in numbers:
        arguments = number if isinstance(number, tuple) else (number,)
        one, other = (x.clone().requires_grad_(grads) for _ in range(2))
        expected = outcome(plain, one, *arguments, *extra)
        actual = outcome(compiled, other, *arguments, *extra)
        same_values(expected, actual, number)
        if grads:
            torch.testing.assert_close(one.grad, other.grad)
    if CAPTURES and captures is not None and check:
        assert recorder.count <= captures, f"{recorder.count} captures, at most {captures} expected"
    reset()
    return recorder


def outcome(function, x, *rest):
    try:
        result = function(x, *rest)
    except Exception as error:
        return type(error), str(error)
    tensors = [part for part in (result if isinstance(result, tuple) else (result,)) if isinstance(part, torch.Tensor)]
    if x.requires_grad and tensors:
        sum(tensor.sum() for tensor in tensors if tensor.requires_grad).backward()
    return result


def same_values(expected, actual, where):
    assert type(expected) is type(actual), where
    if isinstance(expected, torch.Tensor):
        assert (
            expected.dtype == actual.dtype and expected.shape == actual.shape and expected.stride() == actual.stride()
        )
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5, equal_nan=True)
    elif isinstance(expected, (tuple, list)):
        assert len(expected) == len(actual)
        for one, other in zip(expected, actual, strict=True):
            same_values(one, other, where)
    elif isinstance(expected, float):
        # -0.0 is not 0.0, and a NaN is a NaN.
        assert repr(expected) == repr(actual), where
    else:
        assert expected == actual, where
