"""PyTorch's larger layers: recurrent ones, attention, Transformer, in training and in eval."""

import pytest
import torch
import torch.nn as nn

import stator
from tests.support.harness import Built, T, same
from tests.support.long import every

# Before 2.13, what PyTorch gives backends for an LSTM is wrong: it is not captured.
LSTM_IS_CAPTURED = torch.torch_version.TorchVersion(torch.__version__) >= (2, 13)
pytestmark = pytest.mark.filterwarnings("ignore")


def in_turn(names):
    """Each program in training or in eval; in both if tests may take long."""
    return [(name, training) for turn, name in enumerate(names) for training in every(2, [True, False], turn)]


RECURRENT = {
    "rnn": (lambda: nn.RNN(4, 3), [T(5, 2, 4)]),
    "rnn with relu and layers": (
        lambda: nn.RNN(4, 3, num_layers=2, nonlinearity="relu", batch_first=True),
        [T(2, 5, 4)],
    ),
    "rnn without a batch": (lambda: nn.RNN(4, 3), [T(5, 4)]),
    "rnn with a state": (lambda: nn.RNN(4, 3), [T(5, 2, 4), T(1, 2, 3)]),
    "lstm": (lambda: nn.LSTM(4, 3), [T(5, 2, 4)]),
    "lstm both ways": (lambda: nn.LSTM(4, 3, num_layers=2, bidirectional=True, batch_first=True), [T(2, 5, 4)]),
    "lstm with a state": (lambda: nn.LSTM(4, 3), [T(5, 2, 4), lambda: (torch.ones(1, 2, 3), torch.zeros(1, 2, 3))]),
    "lstm with a projection": (lambda: nn.LSTM(4, 3, proj_size=2), [T(5, 2, 4)]),
    "lstm with dropout": (lambda: nn.LSTM(4, 3, num_layers=2, dropout=0.5), [T(5, 2, 4)]),
    "gru": (lambda: nn.GRU(4, 3), [T(5, 2, 4)]),
    "gru without bias": (lambda: nn.GRU(4, 3, bias=False, batch_first=True), [T(2, 5, 4), T(1, 2, 3)]),
}
CELLS = {
    "rnn cell": (lambda: nn.RNNCell(4, 3), [T(2, 4), T(2, 3)]),
    "lstm cell": (lambda: nn.LSTMCell(4, 3), [T(2, 4), lambda: (torch.ones(2, 3), torch.ones(2, 3))]),
    "lstm cell without a state": (lambda: nn.LSTMCell(4, 3), [T(2, 4)]),
    "gru cell": (lambda: nn.GRUCell(4, 3), [T(2, 4)]),
}


@pytest.mark.parametrize("name, training", in_turn(RECURRENT))
def test_recurrent(name, training):
    # torch._dynamo does not capture these by default, so there is no graph to compare: only results are.
    make, arguments = RECURRENT[name]
    same(Built(lambda: make().train(training)), *arguments, fullgraph=False, compare_dynamo=False)


@pytest.mark.parametrize("name", RECURRENT)
def test_recurrent_is_captured_whole(name):
    if name.startswith("lstm") and not LSTM_IS_CAPTURED:
        pytest.skip("not captured with this PyTorch")
    make, arguments = RECURRENT[name]
    # Backends compile the layers without the dropout between them: it is not captured.
    same(Built(lambda: make().train(name != "lstm with dropout")), *arguments, compare_dynamo=False)


@pytest.mark.parametrize("name", every(3, RECURRENT, 0))
def test_recurrent_with_a_backend(name):
    make, arguments = RECURRENT[name]
    same(Built(make), *arguments, fullgraph=False, compare_dynamo=False, backend="aot_eager", tolerance=1e-5,
         mutate=["PROGRAM.eval()"])  # fmt: skip


@pytest.mark.parametrize("kind", every(2, [nn.RNN, nn.LSTM, nn.GRU], 1))
def test_dropout_between_layers_with_a_backend(kind):
    same(
        Built(lambda: kind(4, 3, num_layers=3, dropout=0.5)), T(5, 2, 4, grad=True), fullgraph=False,
        compare_dynamo=False, backend="aot_eager", tolerance=1e-5, mutate=["PROGRAM.dropout = 0.1", "PROGRAM.eval()"],
    )  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
def test_cells(name):
    make, arguments = CELLS[name]
    same(Built(make), *arguments)


class Packs(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.inner = kind(4, 3, batch_first=True)

    def forward(self, x):
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([5, 3]), batch_first=True)
        result, state = self.inner(packed)
        return nn.utils.rnn.pad_packed_sequence(result, batch_first=True), state


def packed():
    return nn.utils.rnn.pack_padded_sequence(torch.randn(5, 2, 4), torch.tensor([5, 3]))


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_packed_sequences(kind):
    same(Built(lambda: Packs(kind)), T(2, 5, 4), fullgraph=False, compare_dynamo=False)
    same(Built(lambda: kind(4, 3)), packed, fullgraph=False, compare_dynamo=False)


class Tagger(nn.Module):
    """An LSTM in a model that keeps the state between calls."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.lstm = nn.LSTM(4, 3, batch_first=True)
        self.head = nn.Linear(3, 2)
        self.state = None

    def forward(self, i):
        y, state = self.lstm(self.embedding(i), self.state)
        self.state = tuple(one.detach() for one in state)
        return self.head(y).log_softmax(-1)


def test_a_state_that_is_kept():
    same(Built(Tagger), T(2, 5, dtype=torch.int64), fullgraph=False, compare_dynamo=False, calls=4)


def causal(size):
    return lambda: nn.Transformer.generate_square_subsequent_mask(size)


def padding():
    return torch.tensor([[False, False, True], [False, False, False]])


MULTIHEAD = {
    "self": ({}, {}),
    "without weights": ({}, {"need_weights": False}),
    "weights of each head": ({}, {"average_attn_weights": False}),
    "padding": ({}, {"key_padding_mask": padding}),
    "mask": ({}, {"attn_mask": causal(3), "need_weights": False}),
    "causal": ({}, {"attn_mask": causal(3), "is_causal": True, "need_weights": False}),
    "both masks": ({}, {"attn_mask": causal(3), "key_padding_mask": padding}),
    "mask of bools": ({}, {"attn_mask": lambda: torch.ones(3, 3).triu(1).bool()}),
    "mask of each head": ({}, {"attn_mask": lambda: torch.zeros(4, 3, 3)}),
    "added key and zero": ({"add_bias_kv": True, "add_zero_attn": True}, {}),
    "other widths": ({"kdim": 8, "vdim": 8, "bias": False}, {}),
    "dropout": ({"dropout": 0.5}, {}),
}


@pytest.mark.parametrize("name, training", in_turn(MULTIHEAD))
def test_multihead_attention(name, training):
    options, arguments = MULTIHEAD[name]
    make = Built(lambda: nn.MultiheadAttention(8, 2, batch_first=True, **options).train(training))
    whole = name != "both masks"  # masks of two kinds: PyTorch warns
    same(make, T(2, 3, 8), T(2, 3, 8), T(2, 3, 8), kwargs=arguments, fullgraph=whole)
    if not training:  # PyTorch has a fused kernel for this
        same(make, T(2, 3, 8), T(2, 3, 8), T(2, 3, 8), kwargs=arguments, under=torch.no_grad, fullgraph=whole)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x)


@pytest.mark.parametrize("under", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_attention_of_one_tensor(under):
    # As uncompiled: one kernel where there are no gradients. torch._dynamo does not take it.
    graded = under is torch.enable_grad
    same(Built(lambda: SelfAttention().eval()), T(2, 3, 8), under=under, grads=graded, compare_dynamo=graded)


SIZES = {"d_model": 8, "nhead": 2, "dim_feedforward": 16}
TRANSFORMERS = {
    "encoder layer": (lambda: nn.TransformerEncoderLayer(**SIZES, batch_first=True), [T(2, 3, 8)], {}),
    "encoder layer, norm first": (lambda: nn.TransformerEncoderLayer(**SIZES, batch_first=True, norm_first=True, activation="gelu"), [T(2, 3, 8)], {}),
    "encoder layer, masks": (lambda: nn.TransformerEncoderLayer(**SIZES, batch_first=True), [T(2, 3, 8)], {"src_key_padding_mask": padding}),
    "encoder": (lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES, batch_first=True), 2, enable_nested_tensor=False), [T(2, 3, 8)], {"mask": causal(3), "is_causal": True}),
    "decoder layer": (lambda: nn.TransformerDecoderLayer(**SIZES, batch_first=True), [T(2, 3, 8), T(2, 4, 8)], {"tgt_mask": causal(3)}),
    "decoder": (lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(**SIZES), 2, norm=nn.LayerNorm(8)), [T(3, 2, 8), T(4, 2, 8)], {"tgt_is_causal": True, "tgt_mask": causal(3)}),
    "transformer": (lambda: nn.Transformer(**SIZES, num_encoder_layers=1, num_decoder_layers=2, batch_first=True), [T(2, 3, 8), T(2, 4, 8)], {"tgt_mask": causal(4), "tgt_is_causal": True}),
}  # fmt: skip


@pytest.mark.parametrize("name, training", in_turn(TRANSFORMERS))
def test_transformers(name, training):
    make, arguments, named = TRANSFORMERS[name]
    same(Built(lambda: make().train(training)), *arguments, kwargs=named)


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_without_gradients(name):
    make, arguments, named = TRANSFORMERS[name]
    same(Built(lambda: make().eval()), *arguments, kwargs=named, under=torch.no_grad, grads=False)


def test_encoder_that_may_nest_tensors():
    # Without gradients PyTorch nests tensors, but not when it is compiled: rows of padding are then not zero.
    make = lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES, batch_first=True), 2).eval()
    same(Built(make), T(2, 3, 8), kwargs={"src_key_padding_mask": padding}, fullgraph=False)


def test_a_mask_that_is_looked_at():
    """Whether a mask is causal depends on its data: a graph break with correct results."""
    make, arguments, _ = TRANSFORMERS["encoder"]
    same(Built(make), *arguments, kwargs={"mask": causal(3)}, fullgraph=False)


@pytest.mark.parametrize("kind", every(2, [nn.RNN, nn.LSTM, nn.GRU], 0))
def test_gradients_through_aot_autograd(kind):
    torch.manual_seed(0)
    module, x = kind(3, 4, num_layers=2, bidirectional=True), torch.randn(5, 2, 3)
    module(x)[0].sum().backward()
    expected = [parameter.grad.clone() for parameter in module.parameters()]
    module.zero_grad()
    fullgraph = LSTM_IS_CAPTURED or kind is not nn.LSTM
    stator.compile(module, backend="aot_eager", fullgraph=fullgraph)(x)[0].sum().backward()
    assert torch.backends.mkldnn.enabled
    for gradient, parameter in zip(expected, module.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_a_compiler_gets_the_operations_of_attention():
    """Uncompiled one kernel computes the layer; a graph that Stator runs calls it, and a compiler gets its parts."""
    attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x = torch.rand(2, 3, 8)
    targets = []

    def backend(graph_module, _):
        targets.extend(node.target for node in graph_module.graph.nodes)
        return graph_module

    with torch.no_grad():
        expected, weights = attention(x, x, x)
        for compiled in (stator.compile(attention), stator.compile(attention, backend=backend)):
            for _ in range(2):
                result, found = compiled(x, x, x)
                torch.testing.assert_close((result, found), (expected, weights))
                assert result.stride() == expected.stride()
    assert targets and torch._native_multi_head_attention not in targets
