"""Programs with more than one call: they get a function that compiles, and record what they see.

    def scenario(compile, note):
        f = compile(lambda x: x * 2)
        note(f, torch.ones(2))        # what the call gives, or raises
        note.value(x.grad)

`same_scenario` runs one uncompiled and compiled, and compares all notes: values, metadata, exceptions.
"""

from collections.abc import Callable
from typing import Any

import torch

import stator

NOT_COMPARED = ("version ", "output 0 of")  # names of autograd nodes that depend on the graph, not on the program


def seen(value: Any) -> Any:
    """Everything that a program could observe of a value now, as plain data."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            return str(value.layout), seen(value.to_dense())
        if value.is_quantized:
            return "quantized", str(value.qscheme()), seen(value.dequantize())
        metadata = (
            type(value).__name__,
            tuple(value.shape),
            value.stride(),
            str(value.dtype),
            str(value.device),
            value.requires_grad,
            value.is_leaf,
            value.is_inference(),
            value.is_conj(),
        )
        if value.device.type == "meta":
            return metadata
        return *metadata, value.detach().clone().resolve_conj().resolve_neg().flatten().tolist()
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [seen(one) for one in value]
    if isinstance(value, dict):
        return {key: seen(one) for key, one in value.items()}
    if isinstance(value, BaseException):
        text = str(value)
        for words in NOT_COMPARED:
            text = text.split(words)[0]
        return type(value).__name__, text
    return value


class Notes(list):
    """The notes of a scenario so far."""

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            result = function(*arguments)
        except Exception as error:
            result = error
        self.append(seen(result))
        return result

    def value(self, value: Any) -> None:
        self.append(seen(value))

    def gradients(self, result: Any, *of: torch.Tensor) -> None:
        """Runs the backward pass of a result, and notes the gradients of these leaves."""
        self(lambda: result.sum().backward())
        self.append(seen([tensor.grad for tensor in of]))


def alike(expected: Any, actual: Any, tolerance: float) -> bool:
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, float):
        return expected == actual or abs(expected - actual) <= tolerance * max(1.0, abs(expected))
    if isinstance(expected, (list, tuple)):
        return len(expected) == len(actual) and all(
            alike(*pair, tolerance) for pair in zip(expected, actual, strict=True)
        )
    if isinstance(expected, dict):
        return expected.keys() == actual.keys() and all(
            alike(expected[key], actual[key], tolerance) for key in expected
        )
    return expected == actual


def same_scenario(scenario: Callable[..., None], backend: str, *, tolerance: float = 0.0, **options: Any) -> None:
    """Compares the compiled scenario with the uncompiled one."""
    noted = []
    for compile in (lambda f: f, lambda f: stator.compile(f, backend=backend, **options)):
        torch.manual_seed(0)
        notes = Notes()
        scenario(compile, notes)
        noted.append(notes)
    expected, actual = noted
    assert len(expected) == len(actual), (expected, actual)
    for step, pair in enumerate(zip(expected, actual, strict=True)):
        assert alike(*pair, tolerance), f"step {step}: {pair[0]} uncompiled, {pair[1]} compiled"
