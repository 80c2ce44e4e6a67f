/// The functions that `nn.LSTM`, `nn.GRU` and `nn.RNN` call for padded sequences. Without a rule, PyTorch would run
/// them step by step on FakeTensors.
#include <algorithm>

#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

enum Slot : std::size_t {
    kInput,
    kState,
    kWeights,
    kHasBiases,
    kLayers,
    kDropout,
    kTraining,
    kBidirectional,
    kBatchFirst,
};

/// How many gates a cell has: its weights have so many times as many rows as the hidden state has columns.
enum Cell : int { kSimple = 1, kGru = 3, kLstm = 4 };

struct Network {
    Dim length, batch;
    Dim hidden = 0;  // columns of the cell's state
    Dim output = 0;  // columns of what a step returns; less than `hidden` with projections
    std::int64_t layers = 0, directions = 1;
    bool batch_first = false;
};

bool is_like(const TensorMeta* tensor, const TensorMeta& input, const Dims& sizes) {
    return tensor != nullptr && tensor->sizes == sizes && tensor->dtype == input.dtype &&
           tensor->device == input.device;
}

std::optional<Network> network_of(const Call& call) {
    const TensorMeta* input = call[kInput].tensor();
    auto layers = call[kLayers].integer();
    auto bidirectional = call[kBidirectional].boolean(), batch_first = call[kBatchFirst].boolean();
    auto training = call[kTraining].boolean();
    auto dropout = call[kDropout].real();
    if (input == nullptr || input->dimensions() != 3 || !torch_room::is_floating(input->dtype) || !is_on_cpu(*input) ||
        is_known_empty(input->sizes) || !layers || !layers->is_constant() || layers->value() < 1 || !bidirectional ||
        !batch_first || !training || !dropout || (*training && *dropout != 0))
        return std::nullopt;
    Network network;
    network.length = input->sizes[*batch_first ? 1 : 0];
    network.batch = input->sizes[*batch_first ? 0 : 1];
    network.layers = layers->value();
    network.directions = *bidirectional ? 2 : 1;
    network.batch_first = *batch_first;
    return network;
}

/// The weights of each layer and direction, in PyTorch's order; false if they don't fit. Sets the widths of the
/// network.
bool take_weights(const Call& call, Cell cell, Network& network, std::vector<const TensorMeta*>& weights) {
    const TensorMeta& input = *call[kInput].tensor();
    auto has_biases = call[kHasBiases].boolean();
    if (!has_biases || !call[kWeights].is_sequence()) return false;
    for (const Operand& weight : call[kWeights].items()) weights.push_back(weight.tensor());
    const auto cells = static_cast<std::size_t>(network.layers * network.directions);
    const std::size_t plain = *has_biases ? 4 : 2;
    const bool projects = cell == kLstm && weights.size() == cells * (plain + 1);
    const std::size_t each = plain + (projects ? 1 : 0);
    if (weights.size() != cells * each || weights[1] == nullptr || weights[1]->dimensions() != 2) return false;
    network.output = weights[1]->sizes[1];
    network.hidden = network.output;
    if (projects) {
        const TensorMeta* projection = weights[each - 1];
        if (projection == nullptr || projection->dimensions() != 2) return false;
        network.hidden = projection->sizes[1];
    }
    const Dim rows = network.hidden * static_cast<std::int64_t>(cell);
    for (std::size_t i = 0; i < cells; ++i) {
        const bool is_first = i < static_cast<std::size_t>(network.directions);
        const Dim columns = is_first ? input.sizes[2] : network.output * network.directions;
        const TensorMeta* const* own = &weights[i * each];
        if (!is_like(own[0], input, {rows, columns}) || !is_like(own[1], input, {rows, network.output})) return false;
        if (*has_biases && (!is_like(own[2], input, {rows}) || !is_like(own[3], input, {rows}))) return false;
        if (projects && !is_like(own[each - 1], input, {network.output, network.hidden})) return false;
    }
    return true;
}

/// The tensors of the first state: one, and that of the cells of an LSTM.
bool take_states(const Call& call, Cell cell, const Network& network, std::vector<const TensorMeta*>& states) {
    const TensorMeta& input = *call[kInput].tensor();
    if (cell != kLstm) {
        states.push_back(call[kState].tensor());
    } else {
        if (!call[kState].is_sequence()) return false;
        for (const Operand& state : call[kState].items()) states.push_back(state.tensor());
        if (states.size() != 2) return false;
    }
    const Dim cells = network.layers * network.directions;
    if (!is_like(states[0], input, {cells, network.batch, network.output})) return false;
    return cell != kLstm || is_like(states[1], input, {cells, network.batch, network.hidden});
}

bool recurrent(Call& call) {
    const auto cell = static_cast<Cell>(call.variant());
    auto network = network_of(call);
    std::vector<const TensorMeta*> weights, states;
    if (!network || !take_weights(call, cell, *network, weights) || !take_states(call, cell, *network, states))
        return false;
    const TensorMeta& input = *call[kInput].tensor();
    const bool needs_all = std::ranges::all_of(weights, [](const TensorMeta* weight) { return weight->requires_grad; });
    const bool recorded = call.records({&input}) || call.records(weights) || call.records(states);
    // With some weights frozen, not every result depends on one that is not.
    if (recorded && !input.requires_grad && !needs_all) return false;

    const Dim width = network->output * network->directions;
    TensorMeta output = network->batch_first
                            ? call.fresh({network->batch, network->length, width}, {width, network->batch * width, 1},
                                         input.dtype, input.device)
                            : call.fresh({network->length, network->batch, width}, input.dtype, input.device);
    std::vector<TensorMeta> results{std::move(output)};
    for (const TensorMeta* state : states) results.push_back(call.fresh(state->sizes, input.dtype, input.device));
    return call.returns_several(std::move(results), std::vector<bool>(1 + states.size(), recorded));
}

}  // namespace

void add_recurrent_rules(Registry& registry) {
    constexpr const char* kSignature = "input hx params has_biases num_layers dropout train bidirectional batch_first";
    registry.add("_VF.lstm", kSignature, recurrent, kLstm);
    registry.add("_VF.gru", kSignature, recurrent, kGru);
    registry.add("_VF.rnn_tanh _VF.rnn_relu", kSignature, recurrent, kSimple);
}

}  // namespace stator::shape
