"""Libraries that call `is_compiling()`, and would compute something else if it is True."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

import stator


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("mask_check", [True, False])
def test_a_padded_batch_becomes_a_nested_tensor(mode: type, mask_check: bool) -> None:
    """`TransformerEncoder` cuts off the padding, also of the result."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, mask_check=mask_check).eval()
    compiled = stator.compile(copy.deepcopy(encoder), backend="eager")
    x = torch.randn(2, 5, 16)
    for cut in (3, 4, 5):
        padding = torch.zeros(2, 5, dtype=torch.bool)
        padding[:, cut:] = True
        padding[1, 2:] = True
        with mode(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = encoder(x, src_key_padding_mask=padding)
            for _ in range(2):
                actual = compiled(x, src_key_padding_mask=padding)
                assert actual.shape == expected.shape
                assert actual.stride() == expected.stride()
                assert torch.equal(actual, expected)
    stator.reset()


def test_without_padding_the_encoder_is_one_graph() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    compiled = stator.compile(encoder, backend="eager", fullgraph=True)
    x = torch.randn(2, 5, 16)
    with torch.no_grad():
        assert torch.equal(compiled(x), encoder(x))
    stator.reset()


def train(name: str, compiled: bool, **options: object) -> list[torch.Tensor] | str:
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = getattr(torch.optim, name)(model.parameters(), **options)
    step = stator.compile(optimizer.step, backend="eager") if compiled else optimizer.step
    for number in range(3):
        optimizer.zero_grad()
        model(torch.full((3, 4), number + 1.0)).square().mean().backward()
        try:
            step()
        except (AssertionError, RuntimeError) as error:
            return f"{type(error).__name__}: {error}"
    return list(model.parameters())


@pytest.mark.parametrize("name", ["Adam", "Adamax", "NAdam", "RMSprop", "Rprop", "Adadelta", "ASGD"])
@pytest.mark.parametrize("foreach", [True, False])
def test_what_an_optimizer_refuses(name: str, foreach: bool) -> None:
    expected = train(name, False, capturable=True, foreach=foreach)
    assert isinstance(expected, str)
    assert expected.startswith("AssertionError")
    assert train(name, True, capturable=True, foreach=foreach) == expected
    stator.reset()


STEPS = {
    "a learning rate in a tensor": ("SGD", {"lr": torch.tensor(0.01), "foreach": True, "momentum": 0.9}),
    "a list that would be a tensor if compiled": ("Adamax", {"foreach": True}),
    "lists": ("Rprop", {"foreach": True}),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_to_the_last_bit(name: str) -> None:
    optimizer, options = STEPS[name]
    expected = train(optimizer, False, **options)
    actual = train(optimizer, True, **options)
    assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))
    stator.reset()


def test_is_compiling_is_true_for_programs() -> None:
    compiled = stator.compile(lambda x: x + 1 if torch.compiler.is_compiling() else x - 1, backend="eager")
    assert compiled(torch.ones(1)).item() == 2
    compiled = stator.compile(lambda x: x + 1 if torch.compiler.is_dynamo_compiling() else x - 1, backend="eager")
    assert compiled(torch.ones(1)).item() == 2
    stator.reset()


def test_an_operation_that_fails_for_the_answer() -> None:
    """Uncompiled the program takes another branch: it must not see the exception."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cat(x) if torch.compiler.is_compiling() else x - 1

    compiled = stator.compile(f, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(3)), torch.zeros(3))
    stator.reset()


@pytest.mark.skipif(not hasattr(nn.functional, "linear_cross_entropy"), reason="of later versions of PyTorch")
def test_a_loss_that_is_freed_by_its_backward() -> None:
    def run(compiled: bool) -> list:
        torch.manual_seed(0)
        x, weight = torch.randn(6, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
        options = nn.modules.linear_cross_entropy_options.LinearCrossEntropyOptions(batch_chunk_size=2)

        def loss(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            return nn.functional.linear_cross_entropy(x, weight, target, options=options)

        function = stator.compile(loss, backend="eager") if compiled else loss
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            result = function(x, weight, torch.arange(6) % 5)
            result.backward(retain_graph=True)
            found = [result.item(), x.grad.tolist(), weight.grad.tolist()]
            try:
                result.backward()
            except RuntimeError as error:
                found.append(str(error))
        return [*found, [str(one.message) for one in seen]]

    assert run(True) == run(False)
    stator.reset()
