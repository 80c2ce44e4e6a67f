#include "capture/undo.h"

#include <algorithm>

namespace stator {

namespace {

/// If a backend runs the graph, or a C function calls user code, there is no alternative: more may be copied.
constexpr std::size_t kMostKeptWithoutOtherWay = std::size_t{1} << 20;

void add_devices(const graph::Result& result, std::vector<torch_room::Device>& devices) {
    if (result.kind == graph::Result::Kind::Tensor &&
        std::ranges::find(devices, result.tensor->device) == devices.end())
        devices.push_back(result.tensor->device);
    for (const graph::Result& item : result.items) add_devices(item, devices);
}

/// The devices on which the graph draws random numbers: those of the filled tensors.
std::vector<torch_room::Device> devices_of_random_numbers(const graph::Graph& graph) {
    std::vector<torch_room::Device> devices;
    for (const graph::Node* node : graph.nodes()) {
        if (!node->is_random) continue;
        add_devices(node->result, devices);
        for_each_input(*node, [&](const graph::Node* input) { add_devices(input->result, devices); });
    }
    return devices;
}

}  // namespace

Undo::Undo(const graph::Graph& graph, std::span<PyObject* const> inputs, std::span<const std::size_t> written)
    : written_(written.begin(), written.end()), bytes_(0), devices_(devices_of_random_numbers(graph)) {
    bool has_attributes = false;
    for (const graph::Node* node : graph.nodes()) {
        is_visible_to_program_ |= node->is_visible_to_program;
        is_lasting_ |= node->is_lasting;
        may_fail_ |= node->may_fail;
        may_fail_behind_effect_ |= is_visible_to_program_ && node->may_fail;
        has_other_way_ &= !is_visible_to_program_ || !node->may_fail || node->held != nullptr;
        has_attributes |= node->kind == graph::NodeKind::Attribute;
    }
    for (std::size_t input : written_)
        if (std::optional<std::size_t> size = torch_room::bytes_to_keep(inputs[input]); size && bytes_)
            *bytes_ += *size;
        else
            bytes_.reset();
    // Attributes of the graph module may be written to as well.
    if (has_attributes) is_lasting_ = true;
}

void Undo::settle(By by) {
    auto fits = [&](std::size_t most) { return bytes_ && *bytes_ <= most; };
    switch (by) {
        case By::Runner:
            // (The runner reports whether an effect came before the failure.)
            is_wanted_ =
                may_fail_behind_effect_ && fits(has_other_way_ ? torch_room::kMostKept : kMostKeptWithoutOtherWay);
            break;
        case By::Backend:
            is_wanted_ = is_visible_to_program_ && !is_lasting_ && (written_.empty() || may_fail_) &&
                         fits(kMostKeptWithoutOtherWay);
            break;
        case By::WritesAtEnd:
            is_wanted_ = is_visible_to_program_ && !is_lasting_;
            with_contents_ = fits(torch_room::kMostKept);
            break;
    }
}

std::unique_ptr<torch_room::KeptState> Undo::keep_now(std::span<PyObject* const> inputs) const {
    auto state = std::make_unique<torch_room::KeptState>(with_contents_ ? bytes_.value_or(0) : 0);
    state->keep_random_numbers(devices_);
    for (std::size_t input : written_) state->keep(inputs[input], with_contents_);
    return state;
}

}  // namespace stator
