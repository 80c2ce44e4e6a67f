/// Elements selected by index tensors: embedding, gather, index_select; and assignment to a part.
#include <algorithm>

#include "shape/language/index.h"
#include "shape/language/registry.h"
#include "shape/language/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

using namespace torch_room::dtype;

bool is_index(const TensorMeta* tensor, const TensorMeta& like) {
    return tensor != nullptr && (tensor->dtype == kLong || tensor->dtype == kInt) && tensor->device == like.device;
}

/// `F.embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)`.
bool embedding(Call& call) {
    const TensorMeta *input = call[0].tensor(), *weight = call[1].tensor();
    if (input == nullptr || weight == nullptr || weight->dimensions() != 2 || !is_index(input, *weight)) return false;
    if (!torch_room::is_floating(weight->dtype) || !call[3].is_absent()) return false;
    if (!call[2].is_absent()) {
        auto padding = call[2].integer();
        if (!padding || *padding >= weight->sizes[0] || *padding < Dim(0) - weight->sizes[0]) return false;
    }
    if (call[4].is_given() && !call[4].real()) return false;
    if (!call[5].boolean_or(false) || !call[6].boolean_or(false)) return false;
    Dims sizes = input->sizes;
    sizes.push_back(weight->sizes[1]);
    return call.returns(call.fresh(std::move(sizes), weight->dtype, weight->device), call.records({weight}));
}

/// `torch.embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)`.
bool embedding_in_torch(Call& call) {
    if (call[2].is_given() && !call[2].integer()) return false;
    auto& slots = call.slots();
    std::swap(slots[0], slots[1]);
    slots[5] = slots[3];
    slots[6] = slots[4];
    slots[3] = slots[4] = Operand();
    // A negative number means that there is no padding index.
    if (slots[2].is_given() && *slots[2].integer() < 0) slots[2] = Operand();
    return embedding(call);
}

bool gather(Call& call) {
    const TensorMeta *self = call[0].tensor(), *index = call[2].tensor();
    auto where = call[1].integer();
    if (self == nullptr || index == nullptr || !where) return false;
    if (call[3].is_given() && !call[3].boolean()) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    // For an empty index, the other checks are skipped.
    if (dimension && is_plainly_empty(*index) && index->device == self->device)
        return call.returns(call.fresh(index->sizes, self->dtype, self->device), call.records({self}));
    if (!is_index(index, *self)) return false;
    Dims sizes = at_least_one_dimension(self->sizes), places = at_least_one_dimension(index->sizes);
    if (!dimension || sizes.size() != places.size()) return false;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        if (i != *dimension && !require_less_equal(places[i], sizes[i])) return false;
    return call.returns(call.fresh(index->sizes, self->dtype, self->device), call.records({self}));
}

bool index_select(Call& call) {
    const TensorMeta *self = call[0].tensor(), *index = call[2].tensor();
    auto where = call[1].integer();
    if (self == nullptr || !is_index(index, *self) || index->dimensions() > 1 || !where) return false;
    auto dimension = wrap_dimension(*where, self->dimensions());
    if (!dimension) return false;
    Dims sizes = self->sizes;
    if (!sizes.empty()) {
        // Nothing can be selected from an empty dimension.
        if (known_equal(sizes[*dimension], 0)) return false;
        sizes[*dimension] = element_count(index->sizes);
    } else if (element_count(index->sizes) != 1)
        return false;
    return call.returns(call.fresh(std::move(sizes), self->dtype, self->device), call.records({self}));
}

/// Whether a value can be assigned to a part of these sizes.
bool can_assign(const TensorMeta& self, const Dims& sizes, const Operand& value_operand, bool chosen) {
    const TensorMeta* value = value_operand.tensor();
    if (value == nullptr) {
        auto type = value_operand.number_type();
        return type && torch_room::can_cast(*type, self.dtype);
    }
    if (value->device != self.device && !value->sizes.empty()) return false;
    // Assignment to selected elements does not convert.
    if (chosen ? value->dtype != self.dtype || value->device != self.device
               : torch_room::is_complex(value->dtype) && !torch_room::is_complex(self.dtype))
        return false;
    // Leading dimensions of size one of the assigned value are dropped.
    Dims assigned = value->sizes;
    while (!assigned.empty() && assigned.size() > sizes.size() && known_equal(assigned.front(), 1))
        assigned.erase(assigned.begin());
    auto expanded = broadcast(sizes, assigned);
    return expanded && std::ranges::equal(*expanded, sizes, require_equal);
}

/// `x[index] = value`.
bool setitem(Call& call) {
    const TensorMeta *self = call[0].tensor(), *value = call[2].tensor();
    if (self == nullptr) return false;
    Choosers choosers;
    auto part = apply_index(*self, call[1], choosers);
    if (!part) return false;
    for (const auto& chooser : choosers) {
        if (!chooser) continue;
        if (chooser->is_hidden_number) return call.depends_on_contents();
        if (chooser->is_mask) {
            auto selected = sizes_for_mask(*part, choosers, value != nullptr ? value->sizes : Dims());
            if (!selected && call.captures_data_sizes()) break;
            if (!selected || !can_assign(*self, *selected, call[2], value != nullptr)) return false;
            return call.writes(call[0], call.records({self, value}));
        }
    }
    bool chosen = has_chooser(choosers);
    if (chosen) {
        if (call.captures_data_sizes())
            find_positions(choosers, [&](const Operand& mask) { return call.count_of(mask); });
        part = choose_elements(*part, choosers);
        if (!part) return false;
    }
    if (!can_assign(*self, part->sizes, call[2], chosen)) return false;
    return call.writes(call[0], call.records({self, value}));
}

}  // namespace

void add_indexing_rules(Registry& registry) {
    registry.add_neutral("F.embedding", "self weight padding_idx? max_norm? norm_type? scale_grad_by_freq? sparse?",
                         embedding);
    registry.add_neutral("torch.embedding", "weight indices padding_idx? scale_grad_by_freq? sparse?",
                         embedding_in_torch);
    registry.add_neutral("torch.gather Tensor.gather", "self dim index * sparse_grad?", gather);
    registry.add_neutral("torch.index_select Tensor.index_select", "self dim index", index_select);
    registry.add_neutral("operator.setitem Tensor.__setitem__", "self index value", setitem);
}

}  // namespace stator::shape
