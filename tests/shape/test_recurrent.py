"""The rule of LSTM, GRU and RNN: not in PyTorch's operator database, so its samples are made here."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator import _testing
from tests.support.harness import T, same
from tests.support.long import every

FUNCTIONS = {
    "LSTM": torch._VF.lstm,
    "GRU": torch._VF.gru,
    "tanh": torch._VF.rnn_tanh,
    "relu": torch._VF.rnn_relu,
}


def network(kind: str, **options: Any) -> nn.RNNBase:
    return (
        nn.RNN(3, 6, nonlinearity=kind, **options) if kind in ("tanh", "relu") else getattr(nn, kind)(3, 6, **options)
    )


def question(kind: str, length: int, batch: int, dtype: torch.dtype, **options: Any) -> tuple[Any, ...]:
    made = network(kind, **options).to(dtype)
    sizes = (batch, length, 3) if made.batch_first else (length, batch, 3)
    cells = made.num_layers * (2 if made.bidirectional else 1)
    state = torch.zeros(cells, batch, made.proj_size or 6, dtype=dtype)
    states = (state, torch.zeros(cells, batch, 6, dtype=dtype)) if kind == "LSTM" else state
    return (
        torch.zeros(sizes, dtype=dtype), states, made._flat_weights, made.bias, made.num_layers, 0.0, made.training,
        made.bidirectional, made.batch_first,
    )  # fmt: skip


def samples() -> Iterator[Any]:
    for kind, layers, bidirectional, batch_first, bias in itertools.product(FUNCTIONS, (1, 2), *[(False, True)] * 3):
        options = {"num_layers": layers, "bidirectional": bidirectional, "batch_first": batch_first, "bias": bias}
        yield pytest.param(kind, options, id="-".join([kind, *[f"{name}={value}" for name, value in options.items()]]))
    yield pytest.param("LSTM", {"proj_size": 2, "num_layers": 2, "bidirectional": True}, id="projected")


@pytest.mark.parametrize(("kind", "options"), every(3, samples(), 0))
def test_the_rule_says_what_the_kernel_does(kind: str, options: dict[str, Any]) -> None:
    for (length, batch), dtype in itertools.product(((5, 4), (1, 4), (5, 1)), (torch.float32, torch.float64)):
        arguments = question(kind, length, batch, dtype, **options)
        for grad in (False, True):
            with torch.set_grad_enabled(grad):
                by_rule = _testing.shape_infer(FUNCTIONS[kind], arguments, {}, "rule")["text"]
                assert by_rule == _testing.shape_infer(FUNCTIONS[kind], arguments, {}, "fallback")["text"]
                results = FUNCTIONS[kind](*arguments)
                for result in results:
                    sizes = ", ".join(map(str, result.shape))
                    strides = "" if result.is_contiguous() else f" strides [{', '.join(map(str, result.stride()))}]"
                    assert f"[{sizes}]{strides}" in by_rule


@pytest.mark.parametrize("change", ["weights", "state", "frozen"])
def test_what_does_not_fit_is_not_answered(change: str) -> None:
    input, state, weights, *rest = question("GRU", 5, 4, torch.float32)
    if change == "weights":
        weights = [weights[1], weights[0], *weights[2:]]
    elif change == "state":
        state = state[:, :2]
    else:
        weights[0].requires_grad_(False)
    assert _testing.shape_infer(torch._VF.gru, (input, state, weights, *rest), {}, "rule") is None


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "tanh"])
def test_lengths_and_batches_that_change_are_two_captures(kind: str) -> None:
    torch.manual_seed(0)
    model = network(kind, num_layers=2, batch_first=True)
    graphs = []
    compiled = stator.compile(model, backend=lambda module, _: graphs.append(module) or module)
    for batch, length in ((4, 7), (3, 9), (5, 2), (2, 30)):
        x = torch.randn(batch, length, 3)
        torch.testing.assert_close(compiled(x), model(x))
    assert len(graphs) == 2


def test_a_network_in_a_program() -> None:
    model = nn.LSTM(4, 5)

    def program(x):
        out, (hidden, cell) = model(x)
        return out.relu(), hidden + 1, cell.sum()

    same(program, T(3, 2, 4, grad=True), compare_dynamo=False)
