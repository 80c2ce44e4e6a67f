/// Several tensors into one: cat, stack and their kin.
#include "shape/registry.h"
#include "shape/strides.h"
#include "torch/dtypes.h"

namespace stator::shape {

namespace {

std::optional<std::vector<const TensorMeta*>> tensors_of(const Operand& operand) {
    if (!operand.is_sequence()) return std::nullopt;
    std::vector<const TensorMeta*> tensors;
    for (const Operand& item : operand.items()) {
        if (item.tensor() == nullptr) return std::nullopt;
        tensors.push_back(item.tensor());
    }
    if (tensors.empty()) return std::nullopt;
    return tensors;
}

std::optional<Dtype> joined_type(const std::vector<const TensorMeta*>& tensors) {
    Dtype type = tensors.front()->dtype;
    for (const TensorMeta* tensor : tensors) {
        if (tensor->device != tensors.front()->device) return std::nullopt;
        // Among different types those without dimensions count for less; that is left to the fallback.
        if (tensor->dtype != type && tensor->sizes.empty()) return std::nullopt;
        type = torch_room::promote(type, tensor->dtype);
    }
    return type;
}

bool cat(Call& call) {
    auto tensors = tensors_of(call[0]);
    auto where = call[1].integer_or(0);
    if (!tensors || !where) return false;
    auto type = joined_type(*tensors);
    const TensorMeta& first = *tensors->front();
    if (!type || first.sizes.empty()) return false;
    auto dimension = wrap_dimension(*where, first.dimensions());
    if (!dimension) return false;
    Dims sizes = first.sizes;
    bool all_channels_last = true;
    sizes[*dimension] = 0;
    for (const TensorMeta* tensor : *tensors) {
        // An empty vector is skipped among tensors of any shape, for old times' sake.
        if (tensor->dimensions() == 1 && tensor->sizes[0] == 0) return false;
        if (tensor->dimensions() != first.dimensions()) return false;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            if (i != *dimension && tensor->sizes[i] != first.sizes[i]) return false;
        sizes[*dimension] += tensor->sizes[*dimension];
        all_channels_last = all_channels_last && is_like_channels_last(tensor->sizes, tensor->strides);
    }
    Dims strides = all_channels_last ? channels_last_strides(sizes) : contiguous_strides(sizes);
    return call.returns(call.fresh(std::move(sizes), std::move(strides), *type, first.device), call.records(*tensors));
}

bool stack(Call& call) {
    auto tensors = tensors_of(call[0]);
    auto where = call[1].integer_or(0);
    if (!tensors || !where) return false;
    auto type = joined_type(*tensors);
    const TensorMeta& first = *tensors->front();
    auto dimension = wrap_dimension(*where, first.dimensions() + 1);
    if (!type || !dimension) return false;
    bool plain = true;
    for (const TensorMeta* tensor : *tensors) {
        if (tensor->sizes != first.sizes) return false;
        plain = plain && is_contiguous(tensor->sizes, tensor->strides);
    }
    if (!plain) return false;
    Dims sizes = first.sizes;
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(*dimension),
                 Dim(static_cast<std::int64_t>(tensors->size())));
    return call.returns(call.fresh(std::move(sizes), *type, first.device), call.records(*tensors));
}

}  // namespace

void add_joining_rules(Registry& registry) {
    registry.add("torch.cat torch.concat torch.concatenate", "tensors dim?", cat);
    registry.add("torch.stack", "tensors dim?", stack);
}

}  // namespace stator::shape
